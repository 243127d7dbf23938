// SPDX-License-Identifier: Apache-2.0
// What the cost model makes of CUTLASS's kernels: those of our own families that run in the same way, with what is
// known of the difference.
#pragma once

#include <array>
#include <vector>

#include "plan/candidates.hpp"

namespace codetta::plan {

enum class CutlassKind : uint8_t { Sm80, Sm90, Sm100 };

struct CutlassConfig {
  CutlassKind kind = CutlassKind::Sm90;
  std::array<int, 3> tile{128, 128, 64};  // of a CTA; of an MMA on Sm100
  std::array<int, 3> cluster{1, 1, 1};
  bool persistent = true, pingpong = false;  // Sm90
  bool pair = false;                         // Sm100: two SMs share an MMA
  int warps = 4;                             // Sm80
  int stages = 2;                            // of the main loop
  int piece_rows = 64, piece_cols = 32;      // of a step of the epilogue
};

// In the order of the launch. `gpu.arch` is that of the target.
std::vector<CostTerm> cutlass_cost_terms(const package::EpilogueProgram& epilogue, const GemmShape& shape,
                                         const GpuFacts& gpu, const CutlassConfig& config);

}  // namespace codetta::plan
