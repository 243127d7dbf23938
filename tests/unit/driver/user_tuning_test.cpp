// SPDX-License-Identifier: Apache-2.0
// Configurations of kernels of the user's: which one a program takes by what is kept of their times. The times are made
// up here, and which configuration ran is what it computed.
#include "driver/user_tuning.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/files.hpp"
#include "codetta/build.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

// y = x + 100 * WAY
constexpr const char* marked_source =
    "#pragma codetta config(WAY = 0) config(WAY = 1)\n"
    "#pragma codetta config(WAY = 2, HALF = WAY / 2) config(WAY = 1)\n"
    "void marked(Tensor<const float, 2> x, float by, Tensor<float, 2> y) {\n"
    "  for (int64_t r = 0; r < x.size(0); ++r)\n"
    "    for (int64_t c = 0; c < x.size(1); ++c) y(r, c) = x(r, c) * by + 100 * WAY;\n"
    "}\n";
constexpr const char* marked_text =
    "def f(x: f32[\"n\", 24], by: f32):\n"
    "    h = x + 1.0\n"
    "    y = user_kernel(\"marked\", h, by, out=\"f32[n, 24]\")\n"
    "    return y\n";
const std::string call_of_8 = "marked(f32[8, 24], f32) -> f32[8, 24]";

class UserTuningTest : public ::testing::Test {
 protected:
  base::TemporaryDirectory folder_ = *base::TemporaryDirectory::make("/tmp", "codetta-user-tuning-");
  Context context_ = context("cache");

  Context context(const std::string& name) const {
    ContextOptions options;
    options.cache_dir = folder_.path() + "/" + name;
    options.threads = 1;
    return Context::make(options).value();
  }
  static Program program(const std::string& kernel = marked_source) {
    return Program::parse(marked_text, "p.py").value().with_kernels({{"marked", kernel, {}, "marked.cc"}}).value();
  }
  static plan::UserSource source_of(const Program& program) {
    return Program::Access::state(program)->user_sources.front();
  }
  static Result<CompiledProgram> compiled(const Program& program, int64_t n, Context& context) {
    return compile(program, Target::host(), {{"n", n}}, context);
  }
  // Which configuration computed this.
  static int way(const CompiledProgram& program, int64_t n) {
    const Tensor x = Tensor::make(f32, {n, 24}).value(), y = Tensor::make(f32, {n, 24}).value();
    fill_random(x.view(), 1);
    const auto ran = program.run({{"x", x.view()}, {"by", 0.0}, {"y", y.view()}});
    EXPECT_TRUE(ran) << ran.error().render();
    return static_cast<int>(*y.view().as<const float>()) / 100;
  }
  static int way(const Program& program, int64_t n, Context& context) {
    const auto made = compiled(program, n, context);
    EXPECT_TRUE(made) << made.error().render();
    return made ? way(*made, n) : -1;
  }
  void keep(const Program& program, const driver::TuningChanges& times) {
    driver::keep_user_times(*context_.shared_state(), source_of(program), Target::host(), times);
  }
};

TEST_F(UserTuningTest, TheFastestForTheSizesIsCompiled) {
  const Program tuned = program();
  EXPECT_EQ(way(tuned, 8, context_), 0) << "the first, while nothing is measured";
  keep(tuned, {{"WAY=0 of " + call_of_8, 9.0},
               {"WAY=1 of " + call_of_8, 4.0},
               {"WAY=2, HALF=1 of " + call_of_8, 5.0},
               {"WAY=2, HALF=1 of marked(f32[9, 24], f32) -> f32[9, 24]", 1.0}});
  EXPECT_EQ(way(tuned, 8, context_), 1);
  EXPECT_EQ(way(tuned, 8, context_), 1) << "from the cache";
  EXPECT_EQ(way(tuned, 9, context_), 2);
  EXPECT_EQ(way(tuned, 10, context_), 0) << "times are of their sizes";
  EXPECT_EQ(way(program(std::string(marked_source) + "\n"), 8, context_), 0) << "and of their source";

  // A program of several sizes takes for each what is its fastest.
  const auto sizes = compile(tuned, Target::host(), {{"n", 8}, {"n", 9}}, context_);
  ASSERT_TRUE(sizes) << sizes.error().render();
  EXPECT_EQ(way(*sizes, 8), 1);
  EXPECT_EQ(way(*sizes, 9), 2);
}

