// SPDX-License-Identifier: Apache-2.0
// How exactly factors are multiplied.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "codetta/error.hpp"

namespace codetta {

// A permission, part of the program and never ambient: kernels may multiply so, and none less exactly. It says nothing
// of other dtypes than those it names; CPU kernels take none of them. Values are part of file formats.
enum class MathMode : uint8_t {
  Strict = 0,                   // f32 factors as they are; 8-bit floats summed as exactly as f32 sums
  Tf32x3 = 1,                   // f32 factors as a sum of two of TF32 each, in three products: about f32's accuracy
  Tf32 = 2,                     // f32 factors with 10 bits of fraction, cut or rounded
  Fp8FastAccumulation = 3,      // products of 8-bit floats summed as the tensor cores do, with about 13 bits
  Fp8TwoLevelAccumulation = 4,  // 128 of them at a time, whose sums are added in f32
};
// "strict", "3xtf32", "tf32", "fp8_fast_accum", "fp8_two_level_accum"
CODETTA_API std::string_view math_mode_name(MathMode mode);
CODETTA_API std::optional<MathMode> math_mode_from_name(std::string_view name);

}  // namespace codetta
