// SPDX-License-Identifier: Apache-2.0
// The configurations of kernels of the user's: told apart, timed, checked against each other, kept and taken. No test
// asks which of two is the faster one: the pick is what the report says.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/files.hpp"
#include "driver/agreement.hpp"
#include "driver/user_tuning.hpp"
#include "support/tune_own.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

constexpr const char* source =
    "#pragma codetta config(WAY = 0) config(WAY = 1)\n"
    "#pragma codetta config(WAY = 2) config(WAY = 3) config(WAY = 4) config(WAY = 5) config(WAY = 1)\n"
    "void scaled(Tensor<const float, 2> x, float factor, Tensor<float, 2> y) {\n"
    "  for (int64_t r = 0; r < x.size(0); ++r) {\n"
    "    for (int64_t c = 0; c < x.size(1); ++c) y(r, c) = WAY == 1 ? factor * x(r, c) : x(r, c) * factor;\n"
    "  }\n"
    "#if WAY == 2\n"
    "  if (x.size(0) > 0) y(0, 1) = y(0, 1) + 1;\n"
    "#elif WAY == 3\n"
    "  __builtin_trap();\n"
    "#elif WAY == 4\n"
    "  for (volatile int turn = 0;;) turn = turn + 1;\n"
    "#elif WAY == 5\n"
    "  this is no C++;\n"
    "#endif\n"
    "}\n";
const std::string call_of_32 = "scaled(f32[32, 24], f32) -> f32[32, 24]";
constexpr const char* text =
    "def f(x: f32[\"n\", 24], w: f32[24, 24], factor: f32):\n"
    "    h = relu(x @ w)\n"
    "    s = user_kernel(\"scaled\", h, factor, out=\"f32[n, 24]\")\n"
    "    y = s + 1.0\n"
    "    return y\n";

class ProgramTune : public ::testing::Test {
 protected:
  base::TemporaryDirectory folder_ = *base::TemporaryDirectory::make("/tmp", "codetta-tune-");

  Context context(const std::string& name) const {
    ContextOptions options;
    options.cache_dir = folder_.path() + "/" + name;
    options.threads = 1;
    return Context::make(options).value();
  }
  static Program program(const std::string& kernel = source) {
    return Program::parse(text, "p.py").value().with_kernels({{"scaled", kernel}}).value();
  }
  static plan::UserSource source_of(const Program& program) {
    return Program::Access::state(program)->user_sources.front();
  }
  std::vector<Tensor> data_;
  std::vector<NamedArgument> arguments(int64_t n) {
    data_.clear();
    data_.push_back(Tensor::make(f32, {n, 24}).value());
    data_.push_back(Tensor::make(f32, {24, 24}).value());
    fill_random(data_[0].view(), 1);
    fill_random(data_[1].view(), 2);
    return {{"x", data_[0].view()}, {"w", data_[1].view()}, {"factor", 0.5}};
  }
  static std::string picked(const Program& program, int64_t n, Context& context) {
    const std::string plan = compile(program, Target::host(), {{"n", n}}, context).value().emit(Stage::Plan).value();
    const size_t at = plan.find("* user_scaled");
    return at == std::string::npos ? "none" : plan.substr(at + 2, plan.find(' ', at + 2) - at - 2);
  }
};

