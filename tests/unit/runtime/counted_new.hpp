// SPDX-License-Identifier: Apache-2.0
// How often the program that links counted_new.cpp has taken memory from the heap.
#pragma once

#include <atomic>
#include <cstdint>

namespace codetta::runtime::test {

extern std::atomic<int64_t> allocations;

}  // namespace codetta::runtime::test
