// SPDX-License-Identifier: Apache-2.0
// The engine of map kernels: an epilogue without accumulators over tiles of a root space [batch, rows, cols]. Phases
// that need row reductions follow one another on a row of tiles while it is in the caches; what needs everything is a
// sweep of its own. The tile grid and every order of summation depend on the configuration and the problem only, so the
// bits of a result do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "package/map_config.hpp"
#include "runtime/cpu/gemm.hpp"

namespace codetta::runtime::cpu {

struct MapProblem {
  int64_t batch = 1, rows = 0, cols = 0;
};

// Bytes of 64-byte-aligned workspace for run_map(): partials and results of reductions. Independent of pointers,
// strides and threads.
size_t map_workspace_size(const package::CpuMapConfig& config, const MapProblem& problem, const EpilogueCall& epilogue);

// Allocates nothing; pool == nullptr: the calling thread alone. Over an empty root space there are no tiles, and
// reductions get their identity. `epilogue.results` is not read.
void run_map(const package::CpuMapConfig& config, const MapProblem& problem, const EpilogueCall& epilogue,
             ThreadPool* pool, void* workspace);

}  // namespace codetta::runtime::cpu
