// SPDX-License-Identifier: Apache-2.0
// The Metal families as data: what each refuses, the configurations it offers, and what they cost; and the geometry
// that a configuration implies, which emit/ prints and device/metal computes once more.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"
#include "plan/families_cuda.hpp"

namespace codetta::plan {

// A family of Apple's GPUs, or of Metal. Plain `metal` means the first that has matrices of a SIMD group.
inline constexpr std::string_view default_metal_family = "apple7";
struct MetalFamily {
  std::string_view name;      // "apple9"
  std::string_view machines;  // "M3, M4"
  bool simdgroup_matrix;
  int cores;           // of the usual machine
  double ghz;          // sustained
  double memory_rate;  // bytes per nanosecond
  int64_t cache;       // bytes that all cores share
};
// Null: not known.
const MetalFamily* metal_family(std::string_view name);
GpuFacts metal_facts(std::string_view name);

inline constexpr int64_t metal_threadgroup_bytes = 32768;  // of every family: Metal feature set tables
inline constexpr int metal_threadgroup_threads = 1024;

std::span<const GpuFamilyInfo> metal_families();  // as cuda_families()
std::string metal_kernel_name(const GpuGemmConfig& config, std::string_view family);
std::vector<CostTerm> metal_cost_terms(const GpuProblem& problem, const GpuFamilyInfo& family,
                                       const GpuGemmConfig& config);
Rejection metal_rejection(GpuFamily family, diag::Code code, std::string text);

// Of device/metal/kernels/simdgroup.h: SIMD groups along M (along N are the others).
int metal_groups_along_m(const GpuGemmConfig& config);
// Threadgroup memory of the product's kernel: SimtShape and SimdgroupShape in device/metal/kernels.
int64_t metal_shared_bytes(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config);

// Metal has no f64. Errors: E0311 at the first value, operand or output that is one.
Result<void> check_for_metal(const ir::Graph& graph);

}  // namespace codetta::plan
