// SPDX-License-Identifier: Apache-2.0
// Texts and what they become; print and parse are inverse.
#include "frontend/lower.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace {

using namespace codetta;
using ir::LiteralAttr;
using types::Op;

diag::SourceRef source_of(std::string text) { return std::make_shared<const diag::SourceText>("t", std::move(text)); }

ir::EpilogueFunction epilogue(const std::string& text, std::string_view name = {}) {
  auto function = frontend::parse_epilogue(source_of(text), name);
  if (!function) {
    ADD_FAILURE() << text << "\n" << function.error().render();
    return {};
  }
  const std::string printed = ir::print(*function);
  const auto again = frontend::parse_epilogue(source_of(printed));
  EXPECT_TRUE(again) << printed << "\n" << (again ? std::string() : again.error().render());
  if (again) {
    EXPECT_TRUE(ir::equivalent(*function, *again)) << printed << "\n" << ir::print(*again);
    EXPECT_EQ(ir::print(*again), printed);
  }
  return std::move(*function);
}

// The one-line form of D = <expression> with parameters accum, C, s.
ir::EpilogueFunction expression(const std::string& text) {
  return epilogue("def f(accum, C, s):\n    D = " + text + "\n    E = accum + C + s\n    return D, E\n");
}

const ir::Value& result(const ir::Function& function, size_t output = 0) {
  return function[function.outputs[output].value];
}
const LiteralAttr& literal(const ir::Function& function, ir::ValueId id) {
  return std::get<LiteralAttr>(function[id].attr);
}

bool same(const std::string& a, const std::string& b) { return ir::equivalent(expression(a), expression(b)); }

TEST(Lower, ReluAuxStore) {
  const auto f = epilogue(
      "def relu_aux_store(accum, alpha, C):\n"
      "    F = (accum * alpha) + (C * 2.0)\n"
      "    D = relu(F)\n"
      "    return D, F\n");
  EXPECT_EQ(f.name, "relu_aux_store");
  ASSERT_EQ(f.parameters.size(), 3u);
  EXPECT_TRUE(f.is_epilogue());
  ASSERT_EQ(f.outputs.size(), 2u);
  EXPECT_EQ(f.outputs[0].name, "D");
  EXPECT_EQ(result(f).op, Op::relu);
  EXPECT_EQ(result(f).operands[0], f.outputs[1].value);
  EXPECT_EQ(result(f, 1).op, Op::add);
  EXPECT_EQ(result(f, 1).name, "F");
  EXPECT_EQ(f.source->text().substr(result(f, 1).span.begin, 27), "(accum * alpha) + (C * 2.0)");
}

TEST(Lower, OneLineIsTheSame) {
  const auto a = epilogue("def f(accum, aux):\n    D = accum / aux\n    return D\n");
  const auto b = epilogue("def f(accum, aux): D = accum / aux; return D");
  const auto c = epilogue(
      "\n\n      def f(accum: f32, aux: 'any') -> None:\n\n        '''Doc''';  D = ( # c\n accum /\n aux)\n        "
      "return (D,)");
  EXPECT_TRUE(ir::equivalent(a, b));
  EXPECT_TRUE(ir::equivalent(a, c));
}

TEST(Lower, LiteralsKeepTheirKind) {
  const auto f = expression("where(True, accum * 2, accum * 2.0)");
  std::vector<LiteralAttr::Kind> kinds;
  for (const ir::Value& value : f.values) {
    if (const auto* attr = std::get_if<LiteralAttr>(&value.attr)) kinds.push_back(attr->kind);
  }
  EXPECT_EQ(kinds, (std::vector{LiteralAttr::Kind::Bool, LiteralAttr::Kind::Int, LiteralAttr::Kind::Float}));
  EXPECT_FALSE(same("accum * 2", "accum * 2.0"));
  EXPECT_FALSE(same("accum + 0.0", "accum + -0.0"));
}

