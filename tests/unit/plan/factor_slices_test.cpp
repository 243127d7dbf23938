// SPDX-License-Identifier: Apache-2.0
// Slices of what lies in memory, as factors of products: read where they lie, from where they begin.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "opt/passes.hpp"
#include "opt/slices.hpp"
#include "package/package.hpp"
#include "plan/plan.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/plan_package.hpp"

namespace {

using namespace codetta;

Result<plan::Plan> sliced(const char* target, const std::string& parameters, const std::string& body,
                          plan::Alignment alignment = plan::Alignment::Hinted) {
  const std::string text = "def f(" + parameters + "):\n    " + body + "\n    return y\n";
  CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
  std::vector<opt::Fired> fired;
  CODETTA_TRY(const ir::Graph items, opt::items_of_slices(graph, fired));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(items));
  return plan::plan_program(optimized.graph, Target::parse(target).value(), {}, {}, {}, alignment);
}

// Kernels beside one a product, and factors that a product's own kernel makes.
size_t copies_of(const plan::Plan& plan, size_t products) {
  size_t made = plan.kernels.size() - products;
  for (const plan::PlannedKernel& kernel : plan.kernels)
    made += kernel.lowered.program.makes_a() || kernel.lowered.program.makes_b() ? 1 : 0;
  return made;
}

// Where slices begin, as `w: 0, 32`.
std::vector<std::string> slices_of(const plan::Plan& plan) {
  std::vector<std::string> found;
  for (const package::Step& step : plan.steps) {
    const auto* view = std::get_if<package::Reinterpret>(&step);
    if (view == nullptr) continue;
    std::string text = plan.buffers[view->source].name + ":";
    for (const types::Dim& begin : plan.buffers[view->buffer].begin)
      text += (text.back() == ':' ? " " : ", ") + begin.to_string();
    found.push_back(text);
  }
  return found;
}

struct SliceCase {
  const char *parameters, *body;
  std::vector<std::string> slices;
};
const SliceCase slice_cases[] = {
    // Of a stack of weights, of columns and of rows of one; a part of a split.
    {"x: f32['m', 64], w: f32[8, 64, 32]", "y = x @ w[5]", {"w: 5, 0, 0"}},
    {"x: f32['m', 64], w: f32[64, 96]", "y = x @ w[:, 32:64]", {"w: 0, 32"}},
    {"x: f32['m', 64], w: f32[96, 32]", "y = x @ w[32:, :]", {"w: 32, 0"}},
    {"x: f32['m', 64], w: f32[96, 64]", "y = x @ permute(w[32:64, :], (1, 0))", {"w: 32, 0"}},
    {"x: f32['m', 64], w: f32[64, 64]", "a, b = split(w, 2, dim=1)\n    y = x @ b", {"w: 0, 32"}},
    // Of A, of a slice, every second row; from the first element on there is nothing to skip.
    {"x: f32['m', 96], w: f32[32, 32]", "y = x[:, 64:] @ w", {"x: 0, 64"}},
    {"x: f32['m', 64], w: f32[256, 96]", "v = w[128:, 32:]\n    y = x @ v[8:72, 16:48]", {"w: 136, 48"}},
    {"x: f32['m', 64], w: f32[129, 32]", "y = x @ w[1::2, :]", {"w: 1, 0"}},
    {"x: f32['m', 64], w: f32[64, 96]", "y = x @ w[:, :32]", {}},
    {"x: f32['n', 64], w: f32[64, 32]", "y = x[n // 2:, :] @ w", {"x: n // 2, 0"}},
};

TEST(FactorSlices, AreReadWhereTheyLie) {
  for (const SliceCase& one : slice_cases) {
    for (const char* target : {"cpu:avx2", "cuda:sm_80", "cuda:sm_90a", "hip:gfx942", "hip:gfx1100"}) {
      for (const auto alignment : {plan::Alignment::Hinted, plan::Alignment::Proven, plan::Alignment::Any}) {
        const auto plan = sliced(target, one.parameters, one.body, alignment);
        ASSERT_TRUE(plan) << target << one.body << plan.error().render();
        EXPECT_EQ(copies_of(*plan, 1), 0U) << target << "\n" << one.body << plan::to_string(*plan);
        EXPECT_EQ(slices_of(*plan), one.slices) << target << "\n" << one.body << plan::to_string(*plan);
        EXPECT_EQ(package::find_defect(test::package_of(*plan)).value_or(""), "") << one.body;
      }
    }
  }
}

