// SPDX-License-Identifier: Apache-2.0
// Whole graphs of bound epilogues, compared as text.
#include <gtest/gtest.h>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

EpilogueFunction relu_aux_store() {
  FunctionMaker f("def f(accum, alpha, C):\n    F = (accum * alpha) + (C * 2.0)\n    D = relu(F)\n    return D, F\n");
  const ValueId accum = f.parameter("accum"), alpha = f.parameter("alpha"), c = f.parameter("C");
  const ValueId scaled = f.op(Op::mul, {accum, alpha}, "accum * alpha");
  const ValueId two = f.real(2.0, "2.0");
  const ValueId doubled = f.op(Op::mul, {c, two}, "C * 2.0");
  const ValueId sum = f.op(Op::add, {scaled, doubled}, "(accum * alpha) + (C * 2.0)", "F");
  f.output("D", f.op(Op::relu, {sum}, "relu(F)", "D"));
  f.output("F", sum);
  return f.epilogue();
}

std::vector<BoundArgument> relu_aux_arguments() {
  return {scalar("alpha", f32), tensor("C", bf16, {64, 128}), tensor("D", bf16, {64, 128}),
          tensor("F", f32, {64, 128})};
}

TEST(BindEpilogue, ReluAuxStore) {
  const Result<Graph> graph = bind_epilogue(relu_aux_store(), relu_aux_arguments(), gemm(64, 128, 32, bf16));
  EXPECT_EQ(text_of(graph), R"(%0:bf16[m, k] = input "A"
%1:bf16[k, n] = input "B"
%2:f32[] = input "alpha" scalar
%3:bf16[m, n] = input "C"
%4:f32[m, n] = matmul(f32) %0, %1
%5:f32[m, n] = mul %4, %2
%6:f32[] = literal 2.0
%7:f32[m, n] = mul %3, %6
%8:f32[m, n] = add %5, %7
%9:f32[m, n] = relu %8
output "D": bf16 = %9
output "F": f32 = %8
)");
  ASSERT_TRUE(graph);
  EXPECT_TRUE(verify(*graph));
  EXPECT_EQ(graph->name_hint(NodeId(8u)), "F");
  EXPECT_EQ(graph->name_hint(NodeId(4u)), "accum");
}

TEST(BindEpilogue, OutputsThatAreNotBound) {
  const std::vector<BoundArgument> operands = {scalar("alpha", f32), tensor("C", bf16, {64, 128})};
  const auto outputs = epilogue_outputs(relu_aux_store(), operands, gemm(64, 128, 32, bf16));
  ASSERT_TRUE(outputs) << outputs.error().render();
  ASSERT_EQ(outputs->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*outputs)[i].name, i == 0 ? "D" : "F");
    EXPECT_EQ((*outputs)[i].dtype, f32);
    EXPECT_EQ((*outputs)[i].shape, (Dims{64, 128}));
  }
  // Bound ones don't count, whatever they are; operands do.
  EXPECT_TRUE(epilogue_outputs(relu_aux_store(), relu_aux_arguments(), gemm(64, 128, 32, bf16)));
  const auto headline = [](const std::vector<BoundArgument>& arguments, int64_t m) {
    const auto refused = epilogue_outputs(relu_aux_store(), arguments, gemm(m, 128, 32, bf16));
    return refused ? "no error" : refused.error().diagnostics().front().headline;
  };
  EXPECT_EQ(headline({operands[0]}, 64),
            "Argument C is not provided in the kwargs of the EpilogueArguments constructor");
  std::vector<BoundArgument> more = operands;
  more.push_back(tensor("bias", f32, {128}));
  EXPECT_EQ(headline(more, 64), "Unexpected keyword arguments for epilogue: bias");
  EXPECT_EQ(headline(operands, 60), "C has 64 rows but the accumulator has 60");
}

TEST(BindEpilogue, OutAndBoundDAreTheSameView) {
  GemmFacts facts = gemm(64, 128, 32, bf16);
  facts.has_out = true;
  facts.out = f16;
  facts.out_shape = {64, 128};
  std::vector<BoundArgument> arguments = relu_aux_arguments();
  EXPECT_EQ(headline_of(bind_epilogue(relu_aux_store(), arguments, facts)),
            "`out` is f16[64, 128] but D is bound to bf16[64, 128]");
  arguments.erase(arguments.begin() + 2);
  const Result<Graph> graph = bind_epilogue(relu_aux_store(), arguments, facts);
  ASSERT_TRUE(graph) << graph.error().render();
  EXPECT_EQ(graph->outputs()[0].dtype, f16);
  arguments.push_back(tensor("D", f16, {64, 128}));
  EXPECT_TRUE(bind_epilogue(relu_aux_store(), arguments, facts));
}

