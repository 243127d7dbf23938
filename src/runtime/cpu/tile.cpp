// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/tile.hpp"

#include <algorithm>
#include <cstring>

#include "device/cpu/micro/blocks.hpp"
#include "runtime/cpu/pack.hpp"

namespace codetta::runtime::cpu {
namespace {

// A of the tile's rows for k [k0, k1).
const std::byte* a_block(const Layout& l, const GemmProblem& p, const TileJob& job, int64_t k0, int64_t k1) {
  if (job.a_buffer == nullptr) return job.a + (k0 - job.k_begin) * l.a_size;
  pack_rows(l, p, job.a, job.row, job.rows, k0, k1 - k0, job.a_buffer);
  return job.a_buffer;
}

// The lines that a kernel will overwrite are asked for while it multiplies.
void fetch_for_store(const std::byte* c, int64_t ldc, int64_t rows, int64_t bytes) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < bytes; i += line) __builtin_prefetch(c + r * ldc + i, 1);
  }
}

// How wide the kernels of a panel with this many columns of the tile are: the last one is mostly padding at times.
int64_t panel_vectors(const Layout& l, int64_t cols) {
  if (l.set->padded) return l.vectors;
  int64_t vectors = std::min(l.vectors, ceil_div(cols, l.set->lanes));
  while (l.set->max_rows[vectors - 1] == 0) ++vectors;
  return vectors;
}

// The walk over the rest of a block of a packed panel and the start of the one that is multiplied after it, spread over
// the kernel calls of this one.
abi::Ahead walk_panels(const Layout& l, const TileJob& job, const std::byte* b, const std::byte* after, int64_t ldb,
                       int64_t k, int64_t most) {
  const int64_t bytes = ceil_div(k, l.set->group) * ldb, row_blocks = ceil_div(job.rows, most);
  const int64_t lines = round_up(ceil_div(4 * ceil_div(ldb, line), row_blocks), 4);
  if (bytes <= l.panels_ahead) return {after, 0, bytes, 0, lines, 0, 0};
  const int64_t rest = bytes - l.panels_ahead;
  return {b + l.panels_ahead, after - b - l.panels_ahead, rest, 0, lines, 0, 0};
}

// The same block of k of the next panel, or else the first one of the block below, or of the tile to the right.
const std::byte* next_panel(const Layout& l, const TileJob& job, int64_t q, int64_t panels, int64_t k0, int64_t k1) {
  const bool right = q + 1 < panels, below = k1 < job.k_end;
  const int64_t panel = right ? q + 1 : below ? 0 : panels, k = right ? k0 : below ? k1 : job.k_begin;
  return job.b + (job.col / l.nr + panel) * l.panel_bytes + k / l.set->group * (l.nr * l.set->group * l.b_size);
}

// The walk over `bytes` from `after`, spread evenly over the kernel calls of a panel.
abi::Ahead walk_evenly(const std::byte* after, int64_t bytes, int64_t row_blocks, int64_t steps) {
  const int64_t shares = std::max<int64_t>(1, row_blocks * (steps / 4)), wanted = ceil_div(bytes, 4 * line);
  return {after, 0, bytes, 0, 4 * ceil_div(wanted, shares), std::max<int64_t>(0, shares / wanted - 1), 0};
}

