// SPDX-License-Identifier: Apache-2.0
// What the machine can do at best, measured: multiply-adds from registers, and reading memory.
#pragma once

#include <functional>

#include "codetta/tensor.hpp"

namespace codetta::bench {

// Operations of one call of the loop that peak_loop() returns: independent multiply-adds of the widest kind this
// machine has for operands of `dtype` (u8: u8 x i8), nothing but registers. Null where there is no such loop.
struct PeakLoop {
  std::function<void()> run;
  double operations = 0;
};
PeakLoop peak_loop(DType dtype);

// Reads `bytes` bytes once.
void read_all(const void* data, size_t bytes);

void pin_to_one_core();

}  // namespace codetta::bench
