// SPDX-License-Identifier: Apache-2.0
// Constants of an emitted library for Metal: they lie in safetensors files beside it, and are copied into buffers of
// the device once, when the library starts.
#pragma once

#include "device/host/metal.h"
#include "device/host/safetensors.h"

namespace codetta::host {

// One of them as the file has it.
struct MetalConstant {
  const char* name;
  i32 dtype, rank;
  i64 sizes[max_rank];
  i32 file;  // 0: the one that was written with the library; 1: the one that the program's weights came from
};
// By MetalConstant::file, beside the library; null: there is no such file.
struct MetalFiles {
  const char* names[2];
};

inline Status load_constant(MetalTensor& to, const MetalConstant& constant, i32 index) {
  View view;
  CODETTA_OK(load_weight(view, constant.name, constant.dtype, constant.sizes, constant.rank));
  Number bytes(dtype_bytes(constant.dtype));
  for (i32 i = 0; i < constant.rank; ++i) bytes = bytes * Number(constant.sizes[i]);
  // Buffers of nothing do not exist. Both processors read this one, so that no copy is kept of it.
  const u64 length = static_cast<u64>(at_least(bytes.value, 16));
  id<MTLBuffer> buffer = [metal.device newBufferWithLength:length options:MTLResourceStorageModeShared];
  if (buffer == nil)
    return fail(no_memory, "E0606: no memory on %s for the constant %s, %lld bytes", [[metal.device name] UTF8String],
                constant.name, static_cast<long long>(bytes.value));
  memcpy([buffer contents], view.data, static_cast<size_t>(bytes.value));
  char key[32];
  snprintf(key, sizeof key, "constant %d", index);
  [metal.kept setObject:buffer forKey:[NSString stringWithUTF8String:key]];
  to = {(__bridge void*)buffer, 0};
  return ok;
}

inline bool constants_loaded() {
  const MetalLock locked;
  return metal.loaded;
}

// Once; start_metal() has been here. `path`: of the weights; null for the file beside the library.
inline Status load_constants(MetalTensor* to, const MetalConstant* constants, i32 count, const MetalFiles& files,
                             const char* path) {
  const MetalLock locked;
  if (metal.loaded) return ok;
  for (i32 f = 0; f < 2; ++f) {
    if (files.names[f] == nullptr) continue;
    CODETTA_OK(open_weights(f == 1 ? path : nullptr, files.names[f]));
    for (i32 i = 0; i < count; ++i) {
      if (constants[i].file != f) continue;
      if (const Status bad = load_constant(to[i], constants[i], i); bad != ok) {
        weights.close();
        return bad;
      }
    }
    weights.close();
  }
  metal.loaded = true;
  return ok;
}

}  // namespace codetta::host
