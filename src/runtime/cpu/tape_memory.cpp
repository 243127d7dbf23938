// SPDX-License-Identifier: Apache-2.0
// Copies, conversions and folds of the tape interpreter.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/cpu/tape_kernels.hpp"
#include "runtime/cpu/tape_math.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::runtime::cpu::tape {
namespace {

template <class T>
void gather_as(std::byte* dst, const std::byte* memory, int64_t stride, const int64_t* offsets, int64_t lanes) {
  T* out = reinterpret_cast<T*>(dst);
  const T* in = reinterpret_cast<const T*>(memory);
  if (offsets != nullptr) {
    for (int64_t i = 0; i < lanes; ++i) out[i] = in[offsets[i]];
  } else if (stride == 1) {
    std::memcpy(out, in, static_cast<size_t>(lanes) * sizeof(T));
  } else {
    for (int64_t i = 0; i < lanes; ++i) out[i] = in[i * stride];
  }
}
template <class T>
void scatter_as(const std::byte* src, std::byte* memory, int64_t stride, const int64_t* offsets, int64_t lanes) {
  const T* in = reinterpret_cast<const T*>(src);
  T* out = reinterpret_cast<T*>(memory);
  if (offsets != nullptr) {
    for (int64_t i = 0; i < lanes; ++i) out[offsets[i]] = in[i];
  } else if (stride == 1) {
    std::memcpy(out, in, static_cast<size_t>(lanes) * sizeof(T));
  } else {
    for (int64_t i = 0; i < lanes; ++i) out[i * stride] = in[i];
  }
}

template <class From, class To>
void plain_convert(const std::byte* src, std::byte* dst, int64_t lanes) {
  const From* __restrict in = reinterpret_cast<const From*>(src);
  To* __restrict out = reinterpret_cast<To*>(dst);
  for (int64_t i = 0; i < lanes; ++i) out[i] = static_cast<To>(in[i]);
}
void widen_bf16(const std::byte* src, std::byte* dst, int64_t lanes) {
  const uint16_t* __restrict in = reinterpret_cast<const uint16_t*>(src);
  uint32_t* __restrict out = reinterpret_cast<uint32_t*>(dst);
  for (int64_t i = 0; i < lanes; ++i) {
    const uint32_t x = uint32_t{in[i]} << 16;
    out[i] = (x & 0x7FFFFFFF) > 0x7F800000 ? x | 0x00400000 : x;  // NaN becomes quiet
  }
}
void narrow_bf16(const std::byte* src, std::byte* dst, int64_t lanes) {
  const uint32_t* __restrict in = reinterpret_cast<const uint32_t*>(src);
  uint16_t* __restrict out = reinterpret_cast<uint16_t*>(dst);
  for (int64_t i = 0; i < lanes; ++i) {
    const uint32_t x = in[i];
    const uint32_t nearest = (x + 0x7FFF + ((x >> 16) & 1)) >> 16;
    out[i] = static_cast<uint16_t>((x & 0x7FFFFFFF) > 0x7F800000 ? (x >> 16) | 0x0040 : nearest);
  }
}

// Truncates and saturates; NaN is 0. `most` is the largest float that an integer To holds.
template <class To>
void saturate(const std::byte* src, std::byte* dst, int64_t lanes) {
  const float* __restrict in = reinterpret_cast<const float*>(src);
  To* __restrict out = reinterpret_cast<To*>(dst);
  constexpr float least = static_cast<float>(std::numeric_limits<To>::lowest());
  constexpr float most = sizeof(To) < 4 ? static_cast<float>(std::numeric_limits<To>::max()) : 2147483520.0f;
  for (int64_t i = 0; i < lanes; ++i) {
    const float x = in[i];
    float inside = x < least ? least : x;
    inside = inside > most ? most : inside;
    inside = x != x ? 0.0f : inside;
    const auto whole = static_cast<int32_t>(inside);
    out[i] = sizeof(To) == 4 && x > most ? std::numeric_limits<To>::max() : static_cast<To>(whole);
  }
}

template <class T>
void round_lanes(const std::byte* src, std::byte* dst, int64_t lanes) {
  const T* __restrict in = reinterpret_cast<const T*>(src);
  T* __restrict out = reinterpret_cast<T*>(dst);
  for (int64_t i = 0; i < lanes; ++i) out[i] = round(in[i]);
}

// ---- folds ----
template <class T>
T identity(package::ReduceKind kind) {
  if (kind == package::ReduceKind::Sum) return T{0};
  constexpr T low = Real<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  constexpr T high = Real<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  return kind == package::ReduceKind::Max ? low : high;
}
template <class T, package::ReduceKind kind>
T combine(T x, T y) {
  if constexpr (kind == package::ReduceKind::Sum)
    return add(x, y);
  else if constexpr (kind == package::ReduceKind::Max)
    return maximum(x, y);
  else
    return minimum(x, y);
}

template <class T, package::ReduceKind kind>
void across(std::byte* partial, const std::byte* values, int64_t lanes, bool first) {
  // Sums of floats go through double; eight chains keep the loop independent of the add's latency.
  using Wide = std::conditional_t<Real<T> && kind == package::ReduceKind::Sum, double, T>;
  constexpr int chains = 8;
  Wide fold[chains];
  std::fill_n(fold, chains, identity<Wide>(kind));
  const T* in = reinterpret_cast<const T*>(values);
  int64_t i = 0;
  for (; i + chains <= lanes; i += chains) {
    for (int c = 0; c < chains; ++c) fold[c] = combine<Wide, kind>(fold[c], static_cast<Wide>(in[i + c]));
  }
  for (; i < lanes; ++i) fold[0] = combine<Wide, kind>(fold[0], static_cast<Wide>(in[i]));
  T* out = reinterpret_cast<T*>(partial);
  Wide total = first ? identity<Wide>(kind) : static_cast<Wide>(*out);
  for (int c = 0; c < chains; ++c) total = combine<Wide, kind>(total, fold[c]);
  *out = static_cast<T>(total);
}
template <class T, package::ReduceKind kind>
void by_lane(std::byte* partials, const std::byte* values, int64_t lanes, bool first) {
  const T* __restrict in = reinterpret_cast<const T*>(values);
  T* __restrict out = reinterpret_cast<T*>(partials);
  if (first) {
    for (int64_t i = 0; i < lanes; ++i) out[i] = combine<T, kind>(identity<T>(kind), in[i]);
  } else {
    for (int64_t i = 0; i < lanes; ++i) out[i] = combine<T, kind>(out[i], in[i]);
  }
}

// (max, sum of exp(x - max)). A NaN anywhere makes both NaN. Equal values count 1, so that infinities need no
// difference.
template <class T>
struct Pair {
  T top = -std::numeric_limits<T>::infinity();
  double sum = 0;

