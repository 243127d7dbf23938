// SPDX-License-Identifier: Apache-2.0
// Type inference, weak literals, interning and numbering of GraphBuilder.
#include <gtest/gtest.h>

#include <random>

#include "ir/analyses.hpp"
#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

LiteralAttr real(double value) { return {LiteralAttr::Kind::Float, 0, value}; }
LiteralAttr integer(int64_t value) { return {LiteralAttr::Kind::Int, value, 0}; }

struct Bench {
  GraphBuilder builder;
  NodeId input(DType dtype, std::vector<Dim> shape = {}) {
    return builder.add_input("x" + std::to_string(builder.size()), {dtype, false, std::move(shape)});
  }
  NodeId op(Op op, std::vector<NodeId> operands, Attr attr = {}) {
    const Result<NodeId> node = builder.add(op, operands, std::move(attr));
    EXPECT_TRUE(node) << node.error().render();
    return node ? *node : NodeId(0u);
  }
  std::string type(NodeId id) { return to_string(builder.type(id)); }
};

// The type of x op literal, and the literal as the op sees it.
std::string with_literal(Op op, DType dtype, LiteralAttr literal) {
  Bench b;
  const NodeId node = b.op(op, {b.input(dtype), b.builder.add_literal(literal)});
  return b.type(node) + " of " + b.type(b.builder.operands(node)[1]);
}

// What one literal becomes may move those that follow in the same call (a matter for the address sanitizer), and the
// last is still told to be beyond its type.
TEST(Builder, LiteralsOfOneCallAreEachLookedAt) {
  for (int before = 0; before < 40; ++before) {
    Bench b;
    const NodeId x = b.input(f32);
    for (int i = 0; i < before; ++i) b.builder.add_literal(integer(1000 + i));
    const NodeId small = b.builder.add_literal(real(0.5)), large = b.builder.add_literal(real(1e300));
    const Result<NodeId> made = b.builder.add(Op::multiply_add, std::vector<NodeId>{x, small, large}, {});
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().render().find("1e+300"), std::string::npos) << made.error().render();
    EXPECT_TRUE(b.builder.add(Op::multiply_add, std::vector<NodeId>{x, small, b.builder.add_literal(real(3.0))}, {}));
  }
}

TEST(Builder, LiteralsAreWeak) {
  EXPECT_EQ(with_literal(Op::add, f32, integer(2)), "f32[] of f32[]");
  EXPECT_EQ(with_literal(Op::add, bf16, real(0.5)), "f32[] of f32[]");
  EXPECT_EQ(with_literal(Op::add, f64, real(0.1)), "f64[] of f64[]");
  EXPECT_EQ(with_literal(Op::add, i32, real(0.5)), "f32[] of f32[]");
  EXPECT_EQ(with_literal(Op::add, i8, integer(100)), "i8[] of i8[]");
  EXPECT_EQ(with_literal(Op::add, i8, integer(-128)), "i8[] of i8[]");
  EXPECT_EQ(with_literal(Op::add, i8, integer(300)), "i32[] of i32[]");
  EXPECT_EQ(with_literal(Op::add, u8, integer(300)), "i32[] of i32[]");
  EXPECT_EQ(with_literal(Op::add, u8, integer(-1)), "i32[] of i32[]");
  EXPECT_EQ(with_literal(Op::add, u32, integer(-1)), "i64[] of i64[]");
  EXPECT_EQ(with_literal(Op::add, i32, integer(int64_t{1} << 40)), "i64[] of i64[]");
  EXPECT_EQ(with_literal(Op::add, boolean, integer(1)), "i32[] of i32[]");
  EXPECT_EQ(with_literal(Op::div, i32, integer(2)), "f32[] of f32[]");
  EXPECT_EQ(with_literal(Op::lt, i8, integer(300)), "bool[] of i32[]");
  EXPECT_EQ(with_literal(Op::lt, f64, integer(3)), "bool[] of f64[]");
}