TEST_F(ProgramTune, EachLosesAloneAndTheFastestIsTaken) {
  Context tuning = context("tuning");
  const Program tuned = program();
  EXPECT_EQ(picked(tuned, 32, tuning), "user_scaled_WAY_0") << "the first, while nothing is measured";
  TuneOptions options;
  options.trial_seconds = 1;
  options.budget_seconds = 300;
  size_t told = 0, total = 0;
  options.progress = [&](const TuneProgress& progress) {
    ++told;
    total = progress.total;
    return true;
  };
  const auto report = tune_own(tuned, arguments(32), Target::host(), options, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_TRUE(report->complete);
  EXPECT_EQ(report->note, "");
  EXPECT_GT(told, 6U);
  EXPECT_EQ(total, 6U) << "what is written twice is there once";
  ASSERT_EQ(report->results.size(), 6U);
  std::map<std::string, std::string> failures;
  for (const TuneResult& result : report->results) {
    EXPECT_EQ(result.call, call_of_32);
    EXPECT_EQ(result.microseconds > 0, result.failure.empty()) << result.kernel;
    failures[result.kernel] = result.failure;
  }
  EXPECT_EQ(failures["user_scaled_WAY_0"], "");
  EXPECT_EQ(failures["user_scaled_WAY_1"], "");
  EXPECT_NE(failures["user_scaled_WAY_2"].find("its results are not those of user_scaled_WAY_0: [0, 1] is "),
            std::string::npos)
      << failures["user_scaled_WAY_2"];
  EXPECT_NE(failures["user_scaled_WAY_2"].find("1 of 768 elements differ"), std::string::npos);
  EXPECT_EQ(failures["user_scaled_WAY_3"].find("crashed in its first run: signal 4"), 0U)
      << failures["user_scaled_WAY_3"];
  EXPECT_EQ(failures["user_scaled_WAY_4"].find("hung in its first run: no end within 1."), 0U)
      << failures["user_scaled_WAY_4"];
  EXPECT_EQ(failures["user_scaled_WAY_5"].find("E0313: "), 0U) << failures["user_scaled_WAY_5"];
  const std::string best = report->results[0].kernel;
  EXPECT_EQ(picked(tuned, 32, tuning), best);
  EXPECT_EQ(picked(tuned, 33, tuning), "user_scaled_WAY_0") << "times are of these sizes";
  const std::string explained = explain(tuned, Target::host(), {{"n", 32}}, false, tuning).value();
  for (const TuneResult& result : report->results) {
    const size_t at = explained.find(result.kernel + ", ");
    EXPECT_EQ(at != std::string::npos, result.failure.empty()) << result.kernel << "\n" << explained;
  }
  EXPECT_NE(explained.find("picked   " + best + ", "), std::string::npos) << explained;
  EXPECT_NE(explained.find("not measured: 4\n"), std::string::npos) << explained;
}

// Which of them is picked hangs on the report alone, and no other number decides.
TEST_F(ProgramTune, WhatIsKeptIsWhatTheReportSays) {
  Context tuning = context("tuning");
  const Program tuned = program();
  TuneOptions options;
  options.max_candidates = 2;
  const auto report = tune_own(tuned, arguments(32), Target::host(), options, tuning);
  ASSERT_TRUE(report) << report.error().render();
  ASSERT_EQ(report->results.size(), 2U);
  const auto record = driver::load_user_record(*tuning.shared_state(), source_of(tuned), Target::host());
  ASSERT_EQ(record.medians.size(), 2U);
  for (const TuneResult& result : report->results) {
    const double* kept = record.find("WAY=" + result.kernel.substr(result.kernel.size() - 1) + " of " + call_of_32);
    ASSERT_NE(kept, nullptr) << result.kernel;
    EXPECT_EQ(*kept, result.microseconds) << result.kernel;
  }
  EXPECT_LE(report->results[0].microseconds, report->results[1].microseconds);
}

// A configuration that has become wrong (its source is the same, what it reads is not) loses what it had won.
TEST_F(ProgramTune, WhatFailsNowDoesNotWinByAnOldTime) {
  Context tuning = context("tuning");
  const Program tuned = program();
  driver::keep_user_times(
      *tuning.shared_state(), source_of(tuned), Target::host(),
      {{"WAY=2 of " + call_of_32, 1e-3}, {"WAY=1 of other(f32[1]) -> f32[1]", 7.0}, {"WAY=0 of " + call_of_32, 2.0}});
  EXPECT_EQ(picked(tuned, 32, tuning), "user_scaled_WAY_2");
  TuneOptions options;
  options.max_candidates = 3;
  ASSERT_TRUE(tune_own(tuned, arguments(32), Target::host(), options, tuning));
  EXPECT_NE(picked(tuned, 32, tuning), "user_scaled_WAY_2");
  const auto record = driver::load_user_record(*tuning.shared_state(), source_of(tuned), Target::host());
  EXPECT_EQ(record.find("WAY=2 of " + call_of_32), nullptr);
  EXPECT_NE(record.find("WAY=1 of " + call_of_32), nullptr);
  EXPECT_NE(record.find("WAY=1 of other(f32[1]) -> f32[1]"), nullptr) << "other calls keep their times";
}

// A place where nothing may be compiled says nothing about configurations.
TEST_F(ProgramTune, WhatCanNotBeTriedKeepsItsTime) {
  Context tuning = context("tuning");
  const Program tuned = program();
  driver::keep_user_times(*tuning.shared_state(), source_of(tuned), Target::host(),
                          {{"WAY=0 of " + call_of_32, 2e6}, {"WAY=1 of " + call_of_32, 1e6}});
  ContextOptions options;
  options.cache_dir = folder_.path() + "/tuning";
  options.threads = 1;
  options.no_jit = true;
  Context closed = Context::make(options).value();
  const auto refused = tune_own(tuned, arguments(32), Target::host(), {.max_candidates = 2}, closed);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 503) << refused.error().render();
  const auto kept = [&] { return driver::load_user_record(*tuning.shared_state(), source_of(tuned), Target::host()); };
  EXPECT_EQ(kept().medians.size(), 2U);
  // What was compiled before is tried.
  ASSERT_TRUE(tune_own(tuned, arguments(32), Target::host(), {.max_candidates = 1}, tuning));
  const auto part = tune_own(tuned, arguments(32), Target::host(), {.max_candidates = 2}, closed);
  ASSERT_TRUE(part) << part.error().render();
  ASSERT_EQ(part->results.size(), 2U);
  EXPECT_EQ(part->results[0].failure, "");
  EXPECT_EQ(part->results[1].failure.find("E0503: "), 0U) << part->results[1].failure;
  ASSERT_EQ(kept().medians.size(), 2U);
  EXPECT_EQ(*kept().find("WAY=1 of " + call_of_32), 1e6);
  EXPECT_LT(*kept().find("WAY=0 of " + call_of_32), 2e6);
}