  void take(T x, double weight) {
    if (x != x || top != top) {
      top = x != x ? x : top;
      sum = static_cast<double>(top);
    } else if (x == top) {
      sum += weight;
    } else if (x > top) {
      sum = sum * std::exp(static_cast<double>(top) - static_cast<double>(x)) + weight;
      top = x;
    } else {
      sum += weight * std::exp(static_cast<double>(x) - static_cast<double>(top));
    }
  }
  static Pair load(const T* p) { return {p[0], static_cast<double>(p[1])}; }
  void store(T* p) const {
    p[0] = top;
    p[1] = static_cast<T>(sum);
  }
};
template <class T>
void pair_across(std::byte* partial, const std::byte* values, int64_t lanes, bool first) {
  const T* in = reinterpret_cast<const T*>(values);
  T* out = reinterpret_cast<T*>(partial);
  Pair<T> pair;
  if (!first) pair = Pair<T>::load(out);
  for (int64_t i = 0; i < lanes; ++i) pair.take(in[i], 1.0);
  pair.store(out);
}
template <class T>
void pair_by_lane(std::byte* partials, const std::byte* values, int64_t lanes, bool first) {
  const T* in = reinterpret_cast<const T*>(values);
  T* out = reinterpret_cast<T*>(partials);
  for (int64_t i = 0; i < lanes; ++i) {
    Pair<T> pair;
    if (!first) pair = Pair<T>::load(out + 2 * i);
    pair.take(in[i], 1.0);
    pair.store(out + 2 * i);
  }
}

template <class T>
Fold fold_of(package::ReduceKind kind, bool lanes) {
  using package::ReduceKind;
  switch (kind) {
    case ReduceKind::Sum:
      return lanes ? by_lane<T, ReduceKind::Sum> : across<T, ReduceKind::Sum>;
    case ReduceKind::Max:
      return lanes ? by_lane<T, ReduceKind::Max> : across<T, ReduceKind::Max>;
    case ReduceKind::Min:
      return lanes ? by_lane<T, ReduceKind::Min> : across<T, ReduceKind::Min>;
    case ReduceKind::LogSumExp:
    case ReduceKind::SumExp:  // the same partials
      if constexpr (Real<T>) return lanes ? pair_by_lane<T> : pair_across<T>;
      break;
  }
  return nullptr;
}

Fold fold_of(package::ReduceKind kind, DType dtype, bool lanes) {
  switch (dtype) {
    case DType::i8:
      return fold_of<int8_t>(kind, lanes);
    case DType::i16:
      return fold_of<int16_t>(kind, lanes);
    case DType::i32:
      return fold_of<int32_t>(kind, lanes);
    case DType::i64:
      return fold_of<int64_t>(kind, lanes);
    case DType::u8:
      return fold_of<uint8_t>(kind, lanes);
    case DType::u16:
      return fold_of<uint16_t>(kind, lanes);
    case DType::u32:
      return fold_of<uint32_t>(kind, lanes);
    case DType::u64:
      return fold_of<uint64_t>(kind, lanes);
    case DType::f32:
      return fold_of<float>(kind, lanes);
    case DType::f64:
      return fold_of<double>(kind, lanes);
    default:
      return nullptr;
  }
}

}  // namespace

