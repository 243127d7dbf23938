// SPDX-License-Identifier: Apache-2.0
// Launches of a grid: its blocks one after the other, the threads of a block as fibers that change where they meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "emulator/machine.hpp"

namespace codetta::emulator {

// A kernel of a loaded object.
struct Kernel {
  void (*run)(const void* const* parameters) = nullptr;  // as one thread; an address of each parameter
  void (*bind)(Machine*) = nullptr;                      // gives the object, for this thread of the host, its machine
  unsigned char* (*dynamic)() = nullptr;                 // where shared memory lies whose size a launch says, or null
};

struct Grid {
  Index blocks{1, 1, 1}, threads{1, 1, 1};
  Word lanes = 32;          // of a warp
  Bits dynamic_shared = 0;  // bytes
  uint64_t seed = 1;        // the order of the blocks, and in which order their threads go on; 0: in their own order
};

// Runs all blocks in this thread. Shared memory begins as 0xff bytes (NaN in every float) in each. Returns what went
// wrong: barriers that not all threads come to, lanes that don't meet, an access to what is no memory, whatever a
// kernel's object reports. Thread safe: each thread of the host has a machine of its own.
std::optional<std::string> launch(const Kernel& kernel, const Grid& grid, const void* const* parameters);

}  // namespace codetta::emulator
