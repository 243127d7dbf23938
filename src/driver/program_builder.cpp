// SPDX-License-Identifier: Apache-2.0
// What include/codetta/graph.hpp builds as a Program.
#include "base/default_floats.hpp"
#include "driver/program_state.hpp"
#include "frontend/graph_state.hpp"
#include "ir/bind.hpp"

namespace codetta {

Result<Program> ProgramBuilder::finish(CallSite at) const {
  const base::DefaultFloats floats;
  auto state = std::make_shared<driver::ProgramState>();
  CODETTA_TRY(state->function, frontend::finish_program(*detail::GraphAccess::state(*this), at));
  CODETTA_TRY(state->graph, ir::bind_program(state->function));
  return Program::Access::make(std::move(state));
}

}  // namespace codetta
