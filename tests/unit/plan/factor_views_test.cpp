// SPDX-License-Identifier: Apache-2.0
// What products see of tensors that lie otherwise: views without copies, and what is copied all the same.
#include <gtest/gtest.h>

#include <algorithm>

#include "opt/passes.hpp"
#include "package/factors.hpp"
#include "package/package.hpp"
#include "plan/plan.hpp"
#include "support/plain_store.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/gpu_discovery.hpp"
#include "unit/plan/plan_package.hpp"

namespace {

using namespace codetta;

Result<plan::Plan> views_on(const char* target, const std::string& text,
                            plan::Alignment alignment = plan::Alignment::Hinted) {
  CODETTA_TRY(const ir::Graph graph, test::bind_program_text(text));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph));
  return plan::plan_program(optimized.graph, Target::parse(target).value(), {}, {}, {}, alignment);
}

// Copies: steps, launches without a product, and factors that a product's own kernel makes.
struct FoundViews {
  size_t copies = 0, views = 0;
};
FoundViews found_views(const plan::Plan& plan) {
  FoundViews found;
  for (const package::Step& step : plan.steps) {
    if (std::holds_alternative<package::Copy>(step)) ++found.copies;
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr) continue;
    const package::EpilogueProgram& program = plan.kernels[launch->kernel].lowered.program;
    if (!launch->product || program.makes_a() || program.makes_b()) ++found.copies;
    if (!launch->product) continue;
    for (const package::FactorView* view : {&launch->product->a_view, &launch->product->b_view})
      found.views += view->empty() ? 0 : 1;
  }
  return found;
}

struct ViewCase {
  const char *parameters, *body;
  size_t copies, views;
};
constexpr ViewCase view_cases[] = {
    // Heads of rows, as they are and as a part of each row; the result is stored as the rows are.
    {"q: f32['b', 's', 4, 16], k: f32['b', 't', 4, 16]",
     "y = permute(q, (0, 2, 1, 3)) @ transpose(permute(k, (0, 2, 1, 3)))", 0, 2},
    {"q: f32['b', 's', 64], k: f32['b', 't', 64]",
     "y = permute(reshape(q, (b, s, 4, 16)), (0, 2, 1, 3)) @ permute(reshape(k, (b, t, 4, 16)), (0, 2, 3, 1))", 0, 2},
    {"p: f32['b', 4, 's', 't'], v: f32['b', 't', 64]",
     "y = reshape(permute(p @ permute(reshape(v, (b, t, 4, 16)), (0, 2, 1, 3)), (0, 2, 1, 3)), (b, s, 64))", 0, 1},
    // One stride for the items.
    {"x: f32['s', 4, 16], w: f32[4, 16, 8]", "y = permute(x, (1, 0, 2)) @ w", 0, 1},
    // Matrices out of one dim.
    {"x: f32['s', 64], w: f32[4096]", "y = x @ reshape(w, (64, 64))", 0, 1},
    {"x: f32[1024], w: f32[64, 16]", "y = reshape(x, (16, 64)) @ w", 0, 1},
    // Heads of a symbolic number are one dim with the batch, and put back by a map.
    {"q: f32['b', 's', 'h', 16], k: f32['b', 't', 'h', 16]",
     "y = exp(permute(q, (0, 2, 1, 3)) @ permute(k, (0, 2, 3, 1)))", 1, 2},
    // Heads share a B; a batch shares an A.
    {"q: f32['b', 'h', 's', 16], k: f32['b', 1, 't', 16]", "y = exp(q @ transpose(k))", 1, 1},
    // Elements of both last dims lie apart: a copy is read faster.
    {"x: f32['s', 16, 4], w: f32[4, 16, 8]", "y = permute(x, (2, 0, 1)) @ w", 1, 0},
    // Three strides, of A; and two each, of which the second begin after different numbers of items.
    {"x: f32['a', 's', 2, 3, 16], w: f32['a', 3, 2, 16, 8]", "y = permute(x, (0, 3, 2, 1, 4)) @ w", 1, 0},
    {"x: f32[4, 's', 6, 16], w: f32[6, 16, 4, 8]",
     "y = permute(x, (0, 2, 1, 3)) @ reshape(permute(reshape(w, (3, 2, 16, 4, 8)), (0, 3, 1, 2, 4)), (4, 6, 16, 8))", 1,
     1},
    // What is computed goes where its product reads it.
    {"x: f32['b', 's', 64], w: f32[64, 64], k: f32['b', 4, 16, 't']",
     "y = permute(reshape(x @ w, (b, s, 4, 16)), (0, 2, 1, 3)) @ k", 0, 0},
};

