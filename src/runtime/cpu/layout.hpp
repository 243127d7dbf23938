// SPDX-License-Identifier: Apache-2.0
// Everything that the engine derives from a configuration and a problem before it runs: form, blocking, grid, sizes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/micro/table.hpp"
#include "runtime/cpu/gemm.hpp"

namespace codetta::runtime::cpu {

// How the tiles are computed.
enum class Form : uint8_t {
  Panels,  // B in packed panels of nr columns
  Rows,    // rows of B read in place (its columns are contiguous)
  Dots,    // columns of B read in place (contiguous along k)
};

inline constexpr int64_t line = 64;  // bytes
// Of sizes that are not negative; no sum on the way exceeds the result.
inline int64_t ceil_div(int64_t v, int64_t by) { return v / by + (v % by != 0 ? 1 : 0); }
inline int64_t round_up(int64_t v, int64_t to) { return ceil_div(v, to) * to; }

// Sizes of memory that no machine has end here, so that they are asked for and refused rather than wrap.
inline constexpr int64_t too_many_bytes = int64_t{1} << 60;
// The product of values that are not negative.
template <class... More>
int64_t times(int64_t first, More... more) {
  int64_t product = first < too_many_bytes ? first : too_many_bytes;
  const auto by = [&product](int64_t factor) {
    if (__builtin_mul_overflow(product, factor, &product) || product > too_many_bytes) product = too_many_bytes;
  };
  (by(static_cast<int64_t>(more)), ...);
  return product;
}

struct Layout {
  const abi::MicroTable* table = nullptr;
  const abi::KernelSet* set = nullptr;  // Panels, Rows
  const abi::DotSet* dot = nullptr;     // Dots
  Form form = Form::Panels;
  abi::Product product = abi::Product::f32;
  DType a_dtype = DType::f32, b_dtype = DType::f32;
  int64_t a_size = 4, b_size = 4;  // bytes of one element as the kernels read it
  int64_t acc_size = 4;
  bool a_direct = true;      // A is read where it lies
  bool compensated = false;  // panels carry a row of initial accumulators

  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t ways = 1, chunk = 0;
  int64_t products = 1, own_ways = 1;  // own_ways: parts of one product
  int64_t root_cols = 0;
  int64_t nr = 64, mr = 6;
  int64_t vectors = 4;                     // nr / lanes
  int64_t tile_rows = 48, tile_cols = 64;  // root columns
  int64_t tiles_r = 0, tiles_c = 0;
  int64_t kc = 512;
  int64_t slices = 1, slice_k = 0;
  int64_t group_tiles = 1;       // tile rows that share one packing of A and one pass over B
  bool natural_columns = false;  // Rows with chunk == 1: tiles keep the order of the product's columns
  // B is made where a tile multiplies it, block_made of k at a time: no other tile needs the same.
  bool makes_in_tile = false;
  // Rows: kernels fetch the next block of B while they multiply one, because it comes from beyond the caches of a core.
  bool fetches_b = false;
  bool long_rows = false;       // Rows: a call multiplies whole rows of the tile (KernelSet::long_rows)
  int64_t panels_ahead = 0;     // Panels: bytes between what kernels multiply and what they fetch; 0: they do not
  bool fetches_panels = false;  // Panels: kernels fetch the panel after theirs

  bool short_k = false;  // KernelSet::short_rows hold

  int64_t part_ld = 64, acc_ld = 64;  // elements
  int64_t acc_col_stride = 1, acc_part_stride = 64;
  int64_t tile_bytes = 0;

  // Packed A: row-major, `a_pack_ld` bytes a row, for a group of tile rows and all of k, or for one tile and one kc
  // block (a_pack_whole_k).
  int64_t a_pack_ld = 0, a_pack_bytes = 0;
  bool a_pack_whole_k = true;

  // Packed B: panel q of part j at (q * ways + j) * panel_bytes.
  int64_t panels = 0;  // root panels
  int64_t k_padded = 0;
  int64_t panel_bytes = 0;  // including the compensation row
  int64_t compensation_offset = 0;
  int64_t packed_bytes = 0;  // of one batch item

  // Rows of one kernel call at most, where it is `v` vectors wide. Blocks with a ragged vector gain nothing from being
  // short: loads by masks are what they would repeat.
  [[nodiscard]] int64_t block_rows(int64_t v, bool ragged = false) const {
    const int64_t most = v == vectors ? mr : set->max_rows[v - 1], few = set->short_rows[v - 1];
    return short_k && !ragged && few != 0 && few < most ? few : most;
  }
};

Layout resolve(const CpuGemmConfig& config, const GemmProblem& problem);
int64_t dtype_bytes(DType dtype);

inline constexpr int64_t block_made = 128;  // of k; a multiple of every k unit
inline constexpr int64_t columns_made = 8;  // Dots: columns that are made at a time, for a whole block of k

// Consecutive root columns that are equally spaced columns of their product.
struct ColumnRun {
  int64_t root, column, count, step;
};
// Calls f(ColumnRun) for the root columns [begin, end) of part j.
template <class F>
void for_column_runs(const Layout& l, int64_t begin, int64_t end, int64_t part, F&& f) {
  part %= l.own_ways;
  if (l.own_ways == 1) {
    f(ColumnRun{begin, begin, end - begin, 1});
  } else if (l.chunk == 1) {
    f(ColumnRun{begin, begin * l.own_ways + part, end - begin, l.own_ways});
  } else {
    while (begin < end) {
      const int64_t inside = begin % l.chunk;
      const int64_t count = end - begin < l.chunk - inside ? end - begin : l.chunk - inside;
      f(ColumnRun{begin, begin / l.chunk * (l.chunk * l.own_ways) + part * l.chunk + inside, count, 1});
      begin += count;
    }
  }
}

}  // namespace codetta::runtime::cpu
