// SPDX-License-Identifier: Apache-2.0
// The streaming family for few rows (device/cuda/kernels/stream.h): B passes through registers once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked.hpp"
#include "plan/beyond_h100.hpp"
#include "plan/families_cuda.hpp"
#include "plan/making.hpp"
#include "plan/refusals.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr int64_t most_rows = 32;
constexpr int64_t load_bytes = 16;    // of B; its rows and addresses are multiples of it
constexpr int64_t least_slice = 512;  // steps of K
constexpr int64_t max_blocks = INT32_MAX;

// How long loads are on their way: across K a load brings short runs of several rows. The shares of the rates of memory
// and, while all blocks read the same rows of A, of L2; all as waiting_ns() has them meet (H100, bench/NOTES.md).
constexpr double across_latency_ns = 1280, along_latency_ns = 780, memory_share = 1.08, l2_share = 0.6;
// Bytes/ns that one multiprocessor brings when others have none to bring (H200, measured).
constexpr double own_rate = 38;

// With so many steps in flight three blocks fit on a multiprocessor (156 registers), and the kernel behind comes at
// once (device/cuda/kernels/stream.h). Where three are its share, too, its blocks cannot crowd: 1 x 6144 x 4096 14.1
// us, 14.9 where it comes late. Where two are, some get three: 1 x 4096 x 4096 12.7, 11.3 with four steps (an H200).
constexpr int early_steps = 8;

// Threads, warps along K, columns, steps in flight, bytes of K in a chunk, and for how many rows: what was ahead in the
// measurements of bench/NOTES.md. Two steps of 4 loads leave room for a second block, which was worth more than four.
struct Form {
  int32_t threads, warps_k, cols, steps, chunk, most_rows;
};
constexpr std::array forms_along_k{Form{128, 4, 32, 2, 1024, 16}, Form{256, 4, 64, 2, 1024, 32},
                                   Form{256, 8, 32, 4, 2048, 16}, Form{128, 4, 16, 4, 1024, 16},
                                   Form{256, 8, 32, 2, 2048, 16}, Form{128, 4, 16, 8, 2048, 8}};
constexpr std::array across{Form{256, 8, 64, 2, 512, 16}, Form{128, 4, 64, 2, 256, 16}, Form{256, 4, 128, 2, 512, 16}};
constexpr std::array across_words{Form{128, 4, 32, 4, 512, 16}, Form{128, 4, 64, 2, 256, 16}};

Rejection stream_rejection(diag::Code code, std::string text) {
  return cuda_rejection(GpuFamily::Stream, code, std::move(text));
}

bool multiplies(const GemmShape& s) {
  if (types::is_byte(s.a)) return types::is_byte(s.b) && s.accumulator == DType::i32;
  if (types::is_float8(s.a)) return types::is_float8(s.b) && s.accumulator == DType::f32;
  return s.a == s.b && s.accumulator == DType::f32 && (s.a == DType::bf16 || s.a == DType::f16 || s.a == DType::f32);
}

// Why a factor cannot be read in runs of 16 bytes; nothing if it can.
std::optional<Rejection> layout_defect(const char* name, int64_t size_k, int64_t k_stride, int64_t size, int64_t stride,
                                       const char* other, int64_t batch, int64_t batch_stride, int64_t address,
                                       int64_t element) {
  const auto no = [](std::string text) { return stream_rejection(diag::Code::family_layout, std::move(text)); };
  const bool k_fast = k_stride == 1 || size_k == 1;
  if (auto apart = adjacent_nowhere(name, other, size_k, k_stride, size, stride, stream_rejection)) return apart;
  const int64_t slow = (k_fast ? stride : k_stride) * element;
  if ((k_fast ? size : size_k) > 1 && slow % load_bytes != 0)
    return no(fmt::format("the stride of {} along {} is {} bytes, no multiple of {}", name, k_fast ? other : "K", slow,
                          load_bytes))
        .limited(fmt::format("stride of {} in bytes", name), slow, load_bytes);
  if (batch > 1 && batch_stride * element % load_bytes != 0)
    return no(fmt::format("the batch stride of {} is {} bytes, no multiple of {}", name, batch_stride * element,
                          load_bytes))
        .limited(fmt::format("batch stride of {} in bytes", name), batch_stride * element, load_bytes);
  if (address % load_bytes != 0)
    return no(fmt::format("{} lies at a multiple of {} bytes, and loads are of {}", name, address, load_bytes))
        .limited(fmt::format("alignment of {} in bytes", name), address, load_bytes);
  return std::nullopt;
}

bool multiplies_by_fma(const GemmShape& s) {
  return s.a == DType::f32 && math_of(s.math, s.a, s.b) == MathMode::Strict;
}

