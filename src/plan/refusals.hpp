// SPDX-License-Identifier: Apache-2.0
// What families of GPUs' matrix kernels refuse in the same words, and begin their configurations with.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "plan/families_cuda.hpp"

namespace codetta::plan {

// In the name of a family.
using Refuse = std::function<Rejection(diag::Code, std::string)>;

std::optional<Rejection> nothing_to_multiply(const GpuProblem& problem, const Refuse& no);
// A factor whose elements are adjacent neither along K nor along its rows or columns.
std::optional<Rejection> adjacent_nowhere(const char* name, const char* others, int64_t k, int64_t k_stride,
                                          int64_t other, int64_t other_stride, const Refuse& no);
std::optional<Rejection> adjacent_nowhere(const GemmShape& shape, const Refuse& no);

// A configuration with the problem's types and math, and factors as they lie: made ones along K only where they say so.
GpuGemmConfig config_of(const GemmShape& shape, GpuFamily family);
// Pieces of all rows of a tile, and of the most columns that divide those of a part.
void take_whole_pieces(const GpuProblem& problem, GpuGemmConfig& config);

}  // namespace codetta::plan
