// SPDX-License-Identifier: Apache-2.0
// Which kernels are found, in which order, and why the others are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "device/cpu/micro/blocks.hpp"
#include "plan/families.hpp"
#include "support/code_recorder.hpp"
#include "support/plain_store.hpp"
#include "types/dtype.hpp"
#include "types/machine.hpp"
#include "unit/plan/bind_text.hpp"

namespace {

using namespace codetta;
using package::CpuFamily;
using plan::Discovery;
using plan::GemmShape;

package::EpilogueProgram plain(DType accumulator = DType::f32) { return test::plain_store(accumulator, accumulator); }

GemmShape shape_of(int64_t m, int64_t n, int64_t k, DType dtype = DType::f32, DType accumulator = DType::f32) {
  GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.a = shape.b = dtype;
  shape.accumulator = accumulator;
  shape.a_row_stride = k;
  shape.b_k_stride = n;
  return shape;
}

Target cpu(CpuIsa isa) { return {Backend::cpu, isa, ""}; }
Discovery found(const GemmShape& shape, CpuIsa isa = CpuIsa::avx2, int cores = 1) {
  plan::MachineFacts machine;
  machine.cores = cores;
  return plan::discover(plain(shape.accumulator), shape, cpu(isa), machine);
}
std::string why(const Discovery& discovery, const std::string& kernel) {
  for (const plan::Rejection& rejection : discovery.rejections) {
    test::record_code(rejection.code);
    if (rejection.kernel == kernel) return diag::code_text(rejection.code) + ": " + rejection.text;
  }
  return "";
}

TEST(Discovery, RanksByShape) {
  for (const CpuIsa isa : {CpuIsa::avx2, CpuIsa::avx512}) {
    for (const int64_t m : {1, 8, 16, 24}) {
      EXPECT_EQ(package::cpu(found(shape_of(m, 4096, 4096), isa).candidates.at(0).config).family, CpuFamily::InPlace)
          << m;
    }
    for (const int64_t size : {16, 23, 32, 48, 64}) {
      EXPECT_EQ(package::cpu(found(shape_of(size, size, size), isa).candidates.at(0).config).family, CpuFamily::InPlace)
          << size;
    }
    for (const int64_t size : {512, 1024, 2048}) {
      EXPECT_NE(package::cpu(found(shape_of(size, size, size), isa).candidates.at(0).config).family, CpuFamily::InPlace)
          << size;
    }
    GemmShape packed = shape_of(16, 4096, 4096);
    packed.b_packed = true;
    EXPECT_EQ(package::cpu(found(packed, isa).candidates.at(0).config).family, CpuFamily::Packed);
  }
}

// B comes back once for as many rows of A as the second-level cache holds: twice in a small one, once in a server's.
TEST(Discovery, LargerSecondLevelCachesReadBLessOften) {
  const auto readings = [](int64_t l2) {
    plan::MachineFacts machine;
    machine.l2 = l2;
    GemmShape shape = shape_of(256, 4096, 4096);
    shape.b_packed = true;
    const Discovery all = plan::discover(plain(shape.accumulator), shape, cpu(CpuIsa::avx512), machine);
    const auto& config = package::cpu(all.candidates.at(0).config);
    EXPECT_EQ(config.mc % config.tile_rows, 0) << all.candidates.at(0).name;
    return (shape.m + config.mc - 1) / config.mc;
  };
  EXPECT_EQ(readings(256 << 10), 2);
  EXPECT_EQ(readings(1 << 20), 2);
  EXPECT_EQ(readings(2 << 20), 1);
  EXPECT_EQ(readings(int64_t{1} << 40), 1);  // whatever a machine says of itself
}

// Tall tiles of two panels and half the usual block of k, where the last-level cache is too slow for A to come from it
// for each panel, and L2 holds their rows.
TEST(Discovery, ASlowLastLevelCacheGetsTallTiles) {
  const auto first = [](GemmShape shape, int64_t l2, double l3_rate) {
    plan::MachineFacts machine;
    machine.l2 = l2;
    machine.l3 = 256 << 20;
    machine.l3_rate = l3_rate;
    shape.b_packed = true;
    return plan::discover(plain(shape.accumulator), shape, cpu(CpuIsa::avx512), machine).candidates.at(0);
  };
  const auto tall = [&](const GemmShape& shape, int64_t l2, double l3_rate) {
    return package::cpu(first(shape, l2, l3_rate).config).tile_cols == 128;
  };
  constexpr int64_t server = 2 << 20;
  const plan::Candidate wide = first(shape_of(1024, 4096, 4096), server, 22);
  const auto& config = package::cpu(wide.config);
  EXPECT_EQ(wide.name, "cpu_packed_6x64_w128_t342_pa_avx512");
  EXPECT_TRUE(config.tile_rows == 342 && config.mc == 342 && config.kc == 512 && config.pack_a);
  // Rows that are no multiple of a page apart lie in all sets of L2.
  EXPECT_FALSE(package::cpu(first(shape_of(384, 4096, 1003), server, 22).config).pack_a);
  EXPECT_TRUE(tall(shape_of(384, 4096, 1003), server, 22));
  EXPECT_FALSE(tall(shape_of(384, 4096, 680), server, 22)) << "A stays in L2";
  EXPECT_FALSE(tall(shape_of(96, 4096, 4096), server, 22)) << "too few rows";
  EXPECT_FALSE(tall(shape_of(1024, 4096, 4096), server, 50)) << "A comes unnoticed";
  EXPECT_FALSE(tall(shape_of(1024, 4096, 4096), 1 << 20, 22)) << "a smaller L2";
  const plan::Candidate few = first(shape_of(256, 4096, 4096), server, 22);
  EXPECT_EQ(package::cpu(few.config).tile_rows, 258) << "in equal blocks";
}

// Of 16 rows in place the block with the fewest multiply-add steps comes first where B is fetched; elsewhere one block
// that reads B once, where blocks of 6 rows read it three times.
TEST(Discovery, RanksBlocksThatFetchBOrReadItOnceFirst) {
  const Discovery skinny = found(shape_of(16, 4096, 4096), CpuIsa::avx512);
  const auto& first = package::cpu(skinny.candidates.at(0).config);
  EXPECT_TRUE(first.mr == 8 && first.nr == 48 && first.kc == 64 && first.pack_a) << skinny.candidates.at(0).name;
  int fetching = 0;
  const package::CpuGemmConfig* other = nullptr;
  for (const plan::Candidate& candidate : skinny.candidates) {
    const auto& config = package::cpu(candidate.config);
    const bool again = std::any_of(candidate.terms.begin(), candidate.terms.end(),
                                   [](const plan::CostTerm& term) { return term.name == "B again"; });
    const bool fetches = config.family == CpuFamily::InPlace && config.kc == 64;
    fetching += fetches ? 1 : 0;
    if (!fetches && other == nullptr) other = &config;
    EXPECT_EQ(again, config.family == CpuFamily::InPlace && config.mr < 16 && !fetches) << candidate.name;
  }
  EXPECT_EQ(fetching, 1);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->mr, 16);
  // Up to twelve rows of f32 come as fast without, of bf16 they do not; a small B is in the caches.
  const auto fetched = [](GemmShape shape) {
    const Discovery few = found(shape, CpuIsa::avx512);
    const auto& config = package::cpu(few.candidates.at(0).config);
    return config.family == CpuFamily::InPlace && config.kc == (shape.b == DType::f32 ? 64 : 128) &&
           config.tile_cols > 64;
  };
  GemmShape halves = shape_of(12, 4096, 4096);
  EXPECT_FALSE(fetched(halves));
  halves.a = halves.b = DType::bf16;
  EXPECT_TRUE(fetched(halves));
  EXPECT_FALSE(fetched(shape_of(16, 384, 384)));
  const Discovery square = found(shape_of(1024, 1024, 1024), CpuIsa::avx512);
  EXPECT_EQ(package::cpu(square.candidates.at(0).config).nr, 64) << square.candidates.at(0).name;
}

