// SPDX-License-Identifier: Apache-2.0
// The sm_90a family: copy engine, wgmma, warp-specialized and persistent (device/cuda/kernels/sm90.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/checked.hpp"
#include "package/gpu_call.hpp"
#include "plan/beyond_h100.hpp"
#include "plan/copy_engine.hpp"
#include "plan/families.hpp"
#include "plan/families_cuda.hpp"
#include "plan/parameters.hpp"
#include "plan/refusals.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr int span_bytes = 128;                         // bytes of K in a stage: one swizzle span
constexpr int max_stages = 12, max_stages_narrow = 20;  // of 8 to 12 KiB
constexpr int64_t least_slice = 256;                    // steps of K, below which a slice costs more than it saves

bool two_level(const GpuGemmConfig& c) { return c.math == MathMode::Fp8TwoLevelAccumulation; }

// What wgmma multiplies here. Only 16-bit factors may lie along M and N. It sums products of 8-bit floats with 13 bits
// of fraction (docs/semantics.md), which has to be asked for.
bool multiplies(const GemmShape& s) {
  if (types::is_byte(s.a)) return types::is_byte(s.b) && s.accumulator == DType::i32;
  if (types::is_float8(s.a) && types::is_float8(s.b))
    return s.accumulator == DType::f32 && product_rounding(s.math, s.a, s.b).each > 0;
  if (s.a != s.b || s.accumulator != DType::f32) return false;
  return s.a == DType::bf16 || s.a == DType::f16 || s.a == DType::f32;
}

// Accumulator columns of a block's tile: first, last, step.
struct Tiles {
  int32_t rows, first, last, step, consumers;
  bool pingpong;
};
constexpr std::array tile_table{
    Tiles{128, 64, 192, 16, 2, true},   // each consumer owns a tile: two bands of 64 rows
    Tiles{64, 128, 256, 64, 2, true},   // one band
    Tiles{64, 16, 16, 16, 2, true},     // few columns: one consumer's epilogue under the other's copies
    Tiles{128, 64, 256, 16, 2, false},  // cooperative: one band each
    Tiles{256, 64, 128, 32, 2, false},  // two bands each
    Tiles{64, 16, 256, 16, 1, false},   // few rows, deep stages
    Tiles{128, 32, 128, 32, 1, false}, Tiles{192, 64, 128, 64, 3, false},  // where A is made: more warps compute it
};
constexpr std::array<std::pair<int32_t, int32_t>, 3> clusters{{{1, 1}, {2, 1}, {1, 2}}};

bool split_fits(const GpuProblem& p, const GpuGemmConfig& c, const Sm90Shape& shape) {
  if (p.ways() == 1) return true;
  const int64_t width = c.tile_n / p.ways(), chunk = p.chunk();
  if (!c.b_k_major && width % 64 != 0) return false;
  if (!c.b_k_major && chunk * types::byte_size(c.b_dtype) % map_alignment != 0) return false;
  return p.one_chunk() || chunk % shape.b_box_rows == 0;  // a copy brings columns of one chunk
}

// The engine stores 16 bytes at a time, also where fewer belong to the row (seen on an H100), or to the column.
bool whole_runs(const GpuProblem& p) {
  const auto fit = [&](const package::EpilogueProgram& program, int64_t cols) {
    const Copies copies = copies_of(program).value_or(Copies{});
    return std::all_of(copies.stores.begin(), copies.stores.end(), [&](uint32_t k) {
      const package::Operand& o = program.operands[k];
      if (const auto runs = column_runs(o)) return cols % runs->run == 0;
      return (o.column_major ? p.shape.m : cols) * types::byte_size(o.dtype) % map_alignment == 0;
    });
  };
  if (p.epilogue.spaces.empty()) return fit(p.epilogue, p.root_cols());
  for (size_t i = 0; i < p.epilogue.spaces.size(); ++i) {
    if (!fit(package::program_of(p.epilogue, i), p.shape.widths[i])) return false;
  }
  return true;
}

// Whether rows of an operand that the engine copies lie side by side: those of an item that rows are dealt out to do
// not.
bool any_column_major(const package::EpilogueProgram& epilogue, const Copies& copies) {
  const auto column_major = [&](uint32_t k) { return epilogue.operands[k].column_major; };
  return std::any_of(copies.loads.begin(), copies.loads.end(), column_major) ||
         std::any_of(copies.stores.begin(), copies.stores.end(), column_major);
}

// Whether the last piece of a tile may begin inside the one before it: what nobody reads and nothing sums may be stored
// twice.
bool overlaps(const GpuProblem& p, int32_t width) {
  const Copies copies = copies_of(p.epilogue).value_or(Copies{});
  return width > 64 && width % 16 == 0 && p.epilogue.reductions.empty() && copies.loads.empty() &&
         !run_of_copies(p.epilogue);
}