TEST(BindEpilogue, BatchedBroadcastForms) {
  FunctionMaker f(
      "def f(accum, row, col, item, shared, one):\n    D = accum * row * col * item + shared * one\n    return D\n");
  const ValueId accum = f.parameter("accum"), row = f.parameter("row"), col = f.parameter("col"),
                item = f.parameter("item"), shared = f.parameter("shared"), one = f.parameter("one");
  const ValueId a = f.op(Op::mul, {accum, row}, "accum * row"), b = f.op(Op::mul, {a, col}, "accum * row * col");
  const ValueId c = f.op(Op::mul, {b, item}, "accum * row * col * item"),
                d = f.op(Op::mul, {shared, one}, "shared * one");
  f.output("D", f.op(Op::add, {c, d}, "accum * row * col * item + shared * one", "D"));
  GemmFacts facts = gemm(4, 5, 6);
  facts.batched = true;
  facts.batch = 3;
  const std::vector<BoundArgument> arguments = {tensor("row", f32, {5}),        tensor("col", f32, {4, 1}),
                                                tensor("item", f32, {3, 1, 1}), tensor("shared", f32, {1, 4, 5}),
                                                tensor("one", f32, {}),         tensor("D", f32, {3, 4, 5})};
  EXPECT_EQ(text_of(bind_epilogue(f.epilogue(), arguments, facts)), R"(%0:f32[batch, m, k] = input "A"
%1:f32[batch, k, n] = input "B"
%2:f32[n] = input "row"
%3:f32[m, 1] = input "col"
%4:f32[batch, 1, 1] = input "item"
%5:f32[1, m, n] = input "shared"
%6:f32[] = input "one"
%7:f32[batch, m, n] = matmul(f32) %0, %1
%8:f32[batch, m, n] = mul %7, %2
%9:f32[batch, m, n] = mul %8, %3
%10:f32[batch, m, n] = mul %9, %4
%11:f32[1, m, n] = mul %5, %6
%12:f32[batch, m, n] = add %10, %11
output "D": f32 = %12
)");
  std::vector<BoundArgument> flat = arguments;
  flat.back() = tensor("D", f32, {4, 5});
  const Result<Graph> graph = bind_epilogue(f.epilogue(), flat, facts);
  EXPECT_EQ(headline_of(graph), "D is bound as [4, 5] but its value has shape [3, 4, 5]");
  EXPECT_EQ(graph.error().diagnostics()[0].help,
            "bind D to a tensor of shape [3, 4, 5]; a batched GEMM has outputs with the batch dim");
}

// softmax along rows, with the row maximum as a second output.
EpilogueFunction softmax() {
  FunctionMaker f(
      "def f(accum):\n    top = max(accum, axis=\"row\")\n    e = exp(accum - top)\n    D = e / sum(e, axis=\"row\")\n "
      "   total = sum(e)\n    return D, top, total\n");
  const ValueId accum = f.parameter("accum");
  const ValueId top = f.op(Op::reduce_max, {accum}, "max(accum, axis=\"row\")", "top", ReduceAttr{ReduceAxis::Row, {}});
  const ValueId shifted = f.op(Op::sub, {accum, top}, "accum - top");
  const ValueId e = f.op(Op::exp, {shifted}, "exp(accum - top)", "e");
  const ValueId sum = f.op(Op::reduce_sum, {e}, "sum(e, axis=\"row\")", "", ReduceAttr{ReduceAxis::Row, {}});
  f.output("D", f.op(Op::div, {e, sum}, "e / sum(e, axis=\"row\")", "D"));
  f.output("top", top);
  f.output("total", f.op(Op::reduce_sum, {e}, "sum(e)", "total", ReduceAttr{ReduceAxis::All, {}}));
  return f.epilogue();
}

