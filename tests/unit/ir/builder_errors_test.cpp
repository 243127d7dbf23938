// SPDX-License-Identifier: Apache-2.0
// Misuse of GraphBuilder: located in the printed graph where there is no source.
#include <gtest/gtest.h>

#include <limits>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

Dim num(int64_t value) { return Dim::constant(value); }

// The headline of adding `op` over inputs of these types.
std::string refused(Op op, std::vector<TensorType> types, Attr attr = {}) {
  GraphBuilder builder;
  std::vector<NodeId> operands;
  for (size_t i = 0; i < types.size(); ++i)
    operands.push_back(builder.add_input(std::string(1, static_cast<char>('x' + i)), types[i]));
  const Result<NodeId> node = builder.add(op, operands, std::move(attr));
  return node ? "no error" : node.error().diagnostics()[0].headline + " | " + node.error().diagnostics()[0].reason;
}
TensorType f(std::vector<Dim> shape) { return {f32, false, std::move(shape)}; }

TEST(BuilderErrors, PointIntoThePrintedGraph) {
  GraphBuilder builder;
  const NodeId x = builder.add_input("x", f({num(2), num(8)})), y = builder.add_input("y", f({num(4)}));
  const NodeId operands[] = {x, y};
  const Result<NodeId> node = builder.add(Op::add, operands);
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().render(),
            "error[E0207]: y has 4 columns but x has 8\n"
            "  --> <graph>:3:16\n"
            "3 | %2:? = add %0, %1\n"
            "  |                ^^ f32[4]\n"
            "note: [4] and [2, 8] do not broadcast: from the right, sizes must be equal or 1\n"
            "help: make both 8 columns, or one of them 1\n");
}

// Of a tensor with fewer dims, where they belong.
TEST(BuilderErrors, MissingDimsAreNamed) {
  const auto help = [](std::vector<Dim> small, std::vector<Dim> large) {
    GraphBuilder builder;
    const NodeId x = builder.add_input("mask", f(std::move(small))),
                 y = builder.add_input("scores", f(std::move(large)));
    const NodeId operands[] = {x, y};
    const Result<NodeId> node = builder.add(Op::add, operands);
    return node ? "no error" : node.error().diagnostics()[0].help;
  };
  const Dim b = Dim::symbol("b"), s = Dim::symbol("s"), t = Dim::symbol("t");
  EXPECT_EQ(help({b, t}, {b, num(4), s, t}), "write mask[:, None, None, :], which has its dims where scores has them");
  EXPECT_EQ(help({b, s}, {b, num(4), s, s}), "write mask[:, None, None, :], which has its dims where scores has them");
  EXPECT_EQ(help({b}, {b, s}), "write mask[:, None], which has its dims where scores has them");
  EXPECT_EQ(help({b, num(1), t}, {b, num(4), s, t}),
            "write mask[:, None, :, :], which has its dims where scores has them");
  EXPECT_EQ(help({t, b}, {b, s, t}), "make both t columns, or one of them 1");
}

// What rounds to the largest number still fits; f64 and what is infinite as it is written takes part as it is.
TEST(BuilderErrors, FloatsOfTheTextBeyondTheirType) {
  const auto said = [](double value, DType dtype) {
    GraphBuilder builder;
    const NodeId operands[] = {builder.add_input("x", {dtype, false, {num(4)}}),
                               builder.add_literal({LiteralAttr::Kind::Float, 0, value})};
    const Result<NodeId> node = builder.add(Op::mul, operands);
    return node ? std::string("no error") : node.error().diagnostics()[0].headline;
  };
  EXPECT_EQ(said(0x1.fffffefffffffp127, f32), "no error");
  EXPECT_EQ(said(0x1.ffffffp127, f32), "float does not fit");
  EXPECT_EQ(said(-1e39, bf16), "float does not fit");
  EXPECT_EQ(said(-1e39, f64), "no error");
  EXPECT_EQ(said(-std::numeric_limits<double>::infinity(), f32), "no error");
  EXPECT_EQ(said(std::numeric_limits<double>::quiet_NaN(), f32), "no error");
}

TEST(BuilderErrors, FormOfNodes) {
  EXPECT_EQ(refused(Op::add, {f({})}), "add has 1 operand | it takes 2");
  EXPECT_EQ(refused(Op::join, {}, JoinAttr{}), "join has 0 operands | it takes one or more");
  EXPECT_EQ(refused(Op::relu, {f({})}, CastAttr{}), "relu has an attribute of another op | attribute kind 2, needed 0");
  EXPECT_EQ(refused(Op::input, {}, InputAttr{}).substr(0, 22), "input has no type rule");
  GraphBuilder builder;
  const NodeId foreign[] = {NodeId(3u)};
  const Result<NodeId> node = builder.add(Op::relu, foreign);
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().diagnostics()[0].headline, "an operand of relu is not a node of this graph");
  const Result<Graph> graph = std::move(builder).finish();
  EXPECT_EQ(headline_of(graph), "the graph has no outputs");
}

