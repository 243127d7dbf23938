// SPDX-License-Identifier: Apache-2.0
// Element types: loads, stores, casts, integers, rounding.
#include "cases.hpp"

namespace codetta::golden {

const std::vector<Case>& type_cases() {
  static const std::vector<Case> cases = {
      {"loads_of_floats", "cpu:avx512", "M=64 N=48 K=32 A=f16 B=f16",
       "a=f32[M,N] b=bf16[M,N] c=f16[M,N] d=f8e4m3[M,N] e=f8e5m2[N] D=f32[M,N]", R"(
def loads_of_floats(accum, a, b, c, d, e):
    D = accum + a + b + c + d + e
    return D
)"},
      {"loads_of_integers", "cpu:avx2", "M=64 N=48 K=32",
       "a=i8[M,N] b=u8[M,N] c=i16[N] d=u16[N] e=i32[M,1] f=u32[M,N] g=i64[M,N] h=u64[1] i=bool[M,N] D=f32[M,N]", R"(
def loads_of_integers(accum, a, b, c, d, e, f, g, h, i):
    D = accum + a + b + c + d + e + f + g + h + i
    return D
)"},
      {"stores_of_floats", "cpu:avx2", "M=64 N=48 K=32",
       "a=f64[M,N] b=f32[M,N] c=bf16[M,N] d=f16[M,N] e=f8e4m3[M,N] f=f8e5m2[M,N]", R"(
def stores_of_floats(accum):
    a = accum * 1
    b = accum * 2
    c = accum * 3
    d = accum * 4
    e = accum * 5
    f = accum * 6
    return a, b, c, d, e, f
)"},
      {"stores_of_integers", "cpu:avx512", "M=64 N=48 K=32",
       "a=i8[M,N] b=u8[M,N] c=i16[M,N] d=u16[M,N] e=i32[M,N] f=u32[M,N] g=i64[M,N] h=u64[M,N] i=bool[M,N]", R"(
def stores_of_integers(accum):
    a = accum * 1
    b = accum * 2
    c = accum * 3
    d = accum * 4
    e = accum * 5
    f = accum * 6
    g = accum * 7
    h = accum * 8
    i = accum * 9
    return a, b, c, d, e, f, g, h, i
)"},
      {"casts", "cpu:avx2", "M=64 N=48 K=32", "D=f32[M,N] E=i32[M,N]", R"(
def casts(accum):
    D = cast(accum, bf16) + cast(accum, f16) + cast(accum, f8e4m3) + cast(accum, "f8e5m2")
    E = cast(accum, i8) + cast(accum, u8) + cast(accum, i16) + cast(cast(accum, bool), i32)
    return D, E
)"},
      {"quantize_fp8", "cpu:avx512", "M=64 N=48 K=32 A=bf16 B=bf16", "scale=f32[M,1] D=f8e4m3[M,N] largest=f32[1]", R"(
def quantize_fp8(accum, scale):
    largest = amax(accum)
    D = accum * scale
    return D, largest
)"},
      {"requantize_int8", "cpu:avx512_vnni", "M=64 N=48 K=32 A=u8 B=i8",
       "row_scale=f32[M,1] column_scale=f32[N] bias=f32[N] D=i8[M,N]", R"(
def requantize_int8(accum, row_scale, column_scale, bias):
    D = clamp(accum * row_scale * column_scale + bias, min=-128, max=127)
    return D
)"},
      {"zero_points", "cpu:avx2", "M=64 N=48 K=32 A=u8 B=i8", "row_sums=i32[M,1] zero=scalar:i32 D=i32[M,N] E=u8[M,N]",
       R"(
def zero_points(accum, row_sums, zero):
    D = accum - row_sums * zero
    E = D // 16
    return D, E
)"},
      {"integer_arithmetic", "cpu:avx512", "M=64 N=48 K=32 A=i8 B=i8", "x=i32[M,N] D=i32[M,N] E=i32[M,N] F=f32[M,N]",
       R"(
def integer_arithmetic(accum, x):
    D = (accum + x) // 7 - accum % 5 + x ** 3
    E = clamp(abs(accum), 0, 100) * sign(x) - minimum(accum, x)
    F = accum / x + relu(accum)
    return D, E, F
)"},
      {"weak_literals", "cpu:generic", "M=64 N=48 K=32 A=u8 B=u8", "x=u8[M,N] D=i32[M,N] E=u8[M,N] F=f32[M,N]", R"(
def weak_literals(accum, x):
    D = accum + (x + 300)
    E = x + 200 + cast(accum, u8)
    F = x * 0.5 + accum
    return D, E, F
)"},
      {"double_precision", "cpu:avx512", "M=64 N=48 K=32 A=f64 B=f64", "C=f64[M,N] bias=f32[N] D=f64[M,N] E=f32[M,N]",
       R"(
def double_precision(accum, C, bias):
    D = tanh(accum + C * 0.1) + bias
    E = D
    return D, E
)"},
      {"double_operand", "cpu:avx2", "M=64 N=48 K=32", "x=f64[N] D=f64[M,N] E=f32[M,N]", R"(
def double_operand(accum, x):
    D = accum * x
    E = exp(D)
    return D, E
)"},
      {"as_unfused", "cpu:avx2", "M=64 N=48 K=32 A=bf16 B=bf16 as_unfused", "bias=bf16[N] C=f16[M,N] D=bf16[M,N]", R"(
def as_unfused(accum, bias, C):
    t = relu(accum + bias)
    D = t * C
    return D
)"},
      {"neon_row_scale", "cpu:neon", "M=64 N=48 K=32", "bias=f32[N] D=f16[M,N]", R"(
def neon_row_scale(accum, bias):
    D = silu(accum + bias)
    return D
)"},
  };
  return cases;
}

}  // namespace codetta::golden
