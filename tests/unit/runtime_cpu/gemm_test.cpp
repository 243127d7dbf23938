// SPDX-License-Identifier: Apache-2.0
// The engine against a naive reference: every product, layout, tail, form and level that this machine can run.
#include "device/cpu/micro/blocks.hpp"
#include "runtime/cpu/tiny.hpp"
#include "runtime/cpu/workspace.hpp"
#include "tests/unit/runtime_cpu/harness.hpp"
#include "types/machine.hpp"

namespace codetta::runtime::cpu::test {
namespace {

struct Types {
  DType a, b, acc;
};
constexpr Types plain_types[] = {{DType::f32, DType::f32, DType::f32},   {DType::f64, DType::f64, DType::f64},
                                 {DType::bf16, DType::bf16, DType::f32}, {DType::f16, DType::f16, DType::f32},
                                 {DType::u8, DType::i8, DType::i32},     {DType::i8, DType::i8, DType::i32},
                                 {DType::u8, DType::u8, DType::i32},     {DType::i8, DType::u8, DType::i32}};

CpuGemmConfig config_for(CpuFamily family, CpuIsa isa, const Types& t) {
  CpuGemmConfig c;
  c.family = family;
  c.isa = isa;
  c.a_dtype = t.a;
  c.b_dtype = t.b;
  c.accumulator = t.acc;
  return c;
}

class Levels : public testing::TestWithParam<CpuIsa> {};
INSTANTIATE_TEST_SUITE_P(Isa, Levels, testing::ValuesIn(usable_isas()),
                         [](const auto& level) { return std::string(isa_name(level.param)); });

TEST_P(Levels, EveryTypeAndOrderWithTails) {
  uint32_t seed = 1;
  for (const Types& t : plain_types) {
    for (CpuFamily family : {CpuFamily::Packed, CpuFamily::InPlace, CpuFamily::Convert}) {
      for (Order a : all_orders) {
        for (Order b : all_orders) {
          Case c;
          c.config = config_for(family, GetParam(), t);
          c.config.kc = 16;
          c.config.tile_rows = 12;
          c.config.mc = 24;
          c.m = 29;
          c.n = 83;
          c.k = 37;
          c.a_order = a;
          c.b_order = b;
          check(c, ++seed);
        }
      }
    }
  }
}

TEST_P(Levels, SampledSizesOneTo65) {
  std::mt19937 gen(static_cast<uint32_t>(GetParam()) + 17);
  const auto size = [&] { return static_cast<int64_t>(1 + gen() % 65); };
  const int count = CODETTA_TEST_FULL ? 4000 : 500;
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    Case c;
    const Types t = plain_types[gen() % std::size(plain_types)];
    constexpr CpuFamily families[] = {CpuFamily::Packed, CpuFamily::InPlace, CpuFamily::Convert};
    c.config = config_for(families[gen() % 3], GetParam(), t);
    constexpr int blocks[][2] = {{6, 64}, {14, 32}, {8, 48}, {16, 16}, {6, 16}, {4, 8}, {5, 32}, {12, 32}};
    const auto& block = blocks[gen() % std::size(blocks)];
    c.config.mr = block[0];
    c.config.nr = block[1];
    c.config.tile_rows = static_cast<int>(1 + gen() % 60);
    c.config.tile_cols = static_cast<int>(1 + gen() % 3) * block[1];
    c.config.kc = static_cast<int>(1 + gen() % 70);
    c.config.mc = static_cast<int>(1 + gen() % 100);
    c.config.k_split = gen() % 4 == 0 ? static_cast<int>(2 + gen() % 3) : 1;
    c.config.pack_a = gen() % 3 == 0;
    c.m = size();
    c.n = size();
    c.k = gen() % 8 == 0 ? 0 : size();
    c.batch = gen() % 3 == 0 ? 3 : 1;
    c.same_b = gen() % 2 == 0;
    c.a_order = all_orders[gen() % 6];
    c.b_order = all_orders[gen() % 6];
    c.packed = gen() % 2 == 0;
    if (gen() % 4 == 0) {
      c.split.ways = static_cast<int>(2 + gen() % 2);
      const int64_t groups = 1 + static_cast<int64_t>(gen() % 3);
      c.split.chunk = 1 + static_cast<int64_t>(gen() % 20);
      c.n = groups * c.split.chunk * c.split.ways;
    }
    check(c, static_cast<uint32_t>(gen()));
  }
}

TEST_P(Levels, EveryRowAndColumnTailOfTheBlock) {
  for (CpuFamily family : {CpuFamily::Packed, CpuFamily::InPlace}) {
    for (const Types& t : {plain_types[0], plain_types[2], plain_types[4]}) {
      for (int64_t m = 1; m <= 17; ++m) {
        for (int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 63, 64, 65}) {
          Case c;
          c.config = config_for(family, GetParam(), t);
          c.config.mr = 16;
          c.config.nr = n <= 16 ? 16 : n <= 32 ? 32 : n <= 48 ? 48 : 64;
          c.m = m;
          c.n = n;
          c.k = 9;
          check(c, static_cast<uint32_t>(m * 100 + n));
        }
      }
    }
  }
}

