// SPDX-License-Identifier: Apache-2.0
// What only programs have, against values computed by hand: slices, indices, branches, loops, code of the user.
#include <cmath>
#include <numeric>
#include <utility>

#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "support.hpp"

namespace codetta::oracle::test {
namespace {

Result<OracleResult> evaluate_text(const std::string& text, std::vector<Data> data, const OracleOptions& options = {}) {
  const auto function = frontend::parse_program(std::make_shared<const diag::SourceText>("p.py", text));
  if (!function) return function.error();
  const auto graph = ir::bind_program(*function);
  if (!graph) return graph.error();
  std::vector<OracleInput> inputs;
  for (Data& d : data) inputs.emplace_back(d.view());
  return oracle::evaluate(*graph, inputs, options);
}

std::vector<double> values_of(const ExpectedOutput& output) {
  std::vector<double> values;
  for (const ExpectedElement& element : output.elements) {
    EXPECT_EQ(element.low, element.high);
    values.push_back(element.low);
  }
  return values;
}

using Values = std::vector<double>;
Values values(const std::string& text, std::vector<Data> data, const OracleOptions& options = {}) {
  const auto result = evaluate_text(text, std::move(data), options);
  if (!result) {
    ADD_FAILURE() << text << result.error().render();
    return {};
  }
  return values_of(result->outputs[0]);
}

Values counted(int64_t n) {
  Values v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0.0);
  return v;
}
Data matrix(int64_t m, int64_t n) { return Data(DType::f32, {m, n}, counted(m * n)); }
Data indices(std::vector<int64_t> shape, const Values& v) { return Data(DType::i64, std::move(shape), v); }

std::string program(const std::string& parameters, const std::string& expression) {
  return "def f(" + parameters + "):\n    y = " + expression + "\n    return y\n";
}

TEST(ProgramValues, SlicesAndShapes) {
  const auto of = [](const std::string& expression) {
    return values(program("x: f32[\"n\", 4]", expression), {matrix(3, 4)});
  };
  EXPECT_EQ(of("x[:, 1:3]"), (Values{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(of("x[n // 2:, ::2]"), (Values{4, 6, 8, 10}));
  EXPECT_EQ(of("x[..., -1]"), (Values{3, 7, 11}));
  EXPECT_EQ(of("concat(x[:n // 2], x, x[:n // 3, :])[:, 0]"), (Values{0, 0, 4, 8, 0}));
  EXPECT_EQ(of("concat(x[:, 3:], x[:, :1], dim=1)"), (Values{3, 0, 7, 4, 11, 8}));
  EXPECT_EQ(of("expand(x[:, None, 0], n, 2)"), (Values{0, 0, 4, 4, 8, 8}));
  EXPECT_EQ(of("transpose(x)[1]"), (Values{1, 5, 9}));
  EXPECT_EQ(of("sum(x, dim=0, keepdim=False) + full(1, 4)"), (Values{13, 16, 19, 22}));
  EXPECT_EQ(of("sum(x, keepdim=False) + cast(arange(2*n), f32)"), (Values{66, 67, 68, 69, 70, 71}));
}

TEST(ProgramValues, Indices) {
  const std::string x = "x: f32[\"n\", 4], i: i64[2]";
  EXPECT_EQ(values(program(x, "take(x, i)"), {matrix(3, 4), indices({2}, {2, 0})}), (Values{8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(values(program(x, "take(x, i, dim=1)"), {matrix(3, 4), indices({2}, {3, 1})}), (Values{3, 1, 7, 5, 11, 9}));
  EXPECT_EQ(values(program("x: f32[\"n\", 4], i: i64[\"n\", 2]", "gather(x, i, dim=1)"),
                   {matrix(3, 4), indices({3, 2}, {0, 1, 2, 3, 3, 0})}),
            (Values{0, 1, 6, 7, 11, 8}));
  EXPECT_EQ(values(program("x: f32[\"n\", 2], i: i64[3], v: f32[3, 2]", "index_put(x, i, v)"),
                   {matrix(3, 2), indices({3}, {2, 0, 2}), Data(DType::f32, {3, 2}, {10, 11, 20, 21, 30, 31})}),
            (Values{20, 21, 2, 3, 30, 31}));
  EXPECT_EQ(values(program("x: f32[\"n\", 2], i: i64[3], v: f32[3, 2]", "index_put(x, i, v, accumulate=True)"),
                   {matrix(3, 2), indices({3}, {2, 0, 2}), Data(DType::f32, {3, 2}, {10, 11, 20, 21, 30, 31})}),
            (Values{20, 22, 2, 3, 44, 47}));
  for (const auto& [reduce, last] : {std::pair("none", 7.0), {"sum", 14.0}, {"max", 7.0}, {"min", 2.0}}) {
    EXPECT_EQ(values(program("x: f32[1, 3], i: i64[1, 2]",
                             "scatter(x, i, full(5, 1, 2) + cast(arange(2), f32) * 2, dim=1, reduce=\"" +
                                 std::string(reduce) + "\")"),
                     {matrix(1, 3), indices({1, 2}, {2, 2})}),
              (Values{0, 1, last}))
        << reduce;
  }
  // What is only known within bounds reaches all that it may be.
  const auto loose = evaluate_text(program("x: f32[8], z: f32[1]", "take(x, cast(exp(z) * 0.5, i64))"),
                                   {Data(DType::f32, {8}, counted(8)), Data(DType::f32, {1}, {std::log(4.0)})});
  ASSERT_TRUE(loose) << loose.error().render();
  EXPECT_LE(loose->outputs[0].elements[0].low, 2);
  EXPECT_GE(loose->outputs[0].elements[0].high, 1);
}

// An index that is known within bounds is one of those in range; a run that had another has said so.
TEST(ProgramValues, IndicesThatMayBeOutOfRange) {
  const auto picked = [](const std::string& less, const std::string& more) {
    return evaluate_text(
        program("x: f32[8], z: f32[1]", "take(x, cast(where(exp(z) > 4.0, " + more + ", " + less + "), i64))"),
        {Data(DType::f32, {8}, counted(8)), Data(DType::f32, {1}, {std::log(4.0)})});
  };
  for (const auto& [less, more] : {std::pair{"2.0", "12.0"}, std::pair{"-9.0", "6.0"}}) {
    const auto bounded = picked(less, more);
    ASSERT_TRUE(bounded) << bounded.error().render();
    const ExpectedElement& element = bounded->outputs[0].elements[0];
    EXPECT_LE(element.low, less[0] == '-' ? 0 : 2);
    EXPECT_GE(element.high, less[0] == '-' ? 6 : 7);
  }
  for (const auto& [less, more] : {std::pair{"8.0", "12.0"}, std::pair{"-9.0", "-1.0"}}) {
    const auto outside = picked(less, more);
    ASSERT_FALSE(outside);
    EXPECT_EQ(outside.error().diagnostics()[0].code, static_cast<uint16_t>(diag::Code::index_range));
  }
  // Of no elements none is in range.
  const auto nothing =
      evaluate_text(program("x: f32[0], z: f32[1]", "take(x, cast(where(exp(z) > 4.0, 3.0, -2.0), i64))"),
                    {Data(DType::f32, {0}, {}), Data(DType::f32, {1}, {std::log(4.0)})});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().diagnostics()[0].code, static_cast<uint16_t>(diag::Code::index_range));
}

// Roundings leave sum(x) > 1.0 open; a run that ends with an error has left no results to be compared.
TEST(ProgramValues, WhatOnlyAnOpenBranchCanNotDo) {
  const auto evaluated = [](const std::string& then, const std::string& otherwise, double k) {
    const std::string text = "def then(i, k):\n    return " + then + "\n\ndef otherwise(i, k):\n    return " +
                             otherwise +
                             "\n\ndef f(x: f32[10], i: i64[\"n\"], k: i64[()]):\n"
                             "    y = cond(sum(x, keepdim=False) > 1.0, then, otherwise, i, k)\n    return y\n";
    return evaluate_text(text,
                         {Data(DType::f32, {10}, Values(10, 0.1)), indices({3}, {4, 5, 6}), Data(DType::i64, {}, {k})});
  };
  const auto code = [](const Result<OracleResult>& result) {
    return result ? 0 : static_cast<int>(result.error().code());
  };
  const std::string whole = "sum(i, keepdim=False)", part = "sum(i[:k], keepdim=False)", one = "take(i, k, dim=0)";
  const auto both = evaluated(part, whole, 2);
  ASSERT_TRUE(both) << both.error().render();
  EXPECT_EQ(both->outputs[0].elements[0].exact_low, 9);
  EXPECT_EQ(both->outputs[0].elements[0].exact_high, 15);
  for (const std::string& fails : {part, one}) {
    for (const bool first : {true, false}) {
      const auto other = evaluated(first ? fails : whole, first ? whole : fails, 9);
      ASSERT_TRUE(other) << other.error().render();
      EXPECT_EQ(other->outputs[0].elements[0].exact_low, 15);
      EXPECT_EQ(other->outputs[0].elements[0].exact_high, 15);
    }
  }
  EXPECT_EQ(code(evaluated(part, one, 9)), 610);
  EXPECT_EQ(code(evaluated(one, part, 9)), 618);
  // What the oracle does not know is an error, whichever branch has it.
  const std::string unknown = "sum(i[:cast(sum(cast(i, f32) * 0.2, keepdim=False), i64)], keepdim=False)";
  EXPECT_EQ(code(evaluated(unknown, whole, 0)), 311);
  EXPECT_EQ(code(evaluated(whole, unknown, 0)), 311);
  for (const std::string& fails : {part, one}) {
    EXPECT_EQ(code(evaluated(fails, unknown, 9)), 311);
    EXPECT_EQ(code(evaluated(unknown, fails, 9)), 311);
  }
}

TEST(ProgramValues, ATurnThatOnlyAnOpenLoopCanNotDo) {
  const auto evaluated = [](double k) {
    return evaluate_text(
        "def more(s, i, k, y):\n    return s > 1.0\n\n"
        "def step(s, i, k, y):\n    return s - 0.5, i, k, y + sum(i[:k], keepdim=False)\n\n"
        "def f(x: f32[10], i: i64[\"n\"], k: i64[()]):\n"
        "    s, j, l, y = while_loop(more, step, sum(x, keepdim=False), i, k, sum(i, keepdim=False))\n    return y\n",
        {Data(DType::f32, {10}, Values(10, 0.1)), indices({3}, {4, 5, 6}), Data(DType::i64, {}, {k})});
  };
  const auto perhaps = evaluated(2), certain = evaluated(4);
  ASSERT_TRUE(perhaps) << perhaps.error().render();
  EXPECT_EQ(perhaps->outputs[0].elements[0].exact_low, 15);
  EXPECT_EQ(perhaps->outputs[0].elements[0].exact_high, 24);
  ASSERT_TRUE(certain) << certain.error().render();
  EXPECT_EQ(certain->outputs[0].elements[0].exact_low, 15);
  EXPECT_EQ(certain->outputs[0].elements[0].exact_high, 15);
}

TEST(ProgramValues, IndicesOutOfRange) {
  const std::string text = program("x: f32[\"n\", 4], i: i64[2, 2]", "take(x, i)");
  const auto wrong = evaluate_text(text, {matrix(3, 4), indices({2, 2}, {0, 1, 2, 3})});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().diagnostics()[0].code, static_cast<uint16_t>(diag::Code::index_range));
  EXPECT_EQ(wrong.error().diagnostics()[0].headline, "index 3 is out of range for the size 3");
  EXPECT_NE(wrong.error().render().find("[1, 1]"), std::string::npos) << wrong.error().render();
  Data large(DType::u64, {1});
  std::memset(large.at(0), 0xff, 8);
  const auto unsigned_index =
      evaluate_text(program("x: f32[3], i: u64[1]", "take(x, i)"), {Data(DType::f32, {3}, counted(3)), large});
  ASSERT_FALSE(unsigned_index);
  EXPECT_EQ(unsigned_index.error().diagnostics()[0].headline,
            "index 18446744073709551615 is out of range for the size 3");
  OracleOptions clamped;
  clamped.clamp_indices = true;
  EXPECT_EQ(values(program("x: f32[3], i: i64[2]", "take(x, i)"),
                   {Data(DType::f32, {3}, counted(3)), indices({2}, {-5, 9})}, clamped),
            (Values{0, 2}));
}

constexpr const char* branches = R"(
def up(x, y):
    return x * 2.0, y
def down(x, y):
    return x, y + 1.0
def f(p: bool[1], x: f32["n"], y: f32[2]):
    a, b = cond(p, up, down, x, y)
    c = concat(a, b)
    return c
)";

TEST(ProgramValues, Branches) {
  for (const bool taken : {true, false}) {
    Data p(DType::boolean, {1}, {taken ? 1.0 : 0.0});
    const Values wanted = taken ? Values{0, 2, 4, 0, 1} : Values{0, 1, 2, 1, 2};
    EXPECT_EQ(values(branches, {p, Data(DType::f32, {3}, counted(3)), Data(DType::f32, {2}, counted(2))}), wanted);
  }
}

constexpr const char* loop = R"(
def more(i, n, total):
    return i < n
def double(x):
    return x * 2
def same(x):
    return x
def step(i, n, total):
    t = total + i
    u = cond(i % 2 == 0, same, double, t)
    return i + 1, n, u
def f(n: i32[()], x: i32["m"]):
    i, n_out, y = while_loop(more, step, 0, n, x)
    return y
)";

TEST(ProgramValues, Loops) {
  int total = 5;
  for (int i = 0; i < 7; ++i) total = i % 2 == 0 ? total + i : (total + i) * 2;
  EXPECT_EQ(values(loop, {Data(DType::i32, {}, {7}), Data(DType::i32, {1}, {5})}),
            (Values{static_cast<double>(total)}));
  EXPECT_EQ(values(loop, {Data(DType::i32, {}, {0}), Data(DType::i32, {2}, {5, 6})}), (Values{5, 6}));
  OracleOptions few;
  few.max_iterations = 3;
  const auto endless = evaluate_text(loop, {Data(DType::i32, {}, {7}), Data(DType::i32, {1}, {5})}, few);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().diagnostics()[0].code, static_cast<uint16_t>(diag::Code::loop_endless));
}

TEST(ProgramValues, LoopsCarryTheirErrorBound) {
  const char* text = R"(
def more(i, x):
    return i < 20
def step(i, x):
    return i + 1, x - (x * x - 2.0) / (2.0 * x)
def f(x: f32["n"]):
    i, y = while_loop(more, step, 0, x)
    return y
)";
  const auto result = evaluate_text(text, {Data(DType::f32, {2}, {1, 2})});
  ASSERT_TRUE(result) << result.error().render();
  for (const ExpectedElement& e : result->outputs[0].elements) {
    EXPECT_LE(e.low, std::sqrt(2.0f));
    EXPECT_GE(e.high, std::sqrt(2.0f));
  }
}

TEST(ProgramValues, ExternFunctions) {
  const std::string text =
      "def f(x: f32[\"n\"]):\n    a, b = call_extern(\"halve\", x, out=(\"f32[n]\", \"i64[n // 2]\"))\n"
      "    y = concat(a, cast(b, f32))\n    return y\n";
  OracleOptions options;
  options.functions["halve"] = [](std::span<const TensorView> in, std::span<const TensorView> out) -> Result<void> {
    for (int64_t i = 0; i < in[0].shape()[0]; ++i)
      static_cast<float*>(out[0].data())[i] = static_cast<const float*>(in[0].data())[i] / 2;
    for (int64_t i = 0; i < out[1].shape()[0]; ++i) static_cast<int64_t*>(out[1].data())[i] = -i;
    return {};
  };
  EXPECT_EQ(values(text, {Data(DType::f32, {4}, counted(4))}, options), (Values{0, 0.5, 1, 1.5, 0, -1}));
  const auto unknown = evaluate_text(text, {Data(DType::f32, {4}, counted(4))});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().diagnostics()[0].code, static_cast<uint16_t>(diag::Code::target_lacks));
}

