// SPDX-License-Identifier: Apache-2.0
// The CPU families: what each takes, and which configurations it offers for a problem. Block and cache sizes follow the
// measurements in bench/NOTES.md: B panels that stay in L2, a tile of accumulators that stays in L1.
#include <fmt/format.h>

#include <algorithm>

#include "base/checked.hpp"
#include "device/cpu/micro/blocks.hpp"
#include "package/cpu_limits.hpp"
#include "plan/families.hpp"
#include "plan/fused.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

using codetta::cpu::KernelSet;
using codetta::cpu::Product;
using codetta::cpu::Source;

constexpr int64_t no_limit = INT64_MAX;

// In family order, which is the order of rejections.
constexpr CpuFamilyInfo families[] = {
    {CpuFamily::Packed, "packed", no_limit, no_limit, no_limit, no_limit, true, true},
    {CpuFamily::InPlace, "in_place", 48, 24, int64_t{192} * 192 * 192, int64_t{1} << 20, false, true},
    {CpuFamily::Convert, "convert", no_limit, no_limit, no_limit, no_limit, true, true},
    {CpuFamily::Fused, "fused", no_limit, no_limit, no_limit, no_limit, true, false},
};

// The product that multiplies the operands as they are stored.
std::optional<Product> native_product(const GemmShape& shape) {
  const DType a = shape.a, b = shape.b;
  if (shape.accumulator == DType::f64)
    return a == DType::f64 && b == DType::f64 ? std::optional(Product::f64) : std::nullopt;
  if (shape.accumulator == DType::i64) return std::nullopt;
  if (shape.accumulator == DType::f32) {
    if (a == DType::f32 && b == DType::f32) return Product::f32;
    if (a == DType::bf16 && b == DType::bf16) return Product::bf16;
    return std::nullopt;
  }
  if (types::is_byte(a) && types::is_byte(b))
    return b == DType::i8 ? (a == DType::i8 ? Product::s8s8 : Product::u8s8)
                          : (a == DType::i8 ? Product::s8u8 : Product::u8u8);
  if (a == DType::i16 && b == DType::i16) return Product::int16;
  if ((a == DType::i32 || a == DType::u32) && (b == DType::i32 || b == DType::u32)) return Product::int32;
  return std::nullopt;
}

// The product of operands that are converted on the way; the same at every level.
Product converted_product(const GemmShape& shape) {
  return codetta::cpu::product_for(CpuIsa::generic, shape.a, shape.b, shape.accumulator, true);
}

std::string_view product_name(Product product) {
  constexpr std::string_view names[] = {"f32",     "f64",     "i32",     "i16 pair", "bf16 pair",
                                        "u8 x i8", "i8 x i8", "u8 x u8", "i8 x u8",  "i64"};
  return names[static_cast<size_t>(product)];
}

Rejection rejection(const FamilyProblem& problem, diag::Code code, std::string text) {
  return {static_cast<uint16_t>(code), fmt::format("cpu_{}", problem.family.name), std::move(text), {}};
}

std::optional<Rejection> refuse_dtypes(FamilyProblem& p) {
  const GemmShape& shape = p.shape;
  const auto pair = fmt::format("{} x {}", dtype_name(shape.a), dtype_name(shape.b));
  if (p.family.family == CpuFamily::InPlace) {
    Source source{};
    if (!codetta::cpu::in_place_source(shape.b, shape.accumulator, source)) {
      return rejection(
          p, diag::Code::family_dtypes,
          fmt::format("B is {}, which is read where it lies only by way of packing when it accumulates in {}",
                      dtype_name(shape.b), dtype_name(shape.accumulator)));
    }
    p.product = shape.accumulator == DType::f64   ? Product::f64
                : shape.accumulator == DType::f32 ? Product::f32
                                                  : Product::int32;
    p.set = &p.table->in_place[static_cast<size_t>(source)];
    return std::nullopt;
  }
  std::optional<Product> product =
      p.family.family == CpuFamily::Convert ? converted_product(shape) : native_product(shape);
  if (!product) {
    return rejection(p, diag::Code::family_dtypes,
                     fmt::format("no instruction multiplies {} into {} without conversion; the convert family does",
                                 pair, dtype_name(shape.accumulator)));
  }
  if (p.family.family == CpuFamily::Convert && native_product(shape) == product) {
    return rejection(p, diag::Code::family_dtypes,
                     fmt::format("{} needs no conversion: the packed family multiplies it by the same {} product", pair,
                                 product_name(*product)));
  }
  p.product = *product;
  p.set = &p.table->packed[static_cast<size_t>(*product)];
  if (p.set->lanes == 0) {
    return rejection(p, diag::Code::isa_lacks,
                     fmt::format("{} has no {} dot product, which {} needs; the convert family widens the operands",
                                 isa_name(p.machine.isa), product_name(*product), pair));
  }
  return std::nullopt;
}

