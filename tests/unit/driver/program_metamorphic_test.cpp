// SPDX-License-Identifier: Apache-2.0
// Pairs of programs that say the same in other words, so that other kernels, fusions and steps compute it: the bits of
// their results are equal, without a reference. The data are small integers, of which every sum is exact.
#include <cstring>

#include "support/slice.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

struct Pair {
  const char* name;
  const char* parameters;
  const char* one;  // bodies: statements that define y
  const char* other;
  const char* functions = "";  // in front of both
};

constexpr const char* branches =
    "def double(t):\n    u = t * 2.0\n    return u\n"
    "def lower(t):\n    u = t - 3.0\n    return u\n"
    "def until(i, t):\n    go = i < 3\n    return go\n"
    "def turn(i, t):\n    u = minimum(t * 2.0 - 1.0, 64.0)\n    return i + 1, u\n";

constexpr Pair pairs[] = {
    {"a product of transposes", "x: f32[\"n\", 12], w: f32[12, 20]", "y = x @ w",
     "y = transpose(transpose(w) @ transpose(x))"},
    {"a scale of the result or of a factor", "x: f32[\"n\", 12], w: f32[12, 20], b: f32[20]", "y = (x @ w) * 2.0 + b",
     "y = x @ (w * 2.0) + b"},
    {"a scale of rows", "x: f32[\"n\", 12], w: f32[12, 20], s: f32[\"n\", 1]", "y = (x @ w) * s", "y = (x * s) @ w"},
    {"weights of few bits", "x: f32[\"n\", 12], q: i8[12, 20], s: f32[20]", "y = x @ (cast(q, f32) * s)",
     "y = (x @ cast(q, f32)) * s"},
    {"columns joined before or after", "x: f32[\"n\", 12], w: f32[12, 20], v: f32[12, 8]",
     "y = x @ concat(w, v, dim=1)", "y = concat(x @ w, x @ v, dim=1)"},
    {"rows joined before or after", "x: f32[\"n\", 12], u: f32[\"m\", 12], w: f32[12, 20]",
     "y = concat(x, u, dim=0) @ w", "y = concat(x @ w, u @ w, dim=0)"},
    {"rows of a join", "x: f32[\"n\", 12], u: f32[\"m\", 12], w: f32[12, 20]",
     "y = concat(u * 2.0, x, relu(u), dim=0)[m:m + n] @ w", "y = concat(x @ w, u @ w, dim=0)[:n]"},
    {"columns of a join", "x: f32[\"n\", 12], c: f32[\"n\", 5]",
     "y = relu(concat(c, x - 1.0, c * 2.0, zeros(n, 0), dim=1)[:, 5:17]) + c[:, :1]", "y = relu(x - 1.0) + c[:, :1]"},
    {"a sum over a joined K", "x: f32[\"n\", 12], u: f32[\"n\", 4], w: f32[12, 20], v: f32[4, 20]",
     "y = concat(x, u, dim=1) @ concat(w, v, dim=0)", "y = x @ w + u @ v"},
    {"row sums of a product", "x: f32[\"n\", 12], w: f32[12, 20]", "y = sum(x @ w, dim=-1)", "y = x @ sum(w, dim=-1)"},
    {"column sums of a product", "x: f32[\"n\", 12], w: f32[12, 20]", "y = sum(x @ w, dim=0)", "y = sum(x, dim=0) @ w"},
    {"the greatest by the least", "x: f32[\"n\", 12], w: f32[12, 20]", "y = max(x @ w, dim=-1)",
     "y = -min(-(x @ w), dim=-1)"},
    {"a maximum by a choice", "x: f32[\"n\", 12], w: f32[12, 20], c: f32[\"n\", 20]",
     "a = x @ w\n    y = maximum(a, c)", "a = x @ w\n    y = where(a > c, a, c)"},
    {"rows taken before or after", "x: f32[\"n\", 12], w: f32[12, 20], i: i64[\"m\"]", "y = relu(take(x @ w, i))",
     "y = relu(take(x, i) @ w)"},
    {"a slice before or after", "x: f32[\"n\", 12], w: f32[12, 20]", "y = (x @ w)[:, 1::3]", "y = x @ w[:, 1::3]"},
    {"rows in reverse thirds", "x: f32[\"3*m\", 12], w: f32[12, 20], c: f32[\"m\", 20]",
     "a, b, d = split(x @ w, 3, dim=0)\n    y = concat(d, b + c, a, dim=0)",
     "a, b, d = split(x, 3, dim=0)\n    y = concat(d @ w, b @ w + c, a @ w, dim=0)"},
    {"items as rows", "x: f32[\"m\", \"n\", 12], w: f32[12, 20]", "y = relu(x @ w)",
     "y = reshape(relu(reshape(x, (m*n, 12)) @ w), (m, n, 20))"},
    {"heads stored apart", "x: f32[\"n\", 12], w: f32[12, 20]", "y = permute(reshape(x @ w, (n, 4, 5)), (1, 0, 2))",
     "a = expand(unsqueeze(x, 0), 4, -1, -1)\n    y = a @ permute(reshape(w, (12, 4, 5)), (1, 0, 2))"},
    {"three factors from the left or the right", "x: f32[\"n\", 6], w: f32[6, 5], v: f32[5, 8]", "y = (x @ w) @ v",
     "y = x @ (w @ v)"},
    {"an index by a product", "t: f32[\"v\", 8], i: i64[\"m\"]", "y = embedding(t, i)",
     "y = where(reshape(i, (m, 1)) == reshape(arange(v), (1, v)), 1.0, 0.0) @ t"},
    {"added rows by a product", "t: f32[\"v\", 8], i: i64[\"m\"], r: f32[\"m\", 8]",
     "y = index_put(t, i, r, accumulate=True)",
     "y = t + transpose(where(reshape(i, (m, 1)) == reshape(arange(v), (1, v)), 1.0, 0.0)) @ r"},
    {"elements gathered by a choice", "t: f32[4, 8], i: i32[\"m\", 8]", "y = gather(t, i)",
     "y = where(i == 0, t[0], where(i == 1, t[1], where(i == 2, t[2], t[3])))"},
    {"a branch by a choice", "x: f32[\"n\", 12], w: f32[12, 20]",
     "a = x @ w\n    y = cond(sum(x) > 0.0, double, lower, a)",
     "a = x @ w\n    y = where(sum(x) > 0.0, a * 2.0, a - 3.0)", branches},
    {"a loop by its turns", "x: f32[\"n\", 12], w: f32[12, 20]", "i, y = while_loop(until, turn, 0, x @ w)",
     "_, a = turn(0, x @ w)\n    _, b = turn(1, a)\n    _, y = turn(2, b)", branches},
    {"one product or two", "x: f32[\"n\", 12], w: f32[12, 20]", "p = x @ w\n    y = p * 3.0 - relu(p)",
     "p = transpose(transpose(w) @ transpose(x))\n    y = (x @ w) * 3.0 - relu(p)"},
    {"positions behind a start", "x: f32[\"n\", \"m\"]", "y = x + cast(arange(n + m)[n:], f32)",
     "y = x + cast(arange(m), f32) + sum(ones(n), keepdim=False)"},
    {"the last position for none", "x: f32[\"n\", \"m\"]",
     "y = cast(min(where(x >= max(x, dim=-1), arange(m), arange(n + m + 1)[n + m]), dim=-1), f32)",
     "y = cast(min(where(x >= max(x, dim=-1), arange(m), 2**40), dim=-1), f32)"},
    {"rows behind a start of a product", "x: f32[\"n\", 12], w: f32[12, 20]",
     "y = x @ w + cast(reshape(arange(3 * n)[2 * n:], (n, 1)), f32)",
     "y = x @ w + cast(reshape(arange(n), (n, 1)), f32) + 2.0 * sum(ones(n), keepdim=False)"},
    {"positions in all of a matrix", "x: f32[\"n\", \"m\"]",
     "y = sum(x + cast(reshape(arange(n * m), (n, m)), f32), dim=-1)",
     "y = sum(x + cast(reshape(arange(n), (n, 1)), f32) * sum(ones(m), keepdim=False) + cast(arange(m), f32), dim=-1)"},
    {"a weight of positions", "x: f32[\"n\", 12], w: f32[12, 20]", "y = x @ (w + cast(arange(20 + n)[n:], f32))",
     "y = x @ w + sum(x, dim=-1) * cast(arange(20 + n)[n:], f32)"},
    {"a sum of columns of heads", "x: f32[\"n\", 4, \"m\", 5]",
     "y = sum(reshape(permute(x, (2, 0, 1, 3)), (m * n, 20)), dim=0)",
     "y = ones(1, m * n) @ reshape(permute(x, (0, 2, 1, 3)), (m * n, 20))"},
    {"a residual in front or behind", "x: f32[\"n\", 12], w: f32[12, 20], c: f32[\"n\", 20]",
     "y = relu(x @ w + c) * 2.0", "h = c + x @ w\n    y = maximum(h + h, 0.0)"},
};

