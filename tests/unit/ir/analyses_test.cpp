// SPDX-License-Identifier: Apache-2.0
// Analyses on one small graph.
#include "ir/analyses.hpp"

#include <gtest/gtest.h>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

constexpr const char* text = R"(%0:f32[m, k] = input "A"
%1:f32[k, n] = input "B"
%2:i8[n] = input "C"
%3:i8[] = literal 3
%4:bool[n] = lt %2, %3
%5:f32[m, n] = matmul(f32) %0, %1
%6:f32[m, n] = add %5, %2
%7:f32[m, n] = where %4, %6, %5
%8:weak f64[] = literal 2.0
%9:weak f64[] = sqrt %8
output "D": f32 = %7
output "E": f32 = %9
)";

template <class T>
std::string listed(const std::vector<T>& values) {
  std::string out;
  for (const auto& value : values) out += std::to_string(static_cast<int>(value)) + " ";
  return out;
}
std::string numbers(const std::vector<NodeId>& ids) {
  std::string out;
  for (const NodeId id : ids) out += std::to_string(id.index()) + " ";
  return out;
}

TEST(Analyses, SmallGraph) {
  const Result<Graph> graph = parse_graph(std::make_shared<diag::SourceText>("g", text));
  ASSERT_TRUE(graph) << graph.error().render();
  EXPECT_EQ(listed(reachable_from(*graph, NodeId(5u))), "0 0 0 0 0 1 1 1 0 0 ");
  EXPECT_EQ(numbers(matmuls(*graph)), "5 ");
  const NodeId root[] = {NodeId(4u)};
  EXPECT_EQ(listed(needed_by(*graph, root)), "0 0 1 1 1 0 0 0 0 0 ");
  EXPECT_EQ(numbers(topological_order(*graph, root)), "2 3 4 ");
  const Uses users = uses(*graph);
  EXPECT_EQ(numbers(users.users[5]), "6 7 ");
  EXPECT_EQ(numbers(users.users[7]), "");
  EXPECT_EQ(operand_dtype(*graph, NodeId(6u)), f32);
  EXPECT_EQ(operand_dtype(*graph, NodeId(4u)), i8);
}

}  // namespace
}  // namespace codetta::ir::test
