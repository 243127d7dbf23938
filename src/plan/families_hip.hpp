// SPDX-License-Identifier: Apache-2.0
// The HIP families as data: what each refuses, the configurations it offers, and how its main loop runs; and the
// geometry that a configuration implies, which emit/ prints and device/hip computes once more.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/families_cuda.hpp"

namespace codetta::plan {

// The architectures that kernels are made for: what the cost model assumes of each, and its units' rates.
struct HipArchitecture {
  GpuFacts facts;     // of the usual product; a "multiprocessor" is a compute unit
  int wave = 64;      // threads that run together
  int registers = 0;  // vector registers of 32 bits that a lane can have
  // Multiply-adds a clock of a compute unit: of vectors in f32 and f64; of matrices in 16 bits, 8 bits, f32 and f64, 0
  // where there is no instruction.
  double vector_f32 = 0, vector_f64 = 0, matrix_16 = 0, matrix_8 = 0, matrix_f32 = 0, matrix_f64 = 0;
};
std::span<const HipArchitecture> hip_architectures();
const HipArchitecture* find_hip(std::string_view arch);  // null: none of them
std::string hip_names();                                 // "gfx90a, gfx942, gfx1100 and gfx1201"

inline constexpr int64_t lds_limit = 64 << 10;           // bytes of a block, on all of them
inline constexpr int64_t hip_grid_threads = UINT32_MAX;  // of a grid along x

std::span<const GpuFamilyInfo> hip_families();  // as cuda_families()
// "hip_mfma_128x128x64_gfx942"
std::string hip_kernel_name(const GpuGemmConfig& config, std::string_view arch);
Rejection hip_rejection(GpuFamily family, diag::Code code, std::string text);

// What a matrix family is made of (device/hip/kernels/product.h).
struct HipTile {
  int32_t m, n, waves;
};
struct HipMatrixFamily {
  GpuFamily family;
  std::span<const HipTile> tiles;
  int piece_pad;  // accumulators between the rows of a piece
  // Words of a row that a lane holds for one step, for elements of so many bytes.
  int (*lane_words)(const HipArchitecture&, int64_t element);
  // Bytes of K in a step.
  int (*step_bytes)(const HipArchitecture&, int64_t element);
  // Why the dtypes are none of the instruction's.
  std::optional<std::string> (*no_instruction)(const GemmShape&, const HipArchitecture&);
};
const HipMatrixFamily& mfma_family();
const HipMatrixFamily& wmma_family();
const HipMatrixFamily& hip_matrix_family(GpuFamily family);  // of Mfma and Wmma

// Columns of a row that a thread of an epilogue holds. Behind some work loads and stores of half the width cost
// nothing, and Clang takes a tenth to a seventh less time for half the code.
int hip_lanes(const package::EpilogueProgram& epilogue);

// LDS of a block in bytes, the same number as Shape::shared_bytes of device/hip/kernels/product.h.
int64_t hip_shared_bytes(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config);
// An estimate of a lane's vector registers, fitted to what Clang 19 makes of 184 WMMA configurations of bf16: all 24
// of those that spill are above 256 by it, and 2 of the others; of bytes an occasional one that spills is below.
// `problem`: which factors are made, and of what.
int hip_registers(const HipMatrixFamily& family, const HipArchitecture& arch, const GpuGemmConfig& config,
                  const GpuProblem& problem);

std::optional<Rejection> refuse_hip_matrix(const HipMatrixFamily& family, const GpuProblem& problem);
std::vector<GpuGemmConfig> hip_matrix_configurations(const HipMatrixFamily& family, const GpuProblem& problem);
Mainloop hip_matrix_mainloop(const GpuProblem& problem, const GpuGemmConfig& config);

}  // namespace codetta::plan
