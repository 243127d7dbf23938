// SPDX-License-Identifier: Apache-2.0
// One LaunchKernel step resolved to an engine call.
#pragma once

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "package/package.hpp"
#include "runtime/checks.hpp"
#include "runtime/cpu/gemm.hpp"
#include "runtime/cpu/tape.hpp"
#include "runtime/execution.hpp"

namespace codetta::runtime {

class Launch {
 public:
  // Errors: E0610 when packed weights don't fit the kernel and sizes.
  static Result<Launch> make(const package::Package& package, const package::LaunchKernel& step, const Bindings& bindings,
                             const KernelEntry& entry, const Symbols& symbols, int threads);
  // Recomputes every address from the bindings' views.
  void resolve(const Bindings& bindings);
  void run(ThreadPool* pool, void* workspace) {
    if (plain_) {
      cpu::run(config_, problem_, store_, pool, workspace);
    } else {
      cpu::run(config_, problem_, call_, pool, workspace);
    }
  }
  [[nodiscard]] bool interpreted() const { return tape_ != nullptr; }

  size_t workspace_bytes = 0;

 private:
  const package::LaunchKernel* step_ = nullptr;
  const package::EpilogueProgram* program_ = nullptr;
  package::CpuGemmConfig config_;
  cpu::GemmProblem problem_;
  bool plain_ = false;
  cpu::StoreTile store_;
  cpu::EpilogueCall call_;
  std::unique_ptr<cpu::Tape> tape_;
  std::shared_ptr<const cpu::Module> module_;
  // Stable addresses: call_ points into these.
  std::vector<codetta::cpu::Operand> operands_;
  std::vector<codetta::cpu::ScalarValue> scalars_;
  std::vector<cpu::Phase> phases_;
  std::vector<cpu::Reduction> reductions_;
};

}  // namespace codetta::runtime
