// SPDX-License-Identifier: Apache-2.0
// What binding an epilogue refuses, and the whole text where users know it from elsewhere.
#include <gtest/gtest.h>

#include "unit/ir/function_maker.hpp"

namespace codetta::ir::test {
namespace {

EpilogueFunction bias_relu() {
  FunctionMaker f("def mlp(accum,\n        bias):\n    D = relu(accum + bias)\n    return D\n");
  const ValueId accum = f.parameter("accum"), bias = f.parameter("bias");
  const ValueId sum = f.op(Op::add, {accum, bias}, "accum + bias");
  f.output("D", f.op(Op::relu, {sum}, "relu(accum + bias)", "D"));
  return f.epilogue();
}

// D = op(accum, C) with an attribute, for one rule at a time.
Result<Graph> bind_op(Op op, const std::vector<BoundArgument>& arguments, const GemmFacts& facts, Attr attr = {},
                      bool unary = false) {
  FunctionMaker f("def f(accum, C):\n    x = op(accum, C)\n    D = select(x, C)\n    return D\n");
  const ValueId accum = f.parameter("accum"), c = f.parameter("C");
  const ValueId x = unary ? f.op(op, {accum}, "op(accum, C)", "x", std::move(attr))
                          : f.op(op, {accum, c}, "op(accum, C)", "x", std::move(attr));
  f.output("D", f.op(Op::where, {f.op(Op::eq, {x, x}, "x"), x, c}, "select(x, C)", "D"));
  return bind_epilogue(f.epilogue(), arguments, facts);
}
std::vector<BoundArgument> with_c(DType dtype, Dims shape) {
  return {tensor("C", dtype, shape), tensor("D", f32, {256, 128})};
}

TEST(BindErrors, ColumnsDoNotFit) {
  const Result<Graph> graph =
      bind_epilogue(bias_relu(), {tensor("bias", f32, {64}), tensor("D", f32, {256, 128})}, gemm(256, 128, 32));
  EXPECT_EQ(text_of(graph),
            "error[E0207]: bias has 64 columns but the accumulator has 128\n"
            "  --> f.py:3:22\n"
            "3 |     D = relu(accum + bias)\n"
            "  |                      ^^^^ f32[64]\n"
            "note: [64] does not broadcast to the accumulator's [256, 128]: from the right, sizes must be equal or 1\n"
            "help: bind a bias of 128 elements, or split `accum` in 2\n");
}

TEST(BindErrors, VectorOfLengthM) {
  const Result<Graph> graph =
      bind_epilogue(bias_relu(), {tensor("bias", f32, {256}), tensor("D", f32, {256, 128})}, gemm(256, 128, 32));
  EXPECT_EQ(headline_of(graph), "bias has 256 columns but the accumulator has 128");
  EXPECT_EQ(graph.error().diagnostics()[0].help,
            "a vector is a row of 128 elements; for one value per row bind it as shape (M, 1), here (256, 1)");
}

TEST(BindErrors, RowsBatchesAndDims) {
  const auto headline = [](Dims shape, bool batched) {
    GemmFacts facts = gemm(256, 128, 32);
    facts.batched = batched;
    facts.batch = batched ? 4 : 1;
    return headline_of(bind_epilogue(
        bias_relu(), {tensor("bias", f32, shape), tensor("D", f32, batched ? Dims{4, 256, 128} : Dims{256, 128})},
        facts));
  };
  EXPECT_EQ(headline({2, 128}, false), "bias has 2 rows but the accumulator has 256");
  EXPECT_EQ(headline({4, 256, 128}, false), "bias has 3 dims but the accumulator has 2");
  EXPECT_EQ(headline({3, 1, 1}, true), "bias has 3 batch items but the accumulator has 4");
  EXPECT_EQ(headline({-1, 1}, false), "bias has the size -1 in dim 0");
  EXPECT_EQ(headline({1, 1, 1, 1, 1, 1, 1, 1, 1}, false), "bias has more than 8 dims");
}

// An operand without a name is underlined where it is written, also where an equal one stands before.
TEST(BindErrors, UnderlineTheOperand) {
  const auto line = [](const std::string& probability, const std::string& seed, double p, double s) {
    const std::string call = "dropout(accum, " + probability + ", seed=" + seed + ")";
    FunctionMaker f("def f(accum):\n    D = " + call + "\n    return D\n");
    const ValueId accum = f.parameter("accum");
    const ValueId chance = f.real(p, probability);
    const ValueId key =
        s == 3 ? f.integer(3, "3") : f.op(Op::literal, {}, seed + ")", {}, LiteralAttr{LiteralAttr::Kind::Float, 0, s});
    f.output("D", f.op(Op::dropout, {accum, chance, key}, call, "D"));
    const std::string text = text_of(bind_epilogue(f.epilogue(), {tensor("D", f32, {256, 128})}, gemm(256, 128, 32)));
    const size_t at = text.find("\n  | ") + 1;
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(line("2.0", "3", 2, 3), "  |                        ^^^ weak f64[]");
  EXPECT_EQ(line("0.5", "0.5", 0.5, 0.5), "  |                                  ^^^^ weak f64[]");
}

TEST(BindErrors, TellOfTwentyMissingOperands) {
  std::string text = "def f(accum";
  for (int i = 0; i < 100; ++i) text += ", x" + std::to_string(i);
  FunctionMaker f(text + "):\n    return D\n");
  std::vector<ValueId> all{f.parameter("accum")};
  for (int i = 0; i < 100; ++i) all.push_back(f.parameter("x" + std::to_string(i)));
  f.output("D", all[1]);
  const Result<Graph> graph = bind_epilogue(f.epilogue(), {}, gemm(256, 128, 32));
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().diagnostics().size(), 20u);
}

TEST(BindErrors, MissingArguments) {
  EXPECT_EQ(text_of(bind_epilogue(bias_relu(), {tensor("bias", f32, {128})}, gemm(256, 128, 32))),
            "error[E0208]: Argument D is not provided in the kwargs of the EpilogueArguments constructor\n"
            "  --> f.py:4:12\n"
            "4 |     return D\n"
            "  |            ^\n"
            "note: D is an output of the epilogue; provided: bias\n"
            "help: bind D to the tensor that receives it\n");
  const Result<Graph> both = bind_epilogue(
      bias_relu(), {tensor("bais", f32, {128}), tensor("D", f32, {256, 128}), scalar("q", f32)}, gemm(256, 128, 32));
  ASSERT_FALSE(both);
  const std::vector<Diagnostic>& all = both.error().diagnostics();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].headline, "Argument bias is not provided in the kwargs of the EpilogueArguments constructor");
  EXPECT_EQ(all[0].help, "did you mean bias where bais is provided?");
  EXPECT_EQ(all[0].where.line, 2u);
  EXPECT_EQ(all[1].code, 209);
  EXPECT_EQ(all[1].headline, "Unexpected keyword arguments for epilogue: bais, q");
  EXPECT_EQ(all[1].reason, "operands and outputs of the epilogue are: bias, D");
}