// Rows that are several dims of a slice are items, whose rows lie as the tensor's do: the windows of a convolution, of
// a tensor of the caller's and of one that is padded, which is stored once for all of them.
TEST(FactorSlices, OfSeveralDimsAreItems) {
  const char* parameters = "l: f32['h', 'w'], x: f16['b', 'h + 2', 'w + 2', 32], k: f16[2, 32, 64]";
  const char* windows =
      "p = reshape(x[:, 0:h, 1:w + 1], (b*h*w, 32)) @ k[0]\n"
      "    q = reshape(x[:, 2:2 + h, 2:2 + w], (b*h*w, 32)) @ k[1]\n    y = p + q + sum(l)";
  const char* padded =
      "z = zeros(3, 2, 32, dtype=f16)\n    a = concat(z, exp(x), dim=1)\n"
      "    y = reshape(a[:, 0:s], (3*s, 32)) @ k[0] + reshape(a[:, 2:], (3*s, 32)) @ k[1]";
  for (const char* target : {"cpu:avx2", "cuda:sm_80", "cuda:sm_90a", "hip:gfx942"}) {
    const auto plan = sliced(target, parameters, windows);
    ASSERT_TRUE(plan) << target << plan.error().render();
    EXPECT_EQ(copies_of(*plan, 3), 0U) << target << plan::to_string(*plan);  // one is the sum
    EXPECT_EQ(slices_of(*plan).size(), 3U) << target << plan::to_string(*plan);
    EXPECT_EQ(package::find_defect(test::package_of(*plan)).value_or(""), "") << plan::to_string(*plan);
    const auto join = sliced(target, "x: f16[3, 's', 32], k: f16[2, 32, 64]", padded);
    ASSERT_TRUE(join) << target << join.error().render();
    EXPECT_LE(join->kernels.size(), 4U) << target << plan::to_string(*join);  // two products, two parts at most
    EXPECT_EQ(slices_of(*join).size(), 2U) << target << plan::to_string(*join);
    EXPECT_EQ(package::find_defect(test::package_of(*join)).value_or(""), "") << plan::to_string(*join);
  }
}

// A product of three slices of one stored matrix, as queries, keys and values are often kept.
TEST(FactorSlices, OfOneMatrixAreProductsOfOneA) {
  for (const char* target : {"cpu:avx2", "cuda:sm_80", "cuda:sm_89", "cuda:sm_90a"}) {
    for (const char* weights : {"[256, 768]", "[3, 256, 256]", "[768, 256]", "split"}) {
      for (const char* rows : {"'m'", "4"}) {
        std::string body, shape = weights;
        if (shape == "[256, 768]") {
          body = "q = x @ w[:, :256]\n    k = x @ w[:, 256:512]\n    y = q * k + x @ w[:, 512:]";
        } else if (shape == "[3, 256, 256]") {
          body = "y = (x @ w[0]) * (x @ w[1]) + x @ w[2]";
        } else if (shape == "[768, 256]") {
          body =
              "y = (x @ permute(w[:256, :], (1, 0))) * (x @ permute(w[256:512, :], (1, 0))) + "
              "x @ permute(w[512:, :], (1, 0))";
        } else {
          shape = "[256, 768]";
          body = "q, k, v = split(w, 3, dim=1)\n    y = (x @ q) * (x @ k) + x @ v";
        }
        const auto plan = sliced(target, std::string("x: f16[") + rows + ", 256], w: f16" + shape, body);
        ASSERT_TRUE(plan) << target << plan.error().render();
        ASSERT_EQ(plan->kernels.size(), 1U) << target << body << plan::to_string(*plan);
        EXPECT_EQ(copies_of(*plan, 1), 0U) << plan::to_string(*plan);
        EXPECT_EQ(slices_of(*plan).size(), 2U) << plan::to_string(*plan);
        EXPECT_EQ(package::find_defect(test::package_of(*plan)).value_or(""), "") << plan::to_string(*plan);
        const auto& program = plan->kernels[0].lowered.program;
        for (const package::Step& step : plan->steps) {
          const auto* launch = std::get_if<package::LaunchKernel>(&step);
          if (launch == nullptr) continue;
          EXPECT_EQ(launch->product->products(), 3U);
          for (size_t i = 0; i < program.more_b.size(); ++i)
            EXPECT_EQ(launch->arguments[program.operands[program.more_b[i]].argument], launch->product->more_b[i]);
        }
      }
    }
  }
}

// A product may read a slice of what its epilogue reads whole, and slices of two matrices are no less alike.
TEST(FactorSlices, OfProductsOfOneAAreArgumentsOfTheirOwn) {
  const auto plan = sliced("cuda:sm_90a", "x: bf16[64, 64], w: bf16[64, 192], v: bf16[64, 192]",
                           "y = (x @ w[:, 64:128]) * (x @ v[:, 128:]) + w[:, 64:128] + v[:, :64]");
  ASSERT_TRUE(plan) << plan.error().render();
  ASSERT_EQ(plan->kernels.size(), 1U) << plan::to_string(*plan);
  EXPECT_EQ(slices_of(*plan), (std::vector<std::string>{"w: 0, 64", "v: 0, 128"})) << plan::to_string(*plan);
  EXPECT_EQ(package::find_defect(test::package_of(*plan)).value_or(""), "") << plan::to_string(*plan);
}

