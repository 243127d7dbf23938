// SPDX-License-Identifier: Apache-2.0
// The configuration of a kernel, whatever its backend.
#pragma once

#include <variant>

#include "package/cpu_gemm.hpp"
#include "package/gpu_gemm.hpp"
#include "package/map_config.hpp"
#include "package/vendor_gemm.hpp"

namespace codetta::package {

// A kernel whose source the user gives: one call does all of it, over the arguments of its EpilogueProgram, which says
// nothing else.
struct CpuUserConfig {
  bool operator==(const CpuUserConfig&) const = default;
};

// The same on a GPU: a __global__ function of the user's, the symbol of the kernel's one entry. LaunchOptions say how
// it is launched. It takes the arguments in order (addresses of elements, numbers by value, tensor maps), then
// LaunchOptions::sizes. With a hook, a result that the EpilogueProgram is made of, some of both are one parameter.
struct GpuUserConfig {
  int32_t choice = 0;                          // which configuration of the source, counted from 0
  int32_t narrow = 0;                          // bit i: LaunchOptions::sizes[i] is passed in 32 bits, else in 64
  int32_t hook = -1;                           // which parameter is the hook; -1: none
  int32_t hook_first = 0, hook_arguments = 0;  // the arguments in it
  int32_t hook_sizes = 0;                      // behind these the last ones of LaunchOptions::sizes
  bool operator==(const GpuUserConfig&) const = default;
};
inline constexpr size_t max_user_sizes = 31;  // of one launch, without those of a hook

// File forms number these by position: append only.
using KernelConfig = std::variant<CpuGemmConfig, GpuGemmConfig, CpuMapConfig, GpuMapConfig, CpuUserConfig,
                                  CudaVendorConfig, GpuUserConfig>;

// The caller knows the backend (of the package's or the discovery's target).
inline const CpuGemmConfig& cpu(const KernelConfig& config) { return *std::get_if<CpuGemmConfig>(&config); }
inline const GpuGemmConfig& gpu(const KernelConfig& config) { return *std::get_if<GpuGemmConfig>(&config); }

inline const GpuUserConfig& gpu_user(const KernelConfig& config) { return *std::get_if<GpuUserConfig>(&config); }
inline const CpuMapConfig& cpu_map(const KernelConfig& config) { return *std::get_if<CpuMapConfig>(&config); }
inline const GpuMapConfig& gpu_map(const KernelConfig& config) { return *std::get_if<GpuMapConfig>(&config); }

// The pieces of a map as those of a product: its phases are emitted and launched as a product's later ones are.
GpuGemmConfig pieces_of(const GpuMapConfig& config);

// Whether the kernel is launched without a product.
inline bool is_user(const KernelConfig& config) {
  return std::holds_alternative<CpuUserConfig>(config) || std::holds_alternative<GpuUserConfig>(config);
}
inline bool is_map(const KernelConfig& config) {
  return std::holds_alternative<CpuMapConfig>(config) || std::holds_alternative<GpuMapConfig>(config) ||
         is_user(config);
}
// Computed by a library of the vendor's: nothing is emitted, compiled or loaded.
inline bool is_vendor(const KernelConfig& config) { return std::holds_alternative<CudaVendorConfig>(config); }
inline bool is_gpu(const KernelConfig& config) {
  return std::holds_alternative<GpuGemmConfig>(config) || std::holds_alternative<GpuMapConfig>(config) ||
         std::holds_alternative<GpuUserConfig>(config) || is_vendor(config);
}
// Of products only; f32 for maps, which have none.
DType a_dtype(const KernelConfig& config);
DType b_dtype(const KernelConfig& config);
DType accumulator(const KernelConfig& config);
std::string_view family_name(const KernelConfig& config);  // "map" for maps

}  // namespace codetta::package
