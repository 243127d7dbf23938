// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/layout.hpp"

#include <algorithm>

#include "device/cpu/micro/blocks.hpp"
#include "types/machine.hpp"

namespace codetta::runtime::cpu {
namespace {

using abi::Product;
using abi::Source;

const abi::KernelSet& packed_set(const abi::MicroTable& t, Product p) { return t.packed[static_cast<int>(p)]; }

int64_t operand_size(Product p) {
  switch (p) {
    case Product::f64:
    case Product::int64:
      return 8;
    case Product::f32:
    case Product::int32:
      return 4;
    case Product::int16:
    case Product::bf16:
      return 2;
    default:
      return 1;
  }
}

// The dtype of A as the kernels of a product read it.
bool reads_as_stored(Product p, DType a) {
  switch (p) {
    case Product::f64:
      return a == DType::f64;
    case Product::f32:
      return a == DType::f32;
    case Product::int32:
      return a == DType::i32 || a == DType::u32;
    case Product::int64:
      return a == DType::i64 || a == DType::u64;
    case Product::int16:
      return a == DType::i16;
    default:
      return true;  // bf16 and byte products are only chosen for such operands
  }
}

// The widest block not wider than asked for, else the narrowest there is.
int64_t choose_vectors(const abi::KernelSet& set, int64_t nr) {
  for (int64_t v = std::min<int64_t>(std::max<int64_t>(nr / set.lanes, 1), abi::max_vectors); v > 0; --v) {
    if (set.max_rows[v - 1] > 0) return v;
  }
  for (int64_t v = 1; v <= abi::max_vectors; ++v) {
    if (set.max_rows[v - 1] > 0) return v;
  }
  return 1;
}

void resolve_in_place(Layout& l, const CpuGemmConfig& c, const GemmProblem& p) {
  Source found{};
  if (c.family != CpuFamily::InPlace || p.packed_b != nullptr) return;
  if (!abi::in_place_source(c.b_dtype, c.accumulator, found)) return;
  const auto source = static_cast<int>(found);
  // Along a dimension of size 1 any stride is as good as 1. Several products are read in one way, or packed.
  const auto form_of = [&](int64_t product) {
    // What is made by columns is made in front of their dot products, where no other rows need it again.
    if (p.makers != nullptr)
      return p.makers[product].transposed && p.m <= c.tile_rows && (l.own_ways == 1 || l.chunk != 1) ? Form::Dots
                                                                                                     : Form::Panels;
    const FactorB b = p.factor_b(product);
    if (b.k == 1 || (p.k <= 1 && b.col != 1)) return Form::Dots;
    return b.col == 1 || p.n <= l.products ? Form::Rows : Form::Panels;
  };
  l.form = form_of(0);
  for (int64_t i = 1; i < l.products; ++i) {
    const bool alternates = l.own_ways > 1 && l.chunk == 1;  // tiles in natural order hold one product
    if (alternates || form_of(i) != l.form) l.form = Form::Panels;
  }
  if (l.form == Form::Panels) return;
  l.product = c.accumulator == DType::f64 ? Product::f64 : c.accumulator == DType::f32 ? Product::f32 : Product::int32;
  l.set = &l.table->in_place[source];
  l.dot = &l.table->dot[source];
  l.b_size = dtype_bytes(c.b_dtype);
}

}  // namespace

int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::i8:
    case DType::u8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return 1;
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::i32:
    case DType::u32:
    case DType::f32:
      return 4;
    default:
      return 8;
  }
}

