// SPDX-License-Identifier: Apache-2.0
// Untyped functions as text, and when two are the same.
#include <gtest/gtest.h>

#include <limits>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

ValueId push(Function& f, Op op, std::vector<ValueId> operands, std::string name = {}, Attr attr = {}) {
  f.values.push_back({op, std::move(operands), std::move(attr), {}, std::move(name)});
  return ValueId(f.values.size() - 1);
}
ValueId number(Function& f, double value) {
  return push(f, Op::literal, {}, {}, LiteralAttr{LiteralAttr::Kind::Float, 0, value});
}
Function with_parameters(std::vector<std::string> names) {
  Function f;
  f.name = "f";
  for (std::string& name : names) {
    push(f, Op::input, {}, name, InputAttr{static_cast<uint32_t>(f.parameters.size())});
    f.parameters.push_back({std::move(name), {}, {}});
  }
  return f;
}

TEST(FunctionPrint, EveryForm) {
  Function f = with_parameters({"accum", "C"});
  const ValueId accum(0u), c(1u);
  const ValueId scaled = push(f, Op::mul, {accum, number(f, -2.0)}, "C");  // the variable's name is taken
  const ValueId g0 = push(f, Op::split, {scaled}, "g", SplitAttr{3, 0, -1}),
                g2 = push(f, Op::split, {scaled}, "", SplitAttr{3, 2, -1});
  const ValueId gate = push(f, Op::gelu_tanh, {g0}, "gate"),
                same = push(f, Op::split, {scaled}, "again", SplitAttr{3, 2, -1});
  const ValueId sum = push(f, Op::multiply_add, {gate, g2, same});
  const ValueId rows = push(f, Op::reduce_max, {sum}, "", ReduceAttr{ReduceAxis::Row, {}}),
                dims = push(f, Op::reduce_sum, {sum}, "", ReduceAttr{ReduceAxis::Dims, {-2, -1}});
  const ValueId one = push(f, Op::reduce_mean, {sum}, "", ReduceAttr{ReduceAxis::Dims, {1}}),
                all = push(f, Op::reduce_amax, {sum}, "", ReduceAttr{});
  const ValueId less = push(f, Op::lt, {rows, dims}), inverse = push(f, Op::logical_not, {less});
  const ValueId chosen = push(f, Op::where, {inverse, one, all});
  const ValueId cast = push(f, Op::cast, {chosen}, "", CastAttr{f8e4m3}),
                shaped = push(f, Op::reshape, {cast}, "", ReshapeAttr{{Dim::constant(-1)}});
  const ValueId joined = push(f, Op::join, {shaped, shaped}, "sum", JoinAttr{0, true}),
                turned = push(f, Op::permute, {c}, "", PermuteAttr{{1, 0}});
  const ValueId infinite = push(f, Op::minimum, {turned, number(f, std::numeric_limits<double>::infinity())});
  const ValueId negative = push(f, Op::neg, {infinite});
  f.outputs = {{"D", joined, {}}, {"E", negative, {}}, {"F", negative, {}}, {"C", c, {}}};
  EXPECT_EQ(print(f), R"(def f(accum, C):
    t0 = accum * (-2.0)
    g, t2, t1 = split(t0, 3, dim=-1)
    again = t1
    gate = gelu(g, approximate="tanh")
    t3 = multiply_add(gate, t1, again)
    t4 = max(t3, axis="row")
    t5 = sum(t3, dim=(-2, -1))
    t6 = mean(t3, dim=1)
    t7 = amax(t3)
    t8 = t4 < t5
    t9 = ~t8
    t10 = where(t9, t6, t7)
    t11 = cast(t10, f8e4m3)
    t12 = reshape(t11, (-1,))
    D = join(t12, t12, dim=0, interleave=True)
    t13 = permute(C, (1, 0))
    t14 = minimum(t13, inf)
    E = -t14
    F = E
    return D, E, F, C
)");
}

TEST(FunctionPrint, ProgramsHaveTypes) {
  Function f = with_parameters({"x", "w"});
  f.parameters[0].type = TypeAnnotation{bf16, {Dim::symbol("batch"), Dim::constant(64)}, {}};
  f.parameters[1].type = TypeAnnotation{f32, {}, {}};
  f.outputs = {{"y", push(f, Op::matmul, {ValueId(0u), ValueId(1u)}, "y", MatmulAttr{}), {}}};
  EXPECT_EQ(print(f), "def f(x: bf16[\"batch\", 64], w: f32[()]):\n    y = x @ w\n    return y\n");
}

Function sample(bool duplicate, double factor, const std::string& inner) {
  Function f = with_parameters({"accum"});
  const ValueId a = push(f, Op::mul, {ValueId(0u), number(f, factor)}, inner);
  const ValueId b = duplicate ? push(f, Op::mul, {ValueId(0u), number(f, factor)}) : a;
  f.outputs = {{"D", push(f, Op::add, {a, b}), {}}};
  return f;
}

TEST(FunctionEquivalent, IgnoresNamesAndSharing) {
  EXPECT_TRUE(equivalent(sample(false, 2, "x"), sample(true, 2, "y")));
  EXPECT_FALSE(equivalent(sample(false, 2, "x"), sample(false, 3, "x")));
  EXPECT_FALSE(equivalent(sample(false, 0.0, "x"), sample(false, -0.0, "x")));
  EXPECT_TRUE(equivalent(sample(false, std::numeric_limits<double>::quiet_NaN(), "x"),
                         sample(false, std::numeric_limits<double>::quiet_NaN(), "x")));
  Function other = sample(false, 2, "x");
  other.outputs[0].name = "E";
  EXPECT_FALSE(equivalent(sample(false, 2, "x"), other));
  other = sample(false, 2, "x");
  other.parameters[0].name = "acc";
  EXPECT_FALSE(equivalent(sample(false, 2, "x"), other));
}

TEST(FunctionEquivalent, DeepFunctions) {
  const auto deep = [](int levels) {
    Function f = with_parameters({"accum"});
    ValueId x(0u);
    for (int i = 0; i < levels; ++i) x = push(f, Op::add, {x, x});
    f.outputs = {{"D", x, {}}};
    return f;
  };
  EXPECT_TRUE(equivalent(deep(100000), deep(100000)));
  EXPECT_FALSE(equivalent(deep(100000), deep(99999)));
  EXPECT_NE(print(deep(100000)).find("    t99998 = t99997 + t99997\n"), std::string::npos);
}

}  // namespace
}  // namespace codetta::ir::test
