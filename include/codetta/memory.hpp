// SPDX-License-Identifier: Apache-2.0
// What a run takes beside the caller's tensors.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codetta/kernel.hpp"
#include "codetta/program.hpp"

namespace codetta {

// What `emit(Stage::Memory)` says, and with `json` the same as an object (docs/command.md): where the temporaries of a
// run lie and when, their bounds, what each launch needs while it runs (slices of split sums, packed factors, kept
// accumulators, counters), and what Execution::workspace_size() comes to. Planned and emitted, not compiled; the target
// need not be there. Bytes are those of `size_hints`, 512 for a size without one. Errors: those of explain().
CODETTA_API Result<std::string> memory_report(const Program& program, const Target& target,
                                              const std::vector<std::pair<std::string, int64_t>>& size_hints = {},
                                              bool json = false, Context& context = Context::process_default());
// Of a kernel, for the arguments that found it. Errors: those of emit().
CODETTA_API Result<std::string> memory_report(const Kernel& kernel, bool json = false);

}  // namespace codetta
