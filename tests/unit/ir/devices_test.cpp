// SPDX-License-Identifier: Apache-2.0
// Where values lie, in graphs that are built and in graphs that are read.
#include "ir/devices.hpp"

#include <gtest/gtest.h>

namespace {

using namespace codetta;
using ir::Graph;
using ir::GraphBuilder;
using ir::NodeId;
using types::Op;

Result<Graph> read(const std::string& text) {
  return ir::parse_graph(std::make_shared<const diag::SourceText>("graph", text));
}

const std::string two_stages =
    "%0:f32[4] = input \"x\"\n%1:f32[4] = input \"w\" on 1\n%2:f32[4] = relu %0\n"
    "%3:f32[4] = to_device(device=1) %2\n%4:f32[4] = mul %3, %1\noutput \"y\": f32 = %4\n";

TEST(Devices, InputsSayWhereTheyLie) {
  const auto graph = read(two_stages);
  ASSERT_TRUE(graph) << graph.error().render();
  EXPECT_EQ(ir::print(*graph), two_stages);
  EXPECT_EQ(graph->inputs()[1].device, 1);
  EXPECT_EQ(ir::devices_of(*graph), (std::vector<uint32_t>{0, 1, 0, 1, 1}));
  EXPECT_TRUE(ir::uses_devices(*graph));
  std::string other = two_stages;
  other.replace(other.find("on 1"), 4, "on 2");
  other.replace(other.find("device=1"), 8, "device=2");
  const auto moved = read(other);
  ASSERT_TRUE(moved) << moved.error().render();
  EXPECT_FALSE(*moved == *graph);
  EXPECT_NE(moved->hash(), graph->hash());
}

TEST(Devices, AGraphThatMixesThemIsRefused) {
  std::string text = two_stages;
  text.replace(text.find("on 1"), 4, "on 3");
  const auto mixed = read(text);
  ASSERT_FALSE(mixed);
  EXPECT_NE(mixed.error().render().find("w on device 3"), std::string::npos) << mixed.error().render();
  text.replace(text.find("on 3"), 4, "on 64");
  const auto beyond = read(text);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().render().find("there is no device 64"), std::string::npos) << beyond.error().render();
  GraphBuilder builder;
  const ir::TensorType type{DType::f32, false, {types::Dim::constant(4)}};
  const NodeId operands[] = {builder.add_input("x", type), builder.add_input("w", type)};
  builder.lay_on(operands[1], 2);
  builder.add_output("y", builder.add(Op::mul, operands).value(), DType::f32);
  const auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph);
  const auto verified = ir::verify(*graph);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code(), 234);
  EXPECT_NE(verified.error().render().find("to_device(w, 0)"), std::string::npos) << verified.error().render();
}

// x is used on one device, w on two; the third is said where it is not needed, and twice.
TEST(Devices, ParametersAreLaidWhereTheyAreUsed) {
  GraphBuilder builder;
  const ir::TensorType type{DType::f32, false, {types::Dim::constant(4)}};
  const NodeId x = builder.add_input("x", type), w = builder.add_input("w", type);
  const auto add = [&](Op op, std::vector<NodeId> operands, ir::Attr attr = {}) {
    return builder.add(op, operands, std::move(attr)).value();
  };
  const auto bring = [&](NodeId node, uint32_t device) { return add(Op::to_device, {node}, ir::DeviceAttr{device}); };
  const NodeId there = add(Op::mul, {bring(x, 1), bring(w, 1)});
  const NodeId again = bring(bring(bring(there, 0), 1), 1);
  const NodeId here = add(Op::relu, {w});
  builder.add_output("y", add(Op::add, {again, there}), DType::f32);
  builder.add_output("z", here, DType::f32);
  auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph);
  const auto placed = ir::placed(*std::move(graph));
  ASSERT_TRUE(placed) << placed.error().render();
  EXPECT_EQ(placed->inputs()[0].device, 1);
  EXPECT_EQ(placed->inputs()[1].device, 0);
  const std::string text = ir::print(*placed);
  EXPECT_EQ(text.find("to_device"), text.rfind("to_device")) << text;  // of w
  EXPECT_TRUE(ir::verify(*placed));
}

// w is used on device 1 alone, by way of device 0.
TEST(Devices, ParametersAreNotLaidOnTheWay) {
  GraphBuilder builder;
  const ir::TensorType type{DType::f32, false, {types::Dim::constant(4)}};
  const NodeId w = builder.add_input("w", type);
  const auto bring = [&](NodeId node, uint32_t device) {
    const NodeId operands[] = {node};
    return builder.add(Op::to_device, operands, ir::DeviceAttr{device}).value();
  };
  const NodeId there[] = {bring(bring(w, 0), 1)};
  builder.add_output("y", builder.add(Op::relu, there).value(), DType::f32);
  auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph);
  const auto placed = ir::placed(*std::move(graph));
  ASSERT_TRUE(placed) << placed.error().render();
  EXPECT_EQ(placed->inputs()[0].device, 1);
  EXPECT_EQ(ir::print(*placed).find("to_device"), std::string::npos) << ir::print(*placed);
}

// w is read on devices 0, 1 and 2, x on 0 and 1: of w, which is chosen, nothing is brought anywhere.
TEST(Devices, InputsOfTheirOwnOnEachDevice) {
  const auto graph = read(
      "%0:f32[4] = input \"x\"\n%1:f32[4] = input \"w\"\n%2:f32[4] = mul %0, %1\n"
      "%3:f32[4] = to_device(device=1) %0\n%4:f32[4] = to_device(device=1) %1\n%5:f32[4] = mul %3, %4\n"
      "%6:f32[4] = to_device(device=2) %1\noutput \"y\": f32 = %2\noutput \"z\": f32 = %5\noutput \"w2\": f32 = %6\n");
  ASSERT_TRUE(graph) << graph.error().render();
  const auto none = ir::with_inputs_on_devices(*graph, [](const ir::GraphInput&) { return false; });
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, *graph);
  const auto own = ir::with_inputs_on_devices(*graph, [](const ir::GraphInput& input) { return input.name == "w"; });
  ASSERT_TRUE(own) << own.error().render();
  ASSERT_TRUE(ir::verify(*own)) << ir::print(*own);
  ASSERT_EQ(own->inputs().size(), 4U);
  for (uint32_t device = 1; device <= 2; ++device) {
    EXPECT_EQ(own->inputs()[1 + device].name, ir::own_input_name("w", device));
    EXPECT_EQ(own->inputs()[1 + device].device, device);
  }
  EXPECT_EQ(ir::input_of_own_name("w on device 12"), "w");
  EXPECT_EQ(ir::input_of_own_name("w"), "w");
  const std::string text = ir::print(*own);
  EXPECT_EQ(text.find("to_device"), text.rfind("to_device")) << text;  // of x
  EXPECT_EQ(ir::devices_of(*own)[own->outputs()[2].node.index()], 2U) << text;
}

TEST(Devices, OutputsStayWhereTheyWere) {
  const auto before = read(two_stages);
  ASSERT_TRUE(before);
  const auto after =
      read("%0:f32[4] = input \"x\"\n%1:f32[4] = input \"w\" on 1\n%2:f32[4] = relu %0\noutput \"y\": f32 = %2\n");
  ASSERT_TRUE(after);
  const auto kept = ir::with_devices_of(*after, *before);
  ASSERT_TRUE(kept);
  EXPECT_EQ(ir::devices_of(*kept)[kept->outputs()[0].node.index()], 1U) << ir::print(*kept);
  EXPECT_EQ(*ir::with_devices_of(*before, *before), *before);
}

}  // namespace
