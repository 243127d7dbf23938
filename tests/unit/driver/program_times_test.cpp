// SPDX-License-Identifier: Apache-2.0
// Products, maps and decisions of programs: timed, checked, kept and taken. No test asks which of two is the faster
// one: what is taken is what the report says.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "base/files.hpp"
#include "driver/planned_graph.hpp"
#include "driver/program_times.hpp"
#include "driver/stopping.hpp"
#include "opt/passes.hpp"
#include "plan/explain.hpp"
#include "support/random_program.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

constexpr const char* text =
    "def f(x: f32[\"n\", 96], a: f32[96, 64], b: f32[96, 64], w: f32[64, 48]):\n"
    "    h = relu(x @ a) * (x @ b)\n"
    "    y = softmax(h @ w, dim=-1)\n"
    "    return y\n";

class ProgramTimes : public ::testing::Test {
 protected:
  base::TemporaryDirectory folder_ = *base::TemporaryDirectory::make("/tmp", "codetta-times-");
  std::vector<Tensor> data_;

  Context context(const std::string& name, bool compiles = false) const {
    ContextOptions options;
    options.cache_dir = folder_.path() + "/" + name;
    options.no_compiler = !compiles;
    options.threads = 1;
    return Context::make(options).value();
  }
  static Program program() { return Program::parse(text, "p.py").value(); }
  std::vector<NamedArgument> arguments(int64_t n) {
    data_.clear();
    const std::vector<std::pair<std::string, Dims>> all{
        {"x", {n, 96}}, {"a", {96, 64}}, {"b", {96, 64}}, {"w", {64, 48}}};
    std::vector<NamedArgument> named;
    for (const auto& [name, shape] : all) {
      data_.push_back(Tensor::make(f32, shape).value());
      fill_random(data_.back().view(), data_.size(), Distribution::Normal, 0.125);
      named.push_back({name, data_.back().view()});
    }
    return named;
  }
  static plan::Plan planned(const Program& program, int64_t n, Context& context) {
    return driver::plan_of(
               CompiledProgram::Access::state(compile(program, Target::host(), {{"n", n}}, context).value()))
        .value();
  }
  static std::string results_by_oracle(const Program& program, std::vector<NamedArgument> given, int64_t n,
                                       Context& context) {
    Tensor y = Tensor::make(f32, {n, 48}).value();
    fill_poison(y.view());
    given.push_back({"y", y.view()});
    const auto compiled = compile(program, Target::host(), {{"n", n}}, context);
    if (!compiled) return compiled.error().render();
    if (const auto ran = compiled->run(given); !ran) return ran.error().render();
    const auto report = verify(program, given, Target::host(), {}, context);
    if (!report) return report.error().render();
    return report->verdict == VerifyReport::Verdict::Pass ? "" : report->text;
  }
};