TEST(Builder, LiteralsOnlyStayWeak) {
  Bench b;
  const NodeId two = b.builder.add_literal(integer(2)), half = b.builder.add_literal(real(0.5));
  EXPECT_EQ(b.type(two), "weak i64[]");
  EXPECT_EQ(b.type(b.op(Op::pow, {two, half})), "weak f64[]");
  EXPECT_EQ(b.type(b.op(Op::sqrt, {two})), "weak f64[]");
  EXPECT_EQ(b.builder.attr(b.op(Op::neg, {two})), Attr(integer(-2)));
  EXPECT_EQ(b.builder.attr(b.op(Op::mul, {two, half})), Attr(real(1.0)));
  // A weak value that is no literal is cast where it meets a typed one.
  const NodeId root = b.op(Op::sqrt, {two});
  const NodeId sum = b.op(Op::add, {b.input(f32), root});
  const NodeId operand = b.builder.operands(sum)[1];
  EXPECT_EQ(b.builder.node(operand).op, Op::cast);
  EXPECT_EQ(b.type(operand), "f32[]");
  // The condition types a choice of numbers.
  const NodeId flag = b.input(boolean);
  EXPECT_EQ(b.type(b.op(Op::where, {flag, two, b.builder.add_literal(integer(0))})), "i32[]");
  EXPECT_EQ(b.type(b.op(Op::where, {flag, half, two})), "f32[]");
  EXPECT_EQ(b.type(b.op(Op::where, {flag, two, b.builder.add_literal(integer(int64_t{1} << 40))})), "i64[]");
}

// What decides the type of the other operand is the number that is meant, whatever it is computed by.
TEST(Builder, LiteralsAreComputedFirst) {
  constexpr auto Bool = LiteralAttr::Kind::Bool;
  const auto of = [](Op op, const std::vector<LiteralAttr>& numbers) {
    Bench b;
    std::vector<NodeId> operands;
    for (const LiteralAttr& number : numbers) operands.push_back(b.builder.add_literal(number));
    return b.builder.attr(b.op(op, operands));
  };
  const auto is = [&](Op op, const std::vector<int64_t>& numbers, int64_t expected) {
    std::vector<LiteralAttr> literals;
    for (const int64_t number : numbers) literals.push_back(integer(number));
    EXPECT_EQ(of(op, literals), Attr(integer(expected))) << types::op_info(op).name;
  };
  is(Op::add, {255, 45}, 300);
  is(Op::sub, {0, 2}, -2);
  is(Op::mul, {16, 16}, 256);
  is(Op::pow, {2, 40}, int64_t{1} << 40);
  is(Op::pow, {-3, 3}, -27);
  is(Op::floordiv, {-7, 2}, -4);
  is(Op::floordiv, {7, 0}, 0);
  is(Op::mod, {-7, 2}, 1);
  is(Op::mod, {7, -2}, -1);
  is(Op::mod, {7, 0}, 0);
  is(Op::mod, {INT64_MIN, -1}, 0);
  is(Op::multiply_add, {20, 20, 20}, 420);
  is(Op::minimum, {300, 400}, 300);
  is(Op::maximum, {300, -400}, 300);
  is(Op::clamp, {1000, 0, 300}, 300);
  is(Op::clamp, {5, 9, 7}, 7);
  is(Op::abs, {-300}, 300);
  is(Op::sign, {-300}, -1);
  is(Op::relu, {300}, 300);
  is(Op::relu, {-300}, 0);
  is(Op::drelu, {300}, 1);
  for (const Op op : {Op::floor, Op::ceil, Op::round, Op::trunc}) is(op, {300}, 300);

  // What no literal has stays an operation: the front end refuses it.
  const auto stays = [&](Op op, const std::vector<int64_t>& numbers) {
    std::vector<LiteralAttr> literals;
    for (const int64_t number : numbers) literals.push_back(integer(number));
    EXPECT_FALSE(std::holds_alternative<LiteralAttr>(of(op, literals))) << types::op_info(op).name;
  };
  stays(Op::floordiv, {INT64_MIN, -1});
  stays(Op::neg, {INT64_MIN});
  stays(Op::abs, {INT64_MIN});
  stays(Op::add, {INT64_MAX, 1});
  stays(Op::sub, {INT64_MIN, 1});
  stays(Op::mul, {INT64_MAX, INT64_MAX});
  stays(Op::multiply_add, {INT64_MAX, 2, 1});
  stays(Op::pow, {2, 63});
  stays(Op::pow, {3, INT64_MAX});
  is(Op::pow, {-2, 63}, INT64_MIN);
  is(Op::pow, {-1, INT64_MAX}, -1);
  is(Op::pow, {0, 0}, 1);

  const auto truth = [&](bool value) { return LiteralAttr{Bool, value ? 1 : 0, 0}; };
  EXPECT_EQ(of(Op::lt, {integer(2), real(2.5)}), Attr(truth(true)));
  EXPECT_EQ(of(Op::eq, {integer(INT64_MAX), integer(INT64_MAX - 1)}), Attr(truth(false)));
  EXPECT_EQ(of(Op::ne, {real(std::nan("")), real(std::nan(""))}), Attr(truth(true)));
  EXPECT_EQ(of(Op::ge, {integer(1), integer(2)}), Attr(truth(false)));
  EXPECT_EQ(of(Op::logical_and, {truth(true), truth(false)}), Attr(truth(false)));
  EXPECT_EQ(of(Op::logical_or, {truth(true), truth(false)}), Attr(truth(true)));
  EXPECT_EQ(of(Op::logical_xor, {truth(true), truth(true)}), Attr(truth(false)));
  EXPECT_EQ(of(Op::logical_not, {truth(false)}), Attr(truth(true)));
  EXPECT_EQ(of(Op::where, {truth(true), integer(300), integer(1)}), Attr(integer(300)));
  EXPECT_EQ(of(Op::where, {truth(false), real(0.5), integer(1)}), Attr(real(1.0)));
  EXPECT_EQ(of(Op::where, {truth(true), truth(true), truth(false)}), Attr(truth(true)));
  EXPECT_EQ(of(Op::mul, {truth(true), integer(0)}), Attr(integer(0)));
  EXPECT_EQ(of(Op::add, {truth(true), truth(true)}), Attr(integer(2)));
  EXPECT_EQ(of(Op::neg, {truth(true)}), Attr(integer(-1)));

  EXPECT_EQ(of(Op::div, {integer(1), integer(4)}), Attr(real(0.25)));
  EXPECT_EQ(of(Op::pow, {integer(2), real(-1.0)}), Attr(real(0.5)));
  EXPECT_EQ(of(Op::floordiv, {real(-7.0), integer(2)}), Attr(real(-4.0)));
  EXPECT_EQ(of(Op::mod, {real(-7.5), integer(2)}), Attr(real(0.5)));
  EXPECT_EQ(of(Op::round, {real(2.5)}), Attr(real(2.0)));
  EXPECT_EQ(of(Op::clamp, {real(9.5), integer(0), integer(6)}), Attr(real(6.0)));
  EXPECT_EQ(of(Op::relu, {real(-0.0)}), Attr(real(0.0)));
  EXPECT_EQ(of(Op::neg, {real(std::nan(""))}), Attr(real(std::nan(""))));
}

