// SPDX-License-Identifier: Apache-2.0
// When the items of a batch are taken for further rows of one, and rows for items of another (fold_batch), and every
// reason why they are not.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "device/host/gpu_plan.h"

namespace codetta::gpu::host {
namespace {

// D = A @ B of three items with one B, in f32: operand 0 is D, operand 1 a bias by column or the B of a further
// product.
struct Case {
  Map map{};
  OperandFacts facts[2] = {{13, true, 0, 1}, {13, false, -1, -1}};
  Kernel kernel{};
  Factor a, b;
  Operand operands[2] = {};
  i64 k = 8;

  explicit Case(i64 rows = 5) {
    kernel.name = "kernel";
    kernel.family = family_simt;
    kernel.has_product = kernel.folds = kernel.a_k_major = true;
    kernel.tile_m = kernel.tile_n = kernel.tile_k = kernel.piece_rows = kernel.piece_cols = 16;
    kernel.ways = kernel.k_split = kernel.group = kernel.cluster_m = kernel.cluster_n = 1;
    kernel.operands = facts;
    kernel.operand_count = 2;
    kernel.maps = &map;
    a.name = "a", b.name = "b";
    a.batches = 3, a.others = rows, a.ks = 8, a.batch = rows * 8, a.other = 8, a.k = 1;
    b.others = 20, b.ks = 8, b.other = 1, b.k = 20;
    operands[0].stride[0] = rows * 20, operands[0].stride[1] = 20, operands[0].stride[2] = 1;
    operands[1].stride[2] = 1;
  }
  Fold fold(Trouble& trouble, bool& good) {
    Plan plan;
    kernel.operands = facts, kernel.maps = &map;
    good =
        plan_sizes(kernel, 3, a.others, 20, k, 0, plan, trouble) && fold_batch(kernel, a, b, operands, plan, trouble);
    if (good && plan.fold != Fold::none) {
      EXPECT_EQ(plan.problem.batches, 1);
      EXPECT_EQ(plan.problem.m, 3 * a.others);
    } else if (good) {
      EXPECT_EQ(plan.problem.batches, 3);
      EXPECT_EQ(plan.problem.m, a.others);
    }
    return plan.fold;
  }
  Fold fold() {
    Trouble trouble;
    bool good = false;
    const Fold made = fold(trouble, good);
    EXPECT_TRUE(good) << trouble.reason;
    return made;
  }
};

TEST(FoldBatch, TakesItemsForRows) {
  EXPECT_EQ(Case(5).fold(), Fold::adjacent);
  EXPECT_EQ(Case(1).fold(), Fold::single);
  Case apart(1);  // of one row an item: wherever the items lie
  apart.a.batch = 100;
  apart.operands[0].stride[0] = 64;
  EXPECT_EQ(apart.fold(), Fold::single);
}

TEST(FoldBatch, LeavesThemWhereTheyAreNone) {
  struct Reason {
    const char* what;
    i64 rows;
    std::function<void(Case&)> make;
  };
  const std::vector<Reason> reasons = {
      {"the epilogue tells items apart", 5, [](Case& c) { c.kernel.folds = false; }},
      {"no product", 5, [](Case& c) { c.kernel.has_product = false; }},
      {"no rows", 0, [](Case&) {}},
      {"more rows than the copy engine has coordinates for", 0x40000000, [](Case&) {}},
      {"one A for all items", 1, [](Case& c) { c.a.batch = 0; }},
      {"a B for each item", 5, [](Case& c) { c.b.batch = 160; }},
      {"a B for each item of one row", 1, [](Case& c) { c.b.batch = 160; }},
      {"two strides between items of A", 5, [](Case& c) { c.a.inner = 3, c.a.skip = 8; }},
      {"a B for some items", 5, [](Case& c) { c.b.inner = 3, c.b.skip = 160; }},
      {"room between items of A", 5, [](Case& c) { c.a.batch += 8; }},
      {"room between items of D", 5, [](Case& c) { c.operands[0].stride[0] += 20; }},
      {"padded rows of D without the same between items", 5, [](Case& c) { c.operands[0].stride[1] = 24; }},
      {"an operand that repeats for each item", 5, [](Case& c) { c.facts[1].row = 1, c.operands[1].stride[1] = 20; }},
      {"rows that are repeated, items that are not", 5,
       [](Case& c) { c.facts[1].batch = 0, c.operands[1].stride[0] = 20; }},
      {"a further B for each item of one row", 1, [](Case& c) { c.facts[1].batch = 0, c.operands[1].stride[0] = 160; }},
      {"rows of A side by side", 5, [](Case& c) { c.kernel.family = family_simt + 1, c.kernel.a_k_major = false; }},
      {"a copied operand whose items are one", 1,
       [](Case& c) {
         c.facts[1].batch = 0, c.facts[1].row = 1;
         c.map.source = map_operand, c.map.operand = 1, c.kernel.map_count = 1;
       }},
  };
  for (const Reason& reason : reasons) {
    Case one(reason.rows);
    reason.make(one);
    EXPECT_EQ(one.fold(), Fold::none) << reason.what;
  }
  // Without what stands in the way they would be rows.
  Case packed;
  packed.kernel.family = family_simt + 1, packed.kernel.a_k_major = false, packed.kernel.pack_a = true;
  EXPECT_EQ(packed.fold(), Fold::adjacent);
  Case follows;
  follows.facts[1].batch = 0, follows.facts[1].row = 1;
  follows.operands[1].stride[0] = 100, follows.operands[1].stride[1] = 20;
  EXPECT_EQ(follows.fold(), Fold::adjacent);
  Case copied(1);
  copied.facts[1].batch = 0, copied.facts[1].row = 1, copied.operands[1].stride[0] = 20;
  copied.map.source = map_operand, copied.map.operand = 1, copied.kernel.map_count = 1;
  EXPECT_EQ(copied.fold(), Fold::single);
}

// Items of two strides: whom they reach as they lie, who copies them, and what does not fit.
TEST(ItemsOfTwoStrides, GoToKernelsThatTakeThem) {
  Case one;
  one.kernel.family = family_simt + 1, one.kernel.alignment = 16;
  one.kernel.a_dtype = one.kernel.b_dtype = 13;
  one.a.inner = 3, one.a.batch = 8, one.a.skip = 96, one.a.other = 24;
  one.b.batch = 160, one.b.k = 20;
  const auto planned = [](Case& c, Plan& plan, Trouble& trouble) {
    trouble = Trouble{};
    plan = Plan{};
    c.kernel.operands = c.facts, c.kernel.maps = &c.map;
    return plan_sizes(c.kernel, 3, c.a.others, 20, c.k, 0, plan, trouble) &&
           plan_product(c.kernel, c.a, c.b, plan, trouble);
  };
  Plan plan;
  Trouble trouble;
  ASSERT_TRUE(planned(one, plan, trouble)) << trouble.reason;
  resolve(one.kernel, one.a, one.b, nullptr, nullptr, plan);
  EXPECT_EQ(std::tuple(plan.problem.inner, plan.problem.a_batch, plan.problem.a_skip, plan.problem.b_skip),
            std::tuple(3, 8, 96, 0));
  const auto misfit = [&](Case& c) {
    EXPECT_FALSE(planned(c, plan, trouble));
    EXPECT_TRUE(trouble.unaligned);
    return std::string(trouble.reason);
  };
  Case apart = one;
  apart.b.inner = 6, apart.b.skip = 160;
  EXPECT_EQ(misfit(apart), "6 of its items lie one way, and 3 of the other factor");
  Case between = one;
  between.a.skip = 97;
  EXPECT_EQ(misfit(between), "its stride in the batch is 484 bytes, no multiple of 16");
  Case copied = one;
  copied.kernel.map_count = 1;
  EXPECT_EQ(misfit(copied), "its leading dims have two strides, of which kernel takes one");
  // What is copied first may lie so; it then has one stride.
  copied.kernel.pack_a = true;
  ASSERT_TRUE(planned(copied, plan, trouble)) << trouble.reason;
  const Packing& packing = plan.packing.factor[0];
  EXPECT_EQ(std::tuple(packing.batches, packing.inner, packing.skip, packing.batch_stride), std::tuple(3, 3, 96, 8));
  char workspace[1];
  plan.packed_at[0] = 0;
  resolve(copied.kernel, copied.a, copied.b, nullptr, workspace, plan);
  EXPECT_EQ(std::tuple(plan.problem.a_batch, plan.problem.a_skip), std::tuple(5 * packing.packed_stride, 0));
}

// The copy engine has one place in the batch for all B.
TEST(FoldBatch, CopiedFactorsAreAllOneMatrixOrNone) {
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      Case one;
      one.map.source = map_more_b, one.map.operand = 1, one.kernel.map_count = 1;
      one.facts[1].batch = 0;
      one.b.batch = first ? 0 : 160;
      one.operands[1].stride[0] = second ? 0 : 160;
      Case nothing = one;
      nothing.k = 0;  // then none are copied
      nothing.kernel.maps = &nothing.map;
      EXPECT_EQ(nothing.fold(), first && second ? Fold::adjacent : Fold::none);
      Trouble trouble;
      bool good = false;
      const Fold made = one.fold(trouble, good);
      EXPECT_EQ(good, first == second) << trouble.reason;
      if (good) {
        EXPECT_EQ(made, first ? Fold::adjacent : Fold::none);
      } else {
        EXPECT_EQ(trouble.code, trouble_misfit);
        EXPECT_EQ(std::string(trouble.reason),
                  first ? "it is one matrix for all items, and the B of a further product is not"
                        : "it is no one matrix for all items, and the B of a further product is not");
      }
    }
  }
}

