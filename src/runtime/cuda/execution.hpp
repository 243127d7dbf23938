// SPDX-License-Identifier: Apache-2.0
// Running a CUDA package in this process: the counterpart of runtime::Execution.
#pragma once

#include <memory>

#include "runtime/cuda/cublaslt.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/cuda/nvtx.hpp"
#include "runtime/execution.hpp"

namespace codetta::runtime::cuda {

// What a package takes from outside, beside what is bound: functions that it calls (codetta/extern.h), and constants of
// its weights file by name, as row-major tensors in host memory that are uploaded in make().
struct FromOutside {
  std::vector<ExternFunction> externs;
  std::function<std::optional<TensorView>(const std::string& name)> weights;
};

// Told of a step whose work is over: the stream of the run is idle, the device's context is current, and captures of
// other streams stay valid. The event's tensors lie where they are bound, temporaries in device memory.
using Observer = std::function<Result<void>(const StepEvent&, const Device&, StreamHandle)>;

struct GpuOptions {
  bool checked = true;             // overlaps, places and what the code relies on (E0610, E0613, E0648), and contents
  bool contents = true;            // of checked runs: kernels tell of indices out of range, and of numbers
  Allocator* allocator = nullptr;  // of workspaces; outlives them
  CublasLtHandleRef vendor{};      // for kernels of the vendor's library, which have no module
  DeviceRef device{};              // null: that of a module, or of `vendor`
  // The package's devices behind the first, in its order; one GPU may stand there more than once, and be the first,
  // too. Further ones than it has are not used.
  struct Further {
    DeviceRef device;
    std::vector<ModuleRef> modules{};  // by kernel, of this device; as those of make()
    CublasLtHandleRef vendor{};
  };
  std::vector<Further> further{};
  FromOutside outside{};
  // make() captures the steps on a stream of its own into one graph, which every run() then launches; set_workspace()
  // captures them again. Functions of the caller's are called while that is done, and not by run(). E0646: steps that
  // read device memory on the host, sizes that a run finds, an observer. A run on a stream that is being captured
  // enqueues the steps one by one, as without.
  bool graph = false;
  // As ExecutionOptions::observer. Then run() waits for each step, and can not be captured.
  Observer observer{};
  // Set by a make() that fails only because tensors are aligned less, or lie less densely, than a kernel relies on, or
  // because it lacks elements to compute what it stores beside them, which is asked of unchecked runs, too. Null: not
  // asked for.
  bool* unaligned = nullptr;
};

// Belongs to one stream at a time. Bound pointers must stay valid while it is used.
class Execution {
 public:
  static constexpr int64_t workspace_alignment = 256;
  // `modules` by kernel of the package, all of one device; null: of the vendor's library, or not needed with these
  // options. Resolves symbols, evaluates guards (E0610), checks overlaps (E0613) and where the tensors lie (E0648),
  // encodes tensor maps (E0649), checks limits (E0650), allocates the workspaces (E0643) and zeroes their counters.
  // Captures of streams stay valid. Without what is taken from outside: E0615, E0616; without a device: E0642.
  static Result<Execution> make(package::PackageRef package, std::vector<ModuleRef> modules, Bindings bindings,
                                GpuOptions options = {});
  Execution(Execution&&) noexcept;
  Execution& operator=(Execution&&) noexcept;
  ~Execution();

  // From now on each launch of run() is a range with its kernel's name; null: none.
  void set_ranges(NvtxRef ranges);
  // Enqueues on a stream of the first device's primary context; allocates nothing and never waits, so that it may be
  // captured. Streams of the other devices begin behind it and are waited for by it. Errors: E0644, E0645, E0647 and
  // their kin; those of check(), before anything is enqueued; E0617.
  // Where sizes lie in device memory, or functions of the caller's allocate, it waits, allocates where these have
  // changed, and can not be captured (E0646); then what is behind them fails here, too (E0610, E0643). With an observer
  // it waits for each step, tells of it, and ends with the observer's error; what kernels find wrong with contents is
  // told at the step that has found it.
  Result<void> run(StreamHandle stream);
  // Whether the last run enqueued something that writes, or called a function of the caller's; one that failed before
  // leaves all memory as it was.
  [[nodiscard]] bool wrote() const;
  // What the last run, which succeeded, fills of an output, by package buffer: known when run() returns. All of the
  // bound view where a run does not compute its sizes.
  [[nodiscard]] Dims filled(uint32_t buffer) const;
  // What kernels have found wrong with contents since it was asked last, without waiting: certain once the stream is
  // idle. Errors: E0618 an index, which was taken as the nearest one; E0619 a number.
  [[nodiscard]] Result<void> check() const;
  // Whether kernels of this execution tell what they find; sizes_in_run(): whether a run finds sizes, and makes what it
  // needs for them. Either way it has to outlive its work.
  [[nodiscard]] bool looks() const;
  [[nodiscard]] bool sizes_in_run() const;
  [[nodiscard]] bool observed() const;
  [[nodiscard]] const DeviceRef& device() const;
  // Bytes on one of the package's devices; 0 where it has no such one.
  [[nodiscard]] int64_t workspace_size(uint32_t device = 0) const;
  // Memory of the first device, the caller's, instead; waits until its counters are zeroed. What further devices need
  // stays the execution's own. Errors: E0604, E0605, E0611, E0648.
  Result<void> set_workspace(void* memory, int64_t bytes);

  struct State;  // of the files that make and run it
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  explicit Execution(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace codetta::runtime::cuda
