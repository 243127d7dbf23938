// SPDX-License-Identifier: Apache-2.0
// The kernel that a reproducer is asked for, by its name or a part of it.
#pragma once

#include <cstdint>

#include "codetta/reproducer.hpp"
#include "driver/build_plan.hpp"
#include "driver/size_sets.hpp"

namespace codetta::driver {

struct NamedKernel {
  LibraryPlan planned;  // in which the program is
  size_t program = 0;   // of planned.host.programs
  uint32_t kernel = 0;  // of the program's package
  SizeHints sizes;      // of all symbols of the program, for its tensors
};

// Looked for among the kernels for options.sizes, those whose results a checked run keeps, and those of the table that
// a library or run with options.size_hints, or without hints, has. Where the name is only in that table and no size is
// given, the tensors have sizes for which the kernel is there; else 16. Errors: E0209 (none, or several), E0210, E0602,
// E0703, those of plan_library().
Result<NamedKernel> find_kernel(const Program& program, const Target& target, const ReproducerOptions& options,
                                ContextState& context);

}  // namespace codetta::driver
