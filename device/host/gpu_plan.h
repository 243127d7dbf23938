// SPDX-License-Identifier: Apache-2.0
// What a launch of a GPU kernel is, from tables and sizes to grids, workspace, tensor maps and parameter bytes: the one
// place that knows, for runs in process (src/runtime/cuda) and for emitted host text alike. Nothing is allocated and no
// driver is called. device/gpu/abi.h says what the parameters mean. No standard C++ headers.
#pragma once

#include <string.h>

#include "device/gpu/abi.h"
#include "device/host/fold.h"
#include "device/host/gpu_numbers.h"
#include "device/host/gpu_tables.h"
#include "device/host/items.h"

namespace codetta::gpu::host {

// ---- one launch ----
// A or B: strides in elements. `other` is the row of A, the column of B; batch and skip 0: one matrix for all items.
struct Factor {
  const char* name = "";
  const void* data = nullptr;
  i64 batch = 0, other = 0, k = 0;
  i64 skip = 0, inner = 0;              // of items (device/host/items.h)
  i64 batches = 1, others = 0, ks = 0;  // sizes
  bool empty = false;
};

struct Reserved {  // of a reduction: offsets in the workspace, or -1
  i64 partials, results;
};

// How the items of a batch became rows of one item.
enum class Fold : u8 {
  none,
  adjacent,  // each item's rows follow those of the item in front
  single,    // of one row an item: the strides of the batch are those of rows
};

// What the sizes and strides decide; addresses come with resolve().
struct Plan {
  Problem problem{};
  PackParams packing{};
  i64 blocks = 0;                            // of the product's grid, before persistence; whole clusters
  i64 gemm_blocks = 0;                       // of a persistent product's grid
  i64 packed_at[2] = {-1, -1};               // A, B: offsets in the workspace; -1: read where they lie
  i64 counters_at = -1, zero_at = -1;        // among the counters
  i64 accumulators_at = -1, slices_at = -1;  // in the workspace
  i64 counter_bytes = 0;  // memory apart from the workspace: zero before a run, and every run leaves it zero
  i64 workspace = 0;      // bytes
  // Of products with root spaces of their own, which share tiles_n by turns: the columns of each; and how many there
  // are, 0 where all have one root space. Set in front of plan_sizes().
  i64 widths[most_spaces] = {};
  i32 spaces = 0;
  i32 ways = 1;  // of the split
  Fold fold = Fold::none;
  i64 spread = 1;      // items that the rows of A are dealt out to, behind `fold`
  bool empty = false;  // no element in the root space
};

struct Grid {
  i64 blocks[3];
  bool skipped;  // nothing to do
  bool packs;    // gets the packing in place of the parameters
};

// Columns of the B of one of several products.
inline i64 columns_of_b(const Plan& plan, i64 products, i32 of) {
  return plan.spaces == 0 ? plan.problem.n / products : plan.widths[of] * plan.ways;
}

// The product's sizes, or a map's root space with k = 0. n counts the columns of all products.
inline bool plan_sizes(const Kernel& kernel, i64 batch, i64 m, i64 n, i64 k, i64 chunk, Plan& plan, Trouble& trouble) {
  Problem& p = plan.problem;
  p.batches = batch, p.m = m, p.n = n, p.k = k, p.chunk = chunk;
  p.rows = m;
  p.cols = n / kernel.ways;
  if (kernel.ways == 1) p.chunk = larger(p.cols, 1);
  plan.ways = kernel.ways;
  const i64 root_tile = larger(kernel.tile_n / kernel.ways, 1);
  i64 tiles_n = ceil_div(p.cols, root_tile);
  bool even = n % kernel.ways == 0;
  if (plan.spaces > 0) {
    tiles_n = 0;
    for (i32 i = 0; i < plan.spaces; ++i) {
      tiles_n += ceil_div(plan.widths[i], root_tile);
      even = even && (kernel.ways == 1 || p.chunk < 1 || plan.widths[i] % p.chunk == 0);
    }
  }
  if (kernel.ways > 1 && (!even || p.chunk < 1 || p.cols % p.chunk != 0)) {
    trouble.code = trouble_misfit;
    say(trouble.headline, "%lld columns cannot be split", n);
    say(trouble.reason, "the kernel takes %d parts in chunks of %lld", kernel.ways, p.chunk);
    trouble.help = "use a number of columns that is a multiple of both";
    return false;
  }
  const int empty = (batch == 0 ? 1 : 0) + (p.rows == 0 ? 2 : 0) + (p.cols == 0 ? 4 : 0);
  if ((kernel.missing_when >> empty & 1) != 0) {
    trouble.code = trouble_misfit;
    say(trouble.headline, "%.200s does not take a problem of %lld x %lld in %lld batch items", kernel.name, m, n,
        batch);
    say(trouble.reason, "an output has elements that this kernel computes with each %s, and there is none",
        batch == 0    ? "batch item"
        : p.rows == 0 ? "row"
                      : "column");
    unaligned(trouble);
    trouble.help = "let other kernels be compiled, run a CPU kernel, or leave the call out where a size is 0";
    return false;
  }
  p.tiles_m = ceil_div(p.rows, kernel.tile_m);
  p.tiles_n = tiles_n;
  p.pieces_m = ceil_div(p.rows, kernel.piece_rows);
  p.pieces_n = ceil_div(p.cols, kernel.piece_cols);
  p.k_slice = larger(ceil_div(ceil_div(k, kernel.k_split), kernel.tile_k), 1) * kernel.tile_k;
  p.k_split = larger(ceil_div(k, p.k_slice), 1);
  // Kernels without tensor maps count in 64 bits, but number the tiles of a group in 32.
  const i64 group = larger(kernel.group, 1);
  p.group = static_cast<u64>(kernel.map_count == 0 ? smaller(group, larger(p.tiles_m, 1)) : group);
  plan.empty = batch == 0 || p.rows == 0 || p.cols == 0;
  const i64 cluster = static_cast<i64>(kernel.cluster_m) * kernel.cluster_n;
  i64 blocks = ceil_div(p.tiles_m, kernel.cluster_m);
  bool over = __builtin_mul_overflow(blocks, ceil_div(p.tiles_n, kernel.cluster_n), &blocks);
  over = __builtin_mul_overflow(blocks, cluster * p.k_split, &blocks) || over;
  over = __builtin_mul_overflow(blocks, batch, &blocks) || over;
  if (over) return beyond(trouble, "%.200s has more than 2^63 blocks", kernel.name);
  plan.blocks = blocks;
  return true;
}

// A and the operands, as the product's items and rows are then.
inline void fold(const Plan& plan, Factor& a) {
  if (plan.fold == Fold::none && plan.spread == 1) return;
  if (plan.fold == Fold::single) a.other = a.batch;
  a.batch = 0, a.batches = 1, a.others = plan.problem.m;
  if (plan.spread > 1) a.batch = a.other, a.other *= plan.spread, a.batches = plan.spread;
}
inline void fold(const Plan& plan, const OperandFacts& facts, Operand& operand) {
  if (plan.fold == Fold::none && plan.spread == 1) return;
  i64* stride = operand.stride;
  if (plan.fold == Fold::single && facts.row >= 0) stride[facts.row] = facts.batch < 0 ? 0 : stride[facts.batch];
  if (facts.batch >= 0) stride[facts.batch] = 0;
  if (plan.spread > 1 && facts.row >= 0) {
    stride[facts.batch < 0 ? 0 : facts.batch] = stride[facts.row];  // of what has no batch the first is free
    stride[facts.row] *= plan.spread;
  }
}
inline void fold(const Kernel& kernel, const Plan& plan, Operand* operands) {
  for (i32 i = 0; i < kernel.operand_count; ++i) fold(plan, kernel.operands[i], operands[i]);
}

// Takes the items of a batch for further rows of one where all have the same B, and where strides allow it: the product
// of [b, 1, k] and [k, n] reads B once, as that of [b, k] does.
inline bool fold_items(const Kernel& kernel, const Factor& a, const Factor& b, const Operand* operands, Plan& plan,
                       Trouble& trouble) {
  const Problem& p = plan.problem;
  const bool copies = !plan.empty && p.k != 0 && p.batches > 1;
  for (i32 i = 0; i < kernel.map_count && copies; ++i) {  // what is copied of them has one place in the batch
    const Map& map = kernel.maps[i];
    if (map.source != map_more_b || (operands[map.operand].stride[0] == 0) == (b.batch == 0)) continue;
    return misfit(trouble, b.name, "it is %s for all items, and the B of a further product is not",
                  b.batch == 0 ? "one matrix" : "no one matrix");
  }
  const i64 rows =
      a.skip != 0 ? 0 : codetta::fold::rows_of_all(p.batches, p.m, a.batch, a.other, b.skip != 0 ? 1 : b.batch);
  if (rows == 0 || !kernel.folds || !kernel.has_product || plan.empty || a.batches != p.batches) return true;
  // A kernel that reads rows of A side by side relies on it.
  if (kernel.family != family_simt && !kernel.pack_a && !kernel.a_k_major) return true;
  const bool single = p.m == 1;
  for (i32 i = 0; i < kernel.operand_count; ++i) {
    const OperandFacts& facts = kernel.operands[i];
    const i64 batch = facts.batch < 0 ? 0 : operands[i].stride[facts.batch];
    const i64 row = facts.row < 0 ? 0 : operands[i].stride[facts.row];
    if (!codetta::fold::follow(p.m, batch, row)) return true;
    if (facts.row < 0 && batch != 0) return true;  // a further B, one an item
    if (!single) continue;
    for (i32 m = 0; m < kernel.map_count; ++m) {
      const Map& map = kernel.maps[m];
      if (map.source != map_operand || map.operand != static_cast<u32>(i)) continue;
      // The copy engine takes no rows that all lie at one place; rows that it takes side by side, items are not.
      if (batch == 0 || map.column_major) return true;
    }
  }
  plan.fold = single ? Fold::single : Fold::adjacent;
  return plan_sizes(kernel, 1, rows, p.n, p.k, p.chunk, plan, trouble);
}

// Deals the rows of A out to items: each spread_a-th row is one of an item, and they begin at the same place within 16
// bytes, where the copy engine needs all rows of a map to begin. What is in front of that place in the copies, elements
// of other rows, the kernel sets to zero. `a`: as its tensor is.
inline bool spread_rows(const Kernel& kernel, Factor a, Plan& plan, Trouble& trouble) {
  const Problem& p = plan.problem;
  const i64 items = kernel.spread_a;
  if (items <= 1 || plan.empty || p.k == 0) return true;
  fold(plan, a);
  if (p.batches != 1) {
    misfit(trouble, a.name, "it is %lld matrices, and %.200s deals out the rows of one", p.batches, kernel.name);
    return unaligned(trouble);
  }
  if (p.m % items != 0) {
    misfit(trouble, a.name, "its %lld rows are no multiple of %lld, by which %.200s deals them out", p.m, items,
           kernel.name);
    return unaligned(trouble);
  }
  if (a.ks > 1 && a.k != 1) {
    misfit(trouble, a.name, "its elements are %lld apart along K, and %.200s reads them side by side", a.k,
           kernel.name);
    return unaligned(trouble);
  }
  if (reinterpret_cast<u64>(a.data) % static_cast<u64>(map_alignment) != 0) {
    misfit(trouble, a.name, "its address is no multiple of %lld bytes", map_alignment);
    return unaligned(trouble);
  }
  const i64 element = element_bytes(kernel.a_dtype);
  if (a.others > 1 && (a.other <= 0 || a.other >= map_stride_limit / element / items)) {
    misfit(trouble, a.name, "%lld rows are %lld bytes, and the copy engine takes positive strides below 2^40", items,
           a.other * element * items);
    return unaligned(trouble);
  }
  if (a.others > 1 && a.other * element * items % map_alignment != 0) {
    misfit(trouble, a.name, "%lld rows are %lld bytes, no multiple of %lld", items, a.other * element * items,
           map_alignment);
    return unaligned(trouble);
  }
  plan.spread = items;
  return plan_sizes(kernel, items, p.m / items, p.n, p.k, p.chunk, plan, trouble);
}

// What the items and rows of the product are: those of the tensors, or others that its kernel is better at. After
// plan_sizes(), with the strides of the operands; before plan_product(), with `a` folded as the operands are.
inline bool fold_batch(const Kernel& kernel, const Factor& a, const Factor& b, const Operand* operands, Plan& plan,
                       Trouble& trouble) {
  return fold_items(kernel, a, b, operands, plan, trouble) && spread_rows(kernel, a, plan, trouble);
}

// A size beyond the coordinates of the copy engine; another kernel of the program may count further.
inline bool too_large(const Kernel& kernel, const char* name, i64 size, Trouble& trouble) {
  misfit(trouble, name,
         "one of its sizes is %lld, and %.200s counts to 2^31 - 1; kernels that are compiled for such a size (as a "
         "hint) count further",
         size, kernel.name);
  unaligned(trouble);
  trouble.help = "find a kernel with this view, or compile the program with hints of these sizes";
  return false;
}

// What the kernel was compiled to rely on: adjacent elements along one dim, and alignment.
inline bool check_factor(const Kernel& kernel, const Factor& factor, bool is_a, Trouble& trouble) {
  const bool k_major = is_a ? kernel.a_k_major : kernel.b_k_major, packed = is_a ? kernel.pack_a : kernel.pack_b;
  if (kernel.family == family_simt || factor.empty) return true;
  // Without tensor maps a kernel counts rows, columns and K in 64 bits.
  const i64 largest = larger(factor.batches, larger(factor.others, factor.ks));
  if (kernel.map_count != 0 && largest > max_coordinate) return too_large(kernel, factor.name, largest, trouble);
  if (is_a && kernel.a_rows > 0 && factor.others > kernel.a_rows) {
    misfit(trouble, factor.name, "it has %lld rows, and %.200s brings %d of them", factor.others, kernel.name,
           kernel.a_rows);
    return unaligned(trouble);
  }
  if (packed || (is_a && kernel.spread_a > 1)) return true;  // spread_rows() has looked at it
  const struct {
    i64 size, stride;
  } fast = {k_major ? factor.ks : factor.others, k_major ? factor.k : factor.other},
    slow = {k_major ? factor.others : factor.ks, k_major ? factor.other : factor.k};
  if (fast.size > 1 && fast.stride != 1) {
    misfit(trouble, factor.name, "its elements are %lld apart along %s, and %.200s reads them side by side",
           fast.stride, k_major ? "K" : "the other dim", kernel.name);
    return unaligned(trouble);
  }
  const i64 element = element_bytes(is_a ? kernel.a_dtype : kernel.b_dtype);
  if (reinterpret_cast<u64>(factor.data) % static_cast<u64>(kernel.alignment) != 0) {
    misfit(trouble, factor.name, "its address is no multiple of %d bytes", kernel.alignment);
    return unaligned(trouble);
  }
  if (slow.size > 1 && slow.stride * element % kernel.alignment != 0) {
    misfit(trouble, factor.name, "its stride in the slower dim is %lld bytes, no multiple of %d", slow.stride * element,
           kernel.alignment);
    return unaligned(trouble);
  }
  const i64 item_strides[] = {factor.batch, factor.batch * factor.inner + factor.skip};
  for (const i64 stride : item_strides) {
    if (factor.batches <= 1 || stride * element % kernel.alignment == 0) continue;
    misfit(trouble, factor.name, "its stride in the batch is %lld bytes, no multiple of %d", stride * element,
           kernel.alignment);
    return unaligned(trouble);
  }
  if (kernel.map_count == 0) return true;
  if (factor.skip != 0) {
    misfit(trouble, factor.name, "its leading dims have two strides, of which %.200s takes one", kernel.name);
    return unaligned(trouble);
  }
  // Of one matrix for all items the batch has no stride.
  const i64 strides[] = {slow.size > 1 ? slow.stride : 1, factor.batches > 1 && factor.batch != 0 ? factor.batch : 1};
  for (const i64 stride : strides) {
    if (stride > 0 && stride < map_stride_limit / element) continue;
    misfit(trouble, factor.name, "a stride is %lld bytes, and the copy engine takes positive ones below 2^40",
           stride * element);
    return unaligned(trouble);
  }
  return true;
}

// Sizes and strides of the copies.
inline void plan_packing(const Kernel& kernel, const Factor& a, const Factor& b, Plan& plan) {
  const Problem& p = plan.problem;
  i32 count = 0;
  for (i32 which = 0; which < 2; ++which) {
    if (!(which == 0 ? kernel.pack_a : kernel.pack_b)) continue;
    const Factor& factor = which == 0 ? a : b;
    const bool k_major = which == 0 ? kernel.a_k_major : kernel.b_k_major;
    const i64 other = which == 0 ? p.m : p.n;
    const i64 unit = pack_alignment / element_bytes(which == 0 ? kernel.a_dtype : kernel.b_dtype);
    Packing& packing = plan.packing.factor[count++];
    packing.batches = (factor.batch == 0 && factor.skip == 0) || plan.spread > 1 ? 1 : larger(p.batches, 1);
    packing.fast = k_major ? p.k : other;
    packing.slow = k_major ? other : p.k;
    packing.batch_stride = plan.spread > 1 ? 0 : factor.batch;  // items that rows are dealt out to have one B
    packing.skip = plan.spread > 1 ? 0 : factor.skip;
    packing.inner = factor.inner;
    packing.fast_stride = k_major ? factor.k : factor.other;
    packing.slow_stride = k_major ? factor.other : factor.k;
    packing.packed_stride = ceil_div(packing.fast, unit) * unit;
  }
}

inline bool plan_product(const Kernel& kernel, const Factor& a, const Factor& b, Plan& plan, Trouble& trouble) {
  if (!check_factor(kernel, a, true, trouble) || !check_factor(kernel, b, false, trouble)) return false;
  if (const i64 cols = plan.problem.cols; kernel.whole_rows && (cols < 1 || cols > kernel.piece_cols)) {
    misfit(trouble, b.name, "its products have rows of %lld elements, and %.200s holds 1 to %d of a row", cols,
           kernel.name, kernel.piece_cols);
    return unaligned(trouble);
  }
  if (a.inner != 0 && b.inner != 0 && a.inner != b.inner) {
    misfit(trouble, b.name, "%lld of its items lie one way, and %lld of the other factor", b.inner, a.inner);
    return unaligned(trouble);
  }
  plan_packing(kernel, a, b, plan);
  return true;
}

// Elements are taken by indices out of a tensor that has none.
inline bool gathers_nothing(const Plan& plan, const char* name, const char* form, Trouble& trouble) {
  trouble.code = trouble_index;
  say(trouble.headline, "elements of %.160s are taken by indices, and it has none", name);
  say(trouble.reason, "it is %.200s, and %lld elements are computed of it", form,
      plan.problem.batches * plan.problem.rows * plan.problem.cols);
  trouble.help = "pass a tensor with elements, or no indices";
  return false;
}

// ---- grids ----
// Whether the grid of an entry depends on how many of its clusters (blocks, where a cluster is one) the device holds.
inline bool needs_fit(const Kernel& kernel, const Entry& entry, const Plan& plan) {
  return entry.kind == entry_gemm && kernel.persistent && !plan.empty;
}
inline i32 cluster_of(const Kernel& kernel, const Entry& entry) {
  return entry.kind == entry_gemm ? kernel.cluster_m * kernel.cluster_n : 1;
}

// `fit`: where needs_fit(). Of the product's entry before plan_workspace().
inline bool plan_grid(const Kernel& kernel, const Entry& entry, const DeviceLimits& device, i64 fit, Plan& plan,
                      Grid& grid, Trouble& trouble) {
  const Problem& p = plan.problem;
  grid = {{1, 1, 1}, false, false};
  i64* blocks = grid.blocks;
  const i64 cluster = cluster_of(kernel, entry);
  switch (entry.kind) {
    case entry_gemm:
      blocks[0] = plan.blocks;
      grid.skipped = plan.empty;
      if (!needs_fit(kernel, entry, plan)) break;
      if (fit < 1) {
        return beyond(trouble,
                      "%.160s fits no multiprocessor of %.80s: clusters of %lld blocks of %d threads with %d bytes of "
                      "shared memory",
                      entry.symbol, device.name, cluster, entry.threads, entry.shared_bytes);
      }
      blocks[0] = smaller(kernel.stream_k ? blocks[0] * ceil_div(p.k, kernel.tile_k) : blocks[0], fit * cluster);
      plan.gemm_blocks = blocks[0];
      break;
    case entry_pack: {
      const i32 count = (kernel.pack_a ? 1 : 0) + (kernel.pack_b ? 1 : 0);
      i64 rows = 0, wanted = 0;
      for (i32 i = 0; i < count; ++i) {
        const Packing& packing = plan.packing.factor[i];
        rows = larger(rows, packing.batches * packing.slow);
        wanted = larger(wanted, ceil_div(rows, larger(entry.threads / 32, 1)));
        const bool transposed = packing.slow_stride == 1 && packing.fast_stride != 1;  // a square a block
        if (transposed)
          wanted = larger(wanted, packing.batches * ceil_div(packing.slow, 32) * ceil_div(packing.fast, 32));
      }
      blocks[0] = smaller(wanted, device.multiprocessors * pack_blocks);
      blocks[1] = count;
      grid.packs = true;
      grid.skipped = plan.empty || p.k == 0 || rows == 0 || count == 0;
      break;
    }
    case entry_combine: {
      i64 largest = 0, count = 0;
      for (i32 i = 0; i < kernel.reduction_count; ++i) {
        const Reduction& reduction = kernel.reductions[i];
        if (reduction.phase != entry.index) continue;
        ++count;
        // A block finishes one result of an item, which has as many partials as there are pieces.
        const i64 results = reduction.axis == axis_row      ? p.batches * p.rows
                            : reduction.axis == axis_column ? p.batches * p.cols
                            : reduction.axis == axis_item   ? p.batches * larger(entry.results_per_block, 1)
                                                            : 1;
        largest = larger(largest, results);
      }
      blocks[0] = ceil_div(largest, larger(entry.results_per_block, 1));
      blocks[1] = count;
      grid.skipped = blocks[0] == 0 || count == 0 || (kernel.combines && entry.index == 0 && !plan.empty);
      if (blocks[0] > device.max_grid[0]) {
        blocks[2] = ceil_div(blocks[0], device.max_grid[0]);
        blocks[0] = device.max_grid[0];
      }
      break;
    }
    default:
      // Over an empty root space the stores of finished reductions are still owed: one block looks at them. A block of
      // a panel walks its rows itself; what lies beyond the grid is walked by loops.
      blocks[0] = entry.kind == entry_panel ? 1 : smaller(larger(p.pieces_n, 1), device.max_grid[0]);
      blocks[1] = smaller(larger(p.pieces_m, 1), device.max_grid[1]);
      blocks[2] = smaller(larger(p.batches, 1), device.max_grid[2]);
      if (entry.kind == entry_panel) {
        i64 rows = 0;  // bytes of those that a block is at, on all multiprocessors
        const bool over = __builtin_mul_overflow(p.cols, larger(kernel.loaded_bytes, 1), &rows) ||
                          __builtin_mul_overflow(rows, kernel.piece_rows * larger(device.multiprocessors, 1), &rows);
        const i64 fit_in = over ? 1 : panel_cache / larger(rows, 1);
        const i64 at_once = larger(device.multiprocessors, 1) * smaller(larger(fit_in, least_panels), most_panels);
        blocks[2] = smaller(blocks[2], at_once);
        blocks[1] = smaller(blocks[1], ceil_div(at_once, blocks[2]));
      }
  }
  for (i32 i = 0; i < 3 && !grid.skipped; ++i) {
    if (blocks[i] <= device.max_grid[i]) continue;
    return beyond(trouble, "%.160s needs a grid of %lld x %lld x %lld blocks; %.80s takes %lld x %lld x %lld",
                  entry.symbol, blocks[0], blocks[1], blocks[2], device.name, device.max_grid[0], device.max_grid[1],
                  device.max_grid[2]);
  }
  return true;
}

// ---- workspace ----
// `reserved`: one a reduction. `needs_zero`: some load meets no element, and reads a 0 instead.
inline bool plan_workspace(const Kernel& kernel, bool needs_zero, Plan& plan, Reserved* reserved, Trouble& trouble) {
  Problem& p = plan.problem;
  Placer placer, counters;
  if (needs_zero) plan.zero_at = counters.add(workspace_step);
  const i64 tile = static_cast<i64>(kernel.tile_m) * kernel.tile_n, accumulator = kernel.accumulator_bytes;
  if (kernel.stream_k && !plan.empty) {
    // As sm90::Schedule of device/cuda/kernels/sm90.h counts them.
    const i64 cluster = static_cast<i64>(kernel.cluster_m) * kernel.cluster_n, tiles = plan.blocks / cluster;
    const i64 clusters = plan.gemm_blocks / cluster, full = tiles / clusters;
    const i64 cut = tiles % clusters == 0 ? 0 : tiles - (larger(full, 1) - 1) * clusters;
    if (cut > 0) {
      const i64 steps = ceil_div(p.k, kernel.tile_k), share = ceil_div(cut * steps, clusters);
      p.k_split = ceil_div(steps, share) + 1;
      plan.counters_at = counters.add(cut, cluster, 4);
      plan.slices_at = placer.add(cut, cluster, p.k_split, tile, accumulator);
    }
  } else if (p.k_split > 1) {
    const i64 tiles = plan.blocks / p.k_split;
    plan.counters_at = counters.add(tiles + (kernel.combines ? 1 : 0), 4);
    plan.slices_at = placer.add(tiles, p.k_split, tile, accumulator);
  } else if (kernel.combines && !plan.empty) {
    plan.counters_at = counters.add(1, 4);
  }
  for (i32 factor = 0, place = 0; factor < 2; ++factor) {
    if (!(factor == 0 ? kernel.pack_a : kernel.pack_b)) continue;
    const Packing& packing = plan.packing.factor[place++];
    plan.packed_at[factor] = placer.add(packing.batches, packing.slow, packing.packed_stride,
                                        element_bytes(factor == 0 ? kernel.a_dtype : kernel.b_dtype));
  }
  if (kernel.keeps_accumulators) plan.accumulators_at = placer.add(p.batches, kernel.ways, p.rows, p.cols, accumulator);
  // Threads that finish rows keep their reductions.
  const bool in_memory = !kernel.whole_rows && (kernel.entry_count == 0 || kernel.entries[0].kind != entry_panel);
  for (i32 i = 0; i < kernel.reduction_count; ++i) {
    reserved[i] = Reserved{-1, -1};
    if (!in_memory) continue;
    const Reduction& reduction = kernel.reductions[i];
    const i64 element = reduction.element_bytes, values = reduction.values;
    // One piece without elements is walked over an empty root space (device/gpu/phase.h): its state has room, too.
    const i64 items = larger(p.batches, 1), pieces_m = larger(p.pieces_m, 1), pieces_n = larger(p.pieces_n, 1);
    i64 pieces = pieces_m, results = p.cols;
    if (reduction.axis == axis_row) pieces = pieces_n, results = p.rows;
    if (reduction.axis == axis_all || reduction.axis == axis_item) {
      reserved[i].partials = placer.add(items, pieces_m, pieces_n, values, element);
      results = 1;
    } else {
      reserved[i].partials = placer.add(items, pieces, results, values, element);
    }
    // Of no rows or columns too there is one to be read: what is the same for all is read once, ahead of them.
    reserved[i].results = placer.add(items, larger(results, 1), element);
  }
  plan.counter_bytes = counters.size();
  plan.workspace = placer.size();
  if (plan.counter_bytes >= 0 && plan.workspace >= 0) return true;
  trouble.code = trouble_overflow;
  say(trouble.headline, "the workspace of %.200s overflows", kernel.name);
  say(trouble.reason, "its parts exceed 2^63 bytes together");
  trouble.help = "use smaller sizes";
  return false;
}

// ---- parameters ----
// Where the parts of Params lie; the whole is rounded up to the alignment of its maps.
struct Layout {
  i64 problem, operands, scalars, reductions, bytes;
};
inline Layout layout_of(const Kernel& kernel) {
  const auto times = [](i32 count, u64 bytes) { return larger(count, 1) * static_cast<i64>(bytes); };
  Layout at{};
  at.problem = times(kernel.map_count, sizeof(TensorMap));
  at.operands = at.problem + static_cast<i64>(sizeof(Problem));
  at.scalars = at.operands + times(kernel.operand_count, sizeof(Operand));
  at.reductions = at.scalars + times(kernel.argument_count, sizeof(ScalarValue));
  at.bytes = at.reductions + times(kernel.reduction_count, sizeof(ReductionBuffers));
  return at;
}
inline i64 parameter_bytes(const Kernel& kernel) { return (layout_of(kernel).bytes + 63) / 64 * 64; }
inline bool check_parameters(const Kernel& kernel, Trouble& trouble) {
  const i64 bytes = layout_of(kernel).bytes;
  return bytes <= most_parameter_bytes || beyond(trouble, "%.200s has %lld bytes of parameters; %lld can be passed",
                                                 kernel.name, bytes, most_parameter_bytes);
}

// Addresses of the product: those of the factors, or of their copies.
inline void resolve(const Kernel& kernel, const Factor& a, const Factor& b, char* counters, char* workspace,
                    Plan& plan) {
  const auto at = [&](i64 offset) -> void* { return offset < 0 ? nullptr : workspace + offset; };
  Problem& p = plan.problem;
  if (kernel.has_product) {
    p.a = a.data, p.a_batch = a.batch, p.a_row = a.other, p.a_k = a.k;
    p.b = b.data, p.b_batch = plan.spread > 1 ? 0 : b.batch, p.b_col = b.other, p.b_k = b.k;
    p.inner = a.inner != 0 ? a.inner : b.inner, p.a_skip = a.skip, p.b_skip = b.skip;
  }
  i32 place = 0;
  const auto packed = [&](i32 factor, bool k_major, const void*& data, i64& batch, i64& skip, i64& k, i64& other) {
    if (plan.packed_at[factor] < 0) return;
    Packing& packing = plan.packing.factor[place++];
    packing.from = data;
    packing.to = at(plan.packed_at[factor]);
    data = packing.to;
    batch = packing.batch_stride == 0 && packing.skip == 0 ? 0 : packing.slow * packing.packed_stride;
    skip = 0;
    k = k_major ? 1 : packing.packed_stride;
    other = k_major ? packing.packed_stride : 1;
  };
  packed(0, kernel.a_k_major, p.a, p.a_batch, p.a_skip, p.a_k, p.a_row);
  packed(1, kernel.b_k_major, p.b, p.b_batch, p.b_skip, p.b_k, p.b_col);
  p.accumulators = at(plan.accumulators_at);
  p.slices = at(plan.slices_at);
  p.counters = plan.counters_at < 0 ? nullptr : reinterpret_cast<u32*>(counters + plan.counters_at);
}

// Everything but the maps, after resolve(). `nothing`: the operand meets no element; a load then reads a 0.
inline void write_parameters(const Kernel& kernel, const Plan& plan, const Operand* operands, const bool* nothing,
                             const ScalarValue* scalars, const Reserved* reserved, char* counters, char* workspace,
                             char* parameters) {
  const Layout at = layout_of(kernel);
  memcpy(parameters + at.problem, &plan.problem, sizeof plan.problem);
  for (i32 i = 0; i < kernel.operand_count; ++i) {
    Operand value = operands[i];
    if (nothing[i]) {
      value = Operand{};
      if (!kernel.operands[i].is_store && plan.zero_at >= 0) value.data = counters + plan.zero_at;
    }
    memcpy(parameters + at.operands + static_cast<i64>(sizeof value) * i, &value, sizeof value);
  }
  if (kernel.argument_count > 0)
    memcpy(parameters + at.scalars, scalars, sizeof(ScalarValue) * static_cast<u64>(kernel.argument_count));
  for (i32 i = 0; i < kernel.reduction_count; ++i) {
    ReductionBuffers buffers{};
    if (reserved[i].results >= 0) buffers = {workspace + reserved[i].partials, workspace + reserved[i].results};
    memcpy(parameters + at.reductions + static_cast<i64>(sizeof buffers) * i, &buffers, sizeof buffers);
  }
}

// ---- tensor maps ----
// A matrix, or a batch of them, with elements side by side along `fast`. Sizes count elements, strides bytes.
struct Tiled {
  const char* name = "";  // for messages
  u8 dtype = 0;
  u64 address = 0;
  i64 fast = 1, slow = 1, batches = 1;
  i64 slow_stride = 0, batch_stride = 0;
  i32 box_fast = 0, box_slow = 0;
  i32 swizzle_bytes = 0;  // 0, 32, 64, 128
};
// What the driver is asked for: rank 3 {fast, slow, batch} with a box of one matrix; elements outside read as 0.
struct TiledArguments {
  int dtype, interleave, swizzle, l2_promotion, fill;
  unsigned long sizes[3], strides[2];  // uint64_t
  u32 box[3], steps[3];
};

// CUtensorMapDataType; types without one of their own travel as integers of their width.
inline int map_dtype(u8 dtype) {
  switch (dtype) {
    case 11:  // f16
      return 6;
    case 12:  // bf16
      return 9;
    case 13:  // f32
      return 7;
    case 14:  // f64
      return 8;
    default:
      break;
  }
  const i64 bytes = element_bytes(dtype);
  return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 4;
}

// What the driver would refuse without saying why. Strides that are never taken (sizes of 1) may be anything.
inline bool check_tiled(const Tiled& view, Trouble& trouble) {
  trouble.code = trouble_map;
  say(trouble.headline, "the tensor map of %.160s breaks a constraint", view.name);
  trouble.help = "find a kernel with this view, or compile the program with hints of these sizes";
  const i64 element = element_bytes(view.dtype);
  if (view.address % 16 != 0) {
    say(trouble.reason, "its address is %llu modulo 16; addresses are multiples of 16", view.address % 16);
    return unaligned(trouble);
  }
  const struct {
    const char* name;
    i64 size, box, stride;
  } dims[] = {{"the fastest dim", view.fast, view.box_fast, 0},
              {"the slower dim", view.slow, view.box_slow, view.slow_stride},
              {"the batch", view.batches, 1, view.batch_stride}};
  for (const auto& dim : dims) {
    if (dim.size < 1 || dim.size > 1LL << 32) {
      say(trouble.reason, "%s has %lld elements; sizes go from 1 to 2^32", dim.name, dim.size);
      return false;
    }
    if (dim.box < 1 || dim.box > 256) {
      say(trouble.reason, "the box has %lld elements in %s; boxes have 1 to 256", dim.box, dim.name);
      return false;
    }
    if (dim.size <= 1 || &dim == dims) continue;
    if (dim.stride <= 0 || dim.stride % 16 != 0) {
      say(trouble.reason, "the stride of %s is %lld bytes; strides are positive multiples of 16", dim.name, dim.stride);
      return unaligned(trouble);
    }
    if (dim.stride >= map_stride_limit) {
      say(trouble.reason, "the stride of %s is %lld bytes; strides are below 2^40", dim.name, dim.stride);
      return unaligned(trouble);
    }
  }
  const i64 span = view.box_fast * element;
  if (span % 16 != 0) {
    say(trouble.reason, "a row of the box has %lld bytes; rows are multiples of 16 bytes", span);
    return false;
  }
  if (view.swizzle_bytes != 0 && span > view.swizzle_bytes) {
    say(trouble.reason, "a row of the box has %lld bytes, more than the swizzle's %d", span, view.swizzle_bytes);
    return false;
  }
  trouble.code = 0;
  return true;
}

inline TiledArguments arguments_of(const Tiled& view) {
  TiledArguments call{};
  call.dtype = map_dtype(view.dtype);
  call.swizzle = view.swizzle_bytes == 128 ? 3 : view.swizzle_bytes == 64 ? 2 : view.swizzle_bytes == 32 ? 1 : 0;
  call.l2_promotion = 3;  // 256 bytes
  call.sizes[0] = static_cast<u64>(view.fast);
  call.sizes[1] = static_cast<u64>(view.slow);
  call.sizes[2] = static_cast<u64>(view.batches);
  // Strides that are never taken: the smallest that the driver accepts.
  const u64 row = (static_cast<u64>(view.fast) * static_cast<u64>(element_bytes(view.dtype)) + 15) / 16 * 16;
  call.strides[0] = view.slow > 1 ? static_cast<u64>(view.slow_stride) : row;
  call.strides[1] = view.batches > 1 ? static_cast<u64>(view.batch_stride) : call.strides[0];
  call.box[0] = static_cast<u32>(view.box_fast);
  call.box[1] = static_cast<u32>(view.box_slow);
  call.box[2] = call.steps[0] = call.steps[1] = call.steps[2] = 1;
  return call;
}

// Whether the launch has its maps encoded: nothing is copied by a launch without elements.
inline bool uses_maps(const Kernel& kernel, const Plan& plan) {
  return kernel.map_count > 0 && !plan.empty && plan.problem.k != 0;
}
// Whether the map is of one of the kernel's operands, not of A or B of the launch.
inline bool of_operand(const Map& map) { return map.source != map_a && map.source != map_b; }
// Of products with root spaces of their own, whose B and whose copies a map is of: what is copied follows its B. A's
// are the first product's.
inline i32 product_of(const Kernel& kernel, const Map& map) {
  i32 product = 0;
  for (const Map* one = kernel.maps; one <= &map && map.source != map_a; ++one) product += one->source == map_more_b;
  return product;
}
// The map to encode in the i-th one's place. A product without columns has no tile, and its maps copy nothing; that of
// A stands for them, since none of no elements can be made.
inline const Map& encoded_map(const Kernel& kernel, const Plan& plan, i32 i) {
  const Map& map = kernel.maps[i];
  const bool of_a = i == 0 || map.source == map_a;
  return plan.spaces > 0 && !of_a && plan.widths[product_of(kernel, map)] == 0 ? kernel.maps[0] : map;
}
// After resolve(). `operand`: of an operand's map, as it is passed; `name`: of its tensor.
inline bool tiled_view(const Kernel& kernel, const Plan& plan, const Map& map, const Operand& operand, const char* name,
                       Tiled& view, Trouble& trouble) {
  const Problem& p = plan.problem;
  view.name = name;
  view.box_fast = map.box_fast;
  view.box_slow = map.box_slow;
  view.swizzle_bytes = map.swizzle_bytes;
  i64 slow = 0, batch = 0, products = 1;
  for (i32 i = 0; i < kernel.map_count; ++i) products += kernel.maps[i].source == map_more_b ? 1 : 0;
  const i32 of = plan.spaces > 0 ? product_of(kernel, map) : 0;
  const i64 columns = columns_of_b(plan, products, of);  // of B
  // Of the epilogue's root space, and of all parts of a split.
  const i64 cols = plan.spaces > 0 ? plan.widths[of] : p.cols, all_cols = plan.spaces > 0 ? columns : p.n;
  switch (map.source) {
    case map_a:
      view.dtype = kernel.a_dtype;
      view.address = reinterpret_cast<u64>(p.a);
      view.fast = kernel.a_k_major ? p.k : p.m;
      view.slow = kernel.a_k_major ? p.m : p.k;
      slow = kernel.a_k_major ? p.a_row : p.a_k;
      batch = p.a_batch;
      if (plan.spread > 1) {  // of one item, from where its first row has a multiple of 16 bytes in front of it
        const i64 bytes = element_bytes(view.dtype), begin = map.operand * p.a_batch * bytes;
        view.address += static_cast<u64>(begin / map_alignment * map_alignment);
        view.fast += begin % map_alignment / bytes;
        batch = 0;
      }
      break;
    case map_b:
      view.dtype = kernel.b_dtype;
      view.address = reinterpret_cast<u64>(p.b);
      view.fast = kernel.b_k_major ? p.k : columns;
      view.slow = kernel.b_k_major ? columns : p.k;
      slow = kernel.b_k_major ? p.b_col : p.b_k;
      batch = p.b_batch;
      break;
    case map_more_b:
      view.dtype = kernel.b_dtype;
      view.address = reinterpret_cast<u64>(operand.data);
      view.fast = kernel.b_k_major ? p.k : columns;
      view.slow = kernel.b_k_major ? columns : p.k;
      slow = operand.stride[kernel.b_k_major ? 2 : 1];
      batch = operand.stride[0];
      break;
    case map_made_a:
    case map_made_rows:
      view.dtype = kernel.operands[map.operand].dtype;
      view.address = reinterpret_cast<u64>(operand.data);
      view.fast = p.k;
      if (map.source == map_made_rows && p.m > max_coordinate / larger(p.batches, 1)) {
        misfit(trouble, name, "the rows of %lld items of %lld are 2^31 or more, which %.200s does not count", p.batches,
               p.m, kernel.name);
        return unaligned(trouble);
      }
      view.slow = map.source == map_made_a ? p.m : p.m * p.batches;
      slow = operand.stride[1];
      batch = map.source == map_made_a ? operand.stride[0] : 0;
      break;
    default: {
      const OperandFacts& facts = kernel.operands[map.operand];
      view.dtype = facts.dtype;
      view.address = reinterpret_cast<u64>(operand.data);
      // Columns that lie in runs, whose first stride is that of rows, are some of as many as B has.
      const i64 row = facts.row == 0 ? 0 : 1;
      view.fast = map.column_major ? p.rows : row == 0 ? all_cols : cols;
      view.slow = map.column_major ? cols : p.rows;
      const i64 run = view.fast * element_bytes(facts.dtype);
      if (facts.is_store && run % kernel.alignment != 0) {
        misfit(trouble, name, "its %s have %lld bytes, and %.200s stores %d at a time",
               map.column_major ? "columns" : "rows", run, kernel.name, kernel.alignment);
        return unaligned(trouble);
      }
      if (map.column_major && p.rows > 1 && operand.stride[1] != 1) {
        misfit(trouble, name, "its rows are %lld elements apart, and %.200s takes them side by side",
               static_cast<i64>(operand.stride[1]), kernel.name);
        return unaligned(trouble);
      }
      if (row == 0 && operand.stride[1] != 1) {
        misfit(trouble, name, "its columns are %lld elements apart, and %.200s takes them side by side",
               static_cast<i64>(operand.stride[1]), kernel.name);
        return unaligned(trouble);
      }
      slow = operand.stride[map.column_major ? 2 : row];
      batch = row == 0 ? 0 : operand.stride[0];
    }
  }
  const i64 element = element_bytes(view.dtype);
  view.slow_stride = slow * element;
  view.batch_stride = batch * element;
  view.batches = batch == 0 ? 1 : p.batches;
  const i64 largest = larger(view.batches, larger(view.fast, view.slow));
  return largest <= max_coordinate || too_large(kernel, name, largest, trouble);
}

}  // namespace codetta::gpu::host
