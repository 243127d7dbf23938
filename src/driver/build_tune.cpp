// SPDX-License-Identifier: Apache-2.0
#include "driver/build_tune.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codetta/device.hpp"
#include "codetta/fill.hpp"
#include "diag/diagnostic.hpp"
#include "driver/build_id.hpp"
#include "driver/kernel_state.hpp"
#include "driver/program_arguments.hpp"
#include "driver/sampler.hpp"
#include "driver/trial.hpp"
#include "driver/user_tuning.hpp"
#include "emit/package.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::driver {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t most_candidates = 8;
constexpr size_t most_configurations = 256;  // all that a source may have
constexpr int64_t unknown_size = 512;

// What the program is run on, of all choices of kernels, which run in turn: by buffer of the package, of which all
// have the same parameters and results.
struct Data {
  std::vector<Tensor> host;
  std::vector<runtime::cuda::DeviceBuffer> there;  // on a GPU, instead
  std::map<size_t, TensorView> views;
};

// One choice of kernels, ready to be timed.
struct Trial {
  std::unique_ptr<Clock::time_point> started;  // of the run under way, which has a limit; null where none is needed
  std::optional<Execution> execution;
  std::optional<Sampler> sampler;  // on a GPU, where runs can be captured
};

double since(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }

bool is_cancelled(const ContextState& context) {
  return context.options.cancel != nullptr && context.options.cancel->load();
}

Error endless(const std::string& name, double seconds, const std::string& why) {
  return diag::error(diag::Code::loop_endless, fmt::format("a run of {} takes longer than {:g} s", name, seconds))
      .reason(why)
      .help(
          "a greater `trial_seconds` allows more; a loop that random data never ends needs a count in its condition, "
          "or "
          "no `tune_seconds`");
}

Error tuning_cancelled(const std::string& name) {
  return diag::error(diag::Code::compile_cancelled, fmt::format("the tuning of {} was cancelled", name))
      .reason("the context's cancel flag was set")
      .help("start it again when you want it");
}

bool has_loop(const package::StepList& steps) {
  return std::any_of(steps.begin(), steps.end(),
                     [](const package::Step& step) { return std::holds_alternative<package::While>(step); });
}
bool has_loop(const package::Package& package) {
  return has_loop(package.steps) || std::any_of(package.step_lists.begin(), package.step_lists.end(),
                                                [](const package::StepList& list) { return has_loop(list); });
}
const package::CallExtern* extern_in(const package::StepList& steps) {
  for (const package::Step& step : steps) {
    if (const auto* call = std::get_if<package::CallExtern>(&step)) return call;
  }
  return nullptr;
}
// A function of the caller's that the program calls, which nobody gives to a build.
const package::CallExtern* extern_in(const package::Package& package) {
  const package::CallExtern* call = extern_in(package.steps);
  for (const package::StepList& list : package.step_lists) call = call != nullptr ? call : extern_in(list);
  return call;
}
Error no_extern(const std::string& name, const std::string& function) {
  return diag::error(diag::Code::extern_missing, fmt::format("external function {} is not provided", function))
      .reason(
          fmt::format("tuning runs {}, which calls it, and a library gets its functions only when it is used", name))
      .help("build it without `tune_seconds`");
}
bool has_user_kernel(const package::Package& package) {
  return std::any_of(package.kernels.begin(), package.kernels.end(),
                     [](const package::Kernel& kernel) { return package::is_user(kernel.config); });
}

// Whether a program that may not end, or may crash, does so on this data, found out in a process that can be ended.
// `own`: all of its kernels are Codetta's, and it has no loops, so that a kernel is to blame.
Result<void> try_run(const std::string& name, Trial& trial, bool own, Trials& trials, const BuildOptions& options,
                     const ContextState& context) {
  const auto outcome =
      trials.run(*trial.execution, options.trial_seconds, !own, [&] { return !is_cancelled(context); });
  if (!outcome) {  // no process for it: on a CPU it is watched in this one, between steps
    if (options.progress)
      options.progress(fmt::format("{}: its first run has no process of its own: {}", name, outcome.error()));
    return {};
  }
  const bool ended = outcome->end == base::IsolatedEnd::Died || outcome->end == base::IsolatedEnd::TimedOut;
  if (own && ended) {
    return diag::error(diag::Code::device_failed, "a kernel that ran on the device has failed")
        .reason(outcome->summary)
        .help("it was in a process of its own; report this");
  }
  switch (outcome->end) {
    case base::IsolatedEnd::Finished:
      return {};
    case base::IsolatedEnd::Stopped:
      return tuning_cancelled(name);
    case base::IsolatedEnd::TimedOut:
      return endless(name, options.trial_seconds, "tuning ran it once on random data of the hinted sizes");
    case base::IsolatedEnd::Died:
      break;
  }
  return diag::error(diag::Code::extern_failed, fmt::format("{} crashed in its first run while it was tuned", name))
      .reason(fmt::format("{}; it ran on random data of the hinted sizes", outcome->summary))
      .help("look at the program's own kernels and functions: every index and size is theirs to check");
}

