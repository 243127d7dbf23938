// SPDX-License-Identifier: Apache-2.0
// Programs of products whose factors lie nowhere, or that share an A, for the gates of GPU kernels.
#pragma once

#include <cstdint>

#include "package/epilogue_program.hpp"

namespace codetta::compile_gate {

// Of a product of `dtype` that stores it, with factors that are made as dequantized weights are (a byte times a number
// of its column); `heavy`: with a matrix of their own beside them.
package::EpilogueProgram made_factors(DType dtype, DType accumulator, bool a, bool b, bool heavy);
// The product of the results of `count` products of one A.
package::EpilogueProgram products_of_one_a(DType dtype, DType accumulator, int32_t count);

// Three products of one A that differ in columns, each with a bias and a result of its own; `turned`: of two parts of
// 64 columns, of which the difference is stored, too.
package::EpilogueProgram products_with_spaces(DType dtype, DType accumulator, bool turned);

}  // namespace codetta::compile_gate
