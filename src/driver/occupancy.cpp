// SPDX-License-Identifier: Apache-2.0
// Occupancy by shared memory, threads and registers, as the hardware allocates them.
#include "driver/occupancy.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "plan/families_cuda.hpp"

namespace codetta::driver {
namespace {

constexpr int64_t registers_per_sm = 65536, register_unit = 256;  // of a warp
constexpr int64_t reserved_shared = 1024;                         // of a block, by the system, since 8.0

// What holds a block of AMD's (LLVM 19, AMDGPUBaseInfo: waves of a SIMD, vector registers of its lanes, in what
// portions they are given out): a compute unit, or on RDNA a work-group processor, which is two of them with one LDS,
// as Clang compiles unless it is told -mcumode.
struct Unit {
  const char* name;
  int64_t compute_units, wave, simds, waves, registers, portion;
};
constexpr Unit cdna{"compute unit", 1, 64, 4, 8, 512, 8}, rdna{"work-group processor", 2, 32, 4, 16, 1536, 24};
bool is_amd(const plan::GpuFacts& gpu) { return gpu.arch.starts_with("gfx"); }
const Unit& unit_of(const plan::GpuFacts& gpu) { return gpu.arch.starts_with("gfx9") ? cdna : rdna; }

struct Limits {
  int64_t threads, blocks;
};
Limits limits_of(const std::string& arch) {
  int number = 0;
  const size_t digits = std::min<size_t>(arch.size(), 3);
  std::from_chars(arch.data() + digits, arch.data() + arch.size(), number);
  if (number < 80) return {1024, 16};
  if (number == 80 || (number >= 90 && number < 110)) return {2048, 32};
  return {1536, number == 86 || number == 87 ? 16 : 24};
}

}  // namespace

Occupancy occupancy(const package::GpuGemmConfig& config, const plan::GemmShape& shape, int64_t ways,
                    const plan::GpuFacts& gpu, const std::vector<toolchain::PtxasRemarks>& remarks) {
  const bool amd = is_amd(gpu);
  const Unit& unit = unit_of(gpu);
  const int64_t lanes = amd ? unit.wave : 32;
  const Limits limits =
      amd ? Limits{unit.simds * unit.waves * unit.wave, unit.simds * unit.waves} : limits_of(gpu.arch);
  Occupancy result;
  result.warps_max = limits.threads / lanes;
  const int64_t warps = base::ceil_div<int64_t>(std::max(config.threads, 1), lanes);
  int64_t static_shared = 0;
  for (const toolchain::PtxasRemarks& kernel : remarks) {
    if (kernel.kernel != "codetta_gemm" && remarks.size() > 1) continue;
    result.registers = kernel.registers;
    static_shared = kernel.shared_bytes;
  }
  const auto limit = [&](int64_t blocks, const char* by) {
    if (!result.limited_by.empty() && blocks >= result.blocks) return;
    result.blocks = blocks;
    result.limited_by = by;
  };
  limit(limits.blocks, "blocks");
  limit(limits.threads / (warps * lanes), "threads");
  if (amd) {  // all LDS is static; the configuration knows that of the matrix families before they are compiled
    const int64_t lds = std::max<int64_t>(config.shared_bytes, static_shared);
    if (lds > 0) limit(unit.compute_units * gpu.shared_per_sm / lds, "LDS");
    if (result.registers > 0)
      limit(unit.simds * (unit.registers / (base::ceil_div<int64_t>(result.registers, unit.portion) * unit.portion)) /
                warps,
            "registers");
  } else {
    limit(gpu.shared_per_sm / (config.shared_bytes + static_shared + reserved_shared), "shared memory");
  }
  if (result.registers > 0 && !amd) {
    const int64_t of_warp = base::ceil_div<int64_t>(int64_t{result.registers} * 32, register_unit) * register_unit;
    limit(registers_per_sm / of_warp / warps, "registers");
  }
  result.warps = result.blocks * warps;
  const int64_t cols = shape.n / std::max<int64_t>(ways, 1), tile_cols = std::max<int64_t>(config.tile_n / ways, 1);
  const plan::GemmShape seen = plan::spread_rows(shape, config.spread_a);
  result.tiles = base::ceil_div<int64_t>(seen.m, std::max(config.tile_m, 1)) *
                 base::ceil_div<int64_t>(cols, tile_cols) * seen.batch * std::max(config.k_split, 1);
  const int64_t units = amd ? gpu.sms / unit.compute_units : gpu.sms;
  const int64_t at_once = std::max<int64_t>(result.blocks, 1) * std::max<int64_t>(units, 1);
  result.waves = static_cast<double>(result.tiles) / static_cast<double>(at_once);
  return result;
}

std::string to_string(const Occupancy& o, const package::GpuGemmConfig& config, const plan::GpuFacts& gpu) {
  const bool amd = is_amd(gpu);
  std::string out = fmt::format("  {} threads and {} bytes of {} a block, {} stages of K = {}\n", config.threads,
                                config.shared_bytes, amd ? "LDS" : "shared memory", config.stages, config.tile_k);
  out += fmt::format("  {} block{} a {} (limit: {}), {} of {} {}\n", o.blocks, o.blocks == 1 ? "" : "s",
                     amd ? unit_of(gpu).name : "multiprocessor", o.limited_by, o.warps, o.warps_max,
                     amd ? "waves" : "warps");
  out += o.registers > 0 ? fmt::format("  {} registers a thread\n", o.registers)
                         : std::string("  registers: known once the kernel is compiled\n");
  out += fmt::format("  {} tiles of {} x {} on {} {}: {:.2f} {}\n", o.tiles, config.tile_m, config.tile_n,
                     amd ? gpu.sms / unit_of(gpu).compute_units : gpu.sms,
                     amd ? std::string(unit_of(gpu).name) + "s" : "multiprocessors", o.waves, amd ? "rounds" : "waves");
  return out;
}

}  // namespace codetta::driver
