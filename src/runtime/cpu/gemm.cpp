// SPDX-License-Identifier: Apache-2.0
// The driver: passes over the tile grid, packing of B in bounded chunks, phases of the epilogue.
#include "runtime/cpu/gemm.hpp"

#include <algorithm>

#include "device/host/fold.h"
#include "package/cpu_call.hpp"
#include "runtime/cpu/pack.hpp"
#include "runtime/cpu/phases.hpp"
#include "runtime/cpu/tile.hpp"
#include "runtime/cpu/tiny.hpp"
#include "runtime/cpu/units.hpp"
#include "runtime/cpu/workspace.hpp"

namespace codetta::runtime::cpu {
namespace {

// Below this a pool costs more than it brings.
constexpr double pool_flops = 3e5;

class Run {
 public:
  Run(const Layout& l, const GemmProblem& p, const EpilogueCall* epilogue, const StoreTile* store, ThreadPool* pool,
      void* workspace)
      : l_(l), p_(p), epilogue_(epilogue), store_(store), memory_(static_cast<std::byte*>(workspace)) {
    const double flops = 2.0 * static_cast<double>(l.batch) * static_cast<double>(l.m) * static_cast<double>(l.n) *
                         static_cast<double>(std::max<int64_t>(l.k, 1));
    const int threads = pool == nullptr || flops < pool_flops ? 1 : pool->size();
    pool_ = threads > 1 ? pool : nullptr;
    // The map depends on the thread count only in its first area, so partials and results are laid out for this one.
    map_ = map_workspace(l, p, epilogue, threads);
    if (epilogue_ == nullptr) return;
    reductions_.begin(epilogue_->reductions, map_.grid);
    for (size_t i = 0; i < epilogue_->reductions.size(); ++i) {
      const bool given = i < epilogue_->results.size() && epilogue_->results[i] != nullptr;
      reductions_.place(i, memory_ + map_.partials[i], given ? epilogue_->results[i] : memory_ + map_.results[i]);
    }
    args_ = {epilogue_->operands,
             epilogue_->scalars,
             reductions_.partials(),
             reductions_.results(),
             l.batch,
             l.m,
             l.root_cols,
             l.tiles_r,
             l.tiles_c};
  }

  void all() {
    const bool tiles = l_.batch > 0 && l_.m > 0 && l_.root_cols > 0;
    if (tiles) compute();
    for (int s = 0; s < map_.segments; ++s) {
      if (s > 0) reductions_.finish_before(map_.segment[s].begin, pool_, map_.threads);
      run_segment(s, tiles);
    }
    if (epilogue_ != nullptr) reductions_.finish_before(max_phases, pool_, map_.threads);
  }

 private:
  std::byte* thread_memory(int thread) { return memory_ + static_cast<size_t>(thread) * map_.thread_area; }
  const Phase& phase(int i) const { return epilogue_->phases[static_cast<size_t>(i)]; }

  template <class F>
  void for_units(int64_t units, F&& f) {
    cpu::for_units(pool_, map_.threads, units, f);
  }

  // ---- accumulators ----
  void compute() {
    if (compute_tiny()) return;
    if (l_.form != Form::Panels || p_.packed_b != nullptr || l_.makes_in_tile) {
      compute_chunk(0, l_.batch, 0, l_.tiles_c);
      return;
    }
    for (int64_t b = 0; b < l_.batch; b += map_.chunk_batches) {
      const int64_t batches = std::min(map_.chunk_batches, l_.batch - b);
      for (int64_t t = 0; t < l_.tiles_c; t += map_.chunk_tiles) {
        const int64_t tiles = std::min(map_.chunk_tiles, l_.tiles_c - t);
        pack_chunk(b, p_.one_b() ? 1 : batches, t, tiles);
        compute_chunk(b, batches, t, tiles);
      }
    }
  }

