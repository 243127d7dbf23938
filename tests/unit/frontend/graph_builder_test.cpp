// SPDX-License-Identifier: Apache-2.0
// The builder of programs in C++ makes the graphs that texts make, and keeps what goes wrong.
#include <gtest/gtest.h>

#include "frontend/graph_state.hpp"
#include "frontend/lower.hpp"
#include "ir/bind.hpp"

namespace {

using namespace codetta;

Result<ir::Graph> built(const ProgramBuilder& builder) {
  const auto function = frontend::finish_program(*detail::GraphAccess::state(builder), {});
  if (!function) return function.error();
  return ir::bind_program(*function);
}

Result<ir::Graph> parsed(const std::string& text) {
  const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", text));
  if (!function) return function.error();
  return ir::bind_program(*function);
}

void expect_equal(const ProgramBuilder& builder, const std::string& text) {
  const auto a = built(builder), b = parsed(text);
  ASSERT_TRUE(a) << a.error().render();
  ASSERT_TRUE(b) << b.error().render();
  EXPECT_TRUE(*a == *b) << ir::print(*a) << ir::print(*b);
}

using Values = std::vector<GraphValue>;
Values same(Values v) { return v; }

TEST(GraphBuilderApi, MakesTheGraphsOfTexts) {
  ProgramBuilder b("f");
  const auto x = b.input("x", DType::bf16, {"n", 8}), w = b.input("w", DType::bf16, {8, 8});
  const auto i = b.input("i", DType::i64, {3});
  const auto scale = b.number("scale", DType::f32);
  const auto h = call("softmax", {call("matmul", {x, w})}) * scale + b.constant(1.0);
  const auto t = call("take", {h, i}, {{"dim", 1}});
  const auto s = t.slice(0, floordiv(Size("n"), 2)).slice(-1, 0, {}, 2);
  b.output("y", call("concat", {s, s}, {{"dim", 1}}));
  b.output("z", call("rms_norm", {x}, {{"eps", 1e-3}}));
  expect_equal(b, R"(
def f(x: bf16["n", 8], w: bf16[8, 8], i: i64[3], scale: f32):
    h = softmax(x @ w) * scale + 1.0
    t = take(h, i, dim=1)
    s = t[n // 2:, :][:, ::2]
    y = concat(s, s, dim=1)
    z = rms_norm(x, eps=1e-3)
    return y, z
)");
}

TEST(GraphBuilderApi, IntegersOfNumbersAreExact) {
  ProgramBuilder fits("f");
  const auto x = fits.input("x", DType::i64, {3});
  fits.output("y", x + (fits.constant(INT64_MAX) + 1 - 1));
  expect_equal(fits, "def f(x: i64[3]):\n    y = x + 9223372036854775807\n    return y\n");

  ProgramBuilder beyond("f");  // of i64: a u64
  const auto u = beyond.input("x", DType::u64, {3});
  beyond.output("y", u + (beyond.constant(INT64_MAX) + 1));
  expect_equal(beyond, "def f(x: u64[3]):\n    y = x + 9223372036854775808\n    return y\n");

  ProgramBuilder given("f");  // the same as a number of C++; less than 2^63 is an i64 whatever its type
  const auto v = given.input("x", DType::u64, {3});
  given.output(
      "y", v * (uint64_t{1} << 63) + given.constant(UINT64_MAX) - uint64_t{7} + call("minimum", {v, UINT64_MAX - 1}));
  given.output("z", v + given.call("full", {UINT64_MAX, 3}, {{"dtype", DType::u64}}) - size_t{INT64_MAX});
  expect_equal(given, R"(
def f(x: u64[3]):
    y = x * 9223372036854775808 + 18446744073709551615 - 7 + minimum(x, 18446744073709551614)
    z = x + full(18446744073709551615, 3, dtype=u64) - 9223372036854775807
    return y, z
)");
  ProgramBuilder exact("f");
  const auto w = exact.input("x", DType::i64, {3});
  exact.output("y", w + (exact.constant(UINT64_MAX) - (uint64_t{1} << 63)));
  expect_equal(exact, "def f(x: i64[3]):\n    y = x + 9223372036854775807\n    return y\n");

  ProgramBuilder large("f");
  const auto z = large.input("z", DType::i64, {3});
  const GraphValue sum = large.constant(INT64_MAX) * 4;
  const int line = __LINE__ - 1;
  large.output("y", z + sum);
  const auto wrong = built(large);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), 109) << wrong.error().render();
  EXPECT_EQ(wrong.error().diagnostics()[0].where.line, static_cast<uint32_t>(line));
}