Result<void> run(Trial& trial) {
  if (trial.started) *trial.started = Clock::now();
  if (runtime::Execution* cpu = ExecutionState::cpu(*trial.execution)) return cpu->run();
  CODETTA_CHECK_OK(trial.execution->run());
  return ExecutionState::cuda(*trial.execution)->device()->synchronize();
}

// Random, made at first need; null for no elements.
Result<TensorView> view_of(Data& data, size_t buffer, DType dtype, const Dims& shape,
                           const runtime::cuda::DeviceRef& device, ContextState& context) {
  const auto known = data.views.find(buffer);
  if (known != data.views.end() && known->second.dtype() == dtype && known->second.shape() == shape)
    return known->second;
  CODETTA_TRY(Tensor tensor, Tensor::make(dtype, shape, *context.allocator));
  fill_random(tensor, buffer + 1);
  const auto bytes = static_cast<size_t>(tensor.view().element_count() * dtype_size(dtype));
  TensorView view;
  if (device == nullptr) {
    view = tensor.view();
    data.host.push_back(std::move(tensor));
  } else if (bytes == 0) {
    CODETTA_TRY(view, TensorView::make(nullptr, dtype, shape));
  } else {
    CODETTA_TRY(runtime::cuda::DeviceBuffer memory, runtime::cuda::DeviceBuffer::make(device, bytes));
    CODETTA_CHECK_OK(device->upload(memory.address(), tensor.data(), bytes, nullptr));
    CODETTA_CHECK_OK(device->synchronize(nullptr));
    CODETTA_TRY(view, TensorView::make(reinterpret_cast<void*>(memory.address()), dtype, shape));
    data.there.push_back(std::move(memory));
  }
  data.views.insert_or_assign(buffer, view);
  return view;
}

Result<Trial> prepare(const plan::Plan& plan, const std::string& name, const SizeHints& hints,
                      const ConstantValues& values, const BuildOptions& build, Data& data, Trials& trials,
                      ContextState& context) {
  CODETTA_TRY(package::Package made, emit::emit_package(plan, {.name = name, .build_id = build_id()}));
  const auto package = std::make_shared<const package::Package>(std::move(made));
  if (const package::CallExtern* call = extern_in(*package)) return no_extern(name, call->name);
  Trial trial;
  runtime::Bindings bindings;
  bindings.tensors.resize(package->buffers.size());
  bindings.scalars.resize(package->buffers.size());
  runtime::cuda::DeviceRef device;
  if (runs_on_gpu(plan.target)) {
    CODETTA_TRY(device, context.gpu(plan.target).device_for(plan.target));
  } else {
    CODETTA_TRY(bindings.packed_b, packed_constants(package, values, *context.pool));
  }
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
    CODETTA_TRY(bindings.tensors[b], view_of(data, b, buffer.dtype, shape, device, context));
  }
  const bool loops = has_loop(*package), own = !loops && !has_user_kernel(*package);
  const auto goes_on = [name, &build, &context](Clock::time_point started) -> Result<void> {
    if (is_cancelled(context)) return tuning_cancelled(name);
    if (since(started) <= build.trial_seconds) return {};
    return endless(name, build.trial_seconds, "tuning ran it on random data of the hinted sizes");
  };
  // Later runs may differ from the first: donated parameters do. Between steps of a GPU only loops are looked at, since
  // runs that are looked at are none to be captured.
  if (device == nullptr ? !own : loops) trial.started = std::make_unique<Clock::time_point>();
  // Random indices are out of range, and are to be taken as others, not to end the run.
  constexpr bool checked = false;
  if (device != nullptr) {
    GpuPreparation how;
    how.checked = checked;
    if (trial.started)
      how.observer = [goes_on, started = trial.started.get()](const runtime::StepEvent&, const runtime::cuda::Device&,
                                                              runtime::cuda::StreamHandle) {
        return goes_on(*started);
      };
    double compile_seconds = 0;
    CODETTA_TRY(runtime::cuda::Execution execution,
                prepare_gpu(context, package, plan.target, std::move(bindings), compile_seconds, std::move(how)));
    trial.execution = ExecutionState::make(std::move(execution), nullptr, package, compile_seconds);
  } else {
    std::vector<runtime::KernelEntry> entries;
    for (const package::Kernel& kernel : package->kernels) {
      CODETTA_TRY(LoadedKernel loaded, context.load(kernel, plan.target.isa));
      entries.push_back(std::move(loaded.entry));
    }
    runtime::ExecutionOptions options;
    options.pool = context.pool;
    options.allocator = context.allocator;
    options.checked = checked;
    if (trial.started)
      options.observer = [goes_on, started = trial.started.get()](const runtime::StepEvent&) {
        return goes_on(*started);
      };
    CODETTA_TRY(runtime::Execution execution,
                runtime::Execution::make(package, std::move(entries), std::move(bindings), options));
    trial.execution = ExecutionState::make(std::move(execution), nullptr, package, 0);
  }
  if (trial.started) *trial.started = Clock::now() + std::chrono::hours(48);  // the process of the trial has its own
  if (device != nullptr || !own) CODETTA_CHECK_OK(try_run(name, trial, own, trials, build, context));
  CODETTA_CHECK_OK(run(trial));  // what ends early would be timed as fast
  if (device != nullptr && !loops) {
    auto sampler = Sampler::make(std::span(&*trial.execution, 1));
    if (sampler) trial.sampler = *std::move(sampler);
  }
  return trial;
}

