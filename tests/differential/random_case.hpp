// SPDX-License-Identifier: Apache-2.0
// One differential case: a random epilogue on random problems (sizes, strides, ISA levels, threads, kernels), run
// through the public interface and checked against the oracle.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codetta/kernel.hpp"

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

struct CaseCounts {
  int64_t epilogues = 0, runs = 0, passed = 0, mistrusted = 0;
  int64_t refused = 0;    // a diagnostic: the text, its binding or its views
  int64_t unplanned = 0;  // no kernel takes it
  int64_t interpreted = 0, failed = 0;
  std::map<std::string, int64_t> reasons;  // of refusals, by code
};

// Runs the case of this seed: one epilogue, `problems` problems. Returns the account of each failure, for people.
std::vector<std::string> run_case(uint64_t seed, int problems, CaseContexts& contexts, CaseCounts& counts);

}  // namespace codetta::test
