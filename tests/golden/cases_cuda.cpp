// SPDX-License-Identifier: Apache-2.0
// CUDA kernels: each family, its schedules, layouts and dtypes, later phases, splits. tests/cuda_compile compiles them.
#include "cases.hpp"

namespace codetta::golden {
namespace {

// Epilogues of more than one family.
constexpr const char* relu_aux_store = R"(
def relu_aux_store(accum, alpha, C):
    F = (accum * alpha) + (C * 2.0)
    D = relu(F)
    return D, F
)";
constexpr const char* swiglu = R"(
def swiglu(accum):
    gate, up = split(accum, 2, dim=-1)
    D = silu(gate) * up
    return D
)";
constexpr const char* residual_row_sums = R"(
def residual_row_sums(accum, residual):
    D = accum + residual
    row_sums = sum(D, dim=-1)
    row_squares = sum_of_squares(D, dim=-1)
    return D, row_sums, row_squares
)";
constexpr const char* bias_relu = R"(
def bias_relu(accum, bias):
    D = relu(accum + bias)
    return D
)";
constexpr const char* dequantize = R"(
def dequantize(accum, row_scale, column_scale):
    D = accum * row_scale * column_scale
    return D
)";

}  // namespace

const std::vector<Case>& cuda_cases() {
  static const std::vector<Case> cases = {
      {"cuda_plain_f16", "cuda:sm_90a", "M=4096 N=4096 K=4096 A=f16 B=f16 kernel=cuda_sm90_128x128x64_pp_c2x1",
       "D=f16[M,N]", "def plain(accum):\n    D = accum\n    return D\n"},
      {"cuda_relu_aux_store", "cuda:sm_90a",
       "M=4096 N=4096 K=4096 A=bf16 B=bf16 b_columns kernel=cuda_sm90_128x176x64_pp_c2x1",
       "alpha=scalar:f32 C=bf16[M,N] D=bf16[M,N] F=bf16[M,N]", relu_aux_store},
      {"cuda_bias_gelu", "cuda:sm_90a", "M=8192 N=8192 K=8192 A=bf16 B=bf16 kernel=cuda_sm90_128x256x64_coop_c1x2",
       "bias=f32[N] D=bf16[M,N]", R"(
def bias_gelu(accum, bias):
    D = gelu(accum + bias, approximate="tanh")
    return D
)"},
      {"cuda_swiglu", "cuda:sm_90a",
       "M=4096 N=14336 half=7168 K=4096 A=bf16 B=bf16 b_columns kernel=cuda_sm90_128x192x64_pp_c2x1", "D=bf16[M,half]",
       swiglu},
      {"cuda_rotary", "cuda:sm_90a", "M=2048 N=1024 K=1024 A=bf16 B=bf16 kernel=cuda_sm90_128x128x64_coop",
       "cosines=f32[M,1,64] sines=f32[M,1,64] D=bf16[M,N]", R"(
def rotary(accum, cosines, sines):
    heads = reshape(accum, (-1, 8, 128))
    x, y = split(heads, 2, dim=-1)
    turned = join(x * cosines - y * sines, y * cosines + x * sines, dim=-1)
    D = reshape(turned, (-1, 1024))
    return D
)"},
      {"cuda_rotary_copied", "cuda:sm_90a",
       "M=2048 N=1024 K=1024 A=bf16 B=bf16 b_columns kernel=cuda_sm90_128x256x64_coop_tma",
       "cosines=f32[M,1,64] sines=f32[M,1,64] D=bf16[M,N]", R"(
def rotary(accum, cosines, sines):
    heads = reshape(accum, (-1, 8, 128))
    x, y = split(heads, 2, dim=-1)
    turned = join(x * cosines - y * sines, y * cosines + x * sines, dim=-1)
    D = reshape(turned, (-1, 1024))
    return D
)"},
      {"cuda_residual_row_sums", "cuda:sm_90a",
       "M=16 N=1024 K=16384 A=bf16 B=bf16 b_columns kernel=cuda_sm90_64x32x64_k4",
       "residual=bf16[M,N] D=bf16[M,N] row_sums=f32[M,1] row_squares=f32[M,1]", residual_row_sums},
      {"cuda_residual_squares_copied", "cuda:sm_90a",
       "M=4096 N=4096 K=14336 A=bf16 B=bf16 b_columns kernel=cuda_sm90_128x256x64_coop_c2x1_tma",
       "residual=bf16[M,N] D=bf16[M,N] row_squares=f32[M,1]", R"(
def residual_squares(accum, residual):
    D = accum + residual
    row_squares = sum_of_squares(D, dim=-1)
    return D, row_squares
)"},
      {"cuda_bias_gradient_copied", "cuda:sm_90a",
       "M=4096 N=4096 K=1024 A=bf16 B=bf16 kernel=cuda_sm90_128x128x64_pp_tma",
       "Z=bf16[M,N] D=bf16[M,N] G=f32[N] S=f32[M,1]", R"(
def bias_gradient(accum, Z):
    D = accum * dgelu(Z, approximate="tanh")
    G = sum(D, axis="column")
    S = max(D, axis="row")
    return D, G, S
)"},
      {"cuda_spread_rows", "cuda:sm_90a",
       "M=65536 N=1024 K=479 A=bf16 B=bf16 b_columns kernel=cuda_sm90_128x256x64_coop_c2x1_tma_sa8_pb",
       "bias=bf16[N] D=bf16[M,N]", bias_relu},
      {"cuda_vectors_copied", "cuda:sm_90a",
       "M=4096 N=4096 K=1024 A=i8 B=i8 b_columns kernel=cuda_sm90_128x128x128_pp_tma",
       "r=f32[M,1] c=f32[N] bias=bf16[N] D=bf16[M,N]", R"(
def vectors(accum, r, c, bias):
    D = accum * r * c + bias
    return D
)"},
      {"cuda_two_levels", "cuda:sm_90a",
       "M=2048 N=57344 K=8192 A=f8e4m3 B=f8e4m3 b_columns math=fp8_two_level_accum "
       "kernel=cuda_sm90_128x192x128_two_coop_c2x1",
       "r=f32[M,1] c=f32[N] D=bf16[M,N]", R"(
def scaled(accum, r, c):
    D = accum * r * c
    return D
)"},
      {"cuda_column_major_copied", "cuda:sm_90a",
       "M=4096 N=4096 K=4096 A=f16 B=f16 kernel=cuda_sm90_128x128x64_pp_c1x2_tma",
       "C=f16[M,N]:columns X=f32[N,M] D=f16[M,N] E=f16[M,N]:columns", R"(
def column_major(accum, C, X):
    D = accum + C * permute(X, (1, 0))
    E = relu(D)
    return D, E
)"},
      {"cuda_softmax_statistics", "cuda:sm_90a",
       "M=2048 N=2048 K=128 batch=128 A=bf16 B=bf16 b_columns sums_exponents "
       "kernel=cuda_sm90_128x256x64_coop_c2x1_tma",
       "D=bf16[batch,M,N] largest=f32[batch,M,1] exponents=f32[batch,M,1]", R"(
def softmax_statistics(accum):
    D = cast(accum, bf16)
    scores = cast(D, f32) * 0.125
    largest = max(scores, axis="row")
    exponents = sum(exp(scores - largest), axis="row")
    return D, largest, exponents
)"},
      {"cuda_causal_statistics", "cuda:sm_90a",
       "M=2048 N=2048 K=128 batch=128 A=bf16 B=bf16 b_columns sums_exponents "
       "kernel=cuda_sm90_128x256x64_coop_c2x1_tma",
       "D=bf16[batch,M,N] largest=f32[batch,M,1] exponents=f32[batch,M,1]", R"(
def causal_statistics(accum):
    D = cast(accum, bf16)
    scores = where(col_index() <= row_index(), cast(D, f32) * 0.125, -inf)
    largest = max(scores, axis="row")
    exponents = sum(exp(scores - largest), axis="row")
    return D, largest, exponents
)"},
      {"cuda_logsumexp_target", "cuda:sm_90a",
       "M=512 N=16384 K=512 A=bf16 B=bf16 b_columns kernel=cuda_sm90_128x256x64_coop_c2x1_tma",
       "target=i64[M,1] L=f32[M,1] T=f32[M,1]", R"(
def logsumexp_target(accum, target):
    L = logsumexp(accum, axis="row")
    T = sum(where(col_index() == target, accum, 0.0), axis="row")
    return L, T
)"},
      {"cuda_softmax", "cuda:sm_90a", "M=4096 N=2048 K=512 A=bf16 B=bf16 kernel=cuda_sm90_128x256x64_coop_c2x1",
       "inverse_temperature=scalar:f32 D=bf16[M,N] normalizer=f32[M,1]", R"(
def scaled_softmax(accum, inverse_temperature):
    scores = accum * inverse_temperature
    normalizer = logsumexp(scores, axis="row")
    D = exp(scores - normalizer)
    return D, normalizer
)"},
      {"cuda_head_norms", "cuda:sm_90a",
       "M=2048 N=128 K=8192 batch=80 A=bf16 B=bf16 b_columns kernel=cuda_sm90_128x128x64_pp_c2x1",
       "w=bf16[batch,1,N] cosines=f32[M,64] sines=f32[M,64] D=bf16[batch,M,N]", R"(
def head_norms(accum, w, cosines, sines):
    r = accum * rsqrt(mean(accum * accum, dim=-1) + 0.00001) * w
    x, y = split(r, 2, dim=-1)
    D = join(x * cosines - y * sines, y * cosines + x * sines, dim=-1)
    return D
)"},
      {"cuda_softmax_of_experts", "cuda:sm_80", "M=4096 N=128 K=2048 A=bf16 B=bf16 kernel=cuda_sm80_128x128x64",
       "bias=f32[N] D=f32[M,N] normalizer=f32[M,1]", R"(
def softmax_of_experts(accum, bias):
    scores = accum + bias
    normalizer = logsumexp(scores, axis="row")
    D = exp(scores - normalizer)
    return D, normalizer
)"},
      {"cuda_statistics", "cuda:sm_90a", "M=300 N=200 K=128 batch=2 A=bf16 B=bf16 kernel=cuda_sm90_64x64x64",
       "total=f32[1,1,1] smallest=f32[batch,1,N] energy=f64[1,1,1]", R"(
def statistics(accum):
    total = sum(accum)
    smallest = min(accum, axis="column")
    energy = sum_of_squares(cast(accum, f64), axis="all")
    return total, smallest, energy
)"},
      {"cuda_accumulate_streamed", "cuda:sm_90a",
       "M=1024 N=1024 K=4096 A=bf16 B=bf16 b_columns kernel=cuda_sm90_128x128x64_coop_tma_sk",
       "C=bf16[M,N] D=bf16[M,N]", R"(
def accumulate(accum, C):
    D = accum + C
    return D
)"},
      {"cuda_wide_integers", "cuda:sm_80", "M=100 N=96 K=2048 A=i32 B=i32 kernel=cuda_simt_32x32x16_k8", "D=i64[M,N]",
       R"(
def doubled(accum):
    D = accum * 2
    return D
)"},
      {"cuda_f32_bias_relu", "cuda:sm_80", "M=1000 N=479 K=13 kernel=cuda_simt_64x64x16", "bias=f32[N] D=f32[M,N]",
       bias_relu},
      {"cuda_f64_strided_strict", "cuda:sm_80", "M=64 N=48 K=32 A=f64 B=f64 strict kernel=cuda_simt_32x32x16",
       "C=f64[M,N]:strided D=f64[M,N]:strided", R"(
def residual(accum, C):
    D = accum * 0.5 + C
    return D
)"},
      {"cuda_requantize_int8", "cuda:sm_100a", "M=512 N=512 K=512 A=i8 B=i8 kernel=cuda_simt_64x64x16",
       "row_scale=f32[M,1] column_scale=f32[N] bias=f32[N] D=i8[M,N]", R"(
def requantize_int8(accum, row_scale, column_scale, bias):
    D = clamp(accum * row_scale * column_scale + bias, min=-128, max=127)
    return D
)"},
      {"cuda_quantize_fp8_amax", "cuda:sm_89", "M=512 N=512 K=512 A=f8e4m3 B=f8e5m2 kernel=cuda_simt_64x64x16",
       "scale=scalar:f32 D=f8e4m3[M,N] largest=f32[1]", R"(
def quantize_fp8_amax(accum, scale):
    largest = amax(accum)
    D = accum * scale
    return D, largest
)"},
      {"cuda_swiglu_interleaved", "cuda:sm_80", "M=64 N=64 K=2048 A=bf16 B=f16 kernel=cuda_simt_16x64x8_k8",
       "D=f16[M,32]", R"(
def swiglu_interleaved(accum):
    pairs = reshape(accum, (-1, 32, 2))
    gate, up = split(pairs, 2, dim=-1)
    D = reshape(silu(gate) * up, (-1, 32))
    return D
)"},
      {"cuda_dropout_heads", "cuda:sm_100a", "M=128 N=64 K=64 A=bf16 B=bf16 kernel=cuda_simt_32x32x16",
       "seed=scalar:i64 D=bf16[4,M,16]", R"(
def dropout_heads(accum, seed):
    heads = reshape(dropout(accum, 0.1, seed), (-1, 4, 16))
    D = permute(heads, (1, 0, 2))
    return D
)"},
      {"cuda_unaligned_bias_relu", "cuda:sm_80", "M=65536 N=512 K=13 A=bf16 B=bf16 kernel=cuda_sm80_128x64x32",
       "bias=bf16[N] D=bf16[M,N]", bias_relu},
      {"cuda_dequantize_int8", "cuda:sm_89", "M=4096 N=4096 K=4096 A=u8 B=i8 b_columns kernel=cuda_sm80_128x128x128",
       "row_scale=f32[M,1] column_scale=f32[N] D=bf16[M,N]", dequantize},
      {"cuda_decode_swiglu", "cuda:sm_90a",
       "M=16 N=28672 half=14336 K=4096 A=bf16 B=bf16 b_columns kernel=cuda_stream_16x64x512_w4of8_s2", "D=bf16[M,half]",
       swiglu},
      {"cuda_decode_f32_residual", "cuda:sm_80", "M=3 N=4096 K=4096 kernel=cuda_stream_8x32x128_w4of4_s4",
       "residual=f32[M,N] D=f32[M,N]", R"(
def add_residual(accum, residual):
    D = accum + residual
    return D
)"},
      {"cuda_blackwell_plain", "cuda:sm_100a", "M=128 N=4096 K=4096 A=f16 B=f16 kernel=cuda_sm100_128x64x64",
       "D=f16[M,N]", "def plain(accum):\n    D = accum\n    return D\n"},
      {"cuda_blackwell_relu_aux_store", "cuda:sm_100a",
       "M=4096 N=4096 K=4096 A=bf16 B=bf16 b_columns kernel=cuda_sm100_128x256x64_clc_c2x1",
       "alpha=scalar:f32 C=bf16[M,N] D=bf16[M,N] F=bf16[M,N]", relu_aux_store},
      {"cuda_blackwell_swiglu", "cuda:sm_103a",
       "M=4096 N=14336 half=7168 K=4096 A=f8e4m3 B=f8e5m2 b_columns kernel=cuda_sm100_128x256x128_e2_c2x1",
       "scale=scalar:f32 D=f8e4m3[M,half]", R"(
def swiglu(accum, scale):
    gate, up = split(accum, 2, dim=-1)
    D = silu(gate * scale) * up
    return D
)"},
      {"cuda_blackwell_residual_row_sums", "cuda:sm_103a",
       "M=256 N=1024 K=16384 A=bf16 B=bf16 kernel=cuda_sm100_128x128x64_k9",
       "residual=bf16[M,N] D=bf16[M,N] row_sums=f32[M,1] row_squares=f32[M,1]", residual_row_sums},
      {"cuda_blackwell_dequantize_int8", "cuda:sm_100a",
       "M=4096 N=4096 K=4096 A=u8 B=i8 kernel=cuda_sm100_128x192x128_clc_c2x1",
       "row_scale=f32[M,1] column_scale=f32[N] D=bf16[M,N]", dequantize},
  };
  return cases;
}

}  // namespace codetta::golden