TEST(FactorViews, NothingIsCopiedThatLaunchesReadWhereItLies) {
  for (const ViewCase& one : view_cases) {
    const std::string text = std::string("def f(") + one.parameters + "):\n    " + one.body + "\n    return y\n";
    for (const char* target : {"cpu:avx2", "cuda:sm_80", "cuda:sm_90a", "hip:gfx942", "hip:gfx1100", "metal:apple9"}) {
      const auto plan = views_on(target, text);
      ASSERT_TRUE(plan) << target << text << plan.error().render();
      const FoundViews found = found_views(*plan);
      EXPECT_EQ(found.copies, one.copies) << target << "\n" << text << plan::to_string(*plan);
      EXPECT_EQ(found.views, one.views) << target << "\n" << text << plan::to_string(*plan);
      EXPECT_EQ(package::find_defect(test::package_of(*plan)).value_or(""), "") << text;
    }
  }
}

// Kernels that nothing is known for take them, too; what products of the library's do not take is left to others.
TEST(FactorViews, WhereverTensorsLie) {
  for (const ViewCase& one : view_cases) {
    const std::string text = std::string("def f(") + one.parameters + "):\n    " + one.body + "\n    return y\n";
    for (const char* target : {"cuda:sm_80", "cuda:sm_90a", "hip:gfx942"}) {
      for (const auto alignment : {plan::Alignment::Proven, plan::Alignment::Any, plan::Alignment::Uneven}) {
        const auto plan = views_on(target, text, alignment);
        ASSERT_TRUE(plan) << target << text << plan.error().render();
        EXPECT_EQ(found_views(*plan).views, one.views) << target << text;
      }
    }
  }
}

// Rows and columns that are several dims: nothing is copied where launches may check that these lie as one.
constexpr ViewCase as_one_cases[] = {
    {"x: f32['h', 'w', 72], k: f32[72, 16]", "y = relu(reshape(x, (h * w, 72)) @ k)", 0, 1},
    {"x: f32[4, 8, 72], k: f32[72, 16]", "y = relu(reshape(x, (32, 72)) @ k)", 0, 1},
    {"x: f32['b', 's', 4, 16], k: f32[64, 8]", "y = reshape(x, (b * s, 64)) @ k", 0, 1},
    {"x: f32['m', 64], k: f32[4, 16, 8]", "y = x @ reshape(k, (64, 8))", 0, 1},
    {"x: f32['b', 'h', 's', 16], k: f32['b', 'h', 16, 8]",
     "y = reshape(x, (b * h, s, 16)) @ reshape(k, (b * h, 16, 8))", 0, 0},
    {"x: f32['b', 1, 's', 64], k: f32[64, 8]", "y = reshape(x, (b * s, 64)) @ k", 0, 1},
    // Dims that do not lie one inside the other, and rows whose elements may not lie side by side.
    {"x: f32['b', 4, 's', 16], k: f32[64, 8]", "y = reshape(permute(x, (0, 2, 1, 3)), (b * s, 64)) @ k", 1, 0},
    {"x: f32['m', 4, 'd'], k: f32['4 * d', 8]", "y = reshape(x, (m, 4 * d)) @ k", 1, 0},
};

TEST(FactorViews, SeveralDimsAreRowsOrColumns) {
  for (const ViewCase& one : as_one_cases) {
    const std::string text = std::string("def f(") + one.parameters + "):\n    " + one.body + "\n    return y\n";
    for (const char* target : {"cpu:avx2", "cuda:sm_80", "cuda:sm_90a", "hip:gfx942", "hip:gfx1100"}) {
      for (const auto alignment : {plan::Alignment::Hinted, plan::Alignment::Any}) {
        const auto plan = views_on(target, text, alignment);
        ASSERT_TRUE(plan) << target << text << plan.error().render();
        const FoundViews found = found_views(*plan);
        EXPECT_EQ(found.copies, one.copies) << target << "\n" << text << plan::to_string(*plan);
        EXPECT_EQ(found.views, one.views) << target << "\n" << text << plan::to_string(*plan);
        const package::Package package = test::package_of(*plan);
        EXPECT_EQ(package::find_defect(package).value_or(""), "") << text;
        EXPECT_EQ(package::dims_as_one(package).empty(), one.views == 0) << text;
        EXPECT_EQ(package::may_be_uneven(package), one.views != 0) << text;
      }
      // What takes over has copies, and asks for nothing.
      const auto uneven = views_on(target, text, plan::Alignment::Uneven);
      ASSERT_TRUE(uneven) << target << text << uneven.error().render();
      const bool packed =
          std::string(target) == "cpu:avx2" && std::string(one.body).find("@ reshape") != std::string::npos;
      EXPECT_EQ(found_views(*uneven).copies, packed ? 0 : std::max(one.copies, one.views)) << target << text;
      EXPECT_FALSE(package::may_be_uneven(test::package_of(*uneven))) << target << text;
    }
    const auto metal = views_on("metal:apple9", text);
    ASSERT_TRUE(metal) << text << metal.error().render();
    EXPECT_EQ(found_views(*metal).views, 0u) << "no other program takes over there\n" << text;
  }
}