std::optional<Rejection> refuse_size(const FamilyProblem& p) {
  const GemmShape& s = p.shape;
  const double work = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  if (s.m <= p.family.skinny_rows || s.n <= p.family.skinny_cols || work <= static_cast<double>(p.family.small_work))
    return std::nullopt;
  return rejection(p, diag::Code::family_size,
                   fmt::format(
                       "{} x {} x {} has more than {} rows, {} columns and {} multiplications, so that packing B pays",
                       s.m, s.n, s.k, p.family.skinny_rows, p.family.skinny_cols, p.family.small_work))
      .limited("rows", s.m, p.family.skinny_rows)
      .limited("columns", s.n, p.family.skinny_cols)
      .limited("multiplications", static_cast<int64_t>(std::min(work, 0x1p62)), p.family.small_work);
}

std::optional<Rejection> refuse_layout(FamilyProblem& p) {
  const GemmShape& s = p.shape;
  const auto elements = base::checked_mul(s.m, s.k);
  const int64_t a_bytes =
      elements ? base::checked_mul(*elements, types::byte_size(s.a)).value_or(INT64_MAX) : INT64_MAX;
  const bool a_rows = s.a_k_stride == 1 || s.k <= 1;
  if (!a_rows && a_bytes > p.family.transposed_a_bytes) {
    return rejection(p, diag::Code::family_layout,
                     fmt::format("consecutive k of A are {} elements apart, and its {} bytes are more than the {} that "
                                 "are transposed on the way",
                                 s.a_k_stride, a_bytes, p.family.transposed_a_bytes))
        .limited("bytes of A", a_bytes, p.family.transposed_a_bytes);
  }
  if (p.family.family != CpuFamily::InPlace) return std::nullopt;
  p.dots = s.b_k_stride == 1 || (s.k <= 1 && s.b_col_stride != 1);
  if (!p.dots && s.b_col_stride != 1 && s.n > 1) {
    return rejection(
        p, diag::Code::family_layout,
        fmt::format("B has strides {} along k and {} along columns; one of them must be 1 to read it where it lies",
                    s.b_k_stride, s.b_col_stride));
  }
  return std::nullopt;
}

std::optional<Rejection> refuse_epilogue(const FamilyProblem& p) {
  const size_t phases = p.epilogue.phases.size(), reductions = p.epilogue.reductions.size();
  if (phases > package::max_cpu_phases || reductions > package::max_cpu_reductions) {
    return rejection(p, diag::Code::epilogue_large,
                     fmt::format("the epilogue has {} reductions in {} phases, and a kernel holds {} in {}", reductions,
                                 phases, package::max_cpu_reductions, package::max_cpu_phases))
        .limited("reductions", static_cast<int64_t>(reductions), package::max_cpu_reductions)
        .limited("phases", static_cast<int64_t>(phases), package::max_cpu_phases);
  }
  // A compiler takes about 15 s for as many in one function, and ever more for each further one.
  constexpr size_t most_operations = 16384;
  size_t operations = 0;
  for (const package::Phase& phase : p.epilogue.phases) operations += phase.insts.size();
  if (operations > most_operations) {
    return rejection(p, diag::Code::epilogue_large,
                     fmt::format("the epilogue has {} operations, and a kernel holds {}", operations, most_operations))
        .limited("operations", static_cast<int64_t>(operations), most_operations);
  }
  if (p.family.family == CpuFamily::Fused && p.shape.products > 1) {
    return rejection(p, diag::Code::fused_form,
                     fmt::format("{} products of one A, and a kernel in registers computes one", p.shape.products));
  }
  if (p.family.result_values) return std::nullopt;
  for (const package::Phase& phase : p.epilogue.phases) {
    if (phase.scope != package::Scope::Tile && phase.reads_accumulator) {
      return rejection(
          p, diag::Code::family_reductions,
          fmt::format("the epilogue uses {} reduction{} as values, but accumulators in registers are gone by then",
                      p.epilogue.reductions.size(), p.epilogue.reductions.size() == 1 ? "" : "s"));
    }
  }
  if (p.epilogue.split.interleaved()) {
    return rejection(p, diag::Code::family_split,
                     fmt::format("the {} parts of the split alternate by column, so partners lie in one register",
                                 p.epilogue.split.ways));
  }
  return std::nullopt;
}

