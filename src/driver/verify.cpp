// SPDX-License-Identifier: Apache-2.0
// verify: what a run left in memory against the oracle.
#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "driver/host_copy.hpp"
#include "driver/verification.hpp"
#include "types/view.hpp"

namespace codetta {
namespace driver {

types::Scalar scalar_for_oracle(const ArgumentValue& value, DType dtype) {
  if (const auto* flag = std::get_if<bool>(&value.value())) return types::Scalar::from_i64(*flag ? 1 : 0, dtype);
  if (const auto* integer = std::get_if<int64_t>(&value.value())) return types::Scalar::from_i64(*integer, dtype);
  if (const auto* large = std::get_if<uint64_t>(&value.value())) return types::Scalar::from_u64(*large, dtype);
  return types::Scalar::from_f64(std::get<double>(value.value()), dtype);
}

namespace {

std::string describe(const OutputCheck& output) {
  std::string text =
      fmt::format("{}: {} of {} elements checked, {} wrong", output.name, output.checked, output.total, output.wrong);
  if (output.ambiguous != 0) text += fmt::format(", {} ambiguous", output.ambiguous);
  text += fmt::format(", largest error {:.3g}, at most {:.3g} of what is allowed", output.max_error,
                      output.max_error_ratio);
  if (!output.note.empty()) text += "; " + output.note;
  if (output.wrong != 0) text += "; worst " + output.worst;
  if (!output.mistrust.empty()) text += "; proves nothing: " + output.mistrust;
  return text;
}

}  // namespace

// Matrix instructions line products up by the largest exponent of a step and cut what
// falls off, once a product, then round the sum towards zero: two units of 2^-24 a product are above both, and above
// one fused multiply-add. Slices of K add a rounding each.
oracle::OracleOptions gpu_options(const Target& target, int64_t k) {
  constexpr int64_t least_slice = 64;
  oracle::OracleOptions options;
  options.isa = CpuIsa::avx2;  // f64: one multiply-add a product
  types::AccumulationModel model = types::accumulation_model(CpuIsa::avx2, DType::f32);
  model.roundings = 2;
  model.extra_roundings = static_cast<int>(std::min<int64_t>(k / least_slice, package::max_k_split));
  options.accumulation = model;
  options.ulp = target.backend == Backend::hip ? oracle::hip_ulp_table()
                : target.arch == "sm_90a"      ? oracle::sm90a_ulp_table()
                                               : oracle::cuda_ulp_table();
  return options;
}

namespace {

// The oracle reads operands as they were before the run: those that are outputs as well are no more what they were.
Result<void> check_before(const Problem& problem, const std::vector<std::pair<std::string, TensorView>>& before) {
  const auto& inputs = problem.bound.inputs();
  for (const auto& [name, former] : before) {
    const auto same = [&, &name = name](const auto& other) { return other.first == name; };
    if (std::count_if(before.begin(), before.end(), same) > 1) {
      return diag::error(diag::Code::argument_duplicate, fmt::format("former contents of '{}' are given twice", name))
          .about(name)
          .reason("they are looked up by name")
          .help("give those of each operand once");
    }
    const std::string& wanted = name;
    const bool known = std::any_of(inputs.begin() + 2, inputs.end(),
                                   [&](const ir::GraphInput& input) { return input.name == wanted; });
    if (known) continue;
    return diag::error(diag::Code::argument_unexpected, fmt::format("former contents of '{}' are given", name))
        .reason("the epilogue has no operand of that name")
        .help("name an operand that an output overwrites");
  }
  for (size_t i = 2; i < inputs.size(); ++i) {
    const std::string& name = inputs[i].name;
    if (inputs[i].is_scalar) continue;
    const bool given =
        std::any_of(before.begin(), before.end(), [&](const auto& former) { return former.first == name; });
    if (given) continue;
    const TensorView& operand = problem.tensors.at(name);
    for (const ir::GraphOutput& output : problem.bound.outputs()) {
      if (!types::overlaps(operand, problem.tensors.at(output.name))) continue;
      return diag::error(diag::Code::argument_missing, fmt::format("the former contents of {} are not given", name))
          .reason(fmt::format("output {} has overwritten it, and a result is checked from what it was made of",
                              output.name))
          .help(fmt::format("copy {} before the run and pass the copy in `before`", name));
    }
  }
  return {};
}

}  // namespace

Result<Verification> Verification::make(const GemmArguments& arguments,
                                        const std::vector<std::pair<std::string, TensorView>>& before,
                                        const Target& target, uint64_t seed, ContextState& context, bool former_needed,
                                        std::function<bool()> goes_on) {
  Verification made;
  CODETTA_TRY(made.problem_, make_problem(arguments));
  const Problem& problem = made.problem_;
  if (former_needed) CODETTA_CHECK_OK(check_before(problem, before));
  if (runs_on_gpu(target)) {
    CODETTA_TRY(made.device_, context.gpu(target).device());
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
  oracle::OracleOptions options = runs_on_gpu(target) ? gpu_options(target, problem.shape.k) : oracle::OracleOptions{};
  if (target.backend == Backend::cuda) permit(problem.shape.math, options);
  if (target.backend == Backend::cpu) options.isa = target.isa;
  options.contraction = !arguments.strict;
  options.seed = seed;
  options.goes_on = until_cancelled(context, std::move(goes_on));
  CODETTA_TRY(made.expected_, oracle::evaluate(problem.bound, inputs, options));
  return made;
}

std::function<bool()> until_cancelled(const ContextState& context, std::function<bool()> also) {
  const std::atomic<bool>* cancel = context.options.cancel;
  if (cancel == nullptr) return also;
  return [cancel, also = std::move(also)] { return !cancel->load(std::memory_order_relaxed) && (!also || also()); };
}

void permit(MathMode math, oracle::OracleOptions& how) {
  how.factor_rounding = plan::factor_rounding(math, DType::f32);
  const auto rounding = plan::product_rounding(math, DType::f8e4m3, DType::f8e4m3);
  how.product_rounding = rounding.each;
  how.product_run = rounding.run;
}

Result<VerifyReport> Verification::check(bool poisoned) const {
  HostCopies copies(device_.get());
  std::vector<TensorView> actual;
  for (const ir::GraphOutput& output : problem_.bound.outputs()) {
    TensorView view = problem_.tensors.at(output.name);
    if (device_) {
      CODETTA_TRY(view, copies.copy(view));
    }
    actual.push_back(view);
  }
  oracle::CheckOptions options;
  if (poisoned || problem_.shape.k == 0) options.max_zeros = 1;  // no product: zeros by definition
  CODETTA_TRY(const oracle::CheckReport checked, oracle::check(actual, expected_, options));
  return report_of(checked);
}

VerifyReport report_of(const oracle::CheckReport& checked) {
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
    check.mistrust = output.mistrust;
    report.text += describe(check) + "\n";
    report.outputs.push_back(std::move(check));
  }
  report.text += std::string(oracle::to_string(checked.verdict)) + "\n";
  return report;
}

}  // namespace driver

Result<VerifyReport> verify(const GemmArguments& arguments, const Target& target, const VerifyOptions& options,
                            Context& context) {
  const base::DefaultFloats floats;
  CODETTA_CHECK_OK(driver::check_target(target));
  driver::ContextState& state = *context.shared_state();
  if (driver::runs_on_gpu(target)) {
    CODETTA_TRY(const runtime::cuda::DeviceRef device, state.gpu(target).device());
    CODETTA_CHECK_OK(device->synchronize());
  }
  CODETTA_TRY(const driver::Verification verification,
              driver::Verification::make(arguments, options.before, target, options.seed, state, true));
  return verification.check(options.poisoned);
}

}  // namespace codetta
