// SPDX-License-Identifier: Apache-2.0
// Memory of kernels between pages that nothing may touch, and accesses of those as messages.
#pragma once

#include <cstddef>
#include <string>

#include "emulator/fibers.hpp"

namespace codetta::emulator {

// `bytes` of memory, filled with 0xff, whose end lies less than 16 bytes before a page that nothing may touch, or (with
// `front`) whose begin lies directly behind one and is a multiple of 256. Thread safe. Null: none left.
// `of_host`: what kernels see of the host's memory.
void* allocate_guarded(size_t bytes, bool front, bool of_host = false);
void free_guarded(void* memory);
[[nodiscard]] bool is_guarded(const void* memory);
// Whether the address lies in memory that was allocated as the host's.
[[nodiscard]] bool is_of_host(const void* address);
// What was written into the bytes between an allocation and its pages' ends; "" where nothing. Null: of any.
[[nodiscard]] std::string surroundings_text(const void* memory);

// While it lives, a fiber of this thread that touches what is no memory (or divides by 0) goes on in `end`, on a stack
// that is whole; fault_text() then says what happened. Guards don't nest.
class FaultGuard {
 public:
  FaultGuard(void (*end)(), const Stacks& stacks);
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;
  ~FaultGuard();
};
std::string fault_text();

}  // namespace codetta::emulator