// After all have run, while the best are timed again.
TEST_F(ProgramTune, OneThatFailsLateLosesAlone) {
  Context tuning = context("tuning");
  const std::string flag = folder_.path() + "/fails";
  const Program made = program(
      "#include <unistd.h>\n#pragma codetta config(WAY = 0) config(WAY = 1)\n"
      "int scaled(Tensor<const float, 2> x, float factor, Tensor<float, 2> y) {\n"
      "  if (WAY == 1 && access(\"" +
      flag +
      "\", F_OK) == 0) return 5;\n  for (int64_t r = 0; r < x.size(0); ++r)\n"
      "    for (int64_t c = 0; c < 24; ++c) y(r, c) = x(r, c) * factor;\n  return 0;\n}\n");
  TuneOptions options;
  options.progress = [&](const TuneProgress& progress) {
    EXPECT_TRUE(progress.done < progress.total || base::write_file_atomically(flag, ""));
    return true;
  };
  const auto report = tune_own(made, arguments(32), Target::host(), options, tuning);
  ASSERT_TRUE(report) << report.error().render();
  ASSERT_EQ(report->results.size(), 2U);
  EXPECT_EQ(report->results[0].failure, "");
  EXPECT_EQ(report->results[1].kernel, "user_scaled_WAY_1");
  EXPECT_EQ(report->results[1].failure.find("E0617: "), 0U) << report->results[1].failure;
  const auto record = driver::load_user_record(*tuning.shared_state(), source_of(made), Target::host());
  ASSERT_EQ(record.medians.size(), 1U);
  EXPECT_EQ(record.medians[0].first, "WAY=0 of " + call_of_32);
}