// A map of 64 x 64 blocks of `source`, in a kernel that has no other.
struct OneMap {
  Map map{};
  OperandFacts facts{12, false, 0, 1};
  Kernel kernel{};
  Plan plan{};
  Operand operand{};
  Tiled view{};
  Trouble trouble;

  bool made(MapSource source) {
    map.source = source;
    map.box_fast = map.box_slow = 64;
    kernel.name = "kernel";
    kernel.a_dtype = kernel.b_dtype = 12;
    kernel.a_k_major = kernel.b_k_major = true;
    kernel.operands = &facts;
    kernel.maps = &map;
    kernel.map_count = 1;
    operand.stride[0] = operand.stride[1] = 64, operand.stride[2] = 1;
    return tiled_view(kernel, plan, map, operand, "x", view, trouble);
  }
};

// D = A @ B + C * s in bf16, of `items` times `rows` rows that lie `stride` elements apart, dealt out to `spread` items
// by a kernel that copies A, B and D: operand 0 is D, 1 is C, which has no batch, 2 the column s, 3 a bias by column.
struct Spread {
  std::vector<u16> memory;
  Kernel kernel{};
  std::vector<Map> maps;
  OperandFacts facts[4] = {{12, true, 0, 1}, {12, false, -1, 1}, {13, false, -1, 1}, {13, false, -1, -1}};
  Factor a, b;
  Operand operands[4] = {};
  i64 k = 0, m = 0;
  Plan plan{};
  Trouble trouble{};