TEST(BindEpilogue, ReductionsKeepDims) {
  const std::vector<BoundArgument> arguments = {tensor("D", f32, {8, 16}), tensor("top", f32, {8, 1}),
                                                tensor("total", f32, {})};
  EXPECT_EQ(text_of(bind_epilogue(softmax(), arguments, gemm(8, 16, 4))), R"(%0:f32[m, k] = input "A"
%1:f32[k, n] = input "B"
%2:f32[m, n] = matmul(f32) %0, %1
%3:f32[m, 1] = reduce_max(dims=[1]) %2
%4:f32[m, n] = sub %2, %3
%5:f32[m, n] = exp %4
%6:f32[m, 1] = reduce_sum(dims=[1]) %5
%7:f32[m, n] = div %5, %6
%8:f32[1, 1] = reduce_sum(dims=[0, 1]) %5
output "D": f32 = %7
output "top": f32 = %3
output "total": f32 = %8
)");
}

TEST(BindEpilogue, ReducedOutputsMayLeaveOutLeadingOnes) {
  for (const Dims& total : {Dims{}, Dims{1}, Dims{1, 1}}) {
    EXPECT_TRUE(bind_epilogue(softmax(),
                              {tensor("D", f32, {8, 16}), tensor("top", f32, {8, 1}), tensor("total", f32, total)},
                              gemm(8, 16, 4)));
  }
  const Result<Graph> vector = bind_epilogue(
      softmax(), {tensor("D", f32, {8, 16}), tensor("top", f32, {8}), tensor("total", f32, {})}, gemm(8, 16, 4));
  EXPECT_EQ(headline_of(vector), "top is bound as [8] but its value has shape [8, 1]");
  EXPECT_EQ(vector.error().diagnostics()[0].help, "bind top to a tensor of shape [8, 1], a column");
  EXPECT_EQ(headline_of(bind_epilogue(
                softmax(), {tensor("D", f32, {8, 16}), tensor("top", f32, {8, 1}), tensor("total", f32, {2})},
                gemm(8, 16, 4))),
            "total is bound as [2] but its value has shape [1, 1]");
}

EpilogueFunction gated() {
  FunctionMaker f(
      "def f(accum, bias):\n    g, u = split(accum, 2, dim=-1)\n    D = silu(g) * u + bias\n    return D\n");
  const ValueId accum = f.parameter("accum"), bias = f.parameter("bias");
  const ValueId g = f.op(Op::split, {accum}, "split(accum, 2, dim=-1)", "g", SplitAttr{2, 0, -1});
  const ValueId u = f.op(Op::split, {accum}, "split(accum, 2, dim=-1)", "u", SplitAttr{2, 1, -1});
  const ValueId gate = f.op(Op::silu, {g}, "silu(g)"), product = f.op(Op::mul, {gate, u}, "silu(g) * u");
  f.output("D", f.op(Op::add, {product, bias}, "silu(g) * u + bias", "D"));
  return f.epilogue();
}

TEST(BindEpilogue, LayoutMakesDimsConstant) {
  EXPECT_EQ(text_of(bind_epilogue(gated(), {tensor("bias", f32, {8}), tensor("D", f32, {4, 8})}, gemm(4, 16, 3))),
            R"(%0:f32[4, 3] = input "A"
%1:f32[3, 16] = input "B"
%2:f32[8] = input "bias"
%3:f32[4, 16] = matmul(f32) %0, %1
%4:f32[4, 8] = split(ways=2, part=0, dim=1) %3
%5:f32[4, 8] = silu %4
%6:f32[4, 8] = split(ways=2, part=1, dim=1) %3
%7:f32[4, 8] = mul %5, %6
%8:f32[4, 8] = add %7, %2
output "D": f32 = %8
)");
  EXPECT_EQ(text_of(bind_epilogue(gated(), {tensor("bias", f32, {9}), tensor("D", f32, {4, 8})}, gemm(4, 16, 3))),
            "error[E0207]: bias has 9 columns but `silu(g) * u` has 8\n"
            "  --> f.py:3:23\n"
            "3 |     D = silu(g) * u + bias\n"
            "  |                       ^^^^ f32[9]\n"
            "note: [9] and [4, 8] do not broadcast: from the right, sizes must be equal or 1\n"
            "help: make both 8 columns, or one of them 1\n");
  EXPECT_EQ(text_of(bind_epilogue(gated(), {tensor("bias", f32, {8}), tensor("D", f32, {4, 8})}, gemm(4, 17, 3))),
            "error[E0218]: cannot split 17 columns in 2 equal parts\n"
            "  --> f.py:2:18\n"
            "2 |     g, u = split(accum, 2, dim=-1)\n"
            "  |                  ^^^^^ f32[4, 17]\n"
            "note: the accumulator is f32[4, 17]; 17 is not divisible by 2\n"
            "help: pad to 18, or split in another number of parts\n");
}

