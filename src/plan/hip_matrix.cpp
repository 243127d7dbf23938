// SPDX-License-Identifier: Apache-2.0
// What the matrix families of AMD's GPUs share (device/hip/kernels/product.h): refusals, configurations, main loop.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/families_hip.hpp"
#include "plan/making.hpp"
#include "plan/refusals.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr int64_t hip_steps = INT32_MAX;  // of blocks along K
constexpr int64_t hip_slice = 256;        // least steps of K

// For columns in three parts (queries, keys and values): few rows of a width that three divides.
constexpr std::array hip_thirds{HipTile{32, 192, 4}, HipTile{16, 192, 4}};

int64_t times_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Bytes, at most 16, that every row of the factors begins at a multiple of; 1 where it is less than 4.
int32_t rows_alignment(const GpuProblem& p, bool a_k_major, bool b_k_major) {
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
  // Parts of a split begin where a unit may.
  if (p.ways() > 1 && !b_k_major) meet(std::max<int64_t>(p.chunk(), 1) * element);
  return alignment < 4 ? 1 : alignment;
}

// Units along N bring neighbouring columns; along K any column has its own.
bool chunks_fit(const GpuProblem& p, const GpuGemmConfig& c) {
  if (p.ways() == 1 || c.b_k_major) return true;
  const int64_t chunk = p.chunk();
  return chunk > 0 && (chunk % (16 / types::byte_size(c.b_dtype)) == 0 || p.one_chunk());
}

// Fills pieces and LDS; false where they are more than a block has.
bool place_in_lds(const GpuProblem& p, GpuGemmConfig& c) {
  take_whole_pieces(p, c);
  while (hip_shared_bytes(p.epilogue, c) > lds_limit && c.piece_rows % 32 == 0) c.piece_rows /= 2;
  c.shared_bytes = static_cast<int32_t>(hip_shared_bytes(p.epilogue, c));
  return c.shared_bytes <= lds_limit;
}

double rate_of(const HipArchitecture& arch, DType factors) {
  if (factors == DType::f64) return arch.matrix_f64;
  if (factors == DType::f32) return arch.matrix_f32;
  return types::byte_size(factors) == 1 ? arch.matrix_8 : arch.matrix_16;
}

// Legal configurations; the least LDS that any of the others would have needed.
std::vector<GpuGemmConfig> all_configurations(const HipMatrixFamily& family, const GpuProblem& p, int64_t& least) {
  const GemmShape& s = p.shape;
  const HipArchitecture& arch = *find_hip(p.gpu.arch);
  const int64_t element = types::byte_size(s.a), cols = p.root_cols();
  GpuGemmConfig base = config_of(s, family.family);
  // Vectors of made factors fill 16 bytes.
  base.lanes = (s.a_made || s.b_made) && element == 8 ? 2 : hip_lanes(p.epilogue);
  base.stages = 2;
  base.alignment = rows_alignment(p, base.a_k_major, base.b_k_major);
  least = INT64_MAX;
  std::vector<GpuGemmConfig> result;
  std::vector<HipTile> tiles_of(family.tiles.begin(), family.tiles.end());
  if (p.ways() % 3 == 0) tiles_of.insert(tiles_of.end(), hip_thirds.begin(), hip_thirds.end());
  for (const HipTile& tile : tiles_of) {
    if (tile.n % (16 * p.ways()) != 0) continue;
    const int64_t width = tile.n / p.ways();
    if (tile.m > 16 && s.m <= tile.m / 2) continue;      // half of the rows would be padding
    if (width > 32 && width >= 2 * cols + 32) continue;  // or of the columns
    for (const int64_t span : {64, 128}) {               // bytes of K
      GpuGemmConfig c = base;
      c.tile_m = tile.m;
      c.tile_n = tile.n;
      c.tile_k = static_cast<int32_t>(span / element);
      c.consumers = tile.waves;
      c.threads = arch.wave * tile.waves;
      if (span > 64 && s.k <= c.tile_k) continue;
      if (sm80_warps_along_m(tile.m, tile.n, tile.waves) == 0 || span % family.step_bytes(arch, element) != 0) continue;
      if (hip_registers(family, arch, c, p) > arch.registers) continue;
      if (!chunks_fit(p, c)) continue;
      if (!place_in_lds(p, c)) {
        least = std::min<int64_t>(least, c.shared_bytes);
        continue;
      }
      const double tiles = static_cast<double>(times_up(s.m, tile.m)) * static_cast<double>(p.column_tiles(width)) *
                           static_cast<double>(s.batch);
      if (tiles * c.threads > static_cast<double>(hip_grid_threads) || times_up(s.k, c.tile_k) > hip_steps) continue;
      result.push_back(c);
      const auto split = std::min<int64_t>(
          {static_cast<int64_t>(2.0 * p.gpu.sms / tiles), s.k / hip_slice, int64_t{package::max_k_split}});
      if (split <= 1 || tile.m * tile.n > 64 * c.threads) continue;
      c.k_split = static_cast<int32_t>(split);
      result.push_back(c);
    }
  }
  return result;
}

}  // namespace