// Root columns of a piece: whole pieces where reductions keep a partial for each, otherwise whatever fills warps.
std::array<int32_t, 2> piece_choices(const GpuProblem& p, const GpuGemmConfig& c, int32_t width) {
  if (c.copied) {
    const int32_t run = run_of_copies(p.epilogue).value_or(64);
    return {(width % 64 == 0 && run % 64 == 0) || overlaps(p, width) ? 64 : 32, width % 32 == 0 ? 32 : 64};
  }
  if (p.epilogue.reductions.empty()) return {std::min(width, 64), std::min(width, 32)};
  const auto whole = [&](int32_t most) {
    int32_t piece = std::min(width, most);
    while (width % piece != 0 || piece % 8 != 0) --piece;
    return piece;
  };
  return {whole(128) <= 64 ? whole(128) : whole(64) >= 32 ? whole(64) : whole(128), whole(32)};
}

// The same where the epilogue's operands have slots in what the stages leave: wide ones, all of a tile's or half of
// them if there is room; three stages are enough for the widest tiles.
bool place_copied(const GpuProblem& p, GpuGemmConfig& c, int most) {
  const auto choices = piece_choices(p, c, static_cast<int32_t>(c.tile_n / p.ways()));
  const int64_t limit = std::min(sm90_shared_limit, p.gpu.shared_per_block);
  const int least = c.tile_m * c.tile_n >= 128 * 256 ? 3 : 4;
  for (const int32_t piece : choices) {
    c.piece_cols = piece;
    for (const int part : {1, 2, 8}) {
      if (c.pingpong && part != 8) continue;  // loads are hidden anyway
      for (c.stages = most; c.stages >= least; --c.stages) {
        const Sm90Shape shape = sm90_shape(p.epilogue, c);
        const int pieces = static_cast<int>(base::ceil_div<int64_t>(c.tile_n / p.ways(), piece)) * c.tile_m / 64 /
                           (c.pingpong ? 1 : c.consumers);
        if (shape.shared_bytes > limit || shape.load_slots * part < std::min(pieces, 8)) continue;
        c.shared_bytes = static_cast<int32_t>(shape.shared_bytes);
        return true;
      }
    }
  }
  return false;
}

// Fills piece, stages and shared memory; false if not even two stages fit.
bool place(const GpuProblem& p, GpuGemmConfig& c) {
  const auto width = static_cast<int32_t>(c.tile_n / p.ways());
  const int most = c.pingpong && c.tile_n <= 16 ? max_stages_narrow : c.consumers == 1 ? max_stages : 8;
  c.whole_rows = false;
  if (c.copied && !copies_of(p.epilogue)->loads.empty()) return place_copied(p, c, most);
  const auto choices = piece_choices(p, c, width);
  // Later phases spill beside the accumulators of more, and a made A has lanes of its own.
  const bool holds = !c.copied && holds_rows(p, width) && sm90_shape(p.epilogue, c).accumulators <= 128 &&
                     (!p.shape.a_made || width <= 32 * c.lanes);
  for (const int32_t piece : {holds ? width : 0, choices[0], choices[1]}) {
    if (piece == 0) continue;
    c.whole_rows = holds && piece == width;
    c.piece_cols = piece;
    c.stages = 1;
    const Sm90Shape one = sm90_shape(p.epilogue, c);
    const int64_t room =
        std::min(sm90_shared_limit, p.gpu.shared_per_block) - (one.shared_bytes - one.stage_bytes - 16);
    const int64_t stages = room / (one.stage_bytes + 16);
    c.stages = static_cast<int32_t>(std::min<int64_t>(stages, most));
    // Runs stored in pieces of 64 columns are worth the fourth stage of the widest tiles (an H100, bench/NOTES.md).
    const bool wide_runs = c.copied && c.tile_m * c.tile_n >= 128 * 256 && run_of_copies(p.epilogue).has_value();
    const bool three = c.stages >= 3 && (c.whole_rows || wide_runs);
    if (c.stages >= 4 || three || (c.stages >= 2 && piece == choices[1])) {
      c.shared_bytes = static_cast<int32_t>(sm90_shape(p.epilogue, c).shared_bytes);
      return true;
    }
  }
  return false;
}

bool draws_numbers(const package::EpilogueProgram& epilogue) {
  return std::any_of(epilogue.phases.begin(), epilogue.phases.end(), [](const package::Phase& phase) {
    return std::any_of(phase.insts.begin(), phase.insts.end(), [](const package::Inst& inst) {
      return inst.kind == package::Inst::Kind::Op && inst.op == types::Op::dropout;
    });
  });
}

}  // namespace

