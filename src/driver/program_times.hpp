// SPDX-License-Identifier: Apache-2.0
// What tuning has measured of a program's products, maps and decisions: kept in one cache entry a program, sizes,
// target, machine, compiler and build of this library, and taken by what plans the program for these sizes.
#pragma once

#include <string>

#include "driver/program_state.hpp"
#include "driver/size_sets.hpp"
#include "driver/tuning_record.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

// Empty where nothing was kept, or the target is a GPU that is not there.
TuningRecord load_program_times(ContextState& context, const ProgramState& program, const Target& target,
                                const SizeHints& sizes);
// Other times of the program stay.
void keep_program_times(ContextState& context, const ProgramState& program, const Target& target,
                        const SizeHints& sizes, const TuningChanges& changes);

// What the record calls a kernel of a plan, and the time of a candidate of it or of an answer to a question:
// "kernel 3 %12 1f09ab37", by number, product and a digest of what it computes; "kernel 3 %12 1f09ab37:
// cpu_packed_6x64_avx512", "decision factors %12: apart".
std::string kernel_label(const plan::Plan& plan, size_t kernel);
std::string candidate_name(const plan::Plan& plan, size_t kernel, size_t candidate);
std::string answer_name(const std::string& decision, bool apart);

// The faster way of each decision that was measured.
plan::Choices choices_of(const TuningRecord& record);
// Every kernel but the user's takes the candidate that was measured to be fastest; where none was, the ranking stays.
// The times stand with the candidates.
void pick_candidates(plan::Plan& plan, const TuningRecord& record);

}  // namespace codetta::driver
