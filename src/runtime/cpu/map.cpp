// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/map.hpp"

#include <algorithm>

#include "package/cpu_limits.hpp"
#include "runtime/cpu/layout.hpp"
#include "runtime/cpu/phases.hpp"
#include "runtime/cpu/units.hpp"

namespace codetta::runtime::cpu {
namespace {

// Elements below which waking threads costs more than it brings.
constexpr int64_t parallel_elements = 1 << 14;

// Narrow problems get more rows, so that a tile has the area that the configuration means.
struct MapTiles {
  int64_t rows, cols;
  ReductionGrid grid;
};

MapTiles tiles_of(const package::CpuMapConfig& config, const MapProblem& p) {
  MapTiles t{};
  t.cols = std::clamp<int64_t>(p.cols, 1, config.tile_cols);
  const int64_t area = int64_t{config.tile_rows} * config.tile_cols;
  t.rows = std::clamp<int64_t>(area / t.cols, 1, std::max<int64_t>(p.rows, 1));
  t.grid = {p.batch, p.rows, p.cols, ceil_div(p.rows, t.rows), ceil_div(p.cols, t.cols)};
  return t;
}

struct MapMemory {
  size_t partials[package::max_cpu_reductions], results[package::max_cpu_reductions];
  size_t total = 0;
};

MapMemory memory_of(const EpilogueCall& epilogue, const ReductionGrid& grid) {
  MapMemory memory;
  const auto take = [&](int64_t bytes) {
    const size_t at = memory.total;
    memory.total += static_cast<size_t>(round_up(std::max<int64_t>(bytes, 0), line));
    memory.total = std::min(memory.total, static_cast<size_t>(too_many_bytes));
    return at;
  };
  for (size_t i = 0; i < epilogue.reductions.size(); ++i) {
    const int64_t size = dtype_bytes(epilogue.reductions[i].dtype);
    memory.partials[i] = take(times(partial_count(epilogue.reductions[i], grid), size));
    memory.results[i] = take(times(result_count(epilogue.reductions[i], grid), size));
  }
  memory.total = std::max<size_t>(memory.total, 64);
  return memory;
}

class MapRun {
 public:
  MapRun(const package::CpuMapConfig& config, const MapProblem& p, const EpilogueCall& epilogue, ThreadPool* pool,
         void* workspace)
      : epilogue_(epilogue), tiles_(tiles_of(config, p)), grid_(tiles_.grid) {
    const MapMemory memory = memory_of(epilogue, grid_);
    auto* base = static_cast<std::byte*>(workspace);
    reductions_.begin(epilogue.reductions, grid_);
    for (size_t i = 0; i < epilogue.reductions.size(); ++i)
      reductions_.place(i, base + memory.partials[i], base + memory.results[i]);
    args_ = {epilogue.operands, epilogue.scalars, reductions_.partials(), reductions_.results(), grid_.batches,
             grid_.rows,        grid_.cols,       grid_.tile_rows,        grid_.tile_cols};
    const bool small = grid_.batches * grid_.rows * grid_.cols < parallel_elements;
    pool_ = pool != nullptr && pool->size() > 1 && !small ? pool : nullptr;
  }

  void all() {
    const int count = static_cast<int>(epilogue_.phases.size());
    for (int begin = 0, end = 0; begin < count; begin = end) {
      end = begin + 1;
      if (phase(begin).space == Space::Tiles || phase(begin).space == Space::Rows) {
        while (end < count && follows(end)) ++end;
      }
      reductions_.finish_before(begin, pool_, threads());
      sweep(begin, end);
    }
    reductions_.finish_before(count, pool_, threads());
  }

 private:
  [[nodiscard]] const Phase& phase(int i) const { return epilogue_.phases[static_cast<size_t>(i)]; }
  // Whether a phase can run on a row of tiles right behind the phases before it.
  [[nodiscard]] bool follows(int i) const {
    return phase(i).scope != Scope::Whole && (phase(i).space == Space::Tiles || phase(i).space == Space::Rows);
  }

  [[nodiscard]] int threads() const { return pool_ == nullptr ? 1 : pool_->size(); }
  template <class F>
  void for_units(int64_t units, F&& f) {
    cpu::for_units(pool_, threads(), units, [&](int64_t u, int) { f(u); });
  }

  void sweep(int begin, int end) {
    const Space space = phase(begin).space;
    if (space == Space::Once) {
      call(begin, 0, 0, 0);
      return;
    }
    if (space == Space::Columns) {
      for_units(grid_.batches * grid_.tile_cols,
                [&](int64_t u) { call(begin, u / grid_.tile_cols, 0, u % grid_.tile_cols); });
      return;
    }
    const int64_t panels = grid_.batches * grid_.tile_rows;
    // Few rows of many tiles: one phase after the other over all tiles keeps the threads busy.
    const bool wide = pool_ != nullptr && panels < 2 * pool_->size() && grid_.tile_cols > 1;
    if (end == begin + 1 || wide) {
      for (int i = begin; i < end; ++i) {
        if (i > begin) reductions_.finish_before(i, pool_, threads());
        const int64_t across = phase(i).space == Space::Rows ? 1 : grid_.tile_cols;
        for_units(panels * across, [&](int64_t u) {
          const int64_t panel = u / across;
          call(i, panel / grid_.tile_rows, panel % grid_.tile_rows, u % across);
        });
      }
      return;
    }
    for_units(panels, [&](int64_t u) {
      const int64_t batch = u / grid_.tile_rows, r = u % grid_.tile_rows;
      for (int i = begin; i < end; ++i) {
        if (i > begin) finish_rows(i - 1, batch, r);
        const int64_t across = phase(i).space == Space::Rows ? 1 : grid_.tile_cols;
        for (int64_t c = 0; c < across; ++c) call(i, batch, r, c);
      }
    });
    reductions_.rows_finished(begin, end - 1);
  }

  void call(int i, int64_t batch, int64_t r, int64_t c) const {
    call_epilogue(epilogue_, args_, tile_of(phase(i), i, grid_, tiles_.rows, tiles_.cols, batch, r, c));
  }

  // Row reductions of a phase, of one row of tiles.
  void finish_rows(int of_phase, int64_t batch, int64_t r) const {
    const int64_t row = r * tiles_.rows;
    reductions_.finish_rows(of_phase, of_phase + 1, batch, row, std::min(grid_.rows, row + tiles_.rows));
  }

  const EpilogueCall& epilogue_;
  const MapTiles tiles_;
  const ReductionGrid& grid_;
  ThreadPool* pool_ = nullptr;
  abi::EpilogueArgs args_{};
  RunningReductions reductions_;
};

}  // namespace

size_t map_workspace_size(const package::CpuMapConfig& config, const MapProblem& problem,
                          const EpilogueCall& epilogue) {
  return memory_of(epilogue, tiles_of(config, problem).grid).total;
}

void run_map(const package::CpuMapConfig& config, const MapProblem& problem, const EpilogueCall& epilogue,
             ThreadPool* pool, void* workspace) {
  MapRun(config, problem, epilogue, pool, workspace).all();
}

}  // namespace codetta::runtime::cpu
