// SPDX-License-Identifier: Apache-2.0
// The sm_80 family: cp.async, ldmatrix, mma.sync (device/cuda/kernels/sm80.h). Any tails and alignments; every later
// GPU runs it, too.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/checked.hpp"
#include "plan/beyond_h100.hpp"
#include "plan/families_cuda.hpp"
#include "plan/making.hpp"
#include "plan/refusals.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr int64_t max_blocks = INT32_MAX;  // of a grid; tiles are counted in 32 bits
constexpr int64_t least_slice = 256;       // steps of K

// Where few rows wait for memory (measured on an H100, bench/NOTES.md): how long copies are on their way; what a step
// of K costs besides; the share of memory's rate that copies of B along K reach, those across K reach all of it; what
// half lines cost, whose other half another tile reads; and bytes in flight beyond which they are in each other's way.
constexpr int64_t few_rows = 64;
constexpr double latency_ns = 770, step_clocks = 80, along_share = 0.91, l2_share = 0.8;
constexpr double half_lines = 1.08, queued = 0.1, enough_in_flight = 8 << 20;
// How long a vector of a made factor waits for what it reads of its place along K alone (one row, an H100).
constexpr double settling_clocks = 1000;

// Rows and accumulator columns of a tile, and the warps that share it.
struct Tile {
  int32_t m, n, warps;
};
constexpr std::array tile_table{Tile{128, 256, 8}, Tile{256, 128, 8}, Tile{128, 128, 4}, Tile{128, 192, 8},
                                Tile{128, 128, 8}, Tile{128, 64, 4},  Tile{64, 128, 4},  Tile{64, 96, 4},
                                Tile{64, 64, 4},   Tile{32, 128, 4},  Tile{64, 32, 4},   Tile{32, 64, 4},
                                Tile{16, 128, 4},  Tile{16, 64, 4}};
// For columns in three parts (queries, keys and values): few rows of widths that three divides.
constexpr std::array thirds{Tile{32, 192, 4}, Tile{16, 192, 4}};
// Where neighbouring columns lie side by side: threads keep their place in rows of B only if three divides them, too.
constexpr std::array thirds_across{Tile{128, 192, 12}, Tile{64, 192, 6}, Tile{32, 192, 6}, Tile{16, 192, 6}};
// Warps of a block that leaves room for a second one on its multiprocessor.
constexpr int32_t few_warps = 6;

// The instructions of device/cuda/mma.h.
bool multiplies(const GemmShape& s) {
  if (s.a == DType::f64) return s.b == DType::f64;
  if (types::is_byte(s.a)) return types::is_byte(s.b) && s.accumulator == DType::i32;
  if (types::is_float8(s.a)) return types::is_float8(s.b) && s.accumulator == DType::f32;
  return s.a == s.b && s.accumulator == DType::f32 && (s.a == DType::bf16 || s.a == DType::f16 || s.a == DType::f32);
}

// Bytes, at most 16, that everything a copy starts at is a multiple of; copies are of 16, 8 or 4 bytes, and below that
// elements pass through registers.
int32_t copy_alignment(const GpuProblem& p, bool a_k_major, bool b_k_major) {
  const GemmShape& s = p.shape;
  const int64_t element = types::byte_size(s.a);
  int32_t alignment = 16;
  const auto meet = [&](int64_t bytes) {
    while (alignment > 1 && bytes % alignment != 0) alignment /= 2;
  };
  const auto meet_factor = [&](int64_t address, int64_t batch_strides, int64_t slow, int64_t slow_stride) {
    meet(address);
    if (s.batch > 1) meet(batch_strides * element);  // a bit that one of them has
    if (slow > 1) meet(slow_stride * element);
  };
  if (!s.a_made)
    meet_factor(s.a_alignment, s.a_batch_stride | s.a_skip, a_k_major ? s.m : s.k,
                a_k_major ? s.a_row_stride : s.a_k_stride);
  if (!s.b_made)
    meet_factor(s.b_alignment, s.b_batch_stride | s.b_skip, b_k_major ? s.n : s.k,
                b_k_major ? s.b_col_stride : s.b_k_stride);
  // Parts of a split begin where a copy may.
  if (p.ways() > 1 && !b_k_major) meet(std::max<int64_t>(p.chunk(), 1) * element);
  return alignment < 4 ? 1 : alignment;
}

