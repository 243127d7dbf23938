// SPDX-License-Identifier: Apache-2.0
// What discovery is made of: the CPU families as data, their configurations for a problem, and the cost of one
// configuration.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/cpu/micro/table.hpp"
#include "plan/candidates.hpp"

namespace codetta::plan {

using package::CpuFamily;
using package::CpuGemmConfig;

// The limits of a family; what is not limited has the largest value.
struct CpuFamilyInfo {
  CpuFamily family;
  std::string_view name;       // as in kernel names
  int64_t skinny_rows;         // takes any problem of at most so many rows ...
  int64_t skinny_cols;         // ... or columns,
  int64_t small_work;          // ... or of at most so many multiplications in one batch item
  int64_t transposed_a_bytes;  // of A that it brings into rows when A is not stored so
  bool reads_packed_b;
  bool result_values;  // reductions may be used as values of the same epilogue
};
std::span<const CpuFamilyInfo> cpu_families();

// The problem as one family meets it.
struct FamilyProblem {
  const package::EpilogueProgram& epilogue;
  const GemmShape& shape;
  const MachineFacts& machine;
  const CpuFamilyInfo& family;
  const codetta::cpu::MicroTable* table = nullptr;  // of machine.isa
  const codetta::cpu::KernelSet* set = nullptr;     // register blocks that the family uses, once it is accepted
  codetta::cpu::Product product = codetta::cpu::Product::f32;
  bool dots = false;  // InPlace: columns of B are contiguous
};

// Why the family does not take the problem; otherwise fills set, product and dots.
std::optional<Rejection> refuse(FamilyProblem& problem);
std::vector<CpuGemmConfig> configurations(const FamilyProblem& problem);
// Whether a configuration with blocks of `kc` fetches rows of B ahead of the multiply-adds.
bool fetches_b(const FamilyProblem& problem, const CpuGemmConfig& config, int64_t kc);
// Whether tiles of `cols` columns of a few rows read rows of B as long as the tile is wide.
bool reads_long_rows(const FamilyProblem& problem, int64_t cols);
std::string kernel_name(const FamilyProblem& problem, const CpuGemmConfig& config);

// Vector clocks of one operation over a vector of f32; the table behind the epilogue's term.
double vector_clocks(types::Op op, DType type);
// Of a vector that a sum of exponents takes: largest, difference, exponential and sum.
inline constexpr double sum_exp_clocks = 16;
// Of one that a logsumexp takes element by element: an exact exponential for each, and one for each merge.
inline constexpr double log_sum_exp_clocks = 60;
bool sums_exponents(const package::EpilogueProgram& program);
// Of the operations and reductions of a phase, an element.
double phase_clocks(const package::EpilogueProgram& program, uint32_t phase);
std::vector<CostTerm> cost_terms(const FamilyProblem& problem, const CpuGemmConfig& config);

}  // namespace codetta::plan
