// SPDX-License-Identifier: Apache-2.0
// One differential case: a random epilogue on random problems (sizes, strides, ISA levels, threads, kernels), run
// through the public interface and checked against the oracle.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "codetta/kernel.hpp"
#include "differential/compiled_sources.hpp"
#include "differential/counts.hpp"
#include "differential/random_epilogue_text.hpp"

namespace codetta::test {

// The contexts that cases run in: with and without a compiler, on one thread and on three. Made new now and then, since
// a context keeps what it has loaded.
class CaseContexts {
 public:
  static Result<CaseContexts> make();
  Context& pick(bool interpreted, bool threaded) { return contexts_[(interpreted ? 2U : 0U) + (threaded ? 1U : 0U)]; }

 private:
  std::vector<Context> contexts_;
};

// An epilogue of which enough can be expected: one that is mistrusted on a problem of its own is drawn again, a few
// times. Every third is compiled, unless `tape`.
struct DrawnCase {
  EpilogueSpec spec;
  std::optional<Epilogue> epilogue;   // none where something failed already
  std::vector<std::string> failures;  // accounts for people
  bool compiled = false;
  bool many_empty = false;  // RandomProblem::many_empty; for the caller to set
  std::mt19937_64 random;   // of the problems
  uint64_t form = 0;        // of what decides the kernel's source
  uint64_t flags = 0;       // of what decides the compiler's flags
};
DrawnCase draw_case(uint64_t seed, uint64_t flags, bool tape, CaseContexts& contexts, CaseCounts& counts);
// Has what the problems compile compiled with others; every eighth case is left to Kernel::prepare.
void want_source(const DrawnCase& drawn, CaseContexts& contexts, CompiledSources& sources);
// Runs `problems` problems. All are compiled where one source serves them, else the first; one that is mistrusted is
// drawn again, a few times. Returns the account of each failure.
std::vector<std::string> run_case(DrawnCase& drawn, int problems, CaseContexts& contexts,
                                  const CompiledSources& sources, CaseCounts& counts);

}  // namespace codetta::test
