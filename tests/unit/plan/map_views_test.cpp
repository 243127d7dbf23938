// SPDX-License-Identifier: Apache-2.0
// What maps read in another shape: nothing is copied where the place of an element is told by sums of axes.
#include <gtest/gtest.h>

#include <algorithm>

#include "opt/passes.hpp"
#include "package/package.hpp"
#include "plan/plan.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/plan_package.hpp"

namespace {

using namespace codetta;

struct MapView {
  const char *parameters, *body;
  size_t launches;
  const char* code = "";  // of why a value is stored, where one is
};
constexpr MapView map_views[] = {
    // Rows that are two dims of symbolic sizes: element by element, reduced, and both.
    {"x: f32['b', 4, 's', 16]", "y = relu(reshape(permute(x, (0, 2, 1, 3)), (b * s, 64)))", 1},
    {"x: f32['b', 4, 's', 16]", "y = sum(reshape(permute(x, (0, 2, 1, 3)), (b * s, 64)), dim=-1)", 1},
    {"x: f32['b', 4, 's', 16]", "y = softmax(reshape(permute(x, (0, 2, 1, 3)), (b * s, 64)))", 1},
    {"x: f32['b', 4, 's', 16], g: f32[64], r: f32['b * s', 64]",
     "y = rms_norm(reshape(permute(x, (0, 2, 1, 3)), (b * s, 64)), g) + r", 1},
    // The same dims in two orders of heads.
    {"x: f32['b', 4, 's', 16], z: f32['b', 2, 's', 32]",
     "y = softmax(reshape(permute(x, (0, 2, 1, 3)), (b * s, 64)) * reshape(permute(z, (0, 2, 1, 3)), (b * s, 64)))", 1},
    // Columns that are two dims.
    {"x: f32['h', 'c', 'w']", "y = softmax(reshape(permute(x, (1, 0, 2)), (c, h * w)))", 1},
    // Known to be told before: by whole dims, by divisions of constant sizes.
    {"x: f32['b', 'h', 's', 16], y0: f32['b', 's', '16 * h']",
     "y = relu(reshape(permute(x, (0, 2, 1, 3)), (b, s, 16 * h))) + y0", 1},
    {"x: f32[3, 4, 5, 16]", "y = softmax(reshape(permute(x, (0, 2, 1, 3)), (15, 64)))", 1},
    // Four axes: a kernel has three.
    {"x: f32['b', 64, 'h', 'w']", "y = softmax(permute(reshape(x, (b, 64, h * w)), (0, 2, 1)))", 2, "E0303"},
};

TEST(MapViews, NothingIsCopiedWhereSumsOfAxesTellThePlace) {
  for (const MapView& one : map_views) {
    const std::string text = std::string("def f(") + one.parameters + "):\n    " + one.body + "\n    return y\n";
    const auto graph = test::bind_program_text(text);
    ASSERT_TRUE(graph) << graph.error().render();
    const auto optimized = opt::optimize(*graph);
    ASSERT_TRUE(optimized) << optimized.error().render();
    for (const char* target : {"cpu:avx2", "cuda:sm_80", "cuda:sm_90a", "hip:gfx942", "metal:apple9"}) {
      const auto plan =
          plan::plan_program(optimized->graph, Target::parse(target).value(), {}, {}, {}, plan::Alignment::Hinted);
      ASSERT_TRUE(plan) << target << text << plan.error().render();
      const auto launches = std::count_if(plan->steps.begin(), plan->steps.end(), [](const package::Step& step) {
        return std::holds_alternative<package::LaunchKernel>(step);
      });
      EXPECT_EQ(launches, static_cast<ptrdiff_t>(one.launches)) << target << "\n" << text << plan::to_string(*plan);
      EXPECT_EQ(plan::to_string(*plan).find("temporary") == std::string::npos, one.launches == 1) << target << text;
      if (*one.code != '\0') {
        EXPECT_NE(plan::to_string(*plan).find(one.code), std::string::npos) << text << plan::to_string(*plan);
      }
      EXPECT_EQ(package::find_defect(test::package_of(*plan)).value_or(""), "") << text;
    }
  }
}

}  // namespace
