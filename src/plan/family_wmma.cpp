// SPDX-License-Identifier: Apache-2.0
// Matrix instructions of RDNA 3 and 4 (device/hip/kernels/wmma.h): waves of 32. On gfx11 every lane of a half holds all
// of K of an instruction.
#include <fmt/format.h>

#include <array>

#include "plan/families_hip.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr std::array wmma_tiles{HipTile{128, 128, 8}, HipTile{128, 64, 4}, HipTile{64, 128, 4}, HipTile{64, 96, 4},
                                HipTile{64, 64, 4},   HipTile{32, 128, 4}, HipTile{64, 32, 4},  HipTile{32, 64, 4},
                                HipTile{16, 128, 4},  HipTile{16, 64, 4}};

bool of_bytes(DType d) { return d == DType::i8 || d == DType::u8; }

std::optional<std::string> no_wmma(const GemmShape& s, const HipArchitecture& arch) {
  if (s.a == s.b && s.accumulator == DType::f32 && (s.a == DType::bf16 || s.a == DType::f16)) return {};
  if (of_bytes(s.a) && of_bytes(s.b) && s.accumulator == DType::i32) return {};
  return fmt::format("no WMMA instruction that kernels for {} use multiplies {} x {} into {}", arch.facts.arch,
                     dtype_name(s.a), dtype_name(s.b), dtype_name(s.accumulator));
}

bool repeats(const HipArchitecture& arch) { return arch.facts.arch.starts_with("gfx11"); }
int words_of_lane(const HipArchitecture& arch, int64_t element) { return repeats(arch) && element == 2 ? 8 : 4; }
int bytes_of_step(const HipArchitecture& arch, int64_t element) {
  return repeats(arch) ? 4 * words_of_lane(arch, element) : 32;
}

}  // namespace

const HipMatrixFamily& wmma_family() {
  static constexpr HipMatrixFamily family{GpuFamily::Wmma, wmma_tiles, 16, words_of_lane, bytes_of_step, no_wmma};
  return family;
}

}  // namespace codetta::plan