// row_index counts in what it meets; alone it counts the accumulator.
TEST(BindEpilogue, IndexFunctionsCountInWhatTheyMeet) {
  FunctionMaker f(
      "def f(accum, mask):\n    later = row_index() * 2 + col_index()\n    D = where(later < 5, accum, 0)\n    rows = "
      "row_index() + 1\n    S = mask + col_index()\n    return D, rows, S\n");
  const ValueId accum = f.parameter("accum"), mask = f.parameter("mask");
  const ValueId row = f.op(Op::row_index, {}, "row_index()"), two = f.integer(2, "2");
  const ValueId scaled = f.op(Op::mul, {row, two}, "row_index() * 2"), col = f.op(Op::col_index, {}, "col_index()");
  const ValueId later = f.op(Op::add, {scaled, col}, "row_index() * 2 + col_index()", "later");
  const ValueId five = f.integer(5, "5"), less = f.op(Op::lt, {later, five}, "later < 5"), zero = f.integer(0, "0");
  f.output("D", f.op(Op::where, {less, accum, zero}, "where(later < 5, accum, 0)", "D"));
  const ValueId row2 = f.op(Op::row_index, {}, "row_index() + 1"), one = f.integer(1, "1");
  f.output("rows", f.op(Op::add, {row2, one}, "row_index() + 1", "rows"));
  const ValueId col2 = f.op(Op::col_index, {}, "col_index()");
  f.output("S", f.op(Op::add, {mask, col2}, "mask + col_index()", "S"));
  EXPECT_EQ(text_of(bind_epilogue(f.epilogue(),
                                  {tensor("mask", f32, {16}), tensor("D", f32, {8, 16}), tensor("rows", i64, {8, 1}),
                                   tensor("S", f32, {16})},
                                  gemm(8, 16, 4))),
            R"(%0:f32[m, k] = input "A"
%1:f32[k, n] = input "B"
%2:f32[n] = input "mask"
%3:i64[m, 1] = row_index(shape=[m, 1])
%4:i64[] = literal 2
%5:i64[m, 1] = mul %3, %4
%6:i64[1, n] = col_index(shape=[1, n])
%7:i64[m, n] = add %5, %6
%8:i64[] = literal 5
%9:bool[m, n] = lt %7, %8
%10:f32[m, n] = matmul(f32) %0, %1
%11:f32[] = literal 0.0
%12:f32[m, n] = where %9, %10, %11
%13:i64[] = literal 1
%14:i64[m, 1] = add %3, %13
%15:i64[n] = col_index(shape=[n])
%16:f32[n] = add %2, %15
output "D": f32 = %12
output "rows": i64 = %14
output "S": f32 = %16
)");
}

TEST(BindEpilogue, BatchIndexOfASingleProductIsZero) {
  FunctionMaker f("def f(accum):\n    D = accum + batch_index()\n    return D\n");
  const ValueId accum = f.parameter("accum"), index = f.op(Op::batch_index, {}, "batch_index()");
  f.output("D", f.op(Op::add, {accum, index}, "accum + batch_index()", "D"));
  EXPECT_NE(
      text_of(bind_epilogue(f.epilogue(), {tensor("D", f32, {2, 2})}, gemm(2, 2, 2))).find("%3:i64[] = literal 0\n"),
      std::string::npos);
  GemmFacts facts = gemm(2, 2, 2);
  facts.batched = true;
  facts.batch = 5;
  EXPECT_NE(text_of(bind_epilogue(f.epilogue(), {tensor("D", f32, {5, 2, 2})}, facts))
                .find("%3:i64[batch, 1, 1] = batch_index(shape=[batch, 1, 1])\n"),
            std::string::npos);
}

TEST(BindEpilogue, RoundAsUnfused) {
  GemmFacts facts = gemm(64, 128, 32, bf16);
  facts.round_as_unfused = true;
  EXPECT_EQ(text_of(bind_epilogue(relu_aux_store(), relu_aux_arguments(), facts)), R"(%0:bf16[m, k] = input "A"
%1:bf16[k, n] = input "B"
%2:f32[] = input "alpha" scalar
%3:bf16[m, n] = input "C"
%4:f32[m, n] = matmul(f32) %0, %1
%5:bf16[m, n] = cast(bf16) %4
%6:f32[m, n] = mul %5, %2
%7:f32[] = literal 2.0
%8:f32[m, n] = mul %3, %7
%9:bf16[m, n] = cast(bf16) %8
%10:f32[m, n] = add %6, %9
%11:f32[m, n] = relu %10
output "D": bf16 = %11
output "F": f32 = %10
)");
}

