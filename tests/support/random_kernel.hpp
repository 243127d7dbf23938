// SPDX-License-Identifier: Apache-2.0
// A kernel with a random epilogue, as discovery plans it for a target.
#pragma once

#include "opt/passes.hpp"
#include "plan/plan.hpp"
#include "support/random_epilogue.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::test {

// Row-major factors. The plan has one kernel. Errors: of the epilogue; of planning, where it can not be fused.
inline Result<plan::Plan> random_kernel(uint64_t seed, const Target& target) {
  CODETTA_TRY(const ir::Graph bound, random_epilogue(seed));
  CODETTA_TRY(const auto optimized, opt::optimize(bound));
  const ir::Graph& graph = optimized.graph;
  const ir::NodeId matmul = product(graph);
  const auto size = [&](size_t operand, size_t from_the_right) {
    const auto& shape = graph.type(graph.operands(matmul)[operand]).shape;
    return shape.size() < from_the_right ? 1 : shape[shape.size() - from_the_right].as_constant().value_or(1);
  };
  plan::GemmShape shape;
  shape.batch = size(0, 3), shape.m = size(0, 2), shape.k = size(0, 1), shape.n = size(1, 1);
  shape.a = graph.type(graph.operands(matmul)[0]).dtype, shape.b = graph.type(graph.operands(matmul)[1]).dtype;
  shape.accumulator = graph.type(matmul).dtype;
  shape.a_row_stride = shape.k, shape.a_k_stride = 1;
  shape.b_k_stride = shape.n, shape.b_col_stride = 1;
  return plan::plan_gemm(graph, shape, {}, target, {});
}

}  // namespace codetta::test
