// SPDX-License-Identifier: Apache-2.0
// Values that are compared with the largest of them, or with themselves in another place: kernels and phases that
// compute them again get the same bits, so that every row has an element that is its largest one, and checks say so.
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

constexpr int64_t most_rows = 500;

class ProgramCompared : public ::testing::TestWithParam<bool> {
 protected:
  // Runs a program of x: f32["n", 64], w: f32[64, 32], g: f32[32] or [64], c: f32[..] whose first output counts, row by
  // row, elements that are the largest one.
  void expect_one_in_each_row(const std::string& body, int64_t width, bool matrix = false) {
    const std::string text = "def f(x: f32[\"n\", 64], w: f32[64, " + std::to_string(matrix ? 64 : 32) + "], g: f32[" +
                             std::to_string(width) + "], c: f32[" + std::to_string(width) + "]):\n" + body;
    for (const int64_t n : {int64_t{1}, int64_t{7}, most_rows}) {
      const uint64_t seed = static_cast<uint64_t>(n) * 10;
      const std::vector<ProgramInput> inputs{
          random_input("x", f32, {n, 64}, seed + 1), random_input("w", f32, {64, matrix ? 64 : 32}, seed + 2),
          random_input("g", f32, {width}, seed + 3), random_input("c", f32, {width}, seed + 4)};
      const ProgramOutcome outcome = run_checked(text, inputs, context_);
      ASSERT_TRUE(outcome.checked) << text;
      const auto* count = outcome.outputs[0].view().as<int64_t>();
      for (int64_t row = 0; row < n; ++row) ASSERT_EQ(count[row], 1) << "row " << row << " of " << n << "\n" << text;
    }
  }
  Context context_ = Context::make({.cache_enabled = false, .no_compiler = GetParam(), .threads = 2}).value();
};

TEST_P(ProgramCompared, ElementsThatAreTheLargestOfTheirRow) {
  // A product that something else reads, too, which a compiler contracts in one phase and not in the other one.
  expect_one_in_each_row(
      "    s = (x @ w) * g\n    t = s + c\n    count = sum(cast(t >= max(t, dim=-1), i64), dim=-1)\n"
      "    return count, s\n",
      32);
  expect_one_in_each_row(
      "    h = x @ w\n    t = h * g + c\n    best = max(t, dim=-1)\n    y = where(t >= best, relu(h * g), 0.0)\n"
      "    count = sum(cast(best <= t, i64), dim=-1)\n    return count, y\n",
      32);
  expect_one_in_each_row(
      "    s = x * g\n    t = s - c\n    hot = cast(t <= min(t, dim=-1), f32)\n    y = hot @ w\n"
      "    count = sum(cast(hot, i64), dim=-1)\n    return count, y, s\n",
      64);
  // The second largest, and the largest of what a softmax makes.
  expect_one_in_each_row(
      "    p = softmax((x @ w) * g + c)\n    first = p >= max(p, dim=-1)\n    rest = where(first, -inf, p)\n"
      "    count = sum(cast(rest >= max(rest, dim=-1), i64), dim=-1)\n    return count, p\n",
      32);
}

TEST_P(ProgramCompared, InAnotherKernel) {
  // The largest is found in front of the product that computes the elements again behind it.
  expect_one_in_each_row(
      "    s = x * g\n    t = s + c\n    best = max(t, dim=-1)\n    z = relu((x @ w) * best)\n"
      "    hot = cast(t >= best, i64) * cast(z >= 0.0, i64)\n    count = sum(hot, dim=-1)\n    y = z + s\n"
      "    return count, y\n",
      64, true);
}

TEST_P(ProgramCompared, PlacesInAnOrder) {
  // How many of a row are larger: of the largest none, which its comparison with itself must not change.
  expect_one_in_each_row(
      "    t = (x @ w) * g + c\n    larger = reshape(t, (n, 32, 1)) < reshape(t, (n, 1, 32))\n"
      "    rank = sum(cast(larger, i64), dim=-1, keepdim=False)\n    hot = cast(rank == 0, i64)\n"
      "    count = sum(hot, dim=-1)\n    return count, rank\n",
      32);
}

INSTANTIATE_TEST_SUITE_P(, ProgramCompared, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Interpreted" : "Compiled"; });

}  // namespace
}  // namespace codetta::test
