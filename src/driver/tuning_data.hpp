// SPDX-License-Identifier: Apache-2.0
// What a program runs on while its kernels are tuned, and whether what it computes there is right.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driver/build_constants.hpp"
#include "driver/context.hpp"
#include "driver/program_state.hpp"
#include "runtime/cuda/execution.hpp"
#include "runtime/execution.hpp"

namespace codetta::driver {

class TuningData {
 public:
  // Parameters are tensors and numbers of `given`, where that names them; donated ones a copy of these. Others are
  // random: weights so that sums of products are of the size of what they multiply, indices in range, numbers 1;
  // constants of a library have their `values`. Results have memory of their own. All outlive this.
  static Result<TuningData> make(const Program& program, const Target& target, const SizeHints& hints,
                                 const ConstantValues& values, const std::vector<NamedArgument>& given,
                                 ContextState& context);

  // Dims of results that a run computes have room for as much as the program's bounds say; where it has none, for this
  // times what the sizes suggest. Before bound().
  void allow(int64_t times) { room_times_ = times; }
  // Whether there are such dims, and `times` as much for each takes no more than a gigabyte for a result.
  [[nodiscard]] bool may_allow(int64_t times) const;
  // Of a package of the program, all of which have the same parameters and results.
  Result<runtime::Bindings> bound(const package::PackageRef& package);

  // The run of `execution` that has just ended, which begin_checked() came before: empty where its results are right by
  // the oracle's bound, or have the bits of ones that are; else what is wrong. The first one is told to be as good as
  // it gets where the oracle has no judgement of it: then others have to agree with it but for rounding.
  Result<void> begin_checked() const;
  // Errors: E0510 `goes_on` said no while the oracle computed, or the context is cancelled; E0644.
  Result<std::string> judge(const Execution& execution, std::function<bool()> goes_on);
  // Results with these bits pass from now on.
  Result<void> take_as_right(const Execution& execution);
  // Whether the results of the run have the bits of ones that were judged to be right.
  Result<bool> is_known(const Execution& execution);

  [[nodiscard]] const runtime::cuda::DeviceRef& device() const { return device_; }  // null on a CPU

 private:
  struct Memory {
    TensorView view;
    std::optional<Tensor> host;                          // on a CPU
    std::optional<runtime::cuda::DeviceBuffer> there{};  // on a GPU
  };
  TuningData(const Program& program, const Target& target, const SizeHints& hints, const ConstantValues& values,
             const std::vector<NamedArgument>& given, ContextState& context)
      : program_(&program), target_(target), hints_(&hints), values_(&values), given_(&given), context_(&context) {}

  Result<Memory> placed(DType dtype, const Dims& shape) const;
  Result<void> write(const TensorView& to, const TensorView& from) const;  // both row-major
  Result<Tensor> read(const TensorView& from) const;
  [[nodiscard]] const ArgumentValue* value_of(const std::string& name) const;
  [[nodiscard]] const TensorView* constant_of(const std::string& name) const;  // null: it is none
  Result<TensorView> view_of(const package::Buffer& buffer, size_t index, const Dims& shape);
  Result<ArgumentValue> number_of(const package::Buffer& buffer) const;
  [[nodiscard]] int64_t room_for(const std::string& output, size_t dim, const types::Dim& filled) const;
  [[nodiscard]] bool is_donated(const std::string& name) const;
  Result<std::vector<Tensor>> results(const Execution& execution) const;
  Result<VerifyReport> verified(const Execution& execution, std::function<bool()> goes_on) const;

  const Program* program_;
  Target target_;
  const SizeHints* hints_;
  const ConstantValues* values_;
  const std::vector<NamedArgument>* given_;
  ContextState* context_;
  runtime::cuda::DeviceRef device_;
  std::vector<ProgramInput> inputs_;
  std::map<std::string, Memory> memory_;                // by name of the parameter or output
  std::vector<NamedArgument> arguments_;                // all that is bound, in the order of the buffers
  std::vector<std::pair<std::string, Tensor>> former_;  // of donated parameters, in host memory
  std::vector<std::vector<Tensor>> right_;              // results that were judged to be right
  int64_t room_times_ = 1;
  bool judged_ = false, trusted_ = false;  // there is a first one; by the oracle
};

}  // namespace codetta::driver
