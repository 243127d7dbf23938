// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text includes where a program writes at indices or checks them: docs/semantics.md says what an
// index means. Of equal places the last value in row-major order stays.
#pragma once

#include "device/host/support.h"

namespace codetta::host {

enum class Combine : i32 { none = 0, sum = 1, product = 2, min = 3, max = 4 };  // by the numbers of ScatterReduce

inline i64 integer_at(const View& view, i64 offset) {
  View one;
  one.data = view.data + offset * dtype_bytes(view.dtype);
  one.dtype = view.dtype;
  const i64 value = integer_in(one, false);
  return view.dtype == 8 && value < 0 ? int64_max : value;  // u64 beyond 63 bits
}

inline Status bad_index(const View& view, i64 value, const i64* at, i64 size, const char* name) {
  char place[120] = "";
  i64 used = 0;
  for (i32 i = 0; i < view.rank && used < 100; ++i) {
    used += snprintf(place + used, sizeof place - static_cast<u64>(used), "%s%lld", i == 0 ? "" : ", ",
                     static_cast<long long>(at[i]));
  }
  return fail(bad_argument, "E0618: index %lld is out of range for the size %lld; it stands at [%s] of %s",
              static_cast<long long>(value), static_cast<long long>(size), place, name);
}

inline Status check_indices(const View& view, Number size, const char* name) {
  if (size.bad) return fail(bad_sizes, "E0610: the size that %s indexes has no value", name);
  Status status = ok;
  for_elements(view, [&](char* element, const i64* at) {
    const i64 value = integer_at(view, (element - view.data) / dtype_bytes(view.dtype));
    if (status == ok && (value < 0 || value >= size.value)) status = bad_index(view, value, at, size.value, name);
  });
  return status;
}

template <class T>
inline void combine_as(char* target, const char* source, Combine how) {
  T a, b;
  memcpy(&a, target, sizeof a);
  memcpy(&b, source, sizeof b);
  if (how == Combine::sum) {
    a = static_cast<T>(a + b);
  } else if (a != a || b != b) {  // NaN
    a = static_cast<T>(a + b);
  } else if (how == Combine::min) {
    a = b < a ? b : a;
  } else {
    a = a < b ? b : a;
  }
  memcpy(target, &a, sizeof a);
}

// f32, f64 and integers; sums of integers wrap.
inline void combine(i32 dtype, char* target, const char* source, Combine how) {
  if (how == Combine::none) {
    memcpy(target, source, static_cast<u64>(dtype_bytes(dtype)));
    return;
  }
  const bool wraps = how == Combine::sum;
  switch (dtype) {
    case 1:
      return wraps ? combine_as<u8>(target, source, how) : combine_as<codetta::cpu::i8>(target, source, how);
    case 2:
      return wraps ? combine_as<codetta::cpu::u16>(target, source, how)
                   : combine_as<codetta::cpu::i16>(target, source, how);
    case 3:
      return wraps ? combine_as<codetta::cpu::u32>(target, source, how) : combine_as<i32>(target, source, how);
    case 4:
      return wraps ? combine_as<u64>(target, source, how) : combine_as<i64>(target, source, how);
    case 5:
      return combine_as<u8>(target, source, how);
    case 6:
      return combine_as<codetta::cpu::u16>(target, source, how);
    case 7:
      return combine_as<codetta::cpu::u32>(target, source, how);
    case 8:
      return combine_as<u64>(target, source, how);
    case 13:
      return combine_as<float>(target, source, how);
    default:
      return combine_as<double>(target, source, how);
  }
}

// The place that an index means, -1: it is out of range, which is an error where runs are checked.
inline i64 place_of(i64 index, i64 size, bool is_checked) {
  if (index >= 0 && index < size) return index;
  return is_checked || size == 0 ? -1 : index < 0 ? 0 : size - 1;
}

// target[index[s], rest] = values[s, rest], for every place s of the index.
inline Status index_put(const View& target, const View& index, const View& values, Combine how, bool is_checked,
                        const char* name) {
  const i64 bytes = dtype_bytes(target.dtype);
  bool fits = values.rank == index.rank + target.rank - 1;
  for (i32 i = 0; fits && i < values.rank; ++i)
    fits = values.size[i] == (i < index.rank ? index.size[i] : target.size[i - index.rank + 1]);
  if (!fits) return fail(bad_sizes, "E0610: what is put at %s has another shape", name);
  if (is_checked && values.empty()) return check_indices(index, Number(target.size[0]), name);
  Status status = ok;
  for_elements(values, [&](char* element, const i64* at) {
    if (status != ok) return;
    i64 from = 0, to = 0;
    for (i32 i = 0; i < index.rank; ++i) from += at[i] * index.stride[i];
    const i64 value = integer_at(index, from), place = place_of(value, target.size[0], is_checked);
    if (place < 0) {
      status = bad_index(index, value, at, target.size[0], name);
      return;
    }
    to = place * target.stride[0];
    for (i32 i = 1; i < target.rank; ++i) to += at[index.rank + i - 1] * target.stride[i];
    combine(target.dtype, target.data + to * bytes, element, how);
  });
  return status;
}

// target[p with p[dim] = index[p]] = source[p], for every place p of the index.
inline Status scatter(const View& target, const View& index, const View& source, i32 dim, Combine how, bool is_checked,
                      const char* name) {
  const i64 bytes = dtype_bytes(target.dtype);
  for (i32 i = 0; i < index.rank; ++i) {
    if (index.size[i] > source.size[i] || (i != dim && index.size[i] > target.size[i]))
      return fail(bad_sizes, "E0610: %s is larger than what it indexes", name);
  }
  Status status = ok;
  for_elements(index, [&](char* element, const i64* at) {
    if (status != ok) return;
    const i64 value = integer_at(index, (element - index.data) / dtype_bytes(index.dtype));
    const i64 place = place_of(value, target.size[dim], is_checked);
    if (place < 0) {
      status = bad_index(index, value, at, target.size[dim], name);
      return;
    }
    i64 from = 0, to = 0;
    for (i32 i = 0; i < index.rank; ++i) {
      from += at[i] * source.stride[i];
      to += (i == dim ? place : at[i]) * target.stride[i];
    }
    combine(target.dtype, target.data + to * bytes, source.data + from * bytes, how);
  });
  return status;
}

}  // namespace codetta::host