// B beyond the caches of a core, blocks of k short enough to be fetched; rows of the result two elements or, with 1022
// columns, a page apart.
TEST_P(Levels, RowsOfBThatAreFetched) {
  uint32_t seed = 40;
  for (const Types& t : {plain_types[0], plain_types[2], plain_types[3]}) {
    for (int32_t nr : {64, 48}) {
      for (int64_t m : {2, 13, 16}) {
        Case c;
        c.config = config_for(CpuFamily::InPlace, GetParam(), t);
        c.config.mr = nr == 64 ? 6 : 8;
        c.config.nr = nr;
        c.config.tile_rows = 48;
        c.config.tile_cols = 4 * nr;
        c.config.kc = 64;
        c.config.pack_a = m != 13;
        c.m = m;
        c.n = nr == 64 ? 1022 : 1031;
        c.k = t.b == DType::f32 ? 270 : 530;
        c.threads = m == 2 ? 2 : 1;
        check(c, ++seed);
      }
    }
  }
}

// Two to four rows over a B beyond the caches of a core, a tile's rows in one call: whole vectors in fours, single ones
// and a ragged one, blocks of k that four does not divide.
TEST_P(Levels, LongRowsOfB) {
  uint32_t seed = 60;
  for (const Types& t : {plain_types[0], plain_types[1], plain_types[3]}) {
    for (const auto& [m, cols] : {std::pair{2, 528}, std::pair{3, 4096}, std::pair{4, 528}, std::pair{4, 4096}}) {
      Case c;
      c.config = config_for(CpuFamily::InPlace, GetParam(), t);
      c.config.mr = 4;
      c.config.nr = 16;
      c.config.tile_rows = 4;
      c.config.tile_cols = cols;
      c.config.kc = 126;
      c.config.k_split = m == 3 ? 2 : 1;
      c.m = m;
      c.n = 1031;
      c.k = (1 << 20) / types::byte_size(t.b) / c.n + 4;
      c.threads = m == 2 ? 2 : 1;
      check(c, ++seed);
    }
  }
}

// Packed panels beyond the caches of a core, of few enough rows to be fetched: some bytes ahead or a whole block of k,
// across the ends of panels, blocks and tiles.
TEST_P(Levels, PanelsOfBThatAreFetched) {
  uint32_t seed = 80;
  for (const Types& t : {plain_types[0], plain_types[2]}) {
    for (int32_t nr : {48, 64}) {
      for (int64_t m : {1, 5, 16}) {
        if (m == 1 && (nr == 64 || t.b != DType::f32)) continue;
        Case c;
        c.config = config_for(CpuFamily::Packed, GetParam(), t);
        c.config.mr = nr == 64 ? 6 : 8;
        c.config.nr = nr;
        c.config.tile_rows = 48;
        c.config.tile_cols = 2 * nr;
        c.config.kc = 256;
        c.m = m;
        c.n = 1031;
        c.k = m == 1 ? 4200 : 600;
        c.packed = true;
        c.threads = m == 5 ? 2 : 1;
        check(c, ++seed);
      }
    }
  }
}

