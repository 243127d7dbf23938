// SPDX-License-Identifier: Apache-2.0
// Factors that a launch on a GPU has inside of its kernel's program.
#pragma once

#include "package/epilogue_program.hpp"
#include "package/step.hpp"

namespace codetta::package {

// Whether the kernel finds all factors but the first of each kind among its operands, or makes them: no other kernel
// makes one for it.
inline bool factors_are_inside(const Product& product, const EpilogueProgram& program) {
  return product.b_made.empty() && (product.products() == 1 || program.makes_b() || !program.more_b.empty());
}
inline constexpr const char* factors_outside =
    "kernels of GPUs find the factors of several products among their operands";

}  // namespace codetta::package