  // Batches of small items: their kernel calls from a list, with nothing else between them but the epilogue.
  bool compute_tiny() {
    if (l_.batch < 2 || map_.retain != Retain::None || l_.products > 1 || p_.makers != nullptr) return false;
    const int64_t ldc = (epilogue_ == nullptr ? store_->row_stride : l_.acc_ld) * l_.acc_size;
    TinyList list;
    if (!list_tiny(l_, p_, ldc, list)) return false;
    const int64_t a_step = p_.a_batch * l_.a_size, b_step = p_.b_batch * l_.b_size;
    const int64_t run = p_.inner == 0 ? l_.batch : p_.inner;  // items that are a step apart
    const int64_t block = std::clamp<int64_t>(l_.batch / (8 * map_.threads), 1, 4096);
    const int phases = first_after_tile_phases();
    for_units(ceil_div(l_.batch, block), [&](int64_t u, int thread) {
      const int64_t end = std::min(l_.batch, (u + 1) * block);
      for (int64_t i = u * block; i < end;) {
        const int64_t group = i / run, last = std::min(end, (group + 1) * run);
        const auto* a = static_cast<const std::byte*>(p_.a) + group * p_.a_skip * l_.a_size;
        const auto* b = static_cast<const std::byte*>(p_.b) + group * p_.b_skip * l_.b_size;
        if (epilogue_ == nullptr) {
          auto* c = static_cast<std::byte*>(store_->data);
          const int64_t c_step = store_->batch_stride * l_.acc_size;
          for (; i < last; ++i) list.run(a + i * a_step, b + i * b_step, c + i * c_step, a_step, b_step);
          continue;
        }
        std::byte* acc = thread_memory(thread);
        for (; i < last; ++i) {
          list.run(a + i * a_step, b + i * b_step, acc, a_step, b_step);
          for (int ph = 0; ph < phases; ++ph) call(ph, i, 0, 0, acc);
        }
      }
    });
    return true;
  }

  void pack_chunk(int64_t batch, int64_t batches, int64_t tile, int64_t tiles) {
    const int64_t per_tile = l_.tile_cols / l_.nr;
    const int64_t first = tile * per_tile;
    const int64_t panels = (std::min(l_.panels, (tile + tiles) * per_tile) - first) * l_.ways;
    for_units(batches * panels, [&](int64_t u, int) {
      const int64_t item = u / panels, panel = u % panels;
      pack_panel(l_, p_, batch + item, first + panel / l_.ways, panel % l_.ways,
                 memory_ + map_.b_area + static_cast<size_t>(u * l_.panel_bytes));
    });
  }

  const std::byte* batch_a(int64_t batch) const {
    return static_cast<const std::byte*>(p_.a) +
           items::place(batch, p_.a_batch, p_.a_skip, p_.inner) * dtype_bytes(l_.a_dtype);
  }

  // Units: (slice, batch item, group of tile rows, group of tile columns).
  void compute_chunk(int64_t batch0, int64_t batches, int64_t tile0, int64_t tiles) {
    const bool row_panel = map_.retain == Retain::RowPanel;
    const int64_t row_step = row_panel ? 1 : l_.group_tiles;
    const int64_t row_groups = ceil_div(l_.tiles_r, row_step);
    int64_t col_groups = 1;
    if (!row_panel && pool_ != nullptr) {  // enough units to keep the threads evenly busy
      const int64_t wanted =
          ceil_div(int64_t{8} * map_.threads, std::max<int64_t>(1, l_.slices * batches * row_groups));
      col_groups = std::clamp<int64_t>(wanted, 1, tiles);
    }
    const int64_t col_step = ceil_div(tiles, col_groups);
    col_groups = ceil_div(tiles, col_step);
    const int64_t per_batch = row_groups * col_groups;
    for_units(l_.slices * batches * per_batch, [&](int64_t u, int thread) {
      const int64_t slice = u / (batches * per_batch);
      const int64_t item = u / per_batch % batches;
      const int64_t row_tile = u % per_batch / col_groups * row_step;
      const int64_t col_tile = u % col_groups * col_step;
      unit(slice, batch0 + item, row_tile, std::min(l_.tiles_r, row_tile + row_step), tile0 + col_tile,
           tile0 + std::min(tiles, col_tile + col_step), packed_b(batch0, item, tile0), thread);
    });
  }

  // Packed B of a batch item such that panel q of the problem lies at q * ways * panel_bytes.
  const std::byte* packed_b(int64_t batch0, int64_t item, int64_t tile0) const {
    if (l_.form != Form::Panels || l_.makes_in_tile) return nullptr;
    if (p_.packed_b != nullptr) {
      const auto* header = static_cast<const PackedHeader*>(p_.packed_b);
      const int64_t index = header->batches == 1 ? 0 : batch0 + item;
      return static_cast<const std::byte*>(p_.packed_b) + sizeof(PackedHeader) + index * l_.packed_bytes;
    }
    const int64_t first = tile0 * (l_.tile_cols / l_.nr);
    const int64_t panels = std::min(l_.panels, first + map_.chunk_tiles * (l_.tile_cols / l_.nr)) - first;
    const int64_t stride = p_.one_b() ? 0 : panels * l_.ways * l_.panel_bytes;
    return memory_ + map_.b_area + item * stride - first * l_.ways * l_.panel_bytes;
  }

