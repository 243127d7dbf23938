// SPDX-License-Identifier: Apache-2.0
// Random problems for the CPU engine with exactly sized buffers, and their naive reference.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "device/cpu/micro/table.hpp"
#include "runtime/cpu/gemm.hpp"
#include "types/convert.hpp"

namespace codetta::runtime::cpu::test {

using types::load_f64;
using types::store_f64;

// 64-byte aligned, exactly sized (so that a sanitizer sees any access beyond it), poisoned.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : bytes_(bytes) {
    if (posix_memalign(&data_, 64, bytes == 0 ? 1 : bytes) != 0) std::abort();
    std::memset(data_, 0xfb, bytes == 0 ? 1 : bytes);  // a NaN in every float type, an odd value in every integer
  }
  Buffer(Buffer&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(o.bytes_) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() { std::free(data_); }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] std::byte* at(int64_t offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

enum class Order { RowMajor, ColumnMajor, Padded, ColumnPadded, Reversed, Spread };
inline constexpr Order all_orders[] = {Order::RowMajor,     Order::ColumnMajor, Order::Padded,
                                       Order::ColumnPadded, Order::Reversed,    Order::Spread};

// A batch of matrices in some layout.
struct Matrix {
  Matrix(DType type, int64_t batches, int64_t r, int64_t c, Order order, bool same_for_all = false)
      : dtype(type), rows(r), cols(c) {
    switch (order) {
      case Order::RowMajor:
        row = c;
        col = 1;
        break;
      case Order::ColumnMajor:
        row = 1;
        col = r;
        break;
      case Order::Padded:
        row = c + 3;
        col = 1;
        break;
      case Order::ColumnPadded:
        row = 1;
        col = r + 5;
        break;
      case Order::Reversed:
        row = -c;
        col = 1;
        break;
      case Order::Spread:
        row = 2 * c + 1;
        col = 2;
        break;
    }
    const int64_t extent = r == 0 || c == 0 ? 0 : (r - 1) * std::abs(row) + (c - 1) * std::abs(col) + 1;
    batch = same_for_all ? 0 : extent;
    const int64_t count = extent * (same_for_all ? 1 : batches);
    storage = std::make_unique<Buffer>(static_cast<size_t>(count * dtype_size(dtype)));
    origin = row < 0 ? (1 - r) * row : 0;
  }
  [[nodiscard]] void* data() const { return storage->at(origin * dtype_size(dtype)); }
  [[nodiscard]] void* at(int64_t b, int64_t r, int64_t c) const {
    return static_cast<std::byte*>(data()) +
           (items::place(b, batch, skip, inner) + r * row + c * col) * dtype_size(dtype);
  }
  // Every `per`-th item first, then those behind them.
  void interleave(int64_t batches, int64_t per) {
    const int64_t extent = batch;
    inner = per;
    batch = extent * (batches / per);
    skip = extent - batch * per;
  }
  // `per` items share a matrix.
  void share(int64_t per) {
    inner = per;
    skip = std::exchange(batch, 0);
  }
  [[nodiscard]] bool one() const { return batch == 0 && skip == 0; }
  [[nodiscard]] double get(int64_t b, int64_t r, int64_t c) const { return load_f64(at(b, r, c), dtype); }

  DType dtype;
  int64_t rows, cols, row = 0, col = 1, batch = 0, origin = 0, skip = 0, inner = 0;
  std::unique_ptr<Buffer> storage;
};

// Small integers, exact in every dtype and in every order of summation.
inline void fill_integers(Matrix& m, int64_t batches, std::mt19937& gen) {
  const bool is_unsigned =
      m.dtype == DType::u8 || m.dtype == DType::u16 || m.dtype == DType::u32 || m.dtype == DType::u64;
  const int low = m.dtype == DType::boolean || is_unsigned ? 0 : -4;
  const int high = m.dtype == DType::boolean ? 1 : 4;
  std::uniform_int_distribution<int> values(low, high);
  for (int64_t b = 0; b < (m.one() ? 1 : batches); ++b) {
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = 0; c < m.cols; ++c) store_f64(m.at(b, r, c), m.dtype, values(gen));
    }
  }
}
// The whole range of the 8-bit types.
inline void fill_bytes(Matrix& m, int64_t batches, std::mt19937& gen) {
  for (int64_t b = 0; b < (m.one() ? 1 : batches); ++b) {
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = 0; c < m.cols; ++c) {
        const auto v = static_cast<uint8_t>(gen() % 5 == 0 ? (gen() % 2 == 0 ? 0x80 : 0xff) : gen());
        std::memcpy(m.at(b, r, c), &v, 1);
      }
    }
  }
}

