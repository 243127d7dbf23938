// SPDX-License-Identifier: Apache-2.0
#include "driver/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

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

// Values of about one magnitude: four binary exponents without a value are between them and those of another.
struct Magnitudes {
  int first, last;  // exponents, as frexp() has them
  double root;      // of their mean square
  bool chosen;      // several, and all equal, as what a mask puts somewhere
  double members;
};

std::vector<Magnitudes> magnitudes_of(const std::byte* data, int64_t count, DType dtype) {
  struct OfExponent {
    double least = 1, most = 0, squares = 0;  // of what frexp() leaves, 0.5 to 1
    int64_t count = 0;
  };
  constexpr int lowest = -1074, highest = 1024, apart = 5;
  std::vector<OfExponent> all(static_cast<size_t>(highest - lowest + 1));
  const auto at = [&](int exponent) -> OfExponent& { return all[static_cast<size_t>(exponent - lowest)]; };
  for (int64_t i = 0; i < count; ++i) {
    const double value = std::abs(types::load_f64(data + i * dtype_size(dtype), dtype));
    if (!std::isfinite(value) || value == 0) continue;
    int exponent = 0;
    const double part = std::frexp(value, &exponent);
    OfExponent& one = at(exponent);
    one.least = std::min(one.least, part);
    one.most = std::max(one.most, part);
    one.squares += part * part;
    ++one.count;
  }
  std::vector<Magnitudes> found;
  for (int first = lowest; first <= highest; ++first) {
    if (at(first).count == 0) continue;
    int last = first;
    for (int next = first; next <= std::min(last + apart - 1, highest); ++next) {
      if (at(next).count > 0) last = next;
    }
    double squares = 0;  // in units of the largest exponent: none overflows
    int64_t members = 0;
    for (int exponent = first; exponent <= last; ++exponent) {
      squares += std::ldexp(at(exponent).squares, 2 * (exponent - last));
      members += at(exponent).count;
    }
    const double root = std::ldexp(std::sqrt(squares / static_cast<double>(members)), last);
    found.push_back({first, last, root, members > 1 && first == last && at(first).least == at(first).most,
                     static_cast<double>(members)});
    first = last;
  }
  return found;
}

// How far values may be apart. Values that were chosen say nothing about others; what rounding leaves of a sum that
// cancels tells of the larger numbers that it was computed from, in f32 or f64 whatever it is stored as.
class Tolerance {
 public:
  Tolerance(const std::byte* data, int64_t count, DType dtype)
      : all_(magnitudes_of(data, count, dtype)),
        stored_(allowed(dtype)),
        rounding_(std::ldexp(1.0, dtype == DType::f64 ? -53 : -24)) {}
  // Of a value that is among the data, and another one in its place.
  [[nodiscard]] double of(double value, double other) const {
    const double magnitude = std::max(std::abs(value), std::abs(other));
    int exponent = 0;
    std::frexp(value == 0 ? magnitude : value, &exponent);
    double scale = magnitude, left = 0;
    const Magnitudes* own = nullptr;
    for (const Magnitudes& one : all_) {
      if (exponent >= one.first && exponent <= one.last) own = &one;
    }
    if (own != nullptr) scale = std::max(scale, own->root);
    for (const Magnitudes& one : all_) {
      if (&one == own || one.last < exponent || one.chosen || magnitude < least_noise * rounding_ * one.root) continue;
      left = std::max(left, ((own != nullptr && is_chance(*own, one)) ? of_sums : of_few) * rounding_ * one.root);
    }
    return stored_ * scale + left;
  }

 private:
  static constexpr double of_sums = 1024, of_few = 16;  // roundings
  static constexpr double least_noise = 1.0 / 64;       // of a rounding: what is smaller was not computed from that
  // Whether there are so few as small ones that they may be larger ones that came out near zero: of numbers without a
  // preference as many are below a size as it is a part of theirs. More than four times that is something else.
  static bool is_chance(const Magnitudes& small, const Magnitudes& large) {
    return small.members <= 4 + 4 * large.members * std::min(1.0, std::ldexp(1.0, small.last) / large.root);
  }
  std::vector<Magnitudes> all_;
  double stored_, rounding_;  // relative
};

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
  const Tolerance tolerance(a, real ? count : 0, dtype);
  int64_t differing = 0;
  std::string first;
  for (int64_t i = 0; i < count; ++i) {
    if (real) {
      const double x = types::load_f64(a + i * step, dtype), y = types::load_f64(b + i * step, dtype);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (std::isfinite(x) && std::isfinite(y) && std::abs(x - y) <= tolerance.of(x, y)) continue;
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
