// SPDX-License-Identifier: Apache-2.0
// The two parts of tune() of a program.
#pragma once

#include <vector>

#include "codetta/program.hpp"
#include "driver/size_sets.hpp"

namespace codetta::driver {

// The configurations of the kernels of the user's, each call by itself. `target` is resolved and runs here, and the
// arguments fit the program, whose symbols then are `sizes`. Errors: those of tune().
Result<TuneReport> tune_configurations_of(const Program& program, const std::vector<NamedArgument>& arguments,
                                          const Target& target, const SizeHints& sizes, const TuneOptions& options,
                                          Context& context);

// Products, maps and decisions (product_tuning.hpp), as parts of the whole program over these arguments; the times are
// kept. Where it cannot be run so, the report is empty and its note says why. Errors: those of planning and of a
// device, E0617, E0651.
Result<TuneReport> tune_whole(const Program& program, const std::vector<NamedArgument>& arguments, const Target& target,
                              const SizeHints& sizes, const TuneOptions& options, Context& context);

}  // namespace codetta::driver
