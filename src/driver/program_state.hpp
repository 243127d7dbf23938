// SPDX-License-Identifier: Apache-2.0
// The states behind Program and CompiledProgram.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "codetta/program.hpp"
#include "driver/context.hpp"
#include "driver/size_sets.hpp"
#include "driver/user_tuning.hpp"
#include "ir/function.hpp"
#include "ir/graph.hpp"
#include "plan/plan.hpp"

namespace codetta {

namespace driver {

struct ProgramState {
  ir::ProgramFunction function;
  ir::Graph graph;
  std::vector<plan::UserSource> user_sources{};
  Numerics numerics{};
};

struct CompiledProgramState {
  std::shared_ptr<const ProgramState> program;
  std::shared_ptr<ContextState> context;
  Target target;
  SizeHints hints;
  plan::Alignment alignment = plan::Alignment::Hinted;
  UserTuning tuning{};   // what decides configurations of the user's kernels, as it was when it was compiled
  TuningRecord times{};  // what decides other kernels, and what is one of them; likewise
  package::PackageRef package;
  std::vector<runtime::KernelEntry> entries;
  double compile_seconds = 0;
  // Compiled for several sizes: the set that a run belongs to, and by set what it takes, 0 for this state, then those
  // of `for_other_sizes`. Sets with the same kernels take one.
  SizeSets sizes{};
  std::vector<size_t> taken{};
  std::vector<std::shared_ptr<const CompiledProgramState>> for_other_sizes{};
  // Without a hint for the rows of its products (by_rows.hpp): the sizes whose product is their number, and by number
  // what a run of few takes, made when one is prepared; null: this state. Guarded by `rows_mutex`.
  std::vector<std::string> row_symbols{};
  mutable std::mutex rows_mutex{};
  mutable std::map<int64_t, std::shared_ptr<const CompiledProgramState>> for_rows{};
  // With kernels that rely on less, made when tensors turn out to be aligned less, to lie less densely, or to have no
  // elements; null: compiling is switched off, and they were not in the cache. Guarded by `less_mutex`.
  mutable std::mutex less_mutex{};
  mutable std::map<plan::Alignment, std::shared_ptr<const CompiledProgramState>> less_aligned{};
};

// Made anew; of the same program, target, machine and hints, so the same as what the package was emitted from but for
// candidates that the assembler's remarks ruled out.
Result<plan::Plan> plan_of(const CompiledProgramState& state);
// compile() for a target that is resolved, by these times instead of those that are kept. Errors: those of compile().
Result<CompiledProgram> compile_with(const Program& program, const Target& target, const SizeHints& size_hints,
                                     const UserTuning& tuning, Context& context,
                                     const std::function<void(const CompileProgress&)>& progress = {},
                                     bool fill_cache = false);

}  // namespace driver

struct Program::Access {
  static Program make(std::shared_ptr<const driver::ProgramState> state) { return Program(std::move(state)); }
  static const std::shared_ptr<const driver::ProgramState>& state(const Program& program) { return program.state_; }
};

struct CompiledProgram::Access {
  static CompiledProgram make(std::shared_ptr<const driver::CompiledProgramState> state) {
    return CompiledProgram(std::move(state));
  }
  static const driver::CompiledProgramState& state(const CompiledProgram& program) { return *program.state_; }
};

}  // namespace codetta