  Spread(i32 spread, i64 items, i64 rows, i64 k_, i64 stride) : k(k_), m(items * rows) {
    memory.resize(static_cast<u64>(m * stride + 16));
    kernel.name = "kernel";
    kernel.family = 2;
    kernel.a_dtype = kernel.b_dtype = 12;
    kernel.has_product = kernel.folds = kernel.a_k_major = true;
    kernel.tile_m = kernel.tile_n = 128, kernel.tile_k = kernel.piece_rows = kernel.piece_cols = 64;
    kernel.ways = kernel.k_split = kernel.group = kernel.cluster_m = kernel.cluster_n = 1;
    kernel.alignment = 16;
    kernel.spread_a = spread;
    kernel.operand_count = 4;
    maps = {{map_a, false, 0, 64, 128, 128}, {map_b, false, 0, 64, 64, 128}, {map_operand, false, 0, 64, 16, 128}};
    for (u32 item = 1; item < static_cast<u32>(spread); ++item) maps.push_back({map_a, false, item, 64, 128, 128});
    a.name = "a", b.name = "b";
    a.data = reinterpret_cast<void*>((reinterpret_cast<u64>(memory.data()) + 15) / 16 * 16);
    a.batches = items, a.others = rows, a.ks = k, a.batch = items > 1 ? rows * stride : 0, a.other = stride, a.k = 1;
    b.data = reinterpret_cast<void*>(u64{1} << 20);
    b.others = 136, b.ks = k, b.other = 1, b.k = 136;
    for (const int full : {0, 1}) operands[full].stride[1] = 136, operands[full].stride[2] = 1;
    if (items > 1) operands[0].stride[0] = rows * 136, facts[1].batch = facts[2].batch = 0;
    if (items > 1) operands[1].stride[0] = rows * 136, operands[2].stride[0] = rows;
    operands[2].stride[1] = operands[3].stride[2] = 1;
  }
  bool planned() {
    kernel.maps = maps.data(), kernel.map_count = static_cast<i32>(maps.size());
    kernel.operands = facts;
    if (!plan_sizes(kernel, a.batches, a.others, 136, a.ks, 136, plan, trouble) ||
        !fold_batch(kernel, a, b, operands, plan, trouble))
      return false;
    fold(plan, a);
    return plan_product(kernel, a, b, plan, trouble);
  }
};

