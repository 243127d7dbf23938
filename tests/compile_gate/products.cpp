// SPDX-License-Identifier: Apache-2.0
#include "compile_gate/products.hpp"

#include "unit/plan/bind_text.hpp"

namespace codetta::compile_gate {
namespace {

using test::scalar;
using test::tensor;
const Epilogue epilogues[] = {
    {"relu_aux_store",
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("C", t, {m, n}), scalar("alpha"), tensor("D", t, {m, n}), tensor("F", t, {m, n})};
     }},
    {"bias_gelu_tanh",
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("bias", t, {1, n}), tensor("D", t, {m, n}), tensor("Z", t, {m, n})};
     }},
    {"swiglu",
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("D", t, {m, n / 2})};
     }},
    {"residual_row_sums",
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("residual", t, {m, n}), tensor("D", t, {m, n}), tensor("row_sums", DType::f32, {m, 1}),
                          tensor("row_squares", DType::f32, {m, 1})};
     }},
    {"gelu_backward",
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("Z", t, {m, n}), tensor("D", t, {m, n}), tensor("bias_gradient", DType::f32, {n})};
     }},
    {"rms_norm",
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("weight", t, {n}), scalar("epsilon"), tensor("D", t, {m, n})};
     }},
    {"softmax",
     [](int64_t m, int64_t n, DType t) {
       return std::vector{scalar("inverse_temperature"), tensor("D", t, {m, n}),
                          tensor("normalizer", DType::f32, {m, 1})};
     }},
    {"dropout_residual",
     [](int64_t m, int64_t n, DType t) {
       return std::vector{tensor("residual", t, {m, n}), scalar("probability"), scalar("seed", DType::i64),
                          tensor("D", t, {m, n})};
     }},
    {"quantize_fp8_amax",
     [](int64_t m, int64_t n, DType) {
       return std::vector{scalar("scale"), tensor("D", DType::f8e4m3, {m, n}), tensor("largest", DType::f32, {1})};
     }},
};

}  // namespace

std::span<const Epilogue> everyday_epilogues() { return epilogues; }

plan::GemmShape shape_of(const Size& size, DType a, DType b, DType accumulator, const Layout& layout, int64_t pad) {
  plan::GemmShape s;
  s.m = size.m;
  s.n = size.n;
  s.k = size.k;
  s.a = a;
  s.b = b;
  s.accumulator = accumulator;
  s.a_row_stride = layout.a_k_major ? size.k + pad : 1;
  s.a_k_stride = layout.a_k_major ? 1 : size.m + pad;
  s.b_k_stride = layout.b_k_major ? 1 : size.n + pad;
  s.b_col_stride = layout.b_k_major ? size.k + pad : 1;
  return s;
}

}  // namespace codetta::compile_gate
