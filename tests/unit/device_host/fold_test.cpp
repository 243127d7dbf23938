// SPDX-License-Identifier: Apache-2.0
// When the items of a batch are taken for further rows of one (fold_batch), and every reason why they are not.
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

}  // namespace
}  // namespace codetta::gpu::host
