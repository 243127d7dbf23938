// SPDX-License-Identifier: Apache-2.0
#include "plan/refusals.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace codetta::plan {

std::optional<Rejection> nothing_to_multiply(const GpuProblem& problem, const Refuse& no) {
  const GemmShape& s = problem.shape;
  if (s.k != 0 && !problem.empty()) return std::nullopt;
  return no(diag::Code::family_size,
            fmt::format("{} x {} x {} in {} batch items has nothing to multiply", s.m, s.n, s.k, s.batch));
}

std::optional<Rejection> adjacent_nowhere(const char* name, const char* others, int64_t k, int64_t k_stride,
                                          int64_t other, int64_t other_stride, const Refuse& no) {
  if ((k_stride == 1 || k == 1) || (other_stride == 1 || other == 1)) return std::nullopt;
  return no(diag::Code::family_layout, fmt::format("{} has strides {} along K and {} along {}; one of them must be 1",
                                                   name, k_stride, other_stride, others));
}

std::optional<Rejection> adjacent_nowhere(const GemmShape& s, const Refuse& no) {
  if (auto a = adjacent_nowhere("A", "rows", s.k, s.a_k_stride, s.m, s.a_row_stride, no)) return a;
  return adjacent_nowhere("B", "columns", s.k, s.b_k_stride, s.n, s.b_col_stride, no);
}

GpuGemmConfig config_of(const GemmShape& shape, GpuFamily family) {
  GpuGemmConfig config;
  config.family = family;
  config.a_dtype = shape.a;
  config.b_dtype = shape.b;
  config.accumulator = shape.accumulator;
  config.math = math_of(shape.math, shape.a, shape.b);
  config.a_k_major = shape.a_k_stride == 1 || (shape.k == 1 && !shape.a_made);
  config.b_k_major = shape.b_k_stride == 1 || (shape.k == 1 && !shape.b_made);
  return config;
}

void take_whole_pieces(const GpuProblem& problem, GpuGemmConfig& config) {
  const auto width = static_cast<int32_t>(config.tile_n / problem.ways());
  for (const int32_t piece : {64, 48, 32, 16}) {
    if (width % piece != 0) continue;
    config.piece_cols = piece;
    break;
  }
  config.piece_rows = config.tile_m;
}

}  // namespace codetta::plan
