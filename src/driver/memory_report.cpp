// SPDX-License-Identifier: Apache-2.0
// memory_report of programs and kernels.
#include "codetta/memory.hpp"

#include "base/default_floats.hpp"
#include "driver/kernel_state.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_state.hpp"
#include "driver/program_times.hpp"
#include "driver/size_sets.hpp"
#include "driver/workspace_report.hpp"

namespace codetta {

Result<std::string> memory_report(const Program& program, const Target& target,
                                  const std::vector<std::pair<std::string, int64_t>>& size_hints, bool json,
                                  Context& context) {
  const base::DefaultFloats floats;
  driver::CompiledProgramState planned;
  planned.program = Program::Access::state(program);
  planned.context = context.shared_state();
  CODETTA_CHECK_OK(driver::check_hints(planned.program->graph, size_hints, driver::Hinted::ForSeveralSizes));
  CODETTA_TRY(planned.target, driver::resolve_target(*planned.context, target));
  CODETTA_TRY(const driver::SizeSets sizes, driver::size_sets(size_hints));
  planned.hints = sizes.sets.front();
  planned.tuning = driver::load_user_tuning(*planned.context, planned.program->user_sources, planned.target);
  planned.times = driver::load_program_times(*planned.context, *planned.program, planned.target, planned.hints);
  CODETTA_TRY(const plan::Plan plan, driver::plan_of(planned));
  CODETTA_TRY(const driver::WorkspaceReport report,
              driver::workspace_report(plan, planned.program->function.name, planned.hints, *planned.context));
  return json ? driver::memory_json(plan, report) : driver::memory_text(plan, report);
}

Result<std::string> memory_report(const Kernel& kernel, bool json) {
  const base::DefaultFloats floats;
  if (kernel.metadata().name.empty()) return driver::nothing_held("kernel", "find_kernels");
  const driver::KernelState& state = driver::KernelState::of(kernel);
  CODETTA_TRY(const driver::Planned* planned, state.found->planned());
  CODETTA_TRY(const package::PackageRef package, state.package());
  // Of these tensors.
  const driver::Problem& problem = state.found->problem;
  driver::SizeHints sizes;
  for (const package::Step& step : package->steps) {
    const auto* symbol = std::get_if<package::DefineSymbol>(&step);
    if (symbol == nullptr || symbol->from != package::DefineSymbol::From::Size) continue;
    const std::string& name = package->buffers[symbol->buffer].name;
    const auto bound = problem.tensors.find(name);
    const TensorView* view = bound != problem.tensors.end() ? &bound->second
                             : name == "A"                  ? &problem.a
                             : name == "B"                  ? &problem.b
                                                            : nullptr;
    if (view != nullptr && symbol->dim < view->rank()) sizes.emplace_back(symbol->symbol, view->size(symbol->dim));
  }
  driver::WorkspaceReport report = driver::workspace_report(planned->plan, *package, sizes, *state.found->context);
  report.symbolic = false;
  return json ? driver::memory_json(planned->plan, report) : driver::memory_text(planned->plan, report);
}

}  // namespace codetta
