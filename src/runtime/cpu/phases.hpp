// SPDX-License-Identifier: Apache-2.0
// What runs of products and of maps share when they carry out the phases of an epilogue.
#pragma once

#include <algorithm>

#include "package/cpu_limits.hpp"
#include "runtime/cpu/reduce.hpp"

namespace codetta::runtime::cpu {

// Where call `number` of an epilogue is: tile (r, c) of an item, or what the phase's space leaves of it. Without
// accumulators.
inline abi::Tile tile_of(const Phase& phase, int number, const ReductionGrid& grid, int64_t tile_rows,
                         int64_t tile_cols, int64_t batch, int64_t r, int64_t c) {
  abi::Tile t{};
  t.phase = number;
  t.rows = t.cols = 1;
  if (phase.space != Space::Once) t.batch = batch;
  if (phase.space == Space::Tiles || phase.space == Space::Rows) {
    t.tile_row = r;
    t.row = r * tile_rows;
    t.rows = std::min(tile_rows, grid.rows - t.row);
  }
  if (phase.space == Space::Tiles || phase.space == Space::Columns) {
    t.tile_col = c;
    t.col = c * tile_cols;
    t.cols = std::min(tile_cols, grid.cols - t.col);
  }
  return t;
}

inline void call_epilogue(const EpilogueCall& epilogue, const abi::EpilogueArgs& args, const abi::Tile& tile) {
  if (epilogue.function != nullptr) {
    epilogue.function(&args, &tile);
  } else {
    epilogue.interpret(epilogue.context, &args, &tile);
  }
}

// The reductions of one run: where their partials and results lie, and which of them are finished. EpilogueArgs point
// into it.
class RunningReductions {
 public:
  // Each of the list is placed before anything else.
  void begin(std::span<const Reduction> list, const ReductionGrid& grid) {
    list_ = list;
    grid_ = grid;
  }
  void place(size_t i, void* partials, void* results) {
    partials_[i] = partials;
    const_results_[i] = results_[i] = results;
    finished_[i] = false;
  }
  [[nodiscard]] void* const* partials() const { return partials_; }
  [[nodiscard]] const void* const* results() const { return const_results_; }

  // Row reductions that phases [first, last) write, for rows [row, end) of an item.
  void finish_rows(int first, int last, int64_t batch, int64_t row, int64_t end) const;
  // They are finished for all rows.
  void rows_finished(int first, int last);
  // All that phases before `phase` write, unless finished.
  void finish_before(int phase, ThreadPool* pool, int threads);

 private:
  std::span<const Reduction> list_;
  ReductionGrid grid_{};
  void* partials_[package::max_cpu_reductions];  // these: as many as there are reductions
  void* results_[package::max_cpu_reductions];
  const void* const_results_[package::max_cpu_reductions];
  bool finished_[package::max_cpu_reductions];
};

}  // namespace codetta::runtime::cpu
