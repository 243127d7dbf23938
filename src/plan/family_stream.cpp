// SPDX-License-Identifier: Apache-2.0
// The streaming family for few rows (device/cuda/kernels/stream.h): B passes through registers once.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/families_cuda.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr int64_t most_rows = 32;
constexpr int64_t load_bytes = 16;    // of B; its rows and addresses are multiples of it
constexpr int64_t least_slice = 512;  // steps of K
constexpr int64_t max_blocks = INT32_MAX;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
bool is_float8(DType d) { return d == DType::f8e4m3 || d == DType::f8e5m2; }
bool is_byte(DType d) { return d == DType::i8 || d == DType::u8; }

bool multiplies(const GemmShape& s) {
  if (is_byte(s.a)) return is_byte(s.b) && s.accumulator == DType::i32;
  if (is_float8(s.a)) return is_float8(s.b) && s.accumulator == DType::f32;
  return s.a == s.b && s.accumulator == DType::f32 && (s.a == DType::bf16 || s.a == DType::f16 || s.a == DType::f32);
}

// Why a factor cannot be read in runs of 16 bytes; empty if it can.
std::string layout_defect(const char* name, int64_t size_k, int64_t k_stride, int64_t size, int64_t stride,
                          const char* other, int64_t batch, int64_t batch_stride, int64_t address, int64_t element) {
  const bool k_fast = k_stride == 1 || size_k == 1;
  if (!k_fast && stride != 1 && size != 1)
    return fmt::format("{} has strides {} along K and {} along {}; one of them must be 1", name, k_stride, stride,
                       other);
  const int64_t slow = (k_fast ? stride : k_stride) * element;
  if ((k_fast ? size : size_k) > 1 && slow % load_bytes != 0)
    return fmt::format("the stride of {} along {} is {} bytes, no multiple of {}", name, k_fast ? other : "K", slow,
                       load_bytes);
  if (batch > 1 && batch_stride * element % load_bytes != 0)
    return fmt::format("the batch stride of {} is {} bytes, no multiple of {}", name, batch_stride * element,
                       load_bytes);
  if (address % load_bytes != 0)
    return fmt::format("{} lies at a multiple of {} bytes, and loads are of {}", name, address, load_bytes);
  return {};
}

}  // namespace

