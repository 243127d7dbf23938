// SPDX-License-Identifier: Apache-2.0
#include "driver/build_tune.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codetta/fill.hpp"
#include "driver/build_id.hpp"
#include "driver/kernel_state.hpp"
#include "driver/program_arguments.hpp"
#include "emit/package.hpp"

namespace codetta::driver {

namespace {

constexpr size_t most_candidates = 8;
constexpr int64_t unknown_size = 512;

// One choice of kernels with data of its own, ready to be timed.
struct Trial {
  std::vector<Tensor> data;
  std::optional<runtime::Execution> execution;
};

Result<Trial> prepare(const plan::Plan& plan, const std::string& name, const SizeHints& hints, ContextState& context) {
  CODETTA_TRY(package::Package made, emit::emit_package(plan, {.name = name, .build_id = build_id()}));
  const auto package = std::make_shared<const package::Package>(std::move(made));
  Trial trial;
  runtime::Bindings bindings;
  bindings.tensors.resize(package->buffers.size());
  bindings.scalars.resize(package->buffers.size());
  bindings.packed_b.resize(package->kernels.size());
  const auto value = [&](std::string_view symbol) -> std::optional<int64_t> {
    for (const auto& [known, size] : hints) {
      if (known == symbol) return size;
    }
    return unknown_size;
  };
  for (size_t b = 0; b < package->buffers.size(); ++b) {
    const package::Buffer& buffer = package->buffers[b];
    if (buffer.role != package::Buffer::Role::Argument && buffer.role != package::Buffer::Role::Output) continue;
    if (buffer.is_scalar) {
      const ArgumentValue one = buffer.dtype == DType::boolean ? ArgumentValue(true) : ArgumentValue(int64_t{1});
      CODETTA_TRY(bindings.scalars[b], declared_number(buffer, one));
      continue;
    }
    Dims shape;
    for (const types::Dim& dim : buffer.shape) shape.push_back(dim.evaluate(value).value_or(1));
    CODETTA_TRY(Tensor tensor, Tensor::make(buffer.dtype, shape, *context.allocator));
    fill_random(tensor, b + 1);
    bindings.tensors[b] = tensor.view();
    trial.data.push_back(std::move(tensor));
  }
  std::vector<runtime::KernelEntry> entries;
  for (const package::Kernel& kernel : package->kernels) {
    CODETTA_TRY(LoadedKernel loaded, context.load(kernel, plan.target.isa));
    entries.push_back(std::move(loaded.entry));
  }
  runtime::ExecutionOptions options;
  options.pool = context.pool;
  options.allocator = context.allocator;
  options.checked = false;  // random indices are out of range, and are to be taken as others, not to end the run
  CODETTA_TRY(trial.execution, runtime::Execution::make(package, std::move(entries), std::move(bindings), options));
  CODETTA_CHECK_OK(trial.execution->run());  // what ends early would be timed as fast
  return trial;
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// Medians of the trials, run in turn.
std::vector<double> time_in_turn(std::vector<Trial>& trials, double seconds) {
  std::vector<std::vector<double>> times(trials.size());
  const auto begin = std::chrono::steady_clock::now();
  const auto since = [](auto from) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  for (int round = 0; round < 5 || (round < 201 && since(begin) < seconds); ++round) {
    for (size_t i = 0; i < trials.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      static_cast<void>(trials[i].execution->run());
      times[i].push_back(since(start) * 1e6);
    }
  }
  std::vector<double> medians;
  for (auto& list : times) medians.push_back(median(list));
  return medians;
}

}  // namespace

Result<std::string> tune_plan(plan::Plan& plan, const std::string& name, const SizeHints& hints,
                              const BuildOptions& options, ContextState& context) {
  using List = nlohmann::ordered_json;
  CODETTA_CHECK_OK(device_supports(plan.target));
  List picks = List::array();
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const auto& candidates = plan.kernels[k].discovery.candidates;
    const size_t count = std::min(candidates.size(), most_candidates);
    std::vector<Trial> trials;
    for (size_t c = 0; c < count; ++c) {
      plan.kernels[k].chosen = c;
      CODETTA_TRY(Trial trial, prepare(plan, name, hints, context));
      trials.push_back(std::move(trial));
    }
    plan.kernels[k].chosen = 0;
    const std::vector<double> times =
        time_in_turn(trials, options.tune_seconds / static_cast<double>(plan.kernels.size()));
    const auto best = std::min_element(times.begin(), times.end());
    plan.kernels[k].chosen = static_cast<size_t>(best - times.begin());
    List measured = List::array();
    for (size_t c = 0; c < count; ++c)
      measured.push_back({{"kernel", candidates[c].name}, {"program_microseconds", times[c]}});
    const std::string& picked = candidates[plan.kernels[k].chosen].name;
    if (options.progress) options.progress(fmt::format("{}: product {} takes {}, {:.1f} us", name, k, picked, *best));
    picks.push_back({{"product", k}, {"picked", picked}, {"measured", std::move(measured)}});
  }
  List result{{"sizes", List::object()}, {"products", std::move(picks)}};
  for (const auto& [symbol, size] : hints) result["sizes"][symbol] = size;
  return result.dump();
}

}  // namespace codetta::driver
