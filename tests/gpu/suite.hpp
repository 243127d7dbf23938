// SPDX-License-Identifier: Apache-2.0
// What the tests on a GPU share: the command line, threads, the GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu/gpu.hpp"

namespace codetta::gpu {

// Command line of the tests.
struct Options {
  uint64_t seed = 1;
  int64_t first = 0, count = 100;  // random epilogues
  uint64_t problems = 3;           // of each of them
  int threads = 4;
  double seconds = 0;     // of one test, after which no further case is begun; 0: no limit
  int64_t least = 0;      // cases that are begun whatever the time says
  uint64_t of = 16;       // runs every of-th unit of the matrices
  std::string arch;       // not empty: everything is compiled for it and nothing run
  std::string emulated;   // not empty: kernels of this architecture run on the host
  std::string planted;    // the bug that CudaPlanted is to have
  bool thorough = false;  // functions: many more arguments
};
Options& options();

// Runs body(i) for i below count in options().threads threads, each message that comes back is a failure of the test.
void in_parallel(int64_t count, const std::function<std::string(int64_t)>& body);
// The GPU; nullptr, and the test is skipped, where there is none.
std::shared_ptr<Gpu> gpu_or_skip();

}  // namespace codetta::gpu
