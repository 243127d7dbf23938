// SPDX-License-Identifier: Apache-2.0
// The sm_100a family: copy engine, tcgen05, accumulators in tensor memory, pairs of blocks, persistent
// (device/cuda/kernels/sm100.h); an A in memory, or made, and one B or several. It has not run on a GPU: what it costs
// is made of data sheets.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checked.hpp"
#include "device/cuda/tcgen05_bits.h"
#include "plan/copy_engine.hpp"
#include "plan/families_cuda.hpp"
#include "plan/refusals.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

namespace bits = codetta::gpu::ptx;

constexpr int span_bytes = 128;  // of K in a stage: one swizzle span
constexpr int block_rows = 128;  // of a block's tile: the lanes of tensor memory
constexpr int max_stages = 12;
constexpr int64_t least_slice = 512;  // steps of K, below which a slice costs more than it saves
constexpr int64_t max_grid = INT32_MAX;
constexpr int64_t shared_limit = 232448;  // bytes of a block, CUDA programming guide, compute capabilities 10.x

// Blocks that work on one product, and columns of the tile: first, last, step.
struct Tiles {
  int32_t blocks, first, last, step;
};
constexpr std::array tile_table{Tiles{2, 64, 256, 32}, Tiles{1, 32, 256, 32}, Tiles{1, 16, 16, 16}};

bool multiplies(const GemmShape& s) {
  if (types::is_byte(s.a)) return types::is_byte(s.b) && s.accumulator == DType::i32;
  if (s.accumulator != DType::f32) return false;
  if (types::is_float8(s.a)) return types::is_float8(s.b);
  return s.a == s.b && (s.a == DType::bf16 || s.a == DType::f16 || s.a == DType::f32);
}

// Whether boxes of B hold columns of one part of the split each.
bool split_fits(const GpuProblem& p, const GpuGemmConfig& c, const Sm100Shape& shape) {
  const int64_t ways = p.ways(), element = types::byte_size(c.b_dtype), width = c.tile_n / ways;
  if (ways == 1) return true;
  if (ways % c.cluster_m != 0) return false;
  const int64_t chunk = p.chunk();
  if (!c.b_k_major && (width % (span_bytes / element) != 0 || chunk * element % map_alignment != 0)) return false;
  return p.one_chunk() || chunk % shape.b_box_cols == 0;
}

// Root columns of a piece, which the tile holds a whole number of; 0: only small ones fit.
int32_t piece_of(int32_t width, int32_t most) {
  for (const int32_t piece : {64, 32, 16}) {
    if (piece <= most && width % piece == 0) return piece >= std::min(width, 32) ? piece : 0;
  }
  return 0;
}

// Fills piece, stages and shared memory; false if not even two stages fit.
bool place(const GpuProblem& p, GpuGemmConfig& c) {
  const auto width = static_cast<int32_t>(c.tile_n / p.ways());
  for (const int32_t most : {64, 32}) {
    // A made A has lanes of its own, and rows of more columns more.
    c.whole_rows = most == 64 && holds_rows(p, width) && (!p.shape.a_made || width <= 32 * c.lanes);
    c.piece_cols = c.whole_rows ? width : piece_of(width, most);
    if (c.piece_cols == 0) return false;
    c.stages = 1;
    const Sm100Shape one = sm100_shape(p.epilogue, c);
    const int64_t of_stage = one.stage_bytes + one.barrier_bytes;
    const int64_t room = std::min(shared_limit, p.gpu.shared_per_block) - (one.shared_bytes - of_stage);
    const int64_t stages = room / of_stage;
    c.stages = static_cast<int32_t>(std::min<int64_t>(stages, max_stages));
    if (c.stages >= 4 || (c.stages >= 2 && most == 32)) {
      c.shared_bytes = static_cast<int32_t>(sm100_shape(p.epilogue, c).shared_bytes);
      return true;
    }
  }
  return false;
}

}  // namespace

