// SPDX-License-Identifier: Apache-2.0
// The C++ tracer gives what the text gives, for every function of the language.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "codetta/epilogue.hpp"
#include "frontend/functions.hpp"
#include "ir/function.hpp"

namespace {

using namespace codetta;

using Body = std::function<Expr(const Expr& x, const Expr& y, const Expr& z)>;
struct Pair {
  const char* text;
  Body body;
};

// Every function and operator: `text` over x, y, z and the same in C++.
const Pair pairs[] = {
    {"x + y", [](auto& x, auto& y, auto&) { return x + y; }},
    {"x - y", [](auto& x, auto& y, auto&) { return x - y; }},
    {"x * y", [](auto& x, auto& y, auto&) { return x * y; }},
    {"x / y", [](auto& x, auto& y, auto&) { return x / y; }},
    {"x // y", [](auto& x, auto& y, auto&) { return floordiv(x, y); }},
    {"x % y", [](auto& x, auto& y, auto&) { return x % y; }},
    {"x ** y", [](auto& x, auto& y, auto&) { return pow(x, y); }},
    {"-x", [](auto& x, auto&, auto&) { return -x; }},
    {"+x * 2", [](auto& x, auto&, auto&) { return +x * 2; }},
    {"x * -2.5", [](auto& x, auto&, auto&) { return x * -2.5; }},
    {"x * -2.5", [](auto& x, auto&, auto&) { return x * -Expr(2.5); }},
    {"2 - x", [](auto& x, auto&, auto&) { return 2 - x; }},
    {"x == y", [](auto& x, auto& y, auto&) { return x == y; }},
    {"x != y", [](auto& x, auto& y, auto&) { return x != y; }},
    {"x < y", [](auto& x, auto& y, auto&) { return x < y; }},
    {"x <= y", [](auto& x, auto& y, auto&) { return x <= y; }},
    {"x > y", [](auto& x, auto& y, auto&) { return x > y; }},
    {"x >= y", [](auto& x, auto& y, auto&) { return x >= y; }},
    {"(x > 0) & (y > 0.0)", [](auto& x, auto& y, auto&) { return (x > 0) & (y > 0.0); }},
    {"(x > 0) | True", [](auto& x, auto&, auto&) { return (x > 0) | true; }},
    {"(x > 0) ^ (y > 0)", [](auto& x, auto& y, auto&) { return (x > 0) ^ (y > 0); }},
    {"~(x > 0)", [](auto& x, auto&, auto&) { return ~(x > 0); }},
    {"x + row_index()", [](auto& x, auto&, auto&) { return x + row_index(); }},
    {"x + col_index()", [](auto& x, auto&, auto&) { return x + col_index(); }},
    {"x + batch_index()", [](auto& x, auto&, auto&) { return x + batch_index(); }},
    {"identity(x) + 1", [](auto& x, auto&, auto&) { return identity(x) + 1; }},
    {"multiply_add(x, y, z)", [](auto& x, auto& y, auto& z) { return multiply_add(x, y, z); }},
    {"pow(x, 3)", [](auto& x, auto&, auto&) { return pow(x, 3); }},
    {"reciprocal(x)", [](auto& x, auto&, auto&) { return reciprocal(x); }},
    {"sqrt(x)", [](auto& x, auto&, auto&) { return sqrt(x); }},
    {"rsqrt(x)", [](auto& x, auto&, auto&) { return rsqrt(x); }},
    {"abs(x)", [](auto& x, auto&, auto&) { return abs(x); }},
    {"sign(x)", [](auto& x, auto&, auto&) { return sign(x); }},
    {"floor(x)", [](auto& x, auto&, auto&) { return floor(x); }},
    {"ceil(x)", [](auto& x, auto&, auto&) { return ceil(x); }},
    {"round(x)", [](auto& x, auto&, auto&) { return round(x); }},
    {"trunc(x)", [](auto& x, auto&, auto&) { return trunc(x); }},
    {"where(x > 0, y, z)", [](auto& x, auto& y, auto& z) { return where(x > 0, y, z); }},
    {"minimum(x, y)", [](auto& x, auto& y, auto&) { return minimum(x, y); }},
    {"maximum(x, 0.0)", [](auto& x, auto&, auto&) { return maximum(x, 0.0); }},
    {"clamp(x, 0.0, y)", [](auto& x, auto& y, auto&) { return clamp(x, 0.0, y); }},
    {"clamp(x, min=0)", [](auto& x, auto&, auto&) { return clamp(x, 0, no_bound); }},
    {"clamp(x, max=y)", [](auto& x, auto& y, auto&) { return clamp(x, no_bound, y); }},
    {"hardtanh(x)", [](auto& x, auto&, auto&) { return hardtanh(x); }},
    {"hardtanh(x, -2.0, y)", [](auto& x, auto& y, auto&) { return hardtanh(x, -2.0, y); }},
    {"relu6(x)", [](auto& x, auto&, auto&) { return relu6(x); }},
    {"exp(x)", [](auto& x, auto&, auto&) { return exp(x); }},
    {"exp2(x)", [](auto& x, auto&, auto&) { return exp2(x); }},
    {"expm1(x)", [](auto& x, auto&, auto&) { return expm1(x); }},
    {"log(x)", [](auto& x, auto&, auto&) { return log(x); }},
    {"log2(x)", [](auto& x, auto&, auto&) { return log2(x); }},
    {"log1p(x)", [](auto& x, auto&, auto&) { return log1p(x); }},
    {"sin(x)", [](auto& x, auto&, auto&) { return sin(x); }},
    {"cos(x)", [](auto& x, auto&, auto&) { return cos(x); }},
    {"tanh(x)", [](auto& x, auto&, auto&) { return tanh(x); }},
    {"erf(x)", [](auto& x, auto&, auto&) { return erf(x); }},
    {"relu(x)", [](auto& x, auto&, auto&) { return relu(x); }},
    {"sigmoid(x)", [](auto& x, auto&, auto&) { return sigmoid(x); }},
    {"silu(x)", [](auto& x, auto&, auto&) { return silu(x); }},
    {"gelu(x)", [](auto& x, auto&, auto&) { return gelu(x); }},
    {"gelu(x, approximate='tanh')", [](auto& x, auto&, auto&) { return gelu(x, "tanh"); }},
    {"softplus(x)", [](auto& x, auto&, auto&) { return softplus(x); }},
    {"softplus(x, 2.0, y)", [](auto& x, auto& y, auto&) { return softplus(x, 2.0, y); }},
    {"elu(x)", [](auto& x, auto&, auto&) { return elu(x); }},
    {"elu(x, alpha=y)", [](auto& x, auto& y, auto&) { return elu(x, y); }},
    {"leaky_relu(x, negative_slope=0.2)", [](auto& x, auto&, auto&) { return leaky_relu(x, 0.2); }},
    {"leaky_relu(x)", [](auto& x, auto&, auto&) { return leaky_relu(x); }},
    {"hardswish(x)", [](auto& x, auto&, auto&) { return hardswish(x); }},
    {"hardsigmoid(x)", [](auto& x, auto&, auto&) { return hardsigmoid(x); }},
    {"mish(x)", [](auto& x, auto&, auto&) { return mish(x); }},
    {"drelu(x)", [](auto& x, auto&, auto&) { return drelu(x); }},
    {"dsigmoid(x)", [](auto& x, auto&, auto&) { return dsigmoid(x); }},
    {"dtanh(x)", [](auto& x, auto&, auto&) { return dtanh(x); }},
    {"dsilu(x)", [](auto& x, auto&, auto&) { return dsilu(x); }},
    {"dgelu(x)", [](auto& x, auto&, auto&) { return dgelu(x); }},
    {"dgelu(x, 'tanh')", [](auto& x, auto&, auto&) { return dgelu(x, "tanh"); }},
    {"cast(x, i8)", [](auto& x, auto&, auto&) { return cast(x, i8); }},
    {"dropout(x, 0.5, y)", [](auto& x, auto& y, auto&) { return dropout(x, 0.5, y); }},
    {"sum(x)", [](auto& x, auto&, auto&) { return sum(x); }},
    {"sum(x, axis='row')", [](auto& x, auto&, auto&) { return sum(x, Axis::Row); }},
    {"max(x, axis='column')", [](auto& x, auto&, auto&) { return max(x, Axis::Column); }},
    {"min(x, dim=-1)", [](auto& x, auto&, auto&) { return min(x, {-1}); }},
    {"sum(x, dim=-1)", [](auto& x, auto&, auto&) { return sum(x, -1); }},
    {"mean(x, dim=(0, 1))", [](auto& x, auto&, auto&) { return mean(x, {0, 1}); }},
    {"amax(x, axis='all')", [](auto& x, auto&, auto&) { return amax(x); }},
    {"sum(x, axis='row', keepdim=False) * 2", [](auto& x, auto&, auto&) { return sum(x, Axis::Row, false) * 2; }},
    {"max(x, dim=0, keepdim=False) * 2", [](auto& x, auto&, auto&) { return max(x, {0}, false) * 2; }},
    {"min(x, axis='column', keepdim=False) * 2", [](auto& x, auto&, auto&) { return min(x, Axis::Column, false) * 2; }},
    {"mean(x, dim=(-2, -1), keepdim=False) * 2", [](auto& x, auto&, auto&) { return mean(x, {-1, -2}, false) * 2; }},
    {"amax(x, keepdim=False) * 2", [](auto& x, auto&, auto&) { return amax(x, Axis::All, false) * 2; }},
    {"sum_of_squares(x, keepdim=True)", [](auto& x, auto&, auto&) { return sum_of_squares(x, Axis::All, true); }},
    {"logsumexp(x, dim=1, keepdim=False) * 2", [](auto& x, auto&, auto&) { return logsumexp(x, 1, false) * 2; }},
    {"mean(x, axis='row')", [](auto& x, auto&, auto&) { return mean(x, Axis::Row); }},
    {"amax(x, dim=-1)", [](auto& x, auto&, auto&) { return amax(x, -1); }},
    {"sum_of_squares(x, dim=(-1, -2))", [](auto& x, auto&, auto&) { return sum_of_squares(x, {-2, -1}); }},
    {"sum_of_squares(x, axis='column')", [](auto& x, auto&, auto&) { return sum_of_squares(x, Axis::Column); }},
    {"logsumexp(x, axis='row')", [](auto& x, auto&, auto&) { return logsumexp(x, Axis::Row); }},
    {"sum_of_squares(x)", [](auto& x, auto&, auto&) { return sum_of_squares(x); }},
    {"logsumexp(x, -1)", [](auto& x, auto&, auto&) { return logsumexp(x, std::vector<int>{-1}); }},
    {"permute(x, (1, 0))", [](auto& x, auto&, auto&) { return permute(x, {1, 0}); }},
    {"reshape(x, (-1, 4))", [](auto& x, auto&, auto&) { return reshape(x, {-1, 4}); }},
    {"x * inf", [](auto& x, auto&, auto&) { return x * std::numeric_limits<float>::infinity(); }},
    {"x * -inf", [](auto& x, auto&, auto&) { return x * -std::numeric_limits<double>::infinity(); }},
    {"join(x, y, z, dim=0)", [](auto& x, auto& y, auto& z) { return join({x, y, z}, 0); }},
    {"join(x, y, interleave=True)", [](auto& x, auto& y, auto&) { return join({x, y}, -1, true); }},
};

Epilogue parsed(const std::string& text) {
  auto epilogue = Epilogue::parse(text);
  if (!epilogue) {
    ADD_FAILURE() << text << "\n" << epilogue.error().render();
    std::abort();
  }
  return *epilogue;
}

TEST(Trace, EveryFunctionIsTheTexts) {
  std::set<types::Op> reached;
  for (const Pair& pair : pairs) {
    const auto text = parsed("def epilogue(accum, y, z):\n    x = accum\n    D = " + std::string(pair.text) +
                             "\n    E = x * y * z\n    return E, D\n");
    const auto traced = Epilogue::trace([&](EpilogueTracer& e) {
      const Expr x = e.accum(), y = e.input("y"), z = e.input("z");
      e.output("E", x * y * z);
      e.output("D", pair.body(x, y, z));
    });
    ASSERT_TRUE(traced) << pair.text << "\n" << traced.error().render();
    EXPECT_TRUE(ir::equivalent(*text.function(), *traced->function())) << text.to_string() << traced->to_string();
    for (const ir::Value& value : traced->function()->values) reached.insert(value.op);
  }
  reached.insert(types::Op::split);   // below
  reached.insert(types::Op::matmul);  // programs only
  for (const types::OpInfo& info : types::all_ops())
    EXPECT_TRUE(info.program_only() || reached.contains(info.op)) << info.name;
}

// The parameters that the call at the beginning of the text passes: by position, or by name.
std::set<std::string> passed(std::string_view text, const frontend::FunctionInfo& info) {
  std::vector<std::string> arguments{""};
  int depth = 0;
  for (const char c : text.substr(text.find('(') + 1)) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth < 0) break;
    if (c == ',' && depth == 0) {
      arguments.emplace_back();
    } else {
      arguments.back() += c;
    }
  }
  std::set<std::string> names;
  for (size_t i = 0; i < arguments.size() && !arguments[i].empty(); ++i) {
    const size_t equals = arguments[i].find('=');
    const std::string name = equals == std::string::npos ? "" : arguments[i].substr(1, equals - 1);
    if (!name.empty()) {
      names.insert(name);
    } else {
      names.emplace(info.all_parameters()[std::min(i, info.parameter_count - 1)].name);
    }
  }
  return names;
}