  void unit(int64_t slice, int64_t batch, int64_t row0, int64_t row1, int64_t col0, int64_t col1, const std::byte* b,
            int thread) {
    if (l_.set->padded) l_.table->enter();
    std::byte* scratch = thread_memory(thread);
    std::byte* a_pack = scratch + map_.thread_a;
    const int64_t k_begin = slice * l_.slice_k;
    const int64_t k_end = std::min(l_.k, k_begin + l_.slice_k);
    TileJob job;
    job.b = b;
    job.batch = batch;
    if (l_.makes_in_tile) job.b_buffer = scratch + map_.thread_b;
    job.first_slice = slice == 0;
    job.k_begin = l_.slices == 1 ? 0 : k_begin;
    job.k_end = l_.slices == 1 ? l_.k : k_end;
    const std::byte* a = batch_a(batch);
    const int64_t first_row = row0 * l_.tile_rows;
    if (l_.a_direct) {
      job.lda = p_.a_row * l_.a_size;
    } else {
      job.lda = l_.a_pack_ld;
      if (l_.a_pack_whole_k) {
        const int64_t rows = std::min(l_.m, row1 * l_.tile_rows) - first_row;
        pack_rows(l_, p_, a, first_row, rows, job.k_begin, job.k_end - job.k_begin, a_pack);
      } else {
        job.a_buffer = a_pack;
      }
    }
    for (int64_t c = col0; c < col1; ++c) {
      job.col = c * l_.tile_cols;
      job.cols = std::min(l_.tile_cols, l_.root_cols - job.col);
      for (int64_t r = row0; r < row1; ++r) {
        job.row = r * l_.tile_rows;
        job.rows = std::min(l_.tile_rows, l_.m - job.row);
        if (l_.a_direct) {
          job.a = a + (job.row * p_.a_row + job.k_begin * (l_.k > 1 ? p_.a_k : 0)) * l_.a_size;
        } else if (l_.a_pack_whole_k) {
          job.a = a_pack + (job.row - first_row) * l_.a_pack_ld;
        } else {
          job.a = a;
        }
        tile(job, slice, batch, r, c, scratch);
      }
    }
    if (l_.set->padded) l_.table->leave();
    if (map_.retain == Retain::RowPanel) {
      run_rows(0, batch, row0, scratch, first_after_tile_phases());
    }
  }

  void tile(const TileJob& job, int64_t slice, int64_t batch, int64_t r, int64_t c, std::byte* scratch) {
    if (epilogue_ == nullptr && map_.retain == Retain::None) {
      std::byte* out = static_cast<std::byte*>(store_->data) +
                       (batch * store_->batch_stride + job.row * store_->row_stride + job.col) * l_.acc_size;
      compute_tile(l_, p_, job, scratch, out, store_->row_stride * l_.acc_size);
      return;
    }
    std::byte* acc = scratch;
    if (map_.retain == Retain::RowPanel) acc = scratch + c * l_.tile_bytes;
    if (map_.retain == Retain::Whole) acc = kept(slice, batch, r, c);
    compute_tile(l_, p_, job, acc, nullptr, 0);
    if (epilogue_ == nullptr || l_.slices > 1) return;
    for (int i = 0; i < first_after_tile_phases(); ++i) call(i, batch, r, c, acc);
  }

  std::byte* kept(int64_t slice, int64_t batch, int64_t r, int64_t c) {
    return memory_ + map_.accumulators +
           static_cast<size_t>((((slice * l_.batch + batch) * l_.tiles_r + r) * l_.tiles_c + c) * l_.tile_bytes);
  }

  // The leading phases of the first segment that need nothing but their tile run while it is hot.
  int first_after_tile_phases() const {
    int i = 0;
    if (map_.segments == 0) return 0;
    while (i < map_.segment[0].end && phase(i).scope == Scope::Tile && phase(i).space == Space::Tiles) ++i;
    return i;
  }

  // ---- phases ----
  void call(int i, int64_t batch, int64_t r, int64_t c, const std::byte* acc) const {
    const Phase& ph = phase(i);
    abi::Tile t = tile_of(ph, i, map_.grid, l_.tile_rows, l_.tile_cols, batch, r, c);
    t.acc = ph.accumulators && ph.space == Space::Tiles ? acc : nullptr;
    t.acc_ld = l_.acc_ld;
    t.acc_col_stride = l_.acc_col_stride;
    t.acc_part_stride = l_.acc_part_stride;
    call_epilogue(*epilogue_, args_, t);
  }

