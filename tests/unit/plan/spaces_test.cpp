// SPDX-License-Identifier: Apache-2.0
// Products of one A that differ in columns, as queries, keys and values of grouped heads do: one kernel, in which each
// has a root space, or several, and why.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "opt/passes.hpp"
#include "package/gpu_call.hpp"
#include "plan/copy_engine.hpp"
#include "plan/guards.hpp"
#include "plan/plan.hpp"
#include "unit/plan/bind_text.hpp"

namespace codetta::plan {
namespace {

using package::GpuFamily;

Plan planned(const std::string& text, const std::string& arch, Backend backend = Backend::cuda,
             const std::vector<std::pair<std::string, int64_t>>& hints = {}) {
  const ir::Graph graph = opt::optimize(test::bind_program_text(text).value()).value().graph;
  const CpuIsa isa = backend == Backend::cpu ? CpuIsa::avx2 : CpuIsa::generic;
  return plan_program(graph, {backend, isa, arch}, {}, hints).value();
}

std::string told(const Plan& plan) {
  std::string text;
  for (const FusionNote& note : plan.notes) text += note.action + ": " + note.why.text + "\n";
  for (const PlannedKernel& kernel : plan.kernels) text += kernel.lowered.program.to_string();
  return text;
}

// Queries of 32 heads of 128, keys and values of 8.
std::string heads(int rows) {
  return "def f(x: bf16[" + std::to_string(rows) +
         ", 4096], q: bf16[4096, 4096], k: bf16[4096, 1024], v: bf16[4096, 1024]):\n"
         "    a = x @ q\n    b = x @ k\n    c = x @ v\n    return a, b, c\n";
}

TEST(ProductSpaces, QueriesKeysAndValuesOfGroupedHeadsAreOneKernel) {
  const std::pair<const char*, Backend> targets[] = {
      {"sm_80", Backend::cuda}, {"sm_89", Backend::cuda}, {"sm_90a", Backend::cuda}, {"gfx942", Backend::hip}};
  for (const auto& [arch, backend] : targets) {
    const Plan plan = planned(heads(1), arch, backend);
    ASSERT_EQ(plan.kernels.size(), 1U) << arch << told(plan);
    const package::EpilogueProgram& program = plan.kernels[0].lowered.program;
    EXPECT_EQ(package::find_defect(program), std::nullopt);
    ASSERT_EQ(program.spaces.size(), 3U);
    EXPECT_EQ(program.split.products, 1);
    EXPECT_EQ(program.more_b.size(), 2U);
    EXPECT_EQ(plan.kernels[0].shape.widths, (std::vector<int64_t>{4096, 1024, 1024}));
    EXPECT_EQ(plan.kernels[0].shape.n, 6144);
    for (const Candidate& candidate : plan.kernels[0].discovery.candidates)
      EXPECT_TRUE(package::has_spaces(package::gpu(candidate.config).family)) << candidate.name;
    // Its own file form, and that of one product.
    EXPECT_EQ(package::EpilogueProgram::decode(program.encode()).value(), program);
    for (size_t p = 0; p < 3; ++p) {
      const package::EpilogueProgram own = package::program_of(program, p);
      EXPECT_EQ(package::find_defect(own), std::nullopt);
      EXPECT_EQ(own.phases[0].stores.size(), 1U);
      EXPECT_EQ(own.phases[0].insts.size(), 1U);
    }
  }
}

// The copy engine's families take them, too, with all ways to finish tiles.
TEST(ProductSpaces, ManyRowsAreOfTheCopyEngine) {
  for (const auto& [arch, family] : {std::pair("sm_90a", GpuFamily::Sm90), {"sm_100a", GpuFamily::Sm100}}) {
    for (const int rows : {512, 8192}) {
      const Plan plan = planned(heads(rows), arch);
      ASSERT_EQ(plan.kernels.size(), 1U) << arch << told(plan);
      const package::EpilogueProgram& program = plan.kernels[0].lowered.program;
      ASSERT_EQ(program.spaces.size(), 3U);
      const std::vector<Candidate>& candidates = plan.kernels[0].discovery.candidates;
      EXPECT_EQ(package::gpu(candidates[0].config).family, family) << candidates[0].name;
      bool copied = false;
      for (const Candidate& candidate : candidates) {
        const package::GpuGemmConfig& config = package::gpu(candidate.config);
        EXPECT_FALSE(config.pack_b) << candidate.name;  // one B would be copied
        copied = copied || config.copied;
      }
      EXPECT_EQ(copied, family == GpuFamily::Sm90);
    }
  }
}

// Slots are for the largest of what the products copy, and for one product's at once.
TEST(ProductSpaces, CopiesShareSlots) {
  const std::string text =
      "def f(x: bf16[512, 4096], q: bf16[4096, 2048], k: bf16[4096, 512], r: bf16[512, 512]):\n"
      "    a = x @ q\n    b = cast(x @ k, bf16) + r\n    return a, b\n";
  const Plan plan = planned(text, "sm_90a");
  ASSERT_EQ(plan.kernels.size(), 1U) << told(plan);
  const package::EpilogueProgram& program = plan.kernels[0].lowered.program;
  const auto copies = copies_of(program);
  ASSERT_TRUE(copies);
  EXPECT_EQ(copies->loads.size(), 1U);
  EXPECT_EQ(copies->stores.size(), 2U);
  const CopySlots slots = copy_slots(program);
  EXPECT_EQ(slots.loads, std::vector<int64_t>{2});
  EXPECT_EQ(slots.stores, std::vector<int64_t>{4});
  package::GpuGemmConfig config;
  for (const Candidate& candidate : plan.kernels[0].discovery.candidates) {
    if (package::gpu(candidate.config).copied) config = package::gpu(candidate.config);
  }
  ASSERT_TRUE(config.copied);
  const Sm90Shape shape = sm90_shape(program, config);
  EXPECT_EQ(shape.piece_bytes, int64_t{64} * config.piece_cols * (2 * 4 + shape.load_slots * 2));
}

// Where nothing is gained by one kernel, the products are apart, and a note says why.
TEST(ProductSpaces, ProductsThatAreApartSayWhy) {
  const Plan plan = planned(heads(1), "sm_90a");
  Choices choices;
  for (const Decision& decision : plan.decisions) {
    if (decision.question == Question::Columns) choices[decision.key].apart = true;
  }
  const ir::Graph graph = opt::optimize(test::bind_program_text(heads(1)).value()).value().graph;
  const Plan apart =
      plan_program(graph, {Backend::cuda, CpuIsa::generic, "sm_90a"}, {}, {}, {}, Alignment::Hinted, {}, choices)
          .value();
  for (const PlannedKernel& kernel : apart.kernels) EXPECT_TRUE(kernel.lowered.program.spaces.empty());
  EXPECT_NE(told(apart).find("products of one A apart: 3 products of one factor and of 6144 columns"),
            std::string::npos)
      << told(apart);
}

TEST(ProductSpaces, ACpuComputesThemApart) {
  const Plan plan = planned(heads(1), "", Backend::cpu);
  for (const PlannedKernel& kernel : plan.kernels) EXPECT_TRUE(kernel.lowered.program.spaces.empty());
}

// Parts of queries and keys are turned into each other; those of values are parts all the same.
TEST(ProductSpaces, AllAreSplitAlike) {
  const std::string text =
      "def f(x: bf16[4, 512], q: bf16[512, 512], k: bf16[512, 128], v: bf16[512, 128], c: f32[4, 1, 32], s: f32[4, 1, "
      "32]):\n"
      "    a, b = split(reshape(x @ q, (4, 8, 64)), 2, dim=-1)\n    y = join(a * c - b * s, b * c + a * s, dim=-1)\n"
      "    d, e = split(reshape(x @ k, (4, 2, 64)), 2, dim=-1)\n    z = join(d * c - e * s, e * c + d * s, dim=-1)\n"
      "    w = x @ v\n    return y, z, w\n";
  const Plan plan = planned(text, "sm_90a");
  ASSERT_EQ(plan.kernels.size(), 1U) << told(plan);
  const package::EpilogueProgram& program = plan.kernels[0].lowered.program;
  EXPECT_EQ(program.split.ways, 2);
  EXPECT_EQ(program.split.chunk, types::Dim::constant(32));
  EXPECT_EQ(plan.kernels[0].shape.widths, (std::vector<int64_t>{256, 64, 64}));
}

TEST(ProductSpaces, ColumnsMayBeSymbols) {
  const std::string text =
      "def f(x: bf16[\"m\", 256], q: bf16[256, \"n\"], k: bf16[256, \"o\"]):\n"
      "    a = relu(x @ q)\n    b = x @ k + cast(arange(o), bf16)\n    return a, b\n";
  const Plan plan = planned(text, "sm_90a", Backend::cuda, {{"m", 1}, {"n", 512}, {"o", 128}});
  ASSERT_EQ(plan.kernels.size(), 1U) << told(plan);
  const package::EpilogueProgram& program = plan.kernels[0].lowered.program;
  ASSERT_EQ(program.spaces.size(), 2U);
  EXPECT_EQ(program.sizes[program.spaces[0].columns].to_string(), "n");
  EXPECT_EQ(program.sizes[program.spaces[1].columns].to_string(), "o");
}

// Values of products that differ do not meet, and nothing is reduced: those of equal columns are one kernel then.
TEST(ProductSpaces, WhatNeedsTwoOfThemIsRefused) {
  const std::string head = "def f(x: bf16[4, 256], g: bf16[256, 512], u: bf16[256, 512], r: bf16[256, 64]):\n";
  const Plan meet = planned(head + "    y = silu(x @ g) * (x @ u)\n    z = x @ r\n    return y, z\n", "sm_80");
  ASSERT_EQ(meet.kernels.size(), 2U) << told(meet);
  EXPECT_NE(told(meet).find("a value needs 2 products of different numbers of columns"), std::string::npos)
      << told(meet);
  size_t together = 0;
  for (const PlannedKernel& kernel : meet.kernels) together += kernel.lowered.program.split.products == 2 ? 1 : 0;
  EXPECT_EQ(together, 1U) << told(meet);
}

// What one product stores another one's tiles don't read where it lies.
TEST(ProductSpaces, WhatOneStoresAnotherDoesNotUpdate) {
  const std::string text =
      "def f(x: bf16[4, 256], q: bf16[256, 512], k: bf16[256, 64], r: f32[4, 64], s: f32[4, 512]):\n"
      "    y = x @ q + s\n    z = x @ k + r\n    return y, z\n";
  const Plan plan = planned(text, "sm_80");
  ASSERT_EQ(plan.kernels.size(), 1U) << told(plan);
  const package::EpilogueProgram& program = plan.kernels[0].lowered.program;
  const auto index = [&](const std::string& name) {
    for (uint32_t i = 0; i < program.arguments.size(); ++i) {
      if (program.arguments[i].name == name) return i;
    }
    ADD_FAILURE() << name;
    return 0U;
  };
  EXPECT_TRUE(may_be_in_place(program, false, index("s"), index("y")));
  EXPECT_TRUE(may_be_in_place(program, false, index("r"), index("z")));
  EXPECT_FALSE(may_be_in_place(program, false, index("r"), index("y")));
  EXPECT_FALSE(may_be_in_place(program, false, index("s"), index("z")));
}

// Of few columns of A the note counts the columns of all, which are no equal shares.
TEST(ProductSpaces, ResultsOfManyColumnsAreApartAndToldWhy) {
  const Plan plan = planned(
      "def f(x: bf16[4, 16], q: bf16[16, 256], k: bf16[16, 64]):\n    y = x @ q\n    z = x @ k\n    return y, z\n",
      "sm_80");
  EXPECT_EQ(plan.kernels.size(), 2U) << told(plan);
  EXPECT_NE(told(plan).find("2 results of 320 columns together meet nowhere"), std::string::npos) << told(plan);
}

}  // namespace
}  // namespace codetta::plan