// In any order, with the tensor from its first element on among them, and read by what makes A as well.
TEST(FactorSlices, AreNotTheTensorThatTheyAreOf) {
  const struct {
    const char* body;
    size_t whole;  // operands of the one argument that is the tensor itself
  } cases[] = {{"y = (x @ w[1]) * (x @ w[2]) + x @ w[0]", 1},
               {"h = relu(x + w[0])\n    y = (h @ w[1]) * (h @ w[2])", 1},
               {"h = relu(x + w[0])\n    y = (h @ w[2]) * (h @ w[0]) + h @ w[1]", 2}};
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a", "hip:gfx942"}) {
    for (const auto& one : cases) {
      const auto plan = sliced(target, "x: f32[16, 16], w: f32[3, 16, 16]", one.body);
      ASSERT_TRUE(plan) << plan.error().render();
      ASSERT_EQ(plan->kernels.size(), 1U) << plan::to_string(*plan);
      EXPECT_EQ(package::find_defect(test::package_of(*plan)).value_or(""), "") << target << plan::to_string(*plan);
      const auto& program = plan->kernels[0].lowered.program;
      const auto& launch = *std::get_if<package::LaunchKernel>(&plan->steps[plan->steps.size() - 2]);
      size_t whole = 0;
      for (const package::Operand& operand : program.operands)
        whole += plan->buffers[launch.arguments[operand.argument]].name == "w" ? 1 : 0;
      EXPECT_EQ(whole, one.whole) << target << plan::to_string(*plan);
    }
  }
}

// On GPUs elements side by side are read from multiples of 16 bytes on; rows may begin anywhere.
TEST(FactorSlices, ThatBeginBetweenVectorsAreCopiedOnGpus) {
  const char* parameters = "x: f32['m', 64], w: f32[64, 96]";
  for (const char* target : {"cuda:sm_80", "cuda:sm_90a", "hip:gfx942"}) {
    const auto plan = sliced(target, parameters, "y = x @ w[:, 33:65]");
    ASSERT_TRUE(plan) << plan.error().render();
    EXPECT_EQ(slices_of(*plan).size(), 0U) << target;
    EXPECT_EQ(copies_of(*plan, 1), 1U) << target << plan::to_string(*plan);
  }
  const auto cpu = sliced("cpu:avx2", parameters, "y = x @ w[:, 33:65]");
  ASSERT_TRUE(cpu) << cpu.error().render();
  EXPECT_EQ(slices_of(*cpu).size(), 1U);
  EXPECT_EQ(copies_of(*cpu, 1), 0U);
}

// Metal has no views that begin behind the first element.
TEST(FactorSlices, AreCopiedOnMetal) {
  const auto plan = sliced("metal:apple9", "x: f32['m', 64], w: f32[64, 96]", "y = x @ w[:, 32:64]");
  ASSERT_TRUE(plan) << plan.error().render();
  EXPECT_EQ(slices_of(*plan).size(), 0U);
  EXPECT_EQ(copies_of(*plan, 1), 1U) << plan::to_string(*plan);
}

// Kernels that copy several elements at a time know what the address of a slice is a multiple of.
TEST(FactorSlices, HaveTheAlignmentOfTheirFirstElement) {
  const auto alignment_of = [](const char* parameters, const char* body) {
    const auto plan = sliced("cuda:sm_80", parameters, body);
    EXPECT_TRUE(plan) << plan.error().render();
    return plan ? package::gpu(plan->kernels[0].discovery.candidates[0].config).alignment : 0;
  };
  EXPECT_EQ(alignment_of("x: bf16[1, 36], w: bf16[36, 64]", "y = x @ w"), 16);
  EXPECT_EQ(alignment_of("x: bf16[9, 36], w: bf16[36, 64]", "y = x[2:3, :] @ w"), 16);
  EXPECT_LE(alignment_of("x: bf16[9, 36], w: bf16[36, 64]", "y = x[3:4, :] @ w"), 8);
}

TEST(FactorSlices, OfWhatAStepHasMade) {
  const auto plan = sliced("cpu:avx2", "x: f32[64, 64], w: f32[64, 96], i: i64[64, 96]",
                           "t = scatter(w, i, w)\n    y = x @ t[:, 32:64]");
  ASSERT_TRUE(plan) << plan.error().render();
  EXPECT_EQ(slices_of(*plan), std::vector<std::string>{"t3: 0, 32"}) << plan::to_string(*plan);
}