int32_t round_to(int64_t value, int64_t multiple) {
  return static_cast<int32_t>((value + multiple - 1) / multiple * multiple);
}

// K in equal blocks of at most about `most`, so that no ragged block remains.
int32_t k_block(int64_t k, int64_t most, int64_t unit) {
  if (k <= most + most / 2) return round_to(std::max<int64_t>(k, 1), unit);
  const int64_t blocks = (k + most - 1) / most;
  return round_to((k + blocks - 1) / blocks, unit);
}

// Accumulators of several products lie side by side in one tile, which shall stay in the first-level cache.
int64_t usual_tile_rows(const FamilyProblem& problem) {
  const int64_t parts = problem.shape.products > 1 ? std::max(1, problem.epilogue.split.ways / 2) : 1;
  return std::max<int64_t>(1, 48 / parts);
}

// So that a panel of a block of k takes a quarter of the second-level cache (256 KiB; measured on Zen 4: half as much
// is 2 % slower at 2048^3, because every block but the first loads its accumulators).
int32_t default_kc(Product product) {
  switch (product) {
    case Product::f64:
    case Product::int64:
      return 512;
    case Product::bf16:
    case Product::int16:
      return 2048;
    case Product::u8s8:
    case Product::s8s8:
    case Product::u8u8:
    case Product::s8u8:
      return 4096;
    default:
      return 1024;
  }
}

int32_t k_unit(const KernelSet& set) { return set.k_unit > 0 ? set.k_unit : std::max(set.group, 4); }

// Rows of A between two readings of B: those of a block of k take three quarters of the second-level cache (found where
// it has 1 MiB, and right where it has 2: bench/NOTES.md).
int32_t rows_of_block(const FamilyProblem& problem, int32_t tile_rows) {
  const int64_t rows = 192 * std::clamp<int64_t>(problem.machine.l2 >> 20, 1, 8);
  return static_cast<int32_t>(std::max<int64_t>(1, rows / tile_rows) * tile_rows);
}

// Slices of K that give idle cores work when there are fewer tiles than cores.
int32_t slices(const GemmShape& shape, double tiles, int cores) {
  constexpr int64_t least = 512;
  if (tiles >= cores || shape.k < 2 * least) return 1;
  return static_cast<int32_t>(std::min<int64_t>(
      {cores / std::max<int64_t>(static_cast<int64_t>(tiles), 1), shape.k / least, package::max_k_split}));
}

// Whether the items of a batch are single tiles, read in place, that come from memory faster with few rows a call.
bool streams_items(const FamilyProblem& problem) {
  const GemmShape& s = problem.shape;
  constexpr int64_t tile_rows = 48, tile_cols = 64;
  if (problem.family.family != CpuFamily::InPlace || problem.dots || s.b_made || s.products > 1 ||
      problem.epilogue.split.ways > 1 || s.m > tile_rows || s.n > tile_cols ||
      s.k > codetta::cpu::short_steps * problem.set->group)
    return false;
  const int64_t vector_bytes = problem.set->lanes * types::byte_size(s.accumulator);
  const int64_t a_bytes = s.one_a() ? 0 : s.m * s.k * types::byte_size(s.a);
  const int64_t b_bytes = s.one_b() ? 0 : s.k * s.n * types::byte_size(s.b);
  // Items that are not fetched gain only where memory answers soon: at 16^3 a Xeon loses a seventh.
  constexpr double soon = 20;
  if (a_bytes + b_bytes < codetta::cpu::least_fetched_item && problem.machine.memory_rate < soon) return false;
  return vector_bytes == 64 && problem.machine.fma_vectors_per_clock >= 2 &&
         codetta::cpu::streams_items(*problem.set, s.m, s.k, a_bytes + b_bytes, s.batch);
}