// A tensor that is both factors, and seen in two ways: dims 0 and 1, and 2 and 3, are one in A; 0, 1 and 2 are in B.
TEST(FactorViews, SeveralDimsOfBothFactors) {
  for (const char* target : {"cpu:avx2", "cuda:sm_80"}) {
    const auto plan = views_on(target,
                               "def f(x: f32[4, 2, 2, 8]):\n    y = reshape(x, (8, 16)) @ reshape(x, (16, 8))\n"
                               "    return y\n");
    ASSERT_TRUE(plan) << plan.error().render();
    ASSERT_EQ(found_views(*plan).views, 2u) << target << plan::to_string(*plan);
    std::vector<std::pair<int, size_t>> dims;
    for (const package::DimsAsOne& one : package::dims_as_one(test::package_of(*plan)))
      dims.emplace_back(one.last, one.count);
    std::sort(dims.begin(), dims.end());
    EXPECT_EQ(dims, (std::vector<std::pair<int, size_t>>{{0, 2}, {1, 3}, {2, 2}})) << target;
  }
}

// The product is the one of a matrix: kernels are ranked as for that.
TEST(FactorViews, SeveralDimsAreAsManyRows) {
  for (const char* target : {"cpu:avx2", "cuda:sm_90a", "hip:gfx942"}) {
    const auto seen = views_on(target,
                               "def f(x: f32[8, 64, 128], k: f32[128, 256], r: f32[512, 256]):\n"
                               "    y = relu(reshape(x, (512, 128)) @ k + r)\n    return y\n");
    const auto plain = views_on(target,
                                "def f(x: f32[512, 128], k: f32[128, 256], r: f32[512, 256]):\n"
                                "    y = relu(x @ k + r)\n    return y\n");
    ASSERT_TRUE(seen && plain);
    ASSERT_EQ(seen->kernels.size(), 1u);
    EXPECT_EQ(seen->kernels[0].shape, plain->kernels[0].shape) << target;
    EXPECT_EQ(seen->kernels[0].discovery.candidates[0].name, plain->kernels[0].discovery.candidates[0].name) << target;
  }
}

// What the program makes is read where it lies, too: joins that are stored part by part, and outputs.
TEST(FactorViews, SeveralDimsOfWhatIsStored) {
  const ViewCase cases[] = {
      {"x: f32['h', 'w', 24], z: f32['h', 'w', 48], k: f32[72, 16]",
       "c = concat(x, z, dim=2)\n    y = reshape(c, (h * w, 72)) @ k\n    return y", 2, 1},
      {"x: f32['h', 'w', 36], z: f32['h', 'w', 36], k: f32[72, 16]",
       "c = concat(x, z, dim=2)\n    y = reshape(c, (h * w, 72)) @ k\n    return y", 2, 1},
      {"x: f32['h', 'w', 72], k: f32[72, 16]", "c = softmax(x)\n    y = reshape(c, (h * w, 72)) @ k\n    return y, c",
       1, 1},
      {"x: f32['h', 'w', 72], k: f32[72, 16]", "c = softmax(x)\n    y = reshape(c, (h * w, 72)) @ k\n    return y", 1,
       0},
  };
  for (const ViewCase& one : cases) {
    const std::string text = std::string("def f(") + one.parameters + "):\n    " + one.body + "\n";
    const auto plan = views_on("cpu:avx2", text);
    ASSERT_TRUE(plan) << text << plan.error().render();
    EXPECT_EQ(found_views(*plan).copies, one.copies) << text << plan::to_string(*plan);
    EXPECT_EQ(found_views(*plan).views, one.views) << text << plan::to_string(*plan);
    const bool of_output = std::string(one.body).find("y, c") != std::string::npos;
    EXPECT_EQ(package::may_be_uneven(test::package_of(*plan)), of_output) << "temporaries lie evenly\n" << text;
  }
}

