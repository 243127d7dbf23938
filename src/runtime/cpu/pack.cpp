// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/pack.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace codetta::runtime::cpu {
namespace {

using abi::Product;

constexpr int64_t block_k = 64;  // k of the transposing and interleaving buffers; a multiple of every group
constexpr int64_t max_nr = 64;

template <class T>
void copy_run(void* dst, const void* src, int64_t n, int64_t stride) {
  if (stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(dst)[i] = static_cast<const T*>(src)[i * stride];
}

// From a stored dtype to what the kernels of the product read.
abi::ConvertRun converter(const Layout& l, DType from) {
  const abi::Packers& packers = *l.table->packers;
  const auto i = static_cast<size_t>(from);
  switch (l.product) {
    case Product::f32:
      return from == DType::f32 ? &copy_run<uint32_t> : packers.to_f32[i];
    case Product::f64:
      return from == DType::f64 ? &copy_run<uint64_t> : packers.to_f64[i];
    case Product::int32:
      return packers.to_i32[i];
    case Product::int64:
      return packers.to_i64[i];
    case Product::int16:
      return packers.to_i16[i];
    case Product::bf16:
      return &copy_run<uint16_t>;
    default:
      return &copy_run<uint8_t>;
  }
}

// Whether conversion would be a copy.
bool reads_b_as_stored(const Layout& l) {
  switch (l.product) {
    case Product::f32:
      return l.b_dtype == DType::f32;
    case Product::f64:
      return l.b_dtype == DType::f64;
    case Product::bf16:
      return true;
    default:
      return false;
  }
}

const std::byte* offset(const void* p, int64_t elements, int64_t size) {
  return static_cast<const std::byte*>(p) + elements * size;
}

// A kernel that makes elements of B, pointed at one block at a time.
class Maker {
 public:
  Maker(const Layout& l, const GemmProblem& p, const BlockMaker& maker, int64_t batch) : maker_(maker) {
    std::copy_n(maker.operands, maker.operand_count, operands_);
    const int64_t n = l.n / l.products;
    args_ = {operands_, maker.scalars, nullptr, nullptr, 1, maker.transposed ? n : l.k, maker.transposed ? l.k : n, 1,
             1};
    tile_.batch = p.one_b() ? 0 : batch;
    bytes_ = dtype_bytes(l.b_dtype);
  }
  // Elements [row, row + rows) x [col, col + cols) of the made space, `ld` elements a row.
  void make(int64_t row, int64_t col, int64_t rows, int64_t cols, std::byte* target, int64_t ld) {
    tile_.row = row;
    tile_.col = col;
    tile_.rows = rows;
    tile_.cols = cols;
    abi::Operand& block = operands_[maker_.output];
    // Its address is that of element (0, 0), which need not be there.
    block.data = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(target) -
                                         static_cast<uintptr_t>((row * ld + col) * bytes_));
    block.stride[0] = 0;
    block.stride[1] = ld;
    block.stride[2] = 1;
    if (maker_.function != nullptr) {
      maker_.function(&args_, &tile_);
    } else {
      maker_.interpret(maker_.context, &args_, &tile_);
    }
  }

 private:
  const BlockMaker& maker_;
  abi::Operand operands_[max_maker_operands];
  abi::EpilogueArgs args_{};
  abi::Tile tile_{};
  int64_t bytes_ = 4;
};

constexpr int64_t made_capacity = max_nr * block_k;  // elements of a block

// Rows [k0, k0 + count) of root columns [begin, end) of a part, converted, l.nr elements a row.
void make_rows(const Layout& l, Maker& maker, int64_t begin, int64_t end, int64_t part, int64_t k0, int64_t count,
               abi::ConvertRun convert, std::byte* rows) {
  alignas(64) std::byte block[made_capacity * 8];
  const int64_t stored = dtype_bytes(l.b_dtype);
  const bool direct = l.own_ways == 1 && reads_b_as_stored(l);
  for_column_runs(l, begin, end, part, [&](const ColumnRun& run) {
    const int64_t across = (run.count - 1) * run.step + 1;
    if (direct) return maker.make(k0, run.column, count, across, rows, l.nr);
    const int64_t most = std::max<int64_t>(1, made_capacity / across);
    for (int64_t k = 0; k < count; k += most) {
      const int64_t now = std::min(most, count - k);
      maker.make(k0 + k, run.column, now, across, block, across);
      for (int64_t r = 0; r < now; ++r) {
        convert(rows + ((k + r) * l.nr + run.root - begin) * l.b_size, block + r * across * stored, run.count,
                run.step);
      }
    }
  });
}

// The same columns, `ld` bytes from one to the next, `count` k of each side by side.
void make_columns(const Layout& l, Maker& maker, int64_t begin, int64_t end, int64_t part, int64_t k0, int64_t count,
                  abi::ConvertRun convert, std::byte* columns, int64_t ld) {
  alignas(64) std::byte block[made_capacity * 8];
  const int64_t stored = dtype_bytes(l.b_dtype);
  const bool direct = reads_b_as_stored(l);
  for_column_runs(l, begin, end, part, [&](const ColumnRun& run) {
    if (direct && run.step == 1)
      return maker.make(run.column, k0, run.count, count, columns + (run.root - begin) * ld, ld / l.b_size);
    for (int64_t c = 0; c < run.count;) {
      const int64_t now = run.step == 1 ? run.count : 1;
      maker.make(run.column + c * run.step, k0, now, count, block, count);
      for (int64_t i = 0; i < now; ++i)
        convert(columns + (run.root - begin + c + i) * ld, block + i * count * stored, count, 1);
      c += now;
    }
  });
}

}  // namespace

