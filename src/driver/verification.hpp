// SPDX-License-Identifier: Apache-2.0
// What a problem's outputs must be, evaluated once; and the comparison with what a run left in memory.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codetta/numerics.hpp"
#include "codetta/program.hpp"
#include "driver/context.hpp"
#include "driver/problem.hpp"
#include "oracle/oracle.hpp"

namespace codetta::driver {

// Casts make enums of anything. Errors: E0401 for a backend, E0402 for an instruction set that has no name.
Result<void> check_target(const Target& target);

// A bound number as the oracle takes it.
types::Scalar scalar_for_oracle(const ArgumentValue& value, DType dtype);
// How GPUs accumulate products of this length, whichever family runs them.
oracle::OracleOptions gpu_options(const Target& target, int64_t k);
// How the target computes the operations of a program, for these sizes.
oracle::OracleOptions program_options(const Target& target, const ir::Graph& graph, const Numerics& numerics,
                                      const std::vector<std::pair<std::string, int64_t>>& symbols);
// For the oracle: until the context's `cancel` is set, or `also` says no. Empty where neither is there.
std::function<bool()> until_cancelled(const ContextState& context, std::function<bool()> also = {});
// verify() of a program; driver/verify_program.cpp. `goes_on`: asked while the oracle computes, beside the context's
// `cancel`; false ends with E0510.
Result<VerifyReport> verify_program(const Program& program, const std::vector<NamedArgument>& arguments,
                                    const Target& target, const VerifyOptions& options, ContextState& context,
                                    std::function<bool()> goes_on = {});
// What this mode lets products of f32 and of 8-bit floats lose on GPUs of NVIDIA's, whose kernels alone take it.
void permit(MathMode math, oracle::OracleOptions& how);
// By function what the oracle takes for its call, while `given` lives. Errors: E0311 where it was called several times;
// those of the functions: E0221 where given results do not fit.
using OracleFunctions = std::map<std::string, oracle::OracleFunction, std::less<>>;
Result<OracleFunctions> functions_of(const std::vector<GivenResults>& given);
// The sizes that only the results of these calls have.
void add_given_sizes(const ir::Graph& graph, const std::vector<GivenResults>& given,
                     std::map<std::string, int64_t, std::less<>>& sizes);
// What the oracle's comparison found, in the public form, with its text.
VerifyReport report_of(const oracle::CheckReport& checked);

class Verification {
 public:
  // Reads the inputs, where the target has them; all work on them is done. `before`: former contents of overwritten
  // operands; with `former_needed`, the run is over: none of them may be missing. Errors: those of make_problem and of
  // the oracle, and of copies from the device; E0208, E0209, E0210 (before). `goes_on` as of verify_program().
  static Result<Verification> make(const GemmArguments& arguments,
                                   const std::vector<std::pair<std::string, TensorView>>& before, const Target& target,
                                   uint64_t seed, ContextState& context, bool former_needed = false,
                                   std::function<bool()> goes_on = {});
  // Compares the outputs as they lie in memory now; `poisoned`: they held something else before the run. Errors: E0212,
  // E0213, those of copies from the device.
  [[nodiscard]] Result<VerifyReport> check(bool poisoned = false) const;
  [[nodiscard]] const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
  runtime::cuda::DeviceRef device_;  // where the tensors lie; null: in host memory
  oracle::OracleResult expected_;
};

}  // namespace codetta::driver
