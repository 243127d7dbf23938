// SPDX-License-Identifier: Apache-2.0
// Weights of a library for a CPU: those of the file, and forms of them that its kernels read best.
#pragma once

#include "device/host/library.h"
#include "device/host/safetensors.h"

namespace codetta::host {

// B in the form that the kernel reads best, kept as long as the weights.
inline Status pack_weight(const void** packed, const GemmConfig& config, const Gemm& gemm) {
  const i64 bytes = codetta_engine_packed_size(&config, &gemm);
  *packed = nullptr;
  if (bytes == 0) return ok;
  void* memory = weights.keep(bytes);
  if (memory == nullptr)
    return fail(no_memory, "E0606: no memory for packed weights, %lld bytes", static_cast<long long>(bytes));
  const Threads threads = current_threads();
  codetta_engine_pack(&config, &gemm, &threads, memory);
  *packed = memory;
  return ok;
}

}  // namespace codetta::host
