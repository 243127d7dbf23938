// SPDX-License-Identifier: Apache-2.0
// Tuning: the fused candidates timed, interleaved, and checked.
#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>

#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "codetta/fill.hpp"
#include "driver/host_copy.hpp"
#include "driver/kernel_state.hpp"
#include "driver/rotation.hpp"
#include "driver/sampler.hpp"
#include "driver/stopping.hpp"
#include "driver/trial.hpp"
#include "driver/tune_search.hpp"
#include "driver/tuning_record.hpp"
#include "driver/verification.hpp"

namespace codetta {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double until_loaded = 0.08;  // seconds, by which the power of a GPU is what it is under load

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Contender {
  Kernel kernel;
  std::vector<Execution> executions;  // over the caller's tensors first, which it is checked by
  std::optional<driver::Sampler> sampler;
  TuneResult result;
  std::vector<double> samples;
};

double percentile(std::vector<double>& sorted, double p) {
  const auto at = static_cast<size_t>(p * static_cast<double>(sorted.size() - 1));
  return sorted[at];
}

void summarize(Contender& contender) {
  if (contender.samples.empty()) return;
  std::sort(contender.samples.begin(), contender.samples.end());
  contender.result.microseconds = percentile(contender.samples, 0.5);
  contender.result.spread =
      (percentile(contender.samples, 0.75) - percentile(contender.samples, 0.25)) / contender.result.microseconds;
}

Result<void> take_samples(Contender& contender, int count) {
  for (int i = 0; i < count; ++i) {
    CODETTA_TRY(const double measured, contender.sampler->sample());
    contender.samples.push_back(measured);
  }
  return {};
}

// What outputs hold before a run: poison, or the former contents where they are operands too.
Result<driver::HostCopies> contents_before(const driver::Problem& problem, const runtime::cuda::Device* device) {
  driver::HostCopies contents(device);
  std::vector<TensorView> inputs{problem.a, problem.b};
  for (const auto& input : problem.bound.inputs()) {
    const auto at = problem.tensors.find(input.name);
    if (at != problem.tensors.end()) inputs.push_back(at->second);
  }
  for (const auto& output : problem.bound.outputs()) {
    const TensorView& view = problem.tensors.at(output.name);
    CODETTA_TRY(const TensorView copy, contents.copy(view));
    const bool is_operand = std::any_of(inputs.begin(), inputs.end(), [&](const TensorView& input) {
      return input.byte_range().first < view.byte_range().second && view.byte_range().first < input.byte_range().second;
    });
    if (!is_operand) fill_poison(copy);
  }
  return contents;
}

// The device's context is lost: whatever comes after would fail as well.
bool is_fatal(const Error& error) { return error.code() == static_cast<uint16_t>(diag::Code::device_failed); }

class Tuning {
 public:
  // `kernels`: what discovery lists, at least one; outlives this.
  Tuning(const GemmArguments& arguments, const TuneOptions& options, Context& context, const KernelList& kernels)
      : arguments_(arguments),
        options_(options),
        context_(*context.shared_state()),
        found_(*driver::KernelState::of(kernels[0]).found),
        search_(kernels, options.max_candidates,
                [&arguments, &context, target = found_.target] {
                  return find_kernels(arguments, target, {.all = true}, context);
                }),
        record_(driver::load_tuning(found_)),
        trials_(context_, found_.target) {
    // Of a GPU as many as there are variants of, too, which the search finds out.
    progress_.total = driver::runs_on_gpu(found_.target) ? options.max_candidates : kernels.size();
  }

  Result<TuneReport> run();

 private:
  [[nodiscard]] bool goes_on(const std::string& kernel, double measured);
  void keep(const TuneResult& result);
  void compile(const std::vector<Kernel>& kernels);
  // Tries the kernels that the search gives, one after the other. False: goes_on() said no.
  Result<bool> search(const driver::Verification& expected, const driver::HostCopies& before);
  // Times the fastest again and leaves them in finalists_. False: goes_on() said no.
  Result<bool> repeat_best();
  // Fills in the contender's result. Errors: only those that end the whole call.
  Result<void> try_out(Contender& contender, const driver::Verification& expected, const driver::HostCopies& before);
  // Whether the candidate runs to its end at all, found out where a crash or a hang harms nobody. False: it does not
  // (its failure is set), or goes_on() said no.
  bool survives_trial(Contender& contender);
  Result<void> wait() const { return device_ ? device_->synchronize() : Result<void>(); }
  [[nodiscard]] size_t batch() const { return std::max<size_t>(4, static_cast<size_t>(context_.pool->size())); }