TEST(Lower, MinusFoldsIntoLiterals) {
  const auto f = expression("accum * -2");
  EXPECT_EQ(literal(f, result(f).operands[1]).i, -2);
  EXPECT_TRUE(same("accum * --2.5", "accum * 2.5"));
  EXPECT_TRUE(same("accum * (-(2.5))", "accum * -2.5"));
  const auto least = expression("accum + -9223372036854775808");
  EXPECT_EQ(literal(least, result(least).operands[1]).i, std::numeric_limits<int64_t>::min());
  const auto power = expression("accum + -2 ** 2");  // -(2 ** 2)
  EXPECT_EQ(power[result(power).operands[1]].op, Op::neg);
  EXPECT_TRUE(same("(-2.0) ** accum", "pow(-2.0, accum)"));
  EXPECT_FALSE(same("(-2.0) ** accum", "-2.0 ** accum"));
  EXPECT_TRUE(same("+accum", "accum"));
}

// From 2^63 on, what is written and what arithmetic of literals gives; what that gives further is of the number.
TEST(Lower, IntegersBeyondI64AreUnsigned) {
  EXPECT_TRUE(same("accum + 18446744073709551615", "accum + cast(-1, u64)"));
  EXPECT_TRUE(same("accum + 0xffffffffffffffff", "accum + cast(-1, u64)"));
  EXPECT_TRUE(same("accum + 9223372036854775808", "accum + cast(-9223372036854775808, u64)"));
  EXPECT_TRUE(same("accum + (2**64 - 1)", "accum + cast(-1, u64)"));
  EXPECT_TRUE(same("accum + abs(-2**63)", "accum + cast(-9223372036854775808, u64)"));
  EXPECT_TRUE(same("accum + (18446744073709551615 - 2**63)", "accum + 9223372036854775807"));
  EXPECT_TRUE(same("accum + (18446744073709551615 + 1) // 2**32", "accum + 4294967296"));
  EXPECT_TRUE(same("where(18446744073709551615 > 2**63, accum, 0.0)", "where(True, accum, 0.0)"));
}

TEST(Lower, InfinityAndNaN) {
  const auto f = expression("where(accum > 0, accum, -inf) + nan");
  EXPECT_TRUE(std::isnan(literal(f, result(f).operands[1]).f));
  const auto& where = f[result(f).operands[0]];
  EXPECT_EQ(literal(f, where.operands[2]).f, -std::numeric_limits<double>::infinity());
}

TEST(Lower, DefaultsAndKeywords) {
  EXPECT_TRUE(same("softplus(accum)", "softplus(accum, 1.0, threshold=20.0)"));
  EXPECT_TRUE(same("softplus(threshold=s, x=accum)", "softplus(accum, 1.0, s)"));
  EXPECT_TRUE(same("leaky_relu(accum)", "leaky_relu(accum, 0.01)"));
  EXPECT_TRUE(same("gelu(accum)", "gelu(accum, approximate='none')"));
  EXPECT_FALSE(same("gelu(accum)", "gelu(accum, 'tanh')"));
  EXPECT_EQ(result(expression("dgelu(accum, approximate='tanh')")).op, Op::dgelu_tanh);
  EXPECT_TRUE(same("relu6(accum)", "clamp(accum, 0, 6)"));
  EXPECT_TRUE(same("hardtanh(accum)", "clamp(accum, -1.0, 1.0)"));
  EXPECT_TRUE(same("hardtanh(accum, max_val=C)", "clamp(accum, -1.0, C)"));
  EXPECT_TRUE(same("clamp(accum, min=0.0)", "maximum(accum, 0.0)"));
  EXPECT_TRUE(same("clamp(accum, None, s)", "minimum(accum, s)"));
  EXPECT_TRUE(same("identity(accum) + C", "accum + C"));
  EXPECT_TRUE(same("pow(accum, 2)", "accum ** 2"));
  EXPECT_TRUE(same("cast(accum, bf16)", "cast(dtype='bf16', x=accum)"));
}

