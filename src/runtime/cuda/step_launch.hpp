// SPDX-License-Identifier: Apache-2.0
// A host step on elements as a launch of the package's kernel for such steps. What its parameters are is said in
// device/host/gpu_steps.h, which emitted host text uses as well.
#pragma once

#include <string>
#include <variant>

#include "device/host/gpu_steps.h"
#include "runtime/checks.hpp"
#include "runtime/cuda/device.hpp"
#include "runtime/execution.hpp"

namespace codetta::runtime::cuda {

// Host memory that kernels write to and the host reads without waiting. The device outlives it.
class FaultWord {
 public:
  FaultWord() = default;
  // Captures of streams stay valid. Errors: E0643 and its kin.
  static Result<FaultWord> make(DeviceRef device);
  FaultWord(FaultWord&& other) noexcept { swap(other); }
  FaultWord& operator=(FaultWord&& other) noexcept {
    swap(other);
    return *this;
  }
  ~FaultWord();
  [[nodiscard]] codetta::gpu::Fault* get() const { return word_; }

 private:
  void swap(FaultWord& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(word_, other.word_);
  }
  DeviceRef device_;
  codetta::gpu::Fault* word_ = nullptr;
};

// The run that a fault was found in, for its message.
enum class FoundIn : uint8_t { EarlierRun, ThisRun };

class StepLaunch {
 public:
  // A Copy to another device is made in parts: its source is gathered in a row-major piece of the workspace, or
  // scattered from one to its target.
  enum class Part : uint8_t { Whole, Gather, Scatter };
  // `step`: an IndexPut, Scatter, Copy, Fill, or a Check of contents; its views have their shapes. Errors: E0610 where
  // they do not fit each other, E0603.
  static Result<StepLaunch> make(const package::Package& package, const package::Step& step, const Bindings& bindings,
                                 const Symbols& symbols, const ModuleRef& module, Part part = Part::Whole);
  // Bytes of the workspace that such a launch takes; nothing is loaded. Errors: E0610, E0603.
  static Result<int64_t> room(const package::Package& package, const package::Step& step, const Bindings& bindings,
                              const Symbols& symbols);
  // Writes the parameters for these addresses; `workspace` has workspace_bytes at a multiple of 256. Without `fault`
  // nothing is checked. `number`: what faults of this launch are known by.
  Result<void> resolve(const Bindings& bindings, DeviceAddress workspace, codetta::gpu::Fault* fault, uint32_t number);
  // Enqueues; allocates nothing. The device's context is current.
  [[nodiscard]] Status run(const Driver& driver, StreamHandle stream) const;
  // Whether resolve() wants a fault word in checked runs.
  [[nodiscard]] bool looks() const { return parameters_.index() != 1; }
  // What a fault of this launch means: E0618, E0619.
  [[nodiscard]] Error error_of(const codetta::gpu::Fault& fault, const Bindings& bindings, FoundIn run) const;
  [[nodiscard]] const std::string& name() const { return function_name_; }

  // Of a part of a Copy: where its piece lies, which is its workspace, and no other launch's.
  [[nodiscard]] bool has_piece() const { return part_ != Part::Whole; }
  [[nodiscard]] DeviceAddress piece() const { return piece_; }

  int64_t workspace_bytes = 0;
  int64_t piece_at = 0;    // where its owner has put that, among those of its device
  uint32_t on_device = 0;  // of the package: whose workspace

 private:
  StepLaunch() = default;
  static Result<StepLaunch> planned(const package::Package& package, const package::Step& step,
                                    const Bindings& bindings, const Symbols& symbols, Part part);
  Result<void> plan(const Bindings& bindings);
  [[nodiscard]] codetta::gpu::host::StepView view(uint32_t buffer, const Bindings& bindings) const;

  const package::Package* package_ = nullptr;
  const package::Step* step_ = nullptr;
  int64_t limit_ = 0;  // of an IndexGuard
  Part part_ = Part::Whole;
  DeviceAddress piece_ = 256;  // until resolve(): aligned as it will be
  Function function_;
  std::string function_name_;
  std::variant<codetta::gpu::PutParams, codetta::gpu::MoveParams, codetta::gpu::LookParams> parameters_;
  int64_t blocks_ = 1;
};

}  // namespace codetta::runtime::cuda
