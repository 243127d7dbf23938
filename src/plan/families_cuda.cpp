// SPDX-License-Identifier: Apache-2.0
// The table of CUDA families, the SIMT family, and what all families share.
#include "plan/families_cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "base/checked.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

bool everywhere(const GpuProblem&) { return true; }
bool since_ampere(const GpuProblem& p) { return arch_number(p.gpu.arch) >= 80; }
bool few_rows(const GpuProblem& p) { return since_ampere(p) && p.shape.m <= 32; }
bool on_hopper(const GpuProblem& p) { return arch_number(p.gpu.arch) == 90; }
// Of data centers: sm_100 and sm_103; later ones have other instructions or none of tcgen05.
bool on_blackwell(const GpuProblem& p) { return arch_number(p.gpu.arch) >= 100 && arch_number(p.gpu.arch) < 120; }

constexpr std::array families{
    GpuFamilyInfo{GpuFamily::Simt, everywhere, refuse_simt, simt_configurations, simt_mainloop},
    GpuFamilyInfo{GpuFamily::Sm80, since_ampere, refuse_sm80, sm80_configurations, sm80_mainloop},
    GpuFamilyInfo{GpuFamily::Sm90, on_hopper, refuse_sm90, sm90_configurations, sm90_mainloop},
    GpuFamilyInfo{GpuFamily::Stream, few_rows, refuse_stream, stream_configurations, stream_mainloop},
    GpuFamilyInfo{GpuFamily::Sm100, on_blackwell, refuse_sm100, sm100_configurations, sm100_mainloop},
};

// --- SIMT ------------------------------------------------------------------------------------------------------------

constexpr int64_t static_shared = 48 << 10;  // of a block, what every architecture gives without asking
constexpr int64_t max_grid = INT32_MAX;      // blocks along x

int64_t simt_blocks(const GpuProblem& p, const GpuGemmConfig& c) {
  const auto tiles = static_cast<double>(base::ceil_div<int64_t>(std::max<int64_t>(p.shape.m, 1), c.tile_m)) *
                     static_cast<double>(std::max<int64_t>(p.column_tiles(c.tile_n / p.ways()), 1)) *
                     static_cast<double>(std::max<int64_t>(p.shape.batch, 1)) * c.k_split;
  return tiles > 1e18 ? INT64_MAX : static_cast<int64_t>(tiles);
}

GpuGemmConfig simt_base(const GpuProblem& p, int tile_m, int width) {
  GpuGemmConfig c;
  c.family = GpuFamily::Simt;
  c.a_dtype = p.shape.a;
  c.b_dtype = p.shape.b;
  c.accumulator = p.shape.accumulator;
  // Of made factors: which way they are computed. Of others neighbouring threads take elements in this order.
  const auto along_k = [](int64_t k, int64_t other) { return k == 1 || std::abs(k) <= std::abs(other); };
  c.a_k_major = along_k(p.shape.a_k_stride, p.shape.a_row_stride);
  c.b_k_major = along_k(p.shape.b_k_stride, p.shape.b_col_stride);
  c.tile_m = c.piece_rows = tile_m;
  c.tile_n = static_cast<int32_t>(width * p.ways());
  c.piece_cols = width;
  // At most 8 elements of a factor in a thread's registers on their way: more of fp8 spill.
  c.tile_k = std::min(c.tile_m, c.tile_n) < 32 ? 8 : 16;
  c.threads = static_cast<int32_t>(base::ceil_div<int64_t>(int64_t{tile_m} / 4 * (c.tile_n / 4), 32) * 32);
  c.whole_rows = holds_rows(p, c.piece_cols);
  return c;
}

}  // namespace

int64_t simt_shared_bytes(const GpuProblem& p, const GpuGemmConfig& c) {
  const int64_t element = types::byte_size(c.accumulator), pad = 16 / element;
  const int64_t operands = c.tile_k * (c.tile_m + c.tile_n + 2 * pad) * element;
  const int64_t piece = c.piece_rows * (c.tile_n + pad) * element;
  return std::max(operands, piece) + piece_layout(p.epilogue, c).scratch_bytes(c.threads) + 16;
}

std::span<const GpuFamilyInfo> cuda_families() { return families; }

Rejection cuda_rejection(GpuFamily family, diag::Code code, std::string text) {
  return {static_cast<uint16_t>(code), fmt::format("cuda_{}", package::name_of(family)), std::move(text), {}};
}

