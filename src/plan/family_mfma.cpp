// SPDX-License-Identifier: Apache-2.0
// Matrix instructions of CDNA (device/hip/kernels/mfma.h): waves of 64, 64 bytes of K a step.
#include <fmt/format.h>

#include <array>

#include "plan/families_hip.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr std::array mfma_tiles{HipTile{256, 128, 4}, HipTile{128, 256, 4}, HipTile{128, 128, 4}, HipTile{128, 96, 4},
                                HipTile{128, 64, 4},  HipTile{64, 128, 4},  HipTile{64, 64, 4},   HipTile{32, 128, 4},
                                HipTile{64, 32, 4},   HipTile{32, 64, 4},   HipTile{16, 128, 4},  HipTile{16, 64, 4}};

std::optional<std::string> no_mfma(const GemmShape& s, const HipArchitecture& arch) {
  const bool float8 = s.a == DType::f8e4m3 || s.a == DType::f8e5m2 || s.b == DType::f8e4m3 || s.b == DType::f8e5m2;
  if (float8 && arch.facts.arch == "gfx942") {
    return "gfx942 multiplies 8-bit floats of another kind (FNUZ: other exponent biases, one NaN and no -0); those of "
           "OCP go through f32";
  }
  const bool same = s.a == s.b;
  if (same && s.accumulator == DType::f32 && (s.a == DType::bf16 || s.a == DType::f16 || s.a == DType::f32)) return {};
  if (same && s.a == DType::i8 && s.accumulator == DType::i32) return {};
  if (same && s.a == DType::f64 && s.accumulator == DType::f64) return {};
  return fmt::format("no MFMA instruction of {} multiplies {} x {} into {}", arch.facts.arch, dtype_name(s.a),
                     dtype_name(s.b), dtype_name(s.accumulator));
}

}  // namespace

const HipMatrixFamily& mfma_family() {
  static constexpr HipMatrixFamily family{GpuFamily::Mfma,
                                          mfma_tiles,
                                          4,
                                          [](const HipArchitecture&, int64_t) { return 4; },
                                          [](const HipArchitecture&, int64_t) { return 64; },
                                          no_mfma};
  return family;
}

}  // namespace codetta::plan
