// SPDX-License-Identifier: Apache-2.0
// Tensor maps of products with root spaces of their own: each B, and what is copied behind it, has its product's
// columns, and of a product without columns none is made.
#include <gtest/gtest.h>

#include <vector>

#include "device/host/gpu_plan.h"

namespace codetta::gpu::host {
namespace {

// Three products of 24 rows of bf16, each stored by the copy engine. Operands: the first store, then a B and a store of
// each further product.
struct Three {
  OperandFacts facts[5] = {
      {12, true, 0, 1}, {12, false, 0, -1}, {12, true, 0, 1}, {12, false, 0, -1}, {12, true, 0, 1}};
  std::vector<Map> maps = {{map_a, false, 0, 64, 128, 128},      {map_b, false, 0, 64, 64, 128},
                           {map_operand, false, 0, 64, 16, 128}, {map_more_b, false, 1, 64, 64, 128},
                           {map_operand, false, 2, 64, 16, 128}, {map_more_b, false, 3, 64, 64, 128},
                           {map_operand, false, 4, 64, 16, 128}};
  Operand operands[5] = {};
  Kernel kernel{};
  Plan plan{};
  Trouble trouble{};

  Three(i32 ways, bool b_k_major, const std::vector<i64>& columns) {
    kernel.name = "kernel";
    kernel.family = 2;
    kernel.a_dtype = kernel.b_dtype = 12;
    kernel.has_product = kernel.a_k_major = true;
    kernel.b_k_major = b_k_major;
    kernel.tile_m = kernel.tile_n = 128, kernel.tile_k = kernel.piece_rows = kernel.piece_cols = 64;
    kernel.ways = ways;
    kernel.k_split = kernel.group = kernel.cluster_m = kernel.cluster_n = 1;
    kernel.alignment = 16;
    kernel.operands = facts, kernel.operand_count = 5;
    kernel.maps = maps.data(), kernel.map_count = static_cast<i32>(maps.size());
    i64 all = 0;
    for (size_t i = 0; i < columns.size(); ++i) {
      plan.widths[plan.spaces++] = columns[i];
      all += columns[i] * ways;
      const i64 stored = columns[i], of_b = columns[i] * ways;
      operands[2 * i] = {reinterpret_cast<void*>((2 * i + 2) << 20), {0, stored, 1}};
      if (i > 0)
        operands[2 * i - 1] = {reinterpret_cast<void*>((2 * i + 1) << 20),
                               {0, b_k_major ? 1 : of_b, b_k_major ? 40 : 1}};
    }
    EXPECT_TRUE(plan_sizes(kernel, 1, 24, all, 40, 32, plan, trouble)) << trouble.reason;
    Factor a, b;
    a.data = b.data = reinterpret_cast<void*>(u64{1} << 20);
    a.other = 40, a.k = 1;
    b.other = b_k_major ? 40 : 1, b.k = b_k_major ? 1 : columns[0] * ways;
    resolve(kernel, a, b, nullptr, nullptr, plan);
  }
  Tiled view(i32 i) {
    Tiled made;
    const Map& map = encoded_map(kernel, plan, i);
    EXPECT_TRUE(tiled_view(kernel, plan, map, operands[map.operand], "x", made, trouble)) << trouble.reason;
    EXPECT_TRUE(check_tiled(made, trouble)) << trouble.reason;
    return made;
  }
};

TEST(ProductSpaces, EachMapHasItsProductsColumns) {
  for (const i32 ways : {1, 2}) {
    for (const bool k_major : {false, true}) {
      const std::vector<i64> columns = {256, 64, 192};
      Three one(ways, k_major, columns);
      EXPECT_EQ(one.plan.problem.tiles_n, ways == 1 ? 2 + 1 + 2 : 4 + 1 + 3);
      for (const i32 i : {1, 3, 5}) {
        const Tiled b = one.view(i);
        EXPECT_EQ(k_major ? b.slow : b.fast, columns[static_cast<size_t>(i / 2)] * ways) << i;
        EXPECT_EQ(k_major ? b.fast : b.slow, 40);
      }
      for (const i32 i : {2, 4, 6}) {
        const Tiled stored = one.view(i);
        EXPECT_EQ(stored.fast, columns[static_cast<size_t>(i / 2 - 1)]) << i;
        EXPECT_EQ(stored.slow, 24);
        EXPECT_EQ(stored.slow_stride, 2 * stored.fast);
      }
    }
  }
}

// The engine takes no size of 0.
TEST(ProductSpaces, AStandsForProductsWithoutColumns) {
  for (const size_t none : {0, 1, 2}) {
    std::vector<i64> columns = {256, 64, 192};
    columns[none] = 0;
    Three one(1, false, columns);
    for (i32 i = 0; i < one.kernel.map_count; ++i) {
      const bool empty = i > 0 && static_cast<size_t>((i - 1) / 2) == none;
      EXPECT_EQ(&encoded_map(one.kernel, one.plan, i), &one.maps[empty ? 0 : static_cast<size_t>(i)]) << none << i;
      EXPECT_GT(one.view(i).fast, 0);
    }
  }
}

// What an output's columns don't let the engine store, other kernels do.
TEST(ProductSpaces, EachStoreIsOfWholeUnits) {
  Three one(1, false, {256, 60, 192});
  Tiled view;
  EXPECT_TRUE(tiled_view(one.kernel, one.plan, one.maps[2], one.operands[0], "q", view, one.trouble));
  EXPECT_FALSE(tiled_view(one.kernel, one.plan, one.maps[4], one.operands[2], "k", view, one.trouble));
  EXPECT_EQ(std::string(one.trouble.reason), "its rows have 120 bytes, and kernel stores 16 at a time");
  EXPECT_TRUE(one.trouble.unaligned);
}

}  // namespace
}  // namespace codetta::gpu::host
