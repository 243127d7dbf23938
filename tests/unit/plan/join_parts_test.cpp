// SPDX-License-Identifier: Apache-2.0
// Parts of joins that products compute: their kernels store them where the join has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "opt/passes.hpp"
#include "plan/plan.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::plan {
namespace {

Plan planned(const std::string& text, const char* target, const Choices& choices = {}) {
  const ir::Graph graph = opt::optimize(test::bind_program_text(text).value()).value().graph;
  return plan_program(graph, Target::parse(target).value(), {}, {}, {}, Alignment::Hinted, {}, choices).value();
}

std::string told(const Plan& plan) {
  std::string text = to_string(plan);
  for (const FusionNote& note : plan.notes) text += note.action + ": " + note.why.text + "\n";
  return text;
}

size_t products(const Plan& plan) {
  return static_cast<size_t>(std::count_if(plan.steps.begin(), plan.steps.end(), [](const package::Step& step) {
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    return launch != nullptr && launch->product;
  }));
}
// Launches of maps, and copies.
size_t others(const Plan& plan) {
  return static_cast<size_t>(std::count_if(plan.steps.begin(), plan.steps.end(), [](const package::Step& step) {
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    return (launch != nullptr && !launch->product) || std::holds_alternative<package::Copy>(step);
  }));
}

constexpr const char* targets[] = {"cpu:avx2",     "cuda:sm_80", "cuda:sm_90a",
                                   "cuda:sm_100a", "hip:gfx942", "metal:apple9"};

TEST(JoinParts, ProductsStoreThemInTheJoin) {
  const std::pair<std::string, std::string> cases[] = {
      {"a: f16[64, 128], b: f16[64, 64]", "join(x @ a, x @ b, dim=1)"},                       // columns that differ
      {"z: f16[32, 64], a: f16[64, 128]", "join(x @ a, z @ a, dim=0)"},                       // rows
      {"b: f16[64, 64], d: f16[64, 64], c: f32[64]", "join(x @ b, x @ d * 2.0 + c, dim=1)"},  // columns of one size
      {"b: f16[64, 64], d: f16[64, 64]", "join(x @ b, relu(x @ d), dim=1, interleave=True)"},
      {"a: f16[64, 128], b: f16[64, 64], c: f32[64]", "join(relu(x @ a), x @ b + c, dim=1)"},  // behind epilogues
      {"z: f16[32, 64], a: f16[64, 128], b: f16[64, 64], d: f16[64, 64]",                      // in a join again
       "join(join(x @ a, x @ b, dim=1), join(z @ a, z @ d, dim=1), dim=0)"},
      {"a: f16[64, 128], b: f16[64, 64], d: f16[192, 32]",  // read by a product
       "join(cast(x @ a, f16), cast(x @ b, f16), dim=1) @ d"},
      {"w: f16[3, 64, 32], v: f16[64, 32], q: f16[3, 128, 64]",  // of a batch, and turned
       "join(permute(q @ w, (1, 0, 2)), reshape(x @ v, (128, 1, 32)), dim=1)"},
  };
  for (const auto& [parameters, value] : cases) {
    for (const char* const target : targets) {
      const Plan plan =
          planned("def f(x: f16[128, 64], " + parameters + "):\n    y = " + value + "\n    return y\n", target);
      EXPECT_EQ(others(plan), 0U) << target << "\n" << value << "\n" << told(plan);
    }
  }
}

// Both lie in memory then, and nothing is copied.
TEST(JoinParts, ThatOthersNeedTooAreStoredTwice) {
  for (const char* const target : targets) {
    const Plan plan = planned(
        "def f(x: f16[128, 64], a: f16[64, 128], b: f16[64, 64]):\n    p = x @ a\n    y = join(p, x @ b, dim=1)\n"
        "    return p, y\n",
        target);
    EXPECT_EQ(others(plan), 0U) << target << told(plan);
    size_t stores = 0;
    for (const PlannedKernel& kernel : plan.kernels) stores += kernel.lowered.program.phases[0].stores.size();
    EXPECT_EQ(stores, 3U) << target << told(plan);
  }
}

// Queries, keys and values of grouped heads as one tensor, by one kernel.
TEST(JoinParts, ProductsOfOneKernelStoreOneJoin) {
  const Plan plan = planned(
      "def f(x: bf16[1, 1024], q: bf16[1024, 1024], k: bf16[1024, 256], v: bf16[1024, 256]):\n"
      "    y = join(cast(x @ q, bf16), cast(x @ k, bf16), cast(x @ v, bf16), dim=1)\n    return y\n",
      "cuda:sm_90a");
  ASSERT_EQ(plan.kernels.size(), 1U) << told(plan);
  EXPECT_EQ(plan.kernels[0].lowered.program.spaces.size(), 3U);
  EXPECT_EQ(others(plan), 0U);
}

// What a product does not make is copied, or computed there, alone.
TEST(JoinParts, OthersAreStoredByMaps) {
  for (const char* const target : targets) {
    const Plan plan = planned(
        "def f(x: f32[4, 64], a: f32[64, 32], old: f32[60, 32]):\n    y = join(old, x @ a, dim=0)\n    return y\n",
        target);
    EXPECT_EQ(products(plan), 1U) << target;
    EXPECT_EQ(others(plan), 1U) << target << told(plan);
    for (const package::Buffer& buffer : plan.buffers)
      EXPECT_NE(buffer.role, package::Buffer::Role::Temporary) << target << ": " << buffer.name;
  }
}

// A measurement may have it the other way.
TEST(JoinParts, ArePlannedAsMeasured) {
  const std::string text =
      "def f(x: f16[128, 64], a: f16[64, 128], b: f16[64, 64]):\n    y = join(x @ a, x @ b, dim=1)\n    return y\n";
  const Plan plan = planned(text, "cuda:sm_90a");
  Choices choices;
  for (const Decision& decision : plan.decisions) {
    if (decision.question == Question::Parts) choices[decision.key].apart = true;
  }
  ASSERT_EQ(choices.size(), 2U);
  const Plan apart = planned(text, "cuda:sm_90a", choices);
  EXPECT_GE(others(apart), 1U) << told(apart);
  EXPECT_NE(told(apart).find("copied to its place in a join: stored in the join by its product"), std::string::npos)
      << told(apart);
}

}  // namespace
}  // namespace codetta::plan