// A function, or a parameter of one, that the language gets and the tracer does not.
TEST(Trace, EveryFunctionAndParameterHasAForm) {
  for (const frontend::FunctionInfo& info : frontend::all_functions()) {
    if (info.program_only() || info.lowering == frontend::Lowering::Unavailable) continue;
    if (info.name == "split") continue;  // in SplitsAndJoins
    std::set<std::string> reached;
    bool called = false;
    for (const Pair& pair : pairs) {
      const std::string_view text = pair.text;
      const size_t at = text.starts_with("x + ") ? 4 : 0;  // of row_index() and the like
      if (!text.substr(at).starts_with(std::string(info.name) + "(")) continue;
      called = true;
      if (info.parameter_count != 0) reached.merge(passed(text, info));
    }
    EXPECT_TRUE(called) << info.name;
    for (const frontend::FunctionParameter& parameter : info.all_parameters()) {
      const bool other_form = parameter.name == "x" && info.variadic();
      EXPECT_TRUE(other_form || reached.contains(std::string(parameter.name))) << info.name << " " << parameter.name;
    }
  }
}

TEST(Trace, ReluAuxStore) {
  const auto traced = Epilogue::trace([](EpilogueTracer& e) {
    auto F = e.accum() * e.input("alpha") + e.input("C") * 2.0;
    e.output("D", relu(F));
    e.output("F", F);
  });
  ASSERT_TRUE(traced) << traced.error().render();
  const auto text =
      parsed("def epilogue(accum, alpha, C):\n    F = (accum * alpha) + (C * 2.0)\n    D = relu(F)\n    return D, F\n");
  EXPECT_TRUE(ir::equivalent(*text.function(), *traced->function()));
  EXPECT_EQ(traced->parameters(), (std::vector<std::string>{"accum", "alpha", "C"}));
  EXPECT_EQ(traced->outputs(), (std::vector<std::string>{"D", "F"}));
  EXPECT_EQ(traced->name(), "epilogue");
  // Later messages can point into the printed function.
  EXPECT_EQ(traced->function()->source->text(), traced->to_string());
  EXPECT_TRUE(traced->function()->values.back().span.known());
}