bool combines_rows(const GpuProblem& p, const GpuGemmConfig& c) {
  constexpr int64_t most_combined_rows =
      32;  // of 128 one block takes longer than a kernel behind (an H100, bench/NOTES.md)
  const std::vector<package::Reduction>& reductions = p.epilogue.reductions;
  const auto first = [](const package::Reduction& r) { return r.phase == 0; };
  return !c.whole_rows && std::any_of(reductions.begin(), reductions.end(), first) &&
         std::all_of(reductions.begin(), reductions.end(),
                     [&](const package::Reduction& r) { return !first(r) || r.axis == package::ReduceAxis::Row; }) &&
         p.shape.m <= most_combined_rows && p.shape.batch <= most_combined_rows / std::max<int64_t>(p.shape.m, 1) &&
         !c.stream_k && !c.pingpong && (c.family != GpuFamily::Sm90 || c.consumers == 1);
}

int32_t raster_group(const GpuGemmConfig& c) {
  // Blocks that share rows of A count as one tile: 128 x 128 in pairs, 4096^3 and 12608 x 4096 x 1024, are 1 % faster
  // in groups of 16 than of 8 (an H200, bench/NOTES.md).
  const int32_t width = c.family == GpuFamily::Sm90 ? c.tile_n * c.cluster_n : c.tile_n;
  return width >= 192 ? 16 : 8;
}

std::string cuda_kernel_name(const GpuGemmConfig& c, std::string_view arch) {
  std::string name = fmt::format("cuda_{}_{}x{}x{}", package::name_of(c.family), c.tile_m, c.tile_n, c.tile_k);
  if (c.family == GpuFamily::Stream) name += fmt::format("_w{}of{}_s{}", c.consumers, c.threads / 32, c.stages);
  if (c.family == GpuFamily::Sm80 && c.consumers == 4 && c.tile_m * c.tile_n >= 128 * 128) name += "_w4";
  if (c.math == package::MathMode::Tf32) name += "_tf32";
  if (c.math == package::MathMode::Tf32x3) name += "_tf32x3";
  if (c.math == package::MathMode::Fp8FastAccumulation) name += "_fast";
  if (c.math == package::MathMode::Fp8TwoLevelAccumulation) name += "_two";
  if (c.pingpong) name += "_pp";
  if (c.family == GpuFamily::Sm90 && !c.pingpong && c.consumers > 1) name += "_coop";
  if (c.family == GpuFamily::Sm100 && c.consumers > 1) name += fmt::format("_e{}", c.consumers);
  if (c.family == GpuFamily::Sm100 && !c.persistent) name += "_clc";
  if (c.cluster_m * c.cluster_n > 1) name += fmt::format("_c{}x{}", c.cluster_m, c.cluster_n);
  if (c.k_split > 1) name += fmt::format("_k{}", c.k_split);
  if (c.from_registers) name += "_reg";
  if (c.copied) name += "_tma";
  if (c.stream_k) name += "_sk";
  if (c.family == GpuFamily::Sm90 && c.group != raster_group(c)) name += fmt::format("_g{}", c.group);
  if (c.spread_a > 1) name += fmt::format("_sa{}", c.spread_a);
  if (c.pack_a || c.pack_b) name += fmt::format("_p{}{}", c.pack_a ? "a" : "", c.pack_b ? "b" : "");
  return fmt::format("{}_{}", name, arch);
}

std::pair<diag::Code, std::string> no_tile(const GpuProblem& p, bool padding) {
  const GemmShape& s = p.shape;
  if (p.ways() > 1) {
    return {diag::Code::family_split, fmt::format("no tile holds {} parts in chunks of {} columns of this layout",
                                                  p.ways(), p.epilogue.split.chunk.to_string())};
  }
  if (padding && s.m <= 32 && s.n <= 16) {
    return {diag::Code::family_size,
            fmt::format("{} x {} would fill at most half of a tile, of which the smallest are 16 x 64 and 64 x 32", s.m,
                        s.n)};
  }
  return {diag::Code::family_size,
          fmt::format("registers and shared memory hold no tile of {} x {} x {} with this epilogue", s.m, s.n, s.k)};
}

std::optional<std::string> beyond_a_grid(const GpuProblem& p, const std::function<bool(const GpuProblem&)>& fits) {
  constexpr int64_t few = 1 << 15;
  GemmShape small = p.shape;
  small.batch = std::min<int64_t>(small.batch, 1);
  small.m = std::min(small.m, few);
  small.k = std::min(small.k, few);
  if (p.ways() == 1) small.n = std::min(small.n, few);
  if (!fits({p.epilogue, small, p.gpu})) return std::nullopt;
  return fmt::format("{} x {} x {} in {} batch items are more tiles than one grid has, or more steps of K than 2^31",
                     p.shape.m, p.shape.n, p.shape.k, p.shape.batch);
}

