// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text is written with: errors, element types, checked sizes, and views of tensors.
// No standard C++ headers: they would cost more time than the text itself.
#pragma once

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "device/host/engine.h"

namespace codetta::host {

// What an exported function returns. The header of every library documents these numbers.
enum Status : i32 {
  ok = 0,
  bad_argument = -1,  // null, misaligned, a negative size, another dtype or rank
  bad_sizes = -2,     // sizes contradict each other or what the code relies on
  bad_overlap = -3,   // an output shares memory with another tensor, or with itself
  no_memory = -4,
  bad_workspace = -5,  // the caller's workspace is too small or misaligned
  wrong_machine = -6,  // the processor lacks the instruction set; no GPU, driver or device of the right kind
  bad_weights = -7,    // the file of the weights is missing, damaged, or of another program
  gpu_failed = -8,     // a call of the GPU's driver failed
  bad_extern = -9,     // a function of the caller's that is missing, that failed, or whose results are of another form
};

inline constexpr i32 max_rank = 8;
inline constexpr i64 int64_max = 0x7fffffffffffffff;

// The calling thread's last error. Written by whatever fails, never cleared by success.
inline thread_local char error_text[1024] = "";
// Whether a call of this thread failed while it measured, before anything was enqueued, only for what other kernels
// need not rely on: how tensors lie (their alignment, elements apart), or sizes that are not 0. Reset where it is
// asked.
inline thread_local bool unaligned = false;

__attribute__((format(printf, 2, 3))) inline Status fail(Status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error_text, sizeof error_text, format, arguments);
  va_end(arguments);
  return status;
}

// Leaves the function with the status of what failed.
#define CODETTA_OK(call)                                                                                         \
  do {                                                                                                           \
    if (const ::codetta::host::Status bad_status = (call); bad_status != ::codetta::host::ok) return bad_status; \
  } while (false)

// ---- element types ----
// By the numbers of DType, which are part of file formats.
inline constexpr i32 dtype_count = 15;
inline const char* dtype_name(i32 dtype) {
  static const char* const names[dtype_count] = {"bool", "i8",     "i16",    "i32", "i64",  "u8",  "u16", "u32",
                                                 "u64",  "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"};
  return dtype >= 0 && dtype < dtype_count ? names[dtype] : "unknown";
}
inline i64 dtype_bytes(i32 dtype) {
  static const u8 bytes[dtype_count] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 2, 2, 4, 8};
  return dtype >= 0 && dtype < dtype_count ? bytes[dtype] : 1;
}

// ---- sizes ----
// A 64-bit integer that remembers when it could not be said.
struct Number {
  i64 value = 0;
  bool bad = false;
  bool unset = false;

  Number() = default;
  Number(i64 v) : value(v) {}  // NOLINT: sizes read like numbers
  static Number none() {
    Number n;
    n.bad = n.unset = true;
    return n;
  }
};
inline Number with(i64 value, bool bad) {
  Number n(value);
  n.bad = bad;
  return n;
}
inline Number operator+(Number a, Number b) {
  i64 v = 0;
  const bool over = __builtin_add_overflow(a.value, b.value, &v);
  return with(v, over || a.bad || b.bad);
}
inline Number operator*(Number a, Number b) {
  i64 v = 0;
  const bool over = __builtin_mul_overflow(a.value, b.value, &v);
  return with(v, over || a.bad || b.bad);
}
// Python's // and %, rounding toward minus infinity.
inline Number floordiv(Number a, Number b) {
  if (a.bad || b.bad || b.value == 0 || (b.value == -1 && a.value == -int64_max - 1)) return with(0, true);
  const i64 q = a.value / b.value;
  return with(q - (a.value % b.value != 0 && (a.value < 0) != (b.value < 0)), false);
}
inline Number mod(Number a, Number b) {
  const Number q = floordiv(a, b);
  return q.bad ? q : with(a.value - q.value * b.value, false);
}
inline Number min(Number a, Number b) { return with(a.value < b.value ? a.value : b.value, a.bad || b.bad); }
inline Number max(Number a, Number b) { return with(a.value > b.value ? a.value : b.value, a.bad || b.bad); }
inline Number round_up(Number a, i64 unit) { return floordiv(a + Number(unit - 1), Number(unit)) * Number(unit); }

// ---- views ----
struct View {
  char* data = nullptr;
  i32 dtype = 0;
  i32 rank = 0;
  i64 size[max_rank] = {};
  i64 stride[max_rank] = {};  // elements

  bool empty() const {
    for (i32 i = 0; i < rank; ++i) {
      if (size[i] == 0) return true;
    }
    return false;
  }
  // Counted from the last dim; 1 where the view lacks it.
  i64 size_from_last(i32 i) const { return i < rank ? size[rank - 1 - i] : 1; }
  i64 stride_from_last(i32 i) const { return i < rank ? stride[rank - 1 - i] : 0; }
  // How far the next element along this dim is; 0 where there is none.
  i64 step(i32 from_last) const {
    const i32 dim = rank - 1 - from_last;
    return dim < 0 || size[dim] == 1 ? 0 : stride[dim];
  }
};

