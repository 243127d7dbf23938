// SPDX-License-Identifier: Apache-2.0
// Decisions and candidates of a program's kernels, timed as parts of the whole program.
#include "driver/product_tuning.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "diag/diagnostic.hpp"
#include "driver/build_id.hpp"
#include "driver/kernel_state.hpp"
#include "driver/program_times.hpp"
#include "driver/sampler.hpp"
#include "driver/stopping.hpp"
#include "driver/trial.hpp"
#include "driver/tuning_data.hpp"
#include "emit/package.hpp"

namespace codetta::driver {

namespace {

using Clock = std::chrono::steady_clock;
using List = nlohmann::ordered_json;

// One choice of kernels, ready to be timed.
struct Trial {
  std::unique_ptr<Clock::time_point> started;  // of the run under way, which has a limit; null where none is needed
  std::optional<Execution> execution;
  std::optional<Sampler> sampler;  // on a GPU, where runs can be captured
  bool known = false;              // its results have the bits of ones that were judged to be right
};

struct Timed {
  double microseconds = 0, spread = 0;  // (p75 - p25) / median
};

// A candidate that was offered.
struct Measured {
  size_t candidate = 0;
  Timed time{};
  std::string failure{};
};

double since(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

Error endless(const std::string& name, double seconds, const std::string& why) {
  return diag::error(diag::Code::loop_endless, fmt::format("a run of {} takes longer than {:g} s", name, seconds))
      .reason(why)
      .help(
          "a greater `trial_seconds` allows more; a loop that random data never ends needs a count in its condition, "
          "or no `tune_seconds`");
}

bool has_loop(const plan::Plan& plan) {
  const auto loops = [](const package::StepList& steps) {
    return std::any_of(steps.begin(), steps.end(),
                       [](const package::Step& step) { return std::holds_alternative<package::While>(step); });
  };
  return loops(plan.steps) || std::any_of(plan.step_lists.begin(), plan.step_lists.end(), loops);
}

Result<void> run_through(Trial& trial) {
  if (trial.started) *trial.started = Clock::now();
  if (runtime::Execution* cpu = ExecutionState::cpu(*trial.execution)) return cpu->run();
  CODETTA_CHECK_OK(trial.execution->run());
  return ExecutionState::cuda(*trial.execution)->device()->synchronize();
}

// By the clock, of a run that is waited for, where it can't be captured. Microseconds.
Result<double> time_once(Trial& trial) {
  if (trial.sampler) return trial.sampler->sample();
  const auto start = Clock::now();
  CODETTA_CHECK_OK(run_through(trial));
  return since(start) * 1e6;
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// Stopped, by goes_on(): what is measured so far stays.
Error stopped_early() {
  return diag::error(diag::Code::compile_cancelled, "tuning was stopped")
      .reason("whoever asked for it, or its budget, says so")
      .help("what was measured is kept; start it again for the rest");
}

class Tuner {
 public:
  Tuner(plan::Plan& plan, const ProductTuning& how, TuningData data, ContextState& context)
      : plan_(plan),
        how_(how),
        name_(Program::Access::state(how.program)->function.name),
        context_(context),
        loops_(has_loop(plan)),
        own_(!loops_ && std::none_of(plan.kernels.begin(), plan.kernels.end(),
                                     [](const plan::PlannedKernel& kernel) { return kernel.user.has_value(); })),
        trials_(context, plan.target),
        data_(std::move(data)),
        device_(data_.device()) {}

  Result<ProductTimes> run() {
    trials_.begin();
    if (auto done = tune(); !done) {
      if (!was_cancelled(done.error())) return done.error();
      stopped_ = true;
      times_.results.insert(times_.results.end(), unfinished_.begin(), unfinished_.end());
      if (times_.results.empty() && judging_ > 0)
        add_note(fmt::format("it ended before a candidate was timed: the oracle took {:.1f} s to check what is planned",
                             judging_));
    }
    std::stable_sort(picks_.begin(), picks_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    List products = List::array();
    for (auto& [kernel, pick] : picks_) products.push_back(std::move(pick));
    times_.products = products.dump();
    if (!decisions_.empty()) times_.decisions = decisions_.dump();
    times_.complete = !stopped_;
    return std::move(times_);
  }

 private:
  Result<void> tune() {
    // What the program computes as it is planned is what all else has to agree with where the oracle has no say.
    if (how_.planned || how_.keep || !own_) {
      auto base = prepare();
      if (!base && (!is_candidates_own(base.error()) || !own_)) return base.error();
      if (base) {
        CODETTA_TRY(const std::string wrong, judged(*base));
        if (!wrong.empty()) {  // which is what it computes untuned, too: nothing is worse that has the same bits
          add_note(fmt::format("as it is planned: {}", wrong));
          CODETTA_CHECK_OK(data_.take_as_right(*base->execution));
        }
      }
    }
    if (how_.planned) CODETTA_CHECK_OK(tune_decisions());
    std::vector<size_t> order;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      if (plan_.kernels[k].user) continue;  // tune_configurations() has picked
      if (how_.without_choice || plan_.kernels[k].discovery.candidates.size() > 1) order.push_back(k);
    }
    const auto estimate = [&](size_t k) {
      const plan::PlannedKernel& kernel = plan_.kernels[k];
      return kernel.discovery.candidates.empty() ? 0 : kernel.discovery.candidates[kernel.chosen].microseconds;
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return estimate(a) > estimate(b); });
    for (const size_t k : order) {
      CODETTA_TRY(List pick, tune_product(k));
      picks_.emplace_back(k, std::move(pick));
    }
    return {};
  }

  BudgetClock& clock() { return how_.clock != nullptr ? *how_.clock : own_clock_; }
  void add_note(const std::string& text) {
    if (times_.note.find(text) == std::string::npos) times_.note += (times_.note.empty() ? "" : "; ") + text;
  }
  Result<void> ask(const std::string& what, double microseconds = 0) {
    if (how_.goes_on && !how_.goes_on(what, microseconds)) stopped_ = true;
    if (stopped_) return stopped_early();
    return {};
  }
  [[nodiscard]] Result<void> goes_on(Clock::time_point started) {
    CODETTA_CHECK_OK(ask(name_));
    if (since(started) <= how_.trial_seconds) return {};
    return endless(name_, how_.trial_seconds, "tuning ran it on data of the sizes that it is tuned for");
  }

  // Whether a program that may not end, or may crash, does so on this data, found out in a process that can be ended.
  Result<void> try_run(Trial& trial) {
    const auto outcome = trials_.run(*trial.execution, how_.trial_seconds, !own_, [&] { return bool(ask(name_)); });
    if (!outcome) {  // no process for it: on a CPU it is watched in this one, between steps
      if (how_.tell) how_.tell(fmt::format("{}: its first run has no process of its own: {}", name_, outcome.error()));
      add_note(fmt::format("no process for trials ({})", outcome.error()));
      return {};
    }
    switch (outcome->end) {
      case base::IsolatedEnd::Finished:
        return {};
      case base::IsolatedEnd::Stopped:
        return stopped_early();
      case base::IsolatedEnd::TimedOut:
        if (!own_)
          return endless(name_, how_.trial_seconds, "tuning ran it once on data of the sizes that it is tuned for");
        return diag::error(diag::Code::loop_endless,
                           fmt::format("a run of {} takes longer than {:g} s", name_, how_.trial_seconds))
            .reason("tuning ran it once, with a candidate that was to be timed")
            .help("a greater `trial_seconds` allows more");
      case base::IsolatedEnd::Died:
        break;
    }
    if (own_) {
      return diag::error(diag::Code::device_failed, "a kernel that ran on the device has failed")
          .reason(outcome->summary)
          .help("it was in a process of its own; report this");
    }
    return diag::error(diag::Code::extern_failed, fmt::format("{} crashed in its first run while it was tuned", name_))
        .reason(fmt::format("{}; it ran on data of the sizes that it is tuned for", outcome->summary))
        .help("look at the program's own kernels and functions: every index and size is theirs to check");
  }

  // What a candidate loses by alone; else the program, or what is around it, is to blame.
  [[nodiscard]] bool is_candidates_own(const Error& error) const {
    std::vector<diag::Code> own{diag::Code::kernel_resources, diag::Code::compile_rejected, diag::Code::user_source,
                                diag::Code::launch_limits, diag::Code::device_failed};
    if (own_) own.push_back(diag::Code::loop_endless);
    return std::any_of(own.begin(), own.end(),
                       [&](diag::Code code) { return error.code() == static_cast<uint16_t>(code); });
  }

  // The program with the kernels that are chosen, whose first run has come to its end.
  Result<Trial> prepare() {
    CODETTA_TRY(package::Package made, emit::emit_package(plan_, {.name = name_, .build_id = build_id()}));
    const auto package = std::make_shared<const package::Package>(std::move(made));
    Trial trial;
    CODETTA_TRY(runtime::Bindings bindings, data_.bound(package));
    // Later runs may differ from the first: donated parameters do. Between steps of a GPU only loops are looked at,
    // since runs that are looked at are none to be captured.
    if (device_ == nullptr ? !own_ : loops_) trial.started = std::make_unique<Clock::time_point>();
    // Random indices are out of range, and are to be taken as others, not to end the run.
    constexpr bool checked = false;
    if (device_ != nullptr) {
      GpuPreparation how;
      how.checked = checked;
      if (trial.started)
        how.observer = [this, started = trial.started.get()](const runtime::StepEvent&, const runtime::cuda::Device&,
                                                             runtime::cuda::StreamHandle) { return goes_on(*started); };
      double compile_seconds = 0;
      CODETTA_TRY(runtime::cuda::Execution execution,
                  prepare_gpu(context_, package, plan_.target, std::move(bindings), compile_seconds, std::move(how)));
      trial.execution = ExecutionState::make(std::move(execution), nullptr, package, compile_seconds);
    } else {
      std::vector<runtime::KernelEntry> entries;
      for (const package::Kernel& kernel : package->kernels) {
        CODETTA_TRY(LoadedKernel loaded, context_.load(kernel, plan_.target.isa));
        entries.push_back(std::move(loaded.entry));
      }
      runtime::ExecutionOptions options;
      options.pool = context_.pool;
      options.allocator = context_.allocator;
      options.checked = checked;
      if (trial.started)
        options.observer = [this, started = trial.started.get()](const runtime::StepEvent&) {
          return goes_on(*started);
        };
      CODETTA_TRY(runtime::Execution execution,
                  runtime::Execution::make(package, std::move(entries), std::move(bindings), options));
      trial.execution = ExecutionState::make(std::move(execution), nullptr, package, 0);
    }
    if (trial.started) *trial.started = Clock::now() + std::chrono::hours(48);  // the process of the trial has its own
    if (device_ != nullptr || !own_) CODETTA_CHECK_OK(try_run(trial));
    CODETTA_CHECK_OK(data_.begin_checked());
    CODETTA_CHECK_OK(run_through(trial));  // what ends early would be timed as fast
    CODETTA_TRY(trial.known, data_.is_known(*trial.execution));
    if (device_ != nullptr && !loops_) {
      auto sampler = Sampler::make(std::span(&*trial.execution, 1));
      if (sampler) trial.sampler = *std::move(sampler);
    }
    return trial;
  }

  // Empty: its results are right. Runs it again, since others have run by then.
  Result<std::string> judged(Trial& trial) {
    if (trial.known) return std::string();
    CODETTA_CHECK_OK(ask(name_));
    CODETTA_CHECK_OK(data_.begin_checked());
    CODETTA_CHECK_OK(run_through(trial));
    const BudgetClock::Pause pause(clock());
    auto wrong = data_.judge(*trial.execution, now_and_then([&] { return bool(ask(name_)); }));
    judging_ += pause.so_far();
    return wrong;
  }

  // Side by side, for a GPU, before any of them is timed; one that does not compile is left to prepare(), which tells.
  void compile_ahead(const std::vector<package::Package>& packages) {
    if (device_ == nullptr) return;
    std::vector<const package::Kernel*> kernels;
    for (const package::Package& package : packages) {
      for (const package::Kernel& kernel : package.kernels) kernels.push_back(&kernel);
    }
    if (plan_.target.backend == Backend::hip)
      context_.hip.compile_ahead(kernels);
    else
      context_.cuda.compile_ahead(kernels);
  }
  void compile_ahead(size_t k, const std::vector<size_t>& candidates) {
    if (device_ == nullptr) return;
    std::vector<package::Package> packages;
    for (const size_t c : candidates) {
      plan_.kernels[k].chosen = c;
      auto made = emit::emit_package(plan_, {.name = name_, .build_id = build_id()});
      if (made) packages.push_back(*std::move(made));
    }
    compile_ahead(packages);
  }

  // Of the trials, run in turn, in another order each round. A GPU at its limit of power changes its clock by several
  // percent from one second to the next, and by what ran before: a time counts as its share of the round, and the
  // result is the median of these shares of a median round.
  Result<std::vector<Timed>> time_in_turn(std::vector<Trial>& trials, double seconds) {
    std::vector<std::vector<double>> shares(trials.size());
    std::vector<double> rounds, once(trials.size());
    std::vector<size_t> order(trials.size());
    std::iota(order.begin(), order.end(), 0);
    std::minstd_rand random;
    const auto begin = Clock::now();
    for (int round = 0; round < 5 || (round < 201 && since(begin) < seconds); ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t i : order) {
        CODETTA_CHECK_OK(ask(name_));
        CODETTA_TRY(once[i], time_once(trials[i]));
      }
      const double mean = std::max(std::accumulate(once.begin(), once.end(), 0.0) / static_cast<double>(once.size()),
                                   std::numeric_limits<double>::min());
      rounds.push_back(mean);
      for (size_t i = 0; i < once.size(); ++i) shares[i].push_back(once[i] / mean);
    }
    const double typical = median(rounds);
    std::vector<Timed> times;
    for (auto& list : shares) {
      std::sort(list.begin(), list.end());
      const auto at = [&](size_t part) { return list[(list.size() - 1) * part / 4]; };
      const double middle = median(list);
      times.push_back({middle * typical, (at(3) - at(1)) / middle});
    }
    return times;
  }

  // Where the kernel's lines are in the text; of one of none what the plan calls it.
  [[nodiscard]] static std::string place_of(const plan::Plan& plan, size_t k) {
    const std::vector<std::string> origins = plan::origin_texts(plan.kernels[k].account);
    return origins.empty() ? fmt::format("kernel {}", k) : fmt::format("kernel {}: {}", k, fmt::join(origins, "; "));
  }
  static std::string place_of(const plan::Plan& plan, const plan::Decision& decision) {
    for (size_t k = 0; k < plan.kernels.size() && !decision.nested; ++k) {
      if (plan.kernels[k].region.graph == nullptr && plan.kernels[k].region.matmul == decision.node &&
          !plan::origin_texts(plan.kernels[k].account).empty())
        return fmt::format("{}: {}", decision.key, fmt::join(plan::origin_texts(plan.kernels[k].account), "; "));
    }
    return decision.key;
  }

  // One way of a decision, as planned: its plan, and how long it takes.
  struct Way {
    plan::Plan plan;
    std::optional<Trial> trial{};
    std::string failure{};
  };

  Result<void> tune_decisions() {
    plan::Choices choices;
    for (const plan::Decision& decision : plan_.decisions) {
      if (decision.measured) choices.emplace(decision.key, decision.choice);
    }
    std::vector<plan::Decision> open = plan_.decisions;
    std::erase_if(open, [](const plan::Decision& one) { return !is_close(one); });
    std::stable_sort(open.begin(), open.end(), [](const plan::Decision& a, const plan::Decision& b) {
      return std::max(a.together, a.apart) > std::max(b.together, b.apart);
    });
    for (const plan::Decision& asked : open) {
      if (clock().gone() >= how_.seconds) {
        add_note("the budget ended before all decisions were measured");
        break;
      }
      CODETTA_CHECK_OK(ask(asked.key));
      // What was decided since may have taken the question away, or answered it otherwise.
      const auto now = std::find_if(plan_.decisions.begin(), plan_.decisions.end(),
                                    [&](const plan::Decision& one) { return one.key == asked.key; });
      if (now == plan_.decisions.end()) continue;
      const plan::Decision decision = *now;
      plan::Choices others = choices;
      others[decision.key] = {!decision.is_apart, 0, 0};
      CODETTA_CHECK_OK(measure(decision, choices, others));
    }
    return {};
  }

  // Both ways of a decision: `choices` and `plan_` become the faster one's.
  Result<void> measure(const plan::Decision& decision, plan::Choices& choices, const plan::Choices& others) {
    List told{{"decision", decision.key},
              {"estimated_microseconds", {{"together", decision.together}, {"apart", decision.apart}}}};
    const auto failed = [&](const std::string& why) {
      told["failure"] = why;
      tell_ways(decision, {}, {}, why);
      decisions_.push_back(std::move(told));
    };
    auto planned = how_.planned(others);
    if (!planned) {
      failed(diag::sentence(planned.error()));
      return {};
    }
    Way other{*std::move(planned)};
    CODETTA_TRY(package::Package here, emit::emit_package(plan_, {.name = name_, .build_id = build_id()}));
    auto there = emit::emit_package(other.plan, {.name = name_, .build_id = build_id()});
    if (!there) {
      failed(diag::sentence(there.error()));
      return {};
    }
    if (here == *there) return {};  // nothing hangs on it any more
    std::vector<package::Package> packages;
    packages.push_back(std::move(here));
    packages.push_back(*std::move(there));
    compile_ahead(packages);
    std::vector<Trial> trials;
    CODETTA_TRY(Trial first, prepare());
    trials.push_back(std::move(first));
    std::swap(plan_, other.plan);
    auto second = prepare();
    std::swap(plan_, other.plan);
    if (!second && !is_candidates_own(second.error())) return second.error();
    if (!second) {
      failed(diag::sentence(second.error()));
      return {};
    }
    trials.push_back(*std::move(second));
    CODETTA_TRY(const std::vector<Timed> times, time_in_turn(trials, how_.seconds / 10));
    CODETTA_TRY(const std::string wrong, judged(trials[1]));
    if (!wrong.empty()) {
      failed(wrong);
      return {};
    }
    const bool wins = times[1].microseconds < times[0].microseconds;
    const Timed &by_one = times[decision.is_apart ? 1 : 0], &by_several = times[decision.is_apart ? 0 : 1];
    const double together = by_one.microseconds, apart = by_several.microseconds;
    plan::Choice& choice = choices[decision.key];
    choice = {wins != decision.is_apart, together, apart};
    if (wins) {
      plan_ = std::move(other.plan);
      for (plan::Decision& one : plan_.decisions) {
        if (one.key == decision.key) one.choice = choice;
      }
    } else {
      for (plan::Decision& one : plan_.decisions) {
        if (one.key == decision.key) one.measured = true, one.choice = choice;
      }
    }
    told["picked"] = choice.apart ? "apart" : "together";
    told["way"] = plan::way_of(decision.question, choice.apart);
    told["program_microseconds"] = {{"together", together}, {"apart", apart}};
    tell_ways(decision, by_one, by_several, {});
    decisions_.push_back(std::move(told));
    if (how_.keep) how_.keep({{answer_name(decision.key, false), together}, {answer_name(decision.key, true), apart}});
    if (how_.tell)
      how_.tell(fmt::format("{}: {}: {}, {:.1f} us, not {}, {:.1f} us", name_, decision.key,
                            plan::way_of(decision.question, choice.apart), choice.apart ? apart : together,
                            plan::way_of(decision.question, !choice.apart), choice.apart ? together : apart));
    return ask(decision.key, std::min(together, apart));
  }

  void tell_ways(const plan::Decision& decision, const Timed& together, const Timed& apart,
                 const std::string& failure) {
    const std::string call = place_of(plan_, decision);
    std::vector<TuneResult> ways;
    for (const bool is_apart : {false, true}) {
      const auto& [microseconds, spread] = is_apart ? apart : together;
      const bool fails = !failure.empty() && is_apart != decision.is_apart;
      if (microseconds > 0 || fails)
        ways.push_back(
            {std::string(plan::way_of(decision.question, is_apart)), microseconds, spread, fails ? failure : "", call});
    }
    if (ways.size() == 2 && ways[1].failure.empty() && ways[1].microseconds < ways[0].microseconds)
      std::swap(ways[0], ways[1]);
    times_.results.insert(times_.results.end(), ways.begin(), ways.end());
  }

  // Those of a kernel that are timed: what is taken now, then the first of the ranking.
  [[nodiscard]] std::vector<size_t> offered_of(const plan::PlannedKernel& kernel) const {
    const size_t all = kernel.discovery.candidates.size(), count = std::min(all, how_.most_candidates);
    std::vector<size_t> offered;
    if (kernel.chosen < all && count > 0) offered.push_back(kernel.chosen);
    for (size_t c = 0; offered.size() < count; ++c) {
      if (c != kernel.chosen) offered.push_back(c);
    }
    return offered;
  }

  // Picks the fastest candidate of a kernel, and says what was measured.
  Result<List> tune_product(size_t k) {
    plan::PlannedKernel& kernel = plan_.kernels[k];
    const auto& candidates = kernel.discovery.candidates;
    const std::vector<size_t> offered = offered_of(kernel);
    std::vector<Trial> trials;
    std::vector<Measured> measured;  // of each candidate that is offered
    std::vector<size_t> tried;       // its place among these, by trial
    std::optional<Error> failed;
    struct Reset {  // where it ends early, what was chosen stays
      plan::PlannedKernel& kernel;
      size_t chosen;
      ~Reset() { kernel.chosen = chosen; }
    } reset{kernel, kernel.chosen};
    compile_ahead(k, offered);
    for (const size_t c : offered) {
      kernel.chosen = c;
      CODETTA_CHECK_OK(ask(candidates[c].name));
      auto trial = prepare();
      if (!trial && !is_candidates_own(trial.error())) return trial.error();
      measured.push_back({c});
      if (!trial) {
        measured.back().failure = diag::sentence(trial.error());
        if (!failed) failed = trial.error();
        continue;
      }
      if (how_.keep && trial->known) CODETTA_CHECK_OK(keep_first(k, c, *trial));
      trials.push_back(*std::move(trial));
      tried.push_back(measured.size() - 1);
    }
    if (trials.empty()) return *failed;
    kernel.chosen = measured[tried[0]].candidate;
    CODETTA_TRY(const std::vector<Timed> times,
                time_in_turn(trials, how_.seconds / static_cast<double>(plan_.kernels.size())));
    std::vector<size_t> order(tried.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return times[a].microseconds < times[b].microseconds; });
    // The fastest that is right; what is slower than that is not looked at.
    const Measured* best = nullptr;
    for (const size_t t : order) {
      Measured& one = measured[tried[t]];
      one.time = times[t];
      if (best != nullptr) continue;
      CODETTA_TRY(one.failure, judged(trials[t]));
      if (one.failure.empty()) best = &one;
    }
    if (best == nullptr) {
      return diag::error(diag::Code::compile_rejected,
                         fmt::format("no candidate of {} computes what it should", place_of(plan_, k)))
          .reason(measured[tried[order[0]]].failure)
          .help("leave out tuning, and report this");
    }
    reset.chosen = kernel.chosen = best->candidate;
    return told(k, std::move(measured), best->candidate);
  }

