// SPDX-License-Identifier: Apache-2.0
#include "driver/by_rows.hpp"

#include <utility>

#include "driver/program_times.hpp"
#include "driver/size_defaults.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

namespace {

// Kernels for 512 rows take one row up to three times as long as its own, which take tens or hundreds of milliseconds
// to compile.
constexpr double least_microseconds = 20;

bool is_worth_compiling(const CompiledProgramState& state, const SizeHints& hints, const TuningRecord& times) {
  CompiledProgramState asked;
  asked.program = state.program;
  asked.context = state.context;
  asked.target = state.target;
  asked.hints = hints;
  asked.tuning = state.tuning;
  asked.times = times;
  const auto plan = plan_of(asked);
  double microseconds = 0;
  for (size_t k = 0; plan && k < plan->kernels.size(); ++k) {
    const plan::PlannedKernel& kernel = plan->kernels[k];
    if (kernel.chosen < kernel.discovery.candidates.size())
      microseconds += kernel.discovery.candidates[kernel.chosen].microseconds;
  }
  return microseconds >= least_microseconds;
}

}  // namespace

std::vector<std::string> unhinted_rows(const ProgramState& program, const SizeSets& sizes) {
  if (!sizes.axes.empty()) return {};
  return symbols_of_rows(program.graph, sizes.hints, [](const ir::GraphInput&) { return true; });
}

StateRef for_rows(const StateRef& state, const SizeHints& sizes, bool captured,
                  const std::function<StateRef(const SizeHints& hints, const TuningRecord& times)>& make) {
  const std::vector<int64_t> rows{1, 16, usual_rows};
  SizesOfRows table = sizes_of_rows(state->row_symbols, rows);
  SizeSets places;
  places.axes = std::move(table.axes);
  const int64_t own = rows[table.taken[places.pick(sizes)]];
  if (own == usual_rows) return state;
  const std::lock_guard lock(state->rows_mutex);
  auto known = state->for_rows.find(own);
  if (known == state->for_rows.end()) {
    if (captured) return state;
    SizeHints hints = state->hints;
    for (auto& hint : hints_for_rows(state->row_symbols, own)) hints.push_back(std::move(hint));
    const TuningRecord times = load_program_times(*state->context, *state->program, state->target, hints);
    StateRef others = is_worth_compiling(*state, hints, times) ? make(hints, times) : nullptr;
    known = state->for_rows.emplace(own, std::move(others)).first;
  }
  return known->second != nullptr ? known->second : state;
}

}  // namespace codetta::driver