TEST_F(UserTuningTest, WhatIsCompiledStaysWhenTimesChange) {
  const Program tuned = program();
  keep(tuned, {{"WAY=1 of " + call_of_8, 4.0}});
  const auto before = compiled(tuned, 8, context_);
  ASSERT_TRUE(before);
  keep(tuned, {{"WAY=1 of " + call_of_8, 4.0}, {"WAY=2, HALF=1 of " + call_of_8, 3.0}});
  EXPECT_EQ(way(*before, 8), 1);
  const std::string plan = before->emit(Stage::Plan).value();
  EXPECT_NE(plan.find("* user_marked_WAY_1 "), std::string::npos) << plan;
  EXPECT_EQ(way(tuned, 8, context_), 2);
  keep(tuned, {{"WAY=0 of " + call_of_8, 1.0}, {"WAY=2, HALF=1 of " + call_of_8, 3.0}});
  EXPECT_EQ(way(tuned, 8, context_), 0);
}

TEST_F(UserTuningTest, ExplainedAndExchanged) {
  const Program tuned = program();
  const auto explained = [&](Context& context, bool json) {
    return explain(tuned, Target::host(), {{"n", 8}}, json, context).value();
  };
  EXPECT_NE(explained(context_, false)
                .find("picked   user_marked_WAY_0, the first of 3 configurations, none of which is measured"),
            std::string::npos)
      << explained(context_, false);
  EXPECT_EQ(explained(context_, true).find("\"measured_us\": null"), explained(context_, true).find("\"measured_us\""));
  keep(tuned, {{"WAY=0 of " + call_of_8, 9.0}, {"WAY=2, HALF=1 of " + call_of_8, 5.25}});
  const std::string expected =
      "picked   user_marked_WAY_2_HALF_1, 5.25 us measured, of 3 configurations\n"
      "             user_marked_WAY_0, 9.00 us measured\n"
      "             not measured: 1\n";
  EXPECT_NE(explained(context_, false).find(expected), std::string::npos) << explained(context_, false);
  EXPECT_NE(explained(context_, true).find("\"measured_us\": 5.25"), std::string::npos) << explained(context_, true);

  Context other = context("other");
  EXPECT_EQ(explained(other, false).find(expected), std::string::npos);
  const auto file = export_tuning(context_);
  ASSERT_TRUE(file) << file.error().render();
  const auto taken = import_tuning(*file, other);
  ASSERT_TRUE(taken) << taken.error().render();
  EXPECT_EQ(taken->records, 1);
  EXPECT_NE(explained(other, false).find(expected), std::string::npos) << explained(other, false);
  EXPECT_EQ(way(tuned, 8, other), 2);

  // Times that the file does not have stay.
  Context third = context("third");
  driver::keep_user_times(
      *third.shared_state(), source_of(tuned), Target::host(),
      {{"WAY=1 of marked(f32[9, 24], f32) -> f32[9, 24]", 3.0}, {"WAY=2, HALF=1 of " + call_of_8, 7.0}});
  ASSERT_TRUE(import_tuning(*file, third));
  EXPECT_NE(explained(third, false).find(expected), std::string::npos) << explained(third, false);
  EXPECT_EQ(way(tuned, 9, third), 1);
}