TEST_F(ProgramTune, WhatWasMeasuredIsKeptWhenItIsStopped) {
  Context tuning = context("tuning");
  TuneOptions options;
  options.progress = [](const TuneProgress& progress) { return progress.done < 1; };
  const auto report = tune_own(program(), arguments(16), Target::host(), options, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_FALSE(report->complete);
  ASSERT_EQ(report->results.size(), 1U);
  EXPECT_EQ(report->results[0].kernel, "user_scaled_WAY_0");
  EXPECT_EQ(driver::load_user_record(*tuning.shared_state(), source_of(program()), Target::host()).medians.size(), 1U);
  // While a configuration hangs, too: it is not said to.
  options.progress = [](const TuneProgress& progress) { return progress.kernel != "user_scaled_WAY_4"; };
  options.trial_seconds = 300;
  const auto hung = tune_own(program(), arguments(16), Target::host(), options, tuning);
  ASSERT_TRUE(hung) << hung.error().render();
  EXPECT_FALSE(hung->complete);
  EXPECT_EQ(hung->results.size(), 4U);
}

// What it is handed is what the program computes: sizes that index, and zeros that would trap.
TEST_F(ProgramTune, OperandsAreThoseOfTheProgram) {
  Context tuning = context("tuning");
  const std::string text =
      "def f(x: f32[\"n\", 24], at: i32[\"n\"], limit: i64):\n"
      "    places = at % 24\n"
      "    s, count = user_kernel(\"picks\", x * 2.0, places, limit, 7, out=(\"f32[n]\", \"i64\"))\n"
      "    return s, count\n";
  const std::string kernel =
      "#pragma codetta config(A = 1) config(A = 2)\n"
      "void picks(Tensor<const float, 2> x, Tensor<const int32_t, 1> at, int64_t limit, int64_t seven,\n"
      "           Tensor<float, 1> s, Tensor<int64_t, 0> count) {\n"
      "  count() = seven;\n"
      "  for (int64_t r = 0; r < x.size(0); ++r) {\n"
      "    if (at(r) < 0 || at(r) >= 24 || limit != 11 || seven != 7) __builtin_trap();\n"
      "    s(r) = x(r, at(r)) * A;\n"
      "    count() += A;\n"
      "  }\n"
      "}\n";
  const Program made = Program::parse(text, "p.py").value().with_kernels({{"picks", kernel}}).value();
  const Tensor x = Tensor::make(f32, {8, 24}).value(), at = Tensor::make(i32, {8}).value();
  for (int64_t i = 0; i < 8 * 24; ++i) x.view().as<float>()[i] = 1.5F;
  for (int i = 0; i < 8; ++i) at.view().as<int32_t>()[i] = 1000 + i;
  const auto report =
      tune_own(made, {{"x", x.view()}, {"at", at.view()}, {"limit", int64_t{11}}}, Target::host(), {}, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_EQ(report->note, "");
  ASSERT_EQ(report->results.size(), 2U);
  EXPECT_EQ(report->results[0].call, "picks(f32[8, 24], i32[8], i64, i64[]) -> f32[8], i64[]");
  EXPECT_EQ(report->results[0].failure, "");
  EXPECT_EQ(report->results[1].failure,
            "its results are not those of user_picks_A_1: result 0, [0] is 6, there 3; 8 of 8 elements differ");
}

// Errors tell of a parameter by its name, and what it is called beside others does not matter.
TEST_F(ProgramTune, ParametersKeepTheirNames) {
  Context tuning = context("tuning");
  const std::string text =
      "def f(operand_0: f32[\"n\"], result_0: f32):\n"
      "    y = user_kernel(\"own\", operand_0 + 1.0, operand_0, result_0, out=\"f32[n]\")\n    return y\n";
  const std::string kernel =
      "#pragma codetta config(A = 1) config(A = 2)\n"
      "int own(Tensor<const float, 1> z, Tensor<const float, 1> x, float by, Tensor<float, 1> y) {\n"
      "  for (int64_t i = 0; i < x.size(0); ++i) y(i) = z(i) == x(i) + 1 ? by : -1;\n  return A == 2 ? 3 : 0;\n}\n";
  const Program made = Program::parse(text, "p.py").value().with_kernels({{"own", kernel}}).value();
  const Tensor x = Tensor::make(f32, {7}).value();
  fill_random(x.view(), 1);
  const auto report = tune_own(made, {{"operand_0", x.view()}, {"result_0", 2.0}}, Target::host(), {}, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_EQ(report->note, "");
  ASSERT_EQ(report->results.size(), 2U);
  EXPECT_EQ(report->results[0].failure, "");
  EXPECT_EQ(report->results[1].failure.find("E0617: "), 0U) << report->results[1].failure;
}

TEST_F(ProgramTune, LoopsAreTunedOverRandomData) {
  Context tuning = context("tuning");
  const std::string text =
      "def more(i, x):\n    return i < 3\n\n"
      "def step(i, x):\n    return i + 1, user_kernel(\"half\", x, 0.5, out=\"f32[n]\")\n\n"
      "def f(x: f32[\"n\"]):\n    i, y = while_loop(more, step, 0, x)\n"
      "    z = user_kernel(\"half\", y, 0.25, out=\"f32[n]\")\n    return y, z\n";
  const std::string kernel =
      "#pragma codetta config(A = 1) config(A = 2)\n"
      "void half(Tensor<const float, 1> x, double by, Tensor<float, 1> y) {\n"
      "  for (int64_t i = 0; i < x.size(0); ++i) y(i) = x(i) * by + A - A;\n"
      "}\n";
  const Program made = Program::parse(text, "p.py").value().with_kernels({{"half", kernel}}).value();
  const Tensor x = Tensor::make(f32, {40}).value();
  fill_random(x.view(), 1);
  const auto report = tune_own(made, {{"x", x.view()}}, Target::host(), {}, tuning);
  ASSERT_TRUE(report) << report.error().render();
  ASSERT_EQ(report->results.size(), 2U) << "equal calls are one";
  for (const TuneResult& result : report->results) {
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.call, "half(f32[40], f64[]) -> f32[40]");
  }
  // The loop takes what was measured as well.
  const std::string plan = compile(made, Target::host(), {{"n", 40}}, tuning).value().emit(Stage::Plan).value();
  size_t count = 0;
  for (size_t at = plan.find("* " + report->results[0].kernel); at != std::string::npos;
       at = plan.find("* " + report->results[0].kernel, at + 1))
    ++count;
  EXPECT_EQ(count, 2U) << plan;

  const Program alone = Program::parse(
                            "def yes(x):\n    return user_kernel(\"half\", x, 0.5, out=\"f32[n]\")\n\n"
                            "def no(x):\n    return x\n\n"
                            "def f(x: f32[\"n\"], p: bool):\n    y = cond(p, yes, no, x)\n    return y\n",
                            "p.py")
                            .value()
                            .with_kernels({{"half", kernel}})
                            .value();
  const Tensor other = Tensor::make(f32, {41}).value();
  fill_random(other.view(), 1);
  const auto branch = tune_own(alone, {{"x", other.view()}, {"p", false}}, Target::host(), {}, tuning);
  ASSERT_TRUE(branch) << branch.error().render();
  ASSERT_EQ(branch->results.size(), 2U);
  EXPECT_EQ(branch->results[0].failure + branch->results[1].failure, "");
}

// A kernel trusts indices: those at random are such that it may.
TEST_F(ProgramTune, RandomIndicesOfALoopAreInRange) {
  Context tuning = context("tuning");
  const std::string text =
      "def more(i, x, at, y):\n    return i < 3\n\n"
      "def step(i, x, at, y):\n    return i + 1, x, at, user_kernel(\"pick\", x, at, out=\"f32[m]\")\n\n"
      "def f(x: f32[\"n\"], at: i32[\"m\"], first: f32[\"m\"]):\n"
      "    i, a, b, y = while_loop(more, step, 0, x, at, first)\n    return y\n";
  const std::string kernel =
      "#pragma codetta config(A = 1) config(A = 2)\n"
      "void pick(Tensor<const float, 1> x, Tensor<const int32_t, 1> at, Tensor<float, 1> y) {\n"
      "  for (int64_t i = 0; i < at.size(0); ++i) {\n"
      "    if (at(i) < 0 || at(i) >= x.size(0)) __builtin_trap();\n"
      "    y(i) = x(at(i)) + A - A;\n  }\n}\n";
  const Program made = Program::parse(text, "p.py").value().with_kernels({{"pick", kernel}}).value();
  const Tensor x = Tensor::make(f32, {40}).value(), at = Tensor::make(i32, {7}).value(),
               first = Tensor::make(f32, {7}).value();
  fill_random(x.view(), 1);
  std::fill_n(static_cast<int32_t*>(at.data()), 7, 39);
  const auto report = tune_own(made, {{"x", x.view()}, {"at", at.view()}, {"first", first.view()}}, Target::host(),
                               {.budget_seconds = 300}, tuning);
  ASSERT_TRUE(report) << report.error().render();
  ASSERT_EQ(report->results.size(), 2U);
  for (const TuneResult& result : report->results) EXPECT_EQ(result.failure, "");
}

// What is in front crashes, hangs, or calls what is not there: data is random then, which is said.
TEST_F(ProgramTune, WhereWhatIsInFrontDoesNotRun) {
  Context tuning = context("tuning");
  const std::string front = "void front(Tensor<const float, 2> x, Tensor<float, 2> y) { __builtin_trap(); }\n";
  const std::string endless =
      "void front(Tensor<const float, 2> x, Tensor<float, 2> y) { for (volatile int i = 0;;) i = i + 1; }\n";
  const auto noted = [&](const std::string& call, const std::vector<UserKernel>& kernels) {
    const Program made = Program::parse("def f(x: f32[\"n\", 24]):\n    h = " + call +
                                            "\n    y = user_kernel(\"scaled\", h, 0.5, out=\"f32[n, 24]\")\n"
                                            "    return y\n",
                                        "p.py")
                             .value()
                             .with_kernels(kernels)
                             .value();
    const Tensor x = Tensor::make(f32, {9, 24}).value();
    fill_random(x.view(), 1);
    TuneOptions options;
    options.trial_seconds = 1;
    const auto report = tune_own(made, {{"x", x.view()}}, Target::host(), options, tuning);
    EXPECT_TRUE(report) << report.error().render();
    if (!report) return std::string();
    EXPECT_EQ(report->results.size(), 2U);
    for (const TuneResult& result : report->results) EXPECT_EQ(result.failure, "");
    return report->note;
  };
  const std::string scaled =
      "#pragma codetta config(A = 1) config(A = 2)\n"
      "void scaled(Tensor<const float, 2> x, double by, Tensor<float, 2> y) {\n"
      "  for (int64_t r = 0; r < x.size(0); ++r)\n    for (int64_t c = 0; c < 24; ++c) y(r, c) = x(r, c) * by + A - "
      "A;\n"
      "}\n";
  const std::string begin = "scaled is timed over random data, for what is in front of it does not run: ";
  const std::string call = "user_kernel(\"front\", x, out=\"f32[n, 24]\")";
  EXPECT_EQ(noted(call, {{"front", front}, {"scaled", scaled}}).find(begin + "crashed in its first run: signal 4"), 0U);
  EXPECT_EQ(noted(call, {{"front", endless}, {"scaled", scaled}}).find(begin + "hung in its first run"), 0U);
  const std::string missing = noted("call_extern(\"outside\", x, out=\"f32[n, 24]\")", {{"scaled", scaled}});
  EXPECT_EQ(missing.find(begin + "E0616: "), 0U) << missing;
}

// What is handed over is compared as it is stored.
TEST_F(ProgramTune, KernelsWithAHook) {
  Context tuning = context("tuning");
  const std::string kernel =
      "#pragma codetta config(A = 1) config(A = 2) config(A = 3)\n"
      "void own(Tensor<const float, 1> x, Hook<float, 1> y) {\n"
      "  for (int64_t i = 0; i < x.size(0); ++i) y.store(i, x(i) + (A == 2 ? 1.0F : 0.0F));\n"
      "}\n";
  const Program made = Program::parse(
                           "def f(x: f32[\"n\"], b: f32[\"n\"]):\n"
                           "    y = relu(user_kernel(\"own\", x, out=\"f32[n]\") + b)\n    return y\n",
                           "p.py")
                           .value()
                           .with_kernels({{"own", kernel}})
                           .value();
  const Tensor x = Tensor::make(f32, {50}).value(), b = Tensor::make(f32, {50}).value();
  fill_random(x.view(), 1);
  fill_random(b.view(), 2);
  const auto report = tune_own(made, {{"x", x.view()}, {"b", b.view()}}, Target::host(), {}, tuning);
  ASSERT_TRUE(report) << report.error().render();
  ASSERT_EQ(report->results.size(), 3U);
  EXPECT_EQ(report->results[1].failure, "");
  EXPECT_EQ(report->results[2].kernel, "user_own_A_2");
  EXPECT_EQ(report->results[2].failure.find("its results are not those of user_own_A_1"), 0U);
  const std::string explained = explain(made, Target::host(), {{"n", 50}}, false, tuning).value();
  EXPECT_NE(explained.find("picked   " + report->results[0].kernel + ", "), std::string::npos) << explained;
}

TEST_F(ProgramTune, EmptyTensorsAndCallsWithoutAChoice) {
  Context tuning = context("tuning");
  const auto empty = tune_own(program(), arguments(0), Target::host(), {.max_candidates = 2}, tuning);
  ASSERT_TRUE(empty) << empty.error().render();
  EXPECT_EQ(empty->results.size(), 2U);
  const std::string plain =
      "void scaled(Tensor<const float, 2> x, float f, Tensor<float, 2> y) {\n"
      "  for (int64_t r = 0; r < x.size(0); ++r)\n    for (int64_t c = 0; c < 24; ++c) y(r, c) = x(r, c) * f;\n}\n";
  const auto report = tune_own(program(plain), arguments(16), Target::host(), {}, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_TRUE(report->results.empty());
  EXPECT_TRUE(report->complete);
  EXPECT_EQ(report->note, "the program calls no kernel of its own that has several configurations");
}

TEST_F(ProgramTune, Refused) {
  Context tuning = context("tuning");
  const auto refused = [&](const TuneOptions& options, const std::vector<NamedArgument>& given, const Target& target) {
    const auto report = tune(program(), given, target, options, tuning);
    EXPECT_FALSE(report);
    return report ? 0 : report.error().code();
  };
  const std::vector<NamedArgument> all = arguments(16);
  EXPECT_EQ(refused({.budget_seconds = 0}, all, Target::host()), 703);
  EXPECT_EQ(refused({.max_candidates = 0}, all, Target::host()), 703);
  EXPECT_EQ(refused({.trial_seconds = -1}, all, Target::host()), 703);
  EXPECT_EQ(refused({}, {all[0], all[1]}, Target::host()), 208);
  EXPECT_EQ(refused({}, all, *Target::parse("metal:apple9")), 403);
  const auto no_float = tune(program(), {all[0], all[1], {"factor", true}}, Target::host(), {}, tuning);
  ASSERT_FALSE(no_float);
  EXPECT_EQ(no_float.error().code(), 221);
  EXPECT_EQ(no_float.error().diagnostics()[0].reason, "a truth value is no number");
  EXPECT_EQ(no_float.error().diagnostics()[0].where.line, 1U);
  EXPECT_EQ(no_float.error().diagnostics()[0].where.column, 40U);
  const Tensor integers = Tensor::make(i32, {16, 24}).value();
  EXPECT_EQ(refused({}, {{"x", integers.view()}, all[1], all[2]}, Target::host()), 221);
  const auto other =
      tune(program("#pragma codetta block(32)\n" + std::string(source)), all, Target::host(), {}, tuning);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), 231);
}

TEST(Agreement, RoundingIsNoDifference) {
  const auto of = [](DType dtype, std::vector<double> values) {
    Tensor made = Tensor::make(dtype, {static_cast<int64_t>(values.size())}).value();
    for (size_t i = 0; i < values.size(); ++i) {
      auto* at = made.view().as<std::byte>() + static_cast<int64_t>(i) * dtype_size(dtype);
      types::is_float(dtype) ? types::store_f64(at, dtype, values[i])
                             : types::store_i64(at, dtype, static_cast<int64_t>(values[i]));
    }
    return made;
  };
  const auto agree = [&](DType dtype, const std::vector<double>& a, const std::vector<double>& b) {
    return !driver::disagreement_of(of(dtype, a).view(), of(dtype, b).view());
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(agree(f32, {1, nan, inf, -inf, 0}, {1.00001, nan, inf, -inf, 0}));
  EXPECT_TRUE(agree(f32, {1000, 1e-6}, {1000, 2e-6})) << "what is left of a sum that cancels";
  EXPECT_TRUE(agree(f32, {1000, -700, 1e-6}, {1000, -700, 2e-6}));
  EXPECT_TRUE(agree(f32, {1000, -700, 0}, {1000, -700, 2e-6}));
  EXPECT_TRUE(agree(f32, {1000, -700, 3, 1e-6}, {1000, -700, 3, -2e-5}));
  EXPECT_TRUE(agree(f64, {1e300, -7e299, 1e285}, {1e300, -7e299, 0}));
  EXPECT_FALSE(agree(f32, {1}, {1.001}));
  EXPECT_FALSE(agree(f32, {nan}, {1}));
  EXPECT_FALSE(agree(f32, {inf}, {-inf}));
  EXPECT_FALSE(agree(f32, {1, 2, 3}, {1, 2, 0}));
  EXPECT_TRUE(agree(bf16, {1}, {1.0078125}));
  EXPECT_FALSE(agree(bf16, {1}, {1.0625}));
  EXPECT_TRUE(agree(i32, {7}, {7}));
  EXPECT_FALSE(agree(i32, {7}, {8}));
  EXPECT_EQ(driver::disagreement_of(of(i32, {7, 7}).view(), of(i32, {7, 8}).view()),
            "[1] is 8, there 7; 1 of 2 elements differ");
  EXPECT_TRUE(agree(f32, {}, {}));

  // Large values that were chosen, not computed, hide no wrong ones, however many there are.
  for (const double mask : {-1e5, -1e9, -1e30, -3.4e38}) {
    SCOPED_TRACE(mask);
    EXPECT_TRUE(agree(f32, {2, mask, 1, mask}, {2.00001, mask, 1, mask}));
    EXPECT_FALSE(agree(f32, {2, mask, 1, 0.5, mask}, {2, mask, 1.001, 0.5, mask}));
    EXPECT_FALSE(agree(f32, {2, mask, mask, mask, mask}, {7, mask, mask, mask, mask}));
    EXPECT_FALSE(agree(f32, {2, mask, 1, mask}, {2, mask, 1, 2}));
    EXPECT_FALSE(agree(f32, {2, mask, 0, mask}, {2, mask, 0.001, mask})) << "of a zero";
  }
  EXPECT_FALSE(agree(bf16, {2, -1e4, 1, -1e4}, {2, -1e4, 1.25, -1e4}));
  // Values of two magnitudes, each as good as the other.
  std::vector<double> one, other, few, near, far;
  for (int i = 0; i < 64; ++i) {
    const bool large = i % 2 == 0;
    one.push_back(large ? 1000 + 17 * i : 2.0 * (i % 5) - 5);
    other.push_back(large ? one.back() : 7);
    few.push_back(i == 40 ? 0.5 : 1000 + 17 * i);
    near.push_back(few.back() + (i == 40 ? 0.05 : 0));
    far.push_back(few.back() + (i == 40 ? 0.5 : 0));
  }
  for (const DType dtype : {f8e5m2, f16, bf16, f32, f64}) {
    EXPECT_TRUE(agree(dtype, one, one)) << dtype_name(dtype);
    EXPECT_FALSE(agree(dtype, one, other)) << dtype_name(dtype);
  }
  EXPECT_TRUE(agree(f32, few, near)) << "one of many, which came out near zero";
  EXPECT_FALSE(agree(f32, few, far));
  EXPECT_FALSE(agree(f32, {2, -1e5, 1, -1.1e5, 0.5, 1.5, 3, 2.5}, {4, -1e5, 1, -1.1e5, 0.5, 1.5, 3, 2.5}));
  EXPECT_FALSE(agree(f32, {2, -1e30, 1, -1.5e30}, {2, -1e30, 1.001, -1.5e30})) << "whose rounding is far from 1";
  const double most = std::numeric_limits<double>::max();
  EXPECT_FALSE(agree(f64, {2, -most, 1}, {7, -most, 1}));
  EXPECT_FALSE(agree(f64, {2, -1.7e308, most, 0.9 * most}, {7, -1.7e308, most, 0.9 * most}));
  EXPECT_TRUE(agree(f64, {1e-310, -1.7e308, most}, {1e-310, -1.7e308, std::nextafter(most, 0)}));
  EXPECT_FALSE(agree(f64, {most, 1}, {-most, 1}));
}

}  // namespace
}  // namespace codetta::test