void make_block(const Layout& l, const GemmProblem& p, int64_t product, int64_t batch, int64_t row, int64_t col,
                int64_t rows, int64_t cols, std::byte* out, int64_t ld) {
  Maker(l, p, p.makers[product], batch).make(row, col, rows, cols, out, ld);
}

void pack_panel(const Layout& l, const GemmProblem& p, int64_t batch, int64_t panel, int64_t part, std::byte* out) {
  pack_panel_k(l, p, batch, panel, part, 0, l.k_padded, out);
  if (!l.compensated) return;
  const abi::Packers& packers = *l.table->packers;
  const int64_t group = l.set->group;
  int32_t sums[max_nr] = {};
  const auto sum = l.product == Product::s8s8 ? packers.sum_s8 : packers.sum_u8;
  for (int64_t g = 0; g < l.k_padded / group; ++g) sum(sums, out + g * l.nr * group * l.b_size, l.nr);
  const uint32_t factor = l.product == Product::s8s8 ? static_cast<uint32_t>(-128) : 128u;
  for (int32_t& s : sums) s = static_cast<int32_t>(static_cast<uint32_t>(s) * factor);
  std::memcpy(out + l.compensation_offset, sums, static_cast<size_t>(l.nr * 4));
}

void pack_panel_k(const Layout& l, const GemmProblem& p, int64_t batch, int64_t panel, int64_t part, int64_t k_begin,
                  int64_t k_end, std::byte* out) {
  const abi::Packers& packers = *l.table->packers;
  const int64_t product = part / l.own_ways;
  const FactorB factor = p.factor_b(product);
  std::optional<Maker> maker;
  if (p.makers != nullptr) maker.emplace(l, p, p.makers[product], batch);
  const bool columns = p.makers != nullptr ? p.makers[product].transposed : factor.k == 1 && factor.col != 1;
  const abi::ConvertRun convert = converter(l, l.b_dtype);
  const int64_t stored = dtype_bytes(l.b_dtype);
  const std::byte* b =
      maker ? nullptr : offset(factor.data, items::place(batch, factor.batch, factor.skip, p.inner), stored);
  const int64_t group = l.set->group;
  const int64_t begin = panel * l.nr;
  const int64_t end = std::min(begin + l.nr, l.root_cols);
  const int64_t width = end - begin;
  const int64_t row_bytes = l.nr * group * l.b_size;  // of one group of k
  alignas(64) std::byte buffer[max_nr * block_k * 8];

  for (int64_t k0 = k_begin; k0 < k_end; k0 += block_k) {
    const int64_t kb = std::min(block_k, k_end - k0);  // padded
    const int64_t valid = std::clamp<int64_t>(l.k - k0, 0, kb);
    std::byte* dst = out + (k0 - k_begin) / group * row_bytes;
    if (columns) {
      // Gather whole columns, then transpose words: a word is one element, or one group of narrow ones.
      if (width < l.nr || valid < kb) std::memset(buffer, 0, static_cast<size_t>(l.nr * kb * l.b_size));
      if (maker && valid > 0) make_columns(l, *maker, begin, end, part, k0, valid, convert, buffer, kb * l.b_size);
      for_column_runs(l, begin, end, part, [&](const ColumnRun& run) {
        for (int64_t c = 0; c < run.count && !maker; ++c) {
          convert(buffer + (run.root - begin + c) * kb * l.b_size,
                  offset(b, (run.column + c * run.step) * factor.col + k0, stored), valid, 1);
        }
      });
      if (l.b_size == 8) {
        packers.transpose8(dst, l.nr, buffer, kb, kb, l.nr);
      } else {
        packers.transpose4(dst, l.nr, buffer, kb / group, kb / group, l.nr);
      }
      continue;
    }
    // Rows of the panel, straight into place where nothing has to be interleaved.
    std::byte* rows = group == 1 ? dst : buffer;
    if (maker && valid > 0) make_rows(l, *maker, begin, end, part, k0, valid, convert, rows);
    for (int64_t kk = 0; kk < kb; ++kk) {
      std::byte* row = rows + kk * l.nr * l.b_size;
      if (kk >= valid) {
        std::memset(row, 0, static_cast<size_t>(l.nr * l.b_size));
        continue;
      }
      if (!maker) {
        for_column_runs(l, begin, end, part, [&](const ColumnRun& run) {
          convert(row + (run.root - begin) * l.b_size,
                  offset(b, (k0 + kk) * factor.k + run.column * factor.col, stored), run.count, run.step * factor.col);
        });
      }
      if (width < l.nr) std::memset(row + width * l.b_size, 0, static_cast<size_t>((l.nr - width) * l.b_size));
    }
    for (int64_t g = 0; group > 1 && g < kb / group; ++g) {
      const auto interleave = group == 2 ? packers.interleave2 : packers.interleave4;
      interleave(dst + g * row_bytes, buffer + g * row_bytes, l.nr, l.nr);
    }
  }
}

