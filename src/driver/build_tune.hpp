// SPDX-License-Identifier: Apache-2.0
// Tuning while a library is built: which candidate each product of a program takes, by measurement.
#pragma once

#include <functional>
#include <string>

#include "codetta/build.hpp"
#include "driver/build_constants.hpp"
#include "driver/context.hpp"
#include "driver/package_entry.hpp"
#include "driver/program_state.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

inline constexpr int64_t unknown_size = 512;  // of symbols without a hint, as plan_program() takes them

bool is_cancelled(const ContextState& context);
Error tuning_cancelled(const std::string& name);  // E0510

// Random elements of a program's parameter, row-major: weights so that sums of products are of the size of what they
// multiply (behind several products a softmax would see nothing but 0 and 1 otherwise), indices in range.
void fill_input(const TensorView& view, uint64_t seed, const ProgramInput& input);

// Sets `chosen` of every product to the fastest of its candidates that run here, on random data of the hinted sizes
// (512 where there is no hint), and with constants packed as the library will have them; before that, where `planned`
// gives the program with other decisions, `plan` becomes what is faster so (tune_products). Returns what was measured
// and picked, as JSON. Errors: those of preparing the program, E0403 where the target does not run here, E0510
// cancelled, E0616 it calls functions of the caller's, E0617 a run crashed, E0651 it took longer than
// options.trial_seconds; of candidates, which lose alone, where no other is left: also E0644.
Result<std::string> tune_plan(plan::Plan& plan, const Program& program, const SizeHints& hints,
                              const ConstantValues& values, const BuildOptions& options, ContextState& context,
                              const std::function<Result<plan::Plan>(const plan::Choices&)>& planned = {});

// The same for the configurations of the kernels of the user's, which tune_plan() leaves as they are: each call by
// itself, as tune() of a program does it, on random data of the hinted sizes; the times are kept, too. Empty: none has
// several. Errors: those of tune(), E0510.
Result<std::string> tune_configurations(plan::Plan& plan, const Program& program, const SizeHints& hints,
                                        const BuildOptions& options, Context& context);

}  // namespace codetta::driver
