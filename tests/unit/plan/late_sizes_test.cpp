// SPDX-License-Identifier: Apache-2.0
// Sizes that a run computes: what they turn out to be is known when no other plan can take over any more.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "package/gpu_call.hpp"
#include "package/look_ahead.hpp"
#include "support/random_program.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/plan_package.hpp"

namespace {

using namespace codetta;
using types::Dim;

template <class F>
void each_step(const package::Package& package, F&& f) {
  for (const package::Step& step : package.steps) f(step, false);
  for (const package::StepList& list : package.step_lists) {
    for (const package::Step& step : list) f(step, true);
  }
}

// Those that no number of the caller's says in front of the run.
std::set<std::string> late_sizes(const package::Package& package) {
  using From = package::DefineSymbol::From;
  std::set<std::string> late;
  each_step(package, [&](const package::Step& step, bool inside) {
    const auto* define = std::get_if<package::DefineSymbol>(&step);
    if (define != nullptr && define->from == From::Value && (inside || !package.buffers[define->buffer].is_scalar))
      late.insert(define->symbol);
  });
  return late;
}

bool has_any(const std::set<std::string>& symbols, const Dim& dim) {
  const std::vector<std::string> own = dim.symbols();
  return std::any_of(own.begin(), own.end(), [&](const std::string& one) { return symbols.count(one) != 0; });
}

// Kernels for hinted sizes rely on elements, but not on those of a size that is computed: it may be 0.
TEST(PlanLateSizes, RandomProgramsOweNothingWithoutElements) {
  const uint64_t count = CODETTA_TEST_FULL ? 3000 : 200;
  size_t launches = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    test::RandomProgramOptions options = test::drawn_options(seed);
    options.operations = 4 + static_cast<int>(seed % 10);
    options.devices = 1;
    options.counts = options.inner_counts = options.parts = true;
    test::RandomProgram program = test::random_program(seed, options);
    for (auto& [symbol, size] : program.sizes) size = 64;
    const auto graph = test::bind_program_text(program.text);
    ASSERT_TRUE(graph) << program.text;
    const char* const gpu = seed % 3 == 0 ? "hip:gfx942" : seed % 3 == 1 ? "cuda:sm_80" : "cuda:sm_90a";
    const auto plan = plan::plan_program(*graph, Target::parse(gpu).value(), {}, program.sizes);
    if (!plan) continue;
    const package::Package package = test::package_of(*plan);
    const std::set<std::string> late = late_sizes(package);
    each_step(package, [&](const package::Step& step, bool) {
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr || package::is_user(package.kernels[launch->kernel].config)) return;
      const package::Kernel& kernel = package.kernels[launch->kernel];
      const auto seen = [&](const Dim& size) { return has_any(late, size) ? size : Dim::constant(1); };
      EXPECT_EQ(package::missing_when(kernel.epilogue, launch->product.has_value(), seen(launch->batch),
                                      seen(launch->m), seen(launch->n)),
                0)
          << "seed " << seed << "\n"
          << program.text << plan::to_string(*plan);
      launches += has_any(late, launch->batch) || has_any(late, launch->m) || has_any(late, launch->n) ? 1 : 0;
    });
  }
  EXPECT_GT(launches, count);
}

// No guess says that rows are multiples of 16 bytes.
TEST(PlanLateSizes, FactorsOfSuchRowsHaveKernelsThatTakeAny) {
  const auto bound = test::bind_program_text(
      "def f(x: f16['m', 64], c: i64):\n    k = sum(cast(max(x, dim=1, keepdim=False) > 0.0, i64), keepdim=False)\n"
      "    p = cast(x @ transpose(x[:k]) * 0.125, f16)\n    y = p @ x[:k]\n"
      "    q = cast(x @ transpose(x[:c]) * 0.125, f16)\n    z = q @ x[:c]\n    return y, z\n");
  ASSERT_TRUE(bound) << bound.error().render();
  for (const char* const gpu : {"cuda:sm_80", "cuda:sm_90a", "hip:gfx942"}) {
    const auto plan = plan::plan_program(*bound, Target::parse(gpu).value(), {}, {{"m", 4096}, {"c", 4096}});
    ASSERT_TRUE(plan) << plan.error().render();
    const package::Package package = test::package_of(*plan);
    const std::set<std::string> late = late_sizes(package);
    ASSERT_EQ(late.size(), 1U);
    size_t computed = 0, given = 0;
    each_step(package, [&](const package::Step& step, bool) {
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr || !launch->product || launch->product->k.is_constant()) return;
      const package::GpuGemmConfig& config = package::gpu(package.kernels[launch->kernel].config);
      const bool any = config.family == package::GpuFamily::Simt || config.pack_a || config.alignment <= 2;
      if (has_any(late, launch->product->k)) {
        ++computed;
        EXPECT_TRUE(any) << gpu << plan::to_string(*plan);
      } else {
        ++given;
        EXPECT_FALSE(any) << gpu << ": a number of the caller's is known in front of the run";
      }
    });
    EXPECT_EQ(computed, 1U) << gpu;
    EXPECT_EQ(given, 1U) << gpu;
  }
}