  // A time of a few runs, which a better one replaces: what ends this process loses nothing.
  Result<void> keep_first(size_t k, size_t c, Trial& trial) {
    std::vector<double> once(3);
    for (double& one : once) {
      CODETTA_TRY(one, time_once(trial));
    }
    const double microseconds = median(once);
    keep(k, {{candidate_name(plan_, k, c), microseconds}}, unfinished_.empty());
    const auto [least, most] = std::minmax_element(once.begin(), once.end());
    const std::string& name = plan_.kernels[k].discovery.candidates[c].name;
    unfinished_.push_back({name, microseconds, (*most - *least) / microseconds, {}, place_of(plan_, k)});
    return ask(name, microseconds);
  }

  // `alone`: without former times of other candidates of the kernel. Those that were too slow to be checked may look
  // fast beside times of another day.
  void keep(size_t k, TuningChanges changes, bool alone) {
    TuningChanges all;
    for (size_t c = 0; alone && c < plan_.kernels[k].discovery.candidates.size(); ++c)
      all.emplace_back(candidate_name(plan_, k, c), std::nullopt);
    all.insert(all.end(), std::make_move_iterator(changes.begin()), std::make_move_iterator(changes.end()));
    how_.keep(all);
  }

  List told(size_t k, std::vector<Measured> measured, size_t best) {
    const auto& candidates = plan_.kernels[k].discovery.candidates;
    const std::string call = place_of(plan_, k);
    // Those that fail last.
    const auto sort = [&](const auto& before) {
      std::sort(measured.begin(), measured.end(), [&](const Measured& a, const Measured& b) {
        if (a.failure.empty() != b.failure.empty()) return a.failure.empty();
        return before(a, b);
      });
    };
    List list = List::array();
    sort([](const Measured& a, const Measured& b) { return a.candidate < b.candidate; });
    for (const Measured& one : measured) {
      list.push_back({{"kernel", candidates[one.candidate].name}});
      if (one.failure.empty())
        list.back()["program_microseconds"] = one.time.microseconds;
      else
        list.back()["failure"] = one.failure;
    }
    TuningChanges changes;
    sort([](const Measured& a, const Measured& b) {
      return std::pair(a.time.microseconds, a.candidate) < std::pair(b.time.microseconds, b.candidate);
    });
    for (const Measured& one : measured) {
      const std::string& name = candidates[one.candidate].name;
      const Timed time = one.failure.empty() ? one.time : Timed{};
      times_.results.push_back({name, time.microseconds, time.spread, one.failure, call});
      if (one.failure.empty()) changes.emplace_back(candidate_name(plan_, k, one.candidate), time.microseconds);
    }
    unfinished_.clear();
    if (how_.keep) keep(k, std::move(changes), true);
    const std::string& picked = candidates[best].name;
    if (how_.tell)
      how_.tell(fmt::format("{}: product {} takes {}, {:.1f} us", name_, k, picked, measured[0].time.microseconds));
    List pick{{"product", k}, {"picked", picked}, {"measured", std::move(list)}};
    return pick;
  }

