// SPDX-License-Identifier: Apache-2.0
#include "plan/copy_engine.hpp"

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
          FactorLayout{s.k, s.b_k_stride, s.n, s.b_col_stride, s.batch, s.b_batch_stride, s.b_alignment}};
}

Reading reading_of(const FactorLayout& f, int64_t element, bool along_k) {
  const std::optional<bool> lies = k_major(f, element);
  const bool batch_fits = f.batch_stride == 0 || stride_fits(f.batch, f.batch_stride, element);
  if (lies && (*lies || !along_k) && batch_fits && f.address_alignment % map_alignment == 0) return {*lies, false};
  // As it lies, where elements are side by side; along K otherwise.
  return {along_k || f.k_stride == 1 || f.other_stride != 1 || f.k <= 1, true};
}

}  // namespace codetta::plan
