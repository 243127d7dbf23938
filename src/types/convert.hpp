// SPDX-License-Identifier: Apache-2.0
// Bit-exact conversions among all element types; the meaning of cast and of every load and store (docs/semantics.md):
//   float -> float    one rounding, to nearest even; NaN stays NaN (quiet); overflow gives infinity, fp8 saturates
//   float -> integer  truncates, saturates; NaN gives 0          integer -> float    one rounding, to nearest even
//   integer -> integer wraps (two's complement)                  any -> bool         nonzero and NaN give 1
// They are the same on every machine and do not depend on the FPU's modes.
#pragma once

#include <cstdint>
#include <string>

#include "types/dtype.hpp"

namespace codetta::types {

// The element at `p` (any alignment) as a double; exact but for 64-bit integers beyond 2^53, which round.
double load_f64(const void* p, DType dtype);
void store_f64(void* p, DType dtype, double value);
// The element at `p` as if cast to i64 (floats truncate and saturate, u64 wraps).
int64_t load_i64(const void* p, DType dtype);
void store_i64(void* p, DType dtype, int64_t value);

// Converts `count` elements. src and dst may be the same memory when both types have the same size, else must not
// overlap. Both may have any alignment. Equal types copy bits (signaling NaNs too), except that bool becomes 0 or 1.
void convert(const void* src, DType src_dtype, void* dst, DType dst_dtype, int64_t count);

// A value of one element type, such as a literal or a scalar argument. The payload is canonical: floats hold the
// double that equals the value, signed integers its sign extension, unsigned ones and bool its zero extension.
class Scalar {
 public:
  constexpr Scalar() = default;  // f64 0
  // The argument, rounded to or converted to `dtype`.
  static Scalar from_f64(double value, DType dtype = DType::f64);
  static Scalar from_i64(int64_t value, DType dtype = DType::i64);
  static Scalar from_u64(uint64_t value, DType dtype = DType::u64);
  static Scalar from_bool(bool value) { return from_u64(value ? 1 : 0, DType::boolean); }
  static Scalar load(const void* p, DType dtype);
  void store(void* p) const;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] uint64_t payload() const { return payload_; }
  // The value as if cast to f64, i64, u64 or bool.
  [[nodiscard]] double as_f64() const;
  [[nodiscard]] int64_t as_i64() const;
  [[nodiscard]] uint64_t as_u64() const;
  [[nodiscard]] bool as_bool() const;
  // Same type and same bits: NaN equals an equal NaN, 0.0 differs from -0.0.
  bool operator==(const Scalar&) const = default;

 private:
  DType dtype_ = DType::f64;
  uint64_t payload_ = 0;
};

Scalar convert(const Scalar& value, DType dtype);
// The shortest text that reads back to the same value: "2.5", "-3", "true", "1e+30", "nan", "-inf"; finite floats
// always show a point or an exponent ("1.0"); NaN payloads are not shown.
std::string to_string(const Scalar& value);

}  // namespace codetta::types