GemmShape spread_rows(const GemmShape& shape, int32_t spread_a) {
  GemmShape spread = shape;
  if (spread_a <= 1) return spread;
  spread.batch = spread_a;
  spread.m = shape.m / spread_a;
  spread.a_batch_stride = shape.a_row_stride;
  spread.a_row_stride = shape.a_row_stride * spread_a;
  return spread;
}

bool takes_registers(const package::EpilogueProgram& epilogue) {
  if (epilogue.phases.size() != 1 || !epilogue.reductions.empty() || epilogue.split.ways > 2) return false;
  if (!epilogue.spaces.empty()) {
    for (size_t p = 0; p < epilogue.spaces.size(); ++p) {
      package::EpilogueProgram own = package::program_of(epilogue, p);
      // Of the operands those of this product.
      std::vector<package::Operand> operands;
      for (const package::Store& store : own.phases[0].stores) operands.push_back(own.operands[store.operand]);
      for (const package::Inst& inst : own.phases[0].insts) {
        if (inst.kind == package::Inst::Kind::Load || inst.kind == package::Inst::Kind::LoadAt)
          operands.push_back(own.operands[inst.index]);
      }
      own.operands = std::move(operands);
      if (!takes_registers(own)) return false;
    }
    return true;
  }
  const package::Phase& phase = epilogue.phases[0];
  constexpr size_t light = 16;  // values
  if (phase.insts.size() > light || phase.stores.size() != 1) return false;
  // Whole rows of lines, which go by way of shared memory, win where more than one matrix is touched (bench/NOTES.md).
  return std::all_of(epilogue.operands.begin(), epilogue.operands.end(), [](const package::Operand& operand) {
    return operand.is_store ? operand.access == package::Access::Full
                            : operand.access != package::Access::Full && operand.access != package::Access::Indexed;
  });
}

int32_t columns_side_by_side(const package::EpilogueProgram& epilogue, const GpuGemmConfig& c) {
  const int32_t width = c.tile_n / epilogue.split.ways;
  const auto chunk = epilogue.split.chunk.as_constant();
  if (epilogue.split.own_ways() == 1 || !chunk || *chunk >= width) return width;
  const auto shared = static_cast<int32_t>(std::gcd(*chunk, int64_t{width}));
  return shared % 32 == 0 ? shared : width;  // smaller copies would be too many; whole rows of the engine's swizzle
}

Sm90Shape sm90_shape(const package::EpilogueProgram& epilogue, const GpuGemmConfig& c) {
  const int ways = epilogue.split.ways, width = c.tile_n / ways;
  Sm90Shape s;
  s.a_boxes = c.a_k_major ? c.cluster_n : c.tile_m / 64;
  const int side_by_side = width / columns_side_by_side(epilogue, c) * ways;  // boxes of a tile at least
  const int parts = side_by_side % c.cluster_m == 0 ? side_by_side : side_by_side * c.cluster_m;
  s.b_boxes = c.b_k_major ? parts : (width + 63) / 64 * ways;
  const int a_rows = c.a_rows > 0 ? c.a_rows : c.tile_m;
  s.a_box_rows = c.a_k_major ? a_rows / s.a_boxes : 64;
  s.b_box_rows = c.b_k_major ? c.tile_n / s.b_boxes : 64;
  const int64_t a_bytes = c.a_k_major ? a_rows * 128 : c.tile_m / 64 * c.tile_k * 128;
  const int64_t b_bytes = c.b_k_major ? c.tile_n * 128 : s.b_boxes * c.tile_k * 128;
  s.stage_bytes = a_bytes + b_bytes;
  // Rows of pieces are padded so that a warp's stores meet no bank twice.
  const int ld = c.piece_cols + (c.piece_cols % 32 == 0 ? 8 : 24 - c.piece_cols % 32);
  s.piece_bytes = c.from_registers ? 0 : int64_t{64} * ld * 4 * ways;
  s.scratch_bytes = (piece_layout(epilogue, c).scratch_bytes(128) + 127) / 128 * 128;
  int64_t barriers = 16 * c.stages + 16;
  if (c.copied) {
    const CopySlots slots = copy_slots(epilogue);
    const auto slot = [&](const std::vector<int64_t>& sizes) {
      return std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) * 64 * c.piece_cols;
    };
    const int64_t stores = 2 * slot(slots.stores), loads = slot(slots.loads);
    const int sums = epilogue.reductions.empty() ? 0 : copies_of(epilogue).value_or(Copies{}).column_sums;
    s.scratch_bytes = int64_t{2} * 4 * width * 4 * sums;
    const int64_t left =
        sm90_shared_limit - c.stages * s.stage_bytes - barriers - c.consumers * (stores + s.scratch_bytes);
    const int bands = c.tile_m / 64 / (c.pingpong ? 1 : c.consumers);
    const auto pieces = static_cast<int64_t>(bands * ((width + c.piece_cols - 1) / c.piece_cols));
    // As many as there is room for, at least two, at most a tile's.
    s.load_slots = loads == 0 ? 1
                              : static_cast<int>(std::max<int64_t>(
                                    std::min<int64_t>({left / (c.consumers * (loads + 32)), pieces, 8}), 2));
    s.piece_bytes = stores + s.load_slots * loads;
    barriers += 32 * s.load_slots * c.consumers;
  }
  s.shared_bytes = c.stages * s.stage_bytes + c.consumers * (s.piece_bytes + s.scratch_bytes) + barriers;
  s.accumulators = c.tile_m / 64 / (c.pingpong ? 1 : c.consumers) * c.tile_n / 2;
  s.multiplied = s.accumulators * (!two_level(c) ? 1 : 3 * s.accumulators <= sm90_accumulators ? 3 : 2);
  return s;
}

