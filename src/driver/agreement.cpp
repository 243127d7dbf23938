// SPDX-License-Identifier: Apache-2.0
#include "driver/agreement.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::driver {

namespace {

// Relative; of values that are stored in this type.
double allowed(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::ldexp(1.0, -53 + 10);
    case DType::f32:
      return std::ldexp(1.0, -24 + 10);
    case DType::f16:
      return std::ldexp(1.0, -11 + 2);
    case DType::bf16:
      return std::ldexp(1.0, -8 + 2);
    case DType::f8e4m3:
      return std::ldexp(1.0, -3);
    default:
      return std::ldexp(1.0, -2);  // f8e5m2
  }
}

std::string place_in(const TensorView& view, int64_t flat) {
  std::vector<int64_t> at(static_cast<size_t>(view.rank()));
  for (size_t d = at.size(); d-- > 0;) {
    at[d] = flat % view.size(static_cast<int>(d));
    flat /= view.size(static_cast<int>(d));
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

}  // namespace

std::optional<std::string> disagreement_of(const TensorView& one, const TensorView& other) {
  const DType dtype = one.dtype();
  const int64_t count = one.element_count(), step = dtype_size(dtype);
  const auto* a = one.as<const std::byte>();
  const auto* b = other.as<const std::byte>();
  const bool real = types::is_float(dtype);
  double squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; real && i < count; ++i) {
    const double value = types::load_f64(a + i * step, dtype);
    if (!std::isfinite(value)) continue;
    squares += value * value;
    ++finite;
  }
  const double scale = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  int64_t differing = 0;
  std::string first;
  for (int64_t i = 0; i < count; ++i) {
    if (real) {
      const double x = types::load_f64(a + i * step, dtype), y = types::load_f64(b + i * step, dtype);
      const bool both_nan = std::isnan(x) && std::isnan(y);
      const double bound = allowed(dtype) * std::max({std::abs(x), std::abs(y), scale});
      if (both_nan || x == y || (std::isfinite(x) && std::isfinite(y) && std::abs(x - y) <= bound)) continue;
      if (differing++ == 0) first = fmt::format("{} is {:.9g}, there {:.9g}", place_in(one, i), y, x);
    } else {
      const int64_t x = types::load_i64(a + i * step, dtype), y = types::load_i64(b + i * step, dtype);
      if (x == y) continue;
      if (differing++ == 0) first = fmt::format("{} is {}, there {}", place_in(one, i), y, x);
    }
  }
  if (differing == 0) return std::nullopt;
  return fmt::format("{}; {} of {} elements differ", first, differing, count);
}

}  // namespace codetta::driver