// By the clock, of a run that is waited for, where it can't be captured. Microseconds.
Result<double> time_once(Trial& trial) {
  if (trial.sampler) return trial.sampler->sample();
  const auto start = Clock::now();
  CODETTA_CHECK_OK(run(trial));
  return since(start) * 1e6;
}

// What a candidate loses by alone; else the program, or what is around it, is to blame.
bool is_candidates_own(const Error& error) {
  constexpr diag::Code own[] = {diag::Code::kernel_resources, diag::Code::compile_rejected, diag::Code::launch_limits,
                                diag::Code::device_failed};
  return std::any_of(std::begin(own), std::end(own),
                     [&](diag::Code code) { return error.code() == static_cast<uint16_t>(code); });
}

// Integers become indices of a dim of this size.
void wrap(const TensorView& view, int64_t size) {
  if (types::is_float(view.dtype())) return;
  auto* at = view.as<std::byte>();
  for (int64_t i = 0; i < view.element_count(); ++i, at += dtype_size(view.dtype())) {
    const int64_t value = types::load_i64(at, view.dtype()) % size;
    types::store_i64(at, view.dtype(), value < 0 ? value + size : value);
  }
}

// All of these calls take this configuration.
void take(plan::Plan& plan, const std::string& call, const std::string& configuration, const SizeHints& hints) {
  for (plan::PlannedKernel& kernel : plan.kernels) {
    if (!kernel.user || call_of(kernel, hints) != call) continue;
    const auto& candidates = kernel.discovery.candidates;
    for (size_t c = 0; c < candidates.size(); ++c) {
      if (candidates[c].name == configuration) kernel.chosen = c;
    }
  }
}

// Side by side, for a GPU, before any of them is timed; one that does not compile is left to prepare(), which tells.
void compile_ahead(plan::Plan& plan, size_t k, size_t count, const std::string& name, ContextState& context) {
  if (!runs_on_gpu(plan.target)) return;
  std::vector<package::Package> packages;
  for (size_t c = 0; c < count; ++c) {
    plan.kernels[k].chosen = c;
    auto made = emit::emit_package(plan, {.name = name, .build_id = build_id()});
    if (made) packages.push_back(*std::move(made));
  }
  std::vector<const package::Kernel*> kernels;
  for (const package::Package& package : packages) {
    for (const package::Kernel& kernel : package.kernels) kernels.push_back(&kernel);
  }
  if (plan.target.backend == Backend::hip) return context.hip.compile_ahead(kernels);
  context.cuda.compile_ahead(kernels);
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// Medians of the trials, run in turn.
Result<std::vector<double>> time_in_turn(std::vector<Trial>& trials, const std::string& name, double seconds,
                                         const ContextState& context) {
  std::vector<std::vector<double>> times(trials.size());
  const auto begin = Clock::now();
  for (int round = 0; round < 5 || (round < 201 && since(begin) < seconds); ++round) {
    for (size_t i = 0; i < trials.size(); ++i) {
      if (is_cancelled(context)) return tuning_cancelled(name);
      CODETTA_TRY(const double measured, time_once(trials[i]));
      times[i].push_back(measured);
    }
  }
  std::vector<double> medians;
  for (auto& list : times) medians.push_back(median(list));
  return medians;
}

}  // namespace