struct Case {
  CpuGemmConfig config;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Order a_order = Order::RowMajor, b_order = Order::RowMajor;
  SplitForm split{};
  bool packed = false;
  bool same_b = false;
  bool full_bytes = false;
  int threads = 1;
  int64_t inner = 0;      // > 0: items lie in another order, so many of them at one stride
  bool shares_b = false;  // then: so many share a B
};

inline std::string describe(const Case& c) {
  return "family " + std::to_string(static_cast<int>(c.config.family)) + " isa " + std::string(isa_name(c.config.isa)) +
         " " + std::string(dtype_name(c.config.a_dtype)) + " x " + std::string(dtype_name(c.config.b_dtype)) + " -> " +
         std::string(dtype_name(c.config.accumulator)) + " block " + std::to_string(c.config.mr) + "x" +
         std::to_string(c.config.nr) + " tile " + std::to_string(c.config.tile_rows) + "x" +
         std::to_string(c.config.tile_cols) + " kc " + std::to_string(c.config.kc) + " split-k " +
         std::to_string(c.config.k_split) + " | " + std::to_string(c.batch) + " x " + std::to_string(c.m) + "x" +
         std::to_string(c.n) + "x" + std::to_string(c.k) + " orders " + std::to_string(static_cast<int>(c.a_order)) +
         "," + std::to_string(static_cast<int>(c.b_order)) + " ways " + std::to_string(c.split.ways) + " chunk " +
         std::to_string(c.split.chunk) + (c.packed ? " packed" : "") + (c.same_b ? " same-b" : "") +
         (c.inner > 0 ? " inner " + std::to_string(c.inner) + (c.shares_b ? " shares-b" : "") : "") +
         (c.config.pack_a ? " pack-a" : "") + " threads " + std::to_string(c.threads);
}

struct Problem {
  Problem(const Case& c, uint32_t seed)
      : a(c.config.a_dtype, c.batch, c.m, c.k, c.a_order), b(c.config.b_dtype, c.batch, c.k, c.n, c.b_order, c.same_b) {
    if (c.inner > 0) {
      a.interleave(c.batch, c.inner);
      c.shares_b ? b.share(c.inner) : b.interleave(c.batch, c.inner);
    }
    std::mt19937 gen(seed);
    if (c.full_bytes) {
      fill_bytes(a, c.batch, gen);
      fill_bytes(b, c.batch, gen);
    } else {
      fill_integers(a, c.batch, gen);
      fill_integers(b, c.batch, gen);
    }
    problem.batch = c.batch;
    problem.m = c.m;
    problem.n = c.n;
    problem.k = c.k;
    problem.a = a.data();
    problem.a_batch = a.batch;
    problem.a_row = a.row;
    problem.a_k = a.col;
    problem.b = b.data();
    problem.b_batch = b.batch;
    problem.b_k = b.row;
    problem.b_col = b.col;
    problem.inner = c.inner, problem.a_skip = a.skip, problem.b_skip = b.skip;
    problem.split = c.split;
    if (c.packed && packed_size(c.config, problem) > 0) {
      packed = std::make_unique<Buffer>(packed_size(c.config, problem));
      pack_b(c.config, problem, nullptr, packed->data());
      problem.packed_b = packed->data();
    }
  }
  // All products, [batch][m][n]; call after the last change of a or b.
  [[nodiscard]] std::vector<double> expected() const {
    const auto dense = [&](const Matrix& matrix) {
      std::vector<double> v;
      for (int64_t i = 0; i < (matrix.one() ? 1 : problem.batch); ++i) {
        for (int64_t r = 0; r < matrix.rows; ++r) {
          for (int64_t c = 0; c < matrix.cols; ++c) v.push_back(matrix.get(i, r, c));
        }
      }
      return v;
    };
    const std::vector<double> da = dense(a), db = dense(b);
    std::vector<double> out(static_cast<size_t>(problem.batch * problem.m * problem.n), 0.0);
    for (int64_t i = 0; i < problem.batch; ++i) {
      for (int64_t r = 0; r < problem.m; ++r) {
        for (int64_t k = 0; k < problem.k; ++k) {
          const double v = da[static_cast<size_t>(((a.one() ? 0 : i) * problem.m + r) * problem.k + k)];
          const double* row = db.data() + ((b.one() ? 0 : i) * problem.k + k) * problem.n;
          double* o = out.data() + (i * problem.m + r) * problem.n;
          for (int64_t c = 0; c < problem.n; ++c) o[c] += v * row[c];
        }
      }
    }
    return out;
  }
  Matrix a, b;
  std::unique_ptr<Buffer> packed;
  GemmProblem problem;
};

// Column of the product that is part j of root column c.
inline int64_t split_column(const SplitForm& s, int64_t c, int64_t j) {
  return s.ways == 1 ? c : c / s.chunk * (s.chunk * s.ways) + j * s.chunk + c % s.chunk;
}

