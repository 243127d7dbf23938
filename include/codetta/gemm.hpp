// SPDX-License-Identifier: Apache-2.0
// What to compute: D = epilogue(A @ B, ...).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "codetta/epilogue.hpp"
#include "codetta/tensor.hpp"

namespace codetta {

// How results are rounded.
enum class Rounding : uint8_t {
  Fused,      // computed in the accumulator's type, one rounding at each store
  AsUnfused,  // accum is rounded to D's dtype and each result to its operands' promoted dtype, as separate kernels would
};

// B packed once for a kernel: an opaque layout that Kernel::pack makes and the same kernel family reads.
class PackedTensor;

// One GEMM with its epilogue. A: [M, K] or [batch, M, K]; B: [K, N] or [batch, K, N] (a rank-2 operand is shared by the batch);
// any strides, so transposed operands are views. out: the view of output D, or absent where D is not returned.
struct GemmArguments {
  TensorView A{};
  TensorView B{};
  std::optional<TensorView> out{};
  std::optional<DType> accumulator{};  // default: f32 (f64 for f64, i32 for 8-bit integers)
  EpilogueArguments epilogue{};        // default: D = accum
  Rounding rounding = Rounding::Fused;
  bool strict = false;                 // no contraction of a * b + c
  const PackedTensor* packed_B = nullptr;  // instead of B's memory; B still says shape and dtype
};

}  // namespace codetta
