// SPDX-License-Identifier: Apache-2.0
// A token of a decoder block: products are of rows, whatever items they came as, and attention is one map.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "opt/passes.hpp"
#include "plan/plan.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::plan {
namespace {

constexpr const char* block =
    "def f(x: bf16[\"b\", 1, 1024], wq: bf16[1024, 1024], wk: bf16[1024, 1024], wv: bf16[1024, 1024],\n"
    "      cosines: f32[1, 32], sines: f32[1, 32], wo: bf16[1024, 1024]):\n"
    "    h = cast(rms_norm(x), bf16)\n"
    "    q = cast(rope(permute(reshape(h @ wq, (b, 1, 16, 64)), (0, 2, 1, 3)), cosines, sines), bf16)\n"
    "    k = cast(rope(permute(reshape(h @ wk, (b, 1, 16, 64)), (0, 2, 1, 3)), cosines, sines), bf16)\n"
    "    v = cast(permute(reshape(h @ wv, (b, 1, 16, 64)), (0, 2, 1, 3)), bf16)\n"
    "    p = cast(softmax(cast(q @ transpose(k), bf16) * 0.125), bf16)\n"
    "    c = cast(reshape(permute(p @ v, (0, 2, 1, 3)), (b, 1, 1024)), bf16)\n"
    "    y = cast(x + c @ wo, bf16)\n"
    "    return y\n";

Plan plan_on(const char* target) {
  const ir::Graph graph = opt::optimize(test::bind_program_text(block).value()).value().graph;
  return plan_program(graph, Target::parse(target).value(), {}, {{"b", 8}}).value();
}

TEST(OneToken, AttentionIsOneMap) {
  for (const char* target : {"cuda:sm_90a", "hip:gfx942", "cpu:avx2"}) {
    const Plan plan = plan_on(target);
    size_t products = 0;
    std::vector<const package::LaunchKernel*> maps;
    for (const package::Step& step : plan.steps) {
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr) continue;
      if (!launch->product) {
        maps.push_back(launch);
        continue;
      }
      ++products;
      EXPECT_EQ(launch->batch, types::Dim::constant(1)) << target;
      EXPECT_EQ(launch->m, types::Dim::symbol("b")) << target;
    }
    // The norm, or what of it is no part of a product; then q, k and v, attention, and the projection.
    EXPECT_EQ(products, 2U) << target << to_string(plan);
    ASSERT_EQ(maps.size(), 2U) << target << to_string(plan);
    EXPECT_EQ(maps[1]->n, types::Dim::constant(64)) << target << to_string(plan);
  }
}

// What makes the products' rows is stored in that form at once.
TEST(OneToken, NothingIsCopied) {
  for (const PlannedKernel& kernel : plan_on("cuda:sm_90a").kernels) {
    const auto& phases = kernel.lowered.program.phases;
    const bool computes = kernel.region.kind == Region::Kind::Product || !kernel.lowered.program.reductions.empty() ||
                          std::any_of(phases.begin(), phases.end(), [](const auto& phase) {
                            return std::any_of(phase.insts.begin(), phase.insts.end(), [](const package::Inst& inst) {
                              return inst.kind == package::Inst::Kind::Op;
                            });
                          });
    EXPECT_TRUE(computes);
  }
}

}  // namespace
}  // namespace codetta::plan
