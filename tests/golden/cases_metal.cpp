// SPDX-License-Identifier: Apache-2.0
// Metal kernels: both families, layouts and dtypes, later phases, splits, indexed operands. tests/metal_compile
// compiles them, tests/emulator runs what they are made of.
#include "cases.hpp"

namespace codetta::golden {

const std::vector<Case>& metal_cases() {
  static const std::vector<Case> cases = {
      {"metal_relu_aux_store", "metal:apple9",
       "M=4096 N=4096 K=4096 A=f16 B=f16 b_columns kernel=metal_simdgroup_64x64x32",
       "alpha=scalar:f32 C=f16[M,N] D=f16[M,N] F=f16[M,N]", R"(
def relu_aux_store(accum, alpha, C):
    F = (accum * alpha) + (C * 2.0)
    D = relu(F)
    return D, F
)"},
      {"metal_swiglu", "metal:apple9", "M=1000 N=1024 half=512 K=333 A=bf16 B=bf16 kernel=metal_simdgroup_64x64x32",
       "D=bf16[M,half]", R"(
def swiglu(accum):
    gate, up = split(accum, 2, dim=-1)
    D = silu(gate) * up
    return D
)"},
      {"metal_rotary", "metal:apple7", "M=256 N=1024 K=64 kernel=metal_simdgroup_64x64x16",
       "cosines=f32[M,1,64] sines=f32[M,1,64] D=f32[M,N]", R"(
def rotary(accum, cosines, sines):
    heads = reshape(accum, (-1, 8, 128))
    x, y = split(heads, 2, dim=-1)
    turned = join(x * cosines - y * sines, y * cosines + x * sines, dim=-1)
    D = reshape(turned, (-1, 1024))
    return D
)"},
      {"metal_softmax_slices", "metal:apple7", "M=32 N=64 K=4096 A=f16 B=f16 kernel=metal_simdgroup_32x32x32_k8",
       "inverse_temperature=scalar:f32 D=f16[M,N] normalizer=f32[M,1]", R"(
def scaled_softmax(accum, inverse_temperature):
    scores = accum * inverse_temperature
    normalizer = logsumexp(scores, axis="row")
    D = exp(scores - normalizer)
    return D, normalizer
)"},
      {"metal_statistics_int8", "metal:mac2", "M=300 N=200 K=128 batch=2 A=i8 B=i8 kernel=metal_simt_64x64x16",
       "scale=f32[N] D=i8[batch,M,N] total=f32[1,1,1] smallest=f32[batch,1,N] rows=f32[batch,M,1]", R"(
def statistics(accum, scale):
    x = accum * scale
    D = cast(clamp(round(x), -128.0, 127.0), i8)
    total = sum(x)
    smallest = min(x, axis="column")
    rows = mean(x, axis="row")
    return D, total, smallest, rows
)"},
      {"metal_quantize_fp8_amax", "metal:apple9", "M=512 N=512 K=512 A=f8e4m3 B=f8e5m2 kernel=metal_simdgroup_64x64x32",
       "scale=scalar:f32 D=f8e4m3[M,N] largest=f32[1]", R"(
def quantize(accum, scale):
    D = accum * scale
    largest = amax(D)
    return D, largest
)"},
      {"metal_f32_strided_strict", "metal:metal3", "M=100 N=70 K=33 strict kernel=metal_simt_32x32x16",
       "C=f32[M,N]:strided seed=scalar:i64 D=f32[M,N]:strided", R"(
def dropped(accum, C, seed):
    D = dropout(accum + C * col_index(), p=0.25, seed=seed)
    return D
)"},
  };
  return cases;
}

}  // namespace codetta::golden
