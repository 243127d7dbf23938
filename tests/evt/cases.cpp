// SPDX-License-Identifier: Apache-2.0
#include "case.hpp"

namespace codetta::evt_tests {
namespace {

constexpr Case cases[] = {
    {"plain", "", "D=f16[M,N]", "def f(accum):\n    D = accum\n    return D\n"},
    {"scaled_source", "", "C=f16[M,N] alpha=scalar:0.5 beta=scalar:2.0 D=f16[M,N]",
     "def f(accum, C, alpha, beta):\n    D = alpha * accum + beta * C\n    return D\n"},
    {"relu_aux_store", "", "C=f16[M,N] alpha=scalar:0.5 D=f16[M,N] F=f16[M,N]",
     "def f(accum, alpha, C):\n    F = (accum * alpha) + (C * 2.0)\n    D = relu(F)\n    return D, F\n"},
    {"bias_gelu", "A=bf16", "bias=bf16[N] D=bf16[M,N]",
     "def f(accum, bias):\n    D = gelu(accum + bias)\n    return D\n"},
    {"bias_gelu_tanh_aux", "A=bf16", "bias=f32[1,N] D=bf16[M,N] Z=bf16[M,N]",
     "def f(accum, bias):\n    Z = accum + bias\n    D = gelu(Z, approximate=\"tanh\")\n    return D, Z\n"},
    {"row_and_column_scale", "", "rows=f32[M,1] columns=f32[N] D=f16[M,N]",
     "def f(accum, rows, columns):\n    D = accum * rows * columns\n    return D\n"},
    {"same_twice", "", "D=f16[M,N]", "def f(accum):\n    x = tanh(accum)\n    D = x * x + x\n    return D\n"},
    {"accumulator_stored", "", "D=f16[M,N] F=f32[M,N]",
     "def f(accum):\n    F = relu(accum)\n    D = accum\n    return D, F\n"},
    {"destination_used", "", "D=f16[M,N] E=f16[M,N]",
     "def f(accum):\n    D = silu(accum)\n    E = D * 2.0\n    return D, E\n"},
    {"outputs_of_outputs", "", "X=f16[M,N] Y=f16[M,N] D=f16[M,N] E=f16[M,N] F=f16[M,N]",
     "def f(accum, X, Y):\n    D = accum * X + Y\n    E = D * 2.0\n    F = E + Y\n    return D, E, F\n"},
    {"aliases", "", "D=f16[M,N] F=f16[M,N]", "def f(accum):\n    F = accum * 3.0\n    D = F\n    return D, F\n"},
    {"three_outputs", "", "C=f16[M,N] scale=f32[N] alpha=scalar:0.75 D=f16[M,N] F=f16[M,N] G=f32[M,N]",
     "def f(accum, alpha, C, scale):\n    F = relu(accum * alpha + C)\n    D = F * scale\n    G = accum\n    return D, "
     "F, G\n"},
    {"two_aux_loads", "A=bf16", "C=bf16[M,N] X=bf16[M,N] Y=f32[M,N] D=bf16[M,N]",
     "def f(accum, C, X, Y):\n    D = where(X > 0.0, accum * Y, C)\n    return D\n"},
    {"nested_sharing", "", "X=f16[M,N] D=f16[M,N]",
     "def f(accum, X):\n    a = exp(accum)\n    b = a + 1.0 / a\n    c = sigmoid(X)\n    d = c * (c + b)\n    D = d - "
     "c\n    return D\n"},
    {"column_sums", "", "D=f16[M,N] sums=f32[N]",
     "def f(accum):\n    D = relu(accum)\n    sums = sum(D, axis=\"column\")\n    return D, sums\n"},
    {"row_sums_and_squares", "", "residual=f16[M,N] D=f16[M,N] row_sums=f32[M,1] row_squares=f32[M,1]",
     "def f(accum, residual):\n    D = accum + residual\n    row_sums = sum(D, dim=-1)\n    row_squares = "
     "sum_of_squares(D, dim=-1)\n    return D, row_sums, row_squares\n"},
    {"row_max_min", "", "D=f16[M,N] high=f32[M,1] low=f32[N]",
     "def f(accum):\n    D = accum\n    high = max(accum, axis=\"row\")\n    low = min(accum, axis=\"column\")\n    "
     "return D, high, low\n"},
    {"scalar_amax", "A=bf16 nondeterministic", "scale=scalar:4.0 D=bf16[M,N] largest=f32[1] total=f32[1,1]",
     "def f(accum, scale):\n    D = accum * scale\n    largest = amax(accum)\n    total = sum(accum)\n    return D, "
     "largest, total\n"},
    {"gelu_backward", "A=bf16", "Z=bf16[M,N] D=bf16[M,N] bias_gradient=f32[N]",
     "def f(accum, Z):\n    D = accum * dgelu(Z)\n    bias_gradient = sum(D, axis=\"column\")\n    return D, "
     "bias_gradient\n"},
    {"activations", "", "D=f16[M,N] b=f16[M,N] c=f16[M,N]",
     "def f(accum):\n    D = elu(accum, alpha=0.5) + leaky_relu(accum, negative_slope=0.1)\n    b = hardswish(accum) + "
     "hardsigmoid(accum) - softplus(accum, beta=2.0)\n"
     "    c = sign(accum) * sqrt(abs(accum)) + log1p(accum * accum) - mish(accum)\n    return D, b, c\n"},
    {"comparisons", "", "X=f16[M,N] D=f16[M,N] positive=bool[M,N]",
     "def f(accum, X):\n    positive = (accum > 0.0) & (X <= 1.0) | ~(accum != X)\n    D = where(positive, "
     "minimum(accum, X), maximum(accum, clamp(X, min=-1.0, max=1.0)))\n    return D, positive\n"},
    {"casts_and_rounding", "", "D=f16[M,N] E=bf16[M,N]",
     "def f(accum):\n    D = cast(cast(accum, bf16) * 1.5, f16) + floor(accum) + round(accum)\n    E = "
     "trunc(ceil(accum) / 3.0) ** 2.0\n    return D, E\n"},
    {"quantize_int8", "A=i8 b_columns", "row_scale=f32[M,1] column_scale=f32[N] bias=f32[N] D=i8[M,N]",
     "def f(accum, row_scale, column_scale, bias):\n    D = clamp(accum * row_scale * column_scale + bias, min=-128, "
     "max=127)\n    return D\n"},
    {"integers", "A=i8 b_columns", "zero=i32[N] D=i32[M,N] low=u8[M,N]",
     "def f(accum, zero):\n    D = (accum - zero) // 16\n    low = (accum + 8) % 16\n    return D, low\n"},
    {"batched", "batch=3", "factor=f32[batch,1,1] bias=f16[batch,1,N] C=f16[batch,M,N] D=f16[batch,M,N]",
     "def f(accum, factor, bias, C):\n    D = accum * factor + bias + C\n    return D\n"},
    {"batched_item_sums", "batch=2 nondeterministic", "D=f16[batch,M,N] sums=f32[batch,1,1] rows=f32[batch,M,1]",
     "def f(accum):\n    D = accum\n    sums = sum(accum, dim=(-2, -1))\n    rows = sum(accum, dim=-1)\n    return D, "
     "sums, rows\n"},
    {"column_major", "", "C=f16[M,N]:columns D=f16[M,N] X=f32[N,M]",
     "def f(accum, C, X):\n    D = accum + C * permute(X, (1, 0))\n    return D\n"},
    {"column_major_sums", "",
     "C=f16[M,N]:columns D=f16[M,N]:columns F=bf16[M,N]:columns sums=f32[N] largest=f32[N] rows=f32[M,1]",
     "def f(accum, C):\n    F = accum + C\n    D = relu(F)\n    sums = sum(F, axis=\"column\")\n    largest = max(F, "
     "axis=\"column\")\n    rows = sum(D, axis=\"row\")\n    return D, F, sums, largest, rows\n"},
    {"padded_rows", "", "C=f16[M,N]:ld=512 D=f16[M,N]:ld=448 X=f16[M,N]:ld=387",
     "def f(accum, C, X):\n    D = accum * X + C\n    return D\n"},
    {"scalar_in_memory", "", "scale=f32[1] D=f16[M,N]", "def f(accum, scale):\n    D = accum * scale\n    return D\n"},
    {"constants_folded", "", "D=f16[M,N]", "def f(accum):\n    D = accum * (2.0 * 3.0 + 1.0) - (-0.5)\n    return D\n"},
    {"narrow_source", "", "C=f16[M,N] D=f32[M,N]", "def f(accum, C):\n    D = accum + C\n    return D\n"},
    {"as_8_bit_floats", "A=f8e4m3 b_columns two_level", "scale=scalar:4.0 D=f8e4m3[M,N] F=bf16[M,N]",
     "def f(accum, scale):\n    D = accum * scale\n    F = accum\n    return D, F\n"},
    {"singles", "A=f32 tf32", "bias=f32[N] D=f32[M,N]", "def f(accum, bias):\n    D = accum + bias\n    return D\n"},
    {"singles_by_columns", "A=f32 tf32 b_columns", "bias=f32[N] D=f32[M,N]",
     "def f(accum, bias):\n    D = accum + bias\n    return D\n"},
    {"doubles_reduced", "A=f64 nondeterministic", "D=f64[M,N] high=f64[M,1] low=f64[N] total=f64[1]",
     "def f(accum):\n    D = accum\n    high = max(accum, axis=\"row\")\n    low = min(accum, axis=\"column\")\n    "
     "total = sum(accum)\n    return D, high, low, total\n"},
    {"least_values", "nondeterministic", "D=f16[M,N] low=f32[N] least=f32[1]",
     "def f(accum):\n    D = accum\n    low = min(accum, axis=\"column\")\n    least = min(accum)\n    return D, low, "
     "least\n"},
    {"wide_reductions", "A=i8 b_columns nondeterministic", "D=i32[M,N] high=i64[M,1] low=i64[N] total=i64[N]",
     "def f(accum):\n    D = accum\n    x = cast(accum, i64)\n    high = max(x, axis=\"row\")\n    low = min(x, "
     "axis=\"column\")\n    total = sum(x, axis=\"column\")\n    return D, high, low, "
     "total\n"},
    {"sixteen_bit_integers", "A=bf16", "X=i16[M,N] D=bf16[M,N] q=u16[M,N] r=i16[M,N]",
     "def f(accum, X):\n    D = accum + X\n    q = cast(accum, bf16)\n    r = cast(accum, f16)\n    return D, q, r\n"},
    {"doubles", "A=f64", "C=f64[M,N] D=f64[M,N]", "def f(accum, C):\n    D = relu(accum + C)\n    return D\n"},
};

}  // namespace

std::span<const Case> all_cases() { return cases; }

}  // namespace codetta::evt_tests
