// SPDX-License-Identifier: Apache-2.0
// How a CUDA or HIP configuration fills a GPU: blocks of a multiprocessor and what limits them, waves over the device.
#pragma once

#include <string>
#include <vector>

#include "package/gpu_gemm.hpp"
#include "plan/candidates.hpp"
#include "toolchain/ptxas_remarks.hpp"

namespace codetta::driver {

struct Occupancy {
  int64_t blocks = 0;                // resident on a multiprocessor at once
  std::string limited_by;            // "shared memory" ("LDS"), "threads", "registers", "blocks"
  int64_t warps = 0, warps_max = 0;  // of 32 threads; AMD's waves
  int registers = 0;                 // of a thread; 0: not known before the kernel is compiled
  int64_t tiles = 0;                 // units of work: tiles of all batch items and slices of K
  double waves = 0;                  // tiles over what runs at once
};

// `remarks` of the compiled kernel, the product's entry first; empty when it is not compiled. `ways` of the epilogue's
// split. On AMD GPUs a compute unit counts as a multiprocessor, on RDNA a work-group processor of two. Limits of a
// multiprocessor by compute capability: CUDA C++ Programming Guide 13.0, table of technical specifications.
Occupancy occupancy(const package::GpuGemmConfig& config, const plan::GemmShape& shape, int64_t ways,
                    const plan::GpuFacts& gpu, const std::vector<toolchain::PtxasRemarks>& remarks);

std::string to_string(const Occupancy& occupancy, const package::GpuGemmConfig& config, const plan::GpuFacts& gpu);

}  // namespace codetta::driver
