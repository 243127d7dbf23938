// SPDX-License-Identifier: Apache-2.0
// Discovery: arguments to ranked kernels.
#include <algorithm>

#include <fmt/format.h>

#include "driver/kernel_state.hpp"
#include "driver/tuning_record.hpp"

namespace codetta {

Result<KernelList> find_kernels(const GemmArguments& arguments, const Target& target, const DiscoveryOptions& options,
                                Context& context) {
  auto found = std::make_shared<driver::FoundState>();
  if (target.backend != Backend::cpu) {
    return diag::error(diag::Code::target_without_families,
                       fmt::format("no kernels for target {} in this version", target.to_string()))
        .reason("only CPU targets have kernel families")
        .help("use cpu, or cpu:<isa>");
  }
  found->context = context.shared_state();
  found->target = target;
  found->strict = arguments.strict;
  CODETTA_TRY(found->problem, driver::make_problem(arguments));
  const driver::Problem& problem = found->problem;
  const driver::DebugSwitches& debug = found->context->debug;
  for (const opt::PassRecord& pass : problem.passes) {
    if (debug.time_passes)
      found->context->log(
          fmt::format("{}: {:.1f} us{}", pass.name, pass.microseconds, pass.changed ? "" : " (unchanged)"));
    for (const opt::Fired& fired : pass.fired) {
      if (debug.explain_fusion)
        found->context->log(fmt::format("{}: {} ({} times)", pass.name, fired.equation, fired.count));
    }
  }
  if (debug.dump_graph) found->context->log(ir::print(problem.graph));
  CODETTA_TRY(found->plan, plan::plan_gemm(problem.graph, problem.shape, problem.layouts, target,
                                           found->context->machine(target.isa)));
  if (debug.dump_plan) found->context->log(plan::to_string(found->plan));

  const plan::Discovery& discovery = found->plan.kernels[0].discovery;
  const driver::TuningRecord record = driver::load_tuning(*found->context, *found);
  KernelList list;
  for (size_t i = 0; i < discovery.candidates.size(); ++i) {
    auto state = std::make_shared<driver::KernelState>();
    state->found = found;
    state->candidate = i;
    state->metadata = driver::describe(discovery.candidates[i], target);
    if (const double* measured = record.find(state->metadata.name)) {
      state->metadata.tuned = true;
      state->metadata.measured_us = *measured;
    }
    if (options.filter && !options.filter(state->metadata)) {
      list.rejections_.push_back(
          {static_cast<uint16_t>(diag::Code::filtered_out), state->metadata.name, "the caller's filter refuses it"});
      continue;
    }
    list.kernels_.push_back(driver::KernelState::make(std::move(state)));
  }
  // Measured kernels first, by time; the others keep the model's order.
  std::stable_sort(list.kernels_.begin(), list.kernels_.end(), [](const Kernel& x, const Kernel& y) {
    const KernelMetadata &a = x.metadata(), &b = y.metadata();
    if (a.tuned != b.tuned) return a.tuned;
    return a.tuned && a.measured_us < b.measured_us;
  });
  if (list.kernels_.size() > options.max_candidates) {
    const auto dropped = list.kernels_.size() - options.max_candidates;
    list.kernels_.resize(options.max_candidates);
    list.rejections_.push_back(
        {static_cast<uint16_t>(diag::Code::ranked_out), "",
         fmt::format("{} more candidates rank behind the {} that were asked for", dropped, options.max_candidates)});
  }
  for (const plan::Rejection& rejection : discovery.rejections) list.rejections_.push_back(driver::describe(rejection));
  return list;
}

}  // namespace codetta