  // Phases [from, end) of a segment over one row of tiles; `panel` holds its accumulators (RowPanel) or is null.
  void run_rows(int s, int64_t batch, int64_t r, const std::byte* panel, int from) {
    const Segment& segment = map_.segment[s];
    for (int i = from; i < segment.end; ++i) {
      const Phase& ph = phase(i);
      if (ph.scope == Scope::RowPanel) finish_rows(segment.begin, i, batch, r);
      if (ph.space == Space::Rows) {
        call(i, batch, r, 0, nullptr);
        continue;
      }
      for (int64_t c = 0; c < l_.tiles_c; ++c) {
        const std::byte* acc = panel != nullptr               ? panel + c * l_.tile_bytes
                               : map_.retain == Retain::Whole ? kept(0, batch, r, c)
                                                              : nullptr;
        call(i, batch, r, c, acc);
      }
    }
  }

  // Row reductions written in phases [begin, i), for the rows of tile row r.
  void finish_rows(int begin, int i, int64_t batch, int64_t r) const {
    const int64_t row = r * l_.tile_rows;
    reductions_.finish_rows(begin, i, batch, row, std::min(l_.m, row + l_.tile_rows));
  }

  void run_segment(int s, bool tiles) {
    const Segment& segment = map_.segment[s];
    const Phase& first = phase(segment.begin);
    if (first.space == Space::Once) {
      call(segment.begin, 0, 0, 0, nullptr);
      return;
    }
    if (first.space == Space::Columns) {
      for_units(l_.batch * l_.tiles_c, [&](int64_t u, int) {
        call(segment.begin, u / std::max<int64_t>(l_.tiles_c, 1), 0, u % std::max<int64_t>(l_.tiles_c, 1), nullptr);
      });
      return;
    }
    int from = segment.begin;
    if (s == 0 && tiles) {
      if (map_.retain == Retain::RowPanel) return;  // the compute pass ran them all
      if (l_.slices == 1) from = first_after_tile_phases();
      if (from == segment.end) return;
    }
    for_units(l_.batch * l_.tiles_r, [&](int64_t u, int) {
      const int64_t batch = u / l_.tiles_r, r = u % l_.tiles_r;
      if (s == 0 && l_.slices > 1) {
        for (int64_t c = 0; c < l_.tiles_c; ++c) add_slices(batch, r, c);
      }
      run_rows(s, batch, r, nullptr, from);
    });
  }

  void add_slices(int64_t batch, int64_t r, int64_t c) {
    std::byte* sum = kept(0, batch, r, c);
    const int64_t rows = std::min(l_.tile_rows, l_.m - r * l_.tile_rows);
    const int64_t count = rows * l_.acc_ld;
    for (int64_t s = 1; s < l_.slices; ++s) {
      const std::byte* part = kept(s, batch, r, c);
      if (l_.product == abi::Product::int64) {
        add(reinterpret_cast<uint64_t*>(sum), reinterpret_cast<const uint64_t*>(part), count);
      } else if (l_.product == abi::Product::f64) {
        add(reinterpret_cast<double*>(sum), reinterpret_cast<const double*>(part), count);
      } else if (l_.product == abi::Product::f32 || l_.product == abi::Product::bf16) {
        add(reinterpret_cast<float*>(sum), reinterpret_cast<const float*>(part), count);
      } else {
        add(reinterpret_cast<uint32_t*>(sum), reinterpret_cast<const uint32_t*>(part), count);
      }
    }
  }
  template <class T>
  static void add(T* __restrict sum, const T* __restrict part, int64_t count) {
    for (int64_t i = 0; i < count; ++i) sum[i] += part[i];
  }

 public:
  // A plain store with k split: the summed tiles are copied out.
  void store_kept() {
    for_units(l_.batch * l_.tiles_r, [&](int64_t u, int) {
      const int64_t batch = u / l_.tiles_r, r = u % l_.tiles_r;
      for (int64_t c = 0; c < l_.tiles_c; ++c) {
        add_slices(batch, r, c);
        const std::byte* acc = kept(0, batch, r, c);
        const int64_t row = r * l_.tile_rows, col = c * l_.tile_cols;
        const int64_t rows = std::min(l_.tile_rows, l_.m - row), cols = std::min(l_.tile_cols, l_.n - col);
        for (int64_t i = 0; i < rows; ++i) {
          std::copy_n(acc + i * l_.acc_ld * l_.acc_size, cols * l_.acc_size,
                      static_cast<std::byte*>(store_->data) +
                          (batch * store_->batch_stride + (row + i) * store_->row_stride + col) * l_.acc_size);
        }
      }
    });
  }
  void all_stored() {
    if (l_.batch <= 0 || l_.m <= 0 || l_.n <= 0) return;
    compute();
    if (map_.retain == Retain::Whole) store_kept();
  }

