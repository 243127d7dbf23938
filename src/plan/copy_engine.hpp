// SPDX-License-Identifier: Apache-2.0
// What the copy engine (TMA) of sm_90 and later can read, for the families that feed on it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "plan/families_cuda.hpp"

namespace codetta::plan {

inline constexpr int64_t map_alignment = 16;             // bytes that addresses and strides are multiples of
inline constexpr int64_t map_stride = int64_t{1} << 40;  // bytes, below which the strides of tensor maps are
inline constexpr int64_t max_extent = INT32_MAX;         // coordinates of a copy are 32 bits

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

// The operand that the copy engine can bring in the place of an A that is made (device/cuda/kernels/make_wgmma.h): the
// only matrix that it is made of, of elements of 16 bits as A's, side by side along K.
std::optional<uint32_t> brought_for_a(const package::EpilogueProgram& epilogue);

// Why the copy engine cannot feed a problem of otherwise fitting types: nothing to multiply, sizes beyond its
// coordinates, parts of a split that are no neighbouring columns.
std::optional<Rejection> refuse_copied(const GpuProblem& problem, GpuFamily family);
// What a family without a configuration for the problem says.
Rejection no_tile_for_split(const GpuProblem& problem, GpuFamily family);

}  // namespace codetta::plan