Result<std::string> tune_plan(plan::Plan& plan, const std::string& name, const SizeHints& hints,
                              const ConstantValues& values, const BuildOptions& options, ContextState& context) {
  using List = nlohmann::ordered_json;
  CODETTA_CHECK_OK(context.check_runs(plan.target));
  if (!(options.trial_seconds > 0)) {
    return diag::error(diag::Code::option_range,
                       fmt::format("{:g} seconds are no time for a run", options.trial_seconds))
        .reason("the limit has to be above 0 seconds")
        .help("leave out `trial_seconds`: it is 60");
  }
  Trials apart(context, plan.target);
  apart.begin();
  Data data;
  List picks = List::array();
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    if (plan.kernels[k].user) {  // tune_configurations() has picked; whether the program comes to its end with it
      CODETTA_TRY(const Trial trial, prepare(plan, name, hints, values, options, data, apart, context));
      continue;
    }
    const auto& candidates = plan.kernels[k].discovery.candidates;
    const size_t count = std::min(candidates.size(), most_candidates);
    std::vector<Trial> trials;
    std::vector<size_t> tried;  // candidates that have one
    std::vector<std::string> failures(count);
    std::optional<Error> failed;
    compile_ahead(plan, k, count, name, context);
    for (size_t c = 0; c < count; ++c) {
      plan.kernels[k].chosen = c;
      auto trial = prepare(plan, name, hints, values, options, data, apart, context);
      if (!trial && !is_candidates_own(trial.error())) return trial.error();
      if (!trial) {
        failures[c] = diag::sentence(trial.error());
        if (!failed) failed = trial.error();
        continue;
      }
      trials.push_back(*std::move(trial));
      tried.push_back(c);
    }
    if (trials.empty()) return *failed;
    plan.kernels[k].chosen = tried[0];
    CODETTA_TRY(const std::vector<double> times,
                time_in_turn(trials, name, options.tune_seconds / static_cast<double>(plan.kernels.size()), context));
    const auto best = std::min_element(times.begin(), times.end());
    plan.kernels[k].chosen = tried[static_cast<size_t>(best - times.begin())];
    List measured = List::array();
    for (size_t t = 0; t < tried.size(); ++t)
      measured.push_back({{"kernel", candidates[tried[t]].name}, {"program_microseconds", times[t]}});
    for (size_t c = 0; c < count; ++c) {
      if (!failures[c].empty()) measured.push_back({{"kernel", candidates[c].name}, {"failure", failures[c]}});
    }
    const std::string& picked = candidates[plan.kernels[k].chosen].name;
    if (options.progress) options.progress(fmt::format("{}: product {} takes {}, {:.1f} us", name, k, picked, *best));
    picks.push_back({{"product", k}, {"picked", picked}, {"measured", std::move(measured)}});
  }
  List result{{"sizes", List::object()}, {"products", std::move(picks)}};
  for (const auto& [symbol, size] : hints) result["sizes"][symbol] = size;
  return result.dump();
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
    fill_random(tensor, arguments.size() + 1);
    if (input.index_limit > 0) wrap(tensor.view(), input.index_limit);
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
  CODETTA_TRY(const TuneReport report, tune(program, arguments, plan.target, how, context));
  if (is_cancelled(state)) return tuning_cancelled(name);
  const auto tell = [&](const std::string& line) {
    if (options.progress) options.progress(fmt::format("{}: {}", name, line));
  };
  if (!report.note.empty()) tell(report.note);
  pick_configurations(plan, hints, load_user_tuning(state, Program::Access::state(program)->user_sources, plan.target));
  List picks = List::array();
  for (plan::PlannedKernel& kernel : plan.kernels) {
    if (!kernel.user || kernel.discovery.candidates.size() < 2) continue;
    const std::string call = call_of(kernel, hints);
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