TEST(GraphBuilderApi, OperatorsTakeNumbers) {
  ProgramBuilder b("f");
  const auto x = b.input("x", DType::f32, {"n"});
  b.output("y", 1 - x * 2.5F + x / 3);
  b.output("z", (0 < x) & (x <= 6.0) & true);
  expect_equal(b, R"(
def f(x: f32["n"]):
    y = 1 - x * 2.5 + x / 3
    z = (0 < x) & (x <= 6.0) & True
    return y, z
)");
}

TEST(GraphBuilderApi, ErrorsSayWhatIsWantedAndGiven) {
  const auto first = [](auto&& make) {
    ProgramBuilder b("f");
    b.output("y", make(b, b.input("x", DType::f32, {"n", 8})));
    const auto program = built(b);
    return program ? Diagnostic{} : program.error().diagnostics()[0];
  };
  const Diagnostic kind = first([](auto&, auto x) { return call("softmax", {x, "row"}); });
  EXPECT_EQ(kind.headline, "argument 'dim' of softmax is not an integer, or integers where it takes several");
  EXPECT_EQ(kind.reason, "it is a text; the function is softmax(x, dim=-1)");
  const Diagnostic large = first([](auto&, auto x) { return call("softmax", {x, UINT64_MAX}); });
  EXPECT_EQ(large.reason, "it is an integer of u64; the function is softmax(x, dim=-1)");
  const Diagnostic size = first([](auto& b, auto x) { return x + b.input("w", DType::f32, {"n", "8 +"}); });
  EXPECT_EQ(size.code, 144);
  EXPECT_EQ(size.reason, "the size '8 +' is no number, symbol or arithmetic on them");
  EXPECT_EQ(first([](auto& b, auto x) { return x + b.input("w", DType::f32, {-1}); }).reason,
            "the size '-1' is less than 0");
}

TEST(GraphBuilderApi, BranchesLoopsAndOwnCode) {
  ProgramBuilder b("f");
  const auto p = b.input("p", DType::boolean, {1}), x = b.input("x", DType::f32, {"n"});
  const Values c = cond(
      p, [](Values v) { return Values{call("relu", {v[0]})}; }, [](Values v) { return Values{-v[0]}; }, {x});
  const Values l = while_loop(
      [](Values v) {
        return Values{v[0] < call("full", {v[0], std::vector<Size>{}})};
      },
      [](Values v) {
        return Values{v[0], v[1] * v[1]};
      },
      {call("sum", {x}, {{"keepdim", false}}), c[0]});
  const Values e =
      call_all("call_extern", {"halve", l[1]}, {{"out", std::vector<std::string>{"f32[n]", "i64[n // 2]"}}});
  ASSERT_EQ(e.size(), 2U);
  b.output("y", e[0]);
  b.output("z", e[1]);
  expect_equal(b, R"(
def relu_of(x0):
    return relu(x0)
def minus(x0):
    return -x0
def more(x0, x1):
    return x0 < full(x0, ())
def step(x0, x1):
    return x0, x1 * x1
def f(p: bool[1], x: f32["n"]):
    c = cond(p, relu_of, minus, x)
    s = sum(x, keepdim=False)
    a, l = while_loop(more, step, s, c)
    y, z = call_extern("halve", l, out=("f32[n]", "i64[n // 2]"))
    return y, z
)");
}

TEST(GraphBuilderApi, NumbersKeepTheirKind) {
  ProgramBuilder b("f");
  const auto x = b.input("x", DType::i32, {"n"});
  b.output("y", x * b.constant(2) + b.constant(3.5F));
  b.output("z", (x > b.constant(0)) & b.constant(true));
  expect_equal(b, "def f(x: i32[\"n\"]):\n    y = x * 2 + 3.5\n    z = (x > 0) & True\n    return y, z\n");
}

// Branches inside of branches: each function is printed once, under a name that nothing else has.
TEST(GraphBuilderApi, BranchesNestDeeply) {
  ProgramBuilder b("f");
  const auto p = b.input("then", DType::boolean, {1}), x = b.input("x", DType::f32, {"n"});
  std::function<Values(Values, int)> nested = [&](Values v, int depth) -> Values {
    if (depth == 0) return {v[1] + v[1]};
    const auto then = [&](Values w) { return nested(std::move(w), depth - 1); };
    return cond(
        v[0], then, [](Values w) { return Values{-w[1]}; }, v);
  };
  b.output("y", nested({p, x}, 40)[0]);
  const auto function = frontend::finish_program(*detail::GraphAccess::state(b), {});
  ASSERT_TRUE(function) << function.error().render();
  const auto again = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", ir::print(*function)));
  ASSERT_TRUE(again) << again.error().render() << ir::print(*function);
  EXPECT_TRUE(ir::equivalent(*function, *again));
  EXPECT_TRUE(ir::bind_program(*function));
}

