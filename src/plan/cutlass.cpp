// SPDX-License-Identifier: Apache-2.0
// The main loops of CUTLASS's collectives are those of our families sm80, sm90 and sm100: the same instructions, copies
// and schedules. The shares below are round figures chosen by eye from the table "CUTLASS EVT" of bench/RESULTS.md, not
// a fit.
#include "plan/cutlass.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plan/families_cuda.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr double main_loop_share = 1.08;  // a plain product takes so many times our clocks
constexpr double epilogue_share = 1.6;    // nodes are visited fragment by fragment, with a step of C and D at a time
constexpr double workspace_us = 2;        // a fill of the workspace that final reductions count in
constexpr double block_us = 0.8;          // a tile's prologue where blocks are not persistent

GpuGemmConfig like_ours(const GemmShape& shape, const CutlassConfig& c) {
  const auto element = static_cast<int32_t>(types::byte_size(shape.a));
  GpuGemmConfig ours;
  ours.family = c.kind == CutlassKind::Sm80   ? GpuFamily::Sm80
                : c.kind == CutlassKind::Sm90 ? GpuFamily::Sm90
                                              : GpuFamily::Sm100;
  ours.a_dtype = shape.a;
  ours.b_dtype = shape.b;
  ours.accumulator = shape.accumulator;
  ours.math = math_of(shape.math, shape.a, shape.b);
  ours.a_k_major = shape.a_k_stride == 1;
  ours.b_k_major = shape.b_k_stride == 1;
  ours.tile_m = c.pair ? c.tile[0] / 2 : c.tile[0];
  ours.tile_n = c.tile[1];
  // Our main loops count swizzle spans of K; so many bytes cost the same in stages of any depth.
  ours.tile_k = c.kind == CutlassKind::Sm80 ? c.tile[2] : 128 / element;
  ours.stages = c.stages;
  ours.cluster_m = c.kind == CutlassKind::Sm100 ? (c.pair ? 2 : 1) : c.cluster[0];
  ours.cluster_n = c.kind == CutlassKind::Sm100 ? 1 : c.cluster[1];
  ours.consumers = c.kind == CutlassKind::Sm80 ? c.warps : c.kind == CutlassKind::Sm100 ? 1 : c.persistent ? 2 : 1;
  ours.pingpong = c.pingpong;
  ours.persistent = c.persistent;
  ours.copied = c.kind != CutlassKind::Sm80;
  ours.alignment = 16;
  ours.piece_rows = c.piece_rows;
  ours.piece_cols = c.piece_cols;
  ours.threads = c.kind == CutlassKind::Sm80 ? 32 * c.warps : 128 * (1 + ours.consumers);
  return ours;
}

}  // namespace

std::vector<CostTerm> cutlass_cost_terms(const package::EpilogueProgram& epilogue, const GemmShape& shape,
                                         const GpuFacts& gpu, const CutlassConfig& config) {
  const GpuGemmConfig ours = like_ours(shape, config);
  const auto families = cuda_families();
  const auto family =
      std::find_if(families.begin(), families.end(), [&](const GpuFamilyInfo& f) { return f.family == ours.family; });
  std::vector<CostTerm> terms;
  for (CostTerm& term : cuda_cost_terms({epilogue, shape, gpu}, *family, ours)) {
    // Final reductions are part of CUTLASS's kernel.
    if (term.name == "later phases") continue;
    const double share = term.name == "multiply" ? main_loop_share : term.name == "epilogue" ? epilogue_share : 1;
    term.microseconds *= share;
    if (share != 1) term.note += fmt::format("; {} times what our own kernel takes", share);
    terms.push_back(std::move(term));
  }
  if (!epilogue.reductions.empty())
    terms.push_back({"workspace", workspace_us, "filled before the kernel, for the final reductions"});
  if (config.kind == CutlassKind::Sm90 && !config.persistent) {
    const double tiles = static_cast<double>(shape.batch) * std::ceil(static_cast<double>(shape.m) / config.tile[0]) *
                         std::ceil(static_cast<double>(shape.n) / config.tile[1]);
    const double rounds = std::ceil(tiles / std::max(gpu.sms, 1));
    if (rounds > 1)
      terms.push_back({"blocks", block_us * (rounds - 1), "a prologue for each tile: blocks are not persistent"});
  }
  return terms;
}

}  // namespace codetta::plan