  const GemmArguments& arguments_;
  const TuneOptions& options_;
  driver::ContextState& context_;
  const driver::FoundState& found_;
  driver::TuneSearch search_;
  std::deque<Contender> contenders_;
  std::vector<Contender*> finalists_{};
  // Written after each candidate, on top of what earlier calls measured: whatever ends this process loses nothing.
  driver::TuningRecord record_;
  runtime::cuda::DeviceRef device_;  // null on a CPU
  driver::Rotation rotation_{};      // empty on a CPU
  driver::Trials trials_;
  TuneProgress progress_;
  std::string note_;
  Clock::time_point start_ = Clock::now();
  driver::BudgetClock clock_;  // stands while the oracle computes
};

bool Tuning::goes_on(const std::string& kernel, double measured) {
  progress_.kernel = kernel;
  progress_.microseconds = measured;
  if (measured > 0 && (progress_.best.empty() || measured < progress_.best_microseconds)) {
    progress_.best = kernel;
    progress_.best_microseconds = measured;
  }
  const bool in_budget = clock_.gone() < options_.budget_seconds;
  return (!options_.progress || options_.progress(progress_)) && in_budget;
}

void Tuning::keep(const TuneResult& result) {
  if (!result.failure.empty() || !(result.microseconds > 0)) return;
  std::erase_if(record_.medians, [&](const auto& known) { return known.first == result.kernel; });
  record_.medians.emplace_back(result.kernel, result.microseconds);
}

// Compiled a few at a time before any of them is timed, so that no compiler disturbs a measurement.
void Tuning::compile(const std::vector<Kernel>& kernels) {
  std::vector<package::PackageRef> packages;
  for (const Kernel& kernel : kernels) {
    auto package = driver::KernelState::of(kernel).package();
    if (package) packages.push_back(*std::move(package));
  }
  std::vector<const package::Kernel*> sources;
  for (const auto& package : packages)
    for (const package::Kernel& kernel : package->kernels) sources.push_back(&kernel);
  if (found_.target.backend == Backend::cuda) {
    context_.cuda.compile_ahead(sources);
  } else if (found_.target.backend == Backend::hip) {
    context_.hip.compile_ahead(sources);
  } else if (!device_) {
    context_.compile_ahead(sources, found_.target.isa,
                           [&] { return !options_.progress || options_.progress(progress_); });
  }
}

bool Tuning::survives_trial(Contender& contender) {
  const bool gpu = driver::runs_on_gpu(found_.target);
  // On a CPU one thread does the work of all.
  const double estimate = contender.kernel.metadata().estimated_us * 1e-6 * (gpu ? 1 : context_.pool->size());
  const double seconds = options_.trial_seconds > 0 ? options_.trial_seconds : 10 + 100 * estimate;
  // Nothing that a kernel of Codetta's does hangs on what tensors hold.
  const auto outcome =
      trials_.run(contender.executions[0], seconds, false, [&] { return goes_on(contender.result.kernel, 0); });
  if (!outcome) {
    note_ = fmt::format("no process for trials ({}): a candidate that crashes{} is not stopped", outcome.error(),
                        gpu ? " or hangs" : "");
    return true;
  }
  if (outcome->end == base::IsolatedEnd::Died)
    contender.result.failure = "crashed in its first run: " + outcome->summary;
  if (outcome->end == base::IsolatedEnd::TimedOut)
    contender.result.failure =
        fmt::format("hung in its first run: {}, {:.3g} s was the estimate", outcome->summary, estimate);
  return outcome->end == base::IsolatedEnd::Finished;
}

Result<void> Tuning::try_out(Contender& contender, const driver::Verification& expected,
                             const driver::HostCopies& before) {
  const auto fails = [&](const Error& error) -> Result<void> {
    contender.result.failure = error.message();
    contender.sampler.reset();
    contender.executions.clear();
    if (is_fatal(error)) return error;
    return {};
  };
  auto execution = contender.kernel.prepare(arguments_);
  if (!execution) return fails(execution.error());
  contender.executions.push_back(*std::move(execution));
  if (auto ok = before.restore(); !ok) return fails(ok.error());
  if (!survives_trial(contender)) {
    contender.executions.clear();
    return {};
  }
  if (auto ok = contender.executions[0].run(); !ok) return fails(ok.error());
  if (auto ok = wait(); !ok) return fails(ok.error());
  const auto checked = expected.check(true);
  if (!checked) return fails(checked.error());
  if (checked->verdict != VerifyReport::Verdict::Pass) {
    const bool wrong = checked->verdict == VerifyReport::Verdict::Fail;
    contender.result.failure =
        (wrong ? "wrong result: " : "not to be judged, neither right nor wrong: ") + checked->text;
    contender.executions.clear();
    return {};
  }
  auto others = rotation_.prepare(contender.kernel);
  if (!others) return fails(others.error());
  std::move(others->begin(), others->end(), std::back_inserter(contender.executions));
  auto sampler = driver::Sampler::make(contender.executions);
  if (!sampler) return fails(sampler.error());
  contender.sampler = *std::move(sampler);
  // Not of an idle GPU (repeat_best).
  for (const auto begin = Clock::now(); device_ && seconds_since(begin) < until_loaded;) {
    if (auto ok = take_samples(contender, 1); !ok) return fails(ok.error());
  }
  contender.samples.clear();
  if (auto ok = take_samples(contender, 3); !ok) return fails(ok.error());
  summarize(contender);
  return {};
}

Result<bool> Tuning::search(const driver::Verification& expected, const driver::HostCopies& before) {
  for (;;) {
    CODETTA_TRY(const std::vector<Kernel> next, search_.next(batch()));
    if (next.empty()) break;
    if (!goes_on(next[0].metadata().name, 0)) return false;
    compile(next);
    for (const Kernel& kernel : next) {
      if (!goes_on(kernel.metadata().name, 0)) return false;
      Contender& contender = contenders_.emplace_back();
      contender.kernel = kernel;
      contender.result.kernel = kernel.metadata().name;
      CODETTA_CHECK_OK(try_out(contender, expected, before));
      ++progress_.done;
      if (!contender.result.failure.empty()) continue;
      keep(contender.result);
      driver::save_tuning(found_, record_);
      search_.measured(kernel, contender.result.microseconds);
      if (!goes_on(contender.result.kernel, contender.result.microseconds)) return false;
    }
  }
  progress_.total = progress_.done;
  return true;
}

// The good ones again, interleaved, so that a change of the machine's speed hits all alike. A GPU that has been idle
// between candidates is as fast as it gets, and under load as its power allows, which some kernels need more of than
// others: what counts is the latter (an H100, 4096^3 in bf16: 177 us, and 195).
Result<bool> Tuning::repeat_best() {
  for (Contender& contender : contenders_) {
    if (contender.sampler && contender.result.microseconds > 0) finalists_.push_back(&contender);
  }
  if (finalists_.empty()) return true;
  const auto faster = [](const Contender* a, const Contender* b) {
    return a->result.microseconds < b->result.microseconds;
  };
  std::sort(finalists_.begin(), finalists_.end(), faster);
  constexpr size_t most = 4;
  constexpr double close = 1.2;
  const double enough = close * finalists_[0]->result.microseconds;
  while (finalists_.size() > most || finalists_.back()->result.microseconds > enough) finalists_.pop_back();
  bool loaded = device_ == nullptr;
  const auto begin = Clock::now();
  for (int round = 0, counted = 0; counted < 15; ++round, counted += loaded ? 1 : 0) {
    if (!loaded && seconds_since(begin) >= until_loaded) {
      loaded = true;
      for (Contender* contender : finalists_) contender->samples.clear();
    }
    // Backwards every other time: what a kernel leaves in the L2, and of the power, does not always meet the same one.
    for (size_t i = 0, count = finalists_.size(); i < count; ++i) {
      const size_t at = (i + static_cast<size_t>(round)) % count;
      CODETTA_CHECK_OK(take_samples(*finalists_[round % 2 == 0 ? at : count - 1 - at], 1));
    }
    if (!goes_on(finalists_[0]->result.kernel, finalists_[0]->result.microseconds)) return false;
  }
  // What was not repeated has times of another state of the machine: it stays as far behind the best as it was.
  std::vector<double> first;
  for (Contender* contender : finalists_) {
    first.push_back(contender->result.microseconds);
    summarize(*contender);
  }
  const auto best =
      static_cast<size_t>(std::min_element(finalists_.begin(), finalists_.end(), faster) - finalists_.begin());
  const double slower = std::max(1.0, finalists_[best]->result.microseconds / first[best]);
  for (Contender& contender : contenders_) {
    if (std::find(finalists_.begin(), finalists_.end(), &contender) != finalists_.end()) continue;
    for (double& sample : contender.samples) sample *= slower;
  }
  return true;
}

Result<TuneReport> Tuning::run() {
  if (driver::runs_on_gpu(found_.target)) {
    CODETTA_TRY(device_, context_.gpu(found_.target).device());
    CODETTA_CHECK_OK(wait());
    trials_.begin();
  }
  CODETTA_TRY(const driver::HostCopies before, contents_before(found_.problem, device_.get()));
  const auto told = driver::now_and_then([&] { return !options_.progress || options_.progress(progress_); });
  std::optional<driver::BudgetClock::Pause> pause(clock_);
  auto expected = driver::Verification::make(arguments_, {}, found_.target, 1, context_, false, told);
  bool stopped = !expected;
  if (!expected && !driver::was_cancelled(expected.error())) return std::move(expected).error();
  if (stopped)
    note_ = fmt::format("it ended before a candidate was timed: the oracle took {:.1f} s to check", pause->so_far());
  pause.reset();
  if (!stopped) {
    if (device_) {
      CODETTA_TRY(rotation_, driver::Rotation::make(arguments_, device_));
    }
    CODETTA_TRY(const bool whole, search(*expected, before));
    stopped = !whole;
  }

  trials_.finish();

  if (!stopped) {
    CODETTA_TRY(const bool repeated, repeat_best());
    stopped = !repeated;
  }
  TuneReport report;
  for (Contender& contender : contenders_) {
    summarize(contender);
    if (contender.result.failure.empty() && contender.result.microseconds == 0) continue;  // not reached
    report.results.push_back(contender.result);
  }
  std::stable_sort(report.results.begin(), report.results.end(), [](const TuneResult& a, const TuneResult& b) {
    if (a.failure.empty() != b.failure.empty()) return a.failure.empty();
    return a.failure.empty() && a.microseconds < b.microseconds;
  });
  for (const TuneResult& result : report.results) keep(result);
  if (!record_.medians.empty()) driver::save_tuning(found_, record_);
  CODETTA_CHECK_OK(before.restore());
  if (!finalists_.empty()) CODETTA_CHECK_OK(finalists_[0]->executions[0].run());  // outputs as after one run
  CODETTA_CHECK_OK(wait());
  report.note = note_;
  report.complete = !stopped;
  report.seconds = seconds_since(start_);
  return report;
}

}  // namespace