// Values of a function that is done are dead, not dangling.
TEST(GraphBuilderApi, ValuesKeptFromABranchAreRefused) {
  ProgramBuilder b("f");
  const auto p = b.input("p", DType::boolean, {1}), x = b.input("x", DType::f32, {"n"});
  GraphValue kept;
  const auto keep = [&](Values v) {
    kept = v[0] * v[0];
    return Values{kept};
  };
  const Values results = cond(p, keep, same, {x});
  const GraphValue later = -kept + kept.slice(0, 0);
  b.output("y", results[0]);
  EXPECT_TRUE(built(b));
  b.output("z", later);
  const auto graph = built(b);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code(), 148);
}

std::string first_error(const ProgramBuilder& builder) {
  const auto graph = built(builder);
  return graph ? "" : graph.error().render();
}

TEST(GraphBuilderApi, KeepsMistakes) {
  const auto with = [](auto&& make) {
    ProgramBuilder b("f");
    const auto x = b.input("x", DType::f32, {"n", 8});
    b.output("y", make(b, x));
    return first_error(b);
  };
  const auto starts = [](const std::string& error, std::string_view code) {
    return error.find(code) != std::string::npos;
  };
  EXPECT_TRUE(starts(with([](auto&, auto x) { return call("soft", {x}); }), "E0135"));
  EXPECT_TRUE(starts(with([](auto&, auto x) { return call("softmax", {x}, {{"axis", 1}}); }), "E0136"));
  EXPECT_TRUE(starts(with([](auto&, auto x) { return call("softmax", {x, 1, 2}); }), "E0138"));
  EXPECT_TRUE(starts(with([](auto&, auto x) { return call("softmax", {x, "row"}); }), "E0139"));
  EXPECT_TRUE(starts(with([](auto&, auto x) { return x + GraphValue(); }), "E0156"));
  const std::string nobody = with([](auto&, auto) { return call("relu", {3.0}); });
  EXPECT_TRUE(starts(nobody, "E0156"));
  EXPECT_TRUE(starts(nobody, "none of whose arguments is a builder's")) << nobody;
  EXPECT_TRUE(starts(with([](auto& b, auto x) {
                       b.output("a\nb", x);
                       return x;
                     }),
                     "'a\\nb'"));
  EXPECT_TRUE(starts(with([](auto&, auto x) { return x.slice(1, "+"); }), "E0139"));
  EXPECT_TRUE(starts(with([](auto&, auto x) { return x.slice(1, 9); }), "E0225"));
  EXPECT_TRUE(starts(with([](auto&, auto x) { return x.slice(1, "n % 4", {}, int64_t{1} << 62); }), "E0225"));
  EXPECT_TRUE(starts(with([](auto&, auto x) { return x.slice(0, 1, {}, 2); }), "E0225"));
  EXPECT_TRUE(starts(with([](auto& b, auto x) {
                       b.output("class", x);
                       return x;
                     }),
                     "E0149"));
  EXPECT_TRUE(starts(with([](auto& b, auto x) {
                       b.input("late", DType::f32, {});
                       return x + b.constant(1.0);
                     }),
                     "E0133"));
  EXPECT_TRUE(starts(with([](auto&, auto x) {
                       ProgramBuilder other;
                       return x + other.input("z", DType::f32, {});
                     }),
                     "E0148"));
  EXPECT_TRUE(starts(with([](auto&, auto x) {
                       const auto own = [&](Values) { return Values{x}; };
                       const Values results = cond(call("max", {x}) > call("min", {x}), own, same, {x});
                       return results.empty() ? GraphValue() : results[0];
                     }),
                     "E0148"));
  EXPECT_TRUE(starts(with([](auto& b, auto x) {
                       const auto y = -x;
                       b.input("late", DType::f32, {});
                       return y;
                     }),
                     "E0124"));
  EXPECT_TRUE(starts(with([](auto& b, auto x) {
                       b.input("odd", static_cast<DType>(99), {});
                       return x + b.constant(1);
                     }),
                     "E0144"));
  EXPECT_TRUE(starts(with([](auto&, auto x) {
                       const Values results = cond(call("max", {x}) > call("min", {x}), {}, same, {x});
                       return results.empty() ? GraphValue() : results[0];
                     }),
                     "E0156"));
  EXPECT_TRUE(starts(with([](auto&, auto x) {
                       const auto many = [](Values v) { return Values(257, v[0]); };
                       const Values results = cond(call("max", {x}) > call("min", {x}), many, many, {x});
                       return results.empty() ? GraphValue() : results[0];
                     }),
                     "E0102"));
  EXPECT_TRUE(starts(with([](auto& b, auto x) {
                       for (int i = 0; i < 256; ++i) b.output("y" + std::to_string(i), x);
                       return x;
                     }),
                     "the program has 257 outputs"));
  // Without a text, errors point into the printed program.
  EXPECT_TRUE(starts(with([](auto&, auto x) {
                       return call("matmul", {x, x});
                     }),
                     "y = x @ x"))
      << with([](auto&, auto x) {
           return call("matmul", {x, x});
         });
}

