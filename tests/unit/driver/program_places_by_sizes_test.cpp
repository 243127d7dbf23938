// SPDX-License-Identifier: Apache-2.0
// Sizes that values give, where they say where a product reads or stores: runs against the oracle.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

class PlacesBySizes : public ::testing::Test {
 protected:
  ProgramOutcome run(const std::string& text, const std::vector<ProgramInput>& inputs) {
    const auto program = Program::parse(text, "p.py");
    EXPECT_TRUE(program) << (program ? "" : program.error().render());
    return program ? run_checked(*program, text, inputs, context_) : ProgramOutcome{};
  }
  Context context_ = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
};

// Where a factor begins is in no type of what its product reads.
TEST_F(PlacesBySizes, FactorsBeginAtThem) {
  const std::string text =
      "def f(x: f32[\"n\", 6], j: i64, l: i64[1], w: f32[6, 5], q: f32[3, 6]):\n"
      "    y = x[j:j + 4] @ w\n"
      "    k = l[0] % 5\n"
      "    z = q @ transpose(x[k:k + 4])\n"
      "    return y, z\n";
  for (const int64_t at : {0, 3, 8}) {
    const auto outcome =
        run(text, {random_input("x", DType::f32, {12, 6}, 1), number_input("j", at),
                   values_input("l", DType::i64, {1}, {static_cast<double>(at)}),
                   random_input("w", DType::f32, {6, 5}, 2), random_input("q", DType::f32, {3, 6}, 3)});
    EXPECT_TRUE(outcome.checked) << at;
  }
}

// A product decides a size of the join that it is a part of, or where in it it lies: it can't be stored there at once.
TEST_F(PlacesBySizes, JoinsWhoseSizeOneOfTheirPartsSays) {
  const std::string kept = "cast(max(p, dim=1, keepdim=False) > 0.5, i64)";
  for (const std::string body :
       {"y = concat(p, zeros(k, 8), dim=0)", "y = concat(p, zeros(k, 8), dim=0) @ b", "y = concat(p, x[:k] @ v, dim=0)",
        "y = concat(x[:k] @ v, p, zeros(n - k, 8), dim=0)",
        "q = (x * 2.0) @ v; h = sum(cast(max(q, dim=1, keepdim=False) > 0.5, i64), keepdim=False); "
        "y = concat(concat(p, zeros(h, 8), dim=0), concat(q, zeros(k, 8), dim=0), dim=0)"}) {
    std::string lines;
    for (size_t at = 0; at < body.size();) {
      const size_t end = std::min(body.find("; ", at), body.size());
      lines += "    " + body.substr(at, end - at) + "\n";
      at = end + 2;
    }
    const std::string text = "def f(x: f32[\"n\", 16], v: f32[16, 8], b: f32[8, 8]):\n    p = x @ v\n    k = sum(" +
                             kept + ", keepdim=False)\n" + lines + "    return y\n";
    // b is used by one of them alone.
    const bool all = body.find("@ b") != std::string::npos;
    std::vector<ProgramInput> inputs = {random_input("x", DType::f32, {9, 16}, 1),
                                        random_input("v", DType::f32, {16, 8}, 2)};
    if (all) inputs.push_back(random_input("b", DType::f32, {8, 8}, 3));
    std::string used = text;
    if (!all) used.erase(used.find(", b: f32[8, 8]"), std::string(", b: f32[8, 8]").size());
    EXPECT_TRUE(run(used, inputs).checked) << used;
  }
}

}  // namespace
}  // namespace codetta::test
