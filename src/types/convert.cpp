// SPDX-License-Identifier: Apache-2.0
// Scalar and bulk conversions. A value travels in one of three carriers: double, int64_t or uint64_t.
#include "types/convert.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "types/float_format.hpp"

namespace codetta::types {
namespace {

template <int Bits>
using UnsignedOf =
    std::conditional_t<Bits == 8, uint8_t,
                       std::conditional_t<Bits == 16, uint16_t, std::conditional_t<Bits == 32, uint32_t, uint64_t>>>;

// What a loaded D travels in: exact for every D.
template <DType D>
using CarrierOf =
    std::conditional_t<is_float(D), double,
                       std::conditional_t<dtype_traits(D).kind == DTypeKind::signed_integer, int64_t, uint64_t>>;

template <DType D>
UnsignedOf<bits(D)> load_pattern(const void* p) {
  UnsignedOf<bits(D)> pattern;
  std::memcpy(&pattern, p, sizeof pattern);
  return pattern;
}

template <DType D>
CarrierOf<D> load_as_carrier(const void* p) {
  const auto pattern = load_pattern<D>(p);
  if constexpr (is_float(D)) {
    return decode_float<D>(pattern);
  } else if constexpr (is_bool(D)) {
    return pattern != 0 ? 1u : 0u;
  } else if constexpr (is_unsigned(D)) {
    return pattern;
  } else {
    return static_cast<std::make_signed_t<UnsignedOf<bits(D)>>>(pattern);
  }
}

// A double with at most 53 bits of `magnitude`, the last one sticky ("round to odd"): rounding it again to any format
// of at most 51 bits equals rounding the integer once.
double sticky_double(uint64_t magnitude) {
  const int excess = static_cast<int>(std::bit_width(magnitude)) - 53;
  if (excess <= 0) return static_cast<double>(magnitude);
  const uint64_t kept = magnitude >> excess;
  const uint64_t lost = magnitude & ((uint64_t{1} << excess) - 1);
  return std::ldexp(static_cast<double>(kept | static_cast<uint64_t>(lost != 0)), excess);
}

// The 64-bit pattern to 2^53 significant bits, to nearest even, whatever the FPU's rounding mode.
double nearest_double(uint64_t magnitude) {
  const int excess = static_cast<int>(std::bit_width(magnitude)) - 53;
  if (excess <= 0) return static_cast<double>(magnitude);
  const uint64_t lost = magnitude & ((uint64_t{1} << excess) - 1), half = uint64_t{1} << (excess - 1);
  uint64_t kept = magnitude >> excess;
  kept += static_cast<uint64_t>(lost > half || (lost == half && (kept & 1) != 0));
  return std::ldexp(static_cast<double>(kept), excess);
}

uint64_t magnitude_of(int64_t v) { return v < 0 ? uint64_t{0} - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }

template <DType D, class Integer>
uint64_t float_pattern_of_integer(Integer value) {
  bool negative = false;
  uint64_t magnitude = 0;
  if constexpr (std::is_signed_v<Integer>) {
    negative = value < 0;
    magnitude = magnitude_of(value);
  } else {
    magnitude = value;
  }
  const double d = D == DType::f64 ? nearest_double(magnitude) : sticky_double(magnitude);
  return encode_float<D>(negative ? -d : d);
}

// Truncated and saturated to the range of the integer type D, as the two's complement 64-bit pattern.
template <DType D>
uint64_t integer_of_float(double value) {
  if (value != value) return 0;
  if constexpr (is_unsigned(D)) {
    if (value <= 0.0) return 0;
    constexpr double limit = detail::power_of_two(bits(D));
    return value >= limit ? max_int(D) : static_cast<uint64_t>(value);
  } else {
    constexpr double limit = detail::power_of_two(bits(D) - 1);
    if (value >= limit) return max_int(D);
    if (value <= -limit) return static_cast<uint64_t>(min_int(D));
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

// True for NaN, and for subnormals even where the FPU treats them as zero.
template <class Carrier>
bool is_nonzero(Carrier value) {
  if constexpr (std::is_same_v<Carrier, double>) {
    return (std::bit_cast<uint64_t>(value) << 1) != 0;
  } else {
    return value != 0;
  }
}

// The pattern of the carried value converted to D, in the low bits(D) bits.
template <DType D, class Carrier>
uint64_t pattern_of(Carrier value) {
  if constexpr (is_bool(D)) {
    return is_nonzero(value) ? 1u : 0u;
  } else if constexpr (is_float(D)) {
    if constexpr (std::is_same_v<Carrier, double>) {
      return encode_float<D>(value);
    } else {
      return float_pattern_of_integer<D>(value);
    }
  } else if constexpr (std::is_same_v<Carrier, double>) {
    return integer_of_float<D>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

template <DType D, class Carrier>
void store_carrier(void* p, Carrier value) {
  const auto pattern = static_cast<UnsignedOf<bits(D)>>(pattern_of<D>(value));
  std::memcpy(p, &pattern, sizeof pattern);
}

template <DType D>
using Tag = std::integral_constant<DType, D>;

// Calls f(Tag<D>{}) for the run-time `dtype`.
template <class F>
auto with_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean:
      return f(Tag<DType::boolean>{});
    case DType::i8:
      return f(Tag<DType::i8>{});
    case DType::i16:
      return f(Tag<DType::i16>{});
    case DType::i32:
      return f(Tag<DType::i32>{});
    case DType::i64:
      return f(Tag<DType::i64>{});
    case DType::u8:
      return f(Tag<DType::u8>{});
    case DType::u16:
      return f(Tag<DType::u16>{});
    case DType::u32:
      return f(Tag<DType::u32>{});
    case DType::u64:
      return f(Tag<DType::u64>{});
    case DType::f8e4m3:
      return f(Tag<DType::f8e4m3>{});
    case DType::f8e5m2:
      return f(Tag<DType::f8e5m2>{});
    case DType::f16:
      return f(Tag<DType::f16>{});
    case DType::bf16:
      return f(Tag<DType::bf16>{});
    case DType::f32:
      return f(Tag<DType::f32>{});
    case DType::f64:
      break;
  }
  return f(Tag<DType::f64>{});
}

template <DType S, DType D>
void convert_array(const void* src, void* dst, int64_t count) {
  const auto* from = static_cast<const std::byte*>(src);
  auto* to = static_cast<std::byte*>(dst);
  for (int64_t i = 0; i < count; ++i) {
    store_carrier<D>(to + i * byte_size(D), load_as_carrier<S>(from + i * byte_size(S)));
  }
}

// Calls f(carrier value) with what the scalar holds.
template <class F>
auto with_carrier(DType dtype, uint64_t payload, F&& f) {
  if (is_float(dtype)) return f(std::bit_cast<double>(payload));
  if (is_signed(dtype)) return f(static_cast<int64_t>(payload));
  return f(payload);
}

// A float in the shortest form that from_chars reads back, with a point or an exponent.
template <class Float>
std::string float_text(Float value) {
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

double load_f64(const void* p, DType dtype) {
  return with_dtype(dtype, [p](auto tag) {
    return std::bit_cast<double>(pattern_of<DType::f64>(load_as_carrier<decltype(tag)::value>(p)));
  });
}

void store_f64(void* p, DType dtype, double value) {
  with_dtype(dtype, [p, value](auto tag) { store_carrier<decltype(tag)::value>(p, value); });
}

int64_t load_i64(const void* p, DType dtype) {
  return with_dtype(dtype, [p](auto tag) {
    return static_cast<int64_t>(pattern_of<DType::i64>(load_as_carrier<decltype(tag)::value>(p)));
  });
}

void store_i64(void* p, DType dtype, int64_t value) {
  with_dtype(dtype, [p, value](auto tag) { store_carrier<decltype(tag)::value>(p, value); });
}

void convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t count) {
  if (count <= 0) return;
  if (src_dtype == dst_dtype && !is_bool(src_dtype)) {
    std::memmove(dst, src, static_cast<size_t>(count * byte_size(src_dtype)));
    return;
  }
  with_dtype(src_dtype, [&](auto s) {
    with_dtype(dst_dtype, [&](auto d) { convert_array<decltype(s)::value, decltype(d)::value>(src, dst, count); });
  });
}

Scalar Scalar::load(const void* p, DType dtype) {
  Scalar r;
  r.dtype_ = dtype;
  r.payload_ = with_dtype(dtype, [p](auto tag) {
    const auto value = load_as_carrier<decltype(tag)::value>(p);
    return std::bit_cast<uint64_t>(value);
  });
  return r;
}

void Scalar::store(void* p) const {
  if (dtype_ == DType::f8e5m2 && std::isinf(as_f64())) {
    // Only load makes this one; conversions to fp8 saturate, but storing what was loaded must not change it.
    const auto pattern = static_cast<uint8_t>(as_f64() < 0 ? 0xfc : 0x7c);
    std::memcpy(p, &pattern, 1);
    return;
  }
  with_dtype(dtype_, [this, p](auto tag) {
    constexpr DType d = decltype(tag)::value;
    store_carrier<d>(p, std::bit_cast<CarrierOf<d>>(payload_));
  });
}

Scalar Scalar::from_f64(double value, DType dtype) {
  std::byte element[8];
  store_f64(element, dtype, value);
  return load(element, dtype);
}

Scalar Scalar::from_i64(int64_t value, DType dtype) {
  std::byte element[8];
  store_i64(element, dtype, value);
  return load(element, dtype);
}

Scalar Scalar::from_u64(uint64_t value, DType dtype) {
  std::byte element[8];
  with_dtype(dtype, [&element, value](auto tag) { store_carrier<decltype(tag)::value>(element, value); });
  return load(element, dtype);
}

double Scalar::as_f64() const {
  return with_carrier(dtype_, payload_, [](auto v) { return std::bit_cast<double>(pattern_of<DType::f64>(v)); });
}
int64_t Scalar::as_i64() const {
  return with_carrier(dtype_, payload_, [](auto v) { return static_cast<int64_t>(pattern_of<DType::i64>(v)); });
}
uint64_t Scalar::as_u64() const {
  return with_carrier(dtype_, payload_, [](auto v) { return pattern_of<DType::u64>(v); });
}
bool Scalar::as_bool() const {
  return with_carrier(dtype_, payload_, [](auto v) { return is_nonzero(v); });
}

Scalar convert(const Scalar& value, DType dtype) {
  const DType from = value.dtype();
  if (from == dtype) return value;
  if (is_float(from)) return Scalar::from_f64(value.as_f64(), dtype);
  if (is_signed(from)) return Scalar::from_i64(value.as_i64(), dtype);
  return Scalar::from_u64(value.as_u64(), dtype);
}

std::string to_string(const Scalar& value) {
  const DType d = value.dtype();
  if (is_bool(d)) return value.as_bool() ? "true" : "false";
  if (is_float(d)) {
    // Narrow formats print as the f32 that they equal, which is short enough and reads back exactly.
    return d == DType::f64 ? float_text(value.as_f64()) : float_text(static_cast<float>(value.as_f64()));
  }
  return is_signed(d) ? std::to_string(value.as_i64()) : std::to_string(value.as_u64());
}

}  // namespace codetta::types
