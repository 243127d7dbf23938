// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/map.hpp"

#include <algorithm>
#include <atomic>

#include "package/cpu_limits.hpp"
#include "runtime/cpu/layout.hpp"
#include "runtime/cpu/reduce.hpp"

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
    return at;
  };
  for (size_t i = 0; i < epilogue.reductions.size(); ++i) {
    const int64_t size = dtype_bytes(epilogue.reductions[i].dtype);
    memory.partials[i] = take(partial_count(epilogue.reductions[i], grid) * size);
    memory.results[i] = take(result_count(epilogue.reductions[i], grid) * size);
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
    for (size_t i = 0; i < epilogue.reductions.size(); ++i) {
      partials_[i] = base + memory.partials[i];
      const_results_[i] = results_[i] = base + memory.results[i];
      finished_[i] = false;
    }
    args_ = {epilogue.operands, epilogue.scalars, partials_,       const_results_, grid_.batches,
             grid_.rows,        grid_.cols,       grid_.tile_rows, grid_.tile_cols};
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
      finish_before(begin);
      sweep(begin, end);
    }
    finish_before(count);
  }

 private:
  [[nodiscard]] const Phase& phase(int i) const { return epilogue_.phases[static_cast<size_t>(i)]; }
  // Whether a phase can run on a row of tiles right behind the phases before it.
  [[nodiscard]] bool follows(int i) const {
    return phase(i).scope != Scope::Whole && (phase(i).space == Space::Tiles || phase(i).space == Space::Rows);
  }

  template <class F>
  void for_units(int64_t units, F&& f) {
    if (pool_ == nullptr || units <= 1) {
      for (int64_t u = 0; u < units; ++u) f(u);
      return;
    }
    struct Shared {
      std::remove_reference_t<F>* f;
      int64_t units;
      std::atomic<int64_t> next{0};
    } shared{&f, units};
    pool_->run(
        static_cast<int>(std::min<int64_t>(pool_->size(), units)),
        [](void* context, int) {
          auto& s = *static_cast<Shared*>(context);
          for (int64_t u = s.next.fetch_add(1, std::memory_order_relaxed); u < s.units;
               u = s.next.fetch_add(1, std::memory_order_relaxed)) {
            (*s.f)(u);
          }
        },
        &shared);
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
        if (i > begin) finish_before(i);
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
    for (size_t j = 0; j < epilogue_.reductions.size(); ++j) {
      const Reduction& reduction = epilogue_.reductions[j];
      finished_[j] |= reduction.axis == ReductionAxis::Row && reduction.phase >= begin && reduction.phase + 1 < end;
    }
  }

  void call(int i, int64_t batch, int64_t r, int64_t c) const {
    const Space space = phase(i).space;
    abi::Tile t{};
    t.phase = i;
    t.rows = t.cols = 1;
    if (space != Space::Once) t.batch = batch;
    if (space == Space::Tiles || space == Space::Rows) {
      t.tile_row = r;
      t.row = r * tiles_.rows;
      t.rows = std::min(tiles_.rows, grid_.rows - t.row);
    }
    if (space == Space::Tiles || space == Space::Columns) {
      t.tile_col = c;
      t.col = c * tiles_.cols;
      t.cols = std::min(tiles_.cols, grid_.cols - t.col);
    }
    if (epilogue_.function != nullptr) {
      epilogue_.function(&args_, &t);
    } else {
      epilogue_.interpret(epilogue_.context, &args_, &t);
    }
  }

  // Row reductions of a phase, of one row of tiles.
  void finish_rows(int of_phase, int64_t batch, int64_t r) {
    const int64_t row = r * tiles_.rows, end = std::min(grid_.rows, row + tiles_.rows);
    for (size_t j = 0; j < epilogue_.reductions.size(); ++j) {
      const Reduction& reduction = epilogue_.reductions[j];
      if (reduction.axis != ReductionAxis::Row || reduction.phase != of_phase) continue;
      finish_reduction(reduction, grid_, partials_[j], results_[j], batch * grid_.rows + row, batch * grid_.rows + end);
    }
  }

  void finish_before(int i) {
    for (size_t j = 0; j < epilogue_.reductions.size(); ++j) {
      const Reduction& reduction = epilogue_.reductions[j];
      if (finished_[j] || reduction.phase >= i) continue;
      finished_[j] = true;
      constexpr int64_t block = 1024;
      const int64_t count = result_count(reduction, grid_);
      for_units(ceil_div(count, block), [&](int64_t u) {
        finish_reduction(reduction, grid_, partials_[j], results_[j], u * block, std::min(count, (u + 1) * block));
      });
    }
  }

  const EpilogueCall& epilogue_;
  const MapTiles tiles_;
  const ReductionGrid& grid_;
  ThreadPool* pool_ = nullptr;
  abi::EpilogueArgs args_{};
  void* partials_[package::max_cpu_reductions];
  void* results_[package::max_cpu_reductions];
  const void* const_results_[package::max_cpu_reductions];
  bool finished_[package::max_cpu_reductions];
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
