// SPDX-License-Identifier: Apache-2.0
// What the builder of include/codetta/graph.hpp keeps.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "codetta/graph.hpp"
#include "frontend/build.hpp"

namespace codetta::detail {

// Of the program, or of one function of a branch or a loop.
struct GraphState {
  frontend::FunctionBuilder builder{ir::Function{}};
  std::shared_ptr<frontend::Report> report;  // shared with the functions inside
  size_t depth = 0;                          // functions around this one
  CallSite site{};                           // of the call that is under way
  // By what texts of this function call them: sizes that have another name in the program, since a function beside it
  // says the same name of a size of its own.
  std::map<std::string, std::string, std::less<>> renamed;
};

struct GraphAccess {
  // An id that is not valid: what a failed operation gives, which is taken in silence wherever it is used.
  static GraphValue make(std::shared_ptr<GraphState> state, ir::ValueId id) {
    GraphValue value;
    value.state_ = std::move(state);
    value.id_ = id.index();
    return value;
  }
  static const std::shared_ptr<GraphState>& state(const GraphValue& value) { return value.state_; }
  static ir::ValueId id(const GraphValue& value) { return ir::ValueId(value.id_); }
  static const std::shared_ptr<GraphState>& state(const ProgramBuilder& builder) { return builder.state_; }
};

}  // namespace codetta::detail

namespace codetta::frontend {

// The function that the builder describes; its source is its printed text. `at`: the call that wants it.
Result<ir::ProgramFunction> finish_program(const detail::GraphState& state, CallSite at);

}  // namespace codetta::frontend
