// SPDX-License-Identifier: Apache-2.0
// The verifier on graphs that were built without checks.
#include <gtest/gtest.h>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

TEST(Verify, PointsIntoThePrintedGraph) {
  GraphBuilder builder;
  const NodeId x = builder.add_input("x", {f32, false, {Dim::constant(2)}});
  const NodeId operands[] = {x};
  builder.add_output("y", builder.add_unchecked(Op::relu, operands, {}, {f64, false, {Dim::constant(2)}}), f32);
  const Result<Graph> graph = std::move(builder).finish();
  ASSERT_TRUE(graph);
  const Result<void> valid = verify(*graph);
  ASSERT_FALSE(valid);
  EXPECT_EQ(valid.error().render(),
            "error[E0902]: relu is typed f64[2]\n"
            "  --> <graph>:2:1\n"
            "2 | %1:f64[2] = relu %0\n"
            "  | ^^^^^^^^^^^^^^^^^^^\n"
            "note: its operands make it f32[2]\n"
            "help: this is a bug of the pass or builder that made the graph; please report it\n");
  EXPECT_EQ(valid.error().family(), ErrorFamily::Internal);
}

std::string verdict(GraphBuilder builder) {
  const Result<Graph> graph = std::move(builder).finish();
  if (!graph) return graph.error().diagnostics()[0].headline;
  const Result<void> valid = verify(*graph);
  return valid ? "valid" : valid.error().diagnostics()[0].headline;
}

TEST(Verify, TypesAttributesAndOutputs) {
  const auto one = [](TensorType input, auto&& add) {
    GraphBuilder builder;
    const NodeId x = builder.add_input("x", std::move(input));
    builder.add_output("y", add(builder, x), f32);
    return verdict(std::move(builder));
  };
  const auto self = [](GraphBuilder&, NodeId x) { return x; };
  EXPECT_EQ(one({f32, false, {}}, self), "valid");
  EXPECT_EQ(one({f32, true, {}}, self), "a weak value is f32");
  EXPECT_EQ(one({f32, false, std::vector<Dim>(9, Dim::constant(1))}, self), "a node has 9 dims");
  EXPECT_EQ(one({static_cast<DType>(77), false, {}}, self), "a node has an unknown dtype");
  EXPECT_EQ(one({f32, false, {Dim::faulty(types::DimFault::overflow)}}, self), "a node has the size <overflow>");
  EXPECT_EQ(one({f32, false, {}},
                [](GraphBuilder& b, NodeId x) {
                  const NodeId operands[] = {x, x};
                  return b.add_unchecked(Op::relu, operands, {}, {f32, false, {}});
                }),
            "relu has 2 operands");
  EXPECT_EQ(one({f32, false, {}},
                [](GraphBuilder& b, NodeId x) {
                  const NodeId operands[] = {x};
                  return b.add_unchecked(Op::relu, operands, CastAttr{f32}, {f32, false, {}});
                }),
            "relu has an attribute of another op");
  EXPECT_EQ(one({f32, false, {}},
                [](GraphBuilder& b, NodeId) {
                  return b.add_unchecked(Op::input, {}, InputAttr{9}, {f32, false, {}});
                }),
            "an input is not declared");
  EXPECT_EQ(one({f32, false, {}},
                [](GraphBuilder& b, NodeId x) {
                  b.add_output("y", x, f32);
                  return x;
                }),
            "two outputs are named y");
  EXPECT_EQ(one({f32, false, {}},
                [](GraphBuilder& b, NodeId x) {
                  b.add_output("z", x, static_cast<DType>(99));
                  return x;
                }),
            "output z has an unknown dtype");
}

}  // namespace
}  // namespace codetta::ir::test
