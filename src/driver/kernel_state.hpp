// SPDX-License-Identifier: Apache-2.0
// The states behind Kernel, Execution and PackedTensor.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "driver/context.hpp"
#include "driver/problem.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

// Shared by all kernels of one discovery. Immutable.
struct FoundState {
  std::shared_ptr<ContextState> context;
  Target target;
  Problem problem;  // views of the arguments that found the kernels; only their facts are used later
  plan::Plan plan;  // of the best candidate
  bool strict = false;
};

struct KernelState {
  std::shared_ptr<const FoundState> found;
  size_t candidate = 0;
  KernelMetadata metadata;

  [[nodiscard]] const plan::Candidate& choice() const { return found->plan.kernels[0].discovery.candidates[candidate]; }
  // Emitted at first need, then kept.
  Result<package::PackageRef> package() const;
  static Kernel make(std::shared_ptr<const KernelState> state) {
    Kernel kernel;
    kernel.state_ = std::move(state);
    return kernel;
  }
  static const KernelState& of(const Kernel& kernel) { return *kernel.state_; }

 private:
  mutable std::mutex mutex_;
  mutable package::PackageRef package_;
};

struct ExecutionState {
  runtime::Execution execution;
  std::shared_ptr<const void> keep_alive;  // kernels, packed weights
  static Execution make(runtime::Execution execution, std::shared_ptr<const void> keep_alive) {
    Execution result;
    result.state_ = std::make_shared<ExecutionState>(ExecutionState{std::move(execution), std::move(keep_alive)});
    return result;
  }
};

struct PackedState {
  std::shared_ptr<const runtime::cpu::PackedB> packed;
  std::string layout;
  static PackedTensor make(std::shared_ptr<const PackedState> state) {
    PackedTensor result;
    result.state_ = std::move(state);
    return result;
  }
};

// Runtime bindings of a package from a problem's views and numbers, matched by buffer name.
Result<runtime::Bindings> make_bindings(const package::Package& package, const Problem& problem);

// "packed f32 k=768 n=3072 nr=64 avx512" from a PackedHeader.
std::string packed_layout(const void* packed);

KernelMetadata describe(const plan::Candidate& candidate, const Target& target);
Rejection describe(const plan::Rejection& rejection);

}  // namespace codetta::driver
