// SPDX-License-Identifier: Apache-2.0
// Which candidate each product and map of a program takes, and which of its kernels are one or several, by measurement:
// of programs in process as of those that are built into a library.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "driver/build_constants.hpp"
#include "driver/context.hpp"
#include "driver/program_state.hpp"
#include "driver/stopping.hpp"
#include "driver/tuning_record.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

// What is tuned, over what, and for how long. All outlives the call.
struct ProductTuning {
  const Program& program;
  const SizeHints& hints;
  const ConstantValues& values;             // of a library
  const std::vector<NamedArgument>& given;  // parameters; others are random
  double seconds = 10;                      // of timing candidates; decisions are measured as long as no more is gone
  double trial_seconds = 60;                // of a run, where it may not end
  size_t most_candidates = 8;               // of a kernel
  bool without_choice = true;               // also kernels that have one candidate
  // The program planned with these decisions; kernels of a GPU that spill are passed over. Empty: decisions stay.
  std::function<Result<plan::Plan>(const plan::Choices&)> planned{};
  // Asked between runs; false: it ends, with what is measured. `microseconds`: of what was just timed, else 0.
  std::function<bool(const std::string& kernel, double microseconds)> goes_on{};
  BudgetClock* clock = nullptr;  // stands while the oracle computes, when `goes_on` is asked, too; null: a new one
  std::function<void(const std::string& line)> tell{};
  std::function<void(const TuningChanges& changes)> keep{};  // as soon as something is known
};

struct ProductTimes {
  std::string products;             // a list of JSON: of kernels, in the order of the plan
  std::string decisions;            // likewise, in the order in which they were measured; empty where none was
  std::vector<TuneResult> results;  // the same, each group best first; `call` says of what
  std::string note;
  bool complete = true;
};

// Decisions whose two ways the cost model expects to differ by no more than this factor are measured.
inline constexpr double close_decision = 1.5;
bool is_close(const plan::Decision& decision);

// First decisions, those of most microseconds first: `plan` becomes the faster of the two programs. Then, of each
// kernel but the user's, the largest first, `chosen` becomes the fastest candidate. Times are of the whole program;
// what wins is right by the oracle's bound (TuningData::judge). Errors: those of preparing the program, E0617 a run
// crashed, E0651 it took longer than trial_seconds; of candidates, which lose alone, where no other is left: also
// E0644.
Result<ProductTimes> tune_products(plan::Plan& plan, const ProductTuning& how, ContextState& context);

// A function of the caller's that the program calls, which tuning cannot; null: none.
const package::CallExtern* extern_in(const plan::Plan& plan);

}  // namespace codetta::driver