StreamShape stream_shape(const package::EpilogueProgram& epilogue, const CudaGemmConfig& c) {
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

std::optional<Rejection> refuse_stream(const CudaProblem& p) {
  const GemmShape& s = p.shape;
  const auto no = [](diag::Code code, std::string text) {
    return cuda_rejection(CudaFamily::Stream, code, std::move(text));
  };
  if (!multiplies(s)) {
    return no(diag::Code::family_dtypes, fmt::format("multiplies no {} x {} into {}", dtype_name(s.a), dtype_name(s.b),
                                                     dtype_name(s.accumulator)));
  }
  if (is_float8(s.a) && arch_number(p.gpu.arch) < 89) {
    return no(diag::Code::isa_lacks,
              fmt::format("{} has no 8-bit floating-point products; sm_89 and later have", p.gpu.arch));
  }
  if (s.k == 0 || p.empty()) {
    return no(diag::Code::family_size,
              fmt::format("{} x {} x {} in {} batch items has nothing to multiply", s.m, s.n, s.k, s.batch));
  }
  const int64_t element = types::byte_size(s.a);
  std::string defect = layout_defect("A", s.k, s.a_k_stride, s.m, s.a_row_stride, "rows", s.batch, s.a_batch_stride,
                                     s.a_alignment, element);
  if (defect.empty())
    defect = layout_defect("B", s.k, s.b_k_stride, s.n, s.b_col_stride, "columns", s.batch, s.b_batch_stride,
                           s.b_alignment, element);
  const bool along_k = s.b_k_stride == 1 || s.k == 1;
  if (defect.empty() && element == 1 && !along_k)
    defect = fmt::format("elements of one byte are read along K, and consecutive k of B are {} apart", s.b_k_stride);
  if (!defect.empty()) return no(diag::Code::family_layout, defect);
  if (stream_configurations(p).empty()) {
    return no(diag::Code::family_split, fmt::format("no tile holds {} parts in chunks of {} columns of this layout",
                                                    p.ways(), p.epilogue.split.chunk.to_string()));
  }
  return std::nullopt;
}

std::vector<CudaGemmConfig> stream_configurations(const CudaProblem& p) {
  const GemmShape& s = p.shape;
  const int64_t element = types::byte_size(s.a);
  CudaGemmConfig base;
  base.family = CudaFamily::Stream;
  base.a_dtype = s.a;
  base.b_dtype = s.b;
  base.accumulator = s.accumulator;
  base.math = s.math;
  base.a_k_major = s.a_k_stride == 1 || s.k == 1;
  base.b_k_major = s.b_k_stride == 1 || s.k == 1;
  base.alignment = load_bytes;
  base.tile_m = base.piece_rows = static_cast<int32_t>(ceil_div(std::clamp<int64_t>(s.m, 1, most_rows), 8) * 8);
  const bool fmas = s.a == DType::f32 && s.math == package::MathMode::Strict;
  const int64_t chunk = p.epilogue.split.chunk.as_constant().value_or(0);
  if (p.ways() > 1 && !base.b_k_major && (chunk == 0 || chunk * element % load_bytes != 0)) return {};
  std::vector<CudaGemmConfig> result;
  for (const int32_t tile_n : {32, 64, 128}) {
    for (const int32_t warps : {4, 8}) {
      for (const int32_t along : {2, 4, 8}) {  // warps along K
        for (const int32_t steps : {2, 4}) {   // in flight
          if (warps % along != 0 || tile_n % (warps / along) != 0 || tile_n % p.ways() != 0) continue;
          CudaGemmConfig c = base;
          c.tile_n = tile_n;
          c.piece_cols = static_cast<int32_t>(tile_n / p.ways());
          c.threads = 32 * warps;
          c.consumers = along;
          c.stages = steps;
          const StreamShape shape = stream_shape(p.epilogue, c);
          if (shape.warp_n % 16 != 0 || shape.warp_n % shape.block != 0 || c.piece_cols % shape.block != 0) continue;
          if (c.piece_cols % 4 != 0 || 8 * tile_n % c.threads != 0) continue;
          // Loads in flight (16 a thread, or 8 beside many sums), accumulators and operands in registers.
          const int64_t in_flight = int64_t{shape.loads} * steps * 4;
          const int64_t sums = int64_t{shape.warp_n} * c.tile_m / 32 * (fmas ? 5 : 1);
          if (in_flight != (fmas ? 32 : 64) || in_flight + sums > 128) continue;
          const int64_t per_chunk = int64_t{along} * shape.step_k * steps;
          c.tile_k = static_cast<int32_t>(per_chunk * std::max<int64_t>(1, 512 / element / per_chunk));
          c.shared_bytes = static_cast<int32_t>(stream_shape(p.epilogue, c).shared_bytes);
          if (c.shared_bytes > std::min<int64_t>(p.gpu.shared_per_block, 96 << 10)) continue;
          const double tiles = static_cast<double>(ceil_div(s.m, c.tile_m)) *
                               static_cast<double>(ceil_div(p.root_cols(), c.piece_cols) * s.batch);
          if (tiles > static_cast<double>(max_blocks)) continue;
          result.push_back(c);
          const auto split = std::min<int64_t>(
              {static_cast<int64_t>(2.0 * p.gpu.sms / tiles), s.k / least_slice, int64_t{package::max_k_split}});
          if (split <= 1) continue;
          c.k_split = static_cast<int32_t>(split);
          result.push_back(c);
        }
      }
    }
  }
  return result;
}

Mainloop stream_mainloop(const CudaProblem& p, const CudaGemmConfig& c) {
  const auto k = static_cast<double>(ceil_div(p.shape.k, c.k_split));
  const double element = static_cast<double>(types::byte_size(c.b_dtype));
  const bool fmas = c.b_dtype == DType::f32 && c.math == package::MathMode::Strict;
  const StreamShape shape = stream_shape(p.epilogue, c);
  Mainloop loop;
  loop.bytes = k * element * (c.tile_n + c.tile_m);
  // A 16-byte load feeds a product of eight rows in about 8 clocks of a warp scheduler; strict f32, one fma an element.
  const double products =
      fmas ? c.tile_n * static_cast<double>(c.tile_m) * k / 128 : loop.bytes / 512 * (4 + 2.0 * c.tile_m / 8);
  const double in_flight = static_cast<double>(shape.loads * c.stages * c.threads) * 16;
  loop.clocks = products / 0.7 + 1200;  // the first loads, and the sum over the warps
  loop.blocks_per_sm = 4;
  loop.exposed = 0.5;
  loop.prologue_us = 2.0 + 0.3 * 16384 / in_flight;  // the more is asked for at once, the sooner memory is busy
  loop.note = fmt::format("{} warps along K, {:.0f} KiB of B in flight a block", c.consumers, in_flight / 1024);
  return loop;
}

}  // namespace codetta::plan