TEST_F(UserTuningTest, SeveralMayKeepTimesAtOnce) {
  const Program tuned = program();
  constexpr int each = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Context own = context("cache");
      for (int i = 0; i < each; ++i)
        driver::keep_user_times(*own.shared_state(), source_of(tuned), Target::host(),
                                {{fmt::format("{} {}", t, i), 1.0}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto record = driver::load_user_record(*context_.shared_state(), source_of(tuned), Target::host());
  EXPECT_EQ(record.medians.size(), size_t{4 * each});
}

// A kernel of the user's runs by one thread, whatever the pool has.
TEST_F(UserTuningTest, TimesHoldForAnyNumberOfThreads) {
  const Program tuned = program();
  keep(tuned, {{"WAY=1 of " + call_of_8, 4.0}});
  ContextOptions options;
  options.cache_dir = folder_.path() + "/cache";
  options.threads = 3;
  Context three = Context::make(options).value();
  EXPECT_EQ(way(tuned, 8, three), 1);
}

TEST_F(UserTuningTest, LibrariesTakeIt) {
  const Program tuned = program();
  const auto listed = [&] {
    BuildOptions options;
    options.name = "marked";
    options.size_hints = {{"n", 8}};
    return compile(tuned, Target::host(), {{"n", 8}}, context_).value().emit(Stage::Source).value() +
           host_text({tuned}, Target::host(), options, context_).value();
  };
  const std::string first = listed();
  keep(tuned, {{"WAY=1 of " + call_of_8, 5.0}});
  const std::string then = listed();
  const auto kernel = [](const std::string& all) {
    const size_t at = all.find("codetta_marked_", all.find("// ---- marked.h ----"));
    return at == std::string::npos ? "none" : all.substr(at, 23);
  };
  EXPECT_NE(first.find("#define WAY 0\n"), std::string::npos);
  EXPECT_NE(then.find("#define WAY 1\n"), std::string::npos);
  EXPECT_NE(kernel(first), "none");
  EXPECT_NE(kernel(first), kernel(then));
  EXPECT_NE(then.find("// ---- " + kernel(then) + " ----"), std::string::npos) << "as in process";
}

// The text is that of the library: what is measured for one is taken by the other.
TEST_F(UserTuningTest, TextsAreTunedAsLibrariesAre) {
  const Program tuned = program(std::string("#pragma codetta config(WAY = 0) config(WAY = 1)\n") +
                                "int marked(Tensor<const float, 2> x, float by, Tensor<float, 2> y) {\n"
                                "  for (int64_t r = 0; r < x.size(0); ++r)\n"
                                "    for (int64_t c = 0; c < x.size(1); ++c) y(r, c) = x(r, c) * by;\n"
                                "  return WAY == 0 ? 5 : 0;\n}\n");
  BuildOptions options;
  options.name = "marked";
  options.size_hints = {{"n", 8}};
  const auto kernel = [&] {
    const auto text = host_text({tuned}, Target::host(), options, context_);
    EXPECT_TRUE(text) << text.error().render();
    const size_t at = text ? text->find("codetta_marked_") : std::string::npos;
    return at == std::string::npos ? "none" : text->substr(at, 23);
  };
  const std::string first = kernel();
  options.tune_seconds = 60;
  const std::string then = kernel();
  EXPECT_NE(then, "none");
  EXPECT_NE(then, first) << "which fails";
  options.tune_seconds = 0;
  EXPECT_EQ(kernel(), then) << "its time is kept";
}

// A kernel that hands its result over is told by what the program calls, not by what runs inside of it.
TEST_F(UserTuningTest, CallsAreNamedByWhatIsPassed) {
  const auto calls = [&](const std::string& program, const std::string& kernel, const driver::SizeHints& sizes,
                         bool strict = false) {
    const Program own = Program::parse(program, "p.py").value().with_kernels({{"own", kernel}}).value();
    const Program made = own.with_numerics({.strict = strict}).value();
    driver::CompiledProgramState state;
    state.program = Program::Access::state(made);
    state.context = context_.shared_state();
    state.target = Target::host();
    std::vector<std::string> found;
    for (const plan::PlannedKernel& one : driver::plan_of(state).value().kernels) {
      if (one.user) found.push_back(driver::call_of(one, sizes, strict));
    }
    return found;
  };
  using List = std::vector<std::string>;
  const std::string hooked =
      "def f(x: f32[\"n\", 8], b: f32[8], k: i64):\n"
      "    s, count = user_kernel(\"own\", x, k, out=(\"f32[n, 8]\", \"i32\"))\n"
      "    y = relu(s + b)\n    return y, count\n";
  const std::string takes =
      "void own(Tensor<const float, 2> x, int64_t k, Hook<float, 2> s, Tensor<int32_t, 0> count) {}\n";
  EXPECT_EQ(calls(hooked, takes, {{"n", 7}}), (List{"own(f32[7, 8], i64) -> f32[7, 8], i32[]"}));
  EXPECT_EQ(calls(hooked, takes, {}), (List{"own(f32[512, 8], i64) -> f32[512, 8], i32[]"}));
  // Times of what is compiled otherwise are others.
  EXPECT_EQ(calls(hooked, takes, {{"n", 7}}, true), (List{"own(f32[7, 8], i64) -> f32[7, 8], i32[], strict"}));
  const std::string loop =
      "def more(i, x):\n    return i < 3\n\n"
      "def step(i, x):\n    return i + 1, user_kernel(\"own\", x, 2.0, out=\"f32[n]\")\n\n"
      "def f(x: f32[\"n\"]):\n    i, y = while_loop(more, step, 0, x)\n    return y\n";
  for (const bool strict : {false, true}) {
    EXPECT_EQ(calls(loop, "void own(Tensor<const float, 1> x, double k, Tensor<float, 1> y) {}\n", {{"n", 5}}, strict),
              (List{"own(f32[5], f64[]) -> f32[5]"}));
  }
}

}  // namespace
}  // namespace codetta::test