// Every element is where it was, and the copy engine's maps begin and end with the rows of their item.
TEST(SpreadRows, ItemsBeginAlike) {
  for (const auto& [spread, items, rows, k, stride] : {std::tuple(8, 1, 24, 479, 479),
                                                       {8, 1, 8, 13, 13},
                                                       {4, 1, 40, 30, 34},
                                                       {2, 1, 6, 100, 108},
                                                       {8, 1, 64, 65, 73},
                                                       {8, 4, 6, 21, 21},
                                                       {4, 12, 1, 22, 26},
                                                       {8, 1, 16, 60, 62},
                                                       {16, 1, 32, 7, 9}}) {
    SCOPED_TRACE(testing::Message() << spread << " items, " << k << " of " << stride);
    Spread one(spread, items, rows, k, stride);
    one.b.batch = 0;
    ASSERT_TRUE(one.planned()) << one.trouble.reason;
    Plan& plan = one.plan;
    EXPECT_EQ(plan.spread, spread);
    EXPECT_EQ(plan.problem.batches, spread);
    EXPECT_EQ(plan.problem.m * spread, one.m);
    EXPECT_EQ(plan.problem.rows, plan.problem.m);
    EXPECT_EQ(plan.problem.tiles_m, ceil_div(plan.problem.m, 128));
    EXPECT_EQ(plan.blocks, spread * plan.problem.tiles_m * 2);
    std::vector<Operand> before(one.operands, one.operands + 4);
    fold(one.kernel, plan, one.operands);
    for (i64 row = 0; row < one.m; ++row) {
      for (int k_ = 0; k_ < 4; ++k_) {
        const i64 was = row / rows * before[static_cast<size_t>(k_)].stride[0] +
                        row % rows * before[static_cast<size_t>(k_)].stride[1];
        EXPECT_EQ(row % spread * one.operands[k_].stride[0] + row / spread * one.operands[k_].stride[1], was) << k_;
      }
    }
    resolve(one.kernel, one.a, one.b, nullptr, nullptr, plan);
    EXPECT_EQ(plan.problem.b_batch, 0);
    const u64 base = reinterpret_cast<u64>(one.a.data);
    i64 seen = 0;
    for (const Map& map : one.maps) {
      Tiled view;
      ASSERT_TRUE(tiled_view(one.kernel, plan, map, one.operands[0], "x", view, one.trouble)) << one.trouble.reason;
      EXPECT_TRUE(check_tiled(view, one.trouble)) << one.trouble.reason;
      if (map.source != map_a) {
        EXPECT_EQ(view.batches, map.source == map_b ? 1 : spread);
        continue;
      }
      const i64 front = view.fast - k;  // elements of the row before
      EXPECT_EQ(front, map.operand * plan.problem.a_batch % 8) << "as the kernel counts them";
      EXPECT_EQ(view.batches, 1);
      EXPECT_EQ(view.slow * spread, one.m);
      EXPECT_TRUE(map.operand > 0 || front == 0) << "nothing lies in front of the first row";
      for (i64 row = 0; row < view.slow; ++row, ++seen)
        EXPECT_EQ(view.address + static_cast<u64>(row * view.slow_stride + front * 2),
                  base + static_cast<u64>((row * spread + map.operand) * stride * 2));
    }
    EXPECT_EQ(seen, one.m);
    EXPECT_EQ(layout_of(one.kernel).problem, 128 * (spread + 2));
  }
}

