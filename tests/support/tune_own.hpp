// SPDX-License-Identifier: Apache-2.0
// The part of tune() of a program that times the configurations of its own kernels, without what the program is made
// of.
#pragma once

#include "driver/kernel_state.hpp"
#include "driver/tune_whole.hpp"

namespace codetta::test {

inline Result<TuneReport> tune_own(const Program& program, const std::vector<NamedArgument>& arguments,
                                   const Target& target, const TuneOptions& options, Context& context) {
  auto resolved = driver::resolve_target(*context.shared_state(), target);
  if (!resolved) return std::move(resolved).error();
  const auto shapes = program.shapes(arguments);
  if (!shapes) return shapes.error();
  return driver::tune_configurations_of(program, arguments, *resolved, shapes->symbols, options, context);
}

}  // namespace codetta::test
