// SPDX-License-Identifier: Apache-2.0
// Which kernels finish all phases of an epilogue over pieces that hold whole rows.
#include <gtest/gtest.h>

#include <string>

#include "opt/passes.hpp"
#include "plan/families_cuda.hpp"
#include "plan/plan.hpp"
#include "unit/plan/bind_text.hpp"

namespace {

using namespace codetta;
using package::GpuGemmConfig;

// The kernel of a program of one, and how many candidates hold whole rows.
struct Planned {
  plan::PlannedKernel kernel;
  size_t whole = 0;
};
Planned planned(const std::string& text, const std::string& arch = "sm_90a") {
  const auto graph = test::bind_program_text(text);
  EXPECT_TRUE(graph) << graph.error().render();
  const auto optimized = opt::optimize(*graph);
  EXPECT_TRUE(optimized);
  auto plan = plan::plan_program(optimized->graph, {Backend::cuda, CpuIsa::generic, arch}, {}, {{"n", 128}});
  EXPECT_TRUE(plan) << plan.error().render();
  Planned result{plan->kernels.at(0)};
  for (const plan::Candidate& candidate : result.kernel.discovery.candidates) {
    const GpuGemmConfig& c = package::gpu(candidate.config);
    if (!c.whole_rows) continue;
    ++result.whole;
    EXPECT_FALSE(c.copied || c.from_registers || c.combines) << candidate.name;
    const plan::PieceLayout layout = plan::piece_layout(result.kernel.lowered.program, c);
    EXPECT_GE(layout.across * layout.lanes, c.piece_cols) << candidate.name;
    EXPECT_LE(layout.across, 32) << candidate.name;
    for (const plan::CostTerm& term : candidate.terms) EXPECT_NE(term.name, "later phases") << candidate.name;
  }
  return result;
}

std::string product(const std::string& sizes, const std::string& body) {
  return "def f(x: bf16[" + sizes.substr(0, sizes.find('|')) + "], w: bf16[" + sizes.substr(sizes.find('|') + 1) +
         "]):\n    h = x @ w\n    " + body + "\n";
}
const char* const norm = "y = h * rsqrt(mean(h * h, dim=-1) + 0.001)\n    return y";

// Heads of 128 columns, as items of a batch, go through no memory on the way to their norms: the best kernel of each
// architecture is of that kind.
TEST(WholeRows, NormsOfHeads) {
  for (const char* arch : {"sm_80", "sm_89", "sm_90a", "sm_100a"}) {
    const Planned p = planned(product("80, 2048, 8192|80, 8192, 128", norm), arch);
    EXPECT_GT(p.whole, 0U) << arch;
    EXPECT_TRUE(package::gpu(p.kernel.discovery.candidates[0].config).whole_rows) << arch;
  }
}

// More columns than a piece has, or as many as a symbol says, and what needs more than its own rows.
TEST(WholeRows, NotOfOthers) {
  EXPECT_EQ(planned(product("512, 512|512, 136", norm)).whole, 0U);
  EXPECT_EQ(planned(product("512, 512|512, \"n\"", norm)).whole, 0U);
  EXPECT_EQ(planned(product("512, 512|512, 64", "y = relu(h)\n    return y")).whole, 0U);
  EXPECT_EQ(planned(product("512, 512|512, 64", "y = h * rsqrt(mean(h * h, dim=0))\n    return y")).whole, 0U);
  EXPECT_EQ(planned(product("512, 512|512, 64", "y = h * sum(h, dim=-1) + sum(h)\n    return y")).whole, 0U);
}

}  // namespace