// Two to four rows read whole rows of a B beyond the caches, and blocks of columns, which come back to each of them,
// wait.
TEST(Discovery, AFewRowsReadLongRowsOfB) {
  for (const int64_t m : {2, 4}) {
    const Discovery few = found(shape_of(m, 4096, 4096), CpuIsa::avx512);
    EXPECT_EQ(package::cpu(few.candidates.at(0).config).tile_cols, 4096) << few.candidates.at(0).name;
  }
  const auto time = [](int64_t m, int64_t size) {
    const Discovery few = found(shape_of(m, size, size), CpuIsa::avx512);
    std::map<int, double> best;
    for (const plan::Candidate& candidate : few.candidates) {
      const auto& config = package::cpu(candidate.config);
      if (config.family == CpuFamily::InPlace && config.tile_cols >= 512)
        best.emplace(config.nr, candidate.microseconds);
    }
    return best;
  };
  const std::map<int, double> eight = time(8, 4096);
  EXPECT_LT(eight.at(16) * 1.5, eight.at(64));
  EXPECT_EQ(time(4, 4096).size(), 1u);  // the block's columns make no difference
}

// What a program reads beside a B pushes it out of the shared cache.
TEST(Discovery, WhatIsReadBesideCountsForTheSharedCache) {
  GemmShape shape = shape_of(4, 4096, 784);
  const auto beyond = [&] {
    const std::vector<plan::CostTerm> terms = found(shape, CpuIsa::avx512).candidates.at(0).terms;
    return std::any_of(terms.begin(), terms.end(),
                       [](const plan::CostTerm& term) { return term.name == "B beyond compute"; });
  };
  const plan::MachineFacts machine;
  ASSERT_LT(shape.n * shape.k * 4, machine.l3 / 2);
  const bool alone = beyond();
  shape.beside = 64e6;
  EXPECT_FALSE(alone);
  EXPECT_TRUE(beyond());
}