// One mistake is one error, whatever is made of its result, and says what was meant.
TEST(GraphBuilderApi, OneTypoIsOneError) {
  ProgramBuilder b("f");
  const auto x = b.input("x", DType::f32, {"n", 8});
  const uint32_t line = __LINE__ + 1;
  const auto wrong = call("sofmax", {call("relu", {x})});
  const Values parts = call_all("split", {wrong, 4, 1});
  ASSERT_EQ(parts.size(), 4U);
  const Values branches = cond(wrong > wrong, [](Values v) { return Values{v[0], v[0]}; }, same, {parts[3]});
  const Values loop = while_loop(same, same, {wrong, x});
  ASSERT_EQ(loop.size(), 2U);
  b.output("y", -(parts[1] + x) * branches[0] + loop[1].slice(0, 0));
  const auto program = built(b);
  ASSERT_FALSE(program);
  ASSERT_EQ(program.error().diagnostics().size(), 1U) << program.error().render();
  const Diagnostic& error = program.error().diagnostics()[0];
  EXPECT_EQ(error.headline, "function 'sofmax' is not known");
  EXPECT_EQ(error.help, "did you mean softmax(x, dim=-1)?");
  EXPECT_EQ(error.where.file, __FILE__);
  EXPECT_EQ(error.where.line, line);
}

TEST(GraphBuilderApi, ResultsOfAFailedCallAreAsManyAsWanted) {
  ProgramBuilder b("f");
  const auto x = b.input("x", DType::f32, {"n", 8});
  EXPECT_EQ(call_all("splt", {x, 2}).size(), 2U);
  EXPECT_EQ(call_all("split", {x, 2}, {{"dmi", 1}}).size(), 2U);
  EXPECT_EQ(call_all("split", {x}, {{"n", 3}, {"dim", "row"}}).size(), 3U);
  EXPECT_EQ(call_all("call_extern", {x}, {{"out", std::vector<std::string>{"f32[n", "f32[n]"}}}).size(), 2U);
  EXPECT_EQ(call_all("nothing_like_it", {x}).size(), 1U);
  EXPECT_EQ(call_all("relu", {3.0}).size(), 1U);
  EXPECT_EQ(cond(x, {}, same, {x}).size(), 1U);
}

// A mistake in a loop of C++ is told once; two at different places are two.
TEST(GraphBuilderApi, RepeatedMistakesAreToldOnce) {
  ProgramBuilder b("f");
  auto x = b.input("x", DType::f32, {"n", 8});
  for (int i = 0; i < 50; ++i) (void)call("layernorm", {x});
  (void)call("softmax", {x}, {{"dmi", 1}});
  b.output("y", x);
  const auto program = built(b);
  ASSERT_FALSE(program);
  ASSERT_EQ(program.error().diagnostics().size(), 2U) << program.error().render();
  EXPECT_EQ(program.error().diagnostics()[0].help.substr(0, 24), "did you mean layer_norm(");
  EXPECT_EQ(program.error().diagnostics()[1].help, "did you mean 'dim'?");
}

// What a text would show in its line is shown in the printed program, and the call is named.
TEST(GraphBuilderApi, ShapeErrorsShowTheProgramAndTheCall) {
  ProgramBuilder b("mlp");
  const auto x = b.input("x", DType::f32, {"n", 8}), w = b.input("w", DType::f32, {9, 4});
  const auto h = call("relu", {x});
  const uint32_t line = __LINE__ + 1;
  b.output("y", call("matmul", {h, w}));
  const auto program = built(b);
  ASSERT_FALSE(program);
  const Diagnostic& error = program.error().diagnostics()[0];
  EXPECT_EQ(error.code, 220);
  EXPECT_EQ(error.where.file, "<mlp>");
  EXPECT_EQ(error.where.line_text, "    y = t0 @ w");
  ASSERT_EQ(error.notes.size(), 1U);
  EXPECT_EQ(error.notes[0].where.file, __FILE__);
  EXPECT_EQ(error.notes[0].where.line, line);
}

TEST(GraphBuilderApi, NothingBuiltPointsAtFinish) {
  const ProgramBuilder b("f");
  const auto program = frontend::finish_program(*detail::GraphAccess::state(b), CallSite::current());
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code(), 126);
  EXPECT_EQ(program.error().diagnostics()[0].where.line, static_cast<uint32_t>(__LINE__ - 3));
}

}  // namespace