TEST(Builder, ComputedLiteralsChooseTheType) {
  const auto joined = [](DType dtype, Op op, int64_t x, int64_t y) {
    Bench b;
    const NodeId number = b.op(op, {b.builder.add_literal(integer(x)), b.builder.add_literal(integer(y))});
    return b.type(b.op(Op::minimum, {b.input(dtype), number}));
  };
  EXPECT_EQ(joined(i32, Op::pow, 2, 40), "i64[]");
  EXPECT_EQ(joined(i32, Op::pow, 2, 31), "i64[]");
  EXPECT_EQ(joined(i32, Op::floordiv, int64_t{1} << 40, 2), "i64[]");
  EXPECT_EQ(joined(u8, Op::maximum, 300, 400), "i32[]");
  EXPECT_EQ(joined(u8, Op::pow, 2, 8), "i32[]");
  EXPECT_EQ(joined(u8, Op::floordiv, 400, 2), "u8[]");
  Bench b;
  const LiteralAttr yes{LiteralAttr::Kind::Bool, 1, 0};
  const NodeId number = b.op(Op::mul, {b.builder.add_literal(yes), b.builder.add_literal(integer(0))});
  EXPECT_EQ(b.type(b.op(Op::sub, {b.input(u16), number})), "u16[]");
  // The exponent of an integer power may be computed, too.
  const NodeId one = b.builder.add_literal(integer(1)),
               exponent = b.op(Op::pow, {b.builder.add_literal(integer(2)), one});
  EXPECT_EQ(b.type(b.op(Op::pow, {b.input(i8), exponent})), "i8[]");
}