// One row asks for the rows of B below where a vector of 64 bytes is two halves of the processor's.
TEST(Discovery, OneRowFetchesWhereVectorsAreHalves) {
  const auto kc = [](CpuIsa isa, DType dtype, double vectors_per_clock) {
    plan::MachineFacts machine;
    machine.fma_vectors_per_clock = vectors_per_clock;
    const GemmShape shape = shape_of(1, 4096, 4096, dtype);
    return package::cpu(plan::discover(plain(), shape, cpu(isa), machine).candidates.at(0).config).kc;
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    EXPECT_EQ(kc(CpuIsa::avx512, dtype, 1), codetta::cpu::fetching_row_k) << dtype_name(dtype);
    EXPECT_EQ(kc(CpuIsa::avx512, dtype, 2), 256) << dtype_name(dtype);
    EXPECT_EQ(kc(CpuIsa::avx2, dtype, 1), 256) << dtype_name(dtype);
  }
}

// Batches of small items that come from memory are read with four rows a call, where a vector of 64 bytes is none of
// halves.
TEST(Discovery, StreamsOfSmallItemsHaveFewRowsACall) {
  const auto first = [](int64_t batch, CpuIsa isa, double vectors_per_clock, int64_t size = 32, double memory = 20) {
    plan::MachineFacts machine;
    machine.fma_vectors_per_clock = vectors_per_clock;
    machine.memory_rate = memory;
    GemmShape shape = shape_of(size, size, size);
    shape.batch = batch;
    shape.a_batch_stride = shape.b_batch_stride = size * size;
    return plan::discover(plain(), shape, cpu(isa), machine).candidates.at(0).name;
  };
  EXPECT_EQ(first(10000, CpuIsa::avx512, 2), "cpu_in_place_4x32_avx512");
  EXPECT_EQ(first(10000, CpuIsa::avx512, 2, 48), "cpu_in_place_4x48_avx512");
  EXPECT_EQ(first(10000, CpuIsa::avx512, 1), "cpu_in_place_11x32_avx512") << "halves";
  EXPECT_EQ(first(2000, CpuIsa::avx512, 2), "cpu_in_place_11x32_avx512") << "from a cache";
  EXPECT_EQ(first(10000, CpuIsa::avx2, 2).find("_4x"), std::string::npos) << "shorter vectors";
  EXPECT_EQ(first(10000, CpuIsa::avx512, 2, 16), "cpu_in_place_4x16_avx512");
  EXPECT_EQ(first(10000, CpuIsa::avx512, 2, 16, 13), "cpu_in_place_16x16_avx512") << "memory answers late";
  EXPECT_EQ(first(10000, CpuIsa::avx512, 2, 32, 13), "cpu_in_place_4x32_avx512") << "but it is asked early";
}

