// SPDX-License-Identifier: Apache-2.0
// One differential case: a random epilogue on random problems (sizes, strides, ISA levels, threads, kernels), run
// through the public interface and checked against the oracle.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codetta/kernel.hpp"
#include "differential/counts.hpp"

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

// Runs the case of this seed: one epilogue, `problems` problems, of which those of every third epilogue are compiled
// unless `tape` (only the first where sizes are part of the source). An epilogue of which too little can be expected
// (mistrusted on a problem of its own) is drawn again, a few times; so is a problem. Returns the account of each
// failure, for people.
std::vector<std::string> run_case(uint64_t seed, int problems, bool tape, CaseContexts& contexts, CaseCounts& counts);

}  // namespace codetta::test
