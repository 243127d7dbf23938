// SPDX-License-Identifier: Apache-2.0
// Every code of this room, provoked once, with its headline; the pages in docs/errors show these messages.
#include <gtest/gtest.h>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

using diag::Code;

// D = op(accum, x), for one rule at a time.
EpilogueFunction binary(Op op) {
  FunctionMaker f("def f(accum, x):\n    D = op(accum, x)\n    return D\n");
  const ValueId accum = f.parameter("accum"), x = f.parameter("x");
  f.output("D", f.op(op, {accum, x}, "op(accum, x)", "D"));
  return f.epilogue();
}
EpilogueFunction unary(Op op, Attr attr) {
  FunctionMaker f("def f(accum):\n    D = op(accum)\n    return D\n");
  f.output("D", f.op(op, {f.parameter("accum")}, "op(accum)", "D", std::move(attr)));
  return f.epilogue();
}

std::vector<BoundArgument> bound(Dims x, Dims d = {4, 6}) { return {tensor("x", f32, x), tensor("D", f32, d)}; }
std::vector<BoundArgument> only_d() { return {tensor("D", f32, {4, 6})}; }

void expect_error(const Result<Graph>& graph, Code code, const char* headline) {
  ASSERT_FALSE(graph) << headline;
  EXPECT_EQ(graph.error().code(), static_cast<uint16_t>(code)) << graph.error().render();
  EXPECT_EQ(graph.error().diagnostics()[0].headline, headline);
  EXPECT_FALSE(graph.error().diagnostics()[0].help.empty()) << headline;
}
Result<Graph> parsed(const char* text) { return parse_graph(std::make_shared<diag::SourceText>("g.txt", text)); }

TEST(IrCodes, Text) {
  expect_error(parsed("%0:f32[] = inputs \"x\"\n"), Code::graph_text, "`inputs` is not an op");
  expect_error(parsed("%0:f32[2] = input \"x\"\n%1:f64[2] = relu %0\noutput \"y\": f32 = %1\n"),
               Code::graph_text_invalid, "relu is typed f64[2]");
}

TEST(IrCodes, Arguments) {
  const GemmFacts facts = gemm(4, 6, 5);
  expect_error(bind_epilogue(binary(Op::add), bound({5}), facts), Code::shape_mismatch,
               "x has 5 columns but the accumulator has 6");
  expect_error(bind_epilogue(binary(Op::add), only_d(), facts), Code::argument_missing,
               "Argument x is not provided in the kwargs of the EpilogueArguments constructor");
  std::vector<BoundArgument> arguments = bound({6});
  arguments.push_back(scalar("y", f32));
  expect_error(bind_epilogue(binary(Op::add), arguments, facts), Code::argument_unexpected,
               "Unexpected keyword arguments for epilogue: y");
  arguments.back() = tensor("x", f32, {6});
  expect_error(bind_epilogue(binary(Op::add), arguments, facts), Code::argument_duplicate,
               "argument x is provided twice");
}

TEST(IrCodes, Outputs) {
  GemmFacts facts = gemm(4, 6, 5);
  expect_error(bind_epilogue(binary(Op::add), bound({6}, {6, 4}), facts), Code::output_shape,
               "D is bound as [6, 4] but its value has shape [4, 6]");
  expect_error(bind_epilogue(binary(Op::add), {tensor("x", f32, {6}), scalar("D", f32)}, facts), Code::output_binding,
               "output D is bound to a scalar");
  EpilogueFunction without_d = binary(Op::add);
  without_d.outputs[0].name = "F";
  facts.has_out = true;
  facts.out_shape = {4, 6};
  expect_error(bind_epilogue(without_d, {tensor("x", f32, {6}), tensor("F", f32, {4, 6})}, facts), Code::output_d,
               "D is expected to be a output node with 0 users to enable smem reuse between C and D, but got []");
}

TEST(IrCodes, Types) {
  expect_error(bind_epilogue(unary(Op::logical_not, {}), only_d(), gemm(4, 6, 5)), Code::boolean_expected,
               "`~` takes booleans but the accumulator is f32");
  expect_error(bind_epilogue(binary(Op::pow), {tensor("x", i32, {6}), only_d()[0]}, gemm(4, 6, 5, i8)),
               Code::integer_power, "the exponent x of an integer power is not a literal");
  FunctionMaker f("def f(accum, p):\n    D = dropout(accum, p, 7)\n    return D\n");
  const ValueId accum = f.parameter("accum"), p = f.parameter("p"), seed = f.integer(7, "7");
  f.output("D", f.op(Op::dropout, {accum, p, seed}, "dropout(accum, p, 7)", "D"));
  expect_error(bind_epilogue(f.epilogue(), {tensor("p", f32, {6}), only_d()[0]}, gemm(4, 6, 5)), Code::operand_kind,
               "dropout takes one probability, but p is a tensor");
  GemmFacts facts = gemm(4, 6, 5, i8);
  facts.accumulator = f32;
  expect_error(bind_epilogue(binary(Op::add), bound({6}), facts), Code::accumulator_dtype,
               "a product of i8 and i8 cannot accumulate in f32");
}

