// SPDX-License-Identifier: Apache-2.0
// Running a package in this process. prepare = everything that can fail or allocate; run() only computes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "codetta/threads.hpp"
#include "device/cpu/abi.h"
#include "package/package.hpp"

namespace codetta::runtime {

namespace cpu {
class Module;  // a loaded shared object (cpu/module.hpp)

// Packed weights: what cpu::pack_b wrote (header and panels), 64-byte aligned.
struct PackedB {
  Tensor bytes;  // u8
};
}  // namespace cpu

// How one kernel of the package runs: compiled (module kept alive), interpreted (no module), or stored by the engine
// itself (plain D = accum).
struct KernelEntry {
  std::shared_ptr<const cpu::Module> module;
  codetta::cpu::EpilogueFunction function = nullptr;
  codetta::cpu::FusedFunction fused = nullptr;  // instead, for kernels of the fused family
};

// What the caller binds, by package buffer: tensors for tensor arguments and outputs, values for scalars.
struct Bindings {
  std::vector<TensorView> tensors;                            // by buffer index; unused for scalars and temporaries
  std::vector<codetta::cpu::ScalarValue> scalars;             // by buffer index
  std::vector<std::shared_ptr<const cpu::PackedB>> packed_b;  // by kernel; null = B as it lies
};

struct ExecutionOptions {
  ThreadPool* pool = nullptr;      // required
  Allocator* allocator = nullptr;  // required
  bool checked = true;             // overlap and guard checks
};

// Belongs to one thread at a time. Bound pointers must stay valid while it is used.
class Execution {
 public:
  // Resolves symbols, evaluates guards (E0610), checks overlaps (E0613), sizes and allocates the workspace (E0606).
  static Result<Execution> make(package::PackageRef package, std::vector<KernelEntry> kernels, Bindings bindings,
                                const ExecutionOptions& options);
  Execution(Execution&&) noexcept;
  Execution& operator=(Execution&&) noexcept;
  ~Execution();

  void run();
  // On another pool of at most as many threads as that of ExecutionOptions; the same bits.
  void run(ThreadPool& pool);
  [[nodiscard]] int64_t workspace_size() const;
  Result<void> set_workspace(void* memory, int64_t bytes);  // E0604, E0605, E0611
  [[nodiscard]] bool interpreted() const;

 private:
  struct State;
  explicit Execution(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace codetta::runtime