PieceLayout piece_layout(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config) {
  PieceLayout layout;
  layout.lanes = config.lanes;
  const bool reduces = !epilogue.reductions.empty();
  while (reduces && layout.lanes * 32 < config.piece_cols) layout.lanes *= 2;
  const int exact = (config.piece_cols + layout.lanes - 1) / layout.lanes;
  layout.across = reduces ? static_cast<int>(std::bit_ceil(static_cast<uint32_t>(exact))) : exact;
  for (const package::Reduction& r : epilogue.reductions) {
    const int state = package::values_of(r.kind) * static_cast<int>(types::byte_size(r.type));
    if (r.axis == package::ReduceAxis::Column)
      layout.scratch_per_warp = std::max(layout.scratch_per_warp, state * layout.across * layout.lanes);
  }
  if (config.whole_rows) {  // their results
    const bool warpgroup = config.family == GpuFamily::Sm90 || config.family == GpuFamily::Sm100;
    const int warps = warpgroup ? 4 : config.threads / 32;
    const auto bytes = static_cast<int>(epilogue.reductions.size()) * result_bytes(epilogue) * config.piece_rows;
    layout.scratch_per_warp = (bytes + 16 * warps - 1) / (16 * warps) * 16;
  }
  return layout;
}

int result_bytes(const package::EpilogueProgram& epilogue) {
  const auto wide = [](const package::Reduction& r) { return types::byte_size(r.type) == 8; };
  return std::any_of(epilogue.reductions.begin(), epilogue.reductions.end(), wide) ? 8 : 4;
}

bool holds_rows(const GpuProblem& p, int32_t piece_cols) {
  constexpr int64_t most = 128;  // a warp's, four a lane
  const std::vector<package::Phase>& phases = p.epilogue.phases;
  const int64_t cols = p.root_cols();
  if (phases.size() == 1 || p.shape.any_n || cols < 1 || cols > piece_cols || piece_cols > most) return false;
  if (!p.gpu.arch.starts_with("sm_")) return false;
  const auto of_rows = [&](const package::Phase& phase) {
    // What is stored once for all rows is owed where there are none, too, and there is no product then.
    const bool stores_rows = std::all_of(phase.stores.begin(), phase.stores.end(), [&](const package::Store& store) {
      const auto& terms = p.epilogue.operands[store.operand].terms;
      return std::any_of(terms.begin(), terms.end(), [](const auto& t) { return t.axis == package::Axis::Row; });
    });
    return phase.scope == package::Scope::RowPanel && stores_rows;
  };
  return std::all_of(phases.begin() + 1, phases.end(), of_rows) &&
         std::all_of(p.epilogue.reductions.begin(), p.epilogue.reductions.end(),
                     [](const package::Reduction& r) { return r.axis == package::ReduceAxis::Row; });
}

std::optional<Rejection> refuse_simt(const GpuProblem& p) {
  const std::vector<GpuGemmConfig> configs = simt_configurations(p);
  if (!configs.empty()) return std::nullopt;
  return cuda_rejection(GpuFamily::Simt, diag::Code::family_size,
                        fmt::format("{} x {} in {} batch items are more than the {} tiles that one grid has", p.shape.m,
                                    p.shape.n, p.shape.batch, max_grid));
}

std::vector<GpuGemmConfig> simt_configurations(const GpuProblem& p) { return simt_configurations_within(p, INT64_MAX); }

std::vector<GpuGemmConfig> simt_configurations_within(const GpuProblem& p, int64_t grid_threads) {
  // Rows of a tile, root columns of it. The first legal one that wastes least comes from the cost model.
  static constexpr std::array<std::pair<int, int>, 10> tiles{
      {{64, 64}, {64, 32}, {32, 64}, {32, 32}, {16, 64}, {64, 16}, {16, 32}, {32, 16}, {16, 16}, {16, 8}}};
  std::vector<GpuGemmConfig> result;
  const auto add = [&](GpuGemmConfig c) {
    while (c.piece_rows > 4 && simt_shared_bytes(p, c) > static_shared) c.piece_rows /= 2;
    const int most_threads = p.shape.products > 1 ? 256 : 512;  // each column of several B has a stride in registers
    if (c.piece_rows % 4 == 0 && c.threads <= most_threads && simt_shared_bytes(p, c) <= static_shared &&
        (p.empty() || simt_blocks(p, c) <= std::min(max_grid, grid_threads / c.threads)))  // an empty one has no grid
      result.push_back(c);
  };
  for (const auto& [rows, width] : tiles) {
    if (int64_t{width} * p.ways() > 256) continue;
    GpuGemmConfig c = simt_base(p, rows, width);
    const bool exact = rows * c.tile_n / 16 == c.threads && 16 * c.tile_k % c.tile_n == 0;
    if (p.ways() == 1 && !exact) continue;
    add(c);
    // Slices of K where there are few tiles: each block of at least 256 steps.
    const int64_t blocks = simt_blocks(p, c);
    const int64_t split = std::min<int64_t>(
        {2 * p.gpu.sms / std::max<int64_t>(blocks, 1), p.shape.k / 256, int64_t{package::max_k_split}});
    if (exact && split > 1 && !p.empty()) {
      c.k_split = static_cast<int32_t>(split);
      add(c);
    }
  }
  if (result.empty()) add(simt_base(p, 16, 4));  // columns in as many parts as the language allows
  return result;
}

