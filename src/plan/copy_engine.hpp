// SPDX-License-Identifier: Apache-2.0
// What the copy engine (TMA) of sm_90 and later can read, for the families that feed on it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/families_cuda.hpp"

namespace codetta::plan {

inline constexpr int64_t map_alignment = 16;             // bytes that addresses and strides are multiples of
inline constexpr int64_t map_stride = int64_t{1} << 40;  // bytes, below which the strides of tensor maps are
inline constexpr int64_t max_extent = INT32_MAX;         // coordinates of a copy are 32 bits

// Families whose factors the copy engine brings.
inline bool feeds_on_copies(GpuFamily family) { return family == GpuFamily::Sm90 || family == GpuFamily::Sm100; }

// How one factor lies in memory, as a tensor map sees it. Sizes and strides in elements.
struct FactorLayout {
  int64_t k, k_stride, other, other_stride, batch, batch_stride, skip;
  int32_t address_alignment;
};
std::array<FactorLayout, 2> factors_of(const GpuProblem& problem);  // A, B

// How a kernel reads a factor: where it lies, or packed first (device/cuda/pack.h). `along_k`: only a factor whose
// consecutive k are side by side can be multiplied. `element`: bytes.
struct Reading {
  bool k_major = true, packed = false;
};
Reading reading_of(const FactorLayout& factor, int64_t element, bool along_k);
// The same of B: where it lies along N, every part of a split has to begin at a multiple of 16 bytes, as with a swizzle
// the copy engine takes no box that begins elsewhere (an illegal instruction on an H100). Otherwise it is packed along
// K.
Reading reading_of_b(const GpuProblem& problem, const FactorLayout& factor, int64_t element, bool along_k);

// The operand that the copy engine can bring in the place of an A that is made (device/cuda/kernels/make_rows.h): the
// only matrix that it is made of, of elements of 16 bits as A's, side by side along K.
std::optional<uint32_t> brought_for_a(const package::EpilogueProgram& epilogue);

// Where the columns of an Indexed operand lie that is one matrix of rows as the root space has: root column c at
// (c / run) * step + c % run of a row, in elements. Its strides are those of rows, of columns, and of runs if step > 0.
// step 0: a table, which is read again for every run, such as the angles of a rotary embedding.
struct ColumnRuns {
  int64_t run = 0, step = 0;
  bool operator==(const ColumnRuns&) const = default;
};
// Nothing where it lies otherwise.
std::optional<ColumnRuns> column_runs(const package::Operand& operand);
// Of what copies_of() takes: indexed operands that lanes load themselves. Their tensor maps are made, and nothing is
// copied by them: that they can be made says that rows lie where vectors can be loaded.
std::vector<uint32_t> tables_of(const package::EpilogueProgram& epilogue);
// Bytes of an element of each load and store that the copy engine has slots for: of products with root spaces of their
// own, whose tiles use the same slots, of the largest.
struct CopySlots {
  std::vector<int64_t> loads, stores;
};
CopySlots copy_slots(const package::EpilogueProgram& epilogue);
// Columns that lie side by side in all indexed operands of phase 0. None where there are none.
std::optional<int32_t> run_of_copies(const package::EpilogueProgram& epilogue);
// Columns of B in a row of a tile that a copy can bring at once: a part's, or what a chunk of a split and it have in
// common.
int32_t columns_side_by_side(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config);

// Why the copy engine cannot feed a problem of otherwise fitting types: nothing to multiply, sizes beyond its
// coordinates, parts of a split that are no neighbouring columns.
std::optional<Rejection> refuse_copied(const GpuProblem& problem, GpuFamily family);
// What a family without a configuration for the problem says.
Rejection no_tile_for_split(const GpuProblem& problem, GpuFamily family);

}  // namespace codetta::plan