// Items are further rows where those of one follow those of another in memory.
TEST(FactorViews, ItemsAreRowsWhereTheyFollow) {
  const struct {
    const char *parameters, *body;
    int64_t items;
  } cases[] = {
      {"x: f32[4, 's', 16], w: f32[16, 8]", "y = x @ w", 1},
      {"x: f32[4096], w: f32[16, 8]", "y = reshape(x, (8, 32, 16)) @ w", 1},
      {"x: f32['s', 4, 16], w: f32[16, 8]", "y = permute(x, (1, 0, 2)) @ w", 4},
  };
  for (const auto& one : cases) {
    const std::string text = std::string("def f(") + one.parameters + "):\n    " + one.body + "\n    return y\n";
    for (const char* target : {"cpu:avx2", "cuda:sm_80", "hip:gfx942"}) {
      const auto plan = views_on(target, text);
      ASSERT_TRUE(plan) << plan.error().render();
      EXPECT_EQ(plan->kernels[0].shape.batch, one.items) << target << text;
    }
  }
}

// Kernels that nothing is known for have an order in which neighbouring threads take elements all the same.
TEST(FactorViews, AnywhereIsLikelyInOrder) {
  const struct {
    const char *parameters, *body;
    bool a_k_major, b_k_major;
  } cases[] = {
      {"x: f32['m', 64], w: f32[64, 'n']", "y = x @ w", true, false},
      {"x: f32['m', 64], w: f32['n', 64]", "y = x @ transpose(w)", true, true},
      {"x: f32[64, 'm'], w: f32[64, 'n']", "y = transpose(x) @ w", false, false},
  };
  for (const auto& one : cases) {
    const std::string text = std::string("def f(") + one.parameters + "):\n    " + one.body + "\n    return y\n";
    for (const char* target : {"cuda:sm_90a", "hip:gfx942"}) {
      const auto plan = views_on(target, text, plan::Alignment::Any);
      ASSERT_TRUE(plan) << plan.error().render();
      const plan::PlannedKernel& kernel = plan->kernels[0];
      const package::GpuGemmConfig& config = package::gpu(kernel.discovery.candidates[kernel.chosen].config);
      ASSERT_EQ(config.family, package::GpuFamily::Simt);
      EXPECT_EQ(config.a_k_major, one.a_k_major) << target << text;
      EXPECT_EQ(config.b_k_major, one.b_k_major) << target << text;
    }
  }
}

TEST(FactorViews, StandInPackages) {
  const auto plan = views_on("cpu:avx2",
                             "def f(q: f32['b', 's', 64], k: f32['b', 4, 16, 't']):\n"
                             "    y = permute(reshape(q, (b, s, 4, 16)), (0, 2, 1, 3)) @ k\n    return y\n");
  ASSERT_TRUE(plan);
  const std::string text = plan::to_string(*plan);
  EXPECT_NE(text.find("q as [b of dim -3, 4 of dim -1 by 16, s of dim -2, 16 of dim -1]"), std::string::npos) << text;
}

// Of two strides of items a refusal names the one that does not fit.
TEST(FactorViews, TheStrideThatIsNoMultipleIsNamed) {
  plan::GemmShape shape = test::gpu_shape(4, 256, 64, DType::f32);
  shape.batch = 8;
  shape.inner = 4;
  shape.a_batch_stride = 256, shape.a_skip = 2;
  shape.b_batch_stride = 64 * 256;
  const auto reason = [&] {
    const auto program = test::plain_store(DType::f32, DType::f32);
    shape.math = MathMode::Tf32;
    return test::reasons_of(plan::discover(program, shape, {Backend::cuda, CpuIsa::generic, "sm_90a"}, {}),
                            "cuda_stream", true);
  };
  EXPECT_NE(reason().find("the batch stride of A is 4104 bytes, no multiple of 16"), std::string::npos) << reason();
  shape.a_batch_stride = 258, shape.a_skip = 0;
  EXPECT_NE(reason().find("the batch stride of A is 1032 bytes, no multiple of 16"), std::string::npos) << reason();
}

}  // namespace