// Copies along N bring neighbouring columns; along K any column has its own.
bool split_fits(const GpuProblem& p, const GpuGemmConfig& c) {
  if (p.ways() == 1 || c.b_k_major) return true;
  const int64_t chunk = p.chunk();
  const int64_t columns = (c.alignment >= 4 ? c.alignment : 16) / types::byte_size(c.b_dtype);
  return chunk > 0 && (chunk % columns == 0 || (c.alignment < 4 && p.one_chunk()));
}

// Bytes of a row of shared memory: whole spans of its permutation, and threads keep their place in it.
bool row_fits(const GpuGemmConfig& c, int64_t bytes) {
  const int64_t unit = c.alignment >= 4 ? c.alignment : 16;
  return (bytes == 64 || bytes % 128 == 0) && c.threads % (bytes / unit) == 0;
}

// What made factors are computed from waits in registers beside `held` accumulators, and so do the addresses of their
// vectors, in runs of 16 bytes. The limits are where NVRTC begins to spill; fragments of 32-bit elements are larger.
bool makes_fit(const GpuProblem& p, const GpuGemmConfig& c, int64_t held) {
  const GemmShape& s = p.shape;
  if (!s.a_made && !s.b_made) return true;
  const int64_t element = types::byte_size(c.a_dtype), unit = 16 / element, lanes = piece_layout(p.epilogue, c).lanes;
  if (unit % lanes != 0) return false;
  double words = 0;
  int64_t vectors = 0;
  using Which = package::FactorProgram::Which;
  const auto add = [&](bool made, int32_t extent, bool k_major, Which which) {
    if (!made) return;
    const int64_t units = (extent * c.tile_k * element / 16 + c.threads - 1) / c.threads;
    const int64_t rows = k_major ? extent : c.tile_k, along = (k_major ? c.tile_k : extent) * element / 16;
    const bool split = which == Which::B && p.ways() > 1;
    const HeldRows places{split ? 0 : rows & -rows, std::max<int64_t>(c.threads / along, 1), unit};
    words += static_cast<double>(units * unit) * std::max(held_bytes(p.epilogue, which, places), 1.0) / 4;
    vectors += units * (unit / lanes);
  };
  add(s.a_made, c.tile_m, c.a_k_major, Which::A);
  add(s.b_made, c.tile_n, c.b_k_major, Which::B);
  return static_cast<double>(held + 4 * vectors) + words <= (element == 4 ? 80 : 112);
}

// Fills pieces, stages and shared memory.
bool place(const GpuProblem& p, GpuGemmConfig& c) {
  const int64_t element = types::byte_size(c.a_dtype);
  take_whole_pieces(p, c);
  if (const auto width = static_cast<int32_t>(c.tile_n / p.ways()); holds_rows(p, width)) {
    c.piece_cols = width;
    c.whole_rows = true;
  }
  const int64_t stage = (c.tile_m + c.tile_n) * c.tile_k * element;
  // Two blocks of few warps share a multiprocessor.
  const int64_t room = c.consumers <= few_warps ? std::min(p.gpu.shared_per_block, p.gpu.shared_per_sm / 2 - 2048)
                                                : p.gpu.shared_per_block;
  c.stages = static_cast<int32_t>(std::min<int64_t>((room - 4096) / stage, 5));
  if (c.stages < 2) return false;
  while (sm80_shared_bytes(p.epilogue, c) > room && c.piece_rows % 32 == 0) c.piece_rows /= 2;
  c.shared_bytes = static_cast<int32_t>(sm80_shared_bytes(p.epilogue, c));
  return c.shared_bytes <= room;
}

// Multiply-adds a clock of one multiprocessor by mma.sync: data sheets' dense rates; on Hopper, whose full rate only
// wgmma has, what was measured on an H100 over the efficiency below.
double rate_of(int arch, DType dtype, package::MathMode math) {
  const bool hopper = arch >= 90 && arch < 120;
  if (dtype == DType::f64) return arch == 80 ? 64 : arch == 90 ? 235 : arch == 100 || arch == 103 ? 32 : 2;
  const double half = arch == 90 ? 1270 : arch == 80 || hopper ? 1024 : 512;
  if (dtype == DType::f32) return half * (hopper ? 0.41 : 0.5) / (math == package::MathMode::Tf32x3 ? 3 : 1);
  if (types::is_float8(dtype) && hopper) return half * 0.85;  // converted to f16 first
  return types::byte_size(dtype) == 1 ? 2 * half : half;
}

double units_of(const GpuProblem& p, const GpuGemmConfig& c) {
  const int64_t width = c.tile_n / p.ways();
  return static_cast<double>(p.shape.batch * p.column_tiles(width) * c.k_split) *
         static_cast<double>(base::ceil_div<int64_t>(p.shape.m, c.tile_m));
}