// A text can say one NaN only; that of 0.0 / 0.0 has its sign bit set on some machines.
TEST(Trace, EveryNanIsNan) {
  const double nan = std::copysign(std::numeric_limits<double>::quiet_NaN(), 1.0);
  const auto text = parsed("def epilogue(accum):\n    D = accum * nan\n    return D\n");
  const auto same = [&](const Expr& factor) {
    const auto traced = Epilogue::trace([&](EpilogueTracer& e) { e.output("D", e.accum() * factor); });
    ASSERT_TRUE(traced) << traced.error().render();
    EXPECT_TRUE(ir::equivalent(*text.function(), *traced->function())) << traced->to_string();
  };
  same(Expr(nan));
  same(Expr(std::copysign(nan, -1.0)));
  same(-Expr(nan));
  same(-Expr(std::copysign(nan, -1.0)));
}

TEST(Trace, ParametersAreInTheOrderOfUse) {
  const auto traced = Epilogue::trace([](EpilogueTracer& e) {
    const Expr C = e.input("C");
    const Expr alpha = e.input("alpha");
    e.output("D", e.accum() * alpha + C + e.input("alpha"));
  });
  ASSERT_TRUE(traced);
  EXPECT_EQ(traced->parameters(), (std::vector<std::string>{"accum", "alpha", "C"}));
}

