// SPDX-License-Identifier: Apache-2.0
// One run of a program: its data, given or random, the run, and the comparison with the oracle.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/options.hpp"

namespace codetta::cli {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

struct ProgramData {
  std::vector<Tensor> owned;
  std::vector<NamedArgument> arguments;  // of parameters, then of outputs
  ProgramShapes shapes;
};

// Every parameter that `data` lacks, at random: indices within what they pick from; about 8 weights of each sum of a
// product, the others 0, so that values and bounds stay small; numbers of type bool are true.
// Errors: those of Program::missing().
Result<void> add_random(const Program& program, const Sizes& sizes, uint64_t seed, ProgramData& data);
// Memory for the outputs, poisoned; dims that a run computes have as much room as `sizes` says, else as they can need.
// Errors: those of Program::shapes().
Result<void> add_outputs(const Program& program, const Sizes& sizes, ProgramData& data);

// What is bound to donated parameters, copied: a run leaves anything there. Errors: E0606.
Result<ProgramData> copies_of_donated(const Program& program, const ProgramData& data);

struct ProgramRun {
  const Program& program;
  const CompiledProgram& compiled;
  const Target& target;
  Context& context;
  bool check = false;  // compare with the oracle
  uint64_t seed = 1;
  bool graph = false;       // the run is one launch
  StepObserver observer{};  // of the run
  Observed observed = Observed::values;
  // Kernels of the user's are called: a check takes their results as given, and one that crashes is told
  // (cli/crash.hpp).
  bool user_kernels = false;
  std::string crash_help{};  // of these: as CrashTold takes it
  bool json = false;         // is how a crash is told

  struct Done {
    double prepare_ms = 0, run_ms = 0;
    bool interpreted = false;
    int64_t workspace_bytes = 0;
    std::vector<std::string> kernels;
    std::optional<VerifyReport> checked;
  };
  // Outputs end in host memory, where `data` says; of those whose sizes the run computes the views become what it has
  // filled. Errors: those of prepare, run and verify.
  [[nodiscard]] Result<Done> operator()(ProgramData& data) const;

  // The same program over random data of smaller sizes, for which the oracle can say all: up to 64, less where that is
  // too much, more where the program has no such sizes. Nothing where none will do.
  struct Smaller {
    Sizes sizes;
    VerifyReport checked;
  };
  [[nodiscard]] Result<std::optional<Smaller>> smaller(const ProgramData& data) const;
};

// Whether the oracle could say nothing of an output.
bool leaves_out(const VerifyReport& report);
// "b = 1, s = 64".
std::string sizes_text(const Sizes& sizes);
// As a JSON text.
std::string check_json(const VerifyReport& report);

}  // namespace codetta::cli
