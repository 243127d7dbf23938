// SPDX-License-Identifier: Apache-2.0
// Whole plans: steps, guards, in-place updates, programs of several products.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "plan/memory_check.hpp"
#include "unit/plan/bind_text.hpp"

namespace {

using namespace codetta;
using package::NoOverlapGuard;
using plan::Plan;
using test::gemm_facts;
using test::scalar;
using test::tensor;

const Target target{Backend::cpu, CpuIsa::generic, ""};

Result<Plan> gemm(const std::string& text, const std::vector<ir::BoundArgument>& arguments, int64_t m, int64_t n,
                  int64_t k) {
  const auto graph = test::bind_text(text, arguments, gemm_facts(m, n, k));
  if (!graph) return graph.error();
  plan::GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.a_row_stride = k;
  shape.b_k_stride = n;
  return plan::plan_gemm(*graph, shape, {}, target, {});
}

Result<Plan> program(const std::string& text, const std::vector<std::pair<std::string, int64_t>>& hints = {}) {
  const auto graph = test::bind_program_text(text);
  if (!graph) return graph.error();
  return plan::plan_program(*graph, target, {}, hints);
}

std::string steps_of(const Plan& plan) {
  const std::string text = plan::to_string(plan);
  const size_t begin = text.find("steps:\n") + 7;
  return text.substr(begin, text.find("memory:") - begin);
}

// Whether the plan lets `other` be the identical view of `output`.
bool in_place(const Result<Plan>& plan, const std::string& output, const std::string& other) {
  EXPECT_TRUE(plan) << plan.error().render();
  for (const package::Step& step : plan->steps) {
    const auto* check = std::get_if<package::Check>(&step);
    const auto* guard = check == nullptr ? nullptr : std::get_if<NoOverlapGuard>(&check->guard);
    if (guard != nullptr && plan->buffers[guard->output].name == output && plan->buffers[guard->other].name == other)
      return guard->in_place_ok;
  }
  ADD_FAILURE() << "no guard for " << output << " and " << other;
  return false;
}

// Drivers of GPUs take 4,096 bytes of parameters: what needs more is several kernels.
TEST(PlanProgram, NoKernelTakesMoreThanALaunchPasses) {
  std::string parameters, sum = "a0", all = "a0";
  for (int i = 0; i < 60; ++i) {
    parameters += ", a" + std::to_string(i) + ": f32[\"n\", 8]";
    if (i > 0) sum += " + a" + std::to_string(i), all += ", a" + std::to_string(i);
  }
  const auto graph =
      test::bind_program_text("def f(x: f32[\"n\", 4], w: f32[4, 8]" + parameters + "):\n    y = x @ w + " + sum +
                              "\n    z = " + sum + "\n    c = concat(" + all + ", dim=1)\n    return y, z, c\n");
  ASSERT_TRUE(graph) << graph.error().render();
  for (const Target& on : {Target{Backend::cuda, {}, "sm_90a"}, Target{Backend::hip, {}, "gfx942"},
                           Target{Backend::metal, {}, "apple9"}, target}) {
    const auto plan = plan::plan_program(*graph, on, {}, {{"n", 64}});
    ASSERT_TRUE(plan) << on.to_string() << plan.error().render();
    size_t most = 0;
    for (const plan::PlannedKernel& kernel : plan->kernels)
      most = std::max(most, kernel.lowered.program.operands.size());
    if (on.backend == Backend::cpu) {
      EXPECT_GT(most, 60u);
    } else {
      EXPECT_LE(most, 38u) << on.to_string();
      EXPECT_GT(most, 20u) << on.to_string();
      // Cut in halves: few values between kernels go through memory.
      const auto between = std::count_if(plan->buffers.begin(), plan->buffers.end(), [](const package::Buffer& buffer) {
        return buffer.role == package::Buffer::Role::Temporary;
      });
      EXPECT_LE(between, 8) << on.to_string();
    }
  }
}

// Both halves of what is cut are about as large, also where a large part is read at two places.
TEST(PlanProgram, WhatIsReadTwiceIsCutToo) {
  std::string parameters = "b0: f32[\"n\", 8], b1: f32[\"n\", 8]", sum = "a0";
  for (int i = 0; i < 38; ++i) {
    parameters += ", a" + std::to_string(i) + ": f32[\"n\", 8]";
    if (i > 0) sum += " + a" + std::to_string(i);
  }
  const auto graph = test::bind_program_text("def f(" + parameters + "):\n    s = " + sum +
                                             "\n    t = s + b0 * b1\n    y = t * s\n    return y\n");
  ASSERT_TRUE(graph) << graph.error().render();
  const auto plan = plan::plan_program(*graph, {Backend::cuda, {}, "sm_90a"}, {}, {{"n", 64}});
  ASSERT_TRUE(plan) << plan.error().render();
  ASSERT_EQ(plan->kernels.size(), 2U) << plan::to_string(*plan);
  for (const plan::PlannedKernel& kernel : plan->kernels) {
    EXPECT_GE(kernel.lowered.program.operands.size(), 20U) << plan::to_string(*plan);
    EXPECT_LE(kernel.lowered.program.operands.size(), 24U) << plan::to_string(*plan);
  }
  EXPECT_EQ(
      std::count_if(plan->buffers.begin(), plan->buffers.end(),
                    [](const package::Buffer& buffer) { return buffer.role == package::Buffer::Role::Temporary; }),
      1)
      << plan::to_string(*plan);
}

// The family that takes any types and layouts says why there is no kernel, not one that takes few.
TEST(PlanProgram, WhyThereIsNoKernelIsNamed) {
  const auto graph =
      test::bind_program_text("def f(x: f32[\"b\", \"m\", 8], w: f32[\"b\", 8, 4]):\n    y = x @ w\n    return y\n");
  ASSERT_TRUE(graph) << graph.error().render();
  for (const auto& [backend, arch] :
       {std::pair{Backend::cuda, "sm_90a"}, std::pair{Backend::cuda, "sm_100a"}, std::pair{Backend::hip, "gfx1100"},
        std::pair{Backend::hip, "gfx942"}, std::pair{Backend::metal, "apple7"}, std::pair{Backend::metal, "mac2"}}) {
    const auto plan = plan::plan_program(*graph, {backend, {}, arch}, {}, {{"b", int64_t{10'000'000'000}}});
    ASSERT_FALSE(plan) << arch;
    EXPECT_EQ(plan.error().code(), 406) << plan.error().render();
    EXPECT_NE(plan.error().render().find("10000000000 batch items are more"), std::string::npos)
        << plan.error().render();
  }
}

// Many tensors alone are no reason to cut: where a layout is what fails, its value is stored and nothing else.
TEST(PlanProgram, FailuresOfManyTensorsAreNotCutInHalves) {
  std::string parameters = "a0: f32[\"m\", 8]", sum = "a0";
  for (int i = 1; i < 24; ++i) {
    parameters += ", a" + std::to_string(i) + ": f32[\"m\", 8]";
    sum += " + a" + std::to_string(i);
  }
  const auto graph = test::bind_program_text("def f(" + parameters + "):\n    s = " + sum +
                                             "\n    t = reshape(s, (4, m, 2))\n    y = t / sum(t, dim=0)\n"
                                             "    z = softmax(s)\n    return y, z\n");
  ASSERT_TRUE(graph) << graph.error().render();
  const auto plan = plan::plan_program(*graph, {Backend::cuda, {}, "sm_90a"}, {}, {{"m", 64}});
  ASSERT_TRUE(plan) << plan.error().render();
  EXPECT_EQ(
      std::count_if(plan->buffers.begin(), plan->buffers.end(),
                    [](const package::Buffer& buffer) { return buffer.role == package::Buffer::Role::Temporary; }),
      1)
      << plan::to_string(*plan);
}

// A single GEMM is planned as it runs: items of a batch with one B are rows where A and the epilogue's tensors lie so.
TEST(PlanGemm, ItemsOfABatchArePlannedAsRows) {
  struct Lies {
    int64_t a_item, a_row, c_item, c_row, b_item = 0, a_k = 1;
  };
  const auto planned = [](int64_t items, int64_t m, const Lies& lies, const Target& to = target) {
    constexpr int64_t n = 32, k = 16;
    ir::GemmFacts facts = gemm_facts(m, n, k);
    facts.batched = true;
    facts.batch = items;
    // Without C where items have one row: what is read of them has no row that items could be.
    std::vector<ir::BoundArgument> arguments{tensor("bias", DType::f32, {n}), tensor("D", DType::f32, {items, m, n})};
    if (m > 1) arguments.push_back(tensor("C", DType::f32, {items, m, n}));
    const auto graph = test::bind_text(m > 1 ? "def f(accum, bias, C):\n    D = accum + C + bias\n    return D\n"
                                             : "def f(accum, bias):\n    D = accum + bias\n    return D\n",
                                       arguments, facts);
    EXPECT_TRUE(graph) << graph.error().render();
    plan::GemmShape shape;
    shape.batch = items, shape.m = m, shape.n = n, shape.k = k;
    shape.a_batch_stride = lies.a_item, shape.a_row_stride = lies.a_row, shape.a_k_stride = lies.a_k;
    shape.b_batch_stride = lies.b_item, shape.b_k_stride = n;
    const auto stride = [](int64_t size, int64_t of) { return size == 1 ? 0 : of; };
    std::vector<plan::ArgumentLayout> layouts(2);
    layouts[0].strides = {1};
    layouts[1].strides = {stride(items, lies.c_item), stride(m, lies.c_row), 1};
    if (m > 1) layouts.push_back({true, false, {stride(items, m * n), n, 1}});
    const auto plan = plan::plan_gemm(*graph, shape, layouts, to, {});
    EXPECT_TRUE(plan) << plan.error().render();
    const plan::GemmShape& of = plan->kernels[0].shape;
    EXPECT_EQ(of.batch * of.m, items * m);
    EXPECT_EQ(of.items, of.batch == 1 && items > 1 ? items : 1);
    if (of.items > 1) {
      EXPECT_EQ(of.a_row_stride, m == 1 ? lies.a_item : lies.a_row);
      EXPECT_EQ(of.a_batch_stride, 0);
    }
    return of.m;
  };
  const Target cuda{Backend::cuda, CpuIsa::generic, "sm_90a"}, hip{Backend::hip, CpuIsa::generic, "gfx942"},
      metal{Backend::metal, CpuIsa::generic, "apple9"};
  for (const Target& to : {target, cuda, hip}) {
    EXPECT_EQ(planned(4, 8, {128, 16, 256, 32}, to), 32) << to.to_string();
    EXPECT_EQ(planned(4, 1, {100, 16, 64, 32}, to), 4) << "of one row an item they may lie anywhere";
    EXPECT_EQ(planned(1, 8, {0, 16, 256, 32}, to), 8);
    EXPECT_EQ(planned(4, 8, {136, 16, 256, 32}, to), 8) << "A has gaps";
    EXPECT_EQ(planned(4, 8, {128, 16, 288, 32}, to), 8) << "C has gaps";
    EXPECT_EQ(planned(4, 8, {128, 16, 0, 32}, to), 8) << "one C for all items";
    EXPECT_EQ(planned(4, 8, {128, 16, 256, 32, 512}, to), 8) << "a B for each item";
    EXPECT_EQ(planned(4, 8, {0, 16, 256, 32}, to), 8) << "one A for all items";
  }
  EXPECT_EQ(planned(4, 1, {64, 16, 64, 32, 0, 2}), 4) << "a CPU reads any strides";
  EXPECT_EQ(planned(4, 1, {64, 16, 64, 32, 0, 2}, cuda), 1) << "elements of A aren't side by side";
  EXPECT_EQ(planned(4, 8, {128, 16, 256, 32}, metal), 8);
}

// Halves of a size that may be odd would lose a row.
TEST(PlanProgram, E0303SplitsOfSizesThatNeedNotDivide) {
  const auto odd =
      program("def halves(x: f32[\"m\", 8]):\n    a, b = split(x, 2, dim=0)\n    y = a * b\n    return y\n");
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().render(), R"(error[E0303]: a layout op over a symbolic size cannot be fused
  --> p.py:2:12
2 |     a, b = split(x, 2, dim=0)
  |            ^^^^^^^^^^^^^^^^^^ f32[m // 2, 8]
note: f32[m // 2, 8] has the symbolic size m // 2
help: give the dims that are reshaped, split or joined constant sizes, or take parts of x by slices: x[:m // 2] and x[m // 2:(m // 2) * 2] are the first two
)");
  const auto even = program(
      "def halves(x: f32[\"2*m\", 8], w: f32[\"m\", 8]):\n    a, b = split(x, 2, dim=0)\n    y = a * b + w\n    return "
      "y\n");
  EXPECT_TRUE(even) << even.error().render();
}

TEST(PlanProgram, RefusesWhatNothingCarriesOut) {
  const auto graph = test::bind_program_text(
      "def f(x: f32[\"m\", 8], w: f32[8, 8], i: i64[3], v: f32[3, 8]):\n    D = index_put(x @ w, i, v)\n    return "
      "D\n");
  ASSERT_TRUE(graph);
  EXPECT_TRUE(plan::plan_program(*graph, {Backend::cuda, CpuIsa::generic, "sm_90a"}, {}, {}));
  EXPECT_TRUE(plan::plan_program(*graph, {Backend::hip, CpuIsa::generic, "gfx942"}, {}, {}));
  const auto put = plan::plan_program(*graph, {Backend::metal, CpuIsa::generic, "apple9"}, {}, {});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().render(), R"(error[E0311]: this target cannot run index_put
  --> p.py:2:9
2 |     D = index_put(x @ w, i, v)
  |         ^^^^^^^^^^^^^^^^^^^^^^ f32[m, 8]
note: writes at computed indices are host work, and the tensors lie on the device
help: compute it outside of the program and pass the result, or choose another target
)");
  const auto branch = [](const std::string& p) {
    const auto both = test::bind_program_text(
        "def twice(x):\n    y = x * 2.0\n    return y\ndef same(x):\n    y = x\n    return y\ndef f(p: " + p +
        ", x: f32[8, 8]):\n    y = cond(p, twice, same, x)\n    return y\n");
    EXPECT_TRUE(both) << both.error().render();
    const auto made = plan::plan_program(*both, {Backend::metal, CpuIsa::generic, "apple9"}, {}, {});
    EXPECT_FALSE(made);
    return made ? std::string() : made.error().diagnostics()[0].reason;
  };
  EXPECT_EQ(branch("bool"), "Metal's host text has no branches, also where a number of the caller's decides");
  EXPECT_EQ(branch("bool[1]"),
            "a value in device memory decides what runs next, and Metal's host text does not read any");
}

// Found by the fuzz target of the builders: kernels multiplied the sizes, whatever a symbol or a 0 beside them makes of
// it.
TEST(PlanProgram, RefusesMoreElementsThan64BitsCount) {
  for (const char* first : {"\"m\"", "0"}) {
    const auto text = [&](const char* last) {
      return std::string("def f(x: f32[") + first + ", 2, 9, " + last +
             "]):\n    y = permute(x, (0, 2, 1, 3)) * 2.0\n    return y\n";
    };
    const auto large = program(text("4611686018427387904"));
    ASSERT_FALSE(large) << first;
    EXPECT_EQ(large.error().code(), 603);
    EXPECT_EQ(large.error().diagnostics()[0].where.line, 1u);
    EXPECT_TRUE(program(text("50000000000000000"))) << first;
  }
}

TEST(PlanGemm, Steps) {
  const auto plan = gemm(test::example("relu_aux_store"),
                         {scalar("alpha"), tensor("C", DType::f32, {64, 64}), tensor("D", DType::f32, {64, 64}),
                          tensor("F", DType::f32, {64, 64})},
                         64, 64, 64);
  ASSERT_TRUE(plan) << plan.error().render();
  ASSERT_FALSE(plan->kernels[0].discovery.candidates.empty());
  EXPECT_EQ(
      steps_of(*plan),
      "  define m = size of A in dim 0\n  define k = size of A in dim 1\n  define k = size of B in dim 0\n  define n = "
      "size of B in dim 1\n"
      "  define m = size of C in dim 0\n  define n = size of C in dim 1\n  define m = size of D in dim 0\n  define n = "
      "size of D in dim 1\n"
      "  define m = size of F in dim 0\n  define n = size of F in dim 1\n"
      "  check C has stride 1 in its last dim\n  check D has stride 1 in its last dim\n  check F has stride 1 in its "
      "last dim\n"
      "  check D does not overlap A\n  check D does not overlap B\n  check D does not overlap C, or is the same view\n"
      "  check D does not overlap F\n  check F does not overlap A\n  check F does not overlap B\n"
      "  check F does not overlap C, or is the same view\n"
      "  launch " +
          plan->kernels[0].discovery.candidates[0].name +
          " on A @ B (m x n x k, batch 1) with [alpha, C, D, F]\n  return\n");
}

TEST(PlanGemm, InPlaceOnlyWhereEachElementIsReadBeforeItIsWritten) {
  EXPECT_TRUE(
      in_place(gemm(test::example("accumulate"),
                    {tensor("C", DType::f32, {8, 64}), scalar("alpha"), tensor("D", DType::f32, {8, 64})}, 8, 64, 16),
               "D", "C"));
  // One row: C's dim of 1 is the output's, too.
  EXPECT_TRUE(
      in_place(gemm(test::example("accumulate"),
                    {tensor("C", DType::f32, {1, 64}), scalar("alpha"), tensor("D", DType::f32, {1, 64})}, 1, 64, 16),
               "D", "C"));
  // One row in each of three items, of a split.
  ir::GemmFacts facts = gemm_facts(1, 16, 4);
  facts.batched = true;
  facts.batch = 3;
  const auto graph = test::bind_text("def f(accum, C):\n    a, b = split(accum, 2)\n    D = a * b + C\n    return D\n",
                                     {tensor("C", DType::f32, {3, 1, 8}), tensor("D", DType::f32, {3, 1, 8})}, facts);
  ASSERT_TRUE(graph) << graph.error().render();
  plan::GemmShape shape;
  shape.m = 1;
  shape.n = 16;
  shape.k = shape.a_row_stride = 4;
  shape.b_k_stride = 16;
  shape.batch = 3;
  EXPECT_TRUE(in_place(plan::plan_gemm(*graph, shape, {}, target, {}), "D", "C"));
  // Another dtype, a row for all, the transpose, a read after the write.
  EXPECT_FALSE(
      in_place(gemm(test::example("accumulate"),
                    {tensor("C", DType::bf16, {8, 64}), scalar("alpha"), tensor("D", DType::f32, {8, 64})}, 8, 64, 16),
               "D", "C"));
  EXPECT_FALSE(
      in_place(gemm(test::example("accumulate"),
                    {tensor("C", DType::f32, {64}), scalar("alpha"), tensor("D", DType::f32, {8, 64})}, 8, 64, 16),
               "D", "C"));
  EXPECT_FALSE(in_place(gemm("def f(accum, C):\n    D = accum + permute(C, (1, 0))\n    return D\n",
                             {tensor("C", DType::f32, {8, 8}), tensor("D", DType::f32, {8, 8})}, 8, 8, 16),
                        "D", "C"));
  const char* later = "def f(accum, C):\n    D = accum * 2.0\n    E = C - max(accum, axis=\"row\")\n    return D, E\n";
  const auto plan = gemm(
      later, {tensor("C", DType::f32, {8, 64}), tensor("D", DType::f32, {8, 64}), tensor("E", DType::f32, {8, 64})}, 8,
      64, 16);
  EXPECT_FALSE(in_place(plan, "D", "C"));
  EXPECT_TRUE(in_place(plan, "E", "C"));
  // A row that every row of tiles reads.
  EXPECT_FALSE(in_place(
      gemm("def f(accum, b):\n    D = accum + b\n    s = sum(accum, axis=\"column\") + b\n    return D, s\n",
           {tensor("b", DType::f32, {1, 64}), tensor("D", DType::f32, {8, 64}), tensor("s", DType::f32, {1, 64})}, 8,
           64, 16),
      "s", "b"));
  // One item of the output for all items of the product.
  const auto total = test::bind_text("def f(accum, C):\n    D = C * 2.0 + sum(accum, axis=\"all\")\n    return D\n",
                                     {tensor("C", DType::f32, {1, 1, 16}), tensor("D", DType::f32, {1, 1, 16})}, facts);
  ASSERT_TRUE(total) << total.error().render();
  EXPECT_FALSE(in_place(plan::plan_gemm(*total, shape, {}, target, {}), "D", "C"));
}

TEST(PlanGemm, WithoutAProduct) {
  ir::GraphBuilder builder;
  const ir::NodeId x[] = {builder.add_input("x", {DType::f32, false, {ir::Dim::constant(4)}})};
  const auto y = builder.add(ir::Op::relu, x);
  builder.add_output("y", *y, DType::f32);
  const auto graph = std::move(builder).finish();
  ASSERT_TRUE(graph);
  EXPECT_EQ(plan::plan_gemm(*graph, {}, {}, target, {}).error().message(), "error[E0310]: there is no matrix product");
}

const char* mlp =
    "def mlp(x: f32[\"batch\", 64], w1: f32[64, 128], b1: f32[128], w2: f32[32, 128]):\n"
    "    h = relu(x @ w1 + b1)\n    y = h @ permute(w2, (1, 0)) + 1.0\n    return y\n";

TEST(PlanProgram, TwoProductsAndATransposedFactor) {
  const auto plan = program(mlp, {{"batch", 256}});
  ASSERT_TRUE(plan) << plan.error().render();
  ASSERT_EQ(plan->kernels.size(), 2u);
  EXPECT_EQ(plan->kernels[1].shape.m, 256);
  std::vector<const package::LaunchKernel*> launches;
  int allocated = 0, freed = 0;
  for (const package::Step& step : plan->steps) {
    if (const auto* launch = std::get_if<package::LaunchKernel>(&step)) launches.push_back(launch);
    allocated += std::holds_alternative<package::AllocateFromPool>(step);
    freed += std::holds_alternative<package::Free>(step);
  }
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(allocated, 1);
  EXPECT_EQ(freed, 1);
  EXPECT_FALSE(launches[0]->product->b_transposed);
  EXPECT_TRUE(launches[1]->product->b_transposed);
  EXPECT_EQ(plan->buffers[launches[1]->product->b].name, "w2");
  EXPECT_EQ(plan->buffers[launches[1]->product->a].role, package::Buffer::Role::Temporary);
  EXPECT_EQ(launches[1]->n.to_string(), "32");
  EXPECT_EQ(launches[1]->m.to_string(), "batch");
  EXPECT_EQ(plan->memory.report.peak, 256 * 128 * 4);
  EXPECT_TRUE(plan::check_memory(plan->temporaries, plan->memory));
  EXPECT_NE(plan::to_string(*plan).find("launch "), std::string::npos);
}

TEST(PlanProgram, ChainsReuseMemory) {
  std::string text = "def f(x: f32[64, 64], w: f32[64, 64]):\n    a0 = relu(x @ w)\n";
  for (int i = 1; i < 6; ++i) text += "    a" + std::to_string(i) + " = relu(a" + std::to_string(i - 1) + " @ w)\n";
  const auto plan = program(text + "    return a5\n");
  ASSERT_TRUE(plan) << plan.error().render();
  EXPECT_EQ(plan->kernels.size(), 6u);
  EXPECT_EQ(plan->memory.report.peak, 2 * 64 * 64 * 4);  // one is read while the next is written
  EXPECT_EQ(plan->memory.report.lower_bound, plan->memory.report.peak);
}

TEST(PlanProgram, LaunchesAreOrderedForLittleMemory) {
  const auto plan = program(
      "def net(x: f32[64, 64], e: f32[64, 4096], f: f32[64, 4096], g: f32[64, 4096], w: f32[4096, 8], u: f32[8, 8]):\n"
      "    a = relu(x @ e)\n    b = relu(x @ f)\n    c = relu(x @ g)\n    p = a @ w\n    q = b @ w\n    r = c @ w\n"
      "    y = p @ u + q + r\n    return y\n");
  ASSERT_TRUE(plan) << plan.error().render();
  constexpr int64_t large = 64 * 4096 * 4, small = 64 * 8 * 4;
  EXPECT_LE(plan->memory.report.peak, large + 3 * small);
  EXPECT_EQ(plan->memory.report.peak, plan->memory.report.lower_bound);
  EXPECT_TRUE(plan::check_memory(plan->temporaries, plan->memory));
}

TEST(PlanProgram, ResidualReadsAFactorAgain) {
  const auto plan = program(
      "def f(x: bf16[64, 64], w: bf16[64, 64], v: bf16[64, 64]):\n    h = cast(relu(x @ w), bf16)\n    y = h @ v + h + "
      "x\n    return y, h\n");
  ASSERT_TRUE(plan) << plan.error().render();
  EXPECT_EQ(plan->kernels.size(), 2u);
  EXPECT_TRUE(plan->temporaries.requests.empty());  // h is an output of its own dtype, and is read from there
}

// Kinds, what each kernel stores, and why: "product y; map t3 y".
std::string listing(const std::string& text) {
  const auto plan = program(text);
  if (!plan) return plan.error().render();
  std::string out;
  for (const package::Step& step : plan->steps) {
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr) continue;
    out += out.empty() ? "" : "; ";
    out += launch->product ? "product" : "map";
    for (uint32_t buffer : launch->arguments) {
      const package::Buffer& bound = plan->buffers[buffer];
      const bool stored = bound.role == package::Buffer::Role::Output;
      if (stored) out += " " + bound.name;
    }
    for (const package::Phase& phase : plan->kernels[launch->kernel].lowered.program.phases)
      out += phase.stores.empty() ? "." : "!";
  }
  return out;
}

TEST(PlanProgram, WorkWithoutAProduct) {
  EXPECT_EQ(listing("def f(x: f32[8, 8], w: f32[8, 8]):\n    y = relu(x) @ w\n    return y\n"), "map!; product y!");
  EXPECT_EQ(listing("def f(x: f32[8, 8], w: f32[8, 8]):\n    y = x @ w\n    z = relu(x)\n    return y, z\n"),
            "product y!; map z!");
  EXPECT_EQ(listing("def f(x: f32[8, 8]):\n    z = x @ x\n    m = max(x, dim=-1)\n    e = exp(x - m)\n    y = e / "
                    "sum(e, dim=-1)\n"
                    "    return y, z\n"),
            "product z!; map y..!");
}

// What a product cannot take is cut off behind it; the rest stays fused.
TEST(PlanProgram, CutsWhereFusionEnds) {
  EXPECT_EQ(listing("def f(x: f32[8, 8], w: f32[8, 8]):\n    h = relu(x @ w)\n    y = h + permute(h, [1, 0])\n"
                    "    return y\n"),
            "product!; map y!");
  EXPECT_EQ(listing("def f(x: f32[4, 6, 8], w: f32[8, 8]):\n    h = x @ w\n    y = sum(h, dim=0)\n    return y\n"),
            "product!; map y.!");
  EXPECT_EQ(listing("def f(x: f32[8, 8], w: f32[8, 8], v: f32[8, 8]):\n    y = x @ w + sum(v, dim=-1)\n    return y\n"),
            "map.!; product y!");
}

// The output may have gaps, and what cuts across the dims of a value is read where it has none.
TEST(PlanProgram, WhatIsReturnedAndReadAcrossItsDimsIsStoredTwice) {
  const std::string head = "def f(x: f32[24, 16], w: f32[16, 11]):\n";
  const char* bodies[] = {
      "    y = x @ w\n    z = tanh(reshape(y, (11, 24)))\n    return y, z\n",
      "    y = relu(x)\n    v = reshape(y, (32, 12))\n    z = (w @ x[:11])[:, :12] + sum(v, dim=0)\n    return y, z, "
      "v\n",
      "    y = x @ w\n    z = reshape(y, (33, 8)) * reshape(y, (11, 24))[:1, :8]\n    return y, z\n",
      "    y = x @ w\n    z = reshape(y, (33, 8)) @ x[:8]\n    return y, z\n",
      "    y = index_put(x, 3, x[0])\n    z = exp(reshape(y, (32, 12)))\n    u = x @ w\n    return y, z, u\n",
  };
  for (const std::string body : bodies) {
    const auto graph = test::bind_program_text(head + body);
    ASSERT_TRUE(graph) << graph.error().render();
    for (const char* name : {"cpu:generic", "cuda:sm_90a", "cuda:sm_80", "hip:gfx942", "metal:apple9"}) {
      if (body.find("index_put") != std::string::npos && name[0] == 'm') continue;
      const auto planned = plan::plan_program(*graph, Target::parse(name).value(), {}, {});
      ASSERT_TRUE(planned) << name << "\n" << body << planned.error().render();
      const auto y = std::find_if(planned->buffers.begin(), planned->buffers.end(),
                                  [](const package::Buffer& buffer) { return buffer.name == "y"; });
      const auto output = static_cast<uint32_t>(y - planned->buffers.begin());
      size_t written = 0;
      for (const package::Step& step : planned->steps) {
        if (const auto* copy = std::get_if<package::Copy>(&step)) written += copy->target == output ? 1 : 0;
        const auto* launch = std::get_if<package::LaunchKernel>(&step);
        if (launch == nullptr) continue;
        if (launch->product) {
          EXPECT_NE(launch->product->a, output) << name << "\n" << body;
        }
        const auto& arguments = planned->kernels[launch->kernel].lowered.program.arguments;
        for (size_t a = 0; a < arguments.size(); ++a) {
          if (launch->arguments[a] != output) continue;
          EXPECT_TRUE(arguments[a].is_output) << name << "\n" << body << plan::to_string(*planned);
          ++written;
        }
      }
      EXPECT_EQ(written, 1u) << name << "\n" << body << plan::to_string(*planned);
    }
  }
}

// Over the space of what is reshaped, whether a kernel reads that or makes it: nothing else is stored.
TEST(PlanProgram, MergedDimsAreStoredByTheKernelThatMakesThem) {
  for (const char* text : {
           "def f(x: f32[\"b\", \"c\"]):\n    y = tanh(reshape(exp(x), (b*c,)))\n    return y\n",
           "def f(x: f32[\"a\", 3, 2, \"c\"]):\n    y = tanh(reshape(x, (6*a*c,)))\n    return y\n",
       }) {
    const auto planned = program(text);
    ASSERT_TRUE(planned) << text << planned.error().render();
    ASSERT_EQ(planned->kernels.size(), 1u) << plan::to_string(*planned);
    EXPECT_EQ(planned->kernels[0].lowered.program.arguments.size(), 2u) << plan::to_string(*planned);
  }
}

// Whether each product's kernel of the program may have its epilogue's matrices copied by the engine of sm_90a.
std::vector<bool> copied(const std::string& parameters, const std::string& body,
                         plan::Alignment alignment = plan::Alignment::Hinted) {
  const auto graph = test::bind_program_text("def f(" + parameters + "):\n" + body);
  EXPECT_TRUE(graph) << graph.error().render();
  const auto plan = plan::plan_program(*graph, {Backend::cuda, CpuIsa::generic, "sm_90a"}, {},
                                       {{"m", 4096}, {"n", 2048}}, {}, alignment);
  EXPECT_TRUE(plan) << plan.error().render();
  std::vector<bool> result;
  for (const plan::PlannedKernel& kernel : plan->kernels) {
    const auto& all = kernel.discovery.candidates;
    result.push_back(std::any_of(all.begin(), all.end(), [](const plan::Candidate& c) {
      const auto* gemm = std::get_if<package::GpuGemmConfig>(&c.config);
      return gemm != nullptr && gemm->copied;
    }));
  }
  return result;
}

// A kernel that meets each element of x for two items writes nothing in its place: the second would read what the first
// has left there.
TEST(PlanProgram, WhatComesRoundAgainIsNotOverwritten) {
  const auto listing = [](const std::string& repeated) {
    const auto graph = test::bind_program_text(
        "def f(x: donated[f32[4, 'n', 8]], w: f32[8, 2]):\n    a = clamp(x, -2.0, 2.0)\n    b = " + repeated +
        "\n    y = b * 3.0\n    z = a @ w\n    return y, z\n");
    EXPECT_TRUE(graph) << graph.error().render();
    return plan::to_string(plan::plan_program(*graph, *Target::parse("cpu:avx2"), {}, {}).value());
  };
  EXPECT_EQ(listing("expand(x, 2, 4, n, 8)").find("x_donated"), std::string::npos);
  EXPECT_NE(listing("x * 2.0").find("x_donated"), std::string::npos);
}

// Whole rows; tensors of the caller's only while other kernels take over where they are aligned less.
TEST(PlanProgram, TheCopyEngineServesWhatIsAligned) {
  const std::string x = "x: bf16['m', 512], ", v = "v: bf16[2048, 512]";
  const std::string chain = "    h = relu(x @ w)\n    y = h @ v\n";
  using Each = std::vector<bool>;
  EXPECT_EQ(copied(x + "w: bf16[512, 2048], " + v, chain + "    return y\n"), (Each{true, false}));
  EXPECT_EQ(copied(x + "w: bf16[512, 2048], " + v, chain + "    return y, h\n"), (Each{true, false}));
  for (const plan::Alignment less : {plan::Alignment::Proven, plan::Alignment::Any}) {
    EXPECT_EQ(copied(x + "w: bf16[512, 2048], " + v, chain + "    return y\n", less), (Each{true, false}));
    EXPECT_EQ(copied(x + "w: bf16[512, 2048], " + v, chain + "    return y, h\n", less), (Each{false, false}));
  }
  EXPECT_EQ(copied(x + "w: bf16[512, 2042], v: bf16[2042, 512]", chain + "    return y\n"), (Each{false, false}));
  EXPECT_EQ(copied(x + "w: bf16[512, 'n'], v: bf16['n', 512]", chain + "    return y\n"), (Each{true, false}))
      << "the second product relies on rows of n";
  const auto apart =
      copied(x + "w: bf16['n', 512]", "    h = cast(x @ transpose(w), bf16)\n    y = softmax(h)\n    return y\n");
  EXPECT_EQ(apart, (Each{false, false})) << "no product relies on rows of n";
  const std::string gate = "    a = silu(x @ w)\n    b = (o @ u) * a\n    y = b @ v\n    return y\n";
  const std::string more = x + "o: bf16['m', 512], w: bf16[512, 2048], u: bf16[512, 2048], ";
  EXPECT_EQ(copied(more + v, gate), (Each{true, true, false}));
  const std::string one_a = "    b = (x @ u) * silu(x @ w) + o @ w\n    y = b @ v\n    return y\n";
  EXPECT_EQ(copied(more + v, one_a), (Each{true, true, false})) << "two products of one A are one of these kernels";
  const std::string given = "    b = (x @ u) * a\n    y = b @ v\n    return y\n";
  EXPECT_EQ(copied(x + "a: bf16['m', 2048], u: bf16[512, 2048], " + v, given), (Each{true, false}));
  EXPECT_EQ(copied(x + "a: bf16['m', 2048], u: bf16[512, 2048], " + v, given, plan::Alignment::Any),
            (Each{false, false}));
  // Rows of a join: those of its second part begin in the middle, at a multiple of 16 bytes or not.
  const std::string joined = "    j = join(relu(x @ w), silu(o @ u), dim=-1)\n    y = j @ z\n    return y\n";
  EXPECT_EQ(copied(more + "z: bf16[4096, 512]", joined), (Each{true, true, false}));
  EXPECT_EQ(copied(x + "o: bf16['m', 512], w: bf16[512, 2042], u: bf16[512, 2046], z: bf16[4088, 512]", joined),
            (Each{false, false, false}));
}

TEST(PlanProgram, WideIntegersAreConverted) {
  const auto plan = program("def f(x: i64[8, 8], w: u16[8, 8]):\n    y = x @ w\n    return y\n");
  ASSERT_TRUE(plan) << plan.error().render();
  const plan::Candidate& chosen = plan->kernels[0].discovery.candidates[plan->kernels[0].chosen];
  EXPECT_EQ(package::family_name(chosen.config), "convert");
  EXPECT_EQ(package::accumulator(chosen.config), DType::i64);
}

}  // namespace
