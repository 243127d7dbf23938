// SPDX-License-Identifier: Apache-2.0
// Configurations of kernels of the user's: what is kept of their times, and which one a plan takes by that. One cache
// entry a source, target, machine, compiler and build of this library, with a time for each configuration and each
// call's types and sizes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "driver/size_sets.hpp"
#include "driver/tuning_record.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

// By function. Read once by what compiles: a key, a plan and what is planned again later take the same.
using UserTuning = std::map<std::string, TuningRecord>;

// "running_sums(f32[128, 24], f32) -> f32[128, 24]": what a time is of, with what `sizes` says of symbols, 512 for
// others, as plan_program() takes them. Behind it ", strict" where the program is, and the kernel hands a result over:
// what it does with the elements is compiled otherwise then.
std::string call_of(const plan::PlannedKernel& kernel, const SizeHints& sizes, bool strict);
// What the record calls the time of a configuration: "ROWS=4, COLS=32 of running_sums(...) -> ...".
std::string measured_name(const plan::UserConfiguration& configuration, const std::string& call);

// Empty where nothing was kept, or the target is a GPU that is not there.
TuningRecord load_user_record(ContextState& context, const plan::UserSource& source, const Target& target);
// Other times of the source, of other sizes and by other processes, stay.
void keep_user_times(ContextState& context, const plan::UserSource& source, const Target& target,
                     const TuningChanges& changes);
// Those of sources that have several configurations, and of which something is kept.
UserTuning load_user_tuning(ContextState& context, const std::vector<plan::UserSource>& sources, const Target& target);
// What a package's key says of it.
std::string to_string(const UserTuning& tuning);

// Every kernel of the user's takes the configuration that was measured to be fastest for its types and sizes; where
// none was, the first of its source stays. The times stand with the candidates.
void pick_configurations(plan::Plan& plan, const SizeHints& sizes, const UserTuning& tuning);

}  // namespace codetta::driver