using Sizes = std::vector<std::pair<std::string, int64_t>>;

// Small integers by parameter, for both programs of a pair; what one of them takes for an index is in range.
std::vector<ProgramInput> inputs_of(const Program& one, const Program& other, const Sizes& sizes) {
  std::vector<ProgramInput> inputs;
  uint64_t seed = 1;
  const auto mine = one.missing({}, sizes, 7), others = other.missing({}, sizes, 7);
  EXPECT_TRUE(mine) << mine.error().render();
  EXPECT_TRUE(others) << others.error().render();
  if (!mine || !others) return inputs;
  for (size_t i = 0; i < mine->size(); ++i) {
    const codetta::ProgramInput& input = (*mine)[i];
    const int64_t limit = std::min<int64_t>(4, std::max(input.index_limit, (*others)[i].index_limit));
    int64_t elements = 1;
    for (const int64_t size : input.shape) elements *= size;
    std::vector<double> values(static_cast<size_t>(elements));
    for (double& value : values) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const auto drawn = static_cast<int64_t>(seed >> 40);
      value = static_cast<double>(limit > 0 ? drawn % limit : drawn % 7 - 3);
    }
    inputs.push_back(values_input(input.name, input.dtype, input.shape, values));
  }
  return inputs;
}

bool has_symbol(const Pair& pair, const std::string& symbol) {
  const std::string_view parameters = pair.parameters;
  return parameters.find('"' + symbol + '"') != std::string_view::npos ||
         parameters.find('*' + symbol + '"') != std::string_view::npos;
}