// What does not fit, other kernels take.
TEST(SpreadRows, LeavesThemToOthers) {
  struct Reason {
    const char* reason;
    std::function<void(Spread&)> make;
  };
  const std::vector<Reason> reasons = {
      {"its 27 rows are no multiple of 8, by which kernel deals them out", [](Spread& s) { s.a.others = 27; }},
      {"it is 3 matrices, and kernel deals out the rows of one",
       [](Spread& s) { s.a.batches = 3, s.a.batch = 7777, s.facts[1].batch = 0; }},
      {"its elements are 2 apart along K, and kernel reads them side by side", [](Spread& s) { s.a.k = 2; }},
      {"its address is no multiple of 16 bytes", [](Spread& s) { s.a.data = static_cast<const char*>(s.a.data) + 2; }},
      {"4 rows are 3832 bytes, no multiple of 16", [](Spread& s) { s.kernel.spread_a = 4; }},
      {"8 rows are -7664 bytes, and the copy engine takes positive strides below 2^40",
       [](Spread& s) { s.a.other = -479; }},
      {"8 rows are 0 bytes, and the copy engine takes positive strides below 2^40", [](Spread& s) { s.a.other = 0; }},
      {"8 rows are 1099511627776 bytes, and the copy engine takes positive strides below 2^40",
       [](Spread& s) { s.a.other = i64{1} << 36; }},
  };
  for (const Reason& reason : reasons) {
    Spread one(8, 1, 24, 479, 479);
    reason.make(one);
    EXPECT_FALSE(one.planned()) << reason.reason;
    EXPECT_EQ(one.trouble.code, trouble_misfit);
    EXPECT_STREQ(one.trouble.reason, reason.reason);
    EXPECT_TRUE(one.trouble.unaligned) << reason.reason;
    EXPECT_EQ(one.plan.spread, 1);
  }
}

// Without elements nothing is copied, and rows stay where they are, however many.
TEST(SpreadRows, NothingToCopy) {
  Spread none(8, 1, 27, 479, 479);
  none.k = none.a.ks = none.b.ks = 0;
  none.a.empty = none.b.empty = true;
  EXPECT_TRUE(none.planned()) << none.trouble.reason;
  EXPECT_EQ(none.plan.spread, 1);
  EXPECT_EQ(none.plan.problem.m, 27);
  EXPECT_FALSE(uses_maps(none.kernel, none.plan));
  Spread rows(8, 1, 0, 479, 479);
  rows.a.empty = true;
  EXPECT_TRUE(rows.planned()) << rows.trouble.reason;
  EXPECT_TRUE(rows.plan.empty);
}

// One B for all items, of which the packing makes one copy; of elements that change places, a square a block.
TEST(SpreadRows, PacksOneB) {
  Spread one(8, 1, 24, 479, 479);
  one.kernel.pack_b = true;
  one.b.other = 479, one.b.k = 1, one.b.batch = 12345;  // of a batch of one matrix
  ASSERT_TRUE(one.planned()) << one.trouble.reason;
  const Packing& packing = one.plan.packing.factor[0];
  EXPECT_EQ(packing.batches, 1);
  EXPECT_EQ(packing.batch_stride, 0);
  EXPECT_EQ(packing.fast, 136);
  EXPECT_EQ(packing.slow, 479);
  EXPECT_EQ(packing.packed_stride, 136);
  const Entry entry{entry_pack, 0, "pack", 256, 0, 1};
  Grid grid;
  ASSERT_TRUE(plan_grid(one.kernel, entry, {"device", 132, {1 << 30, 65535, 65535}}, 0, one.plan, grid, one.trouble));
  EXPECT_EQ(grid.blocks[0], 5 * 15);
  EXPECT_EQ(grid.blocks[1], 1);
  resolve(one.kernel, one.a, one.b, nullptr, nullptr, one.plan);
  EXPECT_EQ(one.plan.problem.b_batch, 0);
}

// Rows of all items, one behind the other, that are more than a coordinate counts: another kernel may take them.
TEST(TiledView, MadeRowsHaveACoordinate) {
  for (const auto& [batches, m, fits] : {std::tuple(i64{1}, i64{0x7fffffff}, true),
                                         {i64{4}, i64{1} << 28, true},
                                         {i64{8}, i64{1} << 28, false},
                                         {i64{1} << 40, i64{1} << 40, false}}) {
    OneMap one;
    one.plan.problem.m = m, one.plan.problem.k = 64, one.plan.problem.batches = batches;
    EXPECT_EQ(one.made(map_made_rows), fits) << m;
    EXPECT_EQ(one.trouble.unaligned, !fits) << "so that the next program is tried";
    EXPECT_EQ(one.view.slow == batches * m, fits);
  }
}

