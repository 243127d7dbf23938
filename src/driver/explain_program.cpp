// SPDX-License-Identifier: Apache-2.0
// explain of a program: the plan that compile() would carry out, and the names that its kernels get.
#include "base/default_floats.hpp"
#include "codetta/program.hpp"
#include "driver/build_id.hpp"
#include "driver/kernel_state.hpp"
#include "driver/package_entry.hpp"
#include "driver/planned_graph.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_kernels.hpp"
#include "driver/program_state.hpp"
#include "driver/program_times.hpp"
#include "driver/workspace_report.hpp"
#include "emit/package.hpp"
#include "opt/passes.hpp"

namespace codetta {

Result<std::string> explain(const Program& program, const Target& target,
                            const std::vector<std::pair<std::string, int64_t>>& size_hints, bool json,
                            Context& context) {
  const base::DefaultFloats floats;
  const driver::ProgramState& state = *Program::Access::state(program);
  driver::ContextState& machine = *context.shared_state();
  CODETTA_TRY(const Target resolved, driver::resolve_target(machine, target));
  CODETTA_CHECK_OK(driver::check_hints(state.graph, size_hints));
  CODETTA_TRY(const ir::Graph graph, driver::graph_for(state.graph, resolved));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph, machine.debug.passes));
  const driver::TuningRecord times = driver::load_program_times(machine, state, resolved, size_hints);
  CODETTA_TRY(plan::Plan plan,
              plan::plan_program(optimized.graph, resolved, machine.machine(resolved), size_hints, state.user_sources,
                                 plan::Alignment::Hinted, state.numerics, driver::choices_of(times)));
  driver::pick_configurations(plan, size_hints, driver::load_user_tuning(machine, state.user_sources, resolved));
  driver::pick_candidates(plan, times);
  std::vector<uint32_t> kernel_of;
  CODETTA_TRY(const package::Package package,
              emit::emit_package(plan, {.name = state.function.name, .build_id = driver::build_id()}, &kernel_of));
  const plan::EmittedKernels emitted = driver::emitted_kernels(package, kernel_of);
  if (!json) return plan::explain_text(plan, state.function.name, emitted, size_hints);
  return driver::with_workspace(plan::explain_json(plan, state.function.name, emitted, size_hints), plan,
                                driver::workspace_report(plan, package, size_hints, machine));
}

}  // namespace codetta