TEST(Builder, RulesOfTheTable) {
  Bench b;
  const NodeId h = b.input(bf16, {Dim::constant(4), Dim::constant(6)}), s = b.input(i8, {Dim::constant(6)}),
               f = b.input(boolean);
  EXPECT_EQ(b.type(b.op(Op::relu, {h})), "f32[4, 6]");
  EXPECT_EQ(b.type(b.op(Op::relu, {s})), "i8[6]");
  EXPECT_EQ(b.type(b.op(Op::neg, {f})), "i32[]");
  EXPECT_EQ(b.type(b.op(Op::exp, {s})), "f32[6]");
  EXPECT_EQ(b.type(b.op(Op::exp, {f})), "f32[]");
  EXPECT_EQ(b.type(b.op(Op::where, {f, s, h})), "f32[4, 6]");
  EXPECT_EQ(b.type(b.op(Op::where, {f, f, f})), "bool[]");
  EXPECT_EQ(b.type(b.op(Op::cast, {h}, CastAttr{f8e5m2})), "f8e5m2[4, 6]");
  EXPECT_EQ(b.type(b.op(Op::reduce_sum, {s}, ReduceAttr{})), "i8[1]");
  EXPECT_EQ(b.type(b.op(Op::reduce_mean, {s}, ReduceAttr{})), "f32[1]");
  EXPECT_EQ(b.type(b.op(Op::reduce_max, {h}, ReduceAttr{ReduceAxis::Column, {}})), "f32[1, 6]");
  EXPECT_EQ(b.type(b.op(Op::permute, {h}, PermuteAttr{{-1, 0}})), "bf16[6, 4]");
  EXPECT_EQ(b.type(b.op(Op::reshape, {h}, ReshapeAttr{{Dim::constant(2), Dim::constant(-1), Dim::constant(3)}})),
            "bf16[2, 4, 3]");
  EXPECT_EQ(b.type(b.op(Op::split, {h}, SplitAttr{3, 1, -1})), "bf16[4, 2]");
  EXPECT_EQ(b.type(b.op(Op::join, {h, h}, JoinAttr{-1, true})), "bf16[4, 12]");
  EXPECT_EQ(b.type(b.op(Op::join, {s, s, s}, JoinAttr{0, false})), "i8[18]");
  EXPECT_EQ(b.type(b.op(Op::dropout, {s, b.builder.add_literal(real(0.5)), b.builder.add_literal(integer(7))})),
            "f32[6]");
}

TEST(Builder, SymbolicLayout) {
  Bench b;
  const Dim n = Dim::symbol("n");
  const NodeId x = b.input(f16, {n, Dim::constant(2) * n});
  EXPECT_EQ(b.type(b.op(Op::split, {x}, SplitAttr{2, 0, 1})), "f16[n, n]");
  EXPECT_EQ(b.type(b.op(Op::split, {x}, SplitAttr{2, 0, 0})), "f16[n // 2, 2*n]");
  EXPECT_EQ(b.type(b.op(Op::join, {x, x}, JoinAttr{0, false})), "f16[2*n, 2*n]");
  EXPECT_EQ(b.type(b.op(Op::reshape, {x}, ReshapeAttr{{Dim::constant(2), n * n}})), "f16[2, n*n]");
}

TEST(Builder, EqualNodesAreOne) {
  Bench b;
  const NodeId x = b.input(f32), y = b.input(f32);
  EXPECT_EQ(b.op(Op::add, {x, y}), b.op(Op::add, {x, y}));
  EXPECT_NE(b.op(Op::add, {x, y}), b.op(Op::add, {y, x}));
  const NodeId two = b.op(Op::mul, {x, b.builder.add_literal(integer(2))});
  EXPECT_EQ(two, b.op(Op::mul, {x, b.builder.add_literal(real(2.0))}));
  EXPECT_NE(b.builder.add_literal(real(0.0)), b.builder.add_literal(real(-0.0)));
  EXPECT_EQ(b.builder.add_literal(real(std::nan(""))), b.builder.add_literal(real(std::nan(""))));
}

TEST(Builder, FinishDropsAndRenumbers) {
  Bench b;
  const NodeId x = b.input(f32), y = b.input(f32), z = b.input(f32);
  b.op(Op::exp, {z});
  const NodeId right = b.op(Op::exp, {y}), left = b.op(Op::relu, {x}), sum = b.op(Op::add, {left, right});
  b.builder.add_output("s", sum, f16);
  const Result<Graph> graph = std::move(b.builder).finish();
  EXPECT_EQ(text_of(graph), R"(%0:f32[] = input "x0"
%1:f32[] = input "x1"
%2:f32[] = input "x2"
%3:f32[] = relu %0
%4:f32[] = exp %1
%5:f32[] = add %3, %4
output "s": f16 = %5
)");
  EXPECT_TRUE(verify(*graph));
  EXPECT_EQ(b.builder.size(), 0u);
}

// 10^5 levels in every walk.
TEST(Builder, DeepGraphs) {
  Bench b;
  constexpr uint32_t depth = 100000;
  NodeId x = b.input(f32);
  const NodeId first = x;
  for (uint32_t i = 0; i < depth; ++i) x = b.op(i % 2 == 0 ? Op::add : Op::mul, {x, first});
  b.builder.add_output("y", x, f32);
  const Result<Graph> graph = std::move(b.builder).finish();
  ASSERT_TRUE(graph);
  EXPECT_TRUE(verify(*graph));
  EXPECT_EQ(uses(*graph).users[0].size(), depth + 1);
  const Result<Graph> again = parse_graph(std::make_shared<diag::SourceText>("deep", print(*graph)));
  ASSERT_TRUE(again) << again.error().render();
  EXPECT_TRUE(*again == *graph);
  EXPECT_EQ(again->hash(), graph->hash());
}

}  // namespace
}  // namespace codetta::ir::test