// Found by the fuzzer: what the parser reported must not reach the matching of arguments.
TEST(Lower, PositionalArgumentsBehindKeywordsAreReportedOnce) {
  for (const char* call : {"gelu(accum, approximate='tanh', -1)", "clamp(x=accum, 1, 2, 3)", "g(y=accum, accum)",
                           "join(accum, dim=0, accum, accum)", "relu(x=accum, accum, accum)"}) {
    const auto f = frontend::parse_epilogue(
        source_of("def g(x, y): return x + y\ndef f(accum): D = " + std::string(call) + "; return D"));
    ASSERT_FALSE(f) << call;
    for (const auto& each : f.error().diagnostics()) EXPECT_EQ(each.code, 112) << call << "\n" << f.error().render();
  }
}

TEST(Lower, Reductions) {
  const auto attr = [](const std::string& text) { return std::get<ir::ReduceAttr>(result(expression(text)).attr); };
  EXPECT_EQ(attr("sum(accum)").axis, ir::ReduceAxis::All);
  EXPECT_EQ(attr("sum(accum, axis='row')").axis, ir::ReduceAxis::Row);
  EXPECT_EQ(attr("amax(accum, axis='column')").axis, ir::ReduceAxis::Column);
  EXPECT_EQ(attr("mean(accum, axis='all')").axis, ir::ReduceAxis::All);
  EXPECT_EQ(attr("max(accum, dim=None)").axis, ir::ReduceAxis::All);
  EXPECT_EQ(attr("max(accum, dim=-1)").dims, (std::vector<int32_t>{-1}));
  EXPECT_EQ(attr("min(accum, dim=(2, 0))").dims, (std::vector<int32_t>{0, 2}));
  EXPECT_TRUE(same("accum - logsumexp(accum, dim=[-1])", "accum - logsumexp(accum, dim=-1)"));
}

TEST(Lower, Layout) {
  const auto f = expression("permute(reshape(accum, (-1, 4, 'n')), indices=(1, 0, -1))");
  EXPECT_EQ(std::get<ir::PermuteAttr>(result(f).attr).order, (std::vector<int32_t>{1, 0, 2}));
  const auto& reshaped = std::get<ir::ReshapeAttr>(f[result(f).operands[0]].attr);
  ASSERT_EQ(reshaped.shape.size(), 3u);
  EXPECT_EQ(reshaped.shape[0].as_constant(), -1);
  EXPECT_EQ(reshaped.shape[2].as_symbol(), "n");
  EXPECT_EQ(std::get<ir::JoinAttr>(result(expression("join(accum, C, dim=0, interleave=True)")).attr),
            (ir::JoinAttr{0, true}));
  EXPECT_EQ(result(expression("join(accum, C, accum)")).operands.size(), 3u);
}

TEST(Lower, SplitNeedsTuples) {
  const auto f =
      epilogue("def swiglu(accum):\n    gate, up = split(accum, 2, dim=-1)\n    D = silu(gate) * up\n    return D\n");
  const auto& up = f[result(f).operands[1]];
  EXPECT_EQ(std::get<ir::SplitAttr>(up.attr), (ir::SplitAttr{2, 1, -1}));
  EXPECT_EQ(up.name, "up");
  const auto g = epilogue("def f(accum):\n    _, D, _ = split(accum, 3)\n    return D\n");
  EXPECT_EQ(g.values.size(), 2u);  // unused parts are dropped
}

TEST(Lower, InlinesFunctions) {
  const auto a = epilogue(
      "def swish(x, beta):\n    y = x * beta\n    return x * sigmoid(y)\n"
      "def pair(x):\n    hi = x + 1.0\n    lo = x - 1.0\n    return hi, lo\n"
      "def f(accum, C):\n    hi, lo = pair(swish(beta=C, x=accum))\n    D = hi * lo\n    return D\n");
  const auto b =
      epilogue("def f(accum, C):\n    x = accum * sigmoid(accum * C)\n    D = (x + 1.0) * (x - 1.0)\n    return D\n");
  EXPECT_TRUE(ir::equivalent(a, b));
}

