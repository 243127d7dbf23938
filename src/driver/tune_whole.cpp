// SPDX-License-Identifier: Apache-2.0
// tune of a program: its own kernels' configurations, then what it is made of.
#include "driver/tune_whole.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "driver/build_plan.hpp"
#include "driver/kernel_state.hpp"
#include "driver/planned_graph.hpp"
#include "driver/product_tuning.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_state.hpp"
#include "driver/program_times.hpp"
#include "opt/passes.hpp"

namespace codetta {
namespace driver {

namespace {

constexpr size_t most_candidates = 8;  // of a kernel, each of which is a program that is there at the same time

// Times of kernels and decisions that the plan no longer has.
TuningChanges gone(const TuningRecord& record, const plan::Plan& plan) {
  TuningChanges changes;
  std::vector<std::string> labels;
  for (size_t k = 0; k < plan.kernels.size(); ++k) labels.push_back(kernel_label(plan, k));
  const auto is_there = [&](const std::string& name) {
    if (std::any_of(labels.begin(), labels.end(), [&](const auto& label) { return name.starts_with(label + ": "); }))
      return true;
    return std::any_of(plan.decisions.begin(), plan.decisions.end(), [&](const plan::Decision& decision) {
      return name == answer_name(decision.key, false) || name == answer_name(decision.key, true);
    });
  };
  for (const auto& [name, microseconds] : record.medians) {
    if (!is_there(name)) changes.emplace_back(name, std::nullopt);
  }
  return changes;
}

}  // namespace

Result<TuneReport> tune_whole(const Program& program, const std::vector<NamedArgument>& arguments, const Target& target,
                              const SizeHints& sizes, const TuneOptions& options, Context& context) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto gone_by = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  BudgetClock clock;  // stands while the oracle computes
  ContextState& state = *context.shared_state();
  const ProgramState& made = *Program::Access::state(program);
  const std::string& name = made.function.name;
  TuneReport report;
  CODETTA_TRY(const ir::Graph graph, graph_for(made.graph, target));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph, state.debug.passes));
  const UserTuning configurations = load_user_tuning(state, made.user_sources, target);
  const TuningRecord former = load_program_times(state, made, target, sizes);
  const BuildOptions quiet;
  const auto planned = [&](const plan::Choices& choices) -> Result<plan::Plan> {
    CODETTA_TRY(plan::Plan plan,
                plan::plan_program(optimized.graph, target, state.machine(target), sizes, made.user_sources,
                                   plan::Alignment::Hinted, made.numerics, choices));
    pick_configurations(plan, sizes, configurations);
    CODETTA_CHECK_OK(pass_over(plan, name, state, quiet));
    pick_candidates(plan, former);  // so that the two ways of a decision differ by nothing else
    return plan;
  };
  CODETTA_TRY(plan::Plan plan, planned(choices_of(former)));
  const auto not_so = [&](std::string why) {
    report.note = std::move(why);
    report.complete = true;
    report.seconds = gone_by();
    return report;
  };
  if (const package::CallExtern* call = extern_in(plan))
    return not_so(fmt::format("its products are not timed: it calls {}, which is given to runs alone", call->name));
  if (std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const package::Buffer& one) { return one.device != 0; }))
    return not_so("its products are not timed: it is for several devices");
  const auto has_choice = [&](const plan::PlannedKernel& kernel) {
    return !kernel.user && std::min(kernel.discovery.candidates.size(), options.max_candidates) > 1;
  };
  if (std::none_of(plan.kernels.begin(), plan.kernels.end(), has_choice) &&
      std::none_of(plan.decisions.begin(), plan.decisions.end(), is_close))
    return not_so({});

  TuneProgress progress;
  for (const plan::PlannedKernel& kernel : plan.kernels) {
    if (has_choice(kernel))
      progress.total += std::min({kernel.discovery.candidates.size(), options.max_candidates, most_candidates});
  }
  const ConstantValues none;
  ProductTuning how{program, sizes, none, arguments};
  how.seconds = options.budget_seconds / 2;
  how.trial_seconds = options.trial_seconds > 0 ? options.trial_seconds : 10;
  how.without_choice = false;
  how.most_candidates = std::min(options.max_candidates, most_candidates);
  how.planned = planned;
  how.goes_on = [&](const std::string& kernel, double microseconds) {
    progress.kernel = kernel;
    progress.microseconds = microseconds;
    if (microseconds > 0) {
      progress.done = std::min(progress.done + 1, progress.total);
      if (progress.best.empty() || microseconds < progress.best_microseconds) {
        progress.best = kernel;
        progress.best_microseconds = microseconds;
      }
    }
    return (!options.progress || options.progress(progress)) && clock.gone() < options.budget_seconds;
  };
  how.clock = &clock;
  how.keep = [&](const TuningChanges& changes) { keep_program_times(state, made, target, sizes, changes); };
  auto times = tune_products(plan, how, state);
  if (!times && times.error().code() == static_cast<uint16_t>(diag::Code::guard_failed)) {
    // Kernels of other forms serve such tensors; those that are compiled for the sizes do not.
    return not_so(fmt::format("its products are not timed: {}", diag::sentence(times.error())));
  }
  if (!times) return times.error();
  if (times->complete)
    keep_program_times(state, made, target, sizes, gone(load_program_times(state, made, target, sizes), plan));
  report.results = std::move(times->results);
  report.note = std::move(times->note);
  report.complete = times->complete;
  report.seconds = gone_by();
  return report;
}

}  // namespace driver

Result<TuneReport> tune(const Program& program, const std::vector<NamedArgument>& arguments, const Target& target,
                        const TuneOptions& options, Context& context) {
  const base::DefaultFloats floats;
  CODETTA_CHECK_OK(driver::check_tune_options(options));
  driver::ContextState& state = *context.shared_state();
  CODETTA_TRY(const Target resolved, driver::resolve_target(state, target));
  CODETTA_CHECK_OK(state.check_runs(resolved));
  CODETTA_TRY(const ProgramShapes shapes, program.shapes(arguments));
  const driver::ProgramState& made = *Program::Access::state(program);
  if (const auto fit = driver::check_numbers(made.graph, arguments); !fit)
    return driver::placed(fit.error(), made.function);
  CODETTA_TRY(TuneReport report,
              driver::tune_configurations_of(program, arguments, resolved, shapes.symbols, options, context));
  if (!report.complete) return report;
  TuneOptions rest = options;
  rest.budget_seconds = options.budget_seconds - report.seconds;
  if (!(rest.budget_seconds > 0)) {
    report.complete = false;
    return report;
  }
  auto whole = driver::tune_whole(program, arguments, resolved, shapes.symbols, rest, context);
  if (!whole) {
    const bool lost = whole.error().code() == static_cast<uint16_t>(diag::Code::device_failed);
    if (lost || report.results.empty()) return driver::placed(whole.error(), made.function);
    report.note += (report.note.empty() ? "" : "; ") +
                   fmt::format("its products are not timed: {}", diag::sentence(whole.error()));
    return report;
  }
  // That there is nothing of its own to choose from is no news where there is something else.
  if (report.results.empty() && (!whole->results.empty() || !whole->complete)) report.note.clear();
  if (!whole->note.empty()) report.note += (report.note.empty() ? "" : "; ") + whole->note;
  report.results.insert(report.results.end(), std::make_move_iterator(whole->results.begin()),
                        std::make_move_iterator(whole->results.end()));
  report.complete = whole->complete;
  report.seconds += whole->seconds;
  return report;
}

}  // namespace codetta