// Blocks that all multiprocessors hold. Shared memory decides; a block's own needs 1 KiB more.
double slots_of(const GpuProblem& p, const GpuGemmConfig& c) {
  return static_cast<double>(
      p.gpu.sms * std::clamp<int64_t>(p.gpu.shared_per_sm / (c.shared_bytes + 1024), 1, int64_t{2048} / c.threads));
}

// Clocks of a unit of `k` steps, as below, in which made factors wait: of what they read, only what fills a block is
// under way beside the copies (device/cuda/kernels/make_stage.h); the vectors of a thread ask for the rest one by one.
double settling(const GpuProblem& p, const GpuGemmConfig& c, double k) {
  const int64_t element = types::byte_size(c.a_dtype), lanes = piece_layout(p.epilogue, c).lanes;
  int64_t vectors = 0;
  for (const package::FactorProgram& factor : p.epilogue.factors) {
    const bool is_a = factor.which == package::FactorProgram::Which::A;
    // What is the same for each block along K is in the first-level cache.
    const package::Access along_k = (is_a ? c.a_k_major : c.b_k_major) ? package::Access::Row : package::Access::Column;
    const bool alone = std::any_of(factor.insts.begin(), factor.insts.end(), [&](const package::Inst& inst) {
      return inst.kind == package::Inst::Kind::Load && p.epilogue.operands[inst.index].access == along_k;
    });
    if (!alone || (!is_a && factor.product > 0)) continue;
    const int64_t rows = is_a ? std::min<int64_t>(p.shape.m, c.tile_m) : c.tile_n;
    vectors += base::ceil_div<int64_t>(rows * c.tile_k * element / 16, c.threads) * (16 / element / lanes);
  }
  const double units = units_of(p, c);
  return static_cast<double>(vectors) * k / c.tile_k * settling_clocks * std::ceil(units / slots_of(p, c)) /
         std::ceil(units / p.gpu.sms);
}

// Clocks of a unit of `k` steps in which its bytes come, of those that the model counts for one multiprocessor.
double waiting_clocks(const GpuProblem& p, const GpuGemmConfig& c, double k) {
  const auto element = static_cast<double>(types::byte_size(c.b_dtype));
  const double element_b = p.shape.b_made ? p.shape.b_read_bytes : element;
  const double element_a = p.shape.a_made ? p.shape.a_read_bytes : element;
  const auto tiles_m = static_cast<double>(base::ceil_div<int64_t>(p.shape.m, c.tile_m));
  const int64_t width = c.tile_n / p.ways();
  Waiting w;
  w.units = units_of(p, c);
  w.slots = slots_of(p, c);
  w.bytes = c.tile_n * k * element_b;
  w.read_bytes = w.bytes + static_cast<double>(std::min<int64_t>(p.shape.m, c.tile_m)) * k * element_a;
  w.in_flight = (c.stages - 1) * static_cast<double>(c.tile_n) * c.tile_k * element_b;
  w.latency_ns = latency_ns;
  const double flying = std::min(w.units, w.slots) * w.in_flight;
  w.memory_bytes = w.bytes / tiles_m * (1 + queued * std::max(0.0, 1 - enough_in_flight / flying)) *
                   (!c.b_k_major && static_cast<double>(width) * element < 128 ? half_lines : 1);
  w.memory_rate = p.gpu.memory_rate * (c.b_k_major ? along_share : 1);
  w.l2_rate = l2_share * p.gpu.l2_rate;
  // With 16 rows and blocks of 64 columns, B along K, an H200 takes 4 to 8 % less than these limits say, but 13 to 22 %
  // more where 96 blocks are not as many on each pair of multiprocessors.
  const bool narrow = p.shape.m <= 16 && c.b_k_major && c.tile_n <= 64;
  const double uneven = narrow && w.units <= p.gpu.sms ? 2 * unevenness(p.gpu, w.units) : 0;
  const double less = narrow ? 1 - 0.06 * memory_beyond_h100(p.gpu) : 1;
  return less * (1 + uneven) * waiting_ns(p.gpu, w) * p.gpu.ghz / std::ceil(w.units / p.gpu.sms);
}

}  // namespace

int sm80_warps_along_m(int tile_m, int tile_n, int warps) {
  int best = 0, least = INT32_MAX;
  for (int m = 1; m <= warps; ++m) {
    if (warps % m != 0 || tile_m % (16 * m) != 0 || tile_n % (16 * (warps / m)) != 0) continue;
    const int sides = tile_m / m + tile_n / (warps / m);
    if (sides < least) best = m, least = sides;
  }
  return best;
}

