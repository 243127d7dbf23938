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
  const i64 value = integer_in(one);
  return view.dtype == 8 && value < 0 ? int64_max : value;  // u64 beyond 63 bits
}

// "2, 3": where an element stands.
struct PlaceText {
  char text[120] = "";
  PlaceText(const View& view, const i64* at) {
    i64 used = 0;
    for (i32 i = 0; i < view.rank && used < 100; ++i) {
      used += snprintf(text + used, sizeof text - static_cast<u64>(used), "%s%lld", i == 0 ? "" : ", ",
                       static_cast<long long>(at[i]));
    }
  }
};

inline Status bad_index(const View& view, i64 value, const i64* at, i64 size, const char* name) {
  return fail(bad_argument, "E0618: index %lld is out of range for the size %lld; it stands at [%s] of %s",
              static_cast<long long>(value), static_cast<long long>(size), PlaceText(view, at).text, name);
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

// The exponent of NaN and infinities, and the fraction, which infinities have 0 of. f8e4m3 has NaN alone: all ones.
struct FloatBits {
  u64 exponent, fraction;
};
inline FloatBits bits_of_float(i32 dtype) {
  switch (dtype) {
    case 9:  // f8e4m3
      return {0x7F, 0};
    case 10:  // f8e5m2
      return {0x7C, 0x3};
    case 11:  // f16
      return {0x7C00, 0x3FF};
    case 12:  // bf16
      return {0x7F80, 0x7F};
    case 13:  // f32
      return {0x7F800000, 0x7FFFFF};
    default:  // f64
      return {0x7FF0000000000000, 0xFFFFFFFFFFFFF};
  }
}
// `why`: the step that has made the tensor, or "".
inline Status check_numbers(const View& view, bool infinity_too, const char* name, const char* why) {
  const FloatBits form = bits_of_float(view.dtype);
  const u64 bytes = static_cast<u64>(dtype_bytes(view.dtype));
  Status status = ok;
  for_elements(view, [&](char* element, const i64* at) {
    u64 bits = 0;
    memcpy(&bits, element, bytes);
    if (status != ok || (bits & form.exponent) != form.exponent) return;
    const bool is_nan = form.fraction == 0 || (bits & form.fraction) != 0;
    if (!is_nan && !infinity_too) return;
    status = fail(bad_argument, "E0619: %s holds %s; it stands at [%s]%s%s", name, is_nan ? "NaN" : "an infinity",
                  PlaceText(view, at).text, why[0] == '\0' ? "" : "; made by ", why);
  });
  return status;
}

inline bool is_narrow_float(i32 dtype) { return dtype >= 9 && dtype <= 12; }

template <class T>
inline T combined(T a, T b, Combine how) {
  switch (how) {
    case Combine::sum:
      return static_cast<T>(a + b);
    case Combine::product:
      return static_cast<T>(a * b);
    case Combine::none:
      return b;
    default:
      break;
  }
  if (a != a || b != b) return static_cast<T>(a + b);  // NaN
  if (how == Combine::min) return b < a ? b : a;
  return a < b ? b : a;
}
template <class T>
inline void combine_as(char* target, const char* source, Combine how) {
  T a, b;
  memcpy(&a, target, sizeof a);
  memcpy(&b, source, sizeof b);
  a = combined(a, b, how);
  memcpy(target, &a, sizeof a);
}

// Sums and products of integers wrap, those of booleans are "or" and "and". Of narrow floats this is for extremes only.
inline void combine(i32 dtype, char* target, const char* source, Combine how) {
  if (how == Combine::none) {
    memcpy(target, source, static_cast<u64>(dtype_bytes(dtype)));
    return;
  }
  const bool wraps = how == Combine::sum || how == Combine::product;
  switch (dtype) {
    case 0:
      *target =
          how == Combine::sum || how == Combine::max ? *target != 0 || *source != 0 : *target != 0 && *source != 0;
      return;
    case 1:
      return wraps ? combine_as<u8>(target, source, how) : combine_as<codetta::cpu::i8>(target, source, how);
    case 2:  // products of 16 bits are formed in int, which they leave
      if (!wraps) return combine_as<codetta::cpu::i16>(target, source, how);
      [[fallthrough]];
    case 6: {
      codetta::cpu::u16 a, b;
      memcpy(&a, target, sizeof a);
      memcpy(&b, source, sizeof b);
      a = static_cast<codetta::cpu::u16>(combined<codetta::cpu::u32>(a, b, how));
      memcpy(target, &a, sizeof a);
      return;
    }
    case 3:
      return wraps ? combine_as<codetta::cpu::u32>(target, source, how) : combine_as<i32>(target, source, how);
    case 4:
      return wraps ? combine_as<u64>(target, source, how) : combine_as<i64>(target, source, how);
    case 5:
      return combine_as<u8>(target, source, how);
    case 7:
      return combine_as<codetta::cpu::u32>(target, source, how);
    case 8:
      return combine_as<u64>(target, source, how);
    case 13:
      return combine_as<float>(target, source, how);
    case 14:
      return combine_as<double>(target, source, how);
    default:
      return codetta_engine_store(
          dtype, target, combined(codetta_engine_load(dtype, target), codetta_engine_load(dtype, source), how));
  }
}

// What is written at indices. Sums and products of narrow floats are formed in f32, in memory of the workspace, and
// rounded once.
struct Combined {
  const View& target;
  Combine how;
  float* wide = nullptr;

  static bool widens(const View& view, Combine how) {
    return is_narrow_float(view.dtype) && (how == Combine::sum || how == Combine::product);
  }
  // Bytes of workspace for it.
  static Number wide_bytes(const View& view, Combine how) {
    Number bytes(widens(view, how) ? 4 : 0);
    for (i32 i = 0; i < view.rank; ++i) bytes = bytes * Number(view.size[i]);
    return bytes;
  }

  Combined(const View& view, Combine in, void* memory) : target(view), how(in) {
    if (!widens(view, in)) return;
    wide = static_cast<float*>(memory);
    i64 next = 0;
    for_elements(target, [&](char* element, const i64*) { wide[next++] = codetta_engine_load(target.dtype, element); });
  }
  void at(const i64* place, const char* source) {
    i64 offset = 0, count = 0;
    for (i32 i = 0; i < target.rank; ++i) {
      offset += place[i] * target.stride[i];
      count = count * target.size[i] + place[i];
    }
    if (wide == nullptr) return combine(target.dtype, target.data + offset * dtype_bytes(target.dtype), source, how);
    wide[count] = combined(wide[count], codetta_engine_load(target.dtype, source), how);
  }
  void finish() {
    i64 next = 0;
    if (wide == nullptr) return;
    for_elements(target, [&](char* element, const i64*) { codetta_engine_store(target.dtype, element, wide[next++]); });
  }
};

// The place that an index means, -1: it is out of range, which is an error where runs are checked.
inline i64 place_of(i64 index, i64 size, bool is_checked) {
  if (index >= 0 && index < size) return index;
  return is_checked || size == 0 ? -1 : index < 0 ? 0 : size - 1;
}

// An index with what messages call it.
struct Index {
  const View* view;
  const char* name;
};

// target[i0[s], i1[s], ..., rest] = values[s, rest], for every place s of the indices, which have one shape.
inline Status index_put(const View& target, const Index* indices, i32 count, const View& values, Combine how,
                        bool is_checked, void* wide) {
  const View& first = *indices[0].view;
  bool fits = values.rank == first.rank + target.rank - count;
  for (i32 i = 0; fits && i < values.rank; ++i)
    fits = values.size[i] == (i < first.rank ? first.size[i] : target.size[i - first.rank + count]);
  for (i32 n = 1; fits && n < count; ++n) {
    fits = indices[n].view->rank == first.rank;
    for (i32 i = 0; fits && i < first.rank; ++i) fits = indices[n].view->size[i] == first.size[i];
  }
  if (!fits) return fail(bad_sizes, "E0610: what is put at %s has another shape", indices[0].name);
  if (is_checked && values.empty()) {
    for (i32 n = 0; n < count; ++n)
      CODETTA_OK(check_indices(*indices[n].view, Number(target.size[n]), indices[n].name));
  }
  Status status = ok;
  Combined elements(target, how, wide);
  for_elements(values, [&](char* element, const i64* at) {
    if (status != ok) return;
    i64 to[max_rank] = {};
    for (i32 n = 0; n < count; ++n) {
      const View& index = *indices[n].view;
      i64 from = 0;
      for (i32 i = 0; i < index.rank; ++i) from += at[i] * index.stride[i];
      const i64 value = integer_at(index, from);
      to[n] = place_of(value, target.size[n], is_checked);
      if (to[n] >= 0) continue;
      status = bad_index(index, value, at, target.size[n], indices[n].name);
      return;
    }
    for (i32 i = count; i < target.rank; ++i) to[i] = at[first.rank + i - count];
    elements.at(to, element);
  });
  elements.finish();
  return status;
}

// target[p with p[dim] = index[p]] = source[p], for every place p of the index.
inline Status scatter(const View& target, const Index& by, const View& source, i32 dim, Combine how, bool is_checked,
                      void* wide) {
  const View& index = *by.view;
  for (i32 i = 0; i < index.rank; ++i) {
    if (index.size[i] > source.size[i] || (i != dim && index.size[i] > target.size[i]))
      return fail(bad_sizes, "E0610: %s is larger than what it indexes", by.name);
  }
  Status status = ok;
  Combined elements(target, how, wide);
  for_elements(index, [&](char* element, const i64* at) {
    if (status != ok) return;
    const i64 value = integer_at(index, (element - index.data) / dtype_bytes(index.dtype));
    const i64 place = place_of(value, target.size[dim], is_checked);
    if (place < 0) {
      status = bad_index(index, value, at, target.size[dim], by.name);
      return;
    }
    i64 from = 0, to[max_rank] = {};
    for (i32 i = 0; i < index.rank; ++i) {
      from += at[i] * source.stride[i];
      to[i] = i == dim ? place : at[i];
    }
    elements.at(to, source.data + from * dtype_bytes(target.dtype));
  });
  elements.finish();
  return status;
}

}  // namespace codetta::host