Fold fold_across(package::ReduceKind kind, DType dtype) { return fold_of(kind, dtype, false); }
Fold fold_lanes(package::ReduceKind kind, DType dtype) { return fold_of(kind, dtype, true); }

void gather(std::byte* dst, const std::byte* memory, int64_t size, int64_t stride, const int64_t* offsets,
            int64_t lanes) {
  switch (size) {
    case 1:
      return gather_as<uint8_t>(dst, memory, stride, offsets, lanes);
    case 2:
      return gather_as<uint16_t>(dst, memory, stride, offsets, lanes);
    case 4:
      return gather_as<uint32_t>(dst, memory, stride, offsets, lanes);
    default:
      return gather_as<uint64_t>(dst, memory, stride, offsets, lanes);
  }
}

void scatter(const std::byte* src, std::byte* memory, int64_t size, int64_t stride, const int64_t* offsets,
             int64_t lanes) {
  switch (size) {
    case 1:
      return scatter_as<uint8_t>(src, memory, stride, offsets, lanes);
    case 2:
      return scatter_as<uint16_t>(src, memory, stride, offsets, lanes);
    case 4:
      return scatter_as<uint32_t>(src, memory, stride, offsets, lanes);
    default:
      return scatter_as<uint64_t>(src, memory, stride, offsets, lanes);
  }
}

void splat(std::byte* values, int64_t size, int64_t lanes) {
  switch (size) {
    case 1:
      std::fill_n(reinterpret_cast<uint8_t*>(values), lanes, *reinterpret_cast<uint8_t*>(values));
      break;
    case 2:
      std::fill_n(reinterpret_cast<uint16_t*>(values), lanes, *reinterpret_cast<uint16_t*>(values));
      break;
    case 4:
      std::fill_n(reinterpret_cast<uint32_t*>(values), lanes, *reinterpret_cast<uint32_t*>(values));
      break;
    default:
      std::fill_n(reinterpret_cast<uint64_t*>(values), lanes, *reinterpret_cast<uint64_t*>(values));
  }
}

// The common pairs have loops that become vector code; types::convert defines all of them.
void convert_cast(const std::byte* src, DType from, std::byte* dst, DType to, int64_t lanes) {
  if (from == DType::bf16 && to == DType::f32) return widen_bf16(src, dst, lanes);
  if (from == DType::f32 && to == DType::bf16) return narrow_bf16(src, dst, lanes);
  if (from == DType::f32 && to == DType::f64) return plain_convert<float, double>(src, dst, lanes);
  if (from == DType::f64 && to == DType::f32) return plain_convert<double, float>(src, dst, lanes);
  if (from == DType::i32 && to == DType::f32) return plain_convert<int32_t, float>(src, dst, lanes);
  if (from == DType::i32 && to == DType::f64) return plain_convert<int32_t, double>(src, dst, lanes);
  if (from == DType::i8 && to == DType::f32) return plain_convert<int8_t, float>(src, dst, lanes);
  if (from == DType::u8 && to == DType::f32) return plain_convert<uint8_t, float>(src, dst, lanes);
  if (from == DType::f32 && to == DType::i8) return saturate<int8_t>(src, dst, lanes);
  if (from == DType::f32 && to == DType::u8) return saturate<uint8_t>(src, dst, lanes);
  if (from == DType::f32 && to == DType::i16) return saturate<int16_t>(src, dst, lanes);
  if (from == DType::f32 && to == DType::u16) return saturate<uint16_t>(src, dst, lanes);
  if (from == DType::f32 && to == DType::i32) return saturate<int32_t>(src, dst, lanes);
  types::convert(src, from, dst, to, lanes);
}

void convert_store(const std::byte* src, DType from, std::byte* dst, DType to, int64_t lanes, std::byte* scratch) {
  if (types::is_float(from) && types::is_integer(to)) {
    if (from == DType::f32)
      round_lanes<float>(src, scratch, lanes);
    else
      round_lanes<double>(src, scratch, lanes);
    src = scratch;
  }
  convert_cast(src, from, dst, to, lanes);
}

}  // namespace codetta::runtime::cpu::tape