TEST(Trace, SplitsAndJoins) {
  const auto traced = Epilogue::trace([](EpilogueTracer& e) {
    const auto parts = split(e.accum(), 2);
    e.output("D", silu(parts[0]) * parts[1]);
  });
  ASSERT_TRUE(traced) << traced.error().render();
  const auto text = parsed("def epilogue(accum):\n    a, b = split(accum, 2)\n    D = silu(a) * b\n    return D\n");
  EXPECT_TRUE(ir::equivalent(*text.function(), *traced->function()));
}

TEST(Trace, SharesWhatIsShared) {
  const auto traced = Epilogue::trace([](EpilogueTracer& e) {
    Expr x = e.accum();
    for (int i = 0; i < 60; ++i) x = x * x;  // a tree would have 2^60 nodes
    e.output("D", x);
  });
  ASSERT_TRUE(traced);
  EXPECT_EQ(traced->function()->values.size(), 61u);
}

TEST(Trace, DeepExpressionsNeedNoStack) {
  const auto traced = Epilogue::trace([](EpilogueTracer& e) {
    Expr x = e.accum();
    for (int i = 0; i < 100000; ++i) x = x + e.accum();
    e.output("D", x);
  });
  ASSERT_TRUE(traced) << traced.error().render().substr(0, 1000);
  EXPECT_EQ(traced->function()->values.size(), 100001u);
}