std::string text_of(const Pair& pair, const char* body) {
  return std::string(pair.functions) + "def program(" + pair.parameters + "):\n    " + body + "\n    return y\n";
}

class Metamorphic : public testing::TestWithParam<Pair> {};

TEST_P(Metamorphic, TheSameBitsInOtherWords) {
  const Pair& pair = GetParam();
  // Compiled in a quarter of all commits, interpreted in the others.
  const bool compiled = CODETTA_TEST_FULL || (slice_of(pair.name) + commit_slice()) % 4 == 0;
  Context context = Context::make({.cache_enabled = false, .no_compiler = !compiled, .threads = 2}).value();
  const auto one = Program::parse(text_of(pair, pair.one), "one.py"),
             other = Program::parse(text_of(pair, pair.other), "other.py");
  ASSERT_TRUE(one) << one.error().render();
  ASSERT_TRUE(other) << other.error().render();
  const std::string first = compile(*one, Target::host(), {}, context).value().emit(Stage::Plan).value();
  ASSERT_NE(first, compile(*other, Target::host(), {}, context).value().emit(Stage::Plan).value())
      << "the pair is planned in one way, and proves nothing";
  for (const int64_t n : {1, 5, 33}) {
    Sizes sizes;
    for (const auto& [symbol, size] : {std::pair("n", n), {"m", n % 4 + 1}, {"v", 4 + n}}) {
      if (has_symbol(pair, symbol)) sizes.emplace_back(symbol, size);
    }
    const std::vector<ProgramInput> inputs = inputs_of(*one, *other, sizes);
    const ProgramOutcome left = run_checked(*one, pair.one, inputs, context),
                         right = run_checked(*other, pair.other, inputs, context);
    ASSERT_EQ(left.outputs.size(), 1U);
    ASSERT_EQ(right.outputs.size(), 1U);
    const TensorView a = left.outputs[0].view(), b = right.outputs[0].view();
    ASSERT_EQ(a.shape(), b.shape());
    const auto count = static_cast<size_t>(a.element_count());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(a.as<float>()[i] + 0.0f, b.as<float>()[i] + 0.0f) << "n = " << n << ", element " << i;  // -0 is 0
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pairs, Metamorphic, testing::ValuesIn(pairs), [](const auto& instance) {
  std::string name = instance.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

}  // namespace
}  // namespace codetta::test
