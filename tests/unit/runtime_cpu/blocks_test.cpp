// SPDX-License-Identifier: Apache-2.0
// blocks.hpp must say what the tables have.
#include "device/cpu/micro/blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/cpu/micro/table.hpp"

namespace codetta::cpu {
namespace {

using Pair = std::pair<int, int>;

std::vector<Pair> of(const KernelSet& set) {
  std::vector<Pair> out;
  for (int v = max_vectors; v > 0 && set.lanes > 0; --v) {
    if (set.max_rows[v - 1] > 0) out.emplace_back(set.max_rows[v - 1], v * set.lanes);
  }
  return out;
}
std::vector<Pair> of(std::span<const RegisterBlock> blocks) {
  std::vector<Pair> out;
  for (const RegisterBlock& b : blocks) out.emplace_back(b.mr, b.nr);
  return out;
}

constexpr CpuIsa levels[] = {CpuIsa::generic,     CpuIsa::neon,        CpuIsa::avx2, CpuIsa::avx512,
                             CpuIsa::avx512_vnni, CpuIsa::avx512_bf16, CpuIsa::amx};

TEST(Blocks, AreWhatTheTablesHave) {
  int tables = 0;
  for (CpuIsa isa : levels) {
    const MicroTable* table = micro_table(isa);
    if (table == nullptr) continue;
    ++tables;
    for (int p = 0; p < product_count; ++p) {
      EXPECT_EQ(of(table->packed[p]), of(packed_blocks(isa, static_cast<Product>(p))))
          << isa_name(isa) << " product " << p;
    }
    for (int s = 0; s < source_count; ++s) {
      EXPECT_EQ(of(table->in_place[s]), of(in_place_blocks(isa, static_cast<Source>(s))))
          << isa_name(isa) << " source " << s;
      EXPECT_GT(table->dot[s].max_rows * table->dot[s].max_cols, 0);
    }
  }
  EXPECT_GE(tables, 2);
}

TEST(Blocks, ProductsOfDtypes) {
  EXPECT_EQ(product_for(CpuIsa::avx512_bf16, DType::bf16, DType::bf16, DType::f32, false), Product::bf16);
  EXPECT_EQ(product_for(CpuIsa::avx512_bf16, DType::bf16, DType::bf16, DType::f32, true), Product::f32);
  EXPECT_EQ(product_for(CpuIsa::avx2, DType::bf16, DType::bf16, DType::f32, false), Product::f32);
  EXPECT_EQ(product_for(CpuIsa::avx512_vnni, DType::u8, DType::i8, DType::i32, false), Product::u8s8);
  EXPECT_EQ(product_for(CpuIsa::avx512, DType::u8, DType::i8, DType::i32, false), Product::int16);
  EXPECT_EQ(product_for(CpuIsa::amx, DType::i16, DType::i8, DType::i32, false), Product::int16);
  EXPECT_EQ(product_for(CpuIsa::amx, DType::u16, DType::i8, DType::i32, false), Product::int32);
  Source source{};
  EXPECT_TRUE(in_place_source(DType::f16, DType::f32, source));
  EXPECT_EQ(source, Source::f16);
  EXPECT_FALSE(in_place_source(DType::f8e4m3, DType::f32, source));
}

}  // namespace
}  // namespace codetta::cpu
