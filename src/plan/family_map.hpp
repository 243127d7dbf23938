// SPDX-License-Identifier: Apache-2.0
// Kernels without a product: one configuration a target, from the size of the root space and its reductions.
#pragma once

#include "plan/candidates.hpp"

namespace codetta::plan {

// Sizes as known, or as hinted.
struct MapShape {
  int64_t batch = 1, rows = 1, cols = 1;
  bool cols_known = false;  // by a hint at least
  bool cols_fixed = false;  // for every run
};

Discovery discover_map(const package::EpilogueProgram& program, const MapShape& shape, const Target& target,
                       const MachineFacts& machine);
// Bytes that the kernel reads and writes of its arguments, each element once.
double map_bytes(const package::EpilogueProgram& program, const MapShape& shape);
// Microseconds of a map on a GPU of `sms` multiprocessors beyond those of its bytes: launches, and waiting where few
// rows are finished one phase behind the other.
double map_launch_us(const package::EpilogueProgram& program, const MapShape& shape, int sms);

}  // namespace codetta::plan