// Rows of B that are fetched while as many are multiplied: where they lie 16 KiB apart, L2 holds 64.
int32_t fetched_k(DType b) { return static_cast<int32_t>(256 / types::byte_size(b)); }

// Tiles as tall as a block of rows of A, of a few panels: L2 holds a block of k of their rows beside their
// accumulators, and A comes from a slow last-level cache once for all their columns. Rows a multiple of a page apart
// would share few sets of L2, and are packed.
template <class Add>
void add_tall_tiles(const FamilyProblem& problem, const GemmShape& shape, const CpuGemmConfig& config, Add&& add) {
  constexpr int64_t least_l2 = int64_t{2} << 20, columns = 128;
  const int64_t most = rows_of_block(problem, config.mr);
  const double row_bytes = static_cast<double>(shape.k) * static_cast<double>(types::byte_size(config.accumulator));
  if (config.family == CpuFamily::InPlace || problem.machine.l2 < least_l2 || problem.epilogue.split.ways > 1 ||
      shape.m <= 2 * usual_tile_rows(problem) || shape.n < columns ||
      static_cast<double>(std::min(shape.m, most)) * row_bytes <= static_cast<double>(problem.machine.l2) / 2)
    return;
  CpuGemmConfig tall = config;
  tall.tile_rows = tall.mc = round_to(base::ceil_div(shape.m, base::ceil_div(shape.m, most)), config.mr);
  tall.tile_cols = static_cast<int32_t>(columns / config.nr * config.nr);
  tall.kc = k_block(shape.k, default_kc(problem.product) / 2, k_unit(*problem.set));
  tall.pack_a = config.pack_a || shape.a_row_stride % (4096 / types::byte_size(shape.a)) == 0;
  add(tall);
}

// Tiles of few rows and many columns. In place: long runs of B keep the prefetchers busy, which 64 columns at a stride
// of a whole row do not. Packed: long runs of the epilogue's operands.
template <class Add>
void add_wide_tiles(const FamilyProblem& problem, const GemmShape& shape, const CpuGemmConfig& config, Add&& add) {
  CpuGemmConfig wide = config;
  if (config.family == CpuFamily::InPlace) {
    if (reads_long_rows(problem, shape.n)) {
      // Whatever the block: one configuration for the widest rows and one for more tiles than cores.
      if (config.nr != problem.set->lanes) return;
      for (const int64_t cols : {4096, 1024}) {
        wide.tile_cols = round_to(std::min<int64_t>(shape.n, cols), config.nr);
        wide.kc = 256;
        add(wide);
      }
      return;
    }
    const bool fetches = fetches_b(problem, config, fetched_k(shape.b));
    // The wide rows of converted B leave L1, unless they are fetched.
    const bool widens = shape.m > 1 && types::byte_size(shape.b) < 4 && !fetches;
    if (problem.dots || widens || shape.m > 48 || shape.n <= 256 ||
        static_cast<double>(shape.k) * static_cast<double>(shape.n * types::byte_size(shape.b)) <
            static_cast<double>(problem.machine.l2))
      return;
    const int64_t cols = shape.m == 1 ? 4096 : fetches ? int64_t{4} * config.nr : 1024;
    wide.tile_cols = round_to(std::min<int64_t>(shape.n, cols), config.nr);
    const bool halves = problem.machine.fma_vectors_per_clock < 2 && problem.set->fetching_row != nullptr;
    wide.kc = fetches ? fetched_k(shape.b) : shape.m == 1 && halves ? codetta::cpu::fetching_row_k : 256;
    wide.pack_a =
        fetches || (shape.m > 1 && (config.pack_a || shape.a_row_stride % (4096 / types::byte_size(shape.a)) == 0));
    add(wide);
    // One row has a tile for each core, as long as runs of B stay long.
    const int64_t share = std::max<int64_t>(base::ceil_div(shape.n, int64_t{std::max(problem.machine.cores, 1)}), 512);
    if (shape.m == 1 && share <= wide.tile_cols - config.nr) {
      wide.tile_cols = round_to(share, config.nr);
      add(wide);
    }
    return;
  }
  for (const int cols : {256, 512}) {
    // B of the tile's columns stays in L2 beside everything else.
    const int64_t panel_bytes = cols * shape.k * types::byte_size(shape.b);
    const int rows = 6144 / cols;
    if (shape.n / problem.epilogue.split.ways < cols || shape.m < rows || panel_bytes > problem.machine.l2 / 8) break;
    wide.tile_cols = round_to(cols, config.nr);
    wide.tile_rows = static_cast<int32_t>(std::max(1, rows / config.mr) * config.mr);
    wide.mc = rows_of_block(problem, wide.tile_rows);
    add(wide);
  }
}

}  // namespace

