// SPDX-License-Identifier: Apache-2.0
// A tensor copied to where it lies otherwise.
#pragma once

#include <cstdint>

#include "codetta/threads.hpp"

namespace codetta::runtime::cpu {

inline constexpr int max_copied_dims = 8;

// Strides count elements, of 1, 2, 4 or 8 bytes. Source and target share no byte, and no two elements of the target do.
struct CopyProblem {
  const void* source = nullptr;
  void* target = nullptr;
  int64_t element_bytes = 0;
  int rank = 0;
  const int64_t* sizes = nullptr;
  const int64_t* source_strides = nullptr;
  const int64_t* target_strides = nullptr;
};

// Dims that lie beside each other in both are walked as one, the target in the order in which it lies, and in blocks
// where the source lies in another. What is large is shared out among the threads of the pool; without one the calling
// thread does it all. Allocates nothing.
void copy(const CopyProblem& problem, ThreadPool* pool);

}  // namespace codetta::runtime::cpu