TEST(BuilderErrors, Layout) {
  EXPECT_EQ(refused(Op::permute, {f({num(2), num(3)})}, PermuteAttr{{0, 0}}),
            "(0, 0) is not an order of the dims of x | x is f32[2, 3]");
  EXPECT_EQ(refused(Op::permute, {f({num(2)})}, PermuteAttr{{0, 1}}),
            "(0, 1) is not an order of the dims of x | x is f32[2]");
  EXPECT_EQ(refused(Op::reshape, {f({num(2), num(3)})}, ReshapeAttr{{num(4), num(2)}}),
            "cannot reshape [2, 3] to [4, 2] | x has 6 elements, the new shape 8");
  EXPECT_EQ(refused(Op::reshape, {f({num(2), num(3)})}, ReshapeAttr{{num(4), num(-1)}}),
            "cannot reshape [2, 3] to [4, -1] | x has 6 elements, which 4 does not divide");
  EXPECT_EQ(refused(Op::reshape, {f({num(0)})}, ReshapeAttr{{num(0), num(-1)}}),
            "cannot reshape [0] to [0, -1] | x has 0 elements, which 0 does not divide");
  EXPECT_EQ(refused(Op::reshape, {f({num(6)})}, ReshapeAttr{{num(-1), num(-1)}}),
            "reshape to [-1, -1] leaves two sizes open | x is f32[6]");
  EXPECT_EQ(refused(Op::reshape, {f({num(6)})}, ReshapeAttr{{num(-2), num(-3)}}),
            "reshape to [-2, -3] has the negative size -2 | x is f32[6]");
  // Of a symbol that is not known to be 0 or more.
  EXPECT_EQ(refused(Op::reshape, {f({Dim::symbol("n"), num(8)})}, ReshapeAttr{{num(0) - Dim::symbol("n"), num(-1)}}),
            "reshape to [-n, -1] has the negative size -8 | x is f32[n, 8]");
  EXPECT_EQ(refused(Op::reshape, {f({Dim::symbol("n")})}, ReshapeAttr{{Dim::symbol("m")}}),
            "cannot reshape [n] to [m] | x has n elements, the new shape m");
  EXPECT_EQ(refused(Op::reshape, {f({})}, ReshapeAttr{std::vector<Dim>(9, num(1))}),
            "reshape to 9 dims | a tensor has at most 8 dims");
  EXPECT_EQ(refused(Op::split, {f({num(5)})}, SplitAttr{2, 0, 0}),
            "cannot split 5 columns in 2 equal parts | x is f32[5]; 5 is not divisible by 2");
  EXPECT_EQ(refused(Op::split, {f({num(INT64_MAX)})}, SplitAttr{2, 0, 0}),  // no larger size to pad to
            "cannot split 9223372036854775807 columns in 2 equal parts | x is f32[9223372036854775807]; "
            "9223372036854775807 is not divisible by 2");
  EXPECT_EQ(refused(Op::split, {f({num(4)})}, SplitAttr{2, 2, 0}), "part 2 of a split in 2 | x is f32[4]");
  EXPECT_EQ(refused(Op::split, {f({num(4)})}, SplitAttr{2, 0, 1}), "split along dim 1, but x has 1 dim | x is f32[4]");
  EXPECT_EQ(refused(Op::split, {f({})}, SplitAttr{2, 0, -1}), "split along dim -1, but x has 0 dims | x is f32[]");
  EXPECT_EQ(refused(Op::join, {f({num(2), num(3)}), f({num(3), num(3)})}, JoinAttr{1, false}),
            "cannot join [2, 3] with [3, 3] | x is f32[2, 3], y is f32[3, 3]");
  EXPECT_EQ(refused(Op::join, {f({num(3)}), f({num(4)})}, JoinAttr{0, true}),
            "cannot join [3] with [4] | x is f32[3], y is f32[4]");
  EXPECT_EQ(refused(Op::join, {f({num(INT64_MAX)}), f({num(INT64_MAX)})}, JoinAttr{0, false}),
            "a size of the result of join has no value | computing it gives overflow");
}

TEST(BuilderErrors, DtypesAndReductions) {
  EXPECT_EQ(refused(Op::where, {f({}), f({}), f({})}), "the condition of where is f32, not bool | x has dtype f32");
  EXPECT_EQ(
      refused(Op::pow, {TensorType{i32, false, {}}, TensorType{i32, false, {}}}),
      "the exponent y of an integer power is not a literal | both operands are integers, so the result would be i32");
  GraphBuilder builder;
  const NodeId x = builder.add_input("x", {i32, false, {}}),
               minus = builder.add_literal({LiteralAttr::Kind::Int, -2, 0});
  const NodeId operands[] = {x, minus};
  const Result<NodeId> node = builder.add(Op::pow, operands);
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().diagnostics()[0].headline, "an integer cannot be raised to the negative power -2");
  EXPECT_EQ(refused(Op::reduce_sum, {f({num(2)})}, ReduceAttr{ReduceAxis::Dims, {}}),
            "reduction names no dim | x is f32[2]");
  EXPECT_EQ(refused(Op::row_index, {}, ReshapeAttr{{num(2), num(3)}}).substr(0, 38),
            "row_index cannot count in shape [2, 3]");
  EXPECT_EQ(refused(Op::matmul, {f({num(2)}), f({num(2), num(2)})}, MatmulAttr{}),
            "x has 1 dim; a matrix product needs two | x is f32[2]");
  EXPECT_EQ(refused(Op::matmul, {f({num(2), num(2)}), f({num(2), num(2)})}, MatmulAttr{i32}),
            "a product of f32 and f32 cannot accumulate in i32 | it accumulates in f32 or f64");
}

}  // namespace
}  // namespace codetta::ir::test