TEST(BindErrors, UnexpectedArguments) {
  const std::vector<BoundArgument> good = {tensor("bias", f32, {128}), tensor("D", f32, {256, 128})};
  std::vector<BoundArgument> more = good;
  more.push_back(scalar("x", f32));
  more.push_back(tensor("y", f32, {1}));
  EXPECT_EQ(headline_of(bind_epilogue(bias_relu(), more, gemm(256, 128, 32))),
            "Unexpected keyword arguments for epilogue: x, y");
  more = good;
  more.push_back(tensor("accum", f32, {256, 128}));  // only where it is returned
  EXPECT_EQ(headline_of(bind_epilogue(bias_relu(), more, gemm(256, 128, 32))),
            "Unexpected keyword arguments for epilogue: accum");
  more = good;
  more.push_back(good[0]);
  EXPECT_EQ(headline_of(bind_epilogue(bias_relu(), more, gemm(256, 128, 32))), "argument bias is provided twice");
  more = good;
  more.push_back(scalar("a\n\x1b" + std::string(1 << 20, 'x'), f32));
  EXPECT_EQ(headline_of(bind_epilogue(bias_relu(), more, gemm(256, 128, 32))),
            "Unexpected keyword arguments for epilogue: a\\n\\x1b" + std::string(61, 'x'));
}

TEST(BindErrors, OutWithoutD) {
  FunctionMaker f("def f(accum):\n    F = relu(accum)\n    return F\n");
  f.output("F", f.op(Op::relu, {f.parameter("accum")}, "relu(accum)", "F"));
  GemmFacts facts = gemm(2, 2, 2);
  facts.has_out = true;
  facts.out_shape = {2, 2};
  const Result<Graph> graph = bind_epilogue(f.epilogue(), {tensor("F", f32, {2, 2})}, facts);
  EXPECT_EQ(headline_of(graph),
            "D is expected to be a output node with 0 users to enable smem reuse between C and D, but got []");
  EXPECT_EQ(graph.error().code(), 211);
  EXPECT_EQ(graph.error().diagnostics()[0].reason,
            "`out` of the GEMM is the view of output D, and the epilogue returns F");
  facts.has_out = false;
  EXPECT_TRUE(bind_epilogue(f.epilogue(), {tensor("F", f32, {2, 2})}, facts));
}