// The same of tall tiles, which fetch the next panel: across the ends of panels, blocks and tiles, groups of one and
// two.
TEST_P(Levels, PanelsOfBThatTallTilesFetch) {
  uint32_t seed = 95;
  for (const auto& [nr, mc] : {std::pair{64, 96}, std::pair{48, 104}, std::pair{64, 204}, std::pair{48, 208}}) {
    Case c;
    c.config = config_for(CpuFamily::Packed, GetParam(), plain_types[0]);
    c.config.mr = nr == 64 ? 6 : 8;
    c.config.nr = nr;
    c.config.tile_rows = nr == 64 ? 102 : 104;
    c.config.tile_cols = mc == 208 ? nr : 2 * nr;
    c.config.kc = 200;
    c.config.mc = mc;
    c.config.pack_a = mc == 104;
    c.m = 109;
    c.n = 1031;
    c.k = mc == 96 ? 607 : 260;
    c.packed = mc != 204;
    c.threads = nr == 48 ? 2 : 1;
    check(c, ++seed);
  }
}

// Which forms the three tests above run: by rows, and by the level's kernels.
TEST(Layouts, FewRowsHaveKernelsOfTheirOwn) {
  for (const CpuIsa isa : usable_isas()) {
    const bool wide = isa != CpuIsa::generic && isa != CpuIsa::neon, widest = wide && isa != CpuIsa::avx2;
    const auto of = [&](CpuFamily family, int64_t m, int64_t k, int32_t nr, int32_t tile_rows = 48) {
      CpuGemmConfig config = config_for(family, isa, plain_types[0]);
      config.mr = 6;
      config.nr = nr;
      config.tile_rows = tile_rows;
      config.tile_cols = 1024;
      GemmProblem problem;
      problem.m = m;
      problem.n = 1031;
      problem.k = problem.a_row = k;
      problem.a_k = problem.b_col = 1;
      problem.b_k = problem.n;
      return resolve(config, problem);
    };
    for (const int64_t m : {1, 2, 4, 5})
      EXPECT_EQ(of(CpuFamily::InPlace, m, 300, 16).long_rows, wide && (m == 2 || m == 4)) << m;
    EXPECT_FALSE(of(CpuFamily::InPlace, 2, 200, 16).long_rows) << "in the caches";
    const auto ahead = [&](int64_t m, int64_t k) { return of(CpuFamily::Packed, m, k, 64).panels_ahead; };
    EXPECT_EQ(ahead(1, 4200) != 0, widest);
    EXPECT_EQ(ahead(5, 300) != 0, widest);
    EXPECT_EQ(ahead(48, 300) > ahead(5, 300), widest);
    for (const int64_t m : {1, 2, 4, 49}) EXPECT_EQ(ahead(m, 300), 0) << m;
    const auto panels = [&](int32_t tile_rows, int64_t k, int32_t nr) {
      return of(CpuFamily::Packed, 200, k, nr, tile_rows).fetches_panels;
    };
    EXPECT_EQ(panels(102, 260, 64), widest);
    EXPECT_EQ(panels(96, 260, 64), widest && !types::halves_512_bit()) << "no tall tile";
    const abi::MicroTable& table = *abi::micro_table(isa);
    for (const bool halves : {false, true})
      EXPECT_EQ(abi::fetches_panels(table.packed[0], 4, 96, halves, 260, 1031, 4), widest && !halves);
    EXPECT_FALSE(panels(102, 200, 64)) << "in the caches";
    EXPECT_FALSE(panels(102, 260, 32)) << "no such kernels";
  }
}

