// SPDX-License-Identifier: Apache-2.0
// Several products of one A in one run, and factors that are made where they are packed, against the same products one
// by one over factors in memory: equal bits.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "codetta/target.hpp"
#include "device/cpu/micro/blocks.hpp"
#include "runtime/cpu/gemm.hpp"
#include "runtime/cpu/layout.hpp"
#include "runtime/cpu/thread_pool.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::runtime::cpu {
namespace {

// Accumulators of every part at every root element: [part][batch][row][column].
struct Collected {
  int64_t batch = 1, m = 0, cols = 0, ways = 1, bytes = 4;
  std::vector<std::byte> elements;

  static void collect(void* context, const abi::EpilogueArgs*, const abi::Tile* t) {
    auto& self = *static_cast<Collected*>(context);
    for (int64_t part = 0; part < self.ways; ++part) {
      for (int64_t r = 0; r < t->rows; ++r) {
        for (int64_t c = 0; c < t->cols; ++c) {
          const int64_t from = r * t->acc_ld + c * t->acc_col_stride + part * t->acc_part_stride;
          const int64_t to = ((part * self.batch + t->batch) * self.m + t->row + r) * self.cols + t->col + c;
          std::memcpy(&self.elements[static_cast<size_t>(to * self.bytes)],
                      static_cast<const std::byte*>(t->acc) + from * self.bytes, static_cast<size_t>(self.bytes));
        }
      }
    }
  }
};

std::vector<std::byte> accumulators(const CpuGemmConfig& config, const GemmProblem& problem, ThreadPool* pool) {
  Collected all;
  all.batch = problem.batch;
  all.m = problem.m;
  all.ways = std::max(1, problem.split.ways);
  all.cols = problem.n / all.ways;
  all.bytes = dtype_bytes(config.accumulator);
  all.elements.assign(static_cast<size_t>(all.ways * all.batch * all.m * all.cols * all.bytes), std::byte{0xAB});
  const Phase phase;
  EpilogueCall call;
  call.interpret = &Collected::collect;
  call.context = &all;
  call.phases = {&phase, 1};
  const size_t size = workspace_size(config, problem, call, pool == nullptr ? 1 : pool->size());
  std::vector<std::byte> memory(size + 64, std::byte{0x5A});
  void* workspace = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  run(config, problem, call, pool, workspace);
  return all.elements;
}

// A made factor: its elements are copied from one that lies in memory.
struct Made {
  const std::byte* from = nullptr;  // [rows, cols] of the made space
  int64_t cols = 0, bytes = 4;
  abi::Operand output{};

  static void make(void* context, const abi::EpilogueArgs* args, const abi::Tile* t) {
    const auto& self = *static_cast<const Made*>(context);
    const abi::Operand& to = args->operands[0];
    for (int64_t r = t->row; r < t->row + t->rows; ++r) {
      for (int64_t c = t->col; c < t->col + t->cols; ++c) {
        const uintptr_t at = reinterpret_cast<uintptr_t>(to.data) +
                             static_cast<uintptr_t>((r * to.stride[1] + c * to.stride[2]) * self.bytes);
        std::memcpy(reinterpret_cast<void*>(at), self.from + (r * self.cols + c) * self.bytes,
                    static_cast<size_t>(self.bytes));
      }
    }
  }
};

struct Types {
  DType a, b, accumulator;
};
constexpr Types all_types[] = {{DType::f32, DType::f32, DType::f32},   {DType::f64, DType::f64, DType::f64},
                               {DType::bf16, DType::bf16, DType::f32}, {DType::f16, DType::f16, DType::f32},
                               {DType::f32, DType::bf16, DType::f32},  {DType::u8, DType::i8, DType::i32},
                               {DType::i8, DType::i8, DType::i32},     {DType::f32, DType::f8e4m3, DType::f32}};

std::vector<CpuIsa> levels() {
  std::vector<CpuIsa> result;
  for (CpuIsa isa : {CpuIsa::generic, CpuIsa::neon, CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512_vnni,
                     CpuIsa::avx512_bf16, CpuIsa::amx}) {
    if (abi::micro_table(isa) != nullptr && cpu_supports(isa)) result.push_back(isa);
  }
  return result;
}

class RandomProducts {
 public:
  explicit RandomProducts(uint32_t seed) : random_(seed) {}