// Composites against their definitions in double.
TEST(ProgramValues, Composites) {
  Data x(DType::f32, {3, 8}), w(DType::f32, {8}), c(DType::f32, {3, 4}), s(DType::f32, {3, 4});
  x.fill_normal(1), w.fill_normal(2), c.fill_normal(3), s.fill_normal(4);
  const std::string parameters = "x: f32[3, 8], w: f32[8], c: f32[3, 4], s: f32[3, 4]";
  const auto check = [&](const std::string& expression, auto&& wanted) {
    const auto result =
        evaluate_text(program(parameters, expression + " + 0.0 * sum(w) + 0.0 * sum(c) + 0.0 * sum(s)"), {x, w, c, s});
    ASSERT_TRUE(result) << expression << result.error().render();
    for (size_t i = 0; i < 24; ++i) {
      const ExpectedElement& e = result->outputs[0].elements[i];
      const double value = wanted(i / 8, i % 8);
      EXPECT_LE(e.low, value + 1e-6) << expression << " " << i;
      EXPECT_GE(e.high, value - 1e-6) << expression << " " << i;
      EXPECT_LE(e.high - e.low, 1e-3) << expression << " " << i;
    }
  };
  const auto row = [&](size_t r, auto&& f) {
    double total = 0;
    for (size_t j = 0; j < 8; ++j) total += f(x.get(r * 8 + j));
    return total;
  };
  check("softmax(x)",
        [&](size_t r, size_t j) { return std::exp(x.get(r * 8 + j)) / row(r, [](double v) { return std::exp(v); }); });
  check("log_softmax(x)",
        [&](size_t r, size_t j) { return x.get(r * 8 + j) - std::log(row(r, [](double v) { return std::exp(v); })); });
  check("rms_norm(x, w)", [&](size_t r, size_t j) {
    return x.get(r * 8 + j) * w.get(j) / std::sqrt(row(r, [](double v) { return v * v; }) / 8 + 1e-6);
  });
  check("layer_norm(x, w, w)", [&](size_t r, size_t j) {
    const double mean = row(r, [](double v) { return v; }) / 8;
    const double variance = row(r, [&](double v) { return (v - mean) * (v - mean); }) / 8;
    return (x.get(r * 8 + j) - mean) / std::sqrt(variance + 1e-5) * w.get(j) + w.get(j);
  });
  for (const bool interleave : {false, true}) {
    check(interleave ? "rope(x, c, s, interleave=True)" : "rope(x, c, s)", [&](size_t r, size_t j) {
      const size_t k = interleave ? j / 2 : j % 4;
      const bool first = interleave ? j % 2 == 0 : j < 4;
      const double a = x.get(r * 8 + (interleave ? 2 * k : k)), b = x.get(r * 8 + (interleave ? 2 * k + 1 : k + 4));
      const double cosine = c.get(r * 4 + k), sine = s.get(r * 4 + k);
      return first ? a * cosine - b * sine : b * cosine + a * sine;
    });
  }
}