int64_t sm80_shared_bytes(const package::EpilogueProgram& epilogue, const GpuGemmConfig& c) {
  const int64_t element = types::byte_size(c.a_dtype), accumulator = types::byte_size(c.accumulator);
  const int64_t stages = c.stages * (c.tile_m + c.tile_n) * c.tile_k * element;
  const int64_t ld = c.piece_cols + (c.piece_cols % 32 == 0 || accumulator == 8 ? 8 : 24 - c.piece_cols % 32);
  const int64_t piece = c.piece_rows * ld * epilogue.split.ways * accumulator;
  const int64_t scratch = (piece_layout(epilogue, c).scratch_bytes(c.threads) + 15) / 16 * 16;
  return std::max(stages, piece + scratch) + (epilogue.split.ways > 1 ? c.tile_n * 8 : 0) + 16;
}

std::optional<Rejection> refuse_sm80(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  const auto no = [](diag::Code code, std::string text) {
    return cuda_rejection(GpuFamily::Sm80, code, std::move(text));
  };
  if (!multiplies(s)) {
    return no(diag::Code::family_dtypes, fmt::format("no mma.sync instruction multiplies {} x {} into {}",
                                                     dtype_name(s.a), dtype_name(s.b), dtype_name(s.accumulator)));
  }
  if (s.a == DType::f32 && math_of(s.math, s.a, s.b) == MathMode::Strict) {
    return no(
        diag::Code::family_dtypes,
        fmt::format("tensor cores round f32 factors to tf32, and the program's math is {}", math_mode_name(s.math)));
  }
  if (types::is_float8(s.a) && arch_number(p.gpu.arch) < 89) {
    return no(diag::Code::isa_lacks,
              fmt::format("{} has no 8-bit floating-point products; sm_89 and later have", p.gpu.arch));
  }
  if (auto nothing = nothing_to_multiply(p, no)) return nothing;
  if ((s.a_made || s.b_made) && s.a == DType::f64)
    return no(diag::Code::factor_made, "runs of 16 bytes of f64 are less than a vector of what computes them");
  if (auto apart = adjacent_nowhere(s, no)) return apart;
  if (sm80_configurations(p).empty()) {
    const auto fits = [](const GpuProblem& other) { return !sm80_configurations(other).empty(); };
    if (auto why = beyond_a_grid(p, fits)) return no(diag::Code::family_size, *std::move(why));
    auto [code, why] = no_tile(p, true);
    return no(code, std::move(why));
  }
  return std::nullopt;
}

