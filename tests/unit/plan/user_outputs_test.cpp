// SPDX-License-Identifier: Apache-2.0
// Kernels and functions of the caller's whose results are outputs: who writes what, where, and what is checked first.
#include <gtest/gtest.h>

#include <algorithm>

#include "opt/passes.hpp"
#include "package/factors.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/plan_package.hpp"

namespace codetta::plan {
namespace {

using package::Buffer;

struct Kind {
  Target target;
  UserSource::Language language;
};
const Kind cuda{{Backend::cuda, {}, "sm_90a"}, UserSource::Language::Cuda};
const Kind hip{{Backend::hip, {}, "gfx942"}, UserSource::Language::Hip};

Plan planned(const std::string& text, const Kind& kind, Alignment alignment, const std::string& clauses = "grid(m)") {
  const auto bound = test::bind_program_text(text);
  EXPECT_TRUE(bound) << text << (bound ? "" : bound.error().render());
  const auto graph = opt::optimize(*bound);
  const std::vector<UserSource> sources{
      {"scale", "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n]) block(64) " + clauses + "\n", kind.language,
       "scale.cu"}};
  auto plan = plan_program(graph->graph, kind.target, {}, {{"m", 64}, {"n", 64}}, sources, alignment);
  EXPECT_TRUE(plan) << text << (plan ? "" : plan.error().render());
  return plan ? *std::move(plan) : Plan{};
}

// Steps of all lists.
template <class Step>
std::vector<Step> steps(const Plan& plan) {
  std::vector<Step> found;
  const auto look = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      if (const auto* one = std::get_if<Step>(&step)) found.push_back(*one);
    }
  };
  look(plan.steps);
  for (const package::StepList& list : plan.step_lists) look(list);
  return found;
}
// What kernels of the user's read and write: "t1 y; ".
std::string touched(const Plan& plan) {
  std::string text;
  for (const auto& launch : steps<package::LaunchKernel>(plan)) {
    if (!plan.kernels[launch.kernel].user) continue;
    for (const uint32_t buffer : launch.arguments)
      text += plan.buffers[buffer].role == Buffer::Role::Temporary ? "temporary " : plan.buffers[buffer].name + " ";
  }
  return text;
}
std::string checks(const Plan& plan) {
  const package::Package package = test::package_of(plan);
  std::string text;
  for (const package::Step& step : plan.steps) {
    const auto* check = std::get_if<package::Check>(&step);
    if (check == nullptr || !package::written_by_user(package, check->guard)) continue;
    text += package::line_of(step, {[&](uint32_t b) { return plan.buffers[b].name; }, {}}) + "\n";
  }
  return text;
}

constexpr const char* alone =
    "def f(x: f32['m', 'n']):\n    y = user_kernel('scale', x, out='f32[m, n]')\n    return y\n";

TEST(UserOutputs, AreWrittenWhereTheyLie) {
  for (const Kind& kind : {cuda, hip}) {
    for (const Alignment alignment : {Alignment::Hinted, Alignment::Proven, Alignment::Any}) {
      const Plan plan = planned(alone, kind, alignment);
      EXPECT_EQ(touched(plan), "x y ");
      EXPECT_EQ(plan.kernels.size(), 1U);
      EXPECT_EQ(plan.pools.size(), 0U);
      EXPECT_EQ(checks(plan), "check y has stride 1 in dim 1\ncheck y has stride n in dim 0\n");
      EXPECT_TRUE(package::may_be_uneven(test::package_of(plan)));
      EXPECT_NE(to_string(plan).find("check y has stride n in dim 0"), std::string::npos);
    }
    for (const Alignment alignment : {Alignment::Uneven, Alignment::Empty}) {
      const Plan plan = planned(alone, kind, alignment);
      EXPECT_EQ(touched(plan), "x temporary ");
      EXPECT_EQ(plan.kernels.size(), 2U);
      EXPECT_EQ(checks(plan), "");
      EXPECT_NE(memory_text(plan).find("t"), std::string::npos);
    }
  }
}

// Strides that are asked for may be any, a map has rules of its own.
TEST(UserOutputs, AreCheckedForWhatTheKernelTakes) {
  EXPECT_EQ(checks(planned(alone, cuda, Alignment::Hinted, "grid(m) sizes(stride(y, 0))")),
            "check y has stride 1 in dim 1\n");
  EXPECT_EQ(checks(planned(alone, cuda, Alignment::Hinted, "grid(m) sizes(stride(y, 0), stride(y, 1))")),
            "check y is aligned to 4 bytes\n");
  EXPECT_EQ(checks(planned(alone, cuda, Alignment::Hinted, "grid(m) map(y, box(8, 8))")),
            "check y has stride 1 in dim 1\ncheck y is aligned to 16 bytes\n");
  EXPECT_EQ(checks(planned("def f(x: f32['m', 'n']):\n    y = user_kernel('scale', x + 1.0, out='f32[m, n]')\n"
                           "    z = y * 2.0\n    return z\n",
                           cuda, Alignment::Hinted)),
            "");
}

