// SPDX-License-Identifier: Apache-2.0
// What the gate compiles: a kernel of one configuration with one epilogue for one architecture.
#pragma once

#include <string>
#include <vector>

namespace codetta::cuda_compile {

struct Unit {
  std::string label;  // "swiglu cuda_sm90_128x192x64_pp_c2x1_sm_90a bf16 nt"
  std::string source;
  std::vector<std::string> flags;
  size_t entries = 0;
  bool golden = false;                 // compiled in every slice
  bool calls = false;                  // functions, for which a thread has a stack
  std::vector<std::string> instead{};  // sources of what is taken where this one spills, in turn
  bool everyday = false;               // one that users meet, whose time of a compile counts
};

// All of them, each source once an architecture, in a fixed order. `problem` names what could not be emitted, if
// anything.
std::vector<Unit> all_units(std::string& problem);
// Those of them that users meet.
std::vector<Unit> everyday_units(std::string& problem);

}  // namespace codetta::cuda_compile