// One row over a B beyond the caches: each core reads as many columns, and runs of B stay long.
TEST(Discovery, OneRowIsSharedByTheCores) {
  const auto first = [](int64_t n, int cores, DType dtype = DType::f32) {
    return package::cpu(found(shape_of(1, n, 4096, dtype), CpuIsa::avx512, cores).candidates.at(0).config);
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [n, cores, share] :
         {std::tuple{4096, 1, 4096}, {4096, 2, 2048}, {4096, 4, 1024}, {8192, 2, 4096}}) {
      const auto config = first(n, cores, dtype);
      EXPECT_TRUE(config.tile_cols >= share && config.tile_cols < share + config.nr) << config.tile_cols;
    }
  }
  for (const int cores : {1, 2, 3, 7, 64}) {
    for (const int64_t n : {520, 1000, 4096, 4100}) {
      std::set<std::string> names;
      const Discovery all = found(shape_of(1, n, 4096), CpuIsa::avx512, cores);
      for (const plan::Candidate& candidate : all.candidates) {
        EXPECT_TRUE(names.insert(candidate.name).second) << candidate.name;
        const int32_t cols = package::cpu(candidate.config).tile_cols;
        EXPECT_TRUE(cols <= 96 || cols >= 512) << candidate.name;
      }
    }
  }
}

// A store past the caches reads nothing first, and takes as long in short pieces. What the engine stores itself, what
// is small and rows that no vector begins with go through the caches, and so do stores from registers.
TEST(Discovery, StoresPastTheCachesAreCountedOnce) {
  const auto epilogue_of = [](int64_t m, int64_t n) {
    const ir::Graph graph =
        test::bind_text(test::example("relu_aux_store"),
                        {test::scalar("alpha"), test::tensor("C", DType::f32, {m, n}),
                         test::tensor("D", DType::f32, {m, n}), test::tensor("F", DType::f32, {m, n})},
                        test::gemm_facts(m, n, 1024))
            .value();
    return plan::lower_epilogue(graph, test::product(graph), {}).value().program;
  };
  const auto note = [](const plan::Candidate& candidate) {
    for (const plan::CostTerm& term : candidate.terms) {
      if (term.name == "epilogue") return term.note;
    }
    return std::string();
  };
  const auto found_with = [&](int64_t m, int64_t n, CpuIsa isa) {
    plan::MachineFacts machine;
    return plan::discover(epilogue_of(m, n), shape_of(m, n, 1024), cpu(isa), machine).candidates;
  };
  for (const CpuIsa isa : {CpuIsa::generic, CpuIsa::avx2, CpuIsa::avx512}) {
    for (const plan::Candidate& candidate : found_with(1024, 1024, isa)) {
      // Vectors of 16 bytes go through the caches.
      const bool fused = package::cpu(candidate.config).family == CpuFamily::Fused || isa == CpuIsa::generic;
      EXPECT_NE(note(candidate).find(fused ? "20971520 bytes at" : " 4194304 bytes at"), std::string::npos)
          << candidate.name << ": " << note(candidate);
      EXPECT_EQ(note(candidate).find("8388608 past the caches at 20") != std::string::npos, !fused) << note(candidate);
    }
  }
  for (const auto& [m, n, isa] : {std::tuple<int64_t, int64_t, CpuIsa>{256, 1024, CpuIsa::avx512},
                                  {1024, 1020, CpuIsa::avx512},
                                  {1024, 1024, CpuIsa::neon}}) {
    EXPECT_EQ(note(found_with(m, n, isa).at(0)).find("past the caches"), std::string::npos) << m << " x " << n;
  }
  EXPECT_EQ(note(found(shape_of(4096, 4096, 64), CpuIsa::avx512).candidates.at(0)).find("past"), std::string::npos);
  const auto first = found_with(1024, 1024, CpuIsa::avx512).at(0);
  EXPECT_EQ(package::cpu(first.config).nr, 64) << first.name;
}