Sm100Shape sm100_shape(const package::EpilogueProgram& epilogue, const GpuGemmConfig& c) {
  const int ways = epilogue.split.ways, block_n = c.tile_n / c.cluster_m;
  const int span = static_cast<int>(span_bytes / types::byte_size(c.a_dtype));
  const int parts = ways == 1 ? 1 : std::max(ways / c.cluster_m, 1);
  Sm100Shape s;
  s.a_boxes = c.a_k_major ? 1 : block_rows / span;
  s.b_boxes = c.b_k_major ? parts : parts * ((block_n / parts + span - 1) / span);
  s.b_box_cols = c.b_k_major ? block_n / parts : span;
  const int64_t b_bytes = c.b_k_major ? int64_t{block_n} * span_bytes : s.b_boxes * c.tile_k * span_bytes;
  s.stage_bytes = int64_t{block_rows} * span_bytes + b_bytes;
  s.piece_bytes = int64_t{block_rows} * (c.piece_cols + 4) * 4 * ways;
  s.scratch_bytes = (piece_layout(epilogue, c).scratch_bytes(block_rows) + 127) / 128 * 128;
  // Behind stages and pieces: barriers of stages, of two sets of accumulators and three answers; answers, at a multiple
  // of 16; two words.
  s.barrier_bytes = epilogue.makes_a() ? 24 : 16;
  const int64_t barriers = (c.stages * s.barrier_bytes + 15) / 16 * 16 + 16 * (2 + 3);
  s.shared_bytes = c.stages * s.stage_bytes + c.consumers * (s.piece_bytes + s.scratch_bytes) + barriers + 16 * 3 + 16;
  s.tensor_columns = static_cast<int>(bits::allocated_columns(2 * static_cast<uint32_t>(c.tile_n)));
  return s;
}

std::optional<Rejection> refuse_sm100(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  const auto no = [](diag::Code code, std::string text) {
    return cuda_rejection(GpuFamily::Sm100, code, std::move(text));
  };
  if (p.gpu.arch != "sm_100a" && p.gpu.arch != "sm_103a") {
    return no(diag::Code::isa_lacks,
              fmt::format("its tcgen05 code is made for sm_100a and sm_103a, and this is {}", p.gpu.arch));
  }
  if (!multiplies(s)) {
    return no(diag::Code::family_dtypes,
              fmt::format("multiplies bf16, f16, f32 (as tf32) and 8-bit floats into f32 and 8-bit integers into i32, "
                          "and this is {} x {} into {}",
                          dtype_name(s.a), dtype_name(s.b), dtype_name(s.accumulator)));
  }
  if (types::is_byte(s.a) && p.gpu.arch != "sm_100a") {
    return no(diag::Code::isa_lacks,
              fmt::format("8-bit integer products (kind::i8) belong to sm_100a, and {} has none", p.gpu.arch));
  }
  if (s.a == DType::f32 && s.math != MathMode::Tf32) {
    return no(diag::Code::family_dtypes,
              fmt::format("tcgen05 cuts f32 factors to tf32, and the program's math is {}", math_mode_name(s.math)));
  }
  if (auto refused = refuse_copied(p, GpuFamily::Sm100)) return refused;
  return sm100_configurations(p).empty() ? std::optional(no_tile_for_split(p, GpuFamily::Sm100)) : std::nullopt;
}