std::optional<Rejection> refuse_sm90(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  const auto no = [](diag::Code code, std::string text) {
    return cuda_rejection(GpuFamily::Sm90, code, std::move(text));
  };
  if (p.gpu.arch != "sm_90a") {
    return no(diag::Code::isa_lacks,
              fmt::format("wgmma and setmaxnreg belong to sm_90a, which {} code does not have", p.gpu.arch));
  }
  if (types::is_float8(s.a) && types::is_float8(s.b) && s.accumulator == DType::f32 && !multiplies(s)) {
    return no(diag::Code::family_dtypes,
              fmt::format("wgmma sums products of 8-bit floats with 13 bits of fraction, and the program's math is {}; "
                          "fp8_two_level_accum permits it of 128 at a time, fp8_fast_accum of all",
                          math_mode_name(s.math)));
  }
  if (!multiplies(s)) {
    return no(
        diag::Code::family_dtypes,
        fmt::format("multiplies bf16, f16 and f32 (as tf32) into f32 and 8-bit integers into i32, and this is {} x "
                    "{} into {}",
                    dtype_name(s.a), dtype_name(s.b), dtype_name(s.accumulator)));
  }
  if (s.a == DType::f32 && s.math != MathMode::Tf32) {
    return no(diag::Code::family_dtypes,
              fmt::format("wgmma cuts f32 factors to tf32, and the program's math is {}", math_mode_name(s.math)));
  }
  if (auto refused = refuse_copied(p, GpuFamily::Sm90)) return refused;
  return sm90_configurations(p).empty() ? std::optional(no_tile_for_split(p, GpuFamily::Sm90)) : std::nullopt;
}

namespace {

// To how many items rows of A can be dealt out that begin anywhere, so that each item's begin multiples of 16 bytes
// apart; 1: they cannot, or need not. B lies along N then, of 16-bit elements, or is packed so: it is read so many
// steps earlier as there are elements in front of an item's rows (device/cuda/kernels/sm90.h).
int32_t spread_of(const GpuProblem& p, const GpuGemmConfig& base) {
  const GemmShape& s = p.shape;
  const int64_t element = types::byte_size(s.a);
  if (!base.pack_a || s.a_made || element != 2 || s.batch != 1 || (s.products > 1 && s.b_k_stride == 1)) return 1;
  if ((s.k > 1 && s.a_k_stride != 1) || s.a_row_stride <= 0 || s.a_alignment % map_alignment != 0) return 1;
  const int64_t items = map_alignment / std::gcd(map_alignment, s.a_row_stride * element);
  if ((s.m_multiple == 0 ? s.m : int64_t{s.m_multiple}) % items != 0 || s.a_row_stride > map_stride / 16 / element)
    return 1;
  const std::vector<package::Operand>& operands = p.epilogue.operands;
  const bool each = std::all_of(operands.begin(), operands.end(), [&](const package::Operand& operand) {
    const package::FoldSlots slots =
        package::fold_slots_of(p.epilogue, static_cast<size_t>(&operand - operands.data()));
    return operand.access != package::Access::Indexed || slots.row < 0 || slots.batch >= 0;  // of which rows and items
  });
  return each && package::rows_fold_by_slots(p.epilogue) ? static_cast<int32_t>(items) : 1;
}

// Rows of A that a stage brings where they are known to be few; 0: all of a tile. What the 64 rows of the last
// instruction are read from beyond them is in the same stage.
int32_t rows_of_stage(const GemmShape& s, const GpuGemmConfig& c) {
  if (s.any_m || s.batch != 1 || s.items != 1 || s.a_made || c.spread_a > 1 || c.pack_a || !c.a_k_major) return 0;
  if (c.tile_m > 128 || s.m > c.tile_m - 8 || s.m <= c.tile_m - 64) return 0;
  const int32_t step = 8 * c.cluster_n;  // boxes of whole swizzle atoms
  auto rows = static_cast<int32_t>(base::ceil_div<int64_t>(s.m, step) * step);
  if (c.tile_m == 128) rows = std::max(rows, (c.tile_m - c.tile_n + step - 1) / step * step);
  return rows < c.tile_m && rows + c.tile_n >= c.tile_m ? rows : 0;
}

// All tiles of it, for a configuration that says how factors are read.
void add_tiles(const GpuProblem& p, const GpuGemmConfig& base, std::vector<GpuGemmConfig>& result);

}  // namespace

