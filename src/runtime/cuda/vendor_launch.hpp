// SPDX-License-Identifier: Apache-2.0
// One LaunchKernel step whose product cuBLASLt computes.
#pragma once

#include <optional>
#include <string>

#include "runtime/cuda/cublaslt.hpp"
#include "runtime/execution.hpp"
#include "runtime/operands.hpp"

namespace codetta::runtime::cuda {

class VendorLaunch {
 public:
  // Checks views and scalars, and asks the library for its proposals. Errors: E0610 a bound tensor or number does not
  // fit what the library computes, E0533 it has no proposal of this rank for these sizes, E0652, E0645.
  static Result<VendorLaunch> make(const package::Package& package, const package::LaunchKernel& step,
                                   const Bindings& bindings, const CublasLtHandleRef& handle, const Symbols& symbols);
  // Binds these addresses; `workspace` has workspace_bytes at a multiple of 256. Errors: E0652.
  Result<void> resolve(const Bindings& bindings, DeviceAddress workspace);
  // Enqueues; allocates nothing. The device's context is current.
  [[nodiscard]] Result<void> run(StreamHandle stream) const;
  [[nodiscard]] const std::string& name() const { return kernel_->name; }

  int64_t workspace_bytes = 0;
  uint32_t on_device = 0;  // of the package: whose workspace

 private:
  VendorLaunch() = default;
  [[nodiscard]] codetta::cpu::Operand operand(int32_t index, const Bindings& bindings) const;
  [[nodiscard]] double scalar(int32_t argument, double otherwise, const Bindings& bindings) const;
  [[nodiscard]] package::VendorProblem describe(const Bindings& bindings) const;

  const package::Kernel* kernel_ = nullptr;
  const package::LaunchKernel* step_ = nullptr;
  const package::CudaVendorConfig* config_ = nullptr;
  std::vector<OperandPlan> plans_;
  int64_t batch_ = 1, m_ = 0, n_ = 0, k_ = 0;
  std::optional<VendorProduct> product_;  // none: no element is written
  void* workspace_ = nullptr;
};

}  // namespace codetta::runtime::cuda