TEST(UserOutputs, AreReadByOthersThere) {
  // Returned once more, and read.
  const std::string twice =
      "def f(x: f32['m', 'n']):\n    y = user_kernel('scale', x, out='f32[m, n]')\n    z = y * 2.0\n    v = y\n"
      "    return y, z, v\n";
  EXPECT_EQ(touched(planned(twice, cuda, Alignment::Hinted)), "x y ");
  EXPECT_EQ(touched(planned(twice, cuda, Alignment::Uneven)), "x temporary ");
  // By a kernel of the user's, which is told how the output lies, or reads it elsewhere.
  const std::string chain =
      "def f(x: f32['m', 'n'], w: f32['n', 'n']):\n    h = relu(x @ w)\n"
      "    y = user_kernel('scale', h, out='f32[m, n]')\n    return h, y\n";
  for (const Kind& kind : {cuda, hip}) {
    EXPECT_EQ(touched(planned(chain, kind, Alignment::Hinted)), "h y ");
    EXPECT_EQ(touched(planned(chain, kind, Alignment::Uneven)), "temporary temporary ");
    EXPECT_EQ(checks(planned(chain, kind, Alignment::Uneven)), "");
  }
  // Of another type than the result.
  EXPECT_EQ(touched(planned("def f(x: f32['m', 'n']):\n    y = cast(user_kernel('scale', x, out='f32[m, n]'), bf16)\n"
                            "    return y\n",
                            cuda, Alignment::Hinted)),
            "x temporary ");
}

// An output with sizes that the run computes is made in memory of its own, and the part copied, as before.
TEST(UserOutputs, ThatAreFilledInPart) {
  const std::string text =
      "def f(x: f32['m', 'n'], k: i64[()]):\n    y = user_kernel('scale', x[:k] * 2.0, out='f32[k, n]')\n    return "
      "y\n";
  const Plan plan = planned(text, cuda, Alignment::Hinted);
  EXPECT_EQ(touched(plan), "temporary temporary ");
  EXPECT_EQ(plan.kernels.size(), 2U) << "the slice, and the user's";
  EXPECT_EQ(checks(plan), "");
}

// In a branch; and what a loop carries in an output is copied there at the end of a turn.
TEST(UserOutputs, OfBranchesAndLoops) {
  const std::string branch =
      "def one(x: f32['m', 'n']):\n    return user_kernel('scale', x, out='f32[m, n]')\n"
      "def other(x: f32['m', 'n']):\n    return x * 2.0\n"
      "def f(p: bool, x: f32['m', 'n']):\n    y = cond(p, one, other, x)\n    return y\n";
  EXPECT_EQ(touched(planned(branch, cuda, Alignment::Hinted)), "x y ");
  EXPECT_EQ(touched(planned(branch, cuda, Alignment::Uneven)), "x temporary ");
  const std::string loop =
      "def more(i: i32[1], x: f32['m', 'n']):\n    return i[0] < 3\n"
      "def body(i: i32[1], x: f32['m', 'n']):\n    return i + 1, user_kernel('scale', x, out='f32[m, n]')\n"
      "def f(i: i32[1], x: f32['m', 'n']):\n    j, y = while_loop(more, body, i, x)\n    return y\n";
  const Plan carried = planned(loop, cuda, Alignment::Hinted);
  EXPECT_EQ(touched(carried), "y temporary ");
  EXPECT_NE(checks(carried), "");
  const Plan beside = planned(loop, cuda, Alignment::Uneven);
  EXPECT_EQ(touched(beside), "temporary temporary ");
  EXPECT_EQ(checks(beside), "");
}

// They may lie where an input does that others have read by then, and not where they read themselves.
TEST(UserOutputs, OverlapWhatIsOver) {
  const auto may_be_x = [](const std::string& text) {
    const Plan plan = planned(text, cuda, Alignment::Hinted);
    for (const auto& check : steps<package::Check>(plan)) {
      const auto* guard = std::get_if<package::NoOverlapGuard>(&check.guard);
      if (guard != nullptr && plan.buffers[guard->other].name == "x") return guard->in_place_ok;
    }
    ADD_FAILURE() << text;
    return false;
  };
  EXPECT_TRUE(
      may_be_x("def f(x: f32['m', 'n'], w: f32['n', 'n']):\n    h = x @ w\n"
               "    y = user_kernel('scale', h, out='f32[m, n]')\n    return y\n"));
  EXPECT_FALSE(may_be_x(alone));
  EXPECT_FALSE(
      may_be_x("def f(x: f32['m', 'n'], w: f32['n', 'n']):\n    h = x @ w\n"
               "    y = user_kernel('scale', h, out='f32[m, n]')\n    z = sum(y * x)\n    return y, z\n"));
  EXPECT_TRUE(
      may_be_x("def f(x: f32['m', 'n'], w: f32['n', 'n']):\n    h = x @ w\n"
               "    y = call_extern('scale', h, out='f32[m, n]')\n    return y\n"));
  EXPECT_FALSE(may_be_x("def f(x: f32['m', 'n']):\n    y = call_extern('scale', x, out='f32[m, n]')\n    return y\n"));
}

// Functions are told strides, and write any output.
TEST(UserOutputs, OfFunctions) {
  for (const std::string form : {"out", "alloc"}) {
    const std::string text = "def f(x: f32['m', 'n']):\n    y = call_extern('scale', x, out='f32[m, n]', form='" +
                             form + "')\n    return y\n";
    for (const Alignment alignment : {Alignment::Hinted, Alignment::Empty}) {
      const Plan plan = planned(text, cuda, alignment);
      EXPECT_TRUE(plan.kernels.empty());
      const auto calls = steps<package::CallExtern>(plan);
      ASSERT_EQ(calls.size(), 1U);
      if (form == "out") {
        EXPECT_EQ(plan.buffers[calls[0].outputs.at(0)].name, "y");
      } else {
        const auto copies = steps<package::Copy>(plan);
        ASSERT_EQ(copies.size(), 1U);
        EXPECT_EQ(plan.buffers[copies[0].target].name, "y");
      }
    }
  }
}

}  // namespace
}  // namespace codetta::plan
