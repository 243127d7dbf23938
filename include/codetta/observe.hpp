// SPDX-License-Identifier: Apache-2.0
// Watching a program run, step by step: what each step wrote, which lines of the text it stands for, how long it took;
// ready-made observers for the usual questions. Of programs on CPUs and GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codetta/program.hpp"

namespace codetta {

// What the elements of a tensor are, seen as numbers. `least`, `greatest` and `mean` are over the finite ones, and 0
// where there is none.
struct ValueStatistics {
  int64_t elements = 0;
  int64_t nans = 0, infinities = 0, zeros = 0;
  double least = 0, greatest = 0, mean = 0;
};
// Of host memory, any strides. Thread safe.
CODETTA_API ValueStatistics statistics(const TensorView& values);
// Of what the step has written of it.
CODETTA_API ValueStatistics statistics(const StepRecord::Value& value);

// An observer that ends the run with E0619 at the first step that writes a NaN, or with `infinities` an infinity, into
// a tensor of floats: the message has the step, its lines of the text, and the element. `next` is told of each step
// that passes.
CODETTA_API StepObserver trap_numbers(bool infinities = false, StepObserver next = {});

// Copies of what call_extern and user_kernel left in a run, for VerifyOptions::given and BisectOptions::given.
struct KeptResults {
  std::vector<GivenResults> calls;  // into `memory`
  std::vector<Tensor> memory;
};
// An observer that adds to `into`, which must live as long as it, and tells `next`. Calls whose results are not in
// memory are left out. Looks at Observed::results. Errors: E0606.
CODETTA_API StepObserver keep_results(KeptResults& into, StepObserver next = {});

// The steps as a document of the Trace Event Format (JSON), which chrome://tracing and Perfetto show. Views are not
// looked at (Observed::steps); on a GPU a step lasts from where it is enqueued to where it has been waited for.
CODETTA_API std::string chrome_trace(std::span<const StepRecord> steps, const std::string& program);

// ---- finding the step that goes wrong

struct BisectOptions {
  uint64_t seed = 1;  // of the rows and columns that are compared of a large program
  RunOptions run{};   // its observer, which sees all values, is called before those of a step are compared
  // Of programs that call code of the caller's: what it computed in a run with equal arguments (keep_results), which
  // the oracle takes as right. Without it, and for what is called several times: E0311.
  std::vector<GivenResults> given{};
};
// A step of the run, compared with the oracle.
struct BisectedStep {
  StepRecord step;                  // its views are empty
  std::vector<OutputCheck> values;  // of what it wrote and the oracle could say; by the names of the record's values
  std::string unchecked;            // why nothing of it was compared; empty when something was
  // Of the loops that it is in, from the outermost in: the turn, of which the first is 1.
  std::vector<int64_t> turns{};
  bool wrong = false;
};
struct BisectReport {
  // The first pass over the graph behind which the oracle no longer admits what it admitted before: a mistake of
  // Codetta's. Empty: there is none.
  std::string pass;
  std::vector<BisectedStep> steps;  // in the order of the run
  int64_t first_wrong = -1;         // into `steps`; what went wrong lies there, or behind the last right one before it
  std::string text;                 // for people
};
// Runs the program once and compares what each step leaves in memory, temporaries too, with the oracle's value of the
// same operation; and the graphs before and after each pass with each other. The outputs among the arguments are
// written. A step of a branch or of a turn of a loop is compared with what it should make of that which the run had
// there when the branch or turn began. Calls and writes at indices are told but not compared. For a GPU the tensors are
// those of its memory; all work on them is waited for. Errors: those of compile(), prepare() and run();
// E0221 (given results of another shape), E0311 (code of the caller's without given results), E0606 (too large for the
// oracle); for a GPU E064x.
CODETTA_API Result<BisectReport> bisect(const Program& program, const std::vector<NamedArgument>& arguments,
                                        const Target& target,
                                        const std::vector<std::pair<std::string, int64_t>>& size_hints = {},
                                        const BisectOptions& options = {},
                                        Context& context = Context::process_default());

}  // namespace codetta