const HipMatrixFamily& hip_matrix_family(GpuFamily family) {
  return family == GpuFamily::Mfma ? mfma_family() : wmma_family();
}

int64_t hip_shared_bytes(const package::EpilogueProgram& epilogue, const GpuGemmConfig& c) {
  const int64_t element = types::byte_size(c.a_dtype), accumulator = types::byte_size(c.accumulator);
  const int64_t stages = 2 * (c.tile_m + c.tile_n) * (c.tile_k * element + 16);
  const int64_t ld = c.piece_cols + hip_matrix_family(c.family).piece_pad;
  const int64_t piece = c.piece_rows * ld * epilogue.split.ways * accumulator;
  const int64_t scratch = (piece_layout(epilogue, c).scratch_bytes(c.threads) + 15) / 16 * 16;
  return std::max(stages, piece + scratch) + 16;
}

int hip_registers(const HipMatrixFamily& family, const HipArchitecture& arch, const GpuGemmConfig& c,
                  const GpuProblem& problem) {
  const GemmShape& shape = problem.shape;
  const int64_t element = types::byte_size(c.a_dtype), words = family.lane_words(arch, element);
  const int rows = sm80_warps_along_m(c.tile_m, c.tile_n, c.consumers);
  if (rows == 0) return INT32_MAX;
  const int64_t held = int64_t{c.tile_m} * c.tile_n / c.threads * (types::byte_size(c.accumulator) / 4);
  // The compiler reads fragments up to two steps ahead.
  const int64_t steps = std::min<int64_t>(c.tile_k * element / family.step_bytes(arch, element), 3);
  const int64_t fragments = (c.tile_m / rows + c.tile_n / (c.consumers / rows)) / 16 * words * steps;
  // Units on their way, half as much again for edges, and for each its address.
  const auto loads = [&](int64_t extent, bool k_major, bool made, double read_bytes) {
    const int64_t depth = k_major ? 1 : 8 / element, unit = 4 * depth;
    const int64_t units = times_up(extent * c.tile_k * element / (16 * depth), c.threads);
    if (!made) return units * (6 * depth + 2);
    // What a unit is made of, and the unit as it goes to LDS.
    const double read = static_cast<double>(unit) * read_bytes / static_cast<double>(element);
    return units * (static_cast<int64_t>(read) + 2) + 2 * unit;
  };
  // Bytes that don't lie along K are turned 8 rows at a time, and of long rows several such patches at once; those that
  // are made, all of a patch at once.
  const bool made_across = (shape.a_made && !c.a_k_major) || (shape.b_made && !c.b_k_major);
  const bool long_rows = c.tile_k > 64 && !(c.a_k_major && c.b_k_major);
  const int64_t turned = element == 1 && (long_rows || made_across) ? 64 : 0;
  // Pairs of registers are copied on their way from one file to the other.
  const int64_t copied = types::byte_size(c.accumulator) == 8 ? held / 2 : 0;
  using Which = package::FactorProgram::Which;
  const HeldRows alone{1, 1, c.lanes};
  return static_cast<int>(held + copied + fragments +
                          loads(c.tile_m, c.a_k_major, shape.a_made, held_bytes(problem.epilogue, Which::A, alone)) +
                          loads(c.tile_n, c.b_k_major, shape.b_made, held_bytes(problem.epilogue, Which::B, alone)) +
                          turned + 43);
}

