// SPDX-License-Identifier: Apache-2.0
// The state behind Program.
#pragma once

#include <memory>

#include "codetta/program.hpp"
#include "ir/function.hpp"
#include "ir/graph.hpp"
#include "plan/plan.hpp"

namespace codetta {

namespace driver {

struct ProgramState {
  ir::ProgramFunction function;
  ir::Graph graph;
  std::vector<plan::UserSource> user_sources{};
};

}  // namespace driver

struct Program::Access {
  static Program make(std::shared_ptr<const driver::ProgramState> state) { return Program(std::move(state)); }
  static const std::shared_ptr<const driver::ProgramState>& state(const Program& program) { return program.state_; }
};

}  // namespace codetta