std::span<const CpuFamilyInfo> cpu_families() { return families; }

bool fetches_b(const FamilyProblem& problem, const CpuGemmConfig& config, int64_t kc) {
  const GemmShape& s = problem.shape;
  return problem.family.family == CpuFamily::InPlace && !problem.dots && !s.b_made && s.n > 0 && s.m <= 48 &&
         problem.epilogue.split.ways == 1 &&
         codetta::cpu::fetches_rows(*problem.set, config.nr / problem.set->lanes, s.m, s.k, s.n, types::byte_size(s.b),
                                    kc);
}

bool reads_long_rows(const FamilyProblem& problem, int64_t cols) {
  const GemmShape& s = problem.shape;
  return problem.family.family == CpuFamily::InPlace && !problem.dots && !s.b_made && s.n > 0 &&
         problem.epilogue.split.ways == 1 &&
         codetta::cpu::reads_long_rows(*problem.set, s.m, s.k, s.n, types::byte_size(s.b), cols);
}

std::optional<Rejection> refuse(FamilyProblem& problem) {
  if (!problem.family.reads_packed_b && problem.shape.b_packed) {
    return rejection(problem, diag::Code::packed_unused, "a packed B is given, and this family reads B where it lies");
  }
  const bool packs = problem.family.family == CpuFamily::Packed || problem.family.family == CpuFamily::Convert ||
                     (problem.family.family == CpuFamily::InPlace && problem.shape.b_k_stride == 1);
  if (problem.shape.b_made && !packs)
    return rejection(problem, diag::Code::family_layout,
                     "B is computed where it is packed, and this family does not pack it");
  if (auto no = refuse_dtypes(problem)) return no;
  if (auto no = refuse_size(problem)) return no;
  if (auto no = refuse_layout(problem)) return no;
  if (auto no = refuse_epilogue(problem)) return no;
  if (problem.family.family == CpuFamily::Fused) {
    const std::string obstacle =
        fused_obstacle(problem.epilogue, problem.machine.isa, problem.shape.a, problem.shape.b);
    if (!obstacle.empty()) return rejection(problem, diag::Code::fused_form, obstacle);
    if (problem.shape.a_k_stride != 1 && problem.shape.k > 1) {
      return rejection(problem, diag::Code::family_layout,
                       fmt::format("consecutive k of A are {} elements apart, and the fused form reads rows",
                                   problem.shape.a_k_stride));
    }
  }
  return std::nullopt;
}