TEST(IrCodes, Shapes) {
  expect_error(bind_epilogue(unary(Op::reduce_sum, ReduceAttr{ReduceAxis::Dims, {2}}), only_d(), gemm(4, 6, 5)),
               Code::reduction_axis, "reduction along dim 2, but the accumulator has 2 dims");
  expect_error(bind_epilogue(unary(Op::split, SplitAttr{4, 0, -1}), only_d(), gemm(4, 6, 5)), Code::layout_mismatch,
               "cannot split 6 columns in 4 equal parts");
  expect_error(bind_epilogue(binary(Op::add), bound({6}), gemm(4, -6, 5)), Code::gemm_size, "the GEMM has n = -6");
}

TEST(IrCodes, Programs) {
  const auto program = [](Dim inner) {
    FunctionMaker f("def f(x, w):\n    y = x @ w\n    return y\n");
    const Dim n = Dim::symbol("n");
    const ValueId x = f.parameter("x", TypeAnnotation{f32, {n, Dim::constant(3)}, {}});
    const ValueId w = f.parameter("w", TypeAnnotation{f32, {inner, n}, {}});
    f.output("y", f.op(Op::matmul, {x, w}, "x @ w", "y", MatmulAttr{}));
    return bind_program(f.program());
  };
  expect_error(program(Dim::constant(4)), Code::matmul_shape, "x has 3 columns but w has 4 rows");
  const Result<SymbolBindings> symbols =
      bind_symbols(*program(Dim::constant(3)), {tensor("x", f32, {2, 3}), tensor("w", f32, {3, 5})});
  ASSERT_FALSE(symbols);
  EXPECT_EQ(symbols.error().code(), static_cast<uint16_t>(Code::symbol_conflict));
  EXPECT_EQ(symbols.error().diagnostics()[0].headline, "n is 2 in dim 0 of x but 5 in dim 1 of w");
  FunctionMaker g("def f(x):\n    y = x + row_index()\n    return y\n");
  const ValueId x = g.parameter("x", TypeAnnotation{f32, {Dim::constant(3)}, {}});
  g.output("y", g.op(Op::add, {x, g.op(Op::row_index, {}, "row_index()")}, "x + row_index()", "y"));
  expect_error(bind_program(g.program()), Code::index_without_gemm, "row_index() is only defined in an epilogue");
}

TEST(IrCodes, Graphs) {
  GraphBuilder builder;
  const NodeId operands[] = {builder.add_input("x", {f32, false, {}})};
  const Result<NodeId> node = builder.add(Op::add, operands);
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().code(), static_cast<uint16_t>(Code::graph_node));
  EXPECT_EQ(node.error().diagnostics()[0].headline, "add has 1 operand");
  expect_error(std::move(builder).finish(), Code::graph_outputs, "the graph has no outputs");
  GraphBuilder unchecked;
  const NodeId x[] = {unchecked.add_input("x", {f32, false, {}})};
  unchecked.add_output("y", unchecked.add_unchecked(Op::relu, x, {}, {f64, false, {}}), f32);
  const Result<void> valid = verify(*std::move(unchecked).finish());
  ASSERT_FALSE(valid);
  EXPECT_EQ(valid.error().code(), static_cast<uint16_t>(Code::graph_invalid));
}

// The messages that the pages show, for copying and for review: what render() says.
TEST(IrCodes, RenderedWithReasonAndHelp) {
  EXPECT_EQ(text_of(bind_epilogue(unary(Op::split, SplitAttr{4, 0, -1}), only_d(), gemm(4, 6, 5))),
            "error[E0218]: cannot split 6 columns in 4 equal parts\n"
            "  --> f.py:2:12\n"
            "2 |     D = op(accum)\n"
            "  |            ^^^^^ f32[4, 6]\n"
            "note: the accumulator is f32[4, 6]; 6 is not divisible by 4\n"
            "help: pad to 8, or split in another number of parts\n");
}

}  // namespace
}  // namespace codetta::ir::test