  void check(CpuIsa isa) {
    const Types t = all_types[pick(std::size(all_types))];
    CpuGemmConfig config;
    constexpr CpuFamily families[] = {CpuFamily::Packed, CpuFamily::InPlace, CpuFamily::Convert};
    config.family = t.a == t.b ? families[pick(3)] : CpuFamily::Convert;
    config.isa = isa;
    config.a_dtype = t.a;
    config.b_dtype = t.b;
    config.accumulator = t.accumulator;
    config.mr = static_cast<int32_t>(1 + pick(8));
    config.nr = 16 << pick(3);
    config.tile_rows = static_cast<int32_t>(1 + pick(60));
    config.tile_cols = config.nr * static_cast<int32_t>(1 + pick(3));
    config.kc = static_cast<int32_t>(1 + pick(200));
    config.mc = static_cast<int32_t>(1 + pick(100));
    config.k_split = pick(4) == 0 ? 2 : 1;
    config.pack_a = pick(3) == 0;
    GemmProblem p;
    p.products = static_cast<int32_t>(1 + pick(4));
    const int64_t own = 1 + pick(3), chunk = 1 + pick(20);
    const int64_t columns = own * chunk * (1 + pick(4));
    p.batch = pick(3) == 0 ? 3 : 1;
    p.m = 1 + pick(70);
    p.n = columns * p.products;
    p.k = pick(10) == 0 ? 0 : 1 + pick(300);
    p.split = {static_cast<int32_t>(own) * p.products, own == 1 && p.products == 1 ? 0 : chunk};
    const std::vector<std::byte> a = elements(p.batch * p.m * p.k, t.a);
    p.a = a.data();
    const bool a_columns = pick(4) == 0;
    p.a_batch = p.m * p.k;
    p.a_row = a_columns ? 1 : p.k;
    p.a_k = a_columns ? p.m : 1;
    const bool made = pick(3) == 0, same_b = made || pick(2) == 0, same_order = made || pick(3) != 0;
    const bool b_columns = pick(2) == 0;
    std::vector<std::vector<std::byte>> bytes;
    std::vector<FactorB> factors;
    for (int32_t i = 0; i < p.products; ++i) {
      const bool by_column = same_order ? b_columns : pick(2) == 0;
      bytes.push_back(elements((same_b ? 1 : p.batch) * p.k * columns, t.b));
      factors.push_back(
          {bytes.back().data(), same_b ? 0 : p.k * columns, by_column ? 1 : columns, by_column ? p.k : 1});
    }
    std::unique_ptr<ThreadPool> pool = pick(2) == 0 ? make_thread_pool(3) : nullptr;
    // One by one; every product has its parts behind those of the one in front.
    std::vector<std::byte> want;
    for (const FactorB& factor : factors) {
      GemmProblem one = p;
      one.products = 1;
      one.n = columns;
      one.split = {static_cast<int32_t>(own), own == 1 ? 0 : chunk};
      one.b = factor.data;
      one.b_batch = factor.batch;
      one.b_k = factor.k;
      one.b_col = factor.col;
      const auto accumulated = accumulators(config, one, nullptr);
      want.insert(want.end(), accumulated.begin(), accumulated.end());
    }
    p.b = factors[0].data;
    p.b_batch = factors[0].batch;
    p.b_k = factors[0].k;
    p.b_col = factors[0].col;
    for (int32_t i = 1; i < p.products; ++i) p.more_b[i - 1] = factors[static_cast<size_t>(i)];
    std::vector<Made> contexts(static_cast<size_t>(p.products));
    std::vector<BlockMaker> makers(static_cast<size_t>(p.products));
    if (made) {
      for (size_t i = 0; i < makers.size(); ++i) {
        contexts[i].from = bytes[i].data();
        contexts[i].cols = b_columns ? p.k : columns;
        contexts[i].bytes = dtype_bytes(t.b);
        makers[i].interpret = &Made::make;
        makers[i].context = &contexts[i];
        makers[i].operands = &contexts[i].output;
        makers[i].operand_count = 1;
        makers[i].transposed = b_columns;
      }
      p.makers = makers.data();
      p.b = nullptr;
    }
    EXPECT_EQ(accumulators(config, p, pool.get()), want)
        << isa_name(isa) << " " << p.products << " products, batch " << p.batch << ", " << p.m << " x " << p.n << " x "
        << p.k << ", ways " << p.split.ways << " chunk " << p.split.chunk << (made ? " made" : "")
        << (b_columns ? " by columns" : "") << " family " << static_cast<int>(config.family) << " types "
        << dtype_name(t.a) << " " << dtype_name(t.b) << " nr " << config.nr << " tile " << config.tile_rows << " x "
        << config.tile_cols << " kc " << config.kc;
  }

 private:
  int64_t pick(size_t n) { return static_cast<int64_t>(random_() % n); }
  // Small integers: the order of summation does not matter.
  std::vector<std::byte> elements(int64_t count, DType dtype) {
    std::vector<std::byte> bytes(static_cast<size_t>(count * dtype_bytes(dtype)) + 64);
    for (int64_t i = 0; i < count; ++i) {
      std::byte* at = bytes.data() + i * dtype_bytes(dtype);
      const int64_t value = pick(7) - (dtype == DType::u8 ? 0 : 3);
      if (types::is_float(dtype)) {
        types::store_f64(at, dtype, static_cast<double>(value));
      } else {
        types::store_i64(at, dtype, value);
      }
    }
    return bytes;
  }

  std::mt19937 random_;
};

TEST(Products, OfOneFactorAndMadeGiveTheBitsOfEachAlone) {
  const uint32_t count = CODETTA_TEST_FULL ? 6000 : 600;
  for (const CpuIsa isa : levels()) {
    for (uint32_t seed = 1; seed <= count / levels().size() && !testing::Test::HasFailure(); ++seed)
      RandomProducts(seed + 7919 * static_cast<uint32_t>(isa)).check(isa);
  }
}

}  // namespace
}  // namespace codetta::runtime::cpu
