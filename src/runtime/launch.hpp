// SPDX-License-Identifier: Apache-2.0
// One LaunchKernel step resolved to an engine call.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "package/package.hpp"
#include "runtime/checks.hpp"
#include "runtime/cpu/fused.hpp"
#include "runtime/cpu/gemm.hpp"
#include "runtime/cpu/map.hpp"
#include "runtime/cpu/tape.hpp"
#include "runtime/execution.hpp"
#include "runtime/operands.hpp"

namespace codetta::runtime {

// "packed f32 k=768 n=3072 nr=64 avx512": what packed weights are for.
std::string packed_layout(const cpu::PackedHeader& header);

// Scratch of one launch: with problem.packed_b set (never read here) for packed weights; `argument_empty`: which of the
// program's arguments hold no element (looked at where the product is empty); `compiled`: whether the
// epilogue, or the fused kernel, is code and not a tape or a plain store. What Execution::workspace_size() says of a
// package with this kernel alone.
size_t scratch_bytes(const package::CpuGemmConfig& config, const package::EpilogueProgram& program,
                     const cpu::GemmProblem& problem, const std::vector<bool>& argument_empty, int threads,
                     bool compiled);

// Why the fused form, which reads rows of A and nothing else, does not take this A, whose elements along K lie so far
// apart. Errors: E0610.
Result<void> check_rows(const std::string& a, int64_t k, int64_t stride);

class Launch {
 public:
  // `compiled`: by kernel of the package. Errors: E0610 when a bound tensor does not fit its declaration or the
  // product's sizes, leading dims of a factor do not fold to one, or packed weights do not fit the kernel.
  static Result<Launch> make(const package::Package& package, const package::LaunchKernel& step,
                             const Bindings& bindings, const std::vector<KernelEntry>& compiled, const Symbols& symbols,
                             int threads);
  // The same of a launch that is there already, of the same step, whose memory is used again. A failure leaves it
  // unset.
  Launch() = default;
  Result<void> set(const package::Package& package, const package::LaunchKernel& step, const Bindings& bindings,
                   const std::vector<KernelEntry>& compiled, const Symbols& symbols, int threads);
  // Recomputes every address from the bindings' views.
  void resolve(const Bindings& bindings);
  void run(ThreadPool* pool, void* workspace) {
    if (sink_bytes_ != 0) place_sink(workspace);
    if (is_map_) {
      cpu::run_map(map_config_, map_, call_, pool, workspace);
    } else if (fused_ != nullptr) {
      cpu::run_fused(config_, problem_, fused_, operands_.data(), scalars_.data(), pool, workspace);
    } else if (plain_) {
      cpu::run(config_, problem_, store_, pool, workspace);
    } else {
      cpu::run(config_, problem_, call_, pool, workspace);
    }
  }
  [[nodiscard]] bool interpreted() const { return call_.interpret != nullptr && empty_program_ == nullptr; }

  size_t workspace_bytes = 0;

 private:
  Result<void> make_map(const package::Package& package, const Bindings& bindings, const KernelEntry& compiled,
                        const Symbols& symbols);
  Result<void> plan_operands(const Symbols& symbols);
  void set_phases(const package::EpilogueProgram& program, const cpu::GemmProblem& problem);
  Result<void> plan_factors(const package::Package& package, const Bindings& bindings,
                            const std::vector<KernelEntry>& compiled, const Symbols& symbols);
  void interpret(const KernelEntry& entry);
  void add_sink();
  void place_sink(void* workspace);
  bool set_empty(const package::Package& package, const Bindings& bindings, const KernelEntry& compiled,
                 const cpu::GemmProblem& problem);

  const package::LaunchKernel* step_ = nullptr;
  const package::EpilogueProgram* program_ = nullptr;
  std::unique_ptr<const package::EpilogueProgram> empty_program_;  // interpreted instead over an empty root space
  // Over an empty root space: where in the workspace code finds and leaves what is not there; 0 bytes elsewhere.
  size_t sink_at_ = 0, sink_bytes_ = 0;
  std::vector<size_t> sunk_;  // the operands that lie there
  std::vector<bool> sinks_;   // then, by operand: it writes no element
  package::CpuGemmConfig config_;
  cpu::GemmProblem problem_;
  FactorPlan a_plan_, b_plan_;
  bool is_map_ = false;
  package::CpuMapConfig map_config_;
  cpu::MapProblem map_;
  codetta::cpu::FusedFunction fused_ = nullptr;  // whole kernel in registers
  bool plain_ = false;
  cpu::StoreTile store_;
  cpu::EpilogueCall call_;
  std::unique_ptr<cpu::Tape> tape_;
  const package::EpilogueProgram* taped_ = nullptr;  // what tape_ is of
  std::shared_ptr<const cpu::Module> module_;
  std::shared_ptr<const cpu::PackedB> packed_;
  bool reads_b_ = true;  // false: B is bound as packed weights only
  // What makes a factor that lies nowhere.
  struct Maker {
    const package::EpilogueProgram* program = nullptr;
    const package::Prologue* step = nullptr;
    std::vector<OperandPlan> plans;
    std::vector<int64_t> sizes;
    std::unique_ptr<cpu::Tape> tape;
    std::shared_ptr<const cpu::Module> module;
    std::vector<codetta::cpu::Operand> operands;
    std::vector<codetta::cpu::ScalarValue> scalars;
    cpu::BlockMaker call;
  };
  std::vector<Maker> makers_;
  std::vector<cpu::BlockMaker> maker_calls_;
  std::vector<OperandPlan> plans_;
  std::vector<int64_t> sizes_;
  // Stable addresses: call_ points into these.
  std::vector<codetta::cpu::Operand> operands_;
  std::vector<codetta::cpu::ScalarValue> scalars_;
  std::vector<cpu::Phase> phases_;
  std::vector<cpu::Reduction> reductions_;
};

}  // namespace codetta::runtime
