// SPDX-License-Identifier: Apache-2.0
// Test data.
#pragma once

#include <cstdint>

#include "codetta/tensor.hpp"

namespace codetta {

enum class Distribution : uint8_t {
  Normal,    // mean 0, deviation 1; integers: uniform in [-1000, 1000] within their range
  Positive,  // |normal| + 0.1
  Small,     // uniform in [0.005, 0.05]
  Integers,  // uniform in -4, -3, ..., 4 (unsigned: 0 to 4), exact in every dtype: products and sums of them round
             // nowhere while they stay below 2^24 in f32, so that one right result is left and structure is told from
             // roundings
};
// Fills every element of the view, rounded once to its dtype. Floats are multiplied by `scale` before. Equal seeds give
// equal values on every machine.
CODETTA_API void fill_random(const TensorView& view, uint64_t seed, Distribution distribution = Distribution::Normal,
                             double scale = 1);
// Fills the view's elements with a pattern that no result should hold: NaN for floats, 0xA5 bytes for the rest.
CODETTA_API void fill_poison(const TensorView& view);

}  // namespace codetta