 private:
  const Layout& l_;
  const GemmProblem& p_;
  const EpilogueCall* epilogue_;
  const StoreTile* store_;
  ThreadPool* pool_ = nullptr;
  std::byte* memory_;
  WorkspaceMap map_;
  abi::EpilogueArgs args_{};
  RunningReductions reductions_;
};

// Batch items as further rows of one product.
class Folding {
 public:
  explicit Folding(const GemmProblem& problem) : problem_(problem) {
    items_ = problem.batch;
    const bool packed_items =
        problem.packed_b != nullptr && static_cast<const PackedHeader*>(problem.packed_b)->batches != 1;
    const int64_t rows = fold::rows_of_all(items_, problem.m, problem.a_batch, problem.a_row, problem.one_b() ? 0 : 1);
    possible_ = rows != 0 && !packed_items && problem.inner == 0;
    if (!possible_) return;
    if (problem.m == 1) problem_.a_row = problem.a_batch;
    problem_.m = rows;
    problem_.batch = 1;
    problem_.a_batch = 0;
  }

  const GemmProblem& problem_of(const GemmProblem& given, const EpilogueCall& epilogue) {
    const int32_t count = epilogue.folding_operands;
    if (!possible_ || count < 0 || count > package::max_folded_operands || epilogue.operands == nullptr) return given;
    for (int32_t i = 0; i < count; ++i) {
      operands_[i] = epilogue.operands[i];
      int64_t* stride = operands_[i].stride;
      if (!fold::follow(given.m, stride[0], stride[1])) return given;
      if (given.m == 1) stride[1] = stride[0];
      stride[0] = 0;
    }
    call_ = epilogue;
    call_.operands = operands_;
    folded_ = true;
    return problem_;
  }
  const EpilogueCall& call_of(const EpilogueCall& given) const { return folded_ ? call_ : given; }

  // With operands that allow it.
  [[nodiscard]] const GemmProblem& best() const { return problem_; }
  const GemmProblem& problem_of(const GemmProblem& given, StoreTile& store) const {
    if (!possible_ || !fold::follow(given.m, store.batch_stride, store.row_stride)) return given;
    if (given.m == 1) store.row_stride = store.batch_stride;
    return problem_;
  }

 private:
  GemmProblem problem_;
  EpilogueCall call_;
  abi::Operand operands_[package::max_folded_operands];
  int64_t items_ = 1;
  bool possible_ = false, folded_ = false;
};

}  // namespace

size_t workspace_size(const CpuGemmConfig& config, const GemmProblem& problem, const EpilogueCall& epilogue,
                      int threads) {
  Folding folding(problem);
  const GemmProblem& p = folding.problem_of(problem, epilogue);
  const auto total = [&](const GemmProblem& of) {
    return map_workspace(resolve(config, of), of, &epilogue, threads).total;
  };
  return &p == &problem ? total(problem) : std::max(total(p), total(problem));
}

size_t workspace_size(const CpuGemmConfig& config, const GemmProblem& problem, int threads) {
  const auto total = [&](const GemmProblem& of) {
    return map_workspace(resolve(config, of), of, nullptr, threads).total;
  };
  return std::max(total(problem), total(Folding(problem).best()));
}

void run(const CpuGemmConfig& config, const GemmProblem& problem, const EpilogueCall& epilogue, ThreadPool* pool,
         void* workspace) {
  Folding folding(problem);
  const GemmProblem& p = folding.problem_of(problem, epilogue);
  const Layout l = resolve(config, p);
  Run(l, p, &folding.call_of(epilogue), nullptr, pool, workspace).all();
}

void run(const CpuGemmConfig& config, const GemmProblem& problem, const StoreTile& store, ThreadPool* pool,
         void* workspace) {
  StoreTile to = store;
  const Folding folding(problem);
  const GemmProblem& p = folding.problem_of(problem, to);
  const Layout l = resolve(config, p);
  Run(l, p, nullptr, &to, pool, workspace).all_stored();
}

}  // namespace codetta::runtime::cpu
