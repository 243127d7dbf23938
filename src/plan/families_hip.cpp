// SPDX-License-Identifier: Apache-2.0
// The table of HIP families and of AMD's architectures, and the SIMT family there.
#include "plan/families_hip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/kept.hpp"
#include "plan/families.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr int64_t hip_kib = 1024, hip_mib = 1024 * hip_kib;

// Nominal figures of AMD's data sheets and white papers as remembered, not checked against them: compute units and peak
// engine clock (0.8 of it here), memory (0.9 of the rate); rates of a compute unit are the data sheet's peak over units
// and clock. Least certain: the rates of L2. They only rank kernels. One die of an MI250X is one device.
const std::array<HipArchitecture, 4>& architectures() {
  static const auto& facts = base::kept(std::array<HipArchitecture, 4>{{
      {{"gfx90a", 110, 1.36, 64 * hip_kib, 64 * hip_kib, 8 * hip_mib, 1440, 5500},  // Instinct MI250X
       64,
       512,
       64,
       64,
       512,
       512,
       128,
       128},
      {{"gfx942", 304, 1.68, 64 * hip_kib, 64 * hip_kib, 32 * hip_mib, 4770, 17000},  // Instinct MI300X
       64,
       512,
       128,
       64,
       1024,
       2048,
       128,
       128},
      {{"gfx1100", 96, 2.0, 64 * hip_kib, 64 * hip_kib, 6 * hip_mib, 864, 4000},  // Radeon RX 7900 XTX
       32,
       256,
       128,
       2,
       256,
       256,
       0,
       0},
      {{"gfx1201", 64, 2.38, 64 * hip_kib, 64 * hip_kib, 8 * hip_mib, 576, 4000},  // Radeon RX 9070 XT
       32,
       256,
       128,
       2,
       512,
       1024,
       0,
       0},
  }});
  return facts;
}

bool always(const GpuProblem&) { return true; }
bool on_cdna(const GpuProblem& p) { return find_hip(p.gpu.arch)->wave == 64; }
bool on_rdna(const GpuProblem& p) { return find_hip(p.gpu.arch)->wave == 32; }

std::vector<GpuGemmConfig> hip_simt_configurations(const GpuProblem& p) {
  std::vector<GpuGemmConfig> all = simt_configurations_within(p, hip_grid_threads);
  for (GpuGemmConfig& config : all) config.lanes = hip_lanes(p.epilogue);
  return all;
}
std::optional<Rejection> refuse_hip_simt(const GpuProblem& p) {
  if (!hip_simt_configurations(p).empty()) return std::nullopt;
  return hip_rejection(GpuFamily::Simt, diag::Code::family_size,
                       fmt::format("{} x {} in {} batch items are more tiles than a grid of {} threads computes",
                                   p.shape.m, p.shape.n, p.shape.batch, hip_grid_threads));
}
Mainloop hip_simt_mainloop(const GpuProblem& p, const GpuGemmConfig& c) {
  const HipArchitecture& arch = *find_hip(p.gpu.arch);
  Mainloop loop = simt_mainloop(p, c);
  double lanes = 128;
  if (c.accumulator == DType::f64) lanes = arch.vector_f64;
  if (c.accumulator == DType::i32) lanes = 32;
  if (c.accumulator == DType::i64) lanes = 8;
  constexpr double efficiency = 0.35;  // of shared memory, which gives half of what the multiply-adds could take
  const int64_t slice = (p.shape.k + c.k_split - 1) / c.k_split;
  const auto k = static_cast<double>((slice + c.tile_k - 1) / c.tile_k * c.tile_k);
  loop.clocks = c.tile_m * c.tile_n * k / lanes / efficiency + 40 * k / c.tile_k;
  loop.bytes = k * static_cast<double>(c.tile_m * types::byte_size(c.a_dtype) + c.tile_n * types::byte_size(c.b_dtype));
  add_making(p, c, k, loop);
  loop.note = fmt::format("{} multiply-adds a clock at {:.0f} %", lanes, 100 * efficiency);
  return loop;
}

std::optional<Rejection> refuse_mfma(const GpuProblem& p) { return refuse_hip_matrix(mfma_family(), p); }
std::optional<Rejection> refuse_wmma(const GpuProblem& p) { return refuse_hip_matrix(wmma_family(), p); }
std::vector<GpuGemmConfig> mfma_configurations(const GpuProblem& p) {
  return hip_matrix_configurations(mfma_family(), p);
}
std::vector<GpuGemmConfig> wmma_configurations(const GpuProblem& p) {
  return hip_matrix_configurations(wmma_family(), p);
}

constexpr std::array hip_table{
    GpuFamilyInfo{GpuFamily::Simt, always, refuse_hip_simt, hip_simt_configurations, hip_simt_mainloop},
    GpuFamilyInfo{GpuFamily::Mfma, on_cdna, refuse_mfma, mfma_configurations, hip_matrix_mainloop},
    GpuFamilyInfo{GpuFamily::Wmma, on_rdna, refuse_wmma, wmma_configurations, hip_matrix_mainloop},
};

}  // namespace

std::span<const HipArchitecture> hip_architectures() { return architectures(); }

const HipArchitecture* find_hip(std::string_view arch) {
  const auto found = std::find_if(architectures().begin(), architectures().end(),
                                  [&](const HipArchitecture& a) { return a.facts.arch == arch; });
  return found == architectures().end() ? nullptr : &*found;
}

std::string hip_names() {
  std::string text;
  for (size_t i = 0; i < architectures().size(); ++i)
    text += (i == 0 ? "" : i + 1 == architectures().size() ? " and " : ", ") + architectures()[i].facts.arch;
  return text;
}

std::span<const GpuFamilyInfo> hip_families() { return hip_table; }

Rejection hip_rejection(GpuFamily family, diag::Code code, std::string text) {
  return {static_cast<uint16_t>(code), fmt::format("hip_{}", package::name_of(family)), std::move(text), {}};
}

int hip_lanes(const package::EpilogueProgram& epilogue) {
  constexpr double much = 24;  // clocks an element: a compute unit then finishes less than three in one
  double most = 0;
  for (uint32_t phase = 0; phase < epilogue.phases.size(); ++phase)
    most = std::max(most, phase_clocks(epilogue, phase));
  return most > much ? 2 : 4;
}

std::string hip_kernel_name(const GpuGemmConfig& c, std::string_view arch) {
  std::string name = fmt::format("hip_{}_{}x{}x{}", package::name_of(c.family), c.tile_m, c.tile_n, c.tile_k);
  if (c.k_split > 1) name += fmt::format("_k{}", c.k_split);
  return fmt::format("{}_{}", name, arch);
}

}  // namespace codetta::plan