// Columns in runs, as halves of heads have them: a map of the matrix that they are parts of.
TEST(TiledView, ColumnsInRuns) {
  OneMap one;
  one.facts = {12, true, -1, 0};
  one.kernel.alignment = 16;
  Problem& p = one.plan.problem;
  p.m = p.k = p.rows = 200, p.batches = 1, p.cols = 192, p.n = 384;
  EXPECT_FALSE(one.made(map_operand));
  EXPECT_STREQ(one.trouble.reason, "its columns are 64 elements apart, and kernel takes them side by side");
  EXPECT_TRUE(one.trouble.unaligned);
  one.trouble = {};
  one.operand.stride[0] = 1000, one.operand.stride[1] = 1, one.operand.stride[2] = 128;
  ASSERT_TRUE(tiled_view(one.kernel, one.plan, one.map, one.operand, "x", one.view, one.trouble)) << one.trouble.reason;
  EXPECT_EQ(one.view.fast, 384);
  EXPECT_EQ(one.view.slow, 200);
  EXPECT_EQ(one.view.slow_stride, 2000);
  EXPECT_EQ(one.view.batches, 1) << "the first stride is that of rows";
}

// Every size of what the copy engine takes or a matrix kernel reads; kernels that are no matrix kernels count further.
TEST(TiledView, SizesHaveACoordinate) {
  for (const i64 size : {i64{1} << 20, i64{0x7fffffff}, i64{1} << 31, i64{3000000000}, i64{1} << 40}) {
    const bool fits = size <= 0x7fffffff;
    for (const int dim : {0, 1, 2, 3}) {
      for (const MapSource source : {map_a, map_b, map_operand, map_made_a}) {
        OneMap one;
        Problem& p = one.plan.problem;
        p.m = p.n = p.k = p.batches = 64;
        (dim == 0 ? p.m : dim == 1 ? p.n : dim == 2 ? p.k : p.batches) = size;
        p.rows = p.m, p.cols = p.n, p.a_batch = p.b_batch = 64;
        const bool has = dim == 3 || (dim == 0 && source != map_b) ||
                         (dim == 1 && (source == map_b || source == map_operand)) ||
                         (dim == 2 && source != map_operand);
        EXPECT_EQ(one.made(source), fits || !has) << size << " " << dim;
        EXPECT_EQ(one.trouble.unaligned, !fits && has);
      }
    }
    for (const i32 maps : {0, 1}) {
      for (const int dim : {0, 1, 2}) {
        Map map{};
        Case c;
        c.kernel.family = 1;
        c.kernel.name = "kernel";
        c.kernel.alignment = 1;
        c.kernel.maps = &map;
        c.kernel.map_count = maps;
        (dim == 0 ? c.a.others : dim == 1 ? c.a.ks : c.a.batches) = size;
        Trouble trouble;
        EXPECT_EQ(check_factor(c.kernel, c.a, true, trouble), fits || maps == 0) << size << " " << dim;
        EXPECT_EQ(trouble.unaligned, !fits && maps != 0);
        if (trouble.code == 0) continue;
        EXPECT_EQ(trouble.code, trouble_misfit);
        const std::string reason = trouble.reason, wanted = "one of its sizes is " + std::to_string(size);
        EXPECT_EQ(reason, wanted + ", and kernel counts to 2^31 - 1; kernels that are compiled for such a size (as a " +
                              "hint) count further");
        EXPECT_STREQ(trouble.help, "find a kernel with this view, or compile the program with hints of these sizes");
      }
    }
  }
}

// The tiles of a group are fewer than 2^32, however many columns there are.
TEST(PlanSizes, GroupsOfTilesFit) {
  for (const i32 maps : {0, 1}) {
    for (const i64 rows : {i64{1}, i64{100}, i64{64} * 8, i64{64} * 9}) {
      Kernel kernel{};
      kernel.name = "kernel";
      kernel.tile_m = kernel.tile_n = kernel.tile_k = kernel.piece_rows = kernel.piece_cols = 64;
      kernel.ways = kernel.cluster_m = kernel.cluster_n = kernel.k_split = 1;
      kernel.group = 8;
      kernel.map_count = maps;
      Plan plan{};
      Trouble trouble;
      ASSERT_TRUE(plan_sizes(kernel, 1, rows, i64{64} << 30, 1, 1, plan, trouble)) << trouble.reason;
      EXPECT_EQ(plan.problem.group, maps != 0 ? 8U : static_cast<u64>(rows <= 64 ? 1 : rows <= 128 ? 2 : 8));
    }
  }
}