TEST(Trace, HasNoMoreOutputsThanATextMayHave) {
  const auto traced = [](int outputs) {
    return Epilogue::trace([&](EpilogueTracer& e) {
      for (int i = 0; i < outputs; ++i) e.output("s" + std::to_string(i), e.accum() * i);
    });
  };
  EXPECT_TRUE(traced(256));
  const auto more = traced(257);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), 102);
  EXPECT_EQ(more.error().diagnostics()[0].headline, "257 values are returned");
  EXPECT_EQ(more.error().diagnostics()[0].reason, "at most 256 outputs are written");
}

TEST(Trace, NumbersKeepTheirKind) {
  const auto traced =
      Epilogue::trace([](EpilogueTracer& e) { e.output("D", e.accum() * 2u + 3.5f + e.literal(true) + 7LL); });
  ASSERT_TRUE(traced);
  EXPECT_TRUE(
      ir::equivalent(*parsed("def epilogue(accum):\n    D = accum * 2 + 3.5 + True + 7\n    return D\n").function(),
                     *traced->function()));
}

TEST(Trace, IntegersOfNumbersAreExact) {
  const auto unsigned_one = Epilogue::trace(
      [](EpilogueTracer& e) { e.output("D", e.accum() * UINT64_MAX + (e.literal(UINT64_MAX) - e.literal(1))); });
  ASSERT_TRUE(unsigned_one) << unsigned_one.error().render();
  EXPECT_TRUE(ir::equivalent(*parsed("def epilogue(accum):\n    D = accum * 18446744073709551615 + "
                                     "18446744073709551614\n    return D\n")
                                  .function(),
                             *unsigned_one->function()));
  const auto fits = Epilogue::trace(
      [](EpilogueTracer& e) { e.output("D", e.accum() * (pow(e.literal(2), e.literal(63)) - e.literal(1))); });
  ASSERT_TRUE(fits) << fits.error().render();
  EXPECT_TRUE(
      ir::equivalent(*parsed("def epilogue(accum):\n    D = accum * 9223372036854775807\n    return D\n").function(),
                     *fits->function()));
  uint32_t line = 0;
  const auto large = Epilogue::trace([&](EpilogueTracer& e) {
    const Expr two = e.literal(2);
    const Expr power = (line = __LINE__, pow(two, e.literal(64)));
    e.output("D", e.accum() * power);
  });
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code(), 109);
  EXPECT_EQ(large.error().diagnostics()[0].help, "write 2.0**64 for a float");
  EXPECT_EQ(large.error().diagnostics()[0].where.line, line);
}