std::vector<GpuGemmConfig> sm100_configurations(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  const auto factors = factors_of(p);
  const int64_t element = types::byte_size(s.a), sms = p.gpu.sms, cols = p.widest_cols();
  GpuGemmConfig base = config_of(s, GpuFamily::Sm100);
  base.math = s.a == DType::f32 ? s.math : MathMode::Strict;
  // f32 along M and N would need another swizzle than one of whole 16 bytes.
  const Reading a = reading_of(factors[0], element, element == 4),
                b = reading_of_b(p, factors[1], element, element == 4);
  base.a_k_major = a.k_major;
  base.b_k_major = b.k_major;
  base.pack_a = a.packed;
  base.pack_b = b.packed;
  if (s.a_made) {  // vectors of two are the words in which it is made (device/cuda/kernels/make_rows.h)
    if (base.pack_a || !base.a_k_major) return {};
    base.lanes = 2;
  }
  if (b.packed && s.products > 1) return {};  // one B is copied
  base.tile_m = base.piece_rows = block_rows;
  base.tile_k = static_cast<int32_t>(span_bytes / element);
  base.persistent = true;
  base.alignment = map_alignment;
  std::vector<GpuGemmConfig> result;
  for (const Tiles& row : tile_table) {
    const int64_t tiles_m = base::ceil_div<int64_t>(s.m, block_rows);
    if (row.blocks > tiles_m) continue;
    for (int32_t tile_n = row.first; tile_n <= row.last; tile_n += row.step) {
      if (tile_n % (16 * p.ways()) != 0) continue;
      const int64_t width = tile_n / p.ways();
      if (width >= cols + 32 && tile_n > row.first) continue;  // a narrower tile holds all columns
      if (tile_n < 32 && cols > 16) continue;
      const double tiles = static_cast<double>(base::ceil_div<int64_t>(tiles_m, row.blocks) * row.blocks) *
                           static_cast<double>(p.column_tiles(width) * s.batch);
      if (tiles * package::max_k_split >= 4e9) continue;  // units of work are counted in 32 bits
      for (const int32_t consumers : {1, 2}) {
        GpuGemmConfig c = base;
        c.tile_n = tile_n;
        c.consumers = consumers;
        c.cluster_m = row.blocks;
        c.threads = 128 * (1 + consumers + (s.a_made ? 1 : 0));
        c.group = raster_group(c);
        if (!place(p, c) || (s.a_made && piece_layout(p.epilogue, c).lanes != base.lanes)) continue;
        if (!split_fits(p, c, sm100_shape(p.epilogue, c))) continue;
        if (consumers > 1 && width < 2 * c.piece_cols) continue;  // the second would have nothing to finish
        result.push_back(c);
        if (tiles > static_cast<double>(sms) && tiles <= static_cast<double>(max_grid)) {
          GpuGemmConfig dynamic = c;  // launched whole, and what has not begun is taken over
          dynamic.persistent = false;
          result.push_back(dynamic);
        }
        // Slices of K where tiles leave multiprocessors idle.
        if (row.blocks > 1) continue;
        const auto split = std::min<int64_t>(
            {static_cast<int64_t>(static_cast<double>(sms) / tiles), s.k / least_slice, int64_t{package::max_k_split}});
        if (split <= 1) continue;
        c.k_split = static_cast<int32_t>(split);
        result.push_back(c);
      }
    }
  }
  return result;
}

Mainloop sm100_mainloop(const GpuProblem& p, const GpuGemmConfig& c) {
  const Sm100Shape shape = sm100_shape(p.epilogue, c);
  constexpr double efficiency = 0.95;
  const auto blocks =
      static_cast<double>(base::ceil_div<int64_t>(base::ceil_div<int64_t>(p.shape.k, c.k_split), c.tile_k));
  // 128 x n x 32 bytes of K take n / 2 clocks at the data sheet's rate (2250 TFLOP/s of bf16 on 148 multiprocessors),
  // and longer where reading the factors and copying the next ones takes more than 128 bytes of shared memory a clock.
  const double moved = static_cast<double>(shape.stage_bytes) / 4 * 2, step = std::max(c.tile_n / 2.0, moved / 128);
  Mainloop loop;
  loop.bytes = blocks * static_cast<double>(shape.stage_bytes);
  loop.clocks = blocks * 4 * step / efficiency;
  if (p.shape.a_made) {
    // A warpgroup computes A while others are multiplied, at the share of the issue slots that one takes on sm_90a.
    constexpr double busy = 0.48;
    Mainloop making;
    add_making(p, c, blocks * c.tile_k, making);
    loop.clocks = std::max(loop.clocks, making.clocks / busy);
  }
  loop.exposed = c.consumers > 1 ? 0.15 : 0.25;
  // Units that the busiest block would have too many are taken over by others; a fixed order has no such way.
  loop.prologue_us = 3.5 + (c.cluster_m > 1 ? 0.5 : 0) + (c.persistent ? 0.1 : 0);
  loop.note = fmt::format(
      "{} stages of {} x {} x {} in {:.0f} clocks a step of 32 bytes, from data sheets: this family has not run on a "
      "GPU",
      c.stages, block_rows * c.cluster_m, c.tile_n, c.tile_k, step);
  return loop;
}

}  // namespace codetta::plan
