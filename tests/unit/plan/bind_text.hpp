// SPDX-License-Identifier: Apache-2.0
// Epilogue and program texts to graphs, for tests.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "plan/plan.hpp"

namespace codetta::test {

inline ir::BoundArgument tensor(std::string name, DType dtype, Dims shape) {
  return {std::move(name), false, dtype, shape};
}
inline ir::BoundArgument scalar(std::string name, DType dtype = DType::f32) {
  return {std::move(name), true, dtype, {}};
}

inline ir::GemmFacts gemm_facts(int64_t m, int64_t n, int64_t k, DType dtype = DType::f32) {
  ir::GemmFacts facts;
  facts.a = facts.b = dtype;
  facts.accumulator = ir::default_accumulator(dtype, dtype).value_or(DType::f32);
  facts.m = m;
  facts.n = n;
  facts.k = k;
  return facts;
}

inline Result<ir::Graph> bind_text(std::string text, const std::vector<ir::BoundArgument>& arguments,
                                   const ir::GemmFacts& facts) {
  const auto function = frontend::parse_epilogue(std::make_shared<const diag::SourceText>("e.py", std::move(text)));
  if (!function) return function.error();
  return ir::bind_epilogue(*function, arguments, facts);
}

inline std::string example(const std::string& name) {
  std::ifstream file(std::string(CODETTA_SOURCE_DIR) + "/examples/epilogues/" + name + ".py");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline ir::NodeId product(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.size(); ++i) {
    if (graph.node(ir::NodeId(i)).op == ir::Op::matmul) return ir::NodeId(i);
  }
  return {};
}

inline Result<ir::Graph> bind_program_text(std::string text) {
  const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", std::move(text)));
  if (!function) return function.error();
  return ir::bind_program(*function);
}

}  // namespace codetta::test