// By conversion, or packed as it is where that is the same product.
TEST(Discovery, EveryPairThatMultipliesIsTaken) {
  for (int a = 0; a < dtype_count; ++a) {
    for (int b = 0; b < dtype_count; ++b) {
      const auto accumulator = ir::default_accumulator(static_cast<DType>(a), static_cast<DType>(b));
      if (!accumulator) continue;
      GemmShape shape = shape_of(100, 100, 100);
      shape.a = static_cast<DType>(a);
      shape.b = static_cast<DType>(b);
      shape.accumulator = *accumulator;
      shape.a_k_stride = 7;  // and every layout
      shape.a_row_stride = 1000;
      shape.b_col_stride = 3;
      for (const auto& isa : types::all_isas()) {
        const Discovery discovery = found(shape, isa.isa);
        const bool has =
            std::any_of(discovery.candidates.begin(), discovery.candidates.end(), [](const plan::Candidate& c) {
              const CpuFamily family = package::cpu(c.config).family;
              return family == CpuFamily::Convert || family == CpuFamily::Packed;
            });
        EXPECT_TRUE(has) << dtype_name(shape.a) << " " << dtype_name(shape.b) << " " << isa.name;
      }
    }
  }
}

TEST(Discovery, ConfigurationsStayWithinBoundsAndNamesDiffer) {
  for (const auto& isa : types::all_isas()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i8}) {
      for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                    {0, 8, 8},
                                    {8, 0, 8},
                                    {8, 8, 0},
                                    {37, 1000, 777},
                                    {4096, 4096, 100000}}) {
        const Discovery discovery = found(shape_of(m, n, k, dtype, *ir::default_accumulator(dtype, dtype)), isa.isa, 8);
        ASSERT_FALSE(discovery.candidates.empty());
        std::set<std::string> names;
        for (const plan::Candidate& candidate : discovery.candidates) {
          const package::CpuGemmConfig& c = package::cpu(candidate.config);
          EXPECT_TRUE(names.insert(candidate.name).second) << candidate.name;
          EXPECT_TRUE(c.mr >= 1 && c.mr <= package::max_block_rows && c.nr >= 1 && c.nr <= package::max_block_cols)
              << candidate.name;
          EXPECT_TRUE(c.tile_rows >= 1 && c.tile_rows % c.mr == 0 && c.tile_cols % c.nr == 0) << candidate.name;
          EXPECT_TRUE(c.kc >= 1 && c.kc <= package::max_cache_block && c.mc >= c.tile_rows && c.k_split >= 1)
              << candidate.name;
          EXPECT_TRUE(std::isfinite(candidate.microseconds) && candidate.microseconds > 0) << candidate.name;
          double sum = 0;
          for (const plan::CostTerm& term : candidate.terms) {
            EXPECT_GT(term.microseconds, 0) << term.name;
            EXPECT_FALSE(term.note.empty()) << term.name;
            sum += term.microseconds;
          }
          EXPECT_DOUBLE_EQ(sum, candidate.microseconds);
        }
        EXPECT_TRUE(std::is_sorted(
            discovery.candidates.begin(), discovery.candidates.end(),
            [](const plan::Candidate& x, const plan::Candidate& y) { return x.microseconds < y.microseconds; }));
      }
    }
  }
}

void expect_names_differ(const Discovery& discovery) {
  ASSERT_FALSE(discovery.candidates.empty());
  std::set<std::string> names;
  for (const plan::Candidate& candidate : discovery.candidates)
    EXPECT_TRUE(names.insert(candidate.name).second) << candidate.name;
}