void panel_tile(const Layout& l, const GemmProblem& p, const TileJob& job, std::byte* acc, std::byte* direct,
                int64_t direct_ld) {
  const int64_t group = l.set->group;
  const int64_t ldb = l.nr * group * l.b_size;
  const int64_t acc_ld = l.acc_ld * l.acc_size;
  const int64_t panel_width = l.nr * l.acc_size;
  const int64_t first_panel = job.col / l.nr;
  const int64_t panels = ceil_div(job.cols, l.nr);
  const bool makes = job.b_buffer != nullptr;
  int64_t k0 = job.k_begin;
  do {
    const int64_t k1 = std::min(k0 + (makes ? std::min(block_made, l.kc) : l.kc), job.k_end);
    const std::byte* a = a_block(l, p, job, k0, k1);
    for (int64_t part = 0; part < l.ways; ++part) {
      for (int64_t q = 0; q < panels; ++q) {
        const std::byte* panel = makes ? nullptr : job.b + ((first_panel + q) * l.ways + part) * l.panel_bytes;
        const std::byte* b = makes ? job.b_buffer : panel + k0 / group * ldb;
        const int64_t left = job.cols - q * l.nr, vectors = panel_vectors(l, left), most = l.block_rows(vectors);
        const int64_t width = vectors * l.set->lanes;
        const abi::Kernel* kernels = l.set->full[vectors - 1];
        const abi::FetchingKernel* fetching = nullptr;
        abi::Ahead next{};
        if (!makes && k1 > k0 && (l.panels_ahead != 0 || l.fetches_panels)) {
          fetching = l.set->fetching[vectors - 1];
          const std::byte* after = next_panel(l, job, q, panels, k0, k1);
          const int64_t steps = ceil_div(k1 - k0, group);
          next = l.panels_ahead != 0 ? walk_panels(l, job, b, after, ldb, k1 - k0, most)
                                     : walk_evenly(after, steps * ldb, ceil_div(job.rows, most), steps);
        }
        if (makes) pack_panel_k(l, p, job.batch, first_panel + q, part, k0, k1 < l.k ? k1 : l.k_padded, job.b_buffer);
        const bool whole = direct != nullptr && !l.set->padded && left >= width;
        std::byte* c = whole ? direct + q * panel_width : acc + part * l.part_ld * l.acc_size + q * panel_width;
        const int64_t ldc = whole ? direct_ld : acc_ld;
        for (int64_t r = 0; r < job.rows; r += most) {
          std::byte* cr = c + r * ldc;
          const void* init = cr;
          if (k0 == job.k_begin) {
            if (whole) fetch_for_store(cr, ldc, std::min(most, job.rows - r), width * l.acc_size);
            init = l.compensated && job.first_slice ? panel + l.compensation_offset : nullptr;
          }
          const int64_t rows = std::min(most, job.rows - r);
          if (fetching != nullptr) {
            fetching[rows - 1](a + r * job.lda, job.lda, b, ldb, cr, ldc, k1 - k0, 0, init, &next);
            continue;
          }
          kernels[rows - 1](a + r * job.lda, job.lda, b, ldb, cr, ldc, k1 - k0, 0, init);
        }
      }
    }
    k0 = k1;
  } while (k0 < job.k_end);
  // Only a panel with a ragged vector went through the scratch; padded kernels always do, they write rows that are not
  // there.
  const int64_t last = (panels - 1) * l.nr, rest = job.cols - last;
  const bool ragged = rest < panel_vectors(l, rest) * l.set->lanes;
  const int64_t done = direct == nullptr ? job.cols : l.set->padded ? 0 : ragged ? last : job.cols;
  for (int64_t r = 0; done < job.cols && r < job.rows; ++r) {
    std::memcpy(direct + r * direct_ld + done * l.acc_size, acc + r * acc_ld + done * l.acc_size,
                static_cast<size_t>((job.cols - done) * l.acc_size));
  }
}

// The walk over the columns of a tile from row `b` of B on, spread over the kernel calls of one block of k.
abi::Ahead walk_from(const Layout& l, const TileJob& job, const std::byte* b, int64_t ldb, int64_t cols) {
  const int64_t lines_of_step = ceil_div(l.nr * l.b_size, line), row_blocks = ceil_div(job.rows, l.mr);
  return {b, ldb, cols * l.b_size, 0, round_up(ceil_div(4 * lines_of_step, row_blocks), 4), 0, 0};
}

// Rows of B in place: k rows x `cols` columns from `b`, into `c`.
void rows_block(const Layout& l, const TileJob& job, const std::byte* a, const std::byte* b, int64_t ldb, int64_t cols,
                int64_t k, bool first, std::byte* c, int64_t ldc, abi::Ahead* next) {
  if (job.rows == 1 && cols > l.nr && k > 0 && l.set->long_row != nullptr) {
    const abi::Kernel kernel = abi::fetches_row(*l.set, l.kc) ? l.set->fetching_row : l.set->long_row;
    kernel(a, job.lda, b, ldb, c, ldc, k, cols, first ? nullptr : c);
    return;
  }
  if (l.long_rows && job.rows >= 2) {
    l.set->long_rows[job.rows - 2](a, job.lda, b, ldb, c, ldc, k, cols, first ? nullptr : c);
    return;
  }
  const int64_t lanes = l.set->lanes;
  for (int64_t col = 0; col < cols;) {
    int64_t vectors = std::min(l.vectors, ceil_div(cols - col, lanes));
    while (l.set->max_rows[vectors - 1] == 0) --vectors;
    const int64_t valid = cols - col - (vectors - 1) * lanes;  // in the last vector, if it is the ragged one
    const bool partial = valid < lanes;
    const abi::Kernel* kernels = partial ? l.set->partial[vectors - 1] : l.set->full[vectors - 1];
    const abi::FetchingKernel* fetching = partial || next == nullptr ? nullptr : l.set->fetching[vectors - 1];
    const int64_t most = l.block_rows(vectors, partial);
    const int64_t step = ceil_div(job.rows, ceil_div(job.rows, most));  // equal blocks: no ragged last one
    for (int64_t r = 0; r < job.rows; r += step) {
      std::byte* cr = c + r * ldc + col * l.acc_size;
      const int64_t rows = std::min(step, job.rows - r);
      if (fetching != nullptr) {
        fetching[rows - 1](a + r * job.lda, job.lda, b + col * l.b_size, ldb, cr, ldc, k, valid, first ? nullptr : cr,
                           next);
        continue;
      }
      kernels[rows - 1](a + r * job.lda, job.lda, b + col * l.b_size, ldb, cr, ldc, k, valid, first ? nullptr : cr);
    }
    col += vectors * lanes;
  }
}

