// SPDX-License-Identifier: Apache-2.0
// Interpreting an EpilogueProgram over the engine's tiles, for machines without a compiler. Same results as the emitted
// code within the stated ulp of the elementary functions.
#pragma once

#include <memory>

#include "device/cpu/abi.h"
#include "package/epilogue_program.hpp"

namespace codetta::runtime::cpu {

// Immutable after construction; run_tile may be called from several threads at once.
class Tape {
 public:
  explicit Tape(const package::EpilogueProgram& program);
  ~Tape();
  // The signature of EpilogueCall::interpret; `tape` is a Tape*.
  static void run_tile(void* tape, const codetta::cpu::EpilogueArgs* args, const codetta::cpu::Tile* tile);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace codetta::runtime::cpu
