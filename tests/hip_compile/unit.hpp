// SPDX-License-Identifier: Apache-2.0
// What the gate compiles: a kernel of one configuration with one epilogue for one architecture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace codetta::hip_compile {

struct Unit {
  std::string label;  // "swiglu bf16 hip_mfma_128x128x32_gfx942"
  std::string source;
  std::vector<std::string> flags;
  size_t entries = 0;     // 0: not compared
  int64_t lds_bytes = 0;  // of codetta_gemm, as planned; 0: not compared
  int registers = 0;      // that a lane can have at most; 0: not compared
  int estimate = 0;       // of registers; 0: none was made
  bool golden = false;    // half of these are in every slice
  bool calls = false;     // functions, for which a thread has a stack
  bool fits = false;      // has to, as golden ones
  bool lds_most = false;  // lds_bytes are room that not all of it needs
};

// All of them, each source once, in a fixed order. `problem` names what could not be emitted, if anything.
std::vector<Unit> all_units(std::string& problem);

}  // namespace codetta::hip_compile