// Registers of B's loads in flight; of what they are made of, if they are.
double words_in_flight(const package::EpilogueProgram& epilogue, const StreamShape& shape, const GpuGemmConfig& c) {
  const int64_t loads = int64_t{shape.loads} * c.stages, elements = load_bytes / types::byte_size(c.b_dtype);
  if (!epilogue.makes_b()) return static_cast<double>(4 * loads);
  const HeldRows places{c.b_k_major ? 1 : shape.depth, 1, elements};
  return static_cast<double>(loads * elements) * held_bytes(epilogue, package::FactorProgram::Which::B, places) / 4;
}

// Blocks that a multiprocessor holds, by registers: loads in flight, sums, and 60 others.
double resident(const package::EpilogueProgram& epilogue, const StreamShape& shape, const GpuGemmConfig& c) {
  const double registers = 60 + shape.warp_n * c.tile_m / 32 + words_in_flight(epilogue, shape, c);
  return std::clamp(std::floor(65536.0 / (registers * c.threads)), 1.0, 2048.0 / c.threads);
}

}  // namespace

StreamShape stream_shape(const package::EpilogueProgram& epilogue, const GpuGemmConfig& c) {
  const int64_t size = types::byte_size(c.b_dtype), accumulator = types::byte_size(c.accumulator);
  StreamShape s;
  const int warps = c.threads / 32;
  s.warp_n = c.tile_n / (warps / c.consumers);
  s.block = static_cast<int>(c.b_k_major ? 8 : 128 / size);
  s.depth = c.b_k_major ? 1 : size == 2 ? 4 : 2;
  s.loads = s.warp_n / s.block * s.depth;
  s.step_k = static_cast<int>(c.b_k_major ? 64 / size : 4 * s.depth);
  const int64_t pitch = c.tile_k * size + (c.b_k_major ? 64 : 32);
  const int64_t sums = int64_t{c.consumers} * 8 * (c.tile_n + 4) * accumulator;
  const int64_t piece = int64_t{c.tile_m} * (c.piece_cols + 4) * epilogue.split.ways * accumulator;
  const int64_t scratch = (piece_layout(epilogue, c).scratch_bytes(c.threads) + 15) / 16 * 16;
  s.shared_bytes = std::max({2 * c.tile_m * pitch, sums, piece + scratch}) + 16;
  return s;
}

// Epilogues that reduce rows take more registers than the rest of the kernel if they may, and a second block is worth
// more: slices of K wait for each other's sums (an H100, 16 x 4096 x 14336 in 4 slices: 52.1 us, 47.9 with 128).
int stream_blocks(const package::EpilogueProgram& epilogue, const GpuGemmConfig& c) {
  const bool fmas = c.a_dtype == DType::f32 && c.math == package::MathMode::Strict;
  if (epilogue.reductions.empty() || !epilogue.factors.empty() || fmas) return 1;
  const int most = 65536 / (128 * c.threads);
  return resident(epilogue, stream_shape(epilogue, c), c) >= most ? most : 1;
}

std::optional<Rejection> refuse_stream(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  const auto no = stream_rejection;
  if (!multiplies(s)) {
    return no(diag::Code::family_dtypes, fmt::format("multiplies no {} x {} into {}", dtype_name(s.a), dtype_name(s.b),
                                                     dtype_name(s.accumulator)));
  }
  if (types::is_float8(s.a) && arch_number(p.gpu.arch) < 89) {
    return no(diag::Code::isa_lacks,
              fmt::format("{} has no 8-bit floating-point products; sm_89 and later have", p.gpu.arch));
  }
  if (auto nothing = nothing_to_multiply(p, no)) return nothing;
  const int64_t element = types::byte_size(s.a);
  std::optional<Rejection> defect;
  // Of the two that items may have, the one that is no multiple.
  const auto item_stride = [&](int64_t stride, int64_t skip) {
    return stride * element % load_bytes != 0 ? stride : stride * s.inner + skip;
  };
  if (!s.a_made)
    defect = layout_defect("A", s.k, s.a_k_stride, s.m, s.a_row_stride, "rows", s.batch,
                           item_stride(s.a_batch_stride, s.a_skip), s.a_alignment, element);
  if (!defect && !s.b_made)
    defect = layout_defect("B", s.k, s.b_k_stride, s.n, s.b_col_stride, "columns", s.batch,
                           item_stride(s.b_batch_stride, s.b_skip), s.b_alignment, element);
  const bool k_adjacent = s.b_k_stride == 1 || (s.k == 1 && !s.b_made);
  if (!defect && element == 1 && !k_adjacent)
    defect =
        no(diag::Code::family_layout,
           fmt::format("elements of one byte are read along K, and consecutive k of B are {} apart", s.b_k_stride));
  if (defect) return defect;
  if (stream_configurations(p).empty()) {
    auto [code, why] = no_tile(p, false);
    return no(code, std::move(why));
  }
  return std::nullopt;
}

