// SPDX-License-Identifier: Apache-2.0
// One LaunchKernel step of a CUDA package resolved to driver launches.
#pragma once

#include <string>
#include <vector>

#include "device/gpu/abi.h"
#include "runtime/cuda/device.hpp"
#include "runtime/execution.hpp"
#include "runtime/operands.hpp"

namespace codetta::runtime::cuda {

// The sizes that a configuration and a problem give together; the workspace is laid out from them.
struct Geometry {
  codetta::gpu::Problem problem{};  // without addresses
  int64_t blocks = 0;               // of the product's grid, before persistence; whole clusters
  bool empty = false;               // no element in the root space
};

class Launch {
 public:
  // Looks the entries up, allows their shared memory, checks views, alignment and grid.
  // Errors: E0610 a bound tensor does not fit its declaration, the sizes or what the kernel relies on, E0509, E0650.
  static Result<Launch> make(const package::Package& package, const package::LaunchKernel& step,
                             const Bindings& bindings, ModuleRef module, const Symbols& symbols);
  // Writes the parameters for these addresses; `workspace` has workspace_bytes at a multiple of 256. Errors: E0649.
  Result<void> resolve(const Bindings& bindings, DeviceAddress workspace);
  // Enqueues the entries in order; allocates nothing. The device's context is current.
  [[nodiscard]] Status run(StreamHandle stream) const;
  // Bytes at the workspace's begin, of counters and of a 0 to read, that are zero before the first run; every run
  // leaves them zero.
  [[nodiscard]] int64_t counter_bytes() const { return counter_bytes_; }
  [[nodiscard]] const std::string& name() const { return kernel_->name; }

  int64_t workspace_bytes = 0;

 private:
  struct Entry {
    Function function;
    LaunchConfig config{};
    std::vector<LaunchAttribute> attributes;
    bool skipped = false;  // nothing to do for an empty problem
    bool packs = false;    // gets packing_ instead of parameters_
  };
  Launch() = default;
  Result<void> plan_nothing(const Bindings& bindings);
  void plan_packing(const Bindings& bindings);
  Result<void> plan_workspace();
  Result<void> plan_entries();
  Result<void> check_factors(const Bindings& bindings) const;
  Result<void> encode(const package::CudaTensorMap& map, const Bindings& bindings, TensorMap& encoded) const;

  const package::Kernel* kernel_ = nullptr;
  package::GpuGemmConfig config_;  // of a map: its pieces
  const package::Package* package_ = nullptr;
  const package::LaunchKernel* step_ = nullptr;
  ModuleRef module_;
  Geometry geometry_;
  std::vector<OperandPlan> plans_;
  std::vector<Entry> entries_;
  std::vector<std::byte> parameters_;  // Params of device/gpu/abi.h
  codetta::gpu::PackParams packing_{};
  int64_t packed_at_[2] = {-1, -1};  // A, B: offsets in the workspace; -1: read where they lie
  int64_t counter_bytes_ = 0;
  int64_t gemm_blocks_ = 0;                                 // of a persistent product's grid
  int64_t counters_at_ = -1, zero_at_ = -1;                 // within them; -1: not there
  int64_t accumulators_at_ = -1, slices_at_ = -1;           // offsets in the workspace; -1: not there
  std::vector<std::pair<int64_t, int64_t>> reductions_at_;  // partials, results
};

}  // namespace codetta::runtime::cuda
