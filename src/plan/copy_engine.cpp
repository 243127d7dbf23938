// SPDX-License-Identifier: Apache-2.0
#include "plan/copy_engine.hpp"

#include <fmt/format.h>

#include <optional>

namespace codetta::plan {
namespace {

constexpr int64_t map_stride = int64_t{1} << 40;  // bytes, below which the strides of tensor maps are

// Whether a map can have the dim of `size` elements `stride` elements apart.
bool stride_fits(int64_t size, int64_t stride, int64_t element) {
  return size <= 1 || (stride > 0 && stride < map_stride / element && stride * element % map_alignment == 0);
}

// Whether consecutive k are the fast dim of the map, if either dim can be.
std::optional<bool> k_major(const FactorLayout& f, int64_t element) {
  const auto fits = [&](int64_t fast, int64_t fast_stride, int64_t slow, int64_t slow_stride) {
    return (fast <= 1 || fast_stride == 1) && stride_fits(slow, slow_stride, element);
  };
  if (fits(f.k, f.k_stride, f.other, f.other_stride)) return true;
  if (fits(f.other, f.other_stride, f.k, f.k_stride)) return false;
  return std::nullopt;
}

}  // namespace

std::array<FactorLayout, 2> factors_of(const GpuProblem& p) {
  const GemmShape& s = p.shape;
  return {FactorLayout{s.k, s.a_k_stride, s.m, s.a_row_stride, s.batch, s.a_batch_stride, s.a_alignment},
          FactorLayout{s.k, s.b_k_stride, s.n / s.products, s.b_col_stride, s.batch, s.b_batch_stride, s.b_alignment}};
}

Reading reading_of(const FactorLayout& f, int64_t element, bool along_k) {
  const std::optional<bool> lies = k_major(f, element);
  const bool batch_fits = f.batch_stride == 0 || stride_fits(f.batch, f.batch_stride, element);
  if (lies && (*lies || !along_k) && batch_fits && f.address_alignment % map_alignment == 0) return {*lies, false};
  // As it lies, where elements are side by side; along K otherwise.
  return {along_k || f.k_stride == 1 || f.other_stride != 1 || f.k <= 1, true};
}

std::optional<Rejection> refuse_copied(const GpuProblem& p, GpuFamily family) {
  const GemmShape& s = p.shape;
  const auto no = [&](diag::Code code, std::string text) { return cuda_rejection(family, code, std::move(text)); };
  if (s.k == 0 || p.empty()) {
    return no(diag::Code::family_size,
              fmt::format("{} x {} x {} in {} batch items has nothing to multiply", s.m, s.n, s.k, s.batch));
  }
  for (const int64_t size : {s.m, s.n, s.k, s.batch}) {
    if (size > max_extent)
      return no(diag::Code::family_size, fmt::format("a size of {} is beyond the copy engine's 2^31", size))
          .limited("size", size, max_extent);
  }
  if (p.epilogue.split.interleaved()) {
    return no(
        diag::Code::family_split,
        fmt::format("the {} parts of the split alternate by column, and a copy brings neighbouring columns", p.ways()));
  }
  return std::nullopt;
}

Rejection no_tile_for_split(const GpuProblem& p, GpuFamily family) {
  return cuda_rejection(family, diag::Code::family_split,
                        fmt::format("no tile of up to 256 columns holds {} parts in chunks of {} columns", p.ways(),
                                    p.epilogue.split.chunk.to_string()));
}

}  // namespace codetta::plan