TEST(Lower, WhatOnlyProgramsMayCallIsAFreeNameInEpilogues) {
  const auto a = epilogue(
      "def take(x):\n    return x + 1.0\n"
      "def f(accum, full):\n    ones = take(accum)\n    D = ones * full\n    return D\n");
  const auto b = epilogue("def f(accum, full):\n    D = (accum + 1.0) * full\n    return D\n");
  EXPECT_TRUE(ir::equivalent(a, b));
  const auto program =
      frontend::parse_program(source_of("def f(full: f32[4, 4]):\n    y = full @ full\n    return y\n"));
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code(), 132);
}

TEST(Lower, TheEntryIsTheLastOrNamed) {
  const std::string text = "def a(accum): D = relu(accum); return D\ndef b(accum): D = tanh(accum); return D\n";
  EXPECT_EQ(result(epilogue(text)).op, Op::tanh);
  EXPECT_EQ(result(epilogue(text, "a")).op, Op::relu);
  EXPECT_FALSE(frontend::parse_epilogue(source_of(text), "c"));
}

TEST(Lower, OutputsMayBeAliasesAndAccum) {
  const auto f = epilogue("def f(accum):\n    F = relu(accum)\n    D = F\n    G = accum\n    return D, F, accum, G\n");
  EXPECT_EQ(f.outputs[0].value, f.outputs[1].value);
  EXPECT_EQ(f.outputs[2].value, f.outputs[3].value);
  EXPECT_EQ(f.outputs[2].name, "accum");
  const auto g = epilogue("def f(accum): D = accum; return D");
  EXPECT_EQ(g.outputs[0].value.index(), 0u);
}

TEST(Lower, SharedValuesStayShared) {
  const auto f = expression("accum * accum");
  EXPECT_EQ(result(f).operands[0], result(f).operands[1]);
}

TEST(Lower, LongChains) {
  std::string text = "def f(accum):\n    D = accum";
  for (int i = 0; i < 100000; ++i) text += " + accum";
  const auto f = frontend::parse_epilogue(source_of(text + "\n    return D\n"));
  ASSERT_TRUE(f);
  EXPECT_EQ(f->values.size(), 100001u);
  const std::string printed = ir::print(*f);
  const auto again = frontend::parse_epilogue(source_of(printed));
  ASSERT_TRUE(again);
  EXPECT_TRUE(ir::equivalent(*f, *again));
}

TEST(Lower, Programs) {
  const std::string text =
      "def mlp(x: bf16[\"batch\", 4096], w: bf16[4096, 'n'], v: f32['2 * n', 8], alpha: f32):\n"
      "    h = relu(x @ w * alpha)\n"
      "    D = matmul(join(h, h), v)\n"
      "    T = transpose(D)\n"
      "    return D, T\n";
  const auto f = frontend::parse_program(source_of(text));
  ASSERT_TRUE(f) << f.error().render();
  ASSERT_EQ(f->parameters.size(), 4u);
  EXPECT_EQ(f->parameters[0].type->dtype, DType::bf16);
  EXPECT_EQ(f->parameters[0].type->shape[0].as_symbol(), "batch");
  EXPECT_EQ(f->parameters[0].type->shape[1].as_constant(), 4096);
  EXPECT_EQ(types::to_string(f->parameters[2].type->shape[0]), "2*n");
  EXPECT_TRUE(f->parameters[3].type->shape.empty());
  EXPECT_EQ(std::get<ir::PermuteAttr>(result(*f, 1).attr).order, (std::vector<int32_t>{1, 0}));
  const std::string printed = ir::print(*f);
  const auto again = frontend::parse_program(source_of(printed));
  ASSERT_TRUE(again) << printed << again.error().render();
  EXPECT_TRUE(ir::equivalent(*f, *again)) << printed;
}

TEST(Lower, BatchedTranspose) {
  const auto f = frontend::parse_program(
      source_of("def f(x: f32[2, 3, 4], w: f32[5, 4]): D = x @ transpose(w); E = transpose(D); return E"));
  ASSERT_TRUE(f) << f.error().render();
  EXPECT_EQ(std::get<ir::PermuteAttr>(result(*f).attr).order, (std::vector<int32_t>{0, 2, 1}));
}

}  // namespace