std::vector<GpuGemmConfig> sm80_configurations(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  const int64_t element = types::byte_size(s.a), cols = p.root_cols();
  GpuGemmConfig base = config_of(s, GpuFamily::Sm80);
  base.alignment = copy_alignment(p, base.a_k_major, base.b_k_major);
  const auto operations = std::count_if(p.epilogue.phases[0].insts.begin(), p.epilogue.phases[0].insts.end(),
                                        [](const package::Inst& i) { return i.kind == package::Inst::Kind::Op; });
  const bool busy = p.ways() > 1 || !p.epilogue.reductions.empty() || operations > 6;
  std::vector<GpuGemmConfig> result;
  std::vector<Tile> tiles_of(tile_table.begin(), tile_table.end());
  if (p.ways() % 3 == 0) {
    const std::span<const Tile> more = base.b_k_major ? std::span<const Tile>(thirds) : thirds_across;
    tiles_of.insert(tiles_of.end(), more.begin(), more.end());
  }
  for (const Tile& tile : tiles_of) {
    if (tile.n % (16 * p.ways()) != 0) continue;
    const int64_t width = tile.n / p.ways();
    if (tile.m > 16 && s.m <= tile.m / 2) continue;      // half of the rows would be padding
    if (width > 32 && width >= 2 * cols + 32) continue;  // or of the columns
    for (const int64_t span : {64, 128, 256}) {          // bytes of K
      GpuGemmConfig c = base;
      c.tile_m = tile.m;
      c.tile_n = tile.n;
      c.tile_k = static_cast<int32_t>(span / element);
      c.consumers = tile.warps;
      c.threads = 32 * tile.warps;
      if (span > 64 && (s.k <= c.tile_k || c.alignment < 16)) continue;
      if (span == 256 && tile.m > 32) continue;  // few rows wait for memory: the more a stage brings, the better
      if (!row_fits(c, c.a_k_major ? span : tile.m * element)) continue;
      if (!row_fits(c, c.b_k_major ? span : tile.n * element)) continue;
      const int rows_of_warps = sm80_warps_along_m(tile.m, tile.n, tile.warps);
      if (rows_of_warps == 0) continue;
      // Registers: accumulators, addresses of short copies, and what passes through registers where none is aligned.
      const int64_t held = int64_t{tile.m} * tile.n / c.threads * (types::byte_size(c.accumulator) / 4);
      const int64_t copies = (tile.m + tile.n) * span / (c.alignment >= 4 ? c.alignment : 16) / c.threads;
      if (held > 128 || (c.alignment < 16 && held + copies * (c.alignment < 4 ? 5 : 2) > (c.alignment < 4 ? 104 : 128)))
        continue;
      // Since Hopper, products of 8-bit floats are made of several instructions with registers of their own.
      if (types::is_float8(s.a) && arch_number(p.gpu.arch) >= 90 && held > (span > 128 ? 16 : 32)) continue;
      const bool thrice = s.math == package::MathMode::Tf32x3 && s.a == DType::f32;  // each factor in two parts
      if (thrice && (held > 32 || (span == 256 && tile.m > 16))) continue;
      // 64 x 64 of a warp leave no registers for anything else.
      const bool transposed = element != 2 && !(c.a_k_major && c.b_k_major);
      if (held > 64 && (busy || transposed || element == 8 || c.alignment < 16)) continue;
      // One bit a copy in a register.
      if (std::max(tile.m, tile.n) * span / (c.alignment >= 4 ? c.alignment : 16) / c.threads > 32) continue;
      if (!split_fits(p, c) || !place(p, c)) continue;
      if (!makes_fit(p, c, held)) continue;
      // Elements by themselves are looked for within one B.
      if (s.products > 1 && s.widths.empty() && c.alignment < 4) continue;
      const double tiles = static_cast<double>(base::ceil_div<int64_t>(s.m, tile.m)) *
                           static_cast<double>(p.column_tiles(width)) * static_cast<double>(s.batch);
      if (tiles > static_cast<double>(max_blocks) || base::ceil_div<int64_t>(s.k, c.tile_k) > max_blocks) continue;
      result.push_back(c);
      const auto split = std::min<int64_t>(
          {static_cast<int64_t>(2.0 * p.gpu.sms / tiles), s.k / least_slice, int64_t{package::max_k_split}});
      constexpr int of_slices = 16;  // registers that say where slices of K begin and their sums lie
      if (split <= 1 || held > 64 || !makes_fit(p, c, held + of_slices)) continue;
      c.k_split = static_cast<int32_t>(split);
      result.push_back(c);
    }
  }
  for (GpuGemmConfig& c : result) c.combines = combines_rows(p, c);
  return result;
}

Mainloop sm80_mainloop(const GpuProblem& p, const GpuGemmConfig& c) {
  const double rate = rate_of(arch_number(p.gpu.arch), c.a_dtype, c.math);
  // Fragments of 64 x 64 a warp are read from shared memory as fast as they are multiplied; narrower ones are not.
  const double held = static_cast<double>(c.tile_m) * c.tile_n / c.consumers;
  const double efficiency = 0.85 * held / (held + 512) * (c.alignment >= 16 ? 1 : c.alignment >= 4 ? 0.85 : 0.35);
  const double k =
      static_cast<double>(base::ceil_div<int64_t>(base::ceil_div<int64_t>(p.shape.k, c.k_split), c.tile_k) * c.tile_k);
  const bool few = p.shape.m <= few_rows;
  Mainloop loop;
  loop.bytes = k * (c.tile_m + c.tile_n) * static_cast<double>(types::byte_size(c.a_dtype));
  loop.clocks =
      c.tile_m * static_cast<double>(c.tile_n) * k / rate / efficiency + (few ? step_clocks : 60) * k / c.tile_k;
  add_making(p, c, k, loop);
  loop.clocks = std::max(loop.clocks, settling(p, c, k));
  if (few) loop.clocks = std::max(loop.clocks, waiting_clocks(p, c, k));
  loop.memory_share = few ? 1 : 0.85;  // few rows have waited for memory
  loop.blocks_per_sm = c.consumers <= few_warps ? 2 : 1;
  loop.exposed = c.consumers <= few_warps ? 0.6 : 1;
  loop.prologue_us = few ? 3.8 : 2.8;
  loop.note = fmt::format("{} stages, {:.0f} multiply-adds a clock at {:.0f} %", c.stages, rate, 100 * efficiency);
  return loop;
}

}  // namespace codetta::plan