  plan::Plan& plan_;
  const ProductTuning& how_;
  const std::string& name_;
  ContextState& context_;
  const bool loops_;
  const bool own_;  // all kernels are Codetta's, and there are no loops: a kernel is to blame
  Trials trials_;
  TuningData data_;
  const runtime::cuda::DeviceRef device_;  // null on a CPU
  std::vector<std::pair<size_t, List>> picks_;
  List decisions_ = List::array();
  ProductTimes times_;
  std::vector<TuneResult> unfinished_;  // of the kernel that is being timed, kept so far
  double judging_ = 0;                  // seconds
  bool stopped_ = false;
  BudgetClock own_clock_;
};

}  // namespace

bool is_close(const plan::Decision& decision) {
  const double least = std::min(decision.together, decision.apart), most = std::max(decision.together, decision.apart);
  return least > 0 && most <= close_decision * least;
}

const package::CallExtern* extern_in(const plan::Plan& plan) {
  const package::CallExtern* found = nullptr;
  const auto look = [&](const package::StepList& steps) {
    for (const package::Step& step : steps) {
      if (const auto* call = std::get_if<package::CallExtern>(&step); found == nullptr) found = call;
    }
  };
  look(plan.steps);
  for (const package::StepList& list : plan.step_lists) look(list);
  return found;
}

Result<ProductTimes> tune_products(plan::Plan& plan, const ProductTuning& how, ContextState& context) {
  // How large an unbounded size becomes is known to a run alone, which says where there is too little room: its first
  // one ends so before anything is timed.
  constexpr int64_t more = 16, most_times = int64_t{1} << 20;
  for (int64_t times = 1;; times *= more) {
    CODETTA_TRY(TuningData data, TuningData::make(how.program, plan.target, how.hints, how.values, how.given, context));
    data.allow(times);
    const bool open = times < most_times && data.may_allow(times * more);
    auto found = Tuner(plan, how, std::move(data), context).run();
    const bool too_little = !found && found.error().code() == static_cast<uint16_t>(diag::Code::guard_failed);
    if (!open || !too_little) return found;
  }
}

}  // namespace codetta::driver
