// SPDX-License-Identifier: Apache-2.0
// Reductions as outputs and as values, and layout.
#include "cases.hpp"

namespace codetta::golden {

const std::vector<Case>& reduction_cases() {
  static const std::vector<Case> cases = {
      {"row_reductions", "cpu:avx512", "M=64 N=48 K=32",
       "a=f32[M,1] b=f32[M,1] c=f32[M,1] d=f32[M,1] e=f32[M,1] f=f32[M,1] g=f32[M,1]", R"(
def row_reductions(accum):
    a = sum(accum, axis="row")
    b = max(accum, dim=-1)
    c = min(accum, axis="row")
    d = mean(accum, axis="row")
    e = amax(accum, axis="row")
    f = sum_of_squares(accum, axis="row")
    g = logsumexp(accum, axis="row")
    return a, b, c, d, e, f, g
)"},
      {"column_reductions", "cpu:avx2", "M=64 N=48 K=32",
       "D=f32[M,N] a=f32[N] b=f32[1,N] c=f32[N] d=f32[N] e=f32[N] f=bf16[N] g=f32[N]", R"(
def column_reductions(accum):
    D = accum * 2
    a = sum(D, axis="column")
    b = max(D, dim=-2)
    c = min(D, axis="column")
    d = mean(D, axis="column")
    e = amax(D, axis="column")
    f = sum_of_squares(D, axis="column")
    g = logsumexp(D, axis="column")
    return D, a, b, c, d, e, f, g
)"},
      {"reductions_of_all", "cpu:generic", "M=64 N=48 K=32",
       "a=f32[1] b=f32[] c=f32[1,1] d=f32[1] e=f64[1] f=f32[1] g=f32[1]", R"(
def reductions_of_all(accum):
    a = sum(accum)
    b = max(accum, axis="all")
    c = min(accum)
    d = mean(accum)
    e = amax(accum)
    f = sum_of_squares(accum)
    g = logsumexp(accum)
    return a, b, c, d, e, f, g
)"},
      {"reductions_of_a_batch", "cpu:avx2", "M=64 N=48 K=32 batch=3", "a=f32[batch,M,1] b=f32[batch,1,N] d=f32[1,1,1]",
       R"(
def reductions_of_a_batch(accum):
    a = sum(accum, axis="row")
    b = max(accum, axis="column")
    d = amax(accum, axis="all")
    return a, b, d
)"},
      {"reductions_of_integers", "cpu:avx2", "M=64 N=48 K=32 A=i8 B=i8", "a=i32[M,1] b=i32[N] c=i64[1] d=f32[M,1]", R"(
def reductions_of_integers(accum):
    a = sum(accum, axis="row")
    b = max(accum, axis="column")
    c = sum(cast(accum, i64))
    d = mean(accum, axis="row")
    return a, b, c, d
)"},
      {"softmax", "cpu:avx512", "M=64 N=48 K=32", "scale=scalar:f32 D=bf16[M,N]", R"(
def soft_maximum(accum, scale):
    x = accum * scale
    e = exp(x - max(x, axis="row"))
    D = e / sum(e, axis="row")
    return D
)"},
      {"layer_norm", "cpu:avx2", "M=64 N=48 K=32", "weight=f32[N] bias=f32[N] residual=f32[M,N] D=f32[M,N]", R"(
def normalized(accum, weight, bias, residual):
    x = accum + residual
    centered = x - mean(x, axis="row")
    D = centered * rsqrt(mean(centered * centered, axis="row") + 1e-5) * weight + bias
    return D
)"},
      {"column_value", "cpu:avx2", "M=64 N=48 K=32", "D=f32[M,N] top=f32[N]", R"(
def column_value(accum):
    top = amax(accum, axis="column")
    D = accum / top
    return D, top
)"},
      {"value_of_all", "cpu:avx512", "M=64 N=48 K=32", "D=i8[M,N] scale=f32[1]", R"(
def value_of_all(accum):
    scale = amax(accum) / 127
    D = round(accum / scale)
    return D, scale
)"},
      {"reduction_of_reductions", "cpu:avx2", "M=64 N=48 K=32", "D=f32[M,N] spread=f32[1]", R"(
def reduction_of_reductions(accum):
    row = mean(accum, axis="row")
    D = accum - row
    spread = max(row) - min(row)
    return D, spread
)"},
      {"swiglu", "cpu:avx512_bf16", "M=64 N=96 K=32 A=bf16 B=bf16", "D=bf16[M,48]", R"(
def swiglu(accum):
    gate, up = split(accum, 2, dim=-1)
    D = silu(gate) * up
    return D
)"},
      {"swiglu_interleaved", "cpu:avx2", "M=64 N=96 K=32", "bias=f32[N] D=f32[M,48]", R"(
def swiglu_interleaved(accum, bias):
    pairs = reshape(accum + bias, (-1, 48, 2))
    gate, up = split(pairs, 2, dim=-1)
    D = reshape(silu(gate) * up, (-1, 48))
    return D
)"},
      {"join_in_blocks", "cpu:avx2", "M=64 N=48 K=32", "x=f32[M,24] D=f32[M,N]", R"(
def join_in_blocks(accum, x):
    left, right = split(accum, 2, dim=-1)
    D = join(right * x, left + x, dim=-1)
    return D
)"},
      {"join_interleaved", "cpu:avx512", "M=64 N=48 K=32", "D=f32[M,N]", R"(
def join_interleaved(accum):
    left, right = split(accum, 2, dim=-1)
    D = join(tanh(left), sigmoid(right), dim=-1, interleave=True)
    return D
)"},
      {"rotary", "cpu:avx512", "M=64 N=64 K=32", "cosines=f32[M,1,8] sines=f32[M,1,8] D=bf16[M,N]", R"(
def rotary(accum, cosines, sines):
    heads = reshape(accum, (-1, 4, 16))
    x, y = split(heads, 2, dim=-1)
    turned = join(x * cosines - y * sines, y * cosines + x * sines, dim=-1)
    D = reshape(turned, (-1, 64))
    return D
)"},
      {"heads_first", "cpu:avx2", "M=64 N=64 K=32", "bias=f32[N] D=f32[4,M,16]", R"(
def heads_first(accum, bias):
    heads = reshape(accum + bias, (-1, 4, 16))
    D = permute(heads, (1, 0, 2))
    return D
)"},
      {"transposed_output", "cpu:avx2", "M=64 N=48 K=32", "C=f32[N,M] D=f32[N,M]", R"(
def transposed_output(accum, C):
    D = permute(accum, (1, 0)) + C
    return D
)"},
      {"row_sums_per_head", "cpu:generic", "M=64 N=64 K=32", "D=f32[M,N] sums=f32[M,1]", R"(
def row_sums_per_head(accum):
    left, right = split(accum, 2)
    D = join(right, left)
    sums = sum(left * right, axis="row")
    return D, sums
)"},
  };
  return cases;
}

}  // namespace codetta::golden
