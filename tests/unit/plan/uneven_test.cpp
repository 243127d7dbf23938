// SPDX-License-Identifier: Apache-2.0
// Plans for tensors of the caller's whose leading dims have more strides than two: products read copies of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "opt/passes.hpp"
#include "package/factors.hpp"
#include "plan/regions.hpp"
#include "support/layouts.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/plan_package.hpp"

namespace {

using namespace codetta;

Result<plan::Plan> plan_on(const char* target, const std::string& text, plan::Alignment alignment) {
  CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
  return plan::plan_program(optimized.graph, Target::parse(target).value(), {}, {}, {}, alignment);
}

size_t copies_in(const plan::Plan& plan) {
  return static_cast<size_t>(std::count_if(plan.notes.begin(), plan.notes.end(), [](const plan::FusionNote& note) {
    return note.action == plan::action::copied;
  }));
}

TEST(PlanForUnevenFactors, WhatMayBeUnevenIsCopied) {
  const struct {
    const char *parameters, *body;
    size_t copies;
  } cases[] = {
      {"x: f32['b', 3, 2, 'm', 8], w: f32[8, 8]", "    y = x @ w\n    return y\n", 1},
      {"x: f32['b', 3, 2, 'm', 8], k: f32['b', 3, 2, 'm', 8]", "    y = x @ transpose(k, 3, 4)\n    return y\n", 2},
      {"x: f32['b', 3, 2, 'm', 8]", "    y = x @ transpose(x, 3, 4)\n    return y\n", 1},
      {"x: f32['b', 3, 2, 'm', 8], w: f32[8, 8]", "    h = relu(x)\n    y = h @ w\n    return y\n", 0},
      {"x: f32['b', 3, 2, 'm', 8], w: f32[8, 8]", "    h = relu(x)\n    y = h @ w\n    return y, h\n", 1},
      {"x: f32['b', 3, 2, 'm', 8], w: f32[8, 8]", "    h = x @ w\n    y = h @ w\n    return y, h\n", 2},
      // One stride is enough for one dim, and two are for two, where those of both factors are as many.
      {"x: f32['b', 3, 'm', 8], w: f32[8, 8]", "    h = x @ w\n    y = h @ w\n    return y, h\n", 0},
      {"x: f32['b', 3, 'm', 8], k: f32['b', 3, 'm', 8]", "    y = x @ transpose(k, 2, 3)\n    return y\n", 0},
      {"x: f32['b', 'm', 8], w: f32[8, 8]", "    h = x @ w\n    y = h @ w\n    return y, h\n", 0},
      {"x: f32['b', 1, 2, 'm', 8], w: f32[8, 8]", "    h = x @ w\n    y = h @ w\n    return y, h\n", 0},
      // What is read by index arithmetic lies anywhere, and so does what an epilogue reads.
      {"x: f32['b', 3, 2, 'm', 8], w: f32[8, 8], r: f32['b', 3, 2, 'm', 8]", "    y = relu(x @ w + r)\n    return y\n",
       1},
      {"x: f32['b', 3, 2, 'm', 8], w: f32[8, 8], r: f32['b', 3, 2, 'm', 8]",
       "    h = relu(x) @ w\n    y = h + r\n    return y, h\n", 0},
  };
  for (const auto& one : cases) {
    const std::string text = std::string("def f(") + one.parameters + "):\n" + one.body;
    for (const char* target : {"cpu:avx2", "cuda:sm_90a", "hip:gfx942"}) {
      const auto any = plan_on(target, text, plan::Alignment::Any);
      ASSERT_TRUE(any) << any.error().render();
      EXPECT_EQ(copies_in(*any), 0u) << target << text;
      std::set<uint32_t> factors;
      for (const auto& of_launch : package::uneven_factors(test::package_of(*any)))
        factors.insert(of_launch.begin(), of_launch.end());
      EXPECT_EQ(factors.size(), one.copies) << target << text;
      EXPECT_EQ(package::may_be_uneven(test::package_of(*any)), one.copies != 0) << target << text;
      for (const auto alignment : {plan::Alignment::Uneven, plan::Alignment::Empty}) {
        const auto uneven = plan_on(target, text, alignment);
        ASSERT_TRUE(uneven) << uneven.error().render();
        EXPECT_GE(copies_in(*uneven), one.copies) << target << text;
        EXPECT_FALSE(package::may_be_uneven(test::package_of(*uneven))) << target << text;
      }
    }
    const auto metal = plan_on("metal:apple9", text, plan::Alignment::Uneven);
    ASSERT_TRUE(metal) << metal.error().render();
    EXPECT_EQ(copies_in(*metal), 0u) << "there tensors are row-major";
  }
}

// Of branches and loops, too, whose values lie where those of the program do.
TEST(PlanForUnevenFactors, BranchesAndLoopsReadNone) {
  for (const test::LayoutProgram& program : test::layout_programs()) {
    for (const char* target : {"cpu:avx2", "cuda:sm_80", "hip:gfx942"}) {
      const auto any = plan_on(target, program.text, plan::Alignment::Any);
      const auto uneven = plan_on(target, program.text, plan::Alignment::Uneven);
      ASSERT_TRUE(any && uneven) << program.text << (any ? uneven : any).error().render();
      const package::Package package = test::package_of(*uneven);
      EXPECT_FALSE(package::may_be_uneven(package)) << program.text << plan::to_string(*uneven);
      EXPECT_FALSE(package::find_defect(package)) << program.text;
      if (package::may_be_uneven(test::package_of(*any))) continue;
      EXPECT_EQ(plan::to_string(*uneven), plan::to_string(*any)) << program.text << "there is nothing to be copied";
    }
  }
  const char* const last = test::layout_programs().back().text;
  EXPECT_TRUE(package::may_be_uneven(test::package_of(*plan_on("cpu:avx2", last, plan::Alignment::Any))));
}

// Of sizes without hints a batch is taken to be no larger than grids are.
TEST(PlanForUnevenFactors, BatchesOfSeveralUnknownSizes) {
  for (const char* target : {"cuda:sm_80", "hip:gfx942", "hip:gfx1100"}) {
    const auto plan =
        plan_on(target, "def f(v: f32['b', 'h', 's', 'd'], w: f32['d', 't']):\n    z = v @ w\n    return z\n",
                plan::Alignment::Any);
    EXPECT_TRUE(plan) << target << plan.error().render();
  }
}

}  // namespace
