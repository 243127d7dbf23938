// SPDX-License-Identifier: Apache-2.0
// A product that cuBLASLt computes: which of the library's fixed epilogues it is, and which operands of the epilogue's
// program the library reads and writes. Plain, serializable data.
#pragma once

#include <cstdint>
#include <string_view>

#include "codetta/math_mode.hpp"
#include "codetta/tensor.hpp"

namespace codetta::package {

using codetta::MathMode;

// D = activation(alpha * scale_a * scale_b * (A @ B) + beta * C + bias): all that is used of the library's menu.
struct CudaVendorConfig {
  enum class Activation : uint8_t {
    None,
    Relu,
    Gelu,   // the tanh form
    Dgelu,  // times the derivative of the tanh form at `aux`, which is read
  };
  DType a_dtype = DType::f32, b_dtype = DType::f32, accumulator = DType::f32;
  MathMode math = MathMode::Strict;
  Activation activation = Activation::None;
  double alpha = 1, beta = 0;  // where no argument says them
  // Operands of the epilogue's program, -1: not there. `aux` is written (the value before Gelu) or read (Dgelu);
  // `scale_a` and `scale_b` are f32 in device memory, one value each.
  int32_t d = 0, c = -1, bias = -1, aux = -1, scale_a = -1, scale_b = -1;
  int32_t alpha_argument = -1, beta_argument = -1;  // host scalars among the program's arguments
  int32_t rank = 0;                                 // which of the library's proposals, best first
  int32_t workspace = 0;                            // bytes of it, for the sizes that it was planned for

  bool operator==(const CudaVendorConfig&) const = default;
};
std::string_view name_of(CudaVendorConfig::Activation activation);  // "none", "relu", "gelu", "dgelu"

// Proposals that are asked for, and the workspace that they may have.
inline constexpr int32_t max_vendor_proposals = 8, max_vendor_workspace = 32 << 20, max_vendor_operand = 1 << 16;

// What the library is asked: the configuration with sizes, strides in elements, and alignments. Columns of D, C and aux
// are adjacent.
struct VendorProblem {
  CudaVendorConfig config;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t a_batch = 0, a_row = 0, a_k = 1;
  int64_t b_batch = 0, b_k = 0, b_col = 1;
  int64_t d_batch = 0, d_row = 0, c_batch = 0, c_row = 0, aux_batch = 0, aux_row = 0, bias_batch = 0;
  DType d_dtype = DType::f32, bias_dtype = DType::f32, aux_dtype = DType::f32;
  int32_t a_alignment = 16, b_alignment = 16, c_alignment = 16, d_alignment = 16;  // bytes, at most 16
};
// Items of a batch with one B become further rows of one product where A and the epilogue's matrices lie so: what the
// library is asked when it is planned for and when it runs.
void fold_batch(VendorProblem& problem);

struct VendorProposal {
  int64_t workspace = 0;  // bytes
  double waves = 0;       // of the library's estimate
};

}  // namespace codetta::package