// B packed in chunks of tile columns; items that can't be rows of one product share each chunk.
TEST(Workspace, ASharedBBeyondTheLimitIsPackedOnceForAllItems) {
  Case c;
  c.config = config_for(CpuFamily::Packed, usable_isas().back(), plain_types[0]);
  c.m = 3;
  c.n = 17000;
  c.k = 640;
  c.batch = 3;
  c.same_b = true;
  c.a_order = Order::Spread;
  GemmProblem problem;
  problem.batch = c.batch;
  problem.m = c.m;
  problem.n = c.n;
  problem.k = c.k;
  problem.a_row = c.k;
  problem.a_k = 1;
  problem.a_batch = c.m * c.k + 8;
  problem.b_k = c.n;
  problem.b_col = 1;
  problem.b_batch = 0;
  const Layout layout = resolve(c.config, problem);
  const WorkspaceMap map = map_workspace(layout, problem, nullptr, 1);
  EXPECT_LT(map.chunk_tiles, layout.tiles_c);
  EXPECT_EQ(map.chunk_batches, c.batch);
  EXPECT_LT(map.total, size_t{40} << 20);
  check(c, 91);
}

// Items of two strides, and such as share a B, in every form: tiny ones from a list, in place, packed, by threads.
TEST_P(Levels, ItemsOfTwoStrides) {
  uint32_t seed = 17;
  for (const Types& t : plain_types) {
    for (CpuFamily family : {CpuFamily::Packed, CpuFamily::InPlace, CpuFamily::Convert}) {
      for (const bool shares : {false, true}) {
        for (const int64_t m : {1, 4, 33}) {
          for (const Order order : {Order::RowMajor, Order::ColumnPadded}) {
            Case c;
            c.config = config_for(family, GetParam(), t);
            c.batch = 6;
            c.inner = 3;
            c.shares_b = shares;
            c.m = m;
            c.n = 1 + m * 2;
            c.k = 19;
            c.b_order = order;
            c.threads = seed % 3 == 0 ? 2 : 1;
            check(c, ++seed);
          }
        }
      }
    }
  }
}

// Batches from memory in blocks of four rows fetch the next item, also behind the last one of a run and of the batch.
TEST_P(Levels, ItemsThatAreFetched) {
  uint32_t seed = 140;
  for (const Types& t : {plain_types[0], plain_types[1]}) {
    for (const auto& [order, inner] : {std::pair{Order::RowMajor, 0}, {Order::RowMajor, 3}, {Order::Padded, 0}}) {
      Case c;
      c.config = config_for(CpuFamily::InPlace, GetParam(), t);
      c.config.mr = 4;
      c.config.nr = t.a == DType::f32 ? 64 : 32;
      c.m = 5;
      c.n = c.k = 64;
      c.batch = 960 / (types::byte_size(t.a) / 4);
      c.inner = inner;
      c.a_order = order;
      c.threads = inner == 3 ? 2 : 1;
      check(c, ++seed);
    }
  }
}

// Which of them do.
TEST(Layouts, StreamsOfItemsAreFetched) {
  CpuGemmConfig config = config_for(CpuFamily::InPlace, usable_isas().back(), plain_types[0]);
  config.nr = 64;
  const auto shares = [&](int32_t mr, int64_t m, int64_t batch, int64_t b_k, int64_t k = 64) {
    config.mr = mr;
    GemmProblem problem;
    problem.batch = batch;
    problem.m = m;
    problem.n = 64;
    problem.k = problem.a_row = k;
    problem.a_k = problem.b_col = 1;
    problem.a_batch = m * k;
    problem.b_k = b_k == 0 ? 64 : b_k;
    problem.b_batch = k * b_k;
    TinyList list;
    EXPECT_TRUE(list_tiny(resolve(config, problem), problem, 64 * 4, list));
    EXPECT_EQ(list.a_share % line, 0);
    EXPECT_GE(list.a_share * list.count, list.a_share == 0 ? 0 : m * k * 4);
    EXPECT_GE(list.b_share * list.count, list.b_share == 0 ? 0 : k * 64 * 4);
    EXPECT_EQ(list.a_share == 0, list.b_share == 0);
    return list.a_share != 0;
  };
  EXPECT_TRUE(shares(4, 5, 960, 64));
  EXPECT_FALSE(shares(5, 5, 960, 64)) << "longer calls";
  EXPECT_FALSE(shares(4, 4, 960, 64)) << "a single block";
  EXPECT_FALSE(shares(4, 5, 900, 64)) << "in a cache";
  EXPECT_FALSE(shares(4, 5, 960, 67)) << "rows apart";
  EXPECT_FALSE(shares(4, 5, 9600, 64, 8)) << "small items";
  EXPECT_FALSE(shares(4, 5, 960, 0)) << "one B";
}