TEST(BindErrors, OutputsAreTensorsOfTheValuesShape) {
  const std::vector<BoundArgument> bias = {tensor("bias", f32, {128})};
  const auto with = [&](BoundArgument d) {
    std::vector<BoundArgument> all = bias;
    all.push_back(std::move(d));
    return bind_epilogue(bias_relu(), all, gemm(256, 128, 32));
  };
  EXPECT_EQ(text_of(with(tensor("D", f32, {128, 256}))),
            "error[E0212]: D is bound as [128, 256] but its value has shape [256, 128]\n"
            "  --> f.py:4:12\n"
            "4 |     return D\n"
            "  |            ^ f32[128, 256]\n"
            "note: every size must be equal\n"
            "help: bind D to a tensor of shape [256, 128]\n");
  EXPECT_EQ(headline_of(with(scalar("D", f32))), "output D is bound to a scalar");
  EXPECT_TRUE(with(tensor("D", f8e4m3, {256, 128})));
}

TEST(BindErrors, UnusedOperandsAndConstantOutputs) {
  FunctionMaker unused("def f(accum, C, E):\n    t = C + E\n    D = relu(accum)\n    return D\n");
  const ValueId accum = unused.parameter("accum"), c = unused.parameter("C"), e = unused.parameter("E");
  unused.op(Op::add, {c, e}, "C + E", "t");
  unused.output("D", unused.op(Op::relu, {accum}, "relu(accum)", "D"));
  EXPECT_EQ(
      headline_of(bind_epilogue(
          unused.epilogue(), {tensor("C", f32, {2}), tensor("E", f32, {2}), tensor("D", f32, {2, 2})}, gemm(2, 2, 2))),
      "operand 'C' is not used");
  FunctionMaker constant("def f(accum):\n    D = relu(accum)\n    F = sqrt(2.0)\n    return D, F\n");
  const ValueId a = constant.parameter("accum");
  constant.output("D", constant.op(Op::relu, {a}, "relu(accum)", "D"));
  constant.output("F", constant.op(Op::sqrt, {constant.real(2.0, "2.0")}, "sqrt(2.0)", "F"));
  EXPECT_EQ(
      headline_of(bind_epilogue(constant.epilogue(), {tensor("F", f32, {}), tensor("D", f32, {2, 2})}, gemm(2, 2, 2))),
      "output 'F' is a constant");
}

TEST(BindErrors, DtypeRules) {
  EXPECT_EQ(text_of(bind_op(Op::logical_and, with_c(boolean, {128}), gemm(256, 128, 32))),
            "error[E0214]: `&` takes booleans but the accumulator is f32\n"
            "  --> f.py:2:12\n"
            "2 |     x = op(accum, C)\n"
            "  |            ^^^^^ f32[m, n]\n"
            "note: the accumulator has dtype f32\n"
            "help: compare first, as in `x > 0`, or cast to bool\n");
  // Not Python's power, nor C++'s.
  const auto power = bind_op(Op::logical_xor, with_c(f32, {128}), gemm(256, 128, 32));
  ASSERT_FALSE(power);
  EXPECT_EQ(power.error().diagnostics()[0].help,
            "write x ** y (pow in C++) for a power; `^` is the exclusive or of comparisons");
  EXPECT_EQ(headline_of(bind_op(Op::logical_not, with_c(f32, {128}), gemm(256, 128, 32), {}, true)),
            "`~` takes booleans but the accumulator is f32");
  EXPECT_EQ(headline_of(bind_op(Op::pow, with_c(i32, {128}), gemm(256, 128, 32, i8))),
            "the exponent C of an integer power is not a literal");
  EXPECT_TRUE(bind_op(Op::pow, with_c(i32, {128}), gemm(256, 128, 32)));  // f32 ** i32 is f32
}