std::optional<Rejection> refuse_hip_matrix(const HipMatrixFamily& family, const GpuProblem& p) {
  const GemmShape& s = p.shape;
  const auto no = [&](diag::Code code, std::string text) {
    return hip_rejection(family.family, code, std::move(text));
  };
  const HipArchitecture& arch = *find_hip(p.gpu.arch);
  if (auto why = family.no_instruction(s, arch)) return no(diag::Code::family_dtypes, *std::move(why));
  if (auto nothing = nothing_to_multiply(p, no)) return nothing;
  if (auto apart = adjacent_nowhere(s, no)) return apart;
  int64_t least = 0;
  if (!all_configurations(family, p, least).empty()) return std::nullopt;
  const auto fits = [&](const GpuProblem& other) { return !hip_matrix_configurations(family, other).empty(); };
  if (auto why = beyond_a_grid(p, fits)) return no(diag::Code::family_size, *std::move(why));
  if (least != INT64_MAX) {
    return no(diag::Code::family_size,
              fmt::format(
                  "the accumulators of a piece in {} parts and what reductions share need {} bytes of LDS, and a "
                  "block has {}",
                  p.ways(), least, lds_limit))
        .limited("bytes of LDS", least, lds_limit);
  }
  auto [code, why] = no_tile(p, true);
  return no(code, std::move(why));
}

std::vector<GpuGemmConfig> hip_matrix_configurations(const HipMatrixFamily& family, const GpuProblem& p) {
  int64_t least = 0;
  return all_configurations(family, p, least);
}

Mainloop hip_matrix_mainloop(const GpuProblem& p, const GpuGemmConfig& c) {
  const HipMatrixFamily& family = hip_matrix_family(c.family);
  const HipArchitecture& arch = *find_hip(p.gpu.arch);
  const double rate = rate_of(arch, c.a_dtype), element = static_cast<double>(types::byte_size(c.a_dtype));
  const int rows = sm80_warps_along_m(c.tile_m, c.tile_n, c.consumers);
  const double k = static_cast<double>(times_up(times_up(p.shape.k, c.k_split), c.tile_k) * c.tile_k);
  // Fragments come from LDS at 128 bytes a clock; on gfx11 each of 16-bit elements twice.
  const double sides = static_cast<double>(c.tile_m / rows + c.tile_n / (c.consumers / rows)) * c.consumers;
  const double repeats = 4.0 * family.lane_words(arch, types::byte_size(c.a_dtype)) * (arch.wave / 16.0) /
                         family.step_bytes(arch, types::byte_size(c.a_dtype));
  const double read = sides * k * element * repeats / 128;
  const double multiplied = c.tile_m * static_cast<double>(c.tile_n) * k / rate;
  // Units of 16 bytes cost a few instructions of every wave, and some more where they are not aligned.
  const double brought = (p.shape.a_made ? 0 : c.tile_m) + (p.shape.b_made ? 0 : c.tile_n);
  const double units = brought * k * element / 16 / arch.wave;
  const double way = c.alignment >= 16 ? 8 : 14;
  constexpr double efficiency = 0.75;
  Mainloop loop;
  loop.bytes = k * (c.tile_m + c.tile_n) * element;
  loop.clocks = std::max(multiplied, read) / efficiency + units * way / 4 + 120 * k / c.tile_k;
  add_making(p, c, k, loop);
  loop.memory_share = 0.8;
  const int by_lds = static_cast<int>(lds_limit / std::max(c.shared_bytes, 1));
  const int by_registers = 4 * arch.registers / std::max(hip_registers(family, arch, c, p), 1) / c.consumers;
  loop.blocks_per_sm = std::clamp(std::min(by_lds, by_registers), 1, 4);
  loop.exposed = loop.blocks_per_sm > 1 ? 0.6 : 1;
  loop.prologue_us = 4;
  loop.note = fmt::format("{:.0f} multiply-adds a clock at {:.0f} %{}", rate, 100 * efficiency,
                          read > multiplied ? ", held up by reads of LDS" : "");
  return loop;
}

}  // namespace codetta::plan