void pack_rows(const Layout& l, const GemmProblem& p, const void* a, int64_t row, int64_t rows, int64_t k0,
               int64_t count, std::byte* out) {
  const abi::Packers& packers = *l.table->packers;
  const abi::ConvertRun convert = converter(l, l.a_dtype);
  const int64_t stored = dtype_bytes(l.a_dtype);
  const int64_t unit = l.set->k_unit > 0 ? l.set->k_unit : l.set->group;
  const int64_t padding = (round_up(count, unit) - count) * l.a_size;
  if (p.a_row == 1 && p.a_k != 1 && rows > 1) {
    // Column-major: gather runs along the rows, then transpose.
    alignas(64) std::byte buffer[64 * block_k * 8];
    const auto transpose = l.a_size == 8   ? packers.transpose8
                           : l.a_size == 4 ? packers.transpose4
                           : l.a_size == 2 ? packers.transpose2
                                           : packers.transpose1;
    for (int64_t r0 = 0; r0 < rows; r0 += 64) {
      const int64_t rb = std::min<int64_t>(64, rows - r0);
      for (int64_t kk = 0; kk < count; kk += block_k) {
        const int64_t kb = std::min(block_k, count - kk);
        for (int64_t i = 0; i < kb; ++i) {
          convert(buffer + i * 64 * l.a_size, offset(a, (k0 + kk + i) * p.a_k + row + r0, stored), rb, 1);
        }
        transpose(out + r0 * l.a_pack_ld + kk * l.a_size, l.a_pack_ld / l.a_size, buffer, 64, rb, kb);
      }
    }
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      convert(out + r * l.a_pack_ld, offset(a, (row + r) * p.a_row + k0 * p.a_k, stored), count, p.a_k);
    }
  }
  if (padding > 0) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memset(out + r * l.a_pack_ld + count * l.a_size, 0, static_cast<size_t>(padding));
    }
  }
  if (l.set->padded) {
    for (int64_t r = rows; r < round_up(rows, l.mr); ++r) {
      std::memset(out + r * l.a_pack_ld, 0, static_cast<size_t>(round_up(count, unit) * l.a_size));
    }
  }
}

}  // namespace codetta::runtime::cpu
