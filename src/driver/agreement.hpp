// SPDX-License-Identifier: Apache-2.0
// Whether two results that nobody has a reference for are the same but for rounding.
#pragma once

#include <optional>
#include <string>

#include "codetta/tensor.hpp"

namespace codetta::driver {

// Where `other` does not agree with `one`, both row-major in host memory and of one type and shape: "[3, 17] is 1.5,
// there 1.25; 12 of 4096 elements differ". Integers and booleans agree when they are equal, NaN with NaN, infinities
// with the same. Floats may differ by 1,024 roundings of f32 and f64, 4 of 16-bit and 1 of 8-bit floats: configurations
// sum in different orders, whose errors grow with the root of the number of terms (1,024 are those of a million), while
// narrow floats are rounded once, when they are stored. The roundings are of the larger of the two, or of the root mean
// square of what `one` holds of about its magnitude. To that come roundings of f32 (f64 of f64) of larger magnitudes
// that `one` holds, which may be all that is left of a sum that cancels: 1,024 where the smaller values are so few that
// they may be larger ones near zero by chance, else 16. A large value that stands there several times, as a mask writes
// it, hides nothing, nor does one that is too large for its rounding to be seen.
std::optional<std::string> disagreement_of(const TensorView& one, const TensorView& other);

}  // namespace codetta::driver