std::vector<CpuGemmConfig> configurations(const FamilyProblem& problem) {
  GemmShape shape = problem.shape;
  // Blocks do not depend on how large a large size is, and sums and products below stay within 64 bits.
  for (int64_t* size : {&shape.batch, &shape.m, &shape.n, &shape.k}) *size = std::min(*size, int64_t{1} << 40);
  const KernelSet& set = *problem.set;
  const int64_t root_cols = std::max<int64_t>(1, shape.n / problem.epilogue.split.ways);
  CpuGemmConfig base;
  base.family = problem.family.family;
  base.isa = problem.machine.isa;
  base.a_dtype = shape.a;
  base.b_dtype = shape.b;
  base.accumulator = shape.accumulator;
  base.kc = k_block(shape.k, default_kc(problem.product), k_unit(set));
  base.nc = 4096;
  base.pack_a = shape.a_k_stride != 1 && shape.k > 1;
  std::vector<CpuGemmConfig> result;
  if (base.family == CpuFamily::Fused) {
    const FusedBlock block = *fused_block(problem.machine.isa, shape.a, shape.b);
    base.isa = block.packed_isa;
    base.mr = block.mr;
    base.nr = base.tile_cols = block.nr;
    base.tile_rows = base.mc = 32 * block.mr;
    return {base};
  }
  for (int v = codetta::cpu::max_vectors; v > 0; --v) {
    const int rows = set.max_rows[v - 1];
    if (rows == 0) continue;
    const int64_t cols = int64_t{v} * set.lanes;
    const int64_t usual_rows = usual_tile_rows(problem);
    for (const int64_t tile_rows : {usual_rows, 2 * usual_rows}) {
      CpuGemmConfig config = base;
      config.nr = static_cast<int32_t>(cols);
      // Equal blocks of rows instead of a ragged last one.
      const int64_t blocks = (std::max<int64_t>(shape.m, 1) + rows - 1) / rows;
      config.mr =
          set.padded
              ? rows
              : static_cast<int32_t>(std::min<int64_t>(rows, (std::max<int64_t>(shape.m, 1) + blocks - 1) / blocks));
      if (streams_items(problem)) config.mr = codetta::cpu::streamed_rows;
      const int64_t per_tile = std::max<int64_t>(1, tile_rows / config.mr);
      config.tile_rows = static_cast<int32_t>(
          std::min(per_tile, (std::max<int64_t>(shape.m, 1) + config.mr - 1) / config.mr) * config.mr);
      config.tile_cols = round_to(std::min<int64_t>(root_cols, 64), cols);
      config.mc = rows_of_block(problem, config.tile_rows);
      const double tiles = static_cast<double>(shape.batch) *
                           static_cast<double>(base::ceil_div<int64_t>(shape.m, config.tile_rows)) *
                           static_cast<double>(base::ceil_div<int64_t>(root_cols, config.tile_cols));
      const auto add = [&](const CpuGemmConfig& c) {
        if (std::find(result.begin(), result.end(), c) == result.end()) result.push_back(c);
      };
      add(config);
      if (tile_rows == usual_rows && !set.padded) {
        add_wide_tiles(problem, shape, config, add);
        add_tall_tiles(problem, shape, config, add);
      }
      if (const int32_t k_split = slices(shape, tiles, problem.machine.cores); k_split > 1) {
        CpuGemmConfig cut = config;
        cut.k_split = k_split;
        add(cut);
      }
      // Rows of A that are a multiple of a page apart fall in the same cache sets.
      const bool aliases = shape.a_row_stride % (4096 / types::byte_size(shape.a)) == 0 && shape.m > 24;
      if (aliases && !config.pack_a && config.family != CpuFamily::InPlace) {
        CpuGemmConfig packed = config;
        packed.pack_a = true;
        add(packed);
      }
    }
  }
  return result;
}

std::string kernel_name(const FamilyProblem& problem, const CpuGemmConfig& config) {
  std::string name = fmt::format("cpu_{}_{}x{}", problem.family.name, config.mr, config.nr);
  if (config.tile_cols > 64) name += fmt::format("_w{}", config.tile_cols);
  if (config.tile_rows > usual_tile_rows(problem)) name += fmt::format("_t{}", config.tile_rows);
  if (config.k_split > 1) name += fmt::format("_k{}", config.k_split);
  if (config.pack_a && problem.shape.a_k_stride == 1) name += "_pa";
  return fmt::format("{}_{}", name, isa_name(config.isa));
}

}  // namespace codetta::plan