TEST(BindEpilogue, IntegersStayIntegersUntilAFloat) {
  FunctionMaker f("def f(accum, zero, scale):\n    D = (accum - zero * 3) * scale + accum // 2\n    return D\n");
  const ValueId accum = f.parameter("accum"), zero = f.parameter("zero"), scale = f.parameter("scale");
  const ValueId three = f.integer(3, "3"), a = f.op(Op::mul, {zero, three}, "zero * 3"),
                b = f.op(Op::sub, {accum, a}, "accum - zero * 3");
  const ValueId c = f.op(Op::mul, {b, scale}, "(accum - zero * 3) * scale"), two = f.integer(2, "2");
  const ValueId d = f.op(Op::floordiv, {accum, two}, "accum // 2");
  f.output("D", f.op(Op::add, {c, d}, "(accum - zero * 3) * scale + accum // 2", "D"));
  EXPECT_EQ(text_of(bind_epilogue(f.epilogue(),
                                  {tensor("zero", i8, {4, 1}), tensor("scale", f16, {6}), tensor("D", i8, {4, 6})},
                                  gemm(4, 6, 5, i8))),
            R"(%0:i8[m, k] = input "A"
%1:i8[k, n] = input "B"
%2:i8[m, 1] = input "zero"
%3:f16[n] = input "scale"
%4:i32[m, n] = matmul(i32) %0, %1
%5:i8[] = literal 3
%6:i8[m, 1] = mul %2, %5
%7:i32[m, n] = sub %4, %6
%8:f32[m, n] = mul %7, %3
%9:i32[] = literal 2
%10:i32[m, n] = floordiv %4, %9
%11:f32[m, n] = add %8, %10
output "D": i8 = %11
)");
}

// Sizes of 1 and 0: 1 stays the constant, so that the operand is still a row or a column.
TEST(BindEpilogue, DegenerateSizes) {
  FunctionMaker f("def f(accum, C):\n    D = accum + C\n    return D\n");
  const ValueId accum = f.parameter("accum"), c = f.parameter("C");
  f.output("D", f.op(Op::add, {accum, c}, "accum + C", "D"));
  EXPECT_NE(text_of(bind_epilogue(f.epilogue(), {tensor("C", f32, {1, 7}), tensor("D", f32, {1, 7})}, gemm(1, 7, 0)))
                .find("%2:f32[1, n] = input \"C\""),
            std::string::npos);
  EXPECT_TRUE(bind_epilogue(f.epilogue(), {tensor("C", f32, {0, 7}), tensor("D", f32, {0, 7})}, gemm(0, 7, 3)));
  EXPECT_EQ(headline_of(bind_epilogue(f.epilogue(), {tensor("C", f32, {0}), tensor("D", f32, {3, 7})}, gemm(3, 7, 3))),
            "C has 0 columns but the accumulator has 7");
  EXPECT_EQ(
      headline_of(bind_epilogue(f.epilogue(), {tensor("C", f32, {7}), tensor("D", f32, {-3, 7})}, gemm(-3, 7, 3))),
      "the GEMM has m = -3");
}

// An output may be the accumulator itself, or an operand unchanged.
TEST(BindEpilogue, CopiesAreOutputs) {
  FunctionMaker f("def f(accum, C):\n    D = accum + C\n    return D, accum, copy\n");
  const ValueId accum = f.parameter("accum"), c = f.parameter("C");
  f.output("D", f.op(Op::add, {accum, c}, "accum + C", "D"));
  f.output("accum", accum);
  f.output("copy", c);
  EXPECT_EQ(text_of(bind_epilogue(f.epilogue(),
                                  {tensor("C", f16, {3}), tensor("D", f32, {2, 3}), tensor("accum", f32, {2, 3}),
                                   tensor("copy", f16, {1, 3})},
                                  gemm(2, 3, 4))),
            R"(%0:f32[m, k] = input "A"
%1:f32[k, n] = input "B"
%2:f16[n] = input "C"
%3:f32[m, n] = matmul(f32) %0, %1
%4:f32[m, n] = add %3, %2
output "D": f32 = %4
output "accum": f32 = %3
output "copy": f16 = %2
)");
}

}  // namespace
}  // namespace codetta::ir::test
