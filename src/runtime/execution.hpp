// SPDX-License-Identifier: Apache-2.0
// Running a package in this process. prepare = everything that can fail or allocate; run() only computes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "codetta/extern.h"
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
  CodettaExtern user = nullptr;                 // instead, for kernels of the user's
};

// What the caller binds, by package buffer: tensors for tensor arguments and outputs, values for scalars.
struct Bindings {
  std::vector<TensorView> tensors;                            // by buffer index; unused for scalars and temporaries
  std::vector<codetta::cpu::ScalarValue> scalars;             // by buffer index
  std::vector<std::shared_ptr<const cpu::PackedB>> packed_b;  // by kernel; null = B as it lies
  // With a place for everything, where nothing is bound.
  static Bindings of(const package::Package& package) {
    Bindings none;
    none.tensors.resize(package.buffers.size());
    none.scalars.resize(package.buffers.size());
    none.packed_b.resize(package.kernels.size());
    return none;
  }
};

// A function of the caller's by the name that CallExtern has. `context` is handed to it and must outlive the execution.
struct ExternFunction {
  std::string name;
  CodettaExtern function = nullptr;
  void* context = nullptr;
};

// A step that has ended. Nanoseconds count from the beginning of the run; those of a branch or a loop hold the steps
// within, which are told before it.
struct StepEvent {
  const package::Step* step = nullptr;  // of the execution's package
  int64_t begin_ns = 0, end_ns = 0;
  std::span<const TensorView> tensors;                      // by package buffer, as they are now
  const std::map<std::string, int64_t>* symbols = nullptr;  // as they are now
};

struct ExecutionOptions {
  ThreadPool* pool = nullptr;      // required
  Allocator* allocator = nullptr;  // required; outlives the execution
  bool checked = true;             // overlap, guard and content checks
  std::vector<ExternFunction> externs{};
  // External constants by name: a row-major view that outlives the execution, or nothing where there is none.
  std::function<std::optional<TensorView>(const std::string& name)> weights{};
  // Told of every step that has something to do in a run, in order, from the thread that runs; an error ends the run.
  std::function<Result<void>(const StepEvent&)> observer{};
  // Asked by make() of every such step: what is called before it runs, each time; nothing, for an empty one.
  std::function<std::function<void()>(const package::Step&)> starting{};
  // Set by a make() that fails because elements of a tensor's last dim, or of an A along K, lie apart, or leading dims
  // of a factor unevenly, which is asked of unchecked runs, too: a package that does not rely on it takes the tensor.
  // Null: not asked for.
  bool* unaligned = nullptr;
};

// Belongs to one thread at a time. Bound pointers must stay valid while it is used.
class Execution {
 public:
  // Resolves symbols, evaluates guards (E0610), checks overlaps (E0613), finds externs (E0616) and external constants
  // (E0615), sizes and allocates the workspace (E0606). A package with a defect is E0520.
  static Result<Execution> make(package::PackageRef package, std::vector<KernelEntry> kernels, Bindings bindings,
                                const ExecutionOptions& options);
  Execution(Execution&&) noexcept;
  Execution& operator=(Execution&&) noexcept;
  ~Execution();

  // Fails only where steps depend on what a run computes: symbols and checks of contents (E0610, E0618, E0619), externs
  // (E0617), loops (E0651), memory whose size is known then (E0606). Outputs are then partly written, and the execution
  // can run again.
  Result<void> run();
  // On another pool of at most as many threads as that of ExecutionOptions; the same bits.
  Result<void> run(ThreadPool& pool);
  // Without memory whose size only a run knows: that comes from the allocator, grows as needed and is kept.
  [[nodiscard]] int64_t workspace_size() const;
  Result<void> set_workspace(void* memory, int64_t bytes);  // E0604, E0605, E0611
  // What the last run that succeeded has filled of an output, by package buffer; all of the bound view where a run does
  // not compute its sizes.
  [[nodiscard]] Dims filled(uint32_t buffer) const;
  // Whether the last run came to a step that writes; one that failed before has left all memory as it was.
  [[nodiscard]] bool wrote() const;
  [[nodiscard]] bool interpreted() const;

 private:
  struct State;
  explicit Execution(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace codetta::runtime
