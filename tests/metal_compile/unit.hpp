// SPDX-License-Identifier: Apache-2.0
// What the gate compiles: a kernel of one configuration with one epilogue for one family.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace codetta::metal_compile {

struct Unit {
  std::string label;    // "swiglu metal_simdgroup_64x64x32_apple7 bf16 nt"
  std::string source;   // in one piece, as `codetta build` writes it
  bool golden = false;  // half of these are in every slice
};

// All of them, each source once, in a fixed order. `problem` names what could not be emitted, if anything.
std::vector<Unit> all_units(std::string& problem);

// Objective-C++ host text of programs with several kernels, sizes that a call says, temporaries and reductions.
std::vector<Unit> host_units(std::string& problem);

}  // namespace codetta::metal_compile