TEST(Trace, OutputsMayBeAccumAndAliases) {
  const auto traced = Epilogue::trace([](EpilogueTracer& e) {
    const Expr F = relu(e.accum());
    e.output("D", F);
    e.output("F", F);
    e.output("accum", e.accum());
    e.output("copy", e.accum());
  });
  ASSERT_TRUE(traced) << traced.error().render();
  EXPECT_EQ(traced->outputs(), (std::vector<std::string>{"D", "F", "accum", "copy"}));
  EXPECT_EQ(traced->function()->outputs[0].value, traced->function()->outputs[1].value);
  EXPECT_EQ(traced->function()->outputs[2].value, traced->function()->outputs[3].value);
}

TEST(Epilogue, PrintsTextThatParsesBack) {
  for (const char* text : {"def f(accum, C): D = where(C > 0, gelu(accum, 'tanh'), -inf); return D",
                           "def f(accum): s = sum(accum, axis='row', keepdim=False); return s",
                           "def f(accum): s = max(accum, dim=(0, 1), keepdim=False); D = accum - s; return D, s",
                           "def f(accum): s = mean(accum, keepdim=False); D = accum * s; return D"}) {
    const auto epilogue = parsed(text);
    const auto again = parsed(epilogue.to_string());
    EXPECT_TRUE(ir::equivalent(*epilogue.function(), *again.function())) << epilogue.to_string();
    EXPECT_EQ(again.to_string(), epilogue.to_string());
  }
  EXPECT_EQ(parsed("def f(accum): s = sum(accum, axis='row', keepdim=False); D = accum; return D, s").to_string(),
            "def f(accum):\n    s = sum(accum, axis=\"row\", keepdim=False)\n    D = accum\n    return D, s\n");
}

// max(x, 0) reads like the larger of both; as in text it is refused, here by the compiler.
template <class T>
concept can_be_bound = requires(const Expr& x, T y) {
  max(x, y);
};
template <class T>
concept can_be_summed_over = requires(const Expr& x, T y) {
  sum(x, y);
};
TEST(Trace, NumbersAreNoAxesOfMaxAndMin) {
  EXPECT_FALSE(can_be_bound<int>);
  EXPECT_FALSE(can_be_bound<double>);
  EXPECT_TRUE(can_be_bound<Axis>);
  EXPECT_TRUE(can_be_bound<std::vector<int>>);
  EXPECT_TRUE(can_be_summed_over<int>);
  EXPECT_FALSE(can_be_summed_over<double>);
}