// Rows beyond those that a stage brings would be multiplied with something else.
TEST(PlanSizes, StagesBringAllRowsOfA) {
  for (const i64 rows : {i64{1}, i64{24}, i64{25}}) {
    Case c(rows);
    c.kernel.family = 1;
    c.kernel.alignment = 1;
    c.kernel.a_rows = 24;
    Trouble trouble;
    EXPECT_TRUE(check_factor(c.kernel, c.b, false, trouble)) << trouble.reason;
    EXPECT_EQ(check_factor(c.kernel, c.a, true, trouble), rows <= 24) << trouble.reason;
    EXPECT_EQ(trouble.unaligned, rows > 24) << "another kernel takes them";
    if (rows <= 24) continue;
    EXPECT_EQ(trouble.code, trouble_misfit);
    EXPECT_STREQ(trouble.reason, "it has 25 rows, and kernel brings 24 of them");
  }
}

// Reductions that the product's last block combines have a kernel of their own where there is no product.
TEST(PlanSizes, TheLastBlockCombines) {
  const Reduction reduction{axis_row, 0, 4, 1};
  const DeviceLimits device{"device", 132, {1 << 30, 65535, 65535}};
  for (const bool combines : {false, true}) {
    for (const i64 columns : {20, 0}) {
      for (const i32 slices : {1, 2}) {
        Case c;
        c.kernel.combines = combines;
        c.kernel.k_split = slices;
        c.kernel.accumulator_bytes = 4;
        c.kernel.reductions = &reduction;
        c.kernel.reduction_count = 1;
        Plan plan{};
        Trouble trouble;
        ASSERT_TRUE(plan_sizes(c.kernel, 1, 5, columns, 32, columns, plan, trouble)) << trouble.reason;
        for (const u32 phase : {0U, 1U}) {
          Grid grid{};
          const Reduction later{axis_row, phase, 4, 1};
          c.kernel.reductions = &later;
          ASSERT_TRUE(
              plan_grid(c.kernel, {entry_combine, phase, "combine", 256, 0, 32}, device, 0, plan, grid, trouble));
          EXPECT_EQ(grid.skipped, combines && phase == 0 && columns != 0);
        }
        c.kernel.reductions = &reduction;
        Reserved reserved[1];
        ASSERT_TRUE(plan_workspace(c.kernel, false, plan, reserved, trouble)) << trouble.reason;
        const i64 tiles = slices > 1 ? (columns + 15) / 16 : 0, words = tiles + (combines && columns != 0 ? 1 : 0);
        EXPECT_EQ(plan.counter_bytes > 0, words > 0 || (combines && slices > 1)) << columns << " columns, " << slices;
        EXPECT_GE(plan.counter_bytes, 4 * words);
        EXPECT_TRUE(words == 0 || plan.counters_at >= 0);
      }
    }
  }
}

// Pieces that hold whole rows hold no longer ones, and nothing of none. What reductions give stays on chip.
TEST(PlanSizes, PiecesOfWholeRows) {
  const Reduction reduction{axis_row, 0, 4, 1};
  for (const i64 columns : {i64{1}, i64{16}, i64{17}, i64{0}}) {
    Case c;
    c.kernel.whole_rows = true;
    c.kernel.reductions = &reduction;
    c.kernel.reduction_count = 1;
    c.b.others = columns;
    Plan plan{};
    Trouble trouble;
    ASSERT_TRUE(plan_sizes(c.kernel, 3, 5, columns, 8, columns, plan, trouble)) << trouble.reason;
    const bool fits = columns == 1 || columns == 16;
    EXPECT_EQ(plan_product(c.kernel, c.a, c.b, plan, trouble), fits) << columns;
    EXPECT_EQ(trouble.unaligned, !fits) << "another kernel takes them";
    if (fits) {
      Reserved reserved[1];
      ASSERT_TRUE(plan_workspace(c.kernel, false, plan, reserved, trouble)) << trouble.reason;
      EXPECT_EQ(plan.workspace, 0);
      continue;
    }
    EXPECT_EQ(trouble.code, trouble_misfit);
    EXPECT_EQ(std::string(trouble.reason),
              "its products have rows of " + std::to_string(columns) + " elements, and kernel holds 1 to 16 of a row");
  }
}

}  // namespace
}  // namespace codetta::gpu::host
