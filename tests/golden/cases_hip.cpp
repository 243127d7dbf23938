// SPDX-License-Identifier: Apache-2.0
// HIP kernels: each family and architecture, layouts and dtypes, later phases, splits. tests/hip_compile compiles them.
#include "cases.hpp"

namespace codetta::golden {

const std::vector<Case>& hip_cases() {
  static const std::vector<Case> cases = {
      {"hip_plain_f16", "hip:gfx942", "M=4096 N=4096 K=4096 A=f16 B=f16 kernel=hip_mfma_128x128x32", "D=f16[M,N]",
       "def plain(accum):\n    D = accum\n    return D\n"},
      {"hip_relu_aux_store", "hip:gfx90a", "M=4096 N=4096 K=4096 A=bf16 B=bf16 b_columns kernel=hip_mfma_128x128x32",
       "alpha=scalar:f32 C=bf16[M,N] D=bf16[M,N] F=bf16[M,N]", R"(
def relu_aux_store(accum, alpha, C):
    F = (accum * alpha) + (C * 2.0)
    D = relu(F)
    return D, F
)"},
      {"hip_swiglu", "hip:gfx942", "M=4096 N=14336 half=7168 K=4096 A=bf16 B=bf16 kernel=hip_mfma_128x128x32",
       "D=bf16[M,half]", R"(
def swiglu(accum):
    gate, up = split(accum, 2, dim=-1)
    D = silu(gate) * up
    return D
)"},
      {"hip_dequantize_int8", "hip:gfx90a", "M=4096 N=4096 K=4096 A=i8 B=i8 b_columns kernel=hip_mfma_128x128x64",
       "row_scale=f32[M,1] column_scale=f32[N] D=bf16[M,N]", R"(
def dequantize(accum, row_scale, column_scale):
    D = accum * row_scale * column_scale
    return D
)"},
      {"hip_f64_residual", "hip:gfx942", "M=1000 N=479 K=96 A=f64 B=f64 strict kernel=hip_mfma_64x64x8",
       "C=f64[M,N] D=f64[M,N]", R"(
def residual(accum, C):
    D = accum * 0.5 + C
    return D
)"},
      {"hip_unaligned_bias_relu", "hip:gfx90a", "M=65536 N=512 K=13 A=bf16 B=bf16 kernel=hip_mfma_128x64x32",
       "bias=bf16[N] D=bf16[M,N]", R"(
def bias_relu(accum, bias):
    D = relu(accum + bias)
    return D
)"},
      {"hip_row_sums_split", "hip:gfx1100", "M=16 N=1024 K=16384 A=bf16 B=bf16 b_columns kernel=hip_wmma_16x64x64_k12",
       "residual=bf16[M,N] D=bf16[M,N] row_sums=f32[M,1]", R"(
def residual_row_sums(accum, residual):
    D = accum + residual
    row_sums = sum(D, dim=-1)
    return D, row_sums
)"},
      {"hip_softmax", "hip:gfx1201", "M=4096 N=2048 K=512 A=f16 B=f16 kernel=hip_wmma_128x128x32",
       "inverse_temperature=scalar:f32 D=f16[M,N] normalizer=f32[M,1]", R"(
def scaled_softmax(accum, inverse_temperature):
    scores = accum * inverse_temperature
    normalizer = logsumexp(scores, axis="row")
    D = exp(scores - normalizer)
    return D, normalizer
)"},
      {"hip_requantize_uint8", "hip:gfx1201", "M=512 N=512 K=512 A=u8 B=i8 kernel=hip_wmma_64x64x64",
       "row_scale=f32[M,1] column_scale=f32[N] bias=f32[N] D=i8[M,N]", R"(
def requantize_int8(accum, row_scale, column_scale, bias):
    D = clamp(accum * row_scale * column_scale + bias, min=-128, max=127)
    return D
)"},
      {"hip_quantize_fp8_amax", "hip:gfx942", "M=512 N=512 K=512 A=f8e4m3 B=f8e5m2 kernel=hip_simt_64x64x16",
       "scale=scalar:f32 D=f8e4m3[M,N] largest=f32[1]", R"(
def quantize_fp8_amax(accum, scale):
    largest = amax(accum)
    D = accum * scale
    return D, largest
)"},
      {"hip_statistics", "hip:gfx1100", "M=300 N=200 K=128 batch=2 A=bf16 B=f16 kernel=hip_simt_32x32x16",
       "total=f32[1,1,1] smallest=f32[batch,1,N] energy=f64[1,1,1]", R"(
def statistics(accum):
    total = sum(accum)
    smallest = min(accum, axis="column")
    energy = sum_of_squares(cast(accum, f64), axis="all")
    return total, smallest, energy
)"},
  };
  return cases;
}

}  // namespace codetta::golden
