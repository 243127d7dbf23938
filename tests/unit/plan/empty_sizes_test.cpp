// SPDX-License-Identifier: Apache-2.0
// Plans for sizes of 0 on a GPU: each kernel makes all that it stores, also where there is nothing to be computed it
// with.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/analyses.hpp"
#include "package/gpu_call.hpp"
#include "plan/lower.hpp"
#include "support/random_epilogue.hpp"
#include "support/random_program.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/plan_package.hpp"

namespace {

using namespace codetta;

Result<plan::Plan> plan_on(const char* gpu, const std::string& text, plan::Alignment alignment) {
  CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
  return plan::plan_program(graph, Target::parse(gpu).value(), {}, {}, {}, alignment);
}

TEST(PlanForEmptySizes, RandomProgramsMissNothing) {
  const uint64_t count = CODETTA_TEST_FULL ? 6000 : 300;
  size_t missing = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    test::RandomProgramOptions options = test::drawn_options(seed);
    options.operations = 4 + static_cast<int>(seed % 12);
    options.devices = 1;
    const test::RandomProgram program = test::random_program(seed, options);
    const char* const gpu = seed % 3 == 0 ? "hip:gfx942" : seed % 3 == 1 ? "cuda:sm_80" : "metal:apple9";
    const auto any = plan_on(gpu, program.text, plan::Alignment::Any);
    if (!any) continue;
    missing += package::misses_stores(test::package_of(*any)) ? 1 : 0;
    const auto empty = plan_on(gpu, program.text, plan::Alignment::Empty);
    ASSERT_TRUE(empty) << "seed " << seed << "\n" << empty.error().render() << program.text;
    const package::Package package = test::package_of(*empty);
    EXPECT_FALSE(package::misses_stores(package)) << "seed " << seed << "\n" << program.text << plan::to_string(*empty);
    EXPECT_FALSE(package::find_defect(package)) << "seed " << seed << "\n" << program.text;
  }
  EXPECT_GT(missing, count / 200);
}

// A GEMM's epilogue as a program, where its one kernel would miss some: there is none for which kernels are not found.
TEST(PlanForEmptySizes, RandomEpiloguesAreProgramsThen) {
  const uint64_t count = CODETTA_TEST_FULL ? 20000 : 1000;
  size_t missing = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const auto graph = test::random_epilogue(seed);
    if (!graph || ir::matmuls(*graph).size() != 1) continue;
    const auto lowered = plan::lower_epilogue(*graph, ir::matmuls(*graph)[0], {});
    if (!lowered || package::missing_when(lowered->program, true) == 0) continue;
    const auto empty = plan::plan_program(*graph, Target::parse(seed % 2 == 0 ? "hip:gfx942" : "cuda:sm_90a").value(),
                                          {}, {}, {}, plan::Alignment::Empty);
    ASSERT_TRUE(empty) << "seed " << seed << "\n" << empty.error().render() << ir::print(*graph);
    const package::Package package = test::package_of(*empty);
    EXPECT_FALSE(package::find_defect(package)) << "seed " << seed << "\n" << ir::print(*graph);
    ++missing;
  }
  EXPECT_GT(missing, count / 20);
}

// Of b's rows and "m" of them one axis is made: where "m" is 0 that has no element, and b and what is made of it alone
// have all of theirs.
TEST(PlanForEmptySizes, WhatLiesAlongTheFixedPartOfAnAxisHasAKernelOfItsOwn) {
  for (const char* on : {"cpu:avx512", "cuda:sm_90a", "hip:gfx942", "metal:apple9"}) {
    const auto launches = [&](const std::string& b, const std::string& x) {
      const auto plan =
          plan_on(on, "def f(b: f32[" + b + "], x: f32[" + x + "]):\n    z = x * b\n    y = tanh(b)\n    return z, y\n",
                  plan::Alignment::Any);
      if (!plan) return plan.error().render();
      const package::Package package = test::package_of(*plan);
      return std::to_string(std::count_if(package.steps.begin(), package.steps.end(), [](const package::Step& step) {
        return std::holds_alternative<package::LaunchKernel>(step);
      }));
    };
    EXPECT_EQ(launches("\"n\", 1, 12, 64", "\"n\", \"m\", 12, 64"), "2") << on;
    EXPECT_EQ(launches("\"n\", 1, 12, 64", "\"n\", 5, 12, 64"), "1") << on;
    EXPECT_EQ(launches("\"n\", 1, 64", "\"n\", \"m\", 64"), "1") << on;  // not along the axis: asked when it runs
  }
}

}  // namespace