// Limits that are close to each other are both felt: their times meet as the third root of their cubes' sum. 8 x 4096 x
// 14336 in bf16 on an H100, B along K, without what is not the loop, has 2.2 TB/s with 2 MiB in flight, 2.75 with 4 and
// 2.85 with 8 (bench/NOTES.md).
double waiting_ns(const GpuFacts& gpu, const Waiting& w) {
  const auto wave = [&](double units) {
    double cubes = 0;
    const double busy = std::min(units, static_cast<double>(gpu.sms));
    for (const double ns : {units * w.memory_bytes / w.memory_rate, w.bytes / w.in_flight * w.latency_ns,
                            units * w.bytes / (busy * w.own_rate), units * w.read_bytes / w.l2_rate})
      cubes += ns * ns * ns;
    return std::cbrt(cubes);
  };
  const double waves = std::floor(w.units / w.slots), rest = w.units - waves * w.slots;
  return waves * wave(w.slots) + (rest > 0 ? wave(rest) : 0);
}

void add_making(const GpuProblem& p, const GpuGemmConfig& c, double k, Mainloop& loop) {
  const GemmShape& s = p.shape;
  const bool in_registers = c.family == GpuFamily::Sm90 || c.family == GpuFamily::Sm100;
  const auto add = [&](bool made, double rows, double clocks, double read_bytes, DType dtype) {
    if (!made) return;
    // Addresses, conversions to and from registers, and the way to shared memory beside the operations themselves;
    // sm_90a's rows stay in registers, and their exponentials and quotients have fewer instructions: 95 for 8 elements.
    // So have sm_100a's, which are taken to cost the same. Vectors have two elements there, and what is the same in a
    // row is computed for each: taken as shared by four, gate and up of 512 rows made a norm's A themselves
    // (bench/NOTES.md).
    constexpr double lanes = 128;
    loop.clocks += rows * k * (clocks + (in_registers ? 2 : 4)) / lanes;
    loop.bytes += rows * k * (read_bytes - static_cast<double>(types::byte_size(dtype)));
  };
  add(s.a_made, c.tile_m, in_registers ? std::max(s.a_clocks, s.a_unshared_clocks) : s.a_clocks, s.a_read_bytes,
      c.a_dtype);
  add(s.b_made, c.tile_n, s.b_clocks, s.b_read_bytes, c.b_dtype);
}

Mainloop simt_mainloop(const GpuProblem& p, const GpuGemmConfig& c) {
  const int arch = arch_number(p.gpu.arch);
  const bool full_f64 = arch == 80 || arch == 90 || arch == 100;
  double lanes = 128;
  if (c.accumulator == DType::f64) lanes = full_f64 ? 64 : 2;
  if (c.accumulator == DType::i32) lanes = 64;
  if (c.accumulator == DType::i64) lanes = 16;  // four instructions each
  // 4 x 4 accumulators a thread: 8 loads from shared memory for 16 multiply-adds.
  constexpr double efficiency = 0.4;
  const double k =
      static_cast<double>(base::ceil_div<int64_t>(base::ceil_div<int64_t>(p.shape.k, c.k_split), c.tile_k) * c.tile_k);
  Mainloop loop;
  loop.clocks = c.tile_m * c.tile_n * k / lanes / efficiency + 40 * k / c.tile_k;
  loop.bytes = k * static_cast<double>(c.tile_m * types::byte_size(c.a_dtype) + c.tile_n * types::byte_size(c.b_dtype));
  add_making(p, c, k, loop);
  loop.blocks_per_sm = std::clamp(1024 / c.threads, 1, 8);
  loop.exposed = 0.5;  // other blocks of the multiprocessor multiply meanwhile
  loop.prologue_us = 2.5;
  loop.note = fmt::format("{} multiply-adds a clock at {:.0f} %", lanes, 100 * efficiency);
  return loop;
}

}  // namespace codetta::plan
