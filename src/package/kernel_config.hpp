// SPDX-License-Identifier: Apache-2.0
// The configuration of a kernel, whatever its backend.
#pragma once

#include <variant>

#include "package/cpu_gemm.hpp"
#include "package/cuda_gemm.hpp"

namespace codetta::package {

using KernelConfig = std::variant<CpuGemmConfig, CudaGemmConfig>;

// The caller knows the backend (of the package's or the discovery's target).
inline const CpuGemmConfig& cpu(const KernelConfig& config) { return *std::get_if<CpuGemmConfig>(&config); }
inline const CudaGemmConfig& cuda(const KernelConfig& config) { return *std::get_if<CudaGemmConfig>(&config); }

DType a_dtype(const KernelConfig& config);
DType b_dtype(const KernelConfig& config);
DType accumulator(const KernelConfig& config);
std::string_view family_name(const KernelConfig& config);

}  // namespace codetta::package
