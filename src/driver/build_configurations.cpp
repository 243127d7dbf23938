// SPDX-License-Identifier: Apache-2.0
// Which configuration each kernel of the user's takes in a library, by measurement.
#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codetta/device.hpp"
#include "codetta/fill.hpp"
#include "driver/build_tune.hpp"
#include "driver/program_arguments.hpp"
#include "driver/tune_whole.hpp"
#include "driver/user_tuning.hpp"

namespace codetta::driver {

namespace {

constexpr size_t most_configurations = 256;  // all that a source may have

// All of these calls take this configuration.
void take(plan::Plan& plan, const std::string& call, const std::string& configuration, const SizeHints& hints) {
  for (plan::PlannedKernel& kernel : plan.kernels) {
    if (!kernel.user || call_of(kernel, hints, plan.numerics.strict) != call) continue;
    const auto& candidates = kernel.discovery.candidates;
    for (size_t c = 0; c < candidates.size(); ++c) {
      if (candidates[c].name == configuration) kernel.chosen = c;
    }
  }
}

}  // namespace

void fill_input(const TensorView& view, uint64_t seed, const ProgramInput& input) {
  fill_random(view, seed, Distribution::Normal, input.terms > 0 ? 1 / std::sqrt(static_cast<double>(input.terms)) : 1);
  if (input.index_limit > 0) wrap_integers(view, input.index_limit, input.index_least);
}

Result<std::string> tune_configurations(plan::Plan& plan, const Program& program, const SizeHints& hints,
                                        const BuildOptions& options, Context& context) {
  using List = nlohmann::ordered_json;
  const bool choice = std::any_of(plan.kernels.begin(), plan.kernels.end(), [](const plan::PlannedKernel& kernel) {
    return kernel.user && kernel.discovery.candidates.size() > 1;
  });
  if (!choice) return std::string();
  ContextState& state = *context.shared_state();
  const std::string& name = Program::Access::state(program)->function.name;
  std::vector<NamedArgument> arguments;
  std::vector<Tensor> data;
  std::vector<DeviceTensor> there;  // on a GPU, instead
  std::optional<Device> device;
  if (runs_on_gpu(plan.target)) {
    CODETTA_TRY(device, Device::open(plan.target.backend, context));
  }
  CODETTA_TRY(const std::vector<ProgramInput> inputs, program.missing({}, hints, unknown_size));
  for (const ProgramInput& input : inputs) {
    if (input.is_number) {
      const ArgumentValue one = input.dtype == DType::boolean ? ArgumentValue(true) : ArgumentValue(int64_t{1});
      arguments.push_back({input.name, one});
      continue;
    }
    CODETTA_TRY(Tensor tensor, Tensor::make(input.dtype, input.shape, *state.allocator));
    fill_input(tensor.view(), arguments.size() + 1, input);
    if (device) {
      CODETTA_TRY(DeviceTensor copy, DeviceTensor::copy_of(*device, tensor.view()));
      arguments.push_back({input.name, copy.view()});
      there.push_back(std::move(copy));
      continue;
    }
    arguments.push_back({input.name, tensor.view()});
    data.push_back(std::move(tensor));
  }
  TuneOptions how;
  how.budget_seconds = options.tune_seconds;
  how.max_candidates = most_configurations;
  how.trial_seconds = options.trial_seconds;
  how.progress = [&](const TuneProgress&) { return !is_cancelled(state); };
  CODETTA_TRY(const ProgramShapes shapes, program.shapes(arguments));
  CODETTA_TRY(const TuneReport report,
              tune_configurations_of(program, arguments, plan.target, shapes.symbols, how, context));
  if (is_cancelled(state)) return tuning_cancelled(name);
  const auto tell = [&](const std::string& line) {
    if (options.progress) options.progress(fmt::format("{}: {}", name, line));
  };
  if (!report.note.empty()) tell(report.note);
  pick_configurations(plan, hints, load_user_tuning(state, Program::Access::state(program)->user_sources, plan.target));
  List picks = List::array();
  for (plan::PlannedKernel& kernel : plan.kernels) {
    if (!kernel.user || kernel.discovery.candidates.size() < 2) continue;
    const std::string call = call_of(kernel, hints, plan.numerics.strict);
    if (std::any_of(picks.begin(), picks.end(), [&](const List& known) { return known["call"] == call; })) continue;
    List measured = List::array();
    for (const TuneResult& one : report.results) {
      if (one.call != call) continue;
      measured.push_back({{"kernel", one.kernel}});
      if (one.failure.empty()) {
        measured.back()["microseconds"] = one.microseconds;
      } else {
        measured.back()["failure"] = one.failure;
      }
    }
    // Whatever is kept: the cache may be off.
    if (!measured.empty() && measured[0].contains("microseconds")) take(plan, call, measured[0]["kernel"], hints);
    const std::string& picked = kernel.discovery.candidates[kernel.chosen].name;
    tell(fmt::format("{} takes {}", call, picked));
    picks.push_back({{"call", call}, {"picked", picked}, {"measured", std::move(measured)}});
  }
  return picks.dump();
}

}  // namespace codetta::driver