TEST_P(Levels, BytesOfTheWholeRangeAreExact) {
  for (const Types& t : {plain_types[4], plain_types[5], plain_types[6], plain_types[7]}) {
    for (CpuFamily family : {CpuFamily::Packed, CpuFamily::InPlace, CpuFamily::Convert}) {
      for (int64_t k : {1, 3, 4, 63, 64, 300}) {
        for (int k_split : {1, 3}) {
          Case c;
          c.config = config_for(family, GetParam(), t);
          c.config.kc = 64;
          c.config.k_split = k_split;
          c.m = 21;
          c.n = 70;
          c.k = k;
          c.full_bytes = true;
          check(c, static_cast<uint32_t>(k));
        }
      }
    }
  }
}

TEST_P(Levels, ConvertTakesEveryPairOfTypes) {
  constexpr DType types[] = {DType::boolean, DType::i8,     DType::i16, DType::i32,  DType::i64,
                             DType::u8,      DType::u16,    DType::u32, DType::u64,  DType::f16,
                             DType::f8e4m3,  DType::f8e5m2, DType::f32, DType::bf16, DType::f64};
  uint32_t seed = 5;
  for (DType a : types) {
    for (DType b : types) {
      const bool ints =
          static_cast<int>(a) <= static_cast<int>(DType::u64) && static_cast<int>(b) <= static_cast<int>(DType::u64);
      const DType acc = a == DType::f64 || b == DType::f64 ? DType::f64 : ints ? DType::i32 : DType::f32;
      for (Order order : {Order::RowMajor, Order::ColumnMajor, Order::Spread}) {
        Case c;
        c.config = config_for(CpuFamily::Convert, GetParam(), {a, b, acc});
        c.m = 11;
        c.n = 35;
        c.k = 19;
        c.a_order = c.b_order = order;
        check(c, ++seed);
        c.config.accumulator = DType::i64;
        if (ints) check(c, seed);
      }
    }
  }
}

TEST_P(Levels, WideIntegersWrapModulo2To64) {
  for (const DType b_type : {DType::i64, DType::u64, DType::u32}) {
    for (const int32_t k_split : {1, 3}) {
      Case c;
      c.config = config_for(CpuFamily::Convert, GetParam(), {DType::i64, b_type, DType::i64});
      c.config.k_split = k_split;
      c.m = 13;
      c.n = 67;
      c.k = 150;
      const Problem p(c, 3);
      std::mt19937_64 gen(11);
      const auto fill = [&](const Matrix& matrix) {  // every bit pattern
        for (int64_t i = 0; i < matrix.rows; ++i) {
          for (int64_t j = 0; j < matrix.cols; ++j) {
            const uint64_t value = gen();
            std::memcpy(matrix.at(0, i, j), &value, matrix.dtype == DType::u32 ? 4 : 8);
          }
        }
      };
      const auto get = [](const Matrix& matrix, int64_t i, int64_t j) {
        uint64_t value = 0;
        std::memcpy(&value, matrix.at(0, i, j), matrix.dtype == DType::u32 ? 4 : 8);
        return value;
      };
      fill(p.a);
      fill(p.b);
      const Buffer stored(static_cast<size_t>(c.m * c.n * 8)), workspace(workspace_size(c.config, p.problem, 1));
      run(c.config, p.problem, StoreTile{stored.data(), 0, c.n}, nullptr, workspace.data());
      int64_t wrong = 0;
      for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = 0; j < c.n; ++j) {
          uint64_t want = 0, got = 0;
          for (int64_t k = 0; k < c.k; ++k) want += get(p.a, i, k) * get(p.b, k, j);
          std::memcpy(&got, stored.at((i * c.n + j) * 8), 8);
          wrong += got != want ? 1 : 0;
        }
      }
      EXPECT_EQ(wrong, 0) << dtype_name(b_type) << ", k split " << k_split;
    }
  }
}