Result<void> driver::check_tune_options(const TuneOptions& options) {
  if (!(options.budget_seconds > 0) || options.max_candidates == 0) {
    const bool budget = !(options.budget_seconds > 0);
    return diag::error(diag::Code::option_range,
                       budget ? fmt::format("{:g} seconds are no time to tune in", options.budget_seconds)
                              : "0 candidates are none to tune")
        .reason(budget ? "the budget has to be above 0 seconds" : "at least one has to be timed")
        .help(budget ? "leave out `budget_seconds`: it is 30" : "leave out `max_candidates`: it is 16");
  }
  if (!(options.trial_seconds >= 0)) {
    return diag::error(diag::Code::option_range,
                       fmt::format("{:g} seconds are no time for a trial", options.trial_seconds))
        .reason("a candidate's first run gets 0 seconds (what its estimate says) or more")
        .help("leave out `trial_seconds`");
  }
  return {};
}

Result<TuneReport> tune(const GemmArguments& arguments, const Target& target, const TuneOptions& options,
                        Context& context) {
  const base::DefaultFloats floats;
  CODETTA_CHECK_OK(driver::check_tune_options(options));
  driver::ContextState& state = *context.shared_state();
  CODETTA_TRY(const Target resolved, driver::resolve_target(state, target));
  CODETTA_CHECK_OK(state.check_runs(resolved));
  DiscoveryOptions discovery;
  // On a GPU what is tried need not be the first of the list.
  const size_t listed = driver::runs_on_gpu(resolved) ? discovery.max_candidates : 0;
  discovery.max_candidates = std::max(options.max_candidates, listed);
  CODETTA_TRY(const KernelList kernels, find_kernels(arguments, resolved, discovery, context));
  if (kernels.empty()) return driver::none_left(kernels.rejections());
  return Tuning(arguments, options, context, kernels).run();
}

}  // namespace codetta