inline std::vector<CpuIsa> usable_isas() {
  std::vector<CpuIsa> out;
  for (CpuIsa isa : {CpuIsa::generic, CpuIsa::neon, CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512_vnni,
                     CpuIsa::avx512_bf16, CpuIsa::amx}) {
    if (codetta::cpu::micro_table(isa) != nullptr && cpu_supports(isa)) out.push_back(isa);
  }
  return out;
}

// Copies the accumulators (as double) to [batch][m][n] of the product's own column order.
struct CopyOut {
  std::vector<double> values;
  std::vector<int> writes;
  int64_t m = 0, n = 0;
  DType accumulator = DType::f32;
  SplitForm split;

  explicit CopyOut(const Case& c)
      : values(static_cast<size_t>(c.batch * c.m * c.n), -1e300),
        writes(values.size(), 0),
        m(c.m),
        n(c.n),
        accumulator(c.config.accumulator),
        split(c.split) {}
  static void call(void* context, const abi::EpilogueArgs*, const abi::Tile* t) {
    auto& self = *static_cast<CopyOut*>(context);
    for (int64_t r = 0; r < t->rows; ++r) {
      for (int64_t c = 0; c < t->cols; ++c) {
        for (int64_t j = 0; j < self.split.ways; ++j) {
          const int64_t at = r * t->acc_ld + c * t->acc_col_stride + j * t->acc_part_stride;
          const size_t size = self.accumulator == DType::f64 || self.accumulator == DType::i64 ? 8 : 4;
          const double v =
              load_f64(static_cast<const std::byte*>(t->acc) + static_cast<size_t>(at) * size, self.accumulator);
          const auto i =
              static_cast<size_t>((t->batch * self.m + t->row + r) * self.n + split_column(self.split, t->col + c, j));
          self.values[i] = v;
          ++self.writes[i];
        }
      }
    }
  }
};

inline constexpr Phase one_phase[] = {Phase{}};

// Runs a case through the epilogue and, where possible, through the plain store; compares every element exactly.
inline void check(const Case& c, uint32_t seed = 1) {
  SCOPED_TRACE(describe(c));
  const Problem p(c, seed);
  std::unique_ptr<ThreadPool> pool = c.threads > 1 ? make_thread_pool(c.threads) : nullptr;
  CopyOut out(c);
  EpilogueCall epilogue;
  epilogue.interpret = &CopyOut::call;
  epilogue.context = &out;
  epilogue.phases = one_phase;
  {
    const Buffer workspace(workspace_size(c.config, p.problem, epilogue, c.threads));
    run(c.config, p.problem, epilogue, pool.get(), workspace.data());
  }
  const bool wraps = c.config.accumulator == DType::i32;
  std::vector<double> want = p.expected();
  int shown = 0;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        const auto at = static_cast<size_t>((b * c.m + i) * c.n + j);
        if (wraps) want[at] = static_cast<double>(static_cast<int32_t>(static_cast<int64_t>(want[at])));
        if ((out.values[at] != want[at] || out.writes[at] != 1) && shown++ < 3) {
          ADD_FAILURE() << "at " << b << "," << i << "," << j << ": " << out.values[at] << " instead of " << want[at]
                        << ", written " << out.writes[at] << " times";
        }
      }
    }
  }
  if (c.split.ways > 1 || shown > 0) return;
  const int64_t size = wraps || c.config.accumulator == DType::f32 ? 4 : 8;
  const int64_t ld = c.n + 2;
  const int64_t extent = c.m == 0 || c.n == 0 ? 0 : (c.m - 1) * ld + c.n;
  const Buffer stored(static_cast<size_t>(extent * c.batch * size));
  const Buffer workspace(workspace_size(c.config, p.problem, c.threads));
  run(c.config, p.problem, StoreTile{stored.data(), extent, ld}, pool.get(), workspace.data());
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < ld && i * ld + j < extent; ++j) {
        const std::byte* at = stored.at((b * extent + i * ld + j) * size);
        if (j >= c.n) {  // the gap between rows stays as it was
          for (int64_t x = 0; x < size && shown < 3; ++x) {
            if (at[x] != std::byte{0xfb}) {
              ADD_FAILURE() << "store wrote beyond row " << i, ++shown;
            }
          }
          continue;
        }
        const double v = load_f64(at, c.config.accumulator);
        const double w = want[static_cast<size_t>((b * c.m + i) * c.n + j)];
        if (v != w && shown++ < 3)
          ADD_FAILURE() << "store at " << b << "," << i << "," << j << ": " << v << " instead of " << w;
      }
    }
  }
}

}  // namespace codetta::runtime::cpu::test