TEST_P(Levels, RandomNormalStaysWithinTheErrorBound) {
  for (const Types& t : {plain_types[0], plain_types[1], plain_types[2], plain_types[3]}) {
    Case c;
    c.config = config_for(CpuFamily::Packed, GetParam(), t);
    c.config.kc = 128;
    c.m = 50;
    c.n = 130;
    c.k = 700;
    Problem p(c, 3);
    std::mt19937 gen(9);
    std::normal_distribution<double> normal;
    for (Matrix* matrix : {&p.a, &p.b}) {
      for (int64_t i = 0; i < matrix->rows; ++i) {
        for (int64_t j = 0; j < matrix->cols; ++j) store_f64(matrix->at(0, i, j), matrix->dtype, normal(gen));
      }
    }
    CopyOut out(c);
    EpilogueCall epilogue;
    epilogue.interpret = &CopyOut::call;
    epilogue.context = &out;
    epilogue.phases = one_phase;
    const Buffer workspace(workspace_size(c.config, p.problem, epilogue, 1));
    run(c.config, p.problem, epilogue, nullptr, workspace.data());
    const std::vector<double> want = p.expected();
    const double unit = t.acc == DType::f64 ? 0x1p-53 : 0x1p-24;
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double magnitude = 0;
        for (int64_t k = 0; k < c.k; ++k) magnitude += std::abs(p.a.get(0, i, k) * p.b.get(0, k, j));
        const double bound = static_cast<double>(c.k) * unit * magnitude * (t.acc == DType::f64 ? 2 : 1);
        ASSERT_NEAR(out.values[static_cast<size_t>(i * c.n + j)], want[static_cast<size_t>(i * c.n + j)], bound)
            << i << "," << j;
      }
    }
  }
}

TEST_P(Levels, GemvOfBothOrders) {
  for (const Types& t : {plain_types[0], plain_types[1], plain_types[2], plain_types[3], plain_types[5]}) {
    for (Order order : {Order::RowMajor, Order::ColumnMajor, Order::Padded, Order::ColumnPadded}) {
      for (int64_t other : {1, 5, 64, 79, 300}) {
        for (const int kc : {3, 8, 64, 100}) {
          Case c;
          c.config = config_for(CpuFamily::InPlace, GetParam(), t);
          c.config.kc = kc;
          c.config.tile_rows = 1;
          c.config.tile_cols = kc == 64 ? 320 : 128;
          c.m = 1;
          c.n = other;
          c.k = 77;
          c.b_order = order;
          check(c, 3);
          std::swap(c.m, c.n);
          c.config.tile_rows = 48;
          check(c, 4);
        }
      }
    }
  }
}

TEST_P(Levels, EmptyDimensions) {
  for (CpuFamily family : {CpuFamily::Packed, CpuFamily::InPlace}) {
    for (int which = 0; which < 4; ++which) {
      Case c;
      c.config = config_for(family, GetParam(), plain_types[0]);
      c.m = which == 0 ? 0 : 5;
      c.n = which == 1 ? 0 : 7;
      c.k = which == 2 ? 0 : 3;
      c.batch = which == 3 ? 0 : 2;
      check(c);
      c.packed = true;
      check(c);
    }
  }
}

