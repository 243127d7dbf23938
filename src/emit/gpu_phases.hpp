// SPDX-License-Identifier: Apache-2.0
// What the printers of all GPU dialects ask of the phases of a program.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "emit/phase_printer.hpp"
#include "package/epilogue_program.hpp"

namespace codetta::emit {

// Whether later phases read accumulators, which phase 0 then writes to memory.
bool keeps_accumulators(const package::EpilogueProgram& program);
// Adds that to phase 0; `accumulator`: the text of a part's.
void keep_accumulators(const package::EpilogueProgram& program, const std::function<std::string(uint32_t)>& accumulator,
                       PhaseText& phase);

// Whether a later phase stores results of reductions as they are and does nothing else: what combines them does that,
// where it is a kernel of its own.
bool only_stores_results(const package::EpilogueProgram& program, uint32_t phase);
// Of such phases: the output that takes each reduction's results from where they are combined.
std::vector<std::optional<uint32_t>> combined_outputs(const package::EpilogueProgram& program);

}  // namespace codetta::emit