TEST(Discovery, NamesOfGroupsOfProductsDiffer) {
  for (const auto& isa : types::all_isas()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i8}) {
      for (const int32_t products : {2, 3, 8}) {
        for (const int32_t own_ways : {1, 2, 8}) {
          for (const int64_t m : {1, 10, 40, 512, 4096}) {
            SCOPED_TRACE(std::to_string(products) + " products of " + std::to_string(own_ways) +
                         " parts, m = " + std::to_string(m) + ", " + std::string(isa.name));
            GemmShape shape =
                shape_of(m, int64_t{products} * 2816, 1024, dtype, *ir::default_accumulator(dtype, dtype));
            shape.products = products;
            shape.b_k_stride = 2816;
            package::EpilogueProgram program = plain(shape.accumulator);
            program.split.products = products;
            program.split.ways = products * own_ways;
            program.split.chunk = types::Dim::constant(2816 / own_ways);
            expect_names_differ(plan::discover(program, shape, cpu(isa.isa), {}));
          }
        }
      }
    }
  }
}

TEST(Discovery, NamesOfKernelsForOtherGpusDiffer) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    for (const int64_t m : {1, 16, 100, 4096}) {
      GemmShape shape = shape_of(m, 512, 8192, dtype, *ir::default_accumulator(dtype, dtype));
      const package::EpilogueProgram program = plain(shape.accumulator);
      for (const char* arch : {"gfx90a", "gfx942", "gfx1100", "gfx1201"})
        expect_names_differ(plan::discover(program, shape, {Backend::hip, CpuIsa::generic, arch}, {}));
      for (const char* family : {"apple7", "apple9", "mac2"})
        expect_names_differ(plan::discover(program, shape, {Backend::metal, CpuIsa::generic, family}, {}));
    }
  }
}

TEST(Discovery, SplitsKWhereThereAreFewerTilesThanCores) {
  const Discovery discovery = found(shape_of(8, 64, 65536), CpuIsa::avx2, 8);
  EXPECT_GT(package::cpu(discovery.candidates.at(0).config).k_split, 1);
  EXPECT_EQ(package::cpu(found(shape_of(8, 64, 65536), CpuIsa::avx2, 1).candidates.at(0).config).k_split, 1);
}

TEST(Discovery, NothingIsConvertedToWhatItIs) {
  const std::pair<DType, DType> same[] = {
      {DType::f32, DType::f32}, {DType::f64, DType::f64}, {DType::i16, DType::i32}, {DType::i32, DType::i32}};
  for (const auto& [dtype, accumulator] : same) {
    const Discovery discovery = found(shape_of(512, 512, 512, dtype, accumulator));
    for (const plan::Candidate& candidate : discovery.candidates)
      EXPECT_FALSE(candidate.name.starts_with("cpu_convert")) << candidate.name;
    EXPECT_NE(why(discovery, "cpu_convert").find("needs no conversion"), std::string::npos);
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Discovery discovery = found(shape_of(512, 512, 512, dtype));
    EXPECT_TRUE(std::any_of(discovery.candidates.begin(), discovery.candidates.end(),
                            [](const auto& c) { return c.name.starts_with("cpu_convert"); }));
  }
}

// With an empty factor the other sizes are bounded by nothing but 64 bits.
TEST(Discovery, AnswersForTheLargestSizes) {
  const int64_t sizes[] = {0, 1, 100, int64_t{1} << 31, int64_t{1} << 62, INT64_MAX};
  for (const int64_t m : sizes) {
    for (const int64_t n : sizes) {
      for (const int64_t k : sizes) {
        GemmShape shape = shape_of(m, n, k);
        shape.batch = m == 1 ? INT64_MAX : 1;
        for (const plan::Candidate& candidate : found(shape, CpuIsa::avx2, 8).candidates) {
          const auto& config = package::cpu(candidate.config);
          EXPECT_GE(candidate.microseconds, 0) << candidate.name;
          EXPECT_TRUE(config.mr >= 1 && config.kc >= 1 && config.kc <= 8192 && config.tile_cols >= 1 &&
                      config.tile_cols <= 8192 && config.k_split >= 1)
              << m << " " << n << " " << k << " " << candidate.name;
          for (const plan::CostTerm& term : candidate.terms)
            EXPECT_EQ(term.note.find('-'), std::string::npos) << term.note;
        }
      }
    }
  }
}

