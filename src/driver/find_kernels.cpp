// SPDX-License-Identifier: Apache-2.0
// Discovery: arguments to ranked kernels.
#include <algorithm>

#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "base/digest.hpp"
#include "driver/build_id.hpp"
#include "driver/fusion.hpp"
#include "driver/kernel_state.hpp"
#include "driver/package_entry.hpp"
#include "driver/tuning_record.hpp"
#include "driver/verification.hpp"
#include "emit/package.hpp"
#include "plan/families_metal.hpp"
#include "runtime/checks.hpp"
#include "types/machine.hpp"

namespace codetta {
namespace driver {
namespace {

Result<Planned> make_plan(const FoundState& found) {
  const Problem& problem = found.problem;
  ContextState& context = *found.context;
  CODETTA_TRY(opt::Optimized optimized, optimize_problem(problem, context.debug.passes));
  Planned planned{std::move(optimized.graph), std::move(optimized.passes), {}};
  const DebugSwitches& debug = context.debug;
  if (debug.time_passes) {
    for (const opt::PassRecord& pass : planned.passes) context.log(time_line(pass));
  }
  if (debug.dump_graph) context.log(ir::print(planned.graph));
  plan::MachineFacts machine = context.machine(found.target);
  if (found.target.backend == Backend::cuda)
    machine.gpu.vendor = context.cuda.vendor().menu(found.target, problem.strict);
  CODETTA_TRY(planned.plan,
              plan::plan_gemm(planned.graph, problem.shape, problem.layouts, found.target, machine, found.breadth));
  if (debug.explain_fusion) {
    for (const std::string& line : fusion_lines(planned.passes, planned.plan.kernels[0])) context.log(line);
  }
  if (debug.dump_plan) context.log(plan::to_string(planned.plan));
  if (debug.dump_memory) context.log(plan::memory_text(planned.plan));
  return planned;
}

}  // namespace

Result<void> check_target(const Target& target) {
  if (target.backend > Backend::cutlass) {
    return diag::error(diag::Code::target_unknown,
                       fmt::format("backend number {} does not exist", static_cast<int>(target.backend)))
        .reason(fmt::format("they are numbered 0 to {}", static_cast<int>(Backend::cutlass)))
        .help("pass one of the enum codetta::Backend, or what Target::parse gives");
  }
  if (target.backend == Backend::cpu && static_cast<size_t>(target.isa) >= types::all_isas().size()) {
    return diag::error(diag::Code::target_architecture,
                       fmt::format("instruction set number {} does not exist", static_cast<int>(target.isa)))
        .reason(fmt::format("they are numbered 0 to {}", types::all_isas().size() - 1))
        .help("pass one of the enum codetta::CpuIsa, or what Target::parse or Target::host gives");
  }
  return {};
}

Result<Target> resolve_target(ContextState& context, const Target& target) {
  CODETTA_CHECK_OK(check_target(target));
  if (target.backend == Backend::cpu) return target;
  if (target.backend == Backend::cuda) return context.cuda.gpu().resolve(target);
  if (target.backend == Backend::metal) {
    Target resolved = target;
    if (resolved.arch.empty()) resolved.arch = plan::default_metal_family;
    return resolved;
  }
  if (target.backend == Backend::hip) return context.hip.resolve(target);
  return diag::error(diag::Code::target_without_families,
                     fmt::format("no kernels for target {} in this version", target.to_string()))
      .reason("cpu, cuda, hip and metal have kernel families")
      .help("use cpu, cpu:<isa>, cuda, cuda:<architecture>, hip, hip:<architecture> or metal:<family>");
}

Result<const Planned*> FoundState::planned() const {
  const std::lock_guard lock(mutex_);
  if (!planned_) planned_ = make_plan(*this);
  if (!*planned_) return planned_->error();
  return &**planned_;
}

Result<package::PackageRef> FoundState::when_empty() const {
  CODETTA_TRY(const Planned* whole, planned());
  const std::lock_guard lock(mutex_);
  if (when_empty_) return when_empty_;
  CODETTA_TRY(const plan::Plan plan,
              plan::plan_program(whole->graph, target, context->machine(target), {}, {}, plan::Alignment::Empty));
  CODETTA_TRY(package::Package made,
              emit::emit_package(plan, {.strict = problem.strict, .name = "when_empty", .build_id = build_id()}));
  when_empty_ = std::make_shared<const package::Package>(std::move(made));
  return when_empty_;
}

}  // namespace driver

Result<Target> emission_target(const Target& target, Context& context) {
  driver::ContextState& state = *context.shared_state();
  auto resolved = driver::resolve_target(state, target);
  if (resolved || !driver::runs_on_gpu(target) || state.options.device != 0) return resolved;
  const auto code = static_cast<diag::Code>(resolved.error().code());
  const bool none = code == diag::Code::driver_missing || code == diag::Code::driver_old ||
                    code == diag::Code::hip_runtime || code == diag::Code::device_missing;
  if (!none) return resolved;
  Target assumed = target;
  assumed.arch = target.backend == Backend::hip ? "gfx942" : "sm_90a";  // whose kernels are the fastest measured
  return assumed;
}

Result<KernelList> find_kernels(const GemmArguments& arguments, const Target& target, const DiscoveryOptions& options,
                                Context& context) {
  const base::DefaultFloats floats;
  auto found = std::make_shared<driver::FoundState>();
  found->context = context.shared_state();
  CODETTA_TRY(found->target, driver::resolve_target(*found->context, target));
  CODETTA_TRY(found->problem, driver::make_problem(arguments));
  // What every run refuses, whatever the kernel.
  for (const ir::GraphOutput& output : found->problem.bound.outputs()) {
    const auto bound = found->problem.tensors.find(output.name);
    if (bound == found->problem.tensors.end()) continue;
    if (const auto written = runtime::check_output(output.name, bound->second); !written)
      return driver::placed(written.error(), *found->problem.function);
  }
  const driver::TuningRecord record = driver::load_tuning(*found);
  if (!record.medians.empty()) found->tuning = base::digest_of(driver::encode_tuning(record)).hex();
  found->breadth.all = options.all;
  for (const auto& [name, microseconds] : record.medians) found->breadth.also.push_back(name);

  auto ranking = std::make_shared<driver::Ranking>();
  // Hundreds of kernels are not kept beside the first one's package.
  auto kept = options.all ? std::nullopt : driver::find_package(*found, std::nullopt);
  if (kept) {
    *ranking = std::move(kept->ranking);
  } else {
    CODETTA_TRY(const driver::Planned* planned, found->planned());
    const plan::Discovery& discovery = planned->plan.kernels[0].discovery;
    for (const plan::Candidate& candidate : discovery.candidates) {
      ranking->kernels.push_back(driver::describe(candidate, found->target));
      if (const auto* vendor = std::get_if<package::CudaVendorConfig>(&candidate.config))
        ranking->kernels.back().workspace_bytes = vendor->workspace;
      if (found->target.backend != Backend::cpu) continue;
      ranking->kernels.back().workspace_bytes =
          driver::workspace_bytes(candidate, planned->plan.kernels[0].lowered.program, *found);
    }
    for (const plan::Rejection& rejection : discovery.rejections)
      ranking->rejections.push_back(driver::describe(rejection));
  }

  std::vector<std::shared_ptr<driver::KernelState>> states;
  for (size_t i = 0; i < ranking->kernels.size(); ++i) {
    auto state = std::make_shared<driver::KernelState>();
    state->found = found;
    state->candidate = i;
    state->metadata = ranking->kernels[i];
    if (const double* measured = record.find(state->metadata.name)) {
      state->metadata.tuned = true;
      state->metadata.measured_us = *measured;
    }
    states.push_back(std::move(state));
  }
  // Measured kernels first, by time; the others keep the model's order.
  std::stable_sort(states.begin(), states.end(), [](const auto& x, const auto& y) {
    const KernelMetadata &a = x->metadata, &b = y->metadata;
    if (a.tuned != b.tuned) return a.tuned;
    return a.tuned && a.measured_us < b.measured_us;
  });
  if (!states.empty() && !options.all) states[0]->ranking = ranking;
  if (kept && !states.empty() && states[0]->candidate == kept->candidate) {
    states[0]->set_package(std::make_shared<const package::Package>(std::move(kept->package)));
  }

  std::vector<Kernel> kernels;
  std::vector<Rejection> rejections;
  for (auto& state : states) {
    if (options.filter && !options.filter(state->metadata)) {
      rejections.push_back(
          {static_cast<uint16_t>(diag::Code::filtered_out), state->metadata.name, "the caller's filter refuses it"});
      continue;
    }
    kernels.push_back(driver::KernelState::make(std::move(state)));
  }
  if (!options.all && kernels.size() > options.max_candidates) {
    const auto dropped = kernels.size() - options.max_candidates;
    kernels.resize(options.max_candidates);
    rejections.push_back(
        {static_cast<uint16_t>(diag::Code::ranked_out),
         "",
         fmt::format("{} more candidates rank behind the {} that were asked for", dropped, options.max_candidates),
         {{"candidates", static_cast<int64_t>(kernels.size() + dropped),
           static_cast<int64_t>(std::min<size_t>(options.max_candidates, INT64_MAX))}}});
  }
  rejections.insert(rejections.end(), ranking->rejections.begin(), ranking->rejections.end());
  return KernelList(std::move(kernels), std::move(rejections));
}

}  // namespace codetta