void dots_block(const Layout& l, const TileJob& job, const std::byte* a, const std::byte* b, int64_t ldb, int64_t cols,
                int64_t k, bool first, std::byte* c, int64_t ldc, abi::Ahead*) {
  const int64_t rows_step = l.dot->max_rows, cols_step = l.dot->max_cols;
  for (int64_t col = 0; col < cols; col += cols_step) {
    const int64_t nc = std::min(cols_step, cols - col);
    for (int64_t r = 0; r < job.rows; r += rows_step) {
      const int64_t nrows = std::min(rows_step, job.rows - r);
      std::byte* cr = c + r * ldc + col * l.acc_size;
      l.dot->table[(nrows - 1) * cols_step + nc - 1](a + r * job.lda, job.lda, b + col * ldb, ldb, cr, ldc, k, 0,
                                                     first ? nullptr : cr);
    }
  }
}

void in_place_tile(const Layout& l, const GemmProblem& p, const TileJob& job, std::byte* acc, std::byte* direct,
                   int64_t direct_ld) {
  const bool rows = l.form == Form::Rows;
  // Rows of the result a multiple of a page apart share cache sets, and each block of k comes back to them.
  const bool copies = direct != nullptr && rows && l.ways == 1 && direct_ld % 4096 == 0 && job.rows > 8 &&
                      job.k_end - job.k_begin > l.kc;
  std::byte* const result = direct;
  if (copies) direct = nullptr;
  const int64_t ldc = direct != nullptr ? direct_ld : l.acc_ld * l.acc_size;
  const auto block = rows ? &rows_block : &dots_block;
  int64_t k0 = job.k_begin;
  do {
    const int64_t k1 = std::min(k0 + l.kc, job.k_end);
    const bool first = k0 == job.k_begin;
    const std::byte* a = a_block(l, p, job, k0, k1);
    const auto run = [&](int64_t product, int64_t column, int64_t step, int64_t count, std::byte* c) {
      for (int64_t made = 0; job.b_buffer != nullptr && made < count; made += columns_made) {
        const int64_t now = std::min(columns_made, count - made), k = k1 - k0;
        make_block(l, p, product, job.batch, column + made, k0, now, k, job.b_buffer, k);
        block(l, job, a, job.b_buffer, k * l.b_size, now, k, first, c + made * l.acc_size, ldc, nullptr);
      }
      if (job.b_buffer != nullptr) return;
      const FactorB factor = p.factor_b(product);
      const int64_t ldb = (rows ? factor.k : factor.col) * l.b_size;
      const std::byte* b =
          static_cast<const std::byte*>(factor.data) + (items::place(job.batch, factor.batch, factor.skip, p.inner) +
                                                        k0 * (rows ? factor.k : 1) + column * (rows ? 1 : factor.col)) *
                                                           l.b_size;
      abi::Ahead next{};
      if (l.fetches_b) {  // the block of k below, or the first one of the tile to the right
        const bool below = k1 < job.k_end;
        const int64_t from = below ? (k1 - k0) * ldb : (job.k_begin - k0) * ldb + count * l.b_size;
        next = walk_from(l, job, b + from, ldb, count);
      }
      block(l, job, a, b, ldb * (rows ? 1 : step), count, k1 - k0, first, c, ldc, l.fetches_b ? &next : nullptr);
    };
    if (l.natural_columns) {
      run(0, job.col * l.ways, 1, job.cols * l.ways, acc);
    } else {
      for (int64_t part = 0; part < l.ways; ++part) {
        for_column_runs(l, job.col, job.col + job.cols, part, [&](const ColumnRun& r) {
          std::byte* c = direct != nullptr ? direct : acc + part * l.part_ld * l.acc_size;
          run(part / l.own_ways, r.column, r.step, r.count, c + (r.root - job.col) * l.acc_size);
        });
      }
    }
    k0 = k1;
  } while (k0 < job.k_end);
  for (int64_t r = 0; copies && r < job.rows; ++r)
    std::memcpy(result + r * direct_ld, acc + r * ldc, static_cast<size_t>(job.cols * l.acc_size));
}

}  // namespace

void compute_tile(const Layout& l, const GemmProblem& p, const TileJob& job, std::byte* acc, std::byte* direct,
                  int64_t direct_ld) {
  if (l.form == Form::Panels) {
    panel_tile(l, p, job, acc, direct, direct_ld);
  } else {
    in_place_tile(l, p, job, acc, direct, direct_ld);
  }
}

}  // namespace codetta::runtime::cpu