TEST(BindErrors, ReductionsOfWhatIsNotThere) {
  EXPECT_EQ(headline_of(bind_op(Op::reduce_sum, with_c(f32, {128}), gemm(256, 128, 32),
                                ReduceAttr{ReduceAxis::Dims, {2}}, true)),
            "reduction along dim 2, but the accumulator has 2 dims");
  EXPECT_EQ(headline_of(bind_op(Op::reduce_sum, with_c(f32, {128}), gemm(256, 128, 32),
                                ReduceAttr{ReduceAxis::Dims, {1, -1}}, true)),
            "reduction names dim 1 twice");
  FunctionMaker f("def f(accum, C):\n    D = accum + max(C)\n    return D\n");
  const ValueId accum = f.parameter("accum"), c = f.parameter("C");
  const ValueId top = f.op(Op::reduce_max, {c}, "max(C)", "", ReduceAttr{ReduceAxis::Column, {}});
  f.output("D", f.op(Op::add, {accum, top}, "accum + max(C)", "D"));
  const auto bound = [&](BoundArgument c_argument) {
    return bind_epilogue(f.epilogue(), {std::move(c_argument), tensor("D", f32, {4, 6})}, gemm(4, 6, 2));
  };
  EXPECT_EQ(headline_of(bound(tensor("C", f32, {6}))), "column reduction of C, which has no rows");
  EXPECT_EQ(headline_of(bound(scalar("C", f32))), "C is a scalar and cannot be reduced");
  EXPECT_TRUE(bound(tensor("C", f32, {1, 6})));
}

TEST(BindErrors, Accumulators) {
  const auto bound = [](DType a, DType b, DType accumulator) {
    GemmFacts facts = gemm(256, 128, 32);
    facts.a = a;
    facts.b = b;
    facts.accumulator = accumulator;
    return headline_of(bind_epilogue(bias_relu(), {tensor("bias", f32, {128}), tensor("D", f32, {256, 128})}, facts));
  };
  EXPECT_EQ(bound(f64, f32, f32), "a product of f64 and f32 cannot accumulate in f32");
  EXPECT_EQ(bound(i8, u8, f32), "a product of i8 and u8 cannot accumulate in f32");
  EXPECT_EQ(bound(i16, i8, i32), "a product of i16 and i8 cannot accumulate in i32");
  EXPECT_EQ(bound(boolean, f32, f32), "bool and f32 cannot be multiplied");
  EXPECT_EQ(bound(bf16, i8, f32), "bf16 and i8 cannot be multiplied");
  EXPECT_NE(bound(bf16, f16, f64).find("no error"), std::string::npos);
  EXPECT_NE(bound(u8, i8, i64).find("no error"), std::string::npos);
}

TEST(BindErrors, DropoutTakesNumbers) {
  FunctionMaker f("def f(accum, p, seed):\n    D = dropout(accum, p, seed)\n    return D\n");
  const ValueId accum = f.parameter("accum"), p = f.parameter("p"), seed = f.parameter("seed");
  f.output("D", f.op(Op::dropout, {accum, p, seed}, "dropout(accum, p, seed)", "D"));
  const auto bound = [&](BoundArgument p_argument, BoundArgument seed_argument) {
    return headline_of(bind_epilogue(
        f.epilogue(), {std::move(p_argument), std::move(seed_argument), tensor("D", f32, {2, 3})}, gemm(2, 3, 4)));
  };
  EXPECT_EQ(bound(tensor("p", f32, {3}), scalar("seed", i64)), "dropout takes one probability, but p is a tensor");
  EXPECT_EQ(bound(scalar("p", f32), scalar("seed", f32)), "dropout's seed is f32, not an integer");
  EXPECT_NE(bound(scalar("p", f64), tensor("seed", i64, {1})).find("%5:f32[m, n] = dropout %4, %2, %3"),
            std::string::npos);
}

TEST(BindErrors, DropoutTakesAProbability) {
  const auto bound = [](double p, const std::string& text) {
    FunctionMaker f("def f(accum):\n    D = dropout(accum, " + text + ", 7)\n    return D\n");
    const ValueId accum = f.parameter("accum");
    f.output("D",
             f.op(Op::dropout, {accum, f.real(p, text), f.integer(7, "7")}, "dropout(accum, " + text + ", 7)", "D"));
    return headline_of(bind_epilogue(f.epilogue(), {tensor("D", f32, {2, 3})}, gemm(2, 3, 4)));
  };
  EXPECT_EQ(bound(1.5, "1.5"), "dropout's probability is 1.5");
  EXPECT_EQ(bound(-0.5, "-0.5"), "dropout's probability is -0.5");
  EXPECT_NE(bound(0.0, "0.0").find("no error"), std::string::npos);
  EXPECT_NE(bound(1.0, "1.0").find("no error"), std::string::npos);
}

}  // namespace
}  // namespace codetta::ir::test
