// SPDX-License-Identifier: Apache-2.0
// Operands of every class, every element-wise operation.
#include "cases.hpp"

namespace codetta::golden {

const std::vector<Case>& elementwise_cases() {
  static const std::vector<Case> cases = {
      {"plain_product", "cpu:avx512", "M=64 N=48 K=32 fused", "D=f32[M,N]", R"(
def plain_product(accum):
    D = accum
    return D
)"},
      {"relu_aux_store", "cpu:avx512", "M=64 N=48 K=32 A=bf16 B=bf16",
       "C=bf16[M,N] alpha=scalar:f32 D=bf16[M,N] F=bf16[M,N]", R"(
def relu_aux_store(accum, alpha, C):
    F = (accum * alpha) + (C * 2.0)
    D = relu(F)
    return D, F
)"},
      {"linear_combination", "cpu:avx2", "M=64 N=48 K=32 fused",
       "C=f32[M,N] alpha=scalar:f32 beta=scalar:f32 D=f32[M,N]", R"(
def linear_combination(accum, C, alpha, beta):
    D = alpha * accum + beta * C
    return D
)"},
      {"linear_combination_strict", "cpu:avx2", "M=64 N=48 K=32 strict fused",
       "C=f32[M,N] alpha=scalar:f32 beta=scalar:f32 D=f32[M,N]", R"(
def linear_combination(accum, C, alpha, beta):
    D = alpha * accum + beta * C
    return D
)"},
      {"one_line", "cpu:generic", "M=64 N=48 K=32", "aux=f32[M,N] D=f32[M,N]",
       "def divide(accum, aux): D = accum / aux; return D"},
      {"several_functions", "cpu:avx2", "M=64 N=48 K=32", "bias=f32[N] limit=scalar:f32 D=f32[M,N]", R"(
def soft_cap(x, limit):
    """Keeps x within (-limit, limit), smoothly."""
    y = limit * tanh(x / limit)
    return y

def twice(x):
    y, z = x + 1, x - 1
    return y, z

def epilogue(accum, bias, limit):
    a, b = twice(soft_cap(accum + bias, limit))
    D = a * b
    return D
)"},
      {"row", "cpu:avx512_bf16", "M=64 N=48 K=32 A=bf16 B=bf16 fused", "bias=bf16[N] scale=f32[1,N] D=bf16[M,N]", R"(
def row(accum, bias, scale):
    D = gelu(accum * scale + bias)
    return D
)"},
      {"column", "cpu:avx512", "M=64 N=48 K=32 fused", "scale=f16[M,1] shift=f32[M,1] D=f16[M,N]", R"(
def column(accum, scale, shift):
    D = accum * scale + shift
    return D
)"},
      {"scalar", "cpu:avx2", "M=64 N=48 K=32", "a=f32[] b=bf16[1] c=f32[1,1] d=scalar:f32 e=scalar:i32 D=f32[M,N]", R"(
def scalar(accum, a, b, c, d, e):
    D = (accum + a * b) * c + d - e
    return D
)"},
      {"batch", "cpu:avx2", "M=64 N=48 K=32 batch=3",
       "factor=f32[batch,1,1] rows=f32[batch,1,N] columns=f32[batch,M,1] C=f32[batch,M,N] shared=f32[M,N] "
       "D=f32[batch,M,N]",
       R"(
def batch(accum, factor, rows, columns, C, shared):
    D = accum * factor + rows * columns + C * shared + batch_index()
    return D
)"},
      {"strided_operands", "cpu:avx2", "M=64 N=48 K=32",
       "C=f32[M,N]:strided bias=bf16[N]:strided D=f32[M,N]:strided E=i8[M,N]:strided", R"(
def strided(accum, C, bias):
    D = accum + C + bias
    E = D * 10
    return D, E
)"},
      {"uniform_outputs", "cpu:avx512", "M=64 N=48 K=32",
       "bias=f32[N] scale=f32[M,1] s=scalar:f32 D=f32[M,N] r=f32[N] c=f32[M,1] v=f32[1]", R"(
def uniform_outputs(accum, bias, scale, s):
    r = exp(bias)
    c = scale * s
    v = s + 1
    D = accum + r * c + v
    return D, r, c, v
)"},
      {"six_outputs", "cpu:avx2", "M=64 N=48 K=32",
       "a=f32[M,N] b=f32[M,N] c=bf16[M,N] d=f16[M,N] e=f64[M,N] accum=f32[M,N]", R"(
def six_outputs(accum):
    a = -accum
    b = a * accum
    c = b + a
    d = c - b
    e = d * 0.5
    return a, b, c, d, e, accum
)"},
      {"arithmetic", "cpu:avx2", "M=64 N=48 K=32",
       "x=f32[M,N] y=f32[N] D=f32[M,N] E=f32[M,N] F=f32[M,N] G=f32[M,N] H=f32[M,N]", R"(
def arithmetic(accum, x, y):
    D = accum + x - y * 3
    E = accum / x
    F = accum ** y + x ** 2 + x ** 0.5
    G = accum // y - accum % y
    H = multiply_add(accum, x, -y)
    return D, E, F, G, H
)"},
      {"comparisons_and_logic", "cpu:avx512", "M=64 N=48 K=32", "x=f32[M,N] flag=bool[N] D=f32[M,N] mask=bool[M,N]", R"(
def comparisons_and_logic(accum, x, flag):
    inside = (accum > -1) & (accum < 1) | (x >= 2) ^ (x <= -2)
    mask = inside & ~flag | (accum == x) & (x != 0)
    D = where(mask, accum, x)
    return D, mask
)"},
      {"where_with_infinities", "cpu:avx2", "M=64 N=48 K=32", "mask=bool[M,N] D=f32[M,N] E=f32[M,N]", R"(
def where_with_infinities(accum, mask):
    D = where(mask, accum, -inf)
    E = where(mask, nan, accum)
    return D, E
)"},
      {"bounds", "cpu:avx2", "M=64 N=48 K=32", "low=f32[N] high=f32[M,1] D=f32[M,N] E=f32[M,N] F=f32[M,N]", R"(
def bounds(accum, low, high):
    D = clamp(accum, low, high)
    E = minimum(accum, high) - maximum(accum, low)
    F = hardtanh(accum, min_val=-2.0, max_val=2.0) + relu6(accum) + clamp(accum, min=0.5)
    return D, E, F
)"},
      {"magnitude_and_rounding", "cpu:avx512", "M=64 N=48 K=32", "D=f32[M,N] E=f32[M,N]", R"(
def magnitude_and_rounding(accum):
    D = sign(accum) * abs(accum)
    E = floor(accum) + ceil(accum) + round(accum) + trunc(accum)
    return D, E
)"},
      {"exponentials", "cpu:avx2", "M=64 N=48 K=32", "D=f32[M,N] E=f32[M,N]", R"(
def exponentials(accum):
    D = exp(accum) + exp2(accum) + expm1(accum)
    E = log(accum) + log2(accum) + log1p(accum)
    return D, E
)"},
      {"roots_and_trigonometry", "cpu:generic", "M=64 N=48 K=32", "D=f32[M,N] E=f32[M,N]", R"(
def roots_and_trigonometry(accum):
    D = sqrt(accum) + rsqrt(accum) + reciprocal(accum)
    E = sin(accum) + cos(accum) + tanh(accum) + erf(accum)
    return D, E
)"},
      {"activations", "cpu:avx512", "M=64 N=48 K=32", "a=f32[M,N] b=f32[M,N] c=f32[M,N] d=f32[M,N]", R"(
def activations(accum):
    a = relu(accum) + sigmoid(accum)
    b = silu(accum)
    c = gelu(accum)
    d = gelu(accum, approximate="tanh")
    return a, b, c, d
)"},
      {"piecewise_activations", "cpu:avx2", "M=64 N=48 K=32", "a=f32[M,N] b=f32[M,N] c=f32[M,N] d=f32[M,N] e=f32[M,N]",
       R"(
def piecewise_activations(accum):
    a = elu(accum, alpha=0.5)
    b = leaky_relu(accum, negative_slope=0.1)
    c = hardswish(accum) + hardsigmoid(accum)
    d = softplus(accum, beta=2.0)
    e = mish(accum)
    return a, b, c, d, e
)"},
      {"derivatives", "cpu:avx512", "M=64 N=48 K=32", "z=bf16[M,N] D=f32[M,N] E=f32[M,N]", R"(
def derivatives(accum, z):
    D = accum * (drelu(z) + dsigmoid(z) + dtanh(z) + dsilu(z))
    E = accum * dgelu(z) + dgelu(z, approximate="tanh")
    return D, E
)"},
      {"dropout_residual", "cpu:avx2", "M=64 N=48 K=32 batch=2",
       "residual=f32[batch,M,N] p=scalar:f32 seed=scalar:i64 D=f32[batch,M,N]", R"(
def dropout_residual(accum, residual, p, seed):
    D = residual + dropout(accum, p, seed)
    return D
)"},
      {"positions", "cpu:avx512", "M=64 N=48 K=32", "scale=scalar:f32 D=f32[M,N] E=i64[M,N]", R"(
def positions(accum, scale):
    D = where(col_index() <= row_index(), accum * scale, -30000.0)
    E = row_index() * 100 + col_index()
    return D, E
)"},
      {"folded_and_shared", "cpu:avx2", "M=64 N=48 K=32", "x=f32[N] D=f32[M,N] E=f32[M,N]", R"(
def folded_and_shared(accum, x):
    unused = exp(accum)
    a = (accum + x) * 1.0 + (2 * 3 - 6)
    b = (x + accum) * (0.5 + 0.5)
    D = relu(a)
    E = relu(b) - -b
    return D, E
)"},
      {"accumulate_in_place", "cpu:avx512", "M=64 N=48 K=32 fused", "C=f32[M,N] alpha=scalar:f32 D=f32[M,N]", R"(
def accumulate(accum, C, alpha):
    D = C + alpha * accum
    return D
)"},
  };
  return cases;
}

}  // namespace codetta::golden
