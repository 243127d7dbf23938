// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text includes where it calls functions of the caller's or kernels of the user's: tensors as
// codetta/extern.h has them.
#pragma once

#include "device/host/support.h"

namespace codetta::host {

// CodettaTensor.
struct ExternTensor {
  void* data;
  i64 shape[max_rank];
  i64 strides[max_rank];
  i32 rank, dtype, device, reserved;
  void (*release)(ExternTensor* tensor);
  void* owner;
};
using ExternFunction = int (*)(void* context, const ExternTensor* inputs, int input_count, ExternTensor* outputs,
                               int output_count);

// A function of the caller's, by the name that programs call it by.
struct Extern {
  const char* name;
  ExternFunction function;  // null: not set yet
  void* context;
};

inline Status set_extern(Extern& one, ExternFunction function, void* context) {
  one.function = function;
  one.context = context;
  return ok;
}

inline Status check_extern(const Extern& one, const char* setter) {
  if (one.function != nullptr) return ok;
  return fail(bad_extern, "E0616: external function %s is not provided; pass it to %s", one.name, setter);
}

inline ExternTensor extern_tensor(const View& view) {
  ExternTensor tensor{};
  tensor.data = view.data;
  tensor.rank = view.rank;
  tensor.dtype = view.dtype;
  memcpy(tensor.shape, view.size, sizeof tensor.shape);
  memcpy(tensor.strides, view.stride, sizeof tensor.strides);
  return tensor;
}

// A number as a tensor of rank 0, whose element is made at `place`.
inline ExternTensor extern_number(const cpu::ScalarValue& value, i32 dtype, u64* place) {
  ExternTensor tensor{};
  tensor.data = place;
  tensor.dtype = dtype;
  *place = value.u;  // of integers the low bytes
  if (dtype == 13) memcpy(place, &value.f, sizeof value.f);
  if (dtype == 14) memcpy(place, &value.d, sizeof value.d);
  if (dtype >= 9 && dtype <= 12) codetta_engine_store(dtype, place, value.f);
  return tensor;
}

inline Status call_extern(const Extern& one, const ExternTensor* inputs, int input_count, ExternTensor* outputs,
                          int output_count) {
  const int code = one.function(one.context, inputs, input_count, outputs, output_count);
  if (code == 0) return ok;
  return fail(bad_extern, "E0617: external function %s failed: it returned %d", one.name, code);
}

inline Status user_status(int code, const char* name) {
  if (code == 0) return ok;
  return fail(bad_extern, "E0617: kernel %s failed: it returned %d", name, code);
}

// Tensors that a function has allocated: given back with their scope, or before by whoever no longer needs one.
template <i32 count>
struct ExternResults {
  ExternTensor tensors[count] = {};

  ExternResults() = default;
  ExternResults(const ExternResults&) = delete;
  ExternResults& operator=(const ExternResults&) = delete;
  ~ExternResults() { release_all(); }
  void release_all() {
    for (i32 i = 0; i < count; ++i) release(i);
  }
  void release(i32 i) {
    auto* give = tensors[i].release;
    tensors[i].release = nullptr;
    if (give != nullptr) give(&tensors[i]);
  }
};

// A size, or a stride, of a result of a function.
inline Status size_of_output(const ExternTensor& result, i32 output, i32 dim, bool stride, i64& size) {
  if (dim >= result.rank || dim >= max_rank)
    return fail(bad_extern, "E0610: output %d of a function has no dim %d: it has %d dims", static_cast<int>(output),
                static_cast<int>(dim), static_cast<int>(result.rank));
  size = stride ? result.strides[dim] : result.shape[dim];
  return ok;
}

// `view` is a result of a function, which has to be what the program declares; while sizes are measured it lies
// nowhere.
inline Status select_output(const Frame& frame, View& view, const ExternTensor& result, i32 dtype, const Number* sizes,
                            i32 rank, const char* name) {
  CODETTA_OK(bind(view, unplaced(), dtype, sizes, rank, name));
  if (!frame.running) return ok;
  bool same = result.rank == rank && result.dtype == dtype;
  for (i32 i = 0; same && i < rank; ++i) same = result.shape[i] == view.size[i];
  if (!same)
    return fail(bad_extern, "E0610: %s is not what the program declares, %s: the function gives %s of %d dims", name,
                describe(view), dtype_name(result.dtype), static_cast<int>(result.rank));
  view.data = static_cast<char*>(result.data);
  memcpy(view.stride, result.strides, sizeof view.stride);
  return check_memory(view, name);
}

}  // namespace codetta::host
