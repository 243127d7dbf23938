// SPDX-License-Identifier: Apache-2.0
// Parts of joins that products' kernels store in the join, on an AMD GPU that is none: each element is the oracle's.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "emulator/hip_context.hpp"
#include "support/device_arguments.hpp"

namespace codetta {
namespace {

using JoinParts = EmulatedHip;
using Sizes = std::vector<std::pair<std::string, int64_t>>;

struct Case {
  const char* text;
  std::vector<Sizes> sizes;
};

TEST_F(JoinParts, AreWhereTheJoinHasThem) {
  const Case cases[] = {
      // Columns, of symbols too, behind epilogues; one part is an output and read again as well.
      {"def f(x: f16[\"m\", 64], a: f16[64, \"n\"], b: f16[64, 17], c: f32[17]):\n    p = x @ b\n"
       "    y = join(x @ a, relu(p + c), p, dim=1)\n    return y, p\n",
       {{{"m", 33}, {"n", 129}}, {{"m", 1}, {"n", 1}}, {{"m", 4}, {"n", 0}}, {{"m", 0}, {"n", 8}}}},
      // Rows, and columns of one size by turns.
      {"def f(x: f32[\"m\", 40], z: f32[\"n\", 40], a: f32[40, 24], b: f32[40, 24]):\n"
       "    y = join(x @ a, z @ a, dim=0)\n    w = join(x @ a, (x @ b) * 2.0, dim=1, interleave=True)\n"
       "    return y, w\n",
       {{{"m", 17}, {"n", 70}}, {{"m", 1}, {"n", 0}}}},
      // A batch, turned, in a join again, and a product of it.
      {"def f(x: f16[3, \"m\", 32], z: f16[\"m\", 32], a: f16[3, 32, 16], b: f16[32, 48], v: f16[64, 8]):\n"
       "    t = join(permute(x @ a, (1, 0, 2)), reshape(z @ b, (m, 3, 16)), dim=1)\n"
       "    y = join(join(cast(z @ b, f16), cast(z @ a[0], f16), dim=1), join(cast(z @ a[1], f16), cast(z @ b, f16), "
       "dim=1), dim=0) @ v\n    return t, y\n",
       {{{"m", 5}}, {{"m", 64}}}},
      // What no product makes, in front and behind.
      {"def f(old: f32[\"s\", 24], x: f32[\"m\", 40], a: f32[40, 24]):\n    y = join(old, x @ a, old * 2.0, dim=0)\n"
       "    return y\n",
       {{{"s", 9}, {"m", 3}}, {{"s", 0}, {"m", 20}}}},
  };
  for (const Case& one : cases) {
    const Program program = Program::parse(one.text).value();
    const CompiledProgram compiled = compile(program, hip_, one.sizes[0], *context_).value();
    for (const Sizes& sizes : one.sizes) {
      const auto made = test::device_arguments(program, sizes, *device_, 3).value();
      ASSERT_TRUE(made);
      const auto ran = compiled.run(made->arguments);
      ASSERT_TRUE(ran) << one.text << ran.error().render();
      const auto checked = verify(program, made->arguments, hip_, made->how, *context_);
      ASSERT_TRUE(checked) << checked.error().render();
      EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << one.text << checked->text;
    }
  }
}

}  // namespace
}  // namespace codetta