Layout resolve(const CpuGemmConfig& c, const GemmProblem& p) {
  Layout l;
  const CpuIsa isa = abi::micro_table(c.isa) != nullptr ? c.isa : CpuIsa::generic;
  l.table = abi::micro_table(isa);
  l.a_dtype = c.a_dtype;
  l.b_dtype = c.b_dtype;
  l.acc_size = dtype_bytes(c.accumulator);
  l.batch = p.batch;
  l.m = p.m;
  l.n = p.n;
  l.k = p.k;
  l.ways = std::max(1, p.split.ways);
  l.products = std::max(1, p.products);
  l.own_ways = l.ways / l.products;
  l.chunk = l.own_ways == 1 ? 0 : p.split.chunk;
  l.root_cols = l.n / l.ways;

  resolve_in_place(l, c, p);
  if (l.form == Form::Panels) {
    l.product = abi::product_for(isa, c.a_dtype, c.b_dtype, c.accumulator, c.family == CpuFamily::Convert);
    l.set = &packed_set(*l.table, l.product);
    l.b_size = operand_size(l.product);
    l.compensated = !l.set->padded && (l.product == Product::s8s8 || l.product == Product::u8u8);
  }
  l.a_size = operand_size(l.product);
  l.vectors = choose_vectors(*l.set, c.nr);
  l.nr = l.vectors * l.set->lanes;
  l.mr = std::clamp<int64_t>(c.mr, 1, l.set->max_rows[l.vectors - 1]);
  if (l.set->padded) l.mr = l.set->max_rows[l.vectors - 1];

  l.short_k = l.k <= abi::short_steps * l.set->group;

  l.tile_rows = std::max<int64_t>(1, std::min<int64_t>(c.tile_rows, l.m));
  if (l.form == Form::Panels) l.tile_rows = round_up(l.tile_rows, l.mr);
  l.tile_cols = round_up(std::max<int64_t>(1, std::min<int64_t>(c.tile_cols, l.root_cols)), l.nr);
  l.tiles_r = ceil_div(l.m, l.tile_rows);
  l.tiles_c = ceil_div(l.root_cols, l.tile_cols);
  const int64_t unit = l.set->k_unit > 0 ? l.set->k_unit : l.set->group;
  l.kc = round_up(std::max<int64_t>(c.kc, 1), std::max<int64_t>(unit, 4));
  // Dot products pay for their horizontal sums once per block of k.
  if (l.form == Form::Dots) l.kc = std::max<int64_t>(l.kc, 4096);
  l.slices = std::max(1, c.k_split);
  l.slice_k = round_up(std::max<int64_t>(1, ceil_div(l.k, l.slices)), std::max<int64_t>(unit, 16));
  l.slices = std::max<int64_t>(1, ceil_div(l.k, l.slice_k));

  l.natural_columns = l.form == Form::Rows && l.own_ways > 1 && l.chunk == 1;
  const int64_t per_line = line / l.acc_size;
  l.part_ld = round_up(l.tile_cols, per_line);
  l.acc_ld = l.part_ld * l.ways;
  if (l.acc_ld * l.acc_size % 4096 == 0) l.acc_ld += per_line;  // rows a page apart would share one cache set
  l.acc_col_stride = l.natural_columns ? l.ways : 1;
  l.acc_part_stride = l.natural_columns ? 1 : l.part_ld;
  l.tile_bytes = round_up(l.tile_rows, l.set->padded ? l.mr : 1) * l.acc_ld * l.acc_size + line;
  l.tile_bytes = round_up(l.tile_bytes, line);

  if (l.ways == 1 && l.tiles_r == 1 && l.n > 0) {
    if (l.form == Form::Rows) l.long_rows = abi::reads_long_rows(*l.set, l.m, l.k, l.n, l.b_size, l.tile_cols);
    if (l.form == Form::Rows && !l.long_rows)
      l.fetches_b = abi::fetches_rows(*l.set, l.vectors, l.m, l.k, l.n, l.b_size, l.kc);
    if (l.form == Form::Panels) l.panels_ahead = abi::fetched_ahead(*l.set, l.vectors, l.m, l.k, l.n, l.b_size);
  }

  if (l.form == Form::Panels && l.ways == 1 && l.n > 0)
    l.fetches_panels = abi::fetches_panels(*l.set, l.vectors, l.tile_rows, types::halves_512_bit(), l.k, l.n, l.b_size);

  const int64_t k_span = round_up(std::max<int64_t>(l.k, 1), unit);
  l.a_direct = !c.pack_a && !l.set->padded && (p.a_k == 1 || l.k <= 1) && reads_as_stored(l.product, c.a_dtype);
  l.group_tiles = std::clamp<int64_t>(c.mc / l.tile_rows, 1, std::max<int64_t>(1, l.tiles_r));
  if (!l.a_direct) {
    const auto row_bytes = [&](int64_t span) {
      const int64_t bytes = round_up(times(span, l.a_size), line);
      return bytes % 4096 == 0 ? bytes + line : bytes;
    };
    // At most 8 MiB of packed A a thread: first fewer rows, then one block of k at a time.
    constexpr int64_t limit = int64_t{8} << 20;
    while (l.group_tiles > 1 && times(l.group_tiles, l.tile_rows, row_bytes(k_span)) > limit) --l.group_tiles;
    // Blocks of k of a few rows, one after the other, leave the first-level cache to B.
    l.a_pack_whole_k = !l.fetches_b && times(l.tile_rows, row_bytes(k_span)) <= limit;
    if (!l.a_pack_whole_k) l.group_tiles = 1;
    l.a_pack_ld = row_bytes(l.a_pack_whole_k ? k_span : std::min(l.kc, k_span));
    l.a_pack_bytes = round_up(round_up(l.group_tiles * l.tile_rows, l.mr) * l.a_pack_ld, line);
  }
  l.makes_in_tile = l.form == Form::Dots && p.makers != nullptr;
  if (l.form == Form::Panels) {
    l.panels = ceil_div(l.root_cols, l.nr);
    l.k_padded = round_up(l.k, unit);
    l.compensation_offset = round_up(times(l.k_padded, l.nr, l.b_size), line);
    l.panel_bytes = l.compensation_offset + (l.compensated ? round_up(l.nr * 4, line) : 0);
    l.packed_bytes = times(l.panels, l.ways, l.panel_bytes);
    l.makes_in_tile = p.makers != nullptr && p.packed_b == nullptr && l.tiles_r == 1 && !l.compensated;
  }
  return l;
}

}  // namespace codetta::runtime::cpu