// Where in this file something was called; columns differ between compilers.
testing::AssertionResult at_line(const SourceLocation& where, uint32_t line) {
  if (where.file == __FILE__ && where.line == line && where.length == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << where.file << ":" << where.line << ", not line " << line;
}

TEST(Trace, MistakesPointAtTheCall) {
  uint32_t bad = 0, unused = 0, constant = 0, name = 0, foreign = 0, none = 0, empty = 0;
  Expr kept;
  (void)Epilogue::trace([&](EpilogueTracer& e) { kept = (foreign = __LINE__, e.input("C")); });
  const auto traced = Epilogue::trace([&](EpilogueTracer& e) {
    const Expr v = gelu(e.accum(), "tahn");
    bad = __LINE__ - 1;
    e.output("D", v);
    e.output("class", v + kept);
    name = __LINE__ - 1;
    e.output("F", v + Expr());
    empty = __LINE__ - 1;
  });
  ASSERT_FALSE(traced);
  const auto& found = traced.error().diagnostics();
  const auto where = [&](uint16_t code) {
    for (const Diagnostic& diagnostic : found) {
      if (diagnostic.code == code) return diagnostic.where;
    }
    return SourceLocation{};
  };
  EXPECT_TRUE(at_line(where(149), name));
  EXPECT_TRUE(at_line(where(148), foreign));
  EXPECT_TRUE(at_line(where(156), empty));
  const auto wrong = Epilogue::trace([&](EpilogueTracer& e) {
    e.output("D", gelu(e.accum(), "tahn"));
    bad = __LINE__ - 1;
  });
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), 139);
  EXPECT_TRUE(at_line(wrong.error().diagnostics()[0].where, bad));
  const auto useless = Epilogue::trace([&](EpilogueTracer& e) {
    (void)e.input("bias");
    unused = __LINE__ - 1;
    e.output("D", e.accum());
    e.output("one", Expr(1.0) + 2);
    constant = __LINE__ - 1;
  });
  ASSERT_FALSE(useless);
  ASSERT_EQ(useless.error().diagnostics().size(), 2U);
  EXPECT_TRUE(at_line(useless.error().diagnostics()[0].where, constant));
  EXPECT_TRUE(at_line(useless.error().diagnostics()[1].where, unused));
  const auto huge = Epilogue::trace([&](EpilogueTracer& e) {
    e.output("D", e.accum() + (e.literal(UINT64_MAX) + 1));
    bad = __LINE__ - 1;
  });
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code(), 109);
  EXPECT_TRUE(at_line(huge.error().diagnostics()[0].where, bad));
  const auto nothing = Epilogue::trace([](EpilogueTracer&) {});
  none = __LINE__ - 1;
  ASSERT_FALSE(nothing);
  EXPECT_TRUE(at_line(nothing.error().diagnostics()[0].where, none));
  // accum was never asked for, so that the trace itself is the place.
  const auto without = Epilogue::trace([](EpilogueTracer& e) { e.output("D", e.input("C") + 1.0); });
  none = __LINE__ - 1;
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code(), 133);
  EXPECT_TRUE(at_line(without.error().diagnostics()[0].where, none));
  uint32_t first = 0, second = 0;
  const auto twice = Epilogue::trace([&](EpilogueTracer& e) {
    e.output("D", relu(e.accum()));
    first = __LINE__ - 1;
    e.output("D", tanh(e.accum()));
    second = __LINE__ - 1;
  });
  ASSERT_FALSE(twice);
  const Diagnostic& again = twice.error().diagnostics()[0];
  EXPECT_EQ(again.code, 128);
  EXPECT_TRUE(at_line(again.where, second));
  ASSERT_EQ(again.notes.size(), 1U);
  EXPECT_TRUE(at_line(again.notes[0].where, first));
}

// A wrapper tells the place of its own caller.
Expr scaled(const Expr& x, CallSite at = CallSite::current()) { return gelu(x, "tahn", at); }

TEST(Trace, WrappersPassTheirCallerOn) {
  uint32_t line = 0;
  const auto traced = Epilogue::trace([&](EpilogueTracer& e) {
    e.output("D", scaled(e.accum()));
    line = __LINE__ - 1;
  });
  ASSERT_FALSE(traced);
  EXPECT_TRUE(at_line(traced.error().diagnostics()[0].where, line));
}

// The printed text knows which call each of its parts comes from.
TEST(Trace, PrintedPartsKnowTheirCalls) {
  uint32_t added = 0, asked = 0, given = 0;
  const auto traced = Epilogue::trace([&](EpilogueTracer& e) {
    const Expr bias = e.input("bias");
    asked = __LINE__ - 1;
    const Expr x = e.accum() + bias;
    added = __LINE__ - 1;
    e.output("D", relu(x) * 2.0);
    given = __LINE__ - 1;
  });
  ASSERT_TRUE(traced) << traced.error().render();
  const ir::EpilogueFunction& function = *traced->function();
  const auto origin = [&](diag::Span span) {
    const SourceLocation* where = function.source->origin(span);
    return where == nullptr ? SourceLocation{} : *where;
  };
  EXPECT_TRUE(at_line(origin(function.parameters[1].span), asked));
  EXPECT_TRUE(at_line(origin(function.outputs[0].span), given));
  for (const ir::Value& value : function.values) {
    if (value.op != types::Op::add && value.op != types::Op::mul) continue;
    EXPECT_TRUE(at_line(origin(value.span), value.op == types::Op::add ? added : given));
  }
}

TEST(Trace, RefusesElementTypesThatDoNotExist) {
  const auto traced =
      Epilogue::trace([](EpilogueTracer& e) { e.output("D", cast(e.accum(), static_cast<DType>(99))); });
  ASSERT_FALSE(traced);
  EXPECT_EQ(traced.error().code(), 139);
  EXPECT_EQ(traced.error().diagnostics()[0].headline, "cast: element type number 99 does not exist");
}

}  // namespace