std::vector<GpuGemmConfig> sm90_configurations(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  const auto factors = factors_of(p);
  const int64_t element = types::byte_size(s.a);
  GpuGemmConfig base = config_of(s, GpuFamily::Sm90);
  // Only 16-bit factors are read along M and N.
  const Reading a = reading_of(factors[0], element, element != 2),
                b = reading_of_b(p, factors[1], element, element != 2);
  base.a_k_major = a.k_major;
  base.b_k_major = b.k_major;
  base.pack_a = a.packed;
  base.pack_b = b.packed;
  if (s.a_made) {  // vectors of two are the words of the tensor cores (device/cuda/kernels/make_wgmma.h)
    if (base.pack_a || !base.a_k_major) return {};
    base.lanes = 2;
  }
  base.tile_k = static_cast<int32_t>(span_bytes / element);
  if (b.packed && s.products > 1) return {};  // one B is copied
  base.persistent = true;
  base.alignment = map_alignment;
  base.piece_rows = 64;
  std::vector<GpuGemmConfig> result;
  add_tiles(p, base, result);
  if (const int32_t items = spread_of(p, base); items > 1) {
    const GemmShape spread = spread_rows(s, items);
    base.spread_a = items;
    base.pack_a = false;
    if (base.b_k_major) base.b_k_major = false, base.pack_b = true;
    add_tiles({p.epilogue, spread, p.gpu}, base, result);
  }
  for (GpuGemmConfig& c : result) c.combines = combines_rows(p, c);
  return result;
}

