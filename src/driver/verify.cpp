// SPDX-License-Identifier: Apache-2.0
// verify: what a run left in memory against the oracle.
#include <algorithm>

#include <fmt/format.h>

#include "driver/host_copy.hpp"
#include "driver/verification.hpp"

namespace codetta {
namespace driver {
namespace {

types::Scalar scalar_for_oracle(const ArgumentValue& value, DType dtype) {
  if (const auto* flag = std::get_if<bool>(&value.value())) return types::Scalar::from_i64(*flag ? 1 : 0, dtype);
  if (const auto* integer = std::get_if<int64_t>(&value.value())) return types::Scalar::from_i64(*integer, dtype);
  return types::Scalar::from_f64(std::get<double>(value.value()), dtype);
}

std::string describe(const OutputCheck& output) {
  std::string text =
      fmt::format("{}: {} of {} elements checked, {} wrong", output.name, output.checked, output.total, output.wrong);
  if (output.ambiguous != 0) text += fmt::format(", {} ambiguous", output.ambiguous);
  text += fmt::format(", largest error {:.3g} ({:.3g} of its bound)", output.max_error, output.max_error_ratio);
  if (!output.note.empty()) text += "; " + output.note;
  if (output.wrong != 0) text += "; worst " + output.worst;
  return text;
}

// Of whichever family has run. Matrix instructions line products up by the largest exponent of a step and cut what
// falls off, once a product, then round the sum towards zero: two units of 2^-24 a product are above both, and above
// one fused multiply-add. Slices of K add a rounding each.
oracle::OracleOptions gpu_options(int64_t k) {
  constexpr int64_t least_slice = 64;
  oracle::OracleOptions options;
  options.isa = CpuIsa::avx2;  // f64: one multiply-add a product
  types::AccumulationModel model = types::accumulation_model(CpuIsa::avx2, DType::f32);
  model.roundings = 2;
  model.extra_roundings = static_cast<int>(std::min<int64_t>(k / least_slice, package::max_k_split));
  options.accumulation = model;
  options.ulp = oracle::cuda_ulp_table();
  return options;
}

}  // namespace

Result<Verification> Verification::make(const GemmArguments& arguments,
                                        const std::vector<std::pair<std::string, TensorView>>& before,
                                        const Target& target, uint64_t seed, ContextState& context) {
  Verification made;
  CODETTA_TRY(made.problem_, make_problem(arguments));
  const Problem& problem = made.problem_;
  if (target.backend == Backend::cuda) {
    CODETTA_TRY(made.device_, context.cuda.device());
  }
  HostCopies copies(made.device_.get());
  const auto readable = [&](const TensorView& view) -> Result<TensorView> {
    return made.device_ ? copies.copy(view) : view;
  };
  std::vector<oracle::OracleInput> inputs;
  for (size_t i = 0; i < problem.bound.inputs().size(); ++i) {
    const ir::GraphInput& input = problem.bound.inputs()[i];
    if (i >= 2 && input.is_scalar) {
      inputs.emplace_back(scalar_for_oracle(problem.scalars.at(input.name), problem.bound.type(input.node).dtype));
      continue;
    }
    TensorView view = i == 0 ? problem.a : i == 1 ? problem.b : problem.tensors.at(input.name);
    for (const auto& [name, former] : before) {
      if (i >= 2 && name == input.name) view = former;
    }
    CODETTA_TRY(view, readable(view));
    inputs.emplace_back(view);
  }
  oracle::OracleOptions options =
      target.backend == Backend::cuda ? gpu_options(problem.shape.k) : oracle::OracleOptions{};
  if (target.backend == Backend::cpu) options.isa = target.isa;
  options.contraction = !arguments.strict;
  options.seed = seed;
  CODETTA_TRY(made.expected_, oracle::evaluate(problem.bound, inputs, options));
  return made;
}

Result<VerifyReport> Verification::check() const {
  HostCopies copies(device_.get());
  std::vector<TensorView> actual;
  for (const ir::GraphOutput& output : problem_.bound.outputs()) {
    TensorView view = problem_.tensors.at(output.name);
    if (device_) {
      CODETTA_TRY(view, copies.copy(view));
    }
    actual.push_back(view);
  }
  CODETTA_TRY(const oracle::CheckReport checked, oracle::check(actual, expected_));

  VerifyReport report;
  report.verdict = checked.verdict == oracle::Verdict::Pass   ? VerifyReport::Verdict::Pass
                   : checked.verdict == oracle::Verdict::Fail ? VerifyReport::Verdict::Fail
                                                              : VerifyReport::Verdict::Mistrusted;
  for (const oracle::OutputReport& output : checked.outputs) {
    OutputCheck check;
    check.name = output.name;
    check.checked = output.elements;
    check.total = output.total;
    check.wrong = output.wrong;
    check.ambiguous = output.ambiguous;
    check.max_error = output.max_error;
    check.max_error_ratio = output.max_ratio;
    check.worst = output.worst_text;
    check.note = output.note;
    report.text += describe(check) + "\n";
    report.outputs.push_back(std::move(check));
  }
  report.text += std::string(oracle::to_string(checked.verdict)) + "\n";
  return report;
}

}  // namespace driver

Result<VerifyReport> verify(const GemmArguments& arguments,
                            const std::vector<std::pair<std::string, TensorView>>& before, const Target& target,
                            uint64_t seed, Context& context) {
  driver::ContextState& state = *context.shared_state();
  if (target.backend == Backend::cuda) {
    CODETTA_TRY(const runtime::cuda::DeviceRef device, state.cuda.device());
    CODETTA_CHECK_OK(device->synchronize());
  }
  CODETTA_TRY(const driver::Verification verification,
              driver::Verification::make(arguments, before, target, seed, state));
  return verification.check();
}

}  // namespace codetta