// "f32[2, 3]", in one of a few buffers of the thread that it keeps for this.
inline const char* describe(const View& view) {
  static thread_local char texts[4][160];
  static thread_local unsigned next = 0;
  char* text = texts[next++ % 4];
  int at = snprintf(text, sizeof texts[0], "%s[", dtype_name(view.dtype));
  for (i32 i = 0; i < view.rank && at < 140; ++i)
    at += snprintf(text + at, sizeof texts[0] - static_cast<u64>(at), "%s%lld", i == 0 ? "" : ", ",
                   static_cast<long long>(view.size[i]));
  snprintf(text + at, sizeof texts[0] - static_cast<u64>(at), "]");
  return text;
}

// Bytes that a view spans fit in 63 bits, sizes are not negative, data is there and aligned.
inline Status check_memory(const View& view, const char* name) {
  Number reach(dtype_bytes(view.dtype)), count(1);
  for (i32 i = 0; i < view.rank; ++i) {
    if (view.size[i] < 0)
      return fail(bad_argument, "E0602: dimension %d of %s has the negative size %lld", i, name,
                  static_cast<long long>(view.size[i]));
  }
  if (view.empty()) return ok;
  for (i32 i = 0; i < view.rank; ++i) {
    const Number step = Number(view.stride[i]) * Number(view.size[i] - 1) * Number(dtype_bytes(view.dtype));
    reach = reach + (step.value < 0 ? step * Number(-1) : step);
    count = count * Number(view.size[i]);
  }
  if (reach.bad || (count * Number(dtype_bytes(view.dtype))).bad)
    return fail(bad_argument, "E0603: the extent of %s, %s, exceeds 2^63 bytes", name, describe(view));
  if (view.data == nullptr) return fail(bad_argument, "E0604: %s is null; it has to be %s", name, describe(view));
  const u64 address = reinterpret_cast<u64>(view.data);
  if (address % static_cast<u64>(dtype_bytes(view.dtype)) != 0)
    return fail(bad_argument,
                "E0605: %s is misaligned: its address ends in %d (modulo 64), and %s needs multiples of %d", name,
                static_cast<int>(address % 64), dtype_name(view.dtype), static_cast<int>(dtype_bytes(view.dtype)));
  return ok;
}

// A row-major tensor of these sizes. `strides` may give others.
inline Status bind(View& view, const void* data, i32 dtype, const Number* sizes, i32 rank, const char* name,
                   const Number* strides = nullptr) {
  view = View();
  view.data = static_cast<char*>(const_cast<void*>(data));
  view.dtype = dtype;
  view.rank = rank;
  Number step(1);
  for (i32 i = rank; i-- > 0;) {
    if (sizes[i].bad) return fail(bad_sizes, "E0610: the size of dimension %d of %s has no value", i, name);
    view.size[i] = sizes[i].value;
    if (strides != nullptr && strides[i].bad) return fail(bad_sizes, "E0610: a stride of %s has no value", name);
    view.stride[i] = strides != nullptr ? strides[i].value : step.value;
    step = step * sizes[i];
  }
  return check_memory(view, name);
}

inline Extent extent_of(const View& view) {
  return {view.data, dtype_bytes(view.dtype), view.rank, view.size, view.stride};
}

// An address for views of which only the sizes matter.
inline void* unplaced() { return reinterpret_cast<void*>(static_cast<u64>(4096)); }

// A tensor as the header of a library declares it (NAME_tensor).
struct Tensor {
  void* data;
  i32 dtype;
  i32 rank;
  i64 shape[max_rank];
  i64 strides[max_rank];  // elements
};

inline Status check_count(const Tensor* tensors, i32 count, i32 wanted) {
  if (tensors == nullptr && wanted != 0) return fail(bad_argument, "E0604: the list of tensors is null");
  if (count == wanted) return ok;
  return fail(bad_argument, "E0208: %d tensors are given, and the program takes %d", count, wanted);
}

// A size that chooses between kernels: of a dim counted from the last one, since others of size 1 may stand in front. 0
// where a call names no such tensor or dim, which the program that is chosen says.
inline i64 size_in(const Tensor* tensors, i32 count, i32 tensor, i32 from_last) {
  if (tensors == nullptr || tensor >= count) return 0;
  const Tensor& one = tensors[tensor];
  return from_last < one.rank && one.rank <= max_rank ? one.shape[one.rank - 1 - from_last] : 0;
}

inline Status take_tensor(View& view, const Tensor& tensor, const char* name) {
  if (tensor.rank < 0 || tensor.rank > max_rank)
    return fail(bad_argument, "E0601: %s has %d dimensions; 0 to %d are possible", name, tensor.rank, max_rank);
  if (tensor.dtype < 0 || tensor.dtype >= dtype_count)
    return fail(bad_argument, "E0607: %s has the element type %d, and there is none of that number", name,
                tensor.dtype);
  view.data = static_cast<char*>(tensor.data);
  view.dtype = tensor.dtype;
  view.rank = tensor.rank;
  memcpy(view.size, tensor.shape, sizeof view.size);
  memcpy(view.stride, tensor.strides, sizeof view.stride);
  return check_memory(view, name);
}

inline Status take_scalar(void* value, u64 bytes, const Tensor& tensor, i32 dtype, const char* name) {
  if (tensor.rank != 0 || tensor.dtype != dtype)
    return fail(bad_argument, "E0610: %s does not fit: it has to be a tensor of rank 0 of %s", name, dtype_name(dtype));
  if (tensor.data == nullptr) return fail(bad_argument, "E0604: %s is null", name);
  memcpy(value, tensor.data, bytes);
  return ok;
}

}  // namespace codetta::host