// In front of the size: half of what it may be, and where what lies behind it will lie.
TEST(PlanLateSizes, LaunchesAreLookedAtAhead) {
  const auto graph = test::bind_program_text(
      "def f(x: f16['m', 64], w: f16[64, 'n'], g: f16[2, 64, 'n']):\n    h = cast(x @ transpose(x), f16)\n"
      "    k = sum(cast(max(x, dim=1, keepdim=False) > 0.0, i64), keepdim=False)\n"
      "    p = cast(x @ transpose(x[:k]) * 0.125, f16)\n    y = p @ x[:k]\n    z = h @ (x @ w)\n"
      "    v = sum(x[:k] @ g[1], dim=0)\n    return y, z, v\n");
  ASSERT_TRUE(graph) << graph.error().render();
  const auto plan = plan::plan_program(*graph, Target::parse("cuda:sm_90a").value(), {}, {{"m", 64}, {"n", 64}});
  ASSERT_TRUE(plan) << plan.error().render();
  const package::Package package = test::package_of(*plan);
  const auto first = std::find_if(package.steps.begin(), package.steps.end(), [](const package::Step& step) {
    const auto* define = std::get_if<package::DefineSymbol>(&step);
    return define != nullptr && define->from == package::DefineSymbol::From::Value;
  });
  ASSERT_NE(first, package.steps.end());
  const package::LookAhead ahead = package::look_ahead(package, static_cast<size_t>(first - package.steps.begin()));
  ASSERT_EQ(ahead.sizes.size(), 1U);
  EXPECT_EQ(ahead.sizes[0].second, floordiv(Dim::symbol("m") + Dim::constant(1), Dim::constant(2)))
      << ahead.sizes[0].second.to_string();
  size_t behind = 0;
  for (auto step = first; step != package.steps.end(); ++step)
    behind +=
        std::holds_alternative<package::LaunchKernel>(*step) && std::get_if<package::LaunchKernel>(&*step)->product ? 1
                                                                                                                    : 0;
  EXPECT_EQ(ahead.looks.size(), behind) << "maps take any tensors";
  EXPECT_GT(behind, 1U);
  std::set<uint32_t> slices;
  for (const package::LookAhead::Look& look : ahead.looks) {
    EXPECT_TRUE(look.known);
    for (size_t i = 0; i < look.places.size(); ++i) {
      const package::LookAhead::Place& place = look.places[i];
      EXPECT_EQ(package.buffers[place.buffer].role, package::Buffer::Role::Temporary);
      if (!place.begin.empty()) slices.insert(place.buffer);
    }
    std::set<uint32_t> there;
    for (const package::LookAhead::Place& place : look.places) there.insert(place.buffer);
    for (const uint32_t b : look.launch->arguments) {
      const bool placed = there.count(b) != 0 || package.buffers[b].role != package::Buffer::Role::Temporary ||
                          std::any_of(package.steps.begin(), first, [&](const package::Step& step) {
                            const auto* pooled = std::get_if<package::AllocateFromPool>(&step);
                            return pooled != nullptr && pooled->buffer == b;
                          });
      EXPECT_TRUE(placed) << package.buffers[b].name;
    }
  }
  EXPECT_FALSE(slices.empty()) << "g[1] is read where it begins";
  // Nothing is there that no step has.
  EXPECT_TRUE(package::look_ahead(package, package.steps.size()).looks.empty());
  EXPECT_EQ(package::first_control(package), package.steps.size());
}

}  // namespace