namespace {

void add_tiles(const GpuProblem& p, const GpuGemmConfig& base, std::vector<GpuGemmConfig>& result) {
  const GemmShape& s = p.shape;
  const int64_t element = types::byte_size(s.a), sms = p.gpu.sms, cols = p.widest_cols();
  const bool spread = base.spread_a > 1;
  const auto further_a = static_cast<size_t>(base.spread_a - 1);
  if (parameter_bytes(p.epilogue) > free_parameter_bytes(2 + further_a)) return;
  // Reductions and integers need registers of their own.
  const bool light = takes_registers(p.epilogue);
  const auto copied_operands = copies_of(p.epilogue);
  const bool copies = copied_operands && s.epilogue_alignment % map_alignment == 0 && whole_runs(p) &&
                      !(spread && any_column_major(p.epilogue, *copied_operands)) &&
                      parameter_bytes(p.epilogue) <=
                          free_parameter_bytes(2 + further_a + copied_operands->loads.size() +
                                               copied_operands->stores.size() + tables_of(p.epilogue).size());
  const int most_accumulators =
      p.epilogue.reductions.empty() && s.accumulator == DType::f32 ? sm90_accumulators : sm90_accumulators_busy;
  const bool hashes = draws_numbers(p.epilogue);
  for (const Tiles& row : tile_table) {
    const int bands = row.rows / 64 / (row.pingpong ? 1 : row.consumers);
    // What is made of two bands spills beside their accumulators; more warps than two consumers' compute exponents.
    if (s.a_made ? bands > 1 : row.consumers > 2 && !sums_exponents(p.epilogue)) continue;
    // One band of accumulators has others beside it, and in turns nothing would be multiplied while sums are added.
    if (two_level(base) && (bands > 1 || row.pingpong)) continue;
    if (row.rows > 64 && s.m <= row.rows / 2) continue;  // half of the rows or more would be padding
    for (int32_t tile_n = row.first; tile_n <= row.last; tile_n += row.step) {
      if (tile_n % (8 * p.ways()) != 0) continue;
      const int64_t width = tile_n / p.ways();
      if (width >= cols + 32 && tile_n > row.first) continue;  // a narrower tile holds all columns
      const int64_t tiles_m = base::ceil_div<int64_t>(s.m, row.rows), tiles_n = p.column_tiles(width);
      const double tiles = static_cast<double>(tiles_m) * static_cast<double>(tiles_n * s.batch);
      if (tiles * package::max_k_split >= 4e9) continue;                // units of work are counted in 32 bits
      if (row.pingpong && tiles <= static_cast<double>(sms)) continue;  // there is no second tile to hide under
      if (row.pingpong && tile_n == 16 && cols > 16) continue;
      if (row.pingpong && tile_n > 128 && hashes) continue;  // Philox spills beside that many accumulators
      for (const auto& [cluster_m, cluster_n] : clusters) {
        if (cluster_m * cluster_n > 1 &&
            (tiles <= static_cast<double>(sms) || tiles_m < cluster_m || tiles_n < cluster_n))
          continue;
        GpuGemmConfig c = base;
        c.tile_m = row.rows;
        c.tile_n = tile_n;
        c.consumers = row.consumers;
        c.pingpong = row.pingpong;
        c.cluster_m = cluster_m;
        c.cluster_n = cluster_n;
        c.threads = 128 * (1 + row.consumers);
        c.group = raster_group(c);
        c.a_rows = rows_of_stage(s, c);
        if (!place(p, c) || (s.a_made && piece_layout(p.epilogue, c).lanes != base.lanes)) continue;
        const Sm90Shape shape = sm90_shape(p.epilogue, c);
        if (shape.accumulators > most_accumulators || shape.multiplied > sm90_accumulators) continue;
        if (!split_fits(p, c, shape)) continue;
        if (shape.a_box_rows % 8 != 0 || shape.b_box_rows % 8 != 0 || shape.a_box_rows > 256 || shape.b_box_rows > 256)
          continue;
        result.push_back(c);
        // Beyond 128 accumulators a thread the exchange spills.
        GpuGemmConfig direct = c;
        direct.from_registers = light && width % 16 == 0 && shape.accumulators <= 128;
        if (direct.from_registers && place(p, direct)) result.push_back(direct);
        GpuGemmConfig copied = c;
        copied.copied =
            copies && cols >= 32 && (width % 32 == 0 || (copies && overlaps(p, static_cast<int32_t>(width)))) &&
            (shape.accumulators <= 128 || tables_of(p.epilogue).empty());  // places of tables spill beside more
        copied.lanes = 2;
        copied.copied = copied.copied && place(p, copied);
        if (copied.copied) result.push_back(copied);
        // Equal shares of K where the last wave leaves many multiprocessors idle. Blocks are at different k then, and
        // what they bring must stay in L2 between them.
        const double waves = tiles / static_cast<double>(sms);
        const bool stays =
            static_cast<double>((s.m + s.n) * s.k * s.batch * element) <= 0.8 * static_cast<double>(p.gpu.l2);
        if (spread) continue;
        if (!c.pingpong && stays && waves < 4 && std::ceil(waves) > 1.15 * waves && s.k >= 4 * least_slice &&
            shape.accumulators <= sm90_accumulators_streamed && p.epilogue.reductions.size() <= 1 &&
            (!s.a_made || shape.accumulators < sm90_accumulators_streamed)) {
          GpuGemmConfig streamed = copied.copied ? copied : direct.from_registers ? direct : c;
          streamed.stream_k = true;
          result.push_back(streamed);
        }
        // Slices of K where tiles leave multiprocessors idle.
        if (c.pingpong || cluster_m * cluster_n > 1 || shape.accumulators > sm90_accumulators_split) continue;
        int64_t before = 1;
        for (const double wanted : {1.0, 2.0}) {
          const auto split = std::min<int64_t>({static_cast<int64_t>(wanted * static_cast<double>(sms) / tiles),
                                                s.k / least_slice, int64_t{package::max_k_split}});
          if (split <= before) continue;
          before = split;
          c.k_split = direct.k_split = copied.k_split = static_cast<int32_t>(split);
          result.push_back(c);
          if (direct.from_registers) result.push_back(direct);
          if (copied.copied) result.push_back(copied);
        }
      }
    }
  }
}

}  // namespace