TEST(Rejections, SayWhyWithNumbers) {
  EXPECT_EQ(
      why(found(shape_of(512, 512, 512, DType::bf16)), "cpu_packed"),
      "E0404: avx2 has no bf16 pair dot product, which bf16 x bf16 needs; the convert family widens the operands");
  EXPECT_EQ(why(found(shape_of(512, 512, 512, DType::f16)), "cpu_packed"),
            "E0405: no instruction multiplies f16 x f16 into f32 without conversion; the convert family does");
  EXPECT_EQ(why(found(shape_of(16, 64, 64, DType::f8e4m3)), "cpu_in_place"),
            "E0405: B is f8e4m3, which is read where it lies only by way of packing when it accumulates in f32");
  EXPECT_EQ(
      why(found(shape_of(512, 512, 512)), "cpu_in_place"),
      "E0406: 512 x 512 x 512 has more than 48 rows, 24 columns and 7077888 multiplications, so that packing B pays");
  GemmShape columns = shape_of(4096, 16, 4096);
  columns.a_row_stride = 1;
  columns.a_k_stride = 4096;
  EXPECT_EQ(why(found(columns), "cpu_in_place"),
            "E0407: consecutive k of A are 4096 elements apart, and its 67108864 bytes are more than the 1048576 that "
            "are transposed on the way");
  GemmShape strided = shape_of(4, 64, 64);
  strided.b_col_stride = 2;
  strided.b_k_stride = 128;
  EXPECT_EQ(why(found(strided), "cpu_in_place"),
            "E0407: B has strides 128 along k and 2 along columns; one of them must be 1 to read it where it lies");
  GemmShape packed = shape_of(4, 64, 64);
  packed.b_packed = true;
  EXPECT_EQ(why(found(packed), "cpu_in_place"), "E0410: a packed B is given, and this family reads B where it lies");
  const GemmShape wide_integers = shape_of(4, 64, 64, DType::i32, DType::i64);
  EXPECT_EQ(why(found(wide_integers), "cpu_packed"),
            "E0405: no instruction multiplies i32 x i32 into i64 without conversion; the convert family does");
  for (const auto& [backend, arch] :
       {std::pair{Backend::cuda, "sm_90a"}, {Backend::hip, "gfx942"}, {Backend::metal, "apple9"}})
    EXPECT_FALSE(
        plan::discover(plain(DType::i64), wide_integers, {backend, CpuIsa::generic, arch}, {}).candidates.empty());
  const Discovery trees =
      plan::discover(plain(), shape_of(4, 64, 64), {Backend::cutlass, CpuIsa::generic, "sm_90"}, {});
  EXPECT_EQ(why(trees, ""),
            "E0412: cutlass:sm_90 has no kernel families in this version; cpu, cuda, hip and metal have");
}

TEST(Rejections, OfTheFusedFamily) {
  const auto program_of = [](const char* name, const std::vector<ir::BoundArgument>& arguments) {
    const auto graph = test::bind_text(test::example(name), arguments, test::gemm_facts(8, 64, 16));
    EXPECT_TRUE(graph);
    return plan::lower_epilogue(*graph, test::product(*graph), {})->program;
  };
  EXPECT_EQ(why(plan::discover(plain(), shape_of(4, 64, 64), cpu(CpuIsa::generic), {}), "cpu_fused"),
            "E0413: no fused micro-kernel multiplies f32 by f32 on generic");
  const GemmShape shape = shape_of(8, 64, 16);
  const auto norm = program_of("rms_norm", {test::tensor("weight", DType::f32, {64}), test::scalar("epsilon"),
                                            test::tensor("D", DType::f32, {8, 64})});
  EXPECT_EQ(why(plan::discover(norm, shape, cpu(CpuIsa::avx2), {}), "cpu_fused"),
            "E0409: the epilogue uses 1 reduction as values, but accumulators in registers are gone by then");
  const auto pairs = program_of("swiglu_interleaved", {test::tensor("D", DType::f32, {8, 32})});
  EXPECT_EQ(why(plan::discover(pairs, shape, cpu(CpuIsa::avx2), {}), "cpu_fused"),
            "E0408: the 2 parts of the split alternate by column, so partners lie in one register");
}

}  // namespace