// Elements of 0 or 1 that roundings leave open.
int open(const std::string& text, std::vector<Data> data) {
  const auto result = evaluate_text(text, std::move(data));
  EXPECT_TRUE(result) << result.error().render();
  if (!result) return -1;
  int count = 0;
  for (const ExpectedElement& element : result->outputs[0].elements) count += element.low != element.high;
  return count;
}

// A value is one value wherever it is compared: with the largest of its row, and with itself in another place.
TEST(ProgramValues, ComparedWithWhatIsMadeOfIt) {
  Data x(DType::f32, {6, 9}), w(DType::f32, {9, 8}), c(DType::f32, {8});
  x.fill_normal(1), w.fill_normal(2), c.fill_normal(3);
  const auto text = [](const std::string& hot) {
    return "def f(x: f32[6, 9], w: f32[9, 8], c: f32[8]):\n    t = gelu(x @ w) * 0.3 + c\n    y = " + hot +
           "\n    return y\n";
  };
  for (const char* decided :
       {"t >= max(t, dim=-1)", "t < max(t, dim=-1)", "max(t, dim=-1) == t", "min(t, dim=-2) >= t",
        "reshape(t, (48,)) != max(t)", "transpose(t) >= transpose(max(t, dim=-1))", "t[:, ::2] <= min(t, dim=-1)",
        "reshape(t, (3, 2, 8)) >= max(reshape(t, (3, 2, 8)), dim=1)", "reshape(t, (6, 8, 1)) <= reshape(t, (6, 1, 8))",
        "t[1:] == t[1:]"}) {
    EXPECT_EQ(open(text(decided), {x, w, c}), 0) << decided;
  }
  // What only happens to be equal is not one value.
  EXPECT_GE(open(text("t >= t + 0.0 * c"), {x, w, c}), 40);
  EXPECT_EQ(open(text("t >= max(t * 1.0000001, dim=-1)"), {x, w, c}), 6);
  // Places that are compared with other places of it, or with the largest of another row, are open as ever.
  const Data same(DType::f32, {6, 9}, Values(54, 0.1));
  EXPECT_EQ(open(text("t[1:] >= t[:5]"), {same, w, c}), 40);
  EXPECT_GE(open(text("t[1:] >= max(t, dim=-1)[:5]"), {same, w, c}), 5);
}

TEST(ProgramValues, TheLargestOfEqualOnes) {
  const Data x(DType::f32, {2, 3}, {1, 3, 3, 5, 4, 5});
  EXPECT_EQ(values("def f(x: f32[2, 3]):\n    y = cast(x >= max(x, dim=-1), f32)\n    return y\n", {x}),
            (Values{0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(values("def f(x: f32[2, 3]):\n    y = cast(x > min(x, dim=-2), f32)\n    return y\n", {x}),
            (Values{0, 0, 0, 1, 1, 1}));
  const Data nan(DType::f32, {1, 2}, {1, std::nan("")});
  EXPECT_EQ(values("def f(x: f32[1, 2]):\n    y = cast(x >= max(x, dim=-1), f32)\n    return y\n", {nan}),
            (Values{0, 0}));
}

}  // namespace
}  // namespace codetta::oracle::test