std::vector<float> result_of(const Case& c, const Problem& p, int threads) {
  std::vector<float> out(static_cast<size_t>(c.batch * c.m * c.n), -1.0f);
  const auto pool = make_thread_pool(threads);
  const Buffer workspace(workspace_size(c.config, p.problem, threads));
  run(c.config, p.problem, StoreTile{out.data(), c.m * c.n, c.n}, threads == 1 ? nullptr : pool.get(),
      workspace.data());
  return out;
}

TEST(Threads, GiveTheSameBits) {
  for (int form = 0; form < 5; ++form) {
    Case c;
    c.config = config_for(form == 3 ? CpuFamily::InPlace : CpuFamily::Packed, usable_isas().back(), plain_types[0]);
    c.config.kc = 64;
    c.config.k_split = form == 1 ? 4 : 1;
    c.batch = form == 2 ? 5 : 1;
    c.m = form == 3 ? 13 : 150;
    c.n = 333;
    c.k = 517;
    c.packed = form == 4;
    Problem p(c, 1);
    std::mt19937 gen(9);
    std::normal_distribution<float> normal;
    for (Matrix* m : {&p.a, &p.b}) {
      auto* v = static_cast<float*>(m->storage->data());
      for (size_t i = 0; i < m->storage->bytes() / 4; ++i) v[i] = normal(gen);
    }
    if (p.packed) pack_b(c.config, p.problem, nullptr, p.packed->data());
    if (p.packed == nullptr && c.packed) FAIL();
    const std::vector<float> one = result_of(c, p, 1);
    for (int threads = 2; threads <= 4; ++threads) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        const std::vector<float> many = result_of(c, p, threads);
        ASSERT_EQ(std::memcmp(one.data(), many.data(), one.size() * 4), 0)
            << "form " << form << ", " << threads << " threads";
      }
    }
  }
}

TEST(Threads, AllFormsAreRightWithFour) {
  for (CpuFamily family : {CpuFamily::Packed, CpuFamily::InPlace, CpuFamily::Convert}) {
    for (int64_t batch : {1, 40}) {
      for (int k_split : {1, 3}) {
        Case c;
        c.config = config_for(family, usable_isas().back(), plain_types[0]);
        c.config.k_split = k_split;
        c.batch = batch;
        c.m = 70;
        c.n = 90;
        c.k = 50;
        c.threads = 4;
        check(c, 2);
      }
    }
  }
}

TEST(Blocking, LargePackedOperandsGoThroughChunks) {
  // B above the limit on packed bytes (by batch and by columns), A above its own.
  Case c;
  c.config = config_for(CpuFamily::Packed, usable_isas().back(), plain_types[0]);
  c.m = 3;
  c.n = 200;
  c.k = 50000;
  check(c);
  c.n = 70;
  c.k = 45000;
  c.m = 50;
  c.a_order = Order::ColumnMajor;
  check(c);
  c = Case{};
  c.config = config_for(CpuFamily::Packed, usable_isas().back(), plain_types[0]);
  c.batch = 5;
  c.m = 2;
  c.n = 300;
  c.k = 10000;
  check(c);
}

TEST(Split, EveryFormOnBothPaths) {
  for (CpuFamily family : {CpuFamily::Packed, CpuFamily::InPlace}) {
    for (Order b : {Order::RowMajor, Order::ColumnMajor}) {
      for (int ways : {2, 3, 4}) {
        for (int64_t chunk : {1, 5, 32, 64, 100, 150}) {
          for (int64_t groups : {1, 2, 3}) {
            Case c;
            c.config = config_for(family, usable_isas().back(), plain_types[0]);
            c.m = 10;
            c.n = groups * chunk * ways;
            c.k = 20;
            c.b_order = b;
            c.split = {ways, chunk};
            check(c, 1);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace codetta::runtime::cpu::test