// The product reads all of the slice for each element: what it is of is never the output as well, even where the
// epilogue reads only the element that it writes.
TEST(FactorSlices, AreNeverUpdatedInPlace) {
  const auto may_be_one = [](const char* body) {
    const auto plan = sliced("cpu:avx2", "x: f32[96, 96], v: f32[96, 64], w: f32[64, 96]", body);
    EXPECT_TRUE(plan) << plan.error().render();
    size_t guards = 0, allowed = 0;
    for (const package::Step& step : plan ? plan->steps : package::StepList()) {
      const auto* check = std::get_if<package::Check>(&step);
      const auto* guard = check == nullptr ? nullptr : std::get_if<package::NoOverlapGuard>(&check->guard);
      if (guard == nullptr || plan->buffers[guard->other].name != "x") continue;
      ++guards;
      allowed += guard->in_place_ok ? 1 : 0;
    }
    EXPECT_EQ(guards, 1U) << body;
    return allowed == 1;
  };
  EXPECT_TRUE(may_be_one("y = v @ w + x"));
  EXPECT_FALSE(may_be_one("y = x[:, 32:] @ w + x + sum(v)"));
  EXPECT_FALSE(may_be_one("y = v @ x[32:, :] + x + sum(w)"));
}

// Nor do temporaries take over what a product reads a slice of: memory that is donated, what a step has made, what a
// branch or a loop begins with.
TEST(FactorSlices, KeepTheMemoryThatTheyAreOf) {
  struct Case {
    const char *functions, *parameters, *body;  // FACTOR: the slice, or another factor
  };
  const Case cases[] = {
      {"", "x: donated[f32[96, 96]]", "y = FACTOR @ w + x"},
      {"", "x: donated[f32[96, 96]]", "y = v @ permute(FACTOR, (1, 0)) + x"},
      {"", "u: f32[96, 96], i: i64[96, 96]", "x = scatter(u, i, u)\n    y = FACTOR @ w + x"},
      {"def yes(x, v, w):\n    return FACTOR @ w + x\ndef no(x, v, w):\n    return x * 2.0\n",
       "p: bool[()], u: f32[96, 96]", "x = u @ u\n    y = cond(p, yes, no, x, v, w)"},
      {"def goes_on(i, x, v, w):\n    return i < 3\ndef go(i, x, v, w):\n    return i + 1, FACTOR @ w + x, v, w\n",
       "u: f32[96, 96]", "x = u @ u\n    i, y, v2, w2 = while_loop(goes_on, go, 0, x, v, w)"},
  };
  const auto updates = [](const plan::Plan& plan, const package::Step& step) {
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr || !launch->product) return false;
    std::vector<std::string> names;
    for (const uint32_t buffer : launch->arguments) names.push_back(plan.buffers[buffer].name);
    const auto count = [&](const std::string& name) { return std::count(names.begin(), names.end(), name); };
    for (size_t i = 0; i < plan.memory.placements.size(); ++i) {
      const auto& placement = plan.memory.placements[i];
      if (placement.kind != plan::Placement::Kind::InPlace) continue;
      const std::string& old = plan.buffers[placement.of].name;
      if (count(plan.buffers[plan.temporaries.requests[i].buffer].name) != 0 &&
          count(old) + count(old + "_donated") != 0)
        return true;
    }
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return count(name) > 1; });
  };
  const auto kernel_updates = [&](const plan::Plan& plan) {
    const auto in_list = [&](const package::StepList& list) {
      return std::any_of(list.begin(), list.end(), [&](const package::Step& step) { return updates(plan, step); });
    };
    return in_list(plan.steps) || std::any_of(plan.step_lists.begin(), plan.step_lists.end(), in_list);
  };
  for (const Case& one : cases) {
    for (const bool slice : {false, true}) {
      std::string text = std::string(one.functions) + "def f(" + one.parameters +
                         ", v: f32[96, 64], w: f32[64, 96], o: f32[96, 8]):\n    " + one.body +
                         "\n    z = y @ o + sum(v) + sum(w)\n    return z\n";
      text.replace(text.find("FACTOR"), 6, slice ? "x[:, 32:]" : "v");
      const auto graph = test::bind_program_text(text);
      ASSERT_TRUE(graph) << text << graph.error().render();
      const auto optimized = opt::optimize(*graph);
      ASSERT_TRUE(optimized) << text;
      const auto plan = plan::plan_program(optimized->graph, Target::parse("cpu:avx2").value(), {}, {}, {});
      ASSERT_TRUE(plan) << text << plan.error().render();
      EXPECT_EQ(kernel_updates(*plan), !slice) << text << plan::to_string(*plan);
    }
  }
}

}  // namespace