std::vector<GpuGemmConfig> stream_configurations(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  const int64_t element = types::byte_size(s.a);
  GpuGemmConfig base = config_of(s, GpuFamily::Stream);
  base.alignment = load_bytes;
  const bool fmas = multiplies_by_fma(s);
  // More rows of strict f32 would fill the registers; across K, two tiles of 16 rows are faster than one of 32.
  const int64_t rows = std::clamp<int64_t>(s.m, 1, fmas ? 8 : base.b_k_major ? most_rows : 16);
  base.tile_m = base.piece_rows = static_cast<int32_t>(base::ceil_div<int64_t>(rows, 8) * 8);
  const int64_t chunk = p.chunk();
  if (p.ways() > 1 && !base.b_k_major && (chunk == 0 || chunk * element % load_bytes != 0)) return {};
  std::vector<GpuGemmConfig> result;
  const std::span<const Form> forms = base.b_k_major ? std::span<const Form>(forms_along_k)
                                      : element == 2 ? std::span<const Form>(across)
                                                     : std::span<const Form>(across_words);
  const auto block = static_cast<int>(base.b_k_major ? 8 : 128 / element);  // columns that a load brings
  for (const Form& form : forms) {
    if (base.tile_m > form.most_rows) continue;
    GpuGemmConfig c = base;
    c.threads = form.threads;
    c.consumers = form.warps_k;
    c.stages = form.steps;
    c.tile_k = static_cast<int32_t>(form.chunk / element);
    c.tile_n = p.ways() % 3 == 0 ? form.cols / 2 * 3 : form.cols;
    while (c.tile_n < 256 && (c.tile_n % p.ways() != 0 || c.tile_n / p.ways() < block)) c.tile_n *= 2;
    c.piece_cols = static_cast<int32_t>(c.tile_n / p.ways());
    if (c.tile_n % p.ways() != 0 || c.piece_cols % block != 0) continue;
    c.whole_rows = holds_rows(p, c.piece_cols);
    // Factors are computed a vector at a time, in runs of 16 bytes.
    if ((s.a_made || s.b_made) && load_bytes / element % piece_layout(p.epilogue, c).lanes != 0) continue;
    const StreamShape shape = stream_shape(p.epilogue, c);
    if (shape.warp_n % 16 != 0 || shape.warp_n % shape.block != 0 || 8 * c.tile_n % c.threads != 0) continue;
    const int64_t sums = int64_t{shape.warp_n} * c.tile_m / 32 * (fmas ? 5 : 1);
    if (int64_t{shape.loads} * c.stages * 4 + sums > 144) continue;  // registers
    // What B is made of waits in them, and its addresses are computed: less is left (NVRTC begins to spill at 112).
    const double words = words_in_flight(p.epilogue, shape, c);
    if (s.b_made && words + static_cast<double>(sums) > 80) continue;
    c.shared_bytes = static_cast<int32_t>(shape.shared_bytes);
    if (c.shared_bytes > std::min<int64_t>(p.gpu.shared_per_block, 96 << 10)) continue;
    const double tiles = static_cast<double>(base::ceil_div<int64_t>(s.m, c.tile_m)) *
                         static_cast<double>(p.column_tiles(c.piece_cols) * s.batch);
    if (tiles > static_cast<double>(max_blocks)) continue;
    if (c.stages >= early_steps && (tiles <= 2.0 * p.gpu.sms || tiles > 3.0 * p.gpu.sms)) continue;
    result.push_back(c);
    // Slices of K until the device is full once.
    int64_t before = 1;
    for (const double share : {0.5, 1.0}) {
      const auto split =
          std::min<int64_t>({static_cast<int64_t>(share * p.gpu.sms * resident(p.epilogue, shape, c) / tiles),
                             s.k / std::max<int64_t>(c.tile_k, least_slice), int64_t{package::max_k_split}});
      if (split <= before) continue;
      before = split;
      c.k_split = static_cast<int32_t>(split);
      result.push_back(c);
    }
  }
  for (GpuGemmConfig& c : result) c.combines = combines_rows(p, c);
  return result;
}

