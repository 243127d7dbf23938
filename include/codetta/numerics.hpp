// SPDX-License-Identifier: Apache-2.0
// How exactly a program computes.
#pragma once

#include "codetta/math_mode.hpp"

namespace codetta {

// Part of a program, as GemmArguments::strict and ::math are of one GEMM (docs/semantics.md, "Rounding").
struct Numerics {
  bool strict = false;               // no contraction of a * b + c
  MathMode math = MathMode::Strict;  // how exactly the factors of its products are multiplied
  bool operator==(const Numerics&) const = default;
};

}  // namespace codetta
