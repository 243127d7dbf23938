// SPDX-License-Identifier: Apache-2.0
// The states behind Kernel, Execution and PackedTensor.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "driver/context.hpp"
#include "driver/problem.hpp"
#include "plan/plan.hpp"
#include "runtime/cuda/execution.hpp"

namespace codetta::driver {

// What the passes and planning made of a bound problem.
struct Planned {
  ir::Graph graph;                      // optimized
  std::vector<opt::PassRecord> passes;  // how it came about
  plan::Plan plan;                      // of the best candidate
};

// Shared by all kernels of one discovery. Immutable but for what is planned late: a discovery that the cache knows
// plans only when something is asked for that its entry does not hold.
struct FoundState {
  std::shared_ptr<ContextState> context;
  Target target;
  Problem problem;          // views of the arguments that found the kernels; only their facts are used later
  std::string tuning;       // digest of the tuning record that ranked the kernels; empty without one
  plan::Breadth breadth{};  // what was measured is among the kernels, whether it would be listed or not

  // Planned at first need, then kept. Errors: E0301 to E0309.
  Result<const Planned*> planned() const;
  // For a GPU: the same as several kernels, which make all outputs where a size is 0. At first need, then kept. Errors:
  // those of planned() and of plan_program.
  Result<package::PackageRef> when_empty() const;

 private:
  mutable std::mutex mutex_;
  mutable std::optional<Result<Planned>> planned_;
  mutable package::PackageRef when_empty_;
};

// All that find_kernels reports, in the order of the cost model, before filters and measurements.
struct Ranking {
  std::vector<KernelMetadata> kernels;
  std::vector<Rejection> rejections;
};

struct KernelState {
  std::shared_ptr<const FoundState> found;
  size_t candidate = 0;  // in the ranking
  KernelMetadata metadata;
  std::shared_ptr<const Ranking> ranking;  // of the kernel that ranks first: kept beside its package

  // From the cache, or emitted; at first need, then kept.
  Result<package::PackageRef> package() const;
  static Kernel make(std::shared_ptr<const KernelState> state) {
    Kernel kernel;
    kernel.state_ = std::move(state);
    return kernel;
  }
  static const KernelState& of(const Kernel& kernel) { return *kernel.state_; }
  void set_package(package::PackageRef package) { package_ = std::move(package); }

 private:
  mutable std::mutex mutex_;
  mutable package::PackageRef package_;
};

struct CompiledProgramState;

struct ExecutionState {
  std::variant<runtime::Execution, runtime::cuda::Execution> execution;
  std::shared_ptr<const void> keep_alive;  // kernels, packed weights
  package::PackageRef package;
  double compile_seconds = 0;
  std::function<Error(const Error&)> placed{};  // of a program: what a run has found, at its place in the text
  std::string donated{};                        // the first donated parameter, if there is one
  bool spent = false;                           // what is donated has been used up
  bool succeeded = false;                       // the last run
  std::vector<TensorView> given{};              // what is bound to donated parameters
  // A run whose donated parameters may hold anything: of measurements.
  static Result<void> run_again(Execution& execution, Stream stream = {}) {
    execution.donate_again();
    return execution.run(stream);
  }
  static void donates(Execution& execution, const std::string& parameter, const TensorView& given) {
    if (execution.state_->donated.empty()) execution.state_->donated = parameter;
    execution.state_->given.push_back(given);
  }
  static const ExecutionState& of(const Execution& execution) { return *execution.state_; }
  // Of an execution of a program: what it was prepared from, which tensors that are aligned less decide, too.
  static std::shared_ptr<const CompiledProgramState> program_of(const Execution& execution) {
    return std::static_pointer_cast<const CompiledProgramState>(execution.state_->keep_alive);
  }
  template <class Backend>
  static Execution make(Backend execution, std::shared_ptr<const void> keep_alive, package::PackageRef package,
                        double compile_seconds, std::function<Error(const Error&)> placed = {}) {
    Execution result;
    result.state_ = std::make_shared<ExecutionState>(ExecutionState{
        std::move(execution), std::move(keep_alive), std::move(package), compile_seconds, std::move(placed)});
    return result;
  }
  // Null for an execution on a CPU, and one that holds nothing.
  static const runtime::cuda::Execution* cuda(const Execution& execution) {
    return execution.state_ ? std::get_if<runtime::cuda::Execution>(&execution.state_->execution) : nullptr;
  }
  // Null for an execution on a GPU.
  static runtime::Execution* cpu(const Execution& execution) {
    return std::get_if<runtime::Execution>(&execution.state_->execution);
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

// The target with its architecture. Errors: E0412 for a backend without kernels, those of GpuDevice::resolve and
// HipState::resolve.
Result<Target> resolve_target(ContextState& context, const Target& target);

struct GpuPreparation {
  bool capturing = false;  // compiling is E0535
  bool checked = true;
  bool contents = true;  // of a checked run
  bool graph = false;
  runtime::cuda::FromOutside outside{};
  runtime::cuda::Observer observer{};
  bool* unaligned = nullptr;  // as GpuOptions has it
};
// An execution of the package on the context's device.
Result<runtime::cuda::Execution> prepare_gpu(ContextState& context, const package::PackageRef& package,
                                             const Target& target, runtime::Bindings bindings, double& compile_seconds,
                                             GpuPreparation how = {});

// E0703 for a budget, a number of candidates or seconds that cannot be.
Result<void> check_tune_options(const TuneOptions& options);

KernelMetadata describe(const plan::Candidate& candidate, const Target& target);
// What Execution::workspace_size() will say of a CPU candidate of this discovery.
int64_t workspace_bytes(const plan::Candidate& candidate, const package::EpilogueProgram& program,
                        const FoundState& found);
Rejection describe(const plan::Rejection& rejection);
// For a list without kernels: the code of the first rejection, and all reasons; E0418 where there are none.
Error none_left(const std::vector<Rejection>& rejections);

}  // namespace codetta::driver
