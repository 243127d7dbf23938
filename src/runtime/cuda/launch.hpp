// SPDX-License-Identifier: Apache-2.0
// One LaunchKernel step of a CUDA package resolved to driver launches. What grids, workspace and parameters are is said
// in device/host/gpu_plan.h, which emitted host text uses as well.
#pragma once

#include <string>
#include <vector>

#include "device/host/gpu_plan.h"
#include "runtime/cuda/device.hpp"
#include "runtime/execution.hpp"
#include "runtime/operands.hpp"

namespace codetta::runtime::cuda {

// A package's kernel as the tables of device/host/gpu_plan.h, which point into this object and into the kernel.
class KernelTables {
 public:
  KernelTables() = default;
  KernelTables(const package::Kernel& kernel, bool has_product);
  KernelTables(KernelTables&&) noexcept = default;  // elements of vectors stay where they are
  KernelTables& operator=(KernelTables&&) noexcept = default;
  [[nodiscard]] const codetta::gpu::host::Kernel& get() const { return kernel_; }

 private:
  std::vector<codetta::gpu::host::Entry> entries_;
  std::vector<codetta::gpu::host::Map> maps_;
  std::vector<codetta::gpu::host::Reduction> reductions_;
  std::vector<codetta::gpu::host::OperandFacts> operands_;
  codetta::gpu::host::Kernel kernel_{};
};

// A trouble of device/host/gpu_plan.h as a diagnostic.
Error error_of(const codetta::gpu::host::Trouble& trouble);

// What a launch takes of the workspace.
struct LaunchRoom {
  int64_t workspace_bytes = 0, counter_bytes = 0;
  bool estimated = false;  // how many blocks a device holds at once decides it
};

class Launch {
 public:
  // Looks the entries up, allows their shared memory, checks views, alignment and grid.
  // Errors: E0610 a bound tensor does not fit its declaration, the sizes or what the kernel relies on, E0509, E0650.
  // `unaligned` is set where another kernel of the program may do.
  static Result<Launch> make(const package::Package& package, const package::LaunchKernel& step,
                             const Bindings& bindings, ModuleRef module, const Symbols& symbols, bool& unaligned);
  // The same without a device: what such a launch takes, of one with so many multiprocessors, each of which holds a
  // block where that decides it. Errors: E0610.
  static Result<LaunchRoom> room(const package::Package& package, const package::LaunchKernel& step,
                                 const Bindings& bindings, const Symbols& symbols, int multiprocessors);
  // What make() says of sizes and tensors, without a device; `unaligned` as there.
  static Result<void> check(const package::Package& package, const package::LaunchKernel& step,
                            const Bindings& bindings, const Symbols& symbols, bool& unaligned);
  // Writes the parameters for these addresses; `counters` has counter_bytes() and `workspace` workspace_bytes, at
  // multiples of 256. Errors: E0649; `unaligned` as above.
  Result<void> resolve(const Bindings& bindings, DeviceAddress counters, DeviceAddress workspace, bool& unaligned);
  // Enqueues the entries in order; allocates nothing. The device's context is current. `enqueued` is set where one was,
  // also when a later one fails.
  [[nodiscard]] Status run(StreamHandle stream, bool& enqueued) const;
  // Bytes of counters and of a 0 to read, that are zero before the first run; every run leaves them zero.
  [[nodiscard]] int64_t counter_bytes() const { return plan_.counter_bytes; }
  [[nodiscard]] const std::string& name() const { return kernel_->name; }

  // Why it cannot run, though a branch or a loop around it may never come to it: E0618, elements are taken by indices
  // out of what has none, since each index is out of range then.
  std::optional<Error> gathers_nothing;
  int64_t workspace_bytes = 0;
  uint32_t on_device = 0;   // of the package: whose workspace
  int64_t counters_at = 0;  // and those, behind the temporaries

 private:
  struct Entry {
    Function function;
    LaunchConfig config{};
    std::vector<LaunchAttribute> attributes;
    bool skipped = false;  // nothing to do for an empty problem
    bool packs = false;    // gets the packing in place of parameters_
  };
  Launch() = default;
  static Result<Launch> planned(const package::Package& package, const package::LaunchKernel& step,
                                const Bindings& bindings, const Symbols& symbols, bool& unaligned);
  Result<void> plan_workspace(bool zero);
  bool needs_zero(const Bindings& bindings);
  Result<void> plan_entries();
  // Empty where the kernel makes it; of several products that of the first.
  [[nodiscard]] codetta::gpu::host::Factor factor(const Bindings& bindings, bool is_a) const;
  [[nodiscard]] codetta::gpu::host::Factor factor_b(const Bindings& bindings, size_t product) const;
  [[nodiscard]] codetta::gpu::host::Factor factor_at(const Bindings& bindings, uint32_t buffer, bool is_a,
                                                     const FactorPlan& seen) const;
  [[nodiscard]] std::vector<codetta::gpu::Operand> operands(const Bindings& bindings) const;
  [[nodiscard]] const TensorView& bound(const package::Operand& operand, const Bindings& bindings) const {
    return bindings.tensors[step_->arguments[operand.argument]];
  }

  const package::Kernel* kernel_ = nullptr;
  const package::Package* package_ = nullptr;
  const package::LaunchKernel* step_ = nullptr;
  ModuleRef module_;
  KernelTables tables_;
  codetta::gpu::host::Plan plan_;
  std::vector<OperandPlan> plans_;
  std::vector<int64_t> sizes_;
  FactorPlan a_plan_;
  std::vector<FactorPlan> b_plans_;  // by product
  std::vector<Entry> entries_;
  std::vector<std::byte> parameters_;                   // Params of device/gpu/abi.h
  std::vector<codetta::gpu::host::Reserved> reserved_;  // by reduction
};

}  // namespace codetta::runtime::cuda