TEST_F(ProgramTimes, KernelsAndDecisionsAreTimedKeptAndTaken) {
  Context tuning = context("tuning", true);
  const Program made = program();
  size_t told = 0;
  TuneOptions options{.budget_seconds = 120};
  options.progress = [&](const TuneProgress& progress) {
    ++told;
    EXPECT_LE(progress.done, progress.total);
    return true;
  };
  const auto given = arguments(24);
  const std::vector<float> before(data_[0].view().as<float>(), data_[0].view().as<float>() + 24 * 96);
  const auto report = tune(made, given, Target::host(), options, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_TRUE(report->complete);
  EXPECT_GT(told, 4U);
  EXPECT_EQ(before, std::vector<float>(data_[0].view().as<float>(), data_[0].view().as<float>() + 24 * 96));
  std::map<std::string, std::vector<TuneResult>> calls;
  for (const TuneResult& result : report->results) {
    EXPECT_EQ(result.failure, "") << result.kernel;
    EXPECT_GT(result.microseconds, 0) << result.kernel;
    calls[result.call].push_back(result);
  }
  const plan::Plan plan = planned(made, 24, tuning);
  size_t kernels = 0;
  for (const auto& [call, results] : calls) {
    for (size_t i = 1; i < results.size(); ++i) EXPECT_LE(results[i - 1].microseconds, results[i].microseconds) << call;
    if (!call.starts_with("kernel ")) continue;
    const size_t k = std::stoul(call.substr(7));
    ++kernels;
    ASSERT_LT(k, plan.kernels.size());
    EXPECT_EQ(plan.kernels[k].discovery.candidates[plan.kernels[k].chosen].name, results[0].kernel) << call;
  }
  EXPECT_GE(kernels, 1U);
  // What was measured is in the explanation, and decides nothing for other sizes.
  const std::string explained = explain(made, Target::host(), {{"n", 24}}, false, tuning).value();
  EXPECT_NE(explained.find("with which the program took "), std::string::npos) << explained;
  EXPECT_EQ(explain(made, Target::host(), {{"n", 25}}, false, tuning).value().find("measured"), std::string::npos);
  for (const plan::Decision& decision : plan.decisions) {
    if (!decision.measured) continue;
    EXPECT_EQ(decision.is_apart, decision.choice.apart_us < decision.choice.together_us) << decision.key;
    EXPECT_NE(explained.find("\nmeasured\n"), std::string::npos) << explained;
    EXPECT_GE(std::min(decision.together, decision.apart) * 1.5, std::max(decision.together, decision.apart));
  }
  EXPECT_EQ(results_by_oracle(made, given, 24, tuning), "");
  // Another process of this machine, and another cache that takes the file.
  Context again = context("tuning", true);
  EXPECT_EQ(explain(made, Target::host(), {{"n", 24}}, false, again).value(), explained);
  Context other = context("other", true);
  EXPECT_NE(explain(made, Target::host(), {{"n", 24}}, false, other).value(), explained);
  const auto imported = import_tuning(export_tuning(tuning).value(), other);
  ASSERT_TRUE(imported) << imported.error().render();
  EXPECT_EQ(imported->records, 1);
  EXPECT_EQ(explain(made, Target::host(), {{"n", 24}}, false, other).value(), explained);
}

TEST_F(ProgramTimes, WhatWasMeasuredBeforeAStopStays) {
  Context tuning = context("stopped", true);
  const Program made = program();
  TuneOptions options{.budget_seconds = 120};
  size_t timed = 0;
  options.progress = [&](const TuneProgress& progress) {
    timed += progress.microseconds > 0 ? 1 : 0;
    return timed < 2;
  };
  const auto report = tune(made, arguments(24), Target::host(), options, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_FALSE(report->complete);
  EXPECT_GE(report->results.size(), 1U);  // which says what is kept
  for (const TuneResult& result : report->results) EXPECT_GT(result.microseconds, 0) << result.kernel;
  const auto& state = *Program::Access::state(made);
  const auto kept = driver::load_program_times(*tuning.shared_state(), state, Target::host(), {{"n", 24}});
  EXPECT_GE(kept.medians.size(), 1U);
  EXPECT_EQ(results_by_oracle(made, arguments(24), 24, tuning), "");
}

// An output of which nothing says how large a run makes it has room for as much as that is.
TEST_F(ProgramTimes, SizesThatARunComputesHaveRoom) {
  Context tuning = context("computed", true);
  const std::string padded =
      "def f(x: f32[\"n\", 96], w: f32[96, 64], k: i64[()]):\n    h = relu(x @ w)\n"
      "    y = concat(h, zeros(k, 64), dim=0)\n    return y\n";
  const Program made = Program::parse(padded, "p.py").value();
  const Tensor x = Tensor::make(f32, {24, 96}).value(), w = Tensor::make(f32, {96, 64}).value(),
               k = Tensor::make(DType::i64, {}).value();
  fill_random(x.view(), 1);
  fill_random(w.view(), 2);
  for (const int64_t rows : {100, 1000, 20000}) {
    *k.view().as<int64_t>() = rows;
    TuneOptions options{.budget_seconds = 120};
    options.max_candidates = 2;
    const auto report =
        tune(made, {{"x", x.view()}, {"w", w.view()}, {"k", k.view()}}, Target::host(), options, tuning);
    ASSERT_TRUE(report) << report.error().render();
    EXPECT_TRUE(report->complete) << rows;
    EXPECT_GE(report->results.size(), 1U) << rows << " " << report->note;
    for (const TuneResult& result : report->results) EXPECT_GT(result.microseconds, 0) << result.failure;
  }
}

// While the oracle computes, the clock of the budget stands.
TEST_F(ProgramTimes, TheBudgetCountsNoChecks) {
  driver::BudgetClock clock;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = clock.gone();
  EXPECT_GE(before, 0.02);
  double stood = 0;
  {
    const driver::BudgetClock::Pause pause(clock);
    const double at_first = clock.gone();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(clock.gone(), at_first);
    stood = pause.so_far();
  }
  EXPECT_GE(stood, 0.02);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(clock.gone(), before + 0.02);
}

// The oracle asks, too: one that is stopped there has measured nothing, and says by what the time went.
TEST_F(ProgramTimes, TheOracleCanBeStopped) {
  Context tuning = context("oracle", true);
  const Tensor a = Tensor::make(f32, {256, 320}).value(), b = Tensor::make(f32, {320, 256}).value(),
               d = Tensor::make(f32, {256, 256}).value();
  fill_random(a.view(), 1);
  fill_random(b.view(), 2);
  const GemmArguments gemm{.A = a.view(), .B = b.view(), .out = d.view()};
  int asked = 0;
  TuneOptions options{.budget_seconds = 120};
  options.progress = [&](const TuneProgress&) { return ++asked < 1; };
  const auto report = tune(gemm, Target::host(), options, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_EQ(asked, 1) << "nothing is asked behind a no";
  EXPECT_FALSE(report->complete);
  EXPECT_TRUE(report->results.empty());
  EXPECT_NE(report->note.find("before a candidate was timed: the oracle took "), std::string::npos) << report->note;

  std::atomic<bool> cancel = true;
  ContextOptions cancelled;
  cancelled.cache_enabled = false;
  cancelled.no_compiler = true;
  cancelled.cancel = &cancel;
  Context checking = Context::make(cancelled).value();
  const auto verdict = verify(gemm, Target::host(), {}, checking);
  ASSERT_FALSE(verdict);
  EXPECT_NE(verdict.error().render().find("error[E0510]: the check by the oracle was cancelled"), std::string::npos)
      << verdict.error().render();
}

// The oracle's check of what is planned may be all that there is time for.
TEST_F(ProgramTimes, WhatTheTimeWentByIsSaid) {
  Context tuning = context("checked", true);
  TuneOptions options{.budget_seconds = 120};
  int asked = 0;
  options.progress = [&](const TuneProgress&) { return ++asked < 2; };  // the first is in front of the check
  const auto report = tune(program(), arguments(24), Target::host(), options, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_FALSE(report->complete);
  EXPECT_TRUE(report->results.empty());
  EXPECT_NE(report->note.find("before a candidate was timed: the oracle took "), std::string::npos) << report->note;
}

// What is taken now is timed again, whatever its place in the ranking, and times of another day go with it: one that
// was too slow to be checked then may look fast beside today's.
TEST_F(ProgramTimes, FormerTimesAreReplaced) {
  Context tuning = context("former", true);
  const Program made = program();
  const plan::Plan plan = planned(made, 24, tuning);
  const auto& state = *Program::Access::state(made);
  const size_t k = plan.kernels.size() - 1;
  ASSERT_GT(plan.kernels[k].discovery.candidates.size(), 6U);
  const std::string fifth = driver::candidate_name(plan, k, 5), sixth = driver::candidate_name(plan, k, 6);
  const std::string label = driver::kernel_label(plan, k);
  driver::keep_program_times(*tuning.shared_state(), state, Target::host(), {{"n", 24}},
                             {{fifth, 2e-6}, {sixth, 1e-6}});
  EXPECT_EQ(planned(made, 24, tuning).kernels[k].chosen, 6U);
  TuneOptions options{.budget_seconds = 120};
  options.max_candidates = 2;
  const auto report = tune(made, arguments(24), Target::host(), options, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_TRUE(report->complete);
  const auto kept = driver::load_program_times(*tuning.shared_state(), state, Target::host(), {{"n", 24}});
  const plan::Plan now = planned(made, 24, tuning);
  size_t known = 0;
  if (now.kernels.size() != plan.kernels.size() || driver::kernel_label(now, k) != label) return;  // decided otherwise
  for (const auto& [name, microseconds] : kept.medians) {
    known += name.starts_with(label) ? 1 : 0;
    EXPECT_GT(microseconds, 1e-3) << name;
  }
  EXPECT_EQ(known, 2U);
  EXPECT_NE(kept.find(sixth), nullptr);
  EXPECT_EQ(kept.find(fifth), nullptr);
}

// Times are of what a kernel computes, which one of the same number and product in another plan may not.
TEST_F(ProgramTimes, LabelsSayWhatAKernelComputes) {
  Context tuning = context("labels");
  std::set<std::string> labels;
  for (const char* function : {"relu", "gelu", "relu"}) {
    const std::string one =
        std::string("def f(x: f32[\"n\", 96], a: f32[96, 64]):\n    y = ") + function + "(x @ a)\n    return y\n";
    labels.insert(driver::kernel_label(planned(Program::parse(one, "p.py").value(), 24, tuning), 0));
  }
  EXPECT_EQ(labels.size(), 2U);
}

// Each decision of random programs the other way round: as right, and the same the next time.
TEST_F(ProgramTimes, DecisionsEitherWayComputeTheSame) {
  Context tuning = context("flipped");
  size_t flipped = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    RandomProgramOptions options;
    options.operations = 8 + static_cast<int>(seed % 9);
    options.f16 = true;
    const RandomProgram random = random_program(seed, options);
    auto made = Program::parse(random.text, "p.py");
    ASSERT_TRUE(made) << made.error().render();
    std::vector<ProgramInput> inputs;
    uint64_t of = seed * 1000;
    for (const RandomParameter& parameter : random.parameters) {
      const Dims shape(parameter.shape);
      inputs.push_back(parameter.index_limit > 0
                           ? index_input(parameter.name, parameter.dtype, shape, parameter.index_limit, ++of)
                           : random_input(parameter.name, parameter.dtype, shape, ++of));
    }
    const auto compiled = compile(*made, Target::host(), {}, tuning);
    if (!compiled) continue;
    const plan::Plan plan = driver::plan_of(CompiledProgram::Access::state(*compiled)).value();
    if (plan.decisions.empty()) continue;
    driver::TuningChanges changes;
    for (const plan::Decision& decision : plan.decisions) {
      changes.emplace_back(driver::answer_name(decision.key, false), decision.is_apart ? 1.0 : 2.0);
      changes.emplace_back(driver::answer_name(decision.key, true), decision.is_apart ? 2.0 : 1.0);
      ++flipped;
    }
    const auto& state = *Program::Access::state(*made);
    driver::keep_program_times(*tuning.shared_state(), state, Target::host(), {}, changes);
    const plan::Plan other =
        driver::plan_of(CompiledProgram::Access::state(compile(*made, Target::host(), {}, tuning).value())).value();
    for (const plan::Decision& decision : other.decisions) {
      const auto known = std::find_if(plan.decisions.begin(), plan.decisions.end(),
                                      [&](const plan::Decision& one) { return one.key == decision.key; });
      if (known == plan.decisions.end()) continue;
      EXPECT_TRUE(decision.measured);
      EXPECT_NE(decision.is_apart, known->is_apart) << "seed " << seed << ", " << decision.key;
    }
    run_checked(random.text, inputs, tuning);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed << "\n" << random.text;
  }
  EXPECT_GT(flipped, 0U);
}

// Of a GPU that is not there: every question either way gives a plan, and the answer is what was asked for.
TEST_F(ProgramTimes, PlansOfGpusTakeAnswers) {
  Context tuning = context("gpus");
  const std::vector<std::string> texts{
      "def f(x: bf16[\"n\", 512], w: i8[512, 512], s: bf16[512]):\n    y = x @ (cast(w, bf16) * s)\n    return y\n",
      "def f(x: bf16[\"n\", 512], a: bf16[512, 512], b: bf16[512, 512]):\n    y = silu(x @ a) * (x @ b)\n    return "
      "y\n",
      "def f(x: bf16[\"n\", 512], a: bf16[512, 512]):\n    h = x @ a\n    y = softmax(h, dim=-1)\n    return y\n",
      "def f(q: bf16[8, \"n\", 64], k: bf16[8, \"n\", 64], v: bf16[8, \"n\", 64]):\n"
      "    y = softmax(q @ transpose(k), dim=-1) @ v\n    return y\n"};
  std::set<plan::Question> asked;
  for (const std::string& one : texts) {
    const Program made = Program::parse(one, "p.py").value();
    const ir::Graph graph =
        opt::optimize(driver::graph_for(Program::Access::state(made)->graph, {Backend::cuda, {}, "sm_90a"}).value())
            .value()
            .graph;
    for (const char* arch : {"sm_90a", "sm_80"}) {
      const Target target{Backend::cuda, {}, arch};
      const auto planned = [&](const plan::Choices& choices) {
        return plan::plan_program(graph, target, tuning.shared_state()->machine(target), {{"n", 256}}, {},
                                  plan::Alignment::Hinted, {}, choices)
            .value();
      };
      const plan::Plan first = planned({});
      EXPECT_FALSE(first.decisions.empty()) << one;
      for (const plan::Decision& decision : first.decisions) {
        asked.insert(decision.question);
        EXPECT_FALSE(decision.measured);
        EXPECT_GT(decision.together, 0) << decision.key;
        EXPECT_GT(decision.apart, 0) << decision.key;
        for (const bool apart : {false, true}) {
          const plan::Plan other = planned({{decision.key, {apart, apart ? 2.0 : 1.0, apart ? 1.0 : 2.0}}});
          const auto answered = std::find_if(other.decisions.begin(), other.decisions.end(),
                                             [&](const plan::Decision& known) { return known.key == decision.key; });
          ASSERT_NE(answered, other.decisions.end()) << decision.key;
          EXPECT_TRUE(answered->measured);
          EXPECT_EQ(answered->is_apart, apart) << decision.key;
          if (apart == decision.is_apart) {
            EXPECT_EQ(other.kernels.size(), first.kernels.size()) << decision.key;
          }
          const std::string text =
              plan::explain_text(other, "f", {std::vector<std::string>(other.kernels.size(), "k")}, {{"n", 256}});
          EXPECT_NE(text.find("measured\n"), std::string::npos) << text;
          EXPECT_NE(text.find(std::string(plan::way_of(decision.question, apart)) + ", the program 1.00 us measured"),
                    std::string::npos)
              << text;
        }
      }
    }
  }
  EXPECT_TRUE(asked.contains(plan::Question::Factors));
  EXPECT_TRUE(asked.contains(plan::Question::Products));
  EXPECT_TRUE(asked.contains(plan::Question::Behind));
}

TEST_F(ProgramTimes, ProgramsThatCallTheCallersFunctionsAreNotTimed) {
  Context tuning = context("extern");
  const Program made =
      Program::parse(
          "def f(x: f32[8, 8]):\n    y = call_extern(\"g\", x, out=\"f32[8, 8]\")\n    z = y + 1.0\n    return z\n",
          "p.py")
          .value();
  Tensor x = Tensor::make(f32, {8, 8}).value();
  fill_random(x.view(), 1);
  const auto report = tune(made, {{"x", x.view()}}, Target::host(), {}, tuning);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_TRUE(report->results.empty());
  EXPECT_NE(report->note.find("it calls g, which is given to runs alone"), std::string::npos) << report->note;
}

}  // namespace
}  // namespace codetta::test
