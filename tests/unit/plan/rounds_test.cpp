// SPDX-License-Identifier: Apache-2.0
// The search for kernels tries again what a decision reaches, and nothing else: of programs of many layers each layer
// takes as much work as the last one. Work is counted, not timed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "opt/passes.hpp"
#include "plan/plan.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::plan {
namespace {

// Lines of each layer, in which {h} is what the last layer made, {x} what this one makes, and {i} its number.
struct Layers {
  std::string_view name, parameters;
  std::vector<std::string_view> lines;
};

std::string replaced(std::string_view line, size_t i) {
  std::string text;
  for (size_t at = 0; at < line.size(); ++at) {
    const std::string_view mark = line.substr(at, 3);
    if (mark == "{h}") text += i == 0 ? "x" : "h" + std::to_string(i);
    if (mark == "{x}") text += "h" + std::to_string(i + 1);
    if (mark == "{i}") text += std::to_string(i);
    if (mark == "{h}" || mark == "{x}" || mark == "{i}") {
      at += 2;
    } else {
      text += line[at];
    }
  }
  return text;
}

Plan plan_of(const Layers& layers, size_t count, Backend backend) {
  std::string text = "def f(" + std::string(layers.parameters) + "):\n";
  for (size_t i = 0; i < count; ++i) {
    for (const std::string_view line : layers.lines) text += "    " + replaced(line, i) + "\n";
  }
  text += "    return h" + std::to_string(count) + "\n";
  const ir::Graph graph = opt::optimize(test::bind_program_text(text).value()).value().graph;
  const Target target{backend, CpuIsa::generic, backend == Backend::cuda ? "sm_90a" : ""};
  return plan_program(graph, target, {}, {{"b", 4}, {"s", 2048}}).value();
}

const std::vector<Layers>& programs() {
  static const std::vector<Layers> all{
      {"attention",
       "x: bf16[\"s\", 512]",
       {"t{i} = cast({h} @ transpose({h}), bf16) * 0.125",
        "{x} = cast(cast(softmax(t{i}, dim=-1), bf16) @ {h}, bf16)"}},
      {"masked attention",
       "x: bf16[\"s\", 512], m: bf16[\"s\", \"s\"]",
       {"t{i} = where(m > 0, cast({h} @ transpose({h}), bf16) * 0.125, -1e4)",
        "{x} = cast(cast(softmax(t{i}, dim=-1), bf16) @ {h}, bf16)"}},
      {"norm", "x: bf16[\"s\", 512], w: bf16[512, 512]", {"{x} = cast(rms_norm({h} @ w) + {h}, bf16)"}},
      {"products apart",  // of one A, but with too many columns to be in memory at once
       "x: bf16[\"s\", 64], u: bf16[64, 512], v: bf16[64, 512], d: bf16[512, 64], e: bf16[512, 64]",
       {"p{i} = cast(relu({h} @ u), bf16)", "q{i} = cast(tanh({h} @ v), bf16)",
        "{x} = cast(p{i} @ d + q{i} @ e + {h}, bf16)"}},
      {"llama",
       "x: bf16[\"b\", \"s\", 1024], wq: bf16[1024, 1024], wk: bf16[1024, 1024], wv: bf16[1024, 1024], "
       "wo: bf16[1024, 1024], wg: bf16[1024, 2816], wu: bf16[1024, 2816], wd: bf16[2816, 1024]",
       {"n{i} = cast(rms_norm({h}), bf16)",
        "q{i} = permute(reshape(cast(n{i} @ wq, bf16), (b, s, 16, 64)), (0, 2, 1, 3))",
        "k{i} = permute(reshape(cast(n{i} @ wk, bf16), (b, s, 16, 64)), (0, 2, 1, 3))",
        "v{i} = permute(reshape(cast(n{i} @ wv, bf16), (b, s, 16, 64)), (0, 2, 1, 3))",
        "t{i} = cast(q{i} @ transpose(k{i}), bf16) * 0.125",
        "z{i} = cast(cast(softmax(t{i}, dim=-1), bf16) @ v{i}, bf16)",
        "a{i} = cast(reshape(permute(z{i}, (0, 2, 1, 3)), (b, s, 1024)) @ wo, bf16) + {h}",
        "m{i} = cast(rms_norm(a{i}), bf16)", "g{i} = cast(silu(m{i} @ wg) * (m{i} @ wu), bf16)",
        "{x} = cast(g{i} @ wd, bf16) + a{i}"}}};
  return all;
}

TEST(Rounds, EachLayerTakesAsManyTriesAsTheLast) {
  for (const Layers& layers : programs()) {
    for (const Backend backend : {Backend::cuda, Backend::cpu}) {
      std::vector<size_t> tries;
      for (const size_t count : {3, 6, 12}) tries.push_back(plan_of(layers, count, backend).tries);
      EXPECT_GT(tries[1], tries[0]) << layers.name;
      EXPECT_EQ(tries[2] - tries[1], 2 * (tries[1] - tries[0]))
          << layers.name << ": " << tries[0] << ", " << tries[1] << ", " << tries[2];
    }
  }
}

// Several decisions a layer are made, so that the test above is of a search that has to try again.
TEST(Rounds, LayersOfGpusAreTriedAgain) {
  for (const Layers& layers : programs()) {
    const Plan plan = plan_of(layers, 4, Backend::cuda);
    EXPECT_GE(plan.notes.size(), 4U) << layers.name;
    EXPECT_GT(plan.tries, plan.kernels.size()) << layers.name;
  }
}

// A kernel of a CPU holds 64 reductions. The first ones go, each with its note, as if they had gone one by one.
TEST(Rounds, TooManyReductionsAreCutOffAtOnce) {
  const Layers sums{"sums", "x: f32[\"s\", 64], w: f32[64, 64]", {"{x} = {h} + sum((x @ w) * {i}.5, dim=-1)"}};
  const Plan few = plan_of(sums, 60, Backend::cpu), many = plan_of(sums, 200, Backend::cpu);
  EXPECT_TRUE(few.notes.empty());
  EXPECT_EQ(std::count_if(many.notes.begin(), many.notes.end(),
                          [](const FusionNote& note) { return note.action == "cut off behind its kernel"; }),
            200 - 64);
  EXPECT_LT(many.tries, few.tries + 16);
}

// A value that joins others in a kernel is tried with all of them, so these are a number that does not grow.
TEST(Rounds, KernelsWithoutAProductStoreUpTo64Values) {
  const Layers factors{"factors", "x: f32[\"s\", 64], w: f32[64, 64]", {"{x} = {h} + (x * {i}.5) @ w"}};
  const Plan plan = plan_of(factors, 150, Backend::cpu);
  std::vector<size_t> stores;
  for (const PlannedKernel& kernel : plan.kernels) {
    if (kernel.region.kind == Region::Kind::Map) stores.push_back(kernel.region.outputs.size());
  }
  EXPECT_EQ(stores, (std::vector<size_t>{64, 64, 22}));
}

}  // namespace
}  // namespace codetta::plan