// B's bytes come at the rate of memory, or at what the loads in flight allow, or at L2's where A's rows, which every
// block reads, are many.
Mainloop stream_mainloop(const GpuProblem& p, const GpuGemmConfig& c) {
  const StreamShape shape = stream_shape(p.epilogue, c);
  const double element = static_cast<double>(types::byte_size(c.b_dtype));
  const auto k = static_cast<double>(base::ceil_div<int64_t>(p.shape.k, c.k_split));
  const auto tiles_m = static_cast<double>(base::ceil_div<int64_t>(p.shape.m, c.tile_m));
  const double units = static_cast<double>(p.shape.batch * p.column_tiles(c.piece_cols)) * tiles_m * c.k_split;
  const double slots = p.gpu.sms * resident(p.epilogue, shape, c), waves = std::ceil(units / slots);
  const double element_a = p.shape.a_made ? p.shape.a_read_bytes : element;
  const double element_b = p.shape.b_made ? p.shape.b_read_bytes : element;
  const double columns = c.tile_n * k * element_b, rows = c.tile_m * k * element_a;
  Waiting w;
  w.units = units;
  w.slots = slots;
  w.bytes = columns;
  w.memory_bytes = columns / tiles_m;
  w.read_bytes = columns + rows;
  w.in_flight =
      static_cast<double>(c.threads * load_bytes * shape.loads) * c.stages * std::min(element_b / element, 1.0);
  w.latency_ns = c.b_k_major ? along_latency_ns : across_latency_ns;
  w.memory_rate = memory_share * p.gpu.memory_rate;
  w.l2_rate = l2_share * p.gpu.l2_rate;
  w.own_rate = own_rate;
  // With 1 and 16 rows and B along K an H200 takes 5 to 12 % less than these limits say (bench/NOTES.md), where blocks
  // lie evenly: one row by 6144 columns 14.9 us in 384 blocks, 16.3 in 192.
  const double less =
      p.shape.m <= 16 && c.b_k_major ? (1 - 0.1 * memory_beyond_h100(p.gpu)) * (1 + unevenness(p.gpu, units)) : 1;
  double ns = less * waiting_ns(p.gpu, w);
  if (multiplies_by_fma(p.shape)) ns = std::max(ns, units * c.tile_n * k * c.tile_m / 64 / p.gpu.ghz / p.gpu.sms);
  if (p.shape.a_made || p.shape.b_made) {
    Mainloop making;
    add_making(p, c, k, making);
    // With few warps the next instruction of each is waited for (an H200: 27 us with 8 warps, 22 with 16).
    constexpr double enough_warps = 16;
    const double blocks = std::min(resident(p.epilogue, shape, c), std::ceil(units / p.gpu.sms));
    const double warps = std::min(blocks * c.threads / 32, enough_warps);
    const double waits = p.shape.b_made ? (1 + 8 / warps) / (1 + 8 / enough_warps) : 1;
    ns = std::max(ns, waits * units * making.clocks / p.gpu.ghz / p.gpu.sms);
  }
  Mainloop loop;
  loop.bytes = columns + rows;
  loop.clocks =
      ns * p.gpu.ghz / std::ceil(units / p.gpu.sms);  // of a unit: the model counts those of one multiprocessor
  loop.blocks_per_sm = resident(p.epilogue, shape, c);
  loop.exposed = 0.3;
  // More than 16 rows are added up in more rounds, and with one block a multiprocessor nothing is under way meanwhile:
  // 30.2 us at 32 x 8192 x 3584 where this came to 25.9, and 34.2 where it came to 24 (an H100).
  // Along K it takes 0.9 us more to begin and to end, and of 16 rows or less 1.5 us where blocks are alone (16 x 4096 x
  // 14336: 46.3 us where it came to 44.5); seen in bf16 on an H100 only.
  const bool on_hopper = c.b_k_major && element == 2 && arch_number(p.gpu.arch) == 90;
  const double alone_us = p.shape.m > 16 ? 8 : on_hopper ? 1.5 : 0;
  const double rounds_us = units <= p.gpu.sms ? alone_us : p.shape.m > 16 ? 2.5 : 0;
  loop.prologue_us = (on_hopper ? 3.0 : 2.1) + 1.5 * (waves - 1) + rounds_us;
  // A chunk of a made A is loaded and finished between two of the products', with nothing else under way: four chunks
  // of a norm's 8 rows 4.6 us, of one row 1.1 (an H100).
  const auto made_rows = static_cast<double>(std::min<int64_t>(p.shape.m, c.tile_m));
  if (p.shape.a_made) loop.prologue_us += std::ceil(k / c.tile_k) * (0.15 + 0.125 * made_rows);
  loop.note = fmt::format("{} warps along K, {:.0f} KiB of B in flight, {:.0f} waves", c.consumers,
                          std::min(units, slots) * w.in_flight / 1024, waves);
  return loop;
}

}  // namespace codetta::plan