Mainloop sm90_mainloop(const GpuProblem& p, const GpuGemmConfig& c) {
  const Sm90Shape shape = sm90_shape(p.epilogue, c);
  // One consumer waits for its own products between stages, less with two bands of rows (an H200, 1024^3: 128 x 64
  // 0.1 us behind cooperative tiles, 0.6 ahead with relu_aux_store).
  // Two that wait for the same stages lose 2 % beside two in turns (an H200 at its limit of power), with fast products
  // of 8-bit floats more (an H100, 4096^3 with scales: 120 us in cooperative tiles of 128 x 256, 130 of 128 x 176, 110
  // and 113 in turns).
  const bool slower = c.math == MathMode::Fp8FastAccumulation && c.consumers == 2 && !c.pingpong;
  const double efficiency = slower ? 0.86 : c.pingpong ? 0.97 : c.consumers > 1 ? 0.95 : 0.9;
  const double wait = c.consumers == 1 ? c.tile_m > 64 ? 24 : 64 : 0;
  const auto blocks =
      static_cast<double>(base::ceil_div<int64_t>(base::ceil_div<int64_t>(p.shape.k, c.k_split), c.tile_k));
  // 64 x n x 32 bytes of K take n / 2 clocks, and longer the more bytes of shared memory a clock they need: those of
  // both factors, and those that the copy engine writes meanwhile, which cost more. Fitted to what an H200 took at its
  // limit of power (bench/NOTES.md): 1 for 128 x 160 and wider, 1.03 for 128 x 128, 1.07 to 1.09 for 64 x 256 and 128 x
  // 112, 1.45 for 64 x 128. Two consumers lose 2.5 % where columns are no multiple of 32; columns of B that come in
  // blocks of 64 and are not all needed cost 12 %. Few rows wait for memory instead.
  const double reads = 2048 + 32.0 * c.tile_n, writes = static_cast<double>(shape.stage_bytes) / (c.tile_m / 16.0);
  const double above =
      c.consumers == 1 && p.shape.m <= 128 ? 0 : std::max(0.0, (reads + 1.5 * writes) / (c.tile_n / 2.0) - 177);
  const double odd = !c.b_k_major && c.tile_n / p.ways() % 64 != 0 ? 1.12
                     : c.consumers == 2 && c.tile_n % 32 != 0      ? 1.025
                                                                   : 1;
  const double crowding = (1 + std::min(0.45, 0.00013 * above * above)) * odd;
  const double step = c.tile_n / 2.0 * crowding;
  const double loaded_n = c.b_k_major ? c.tile_n : static_cast<double>(shape.b_boxes * 64);
  Mainloop loop;
  // 128 bytes that begin at 16 are in five sectors of L2 instead of four.
  const double sectors = c.spread_a > 1 ? 1.25 : 1;
  loop.bytes = blocks * span_bytes * (sectors * c.tile_m / static_cast<double>(c.cluster_n) + loaded_n / c.cluster_m);
  double products_clocks = blocks * (4.0 * c.tile_m / 64 * step + wait);
  // Sums of a stage are added by a warp in each quarter of a multiprocessor, an instruction a clock, once they have
  // come. Under the next stage's products that costs 2 %; else the other consumer's of the same tile go on, the longer
  // the better (an H100, tiles of 128 rows: 0.3 to 2 % with 192 columns, 4 % with 160), or nothing is multiplied.
  if (two_level(c)) {
    const bool turns = shape.multiplied == 3 * shape.accumulators, alone = c.consumers == 1;
    constexpr double until_added = 100;
    products_clocks *= turns || alone ? 1.02 : 1 + 0.01 * std::clamp((200 - c.tile_n) / 10.0, 1.0, 6.0);
    if (c.tile_n % 32 != 0) products_clocks *= 1.06;  // 4096^3: 128 x 176 took 7 % longer than 128 x 128
    if (alone && !turns) products_clocks += blocks * (c.tile_n / 2.0 + until_added);
  }
  // While all blocks read the same few rows of A, L2 gives less than its rate: a third for 32 rows (measured). What an
  // H100's memory gave was in that, and in the clocks of a stage below: an H200 has half of it again and more.
  const double beyond = memory_beyond_h100(p.gpu);
  if (p.shape.m <= c.tile_m) {
    const double tiles = static_cast<double>(p.column_tiles(c.tile_n / p.ways()) * p.shape.batch) * c.k_split;
    const double active = std::clamp(tiles, 1.0, static_cast<double>(p.gpu.sms));
    // Where a stage brings no other rows than A's, that is beyond what the memory gives.
    const double share = c.a_rows > 0 && p.shape.m <= 64
                             ? 0.5
                             : std::min(1.0, 0.34 * std::max(static_cast<double>(p.shape.m), 32.0) / 32);
    const double bytes = blocks * span_bytes * (static_cast<double>(p.shape.m) / c.cluster_n + loaded_n);
    // With 56 and 64 blocks of few rows an H200's takes nothing more to wait between stages (32 x 7168 x 8192 in tiles
    // of 112 and 128 columns: 30.8 and 31.1 us, which came to 35.5 and 38.0).
    const double waits = c.a_rows > 0 && p.shape.m <= 64 ? 1 - (1 - efficiency) * beyond : 1;
    products_clocks =
        std::max(products_clocks,
                 waits * bytes / (std::min(1.0, share * (1 + 0.5 * beyond)) * p.gpu.l2_rate / active) * p.gpu.ghz);
  }
  // A stage takes its time however little is multiplied, and longer the more rows it brings that lie outside of A: 64 x
  // 64 tiles in 64 blocks took 363 clocks with 8 rows, 320 with 32, 263 to 290 with 64, and 280 to 304 with 32 that
  // bring 32 (an H100). Of 96 rows two tiles of 64 take as much longer than of 128.
  const bool few = p.shape.m <= 64;
  const int64_t brought = c.a_rows > 0 ? c.a_rows : base::ceil_div<int64_t>(p.shape.m, c.tile_m) * c.tile_m;
  const auto outside = static_cast<double>(brought - p.shape.m);
  if (c.consumers == 1 && (few || (p.shape.m < 128 && outside > 0)))
    products_clocks = std::max(
        products_clocks, blocks * (few && c.a_rows > 0 ? 285 : 260 + 1.8 * outside) * (1 - 0.3 * beyond) * efficiency);
  const double traffic = 0.03 * loop.bytes / 64;  // of L2, in the way of the products' own operands: 3 % at 64 a clock
  // A group's products begin when the other's have ended, and not at once: the shorter they are, the more of the time
  // nothing is multiplied. Long ones run at the limit of power, where the clock makes up for it (an H100, tiles of 128
  // x 128 against cooperative ones: nothing gained with K = 13 and 479, 20 % with 1024, 1 % with 4096).
  const double products_us = products_clocks / (p.gpu.ghz * 1000);
  if (p.shape.a_made) {
    Mainloop making;
    add_making(p, c, blocks * c.tile_k, making);
    // Warps compute A between their products: of how many clocks they issue an instruction in every one (an H100, exp
    // of scores by row sums: 648 us of tiles of 128 rows, 583 of 192, twice as long where one consumer multiplies).
    const double busy = c.pingpong || c.consumers == 1 ? 0.48 : c.consumers == 2 ? 0.74 : 0.85;
    products_clocks = making.clocks / busy * efficiency + (busy > 0.5 ? 0.2 : 1) * products_clocks;
  }
  // Blocks drift apart, and what neighbours read comes from L2 twice, but where a cluster brings it to both (an H100,
  // 128 x 128 in turns: with a cluster 1.20 times as fast at 31 tiles a multiprocessor, 1.08 at 24, 1.00 at 8; 128 x
  // 256 1.02 at 16).
  const double tiles = static_cast<double>(base::ceil_div<int64_t>(p.shape.m, c.tile_m) * p.shape.batch) *
                       static_cast<double>(p.column_tiles(c.tile_n / p.ways()));
  const double waves = tiles / static_cast<double>(p.gpu.sms), a_clock = loop.bytes / products_clocks;
  if (c.cluster_m * c.cluster_n == 1 && blocks > 1)
    products_clocks *= 1 + 0.08 * std::clamp((waves - 8) / 16, 0.0, 1.0) * std::min(1.0, a_clock / 64);
  const double handover = c.pingpong ? 800 * p.gpu.ghz / (1 + products_us / 10) : 0;
  loop.clocks = products_clocks / efficiency + traffic + handover;
  // Cooperative consumers that store by the copy engine take up to half as long again until they multiply once more (an
  // H200 at its limit of power: 2 to 5 us a tile with K = 1024, nothing with K = 13).
  loop.exposed = c.pingpong ? 0.4 : c.copied && c.consumers > 1 ? 1 + 0.5 * std::min(1.0, blocks / 16) : 1;
  loop.memory_share = few ? 0.955 : 1;  // few rows wait for memory, from their first stage on
  // Two multiprocessors share their way to memory. While all of them read, each pair gets the same, so that those with
  // more tiles than others end later: by a fifth or a third of what they have more, where memory gives as much as an
  // H200's (16 to 64 rows: tiles that are spread evenly are 3 to 15 % ahead, those of 64 and 112 columns of those of
  // 80, 96, 144 and 192). There the time of kernels at two lengths is a line that begins later and is steeper.
  if (few) {
    loop.memory_share *= (1 + 0.045 * beyond) / (1 + unevenness(p.gpu, tiles * c.k_split));
    if (types::is_float8(c.a_dtype) && c.tile_n > 128) loop.memory_share /= 1 + 0.04 * beyond;  // measured, too
  }
  // Two blocks begin together; cooperative ones gain nothing by what they share (an H200, ten rows: 0 to 1 % slower).
  const double together = c.cluster_m * c.cluster_n == 1 ? 0 : c.pingpong ? 0.6 : 1.3;
  loop.prologue_us = (c.a_rows > 0 ? 3.0 : few ? 4.3 : 3.3) + together + (few ? beyond : 0);
  loop.note = fmt::format("{} stages of 64 x {} x {} in {:.0f} clocks a product at {:.1f} %", c.stages, c.tile_n,
                          c.tile_k, step, 100 * efficiency);
  if (two_level(c))
    loop.note +=
        fmt::format(", whose sums of {} products are added to {} others a thread", c.tile_k, shape.accumulators);
  return loop;
}

}  // namespace codetta::plan
