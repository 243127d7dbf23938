// SPDX-License-Identifier: Apache-2.0
// How one run uses its workspace, and in which passes it runs the phases of its epilogue.
#pragma once

#include "package/cpu_limits.hpp"
#include "runtime/cpu/layout.hpp"
#include "runtime/cpu/reduce.hpp"

namespace codetta::runtime::cpu {

// What of the accumulators outlives a tile's computation.
enum class Retain : uint8_t { None, RowPanel, Whole };

inline constexpr int max_phases = package::max_cpu_phases;
inline constexpr int max_reductions = package::max_cpu_reductions;

// Phases [begin, end) that run in one sweep over the rows.
struct Segment {
  int begin, end;
};

// Offsets in bytes; every part is a multiple of 64 bytes.
struct WorkspaceMap {
  int threads = 1;
  Retain retain = Retain::None;
  int segments = 0;
  Segment segment[max_phases];  // the first `segments` are set
  ReductionGrid grid{};

  size_t thread_area = 0;  // per thread: tile or row panel, then packed A
  size_t thread_a = 0;     // offset of packed A inside a thread's area
  size_t thread_b = 0;     // and of a block of a made B
  size_t b_area = 0;       // packed B of one chunk (unpacked B only)
  int64_t chunk_batches = 0,
          chunk_tiles = 0;          // a chunk: batch items, or tile columns of one item, or of all where B is shared
  size_t accumulators = 0;          // Whole: [slice][batch][tile row][tile column]
  size_t partials[max_reductions];  // as many as there are reductions
  size_t results[max_reductions];
  size_t total = 0;
};

WorkspaceMap map_workspace(const Layout& l, const GemmProblem& p, const EpilogueCall* epilogue, int threads);

}  // namespace codetta::runtime::cpu
