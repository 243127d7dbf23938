// SPDX-License-Identifier: Apache-2.0
// Arguments for random graphs, and when two evaluations of one value agree.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "support/program_evaluator.hpp"

namespace codetta::test {

// Multiples of 1/4, integers where the type is one: sums and products stay exact for a while.
inline Array random_array(const ir::TensorType& type, const GraphEvaluator::Symbols& symbols, std::mt19937_64& random) {
  Array array;
  for (const types::Dim& dim : type.shape) array.shape.push_back(dim.evaluate(symbols).value_or(-1));
  const DType dtype = types::compute_dtype(type.dtype);
  for (int64_t n = count_of(array.shape); n > 0; --n) {
    const auto bits = static_cast<int64_t>(random() % 17) - 8;
    array.elements.push_back(types::is_float(dtype) ? real_element(static_cast<double>(bits) / 4, dtype)
                                                    : integer_element(bits, dtype));
  }
  return array;
}

// Up to an error of `tolerance`, relative where they are larger than 1; next to an infinity what overflows in one order
// and not in another.
inline bool close(const Element& a, const Element& b, double tolerance) {
  if (!is_float(a)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  if (std::isinf(a.f) || std::isinf(b.f)) return a.f == b.f || std::fabs(a.f) > 1e300 || std::fabs(b.f) > 1e300;
  return std::fabs(a.f - b.f) <= tolerance * std::max({1.0, std::fabs(a.f), std::fabs(b.f)});
}

}  // namespace codetta::test
