// SPDX-License-Identifier: Apache-2.0
// Which candidate each product of a library takes, by measurement.
#include "driver/build_tune.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codetta/device.hpp"
#include "diag/diagnostic.hpp"
#include "driver/build_id.hpp"
#include "driver/kernel_state.hpp"
#include "driver/program_arguments.hpp"
#include "driver/sampler.hpp"
#include "driver/trial.hpp"
#include "emit/package.hpp"
#include "types/dtype.hpp"

namespace codetta::driver {

namespace {

using Clock = std::chrono::steady_clock;
using List = nlohmann::ordered_json;

constexpr size_t most_candidates = 8;

// What the program is run on, of all choices of kernels, which run in turn: by buffer of the package, of which all
// have the same parameters and results.
struct Data {
  std::vector<ProgramInput> inputs;  // the program's parameters
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

Error endless(const std::string& name, double seconds, const std::string& why) {
  return diag::error(diag::Code::loop_endless, fmt::format("a run of {} takes longer than {:g} s", name, seconds))
      .reason(why)
      .help(
          "a greater `trial_seconds` allows more; a loop that random data never ends needs a count in its condition, "
          "or no `tune_seconds`");
}

bool has_loop(const plan::Plan& plan) {
  const auto loops = [](const package::StepList& steps) {
    return std::any_of(steps.begin(), steps.end(),
                       [](const package::Step& step) { return std::holds_alternative<package::While>(step); });
  };
  return loops(plan.steps) || std::any_of(plan.step_lists.begin(), plan.step_lists.end(), loops);
}

// A function of the caller's that the program calls, which nobody gives to a build.
const package::CallExtern* extern_in(const plan::Plan& plan) {
  const package::CallExtern* found = nullptr;
  const auto look = [&](const package::StepList& steps) {
    for (const package::Step& step : steps) {
      if (const auto* call = std::get_if<package::CallExtern>(&step); found == nullptr) found = call;
    }
  };
  look(plan.steps);
  for (const package::StepList& list : plan.step_lists) look(list);
  return found;
}

Error no_extern(const std::string& name, const std::string& function) {
  return diag::error(diag::Code::extern_missing, fmt::format("external function {} is not provided", function))
      .reason(
          fmt::format("tuning runs {}, which calls it, and a library gets its functions only when it is used", name))
      .help("build it without `tune_seconds`");
}

Result<void> run_through(Trial& trial) {
  if (trial.started) *trial.started = Clock::now();
  if (runtime::Execution* cpu = ExecutionState::cpu(*trial.execution)) return cpu->run();
  CODETTA_CHECK_OK(trial.execution->run());
  return ExecutionState::cuda(*trial.execution)->device()->synchronize();
}

// By the clock, of a run that is waited for, where it can't be captured. Microseconds.
Result<double> time_once(Trial& trial) {
  if (trial.sampler) return trial.sampler->sample();
  const auto start = Clock::now();
  CODETTA_CHECK_OK(run_through(trial));
  return since(start) * 1e6;
}

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

class ProductTuning {
 public:
  ProductTuning(plan::Plan& plan, const Program& program, const SizeHints& hints, const ConstantValues& values,
                const BuildOptions& options, ContextState& context)
      : plan_(plan),
        program_(program),
        name_(Program::Access::state(program)->function.name),
        hints_(hints),
        values_(values),
        options_(options),
        context_(context),
        loops_(has_loop(plan)),
        own_(!loops_ && std::none_of(plan.kernels.begin(), plan.kernels.end(),
                                     [](const plan::PlannedKernel& kernel) { return kernel.user.has_value(); })),
        trials_(context, plan.target) {}

  Result<List> run() {
    if (runs_on_gpu(plan_.target)) {
      CODETTA_TRY(device_, context_.gpu(plan_.target).device_for(plan_.target));
    }
    CODETTA_TRY(data_.inputs, program_.missing({}, hints_, unknown_size));
    trials_.begin();
    List picks = List::array();
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      if (plan_.kernels[k].user) continue;  // tune_configurations() has picked
      CODETTA_TRY(List pick, tune_product(k));
      picks.push_back(std::move(pick));
    }
    // Where there is nothing to pick, it is still found out whether the program comes to its end.
    if (picks.empty() && !own_) CODETTA_CHECK_OK(prepare());
    return picks;
  }

 private:
  [[nodiscard]] Result<void> goes_on(Clock::time_point started) const {
    if (is_cancelled(context_)) return tuning_cancelled(name_);
    if (since(started) <= options_.trial_seconds) return {};
    return endless(name_, options_.trial_seconds, "tuning ran it on random data of the hinted sizes");
  }

  // Whether a program that may not end, or may crash, does so on this data, found out in a process that can be ended.
  Result<void> try_run(Trial& trial) {
    const auto outcome =
        trials_.run(*trial.execution, options_.trial_seconds, !own_, [&] { return !is_cancelled(context_); });
    if (!outcome) {  // no process for it: on a CPU it is watched in this one, between steps
      if (options_.progress)
        options_.progress(fmt::format("{}: its first run has no process of its own: {}", name_, outcome.error()));
      return {};
    }
    switch (outcome->end) {
      case base::IsolatedEnd::Finished:
        return {};
      case base::IsolatedEnd::Stopped:
        return tuning_cancelled(name_);
      case base::IsolatedEnd::TimedOut:
        if (!own_)
          return endless(name_, options_.trial_seconds, "tuning ran it once on random data of the hinted sizes");
        return diag::error(diag::Code::loop_endless,
                           fmt::format("a run of {} takes longer than {:g} s", name_, options_.trial_seconds))
            .reason("tuning ran it once, with a candidate that was to be timed")
            .help("a greater `trial_seconds` allows more");
      case base::IsolatedEnd::Died:
        break;
    }
    if (own_) {
      return diag::error(diag::Code::device_failed, "a kernel that ran on the device has failed")
          .reason(outcome->summary)
          .help("it was in a process of its own; report this");
    }
    return diag::error(diag::Code::extern_failed, fmt::format("{} crashed in its first run while it was tuned", name_))
        .reason(fmt::format("{}; it ran on random data of the hinted sizes", outcome->summary))
        .help("look at the program's own kernels and functions: every index and size is theirs to check");
  }

  // What a candidate loses by alone; else the program, or what is around it, is to blame.
  [[nodiscard]] bool is_candidates_own(const Error& error) const {
    std::vector<diag::Code> own{diag::Code::kernel_resources, diag::Code::compile_rejected, diag::Code::user_source,
                                diag::Code::launch_limits, diag::Code::device_failed};
    if (own_) own.push_back(diag::Code::loop_endless);
    return std::any_of(own.begin(), own.end(),
                       [&](diag::Code code) { return error.code() == static_cast<uint16_t>(code); });
  }

  // Random, made at first need; null for no elements.
  Result<TensorView> view_of(size_t buffer, const std::string& name, DType dtype, const Dims& shape) {
    const auto known = data_.views.find(buffer);
    if (known != data_.views.end() && known->second.dtype() == dtype && known->second.shape() == shape)
      return known->second;
    CODETTA_TRY(Tensor tensor, Tensor::make(dtype, shape, *context_.allocator));
    const auto input = std::find_if(data_.inputs.begin(), data_.inputs.end(),
                                    [&](const ProgramInput& one) { return one.name == name; });
    fill_input(tensor.view(), buffer + 1, input != data_.inputs.end() ? *input : ProgramInput{});
    const auto bytes = static_cast<size_t>(tensor.view().element_count() * dtype_size(dtype));
    TensorView view;
    if (device_ == nullptr) {
      view = tensor.view();
      data_.host.push_back(std::move(tensor));
    } else if (bytes == 0) {
      CODETTA_TRY(view, TensorView::make(nullptr, dtype, shape));
    } else {
      CODETTA_TRY(runtime::cuda::DeviceBuffer memory, runtime::cuda::DeviceBuffer::make(device_, bytes));
      CODETTA_CHECK_OK(device_->upload(memory.address(), tensor.data(), bytes, nullptr));
      CODETTA_CHECK_OK(device_->synchronize(nullptr));
      CODETTA_TRY(view, TensorView::make(reinterpret_cast<void*>(memory.address()), dtype, shape));
      data_.there.push_back(std::move(memory));
    }
    data_.views.insert_or_assign(buffer, view);
    return view;
  }

  Result<runtime::Bindings> bound(const package::PackageRef& package) {
    runtime::Bindings bindings;
    bindings.tensors.resize(package->buffers.size());
    bindings.scalars.resize(package->buffers.size());
    if (device_ == nullptr) {
      CODETTA_TRY(bindings.packed_b, packed_constants(package, values_, *context_.pool));
    }
    const auto value = [&](std::string_view symbol) -> std::optional<int64_t> {
      for (const auto& [known, size] : hints_) {
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
      for (size_t d = 0; d < buffer.shape.size(); ++d) {
        const bool computed = !buffer.filled.empty() && !(buffer.filled[d] == buffer.shape[d]);
        shape.push_back(computed ? room_for(buffer.filled[d]) : buffer.shape[d].evaluate(value).value_or(1));
      }
      CODETTA_TRY(bindings.tensors[b], view_of(b, buffer.name, buffer.dtype, shape));
    }
    return bindings;
  }

  // For a size that a run computes: what it computes it of is taken to be at most the largest of the sizes.
  [[nodiscard]] int64_t room_for(const types::Dim& size) const {
    int64_t largest = unknown_size, room = 0;
    for (const auto& [symbol, hinted] : hints_) largest = std::max(largest, hinted);
    for (const int64_t computed : {int64_t{0}, largest}) {
      const auto value = [&](std::string_view symbol) -> std::optional<int64_t> {
        for (const auto& [known, hinted] : hints_) {
          if (known == symbol) return hinted;
        }
        return computed;
      };
      room = std::max(room, size.evaluate(value).value_or(0));
    }
    return room;
  }

  // The program with the kernels that are chosen, whose first run has come to its end.
  Result<Trial> prepare() {
    CODETTA_TRY(package::Package made, emit::emit_package(plan_, {.name = name_, .build_id = build_id()}));
    const auto package = std::make_shared<const package::Package>(std::move(made));
    Trial trial;
    CODETTA_TRY(runtime::Bindings bindings, bound(package));
    // Later runs may differ from the first: donated parameters do. Between steps of a GPU only loops are looked at,
    // since runs that are looked at are none to be captured.
    if (device_ == nullptr ? !own_ : loops_) trial.started = std::make_unique<Clock::time_point>();
    // Random indices are out of range, and are to be taken as others, not to end the run.
    constexpr bool checked = false;
    if (device_ != nullptr) {
      GpuPreparation how;
      how.checked = checked;
      if (trial.started)
        how.observer = [this, started = trial.started.get()](const runtime::StepEvent&, const runtime::cuda::Device&,
                                                             runtime::cuda::StreamHandle) { return goes_on(*started); };
      double compile_seconds = 0;
      CODETTA_TRY(runtime::cuda::Execution execution,
                  prepare_gpu(context_, package, plan_.target, std::move(bindings), compile_seconds, std::move(how)));
      trial.execution = ExecutionState::make(std::move(execution), nullptr, package, compile_seconds);
    } else {
      std::vector<runtime::KernelEntry> entries;
      for (const package::Kernel& kernel : package->kernels) {
        CODETTA_TRY(LoadedKernel loaded, context_.load(kernel, plan_.target.isa));
        entries.push_back(std::move(loaded.entry));
      }
      runtime::ExecutionOptions options;
      options.pool = context_.pool;
      options.allocator = context_.allocator;
      options.checked = checked;
      if (trial.started)
        options.observer = [this, started = trial.started.get()](const runtime::StepEvent&) {
          return goes_on(*started);
        };
      CODETTA_TRY(runtime::Execution execution,
                  runtime::Execution::make(package, std::move(entries), std::move(bindings), options));
      trial.execution = ExecutionState::make(std::move(execution), nullptr, package, 0);
    }
    if (trial.started) *trial.started = Clock::now() + std::chrono::hours(48);  // the process of the trial has its own
    if (device_ != nullptr || !own_) CODETTA_CHECK_OK(try_run(trial));
    CODETTA_CHECK_OK(run_through(trial));  // what ends early would be timed as fast
    if (device_ != nullptr && !loops_) {
      auto sampler = Sampler::make(std::span(&*trial.execution, 1));
      if (sampler) trial.sampler = *std::move(sampler);
    }
    return trial;
  }

  // Side by side, for a GPU, before any of them is timed; one that does not compile is left to prepare(), which tells.
  void compile_ahead(size_t k, size_t count) {
    if (device_ == nullptr) return;
    std::vector<package::Package> packages;
    for (size_t c = 0; c < count; ++c) {
      plan_.kernels[k].chosen = c;
      auto made = emit::emit_package(plan_, {.name = name_, .build_id = build_id()});
      if (made) packages.push_back(*std::move(made));
    }
    std::vector<const package::Kernel*> kernels;
    for (const package::Package& package : packages) {
      for (const package::Kernel& kernel : package.kernels) kernels.push_back(&kernel);
    }
    if (plan_.target.backend == Backend::hip)
      context_.hip.compile_ahead(kernels);
    else
      context_.cuda.compile_ahead(kernels);
  }

  // Of the trials, run in turn, in another order each round. A GPU at its limit of power changes its clock by several
  // percent from one second to the next, and by what ran before: a time counts as its share of the round, and the
  // result is the median of these shares of a median round.
  Result<std::vector<double>> time_in_turn(std::vector<Trial>& trials, double seconds) const {
    std::vector<std::vector<double>> shares(trials.size());
    std::vector<double> rounds, once(trials.size());
    std::vector<size_t> order(trials.size());
    std::iota(order.begin(), order.end(), 0);
    std::minstd_rand random;
    const auto begin = Clock::now();
    for (int round = 0; round < 5 || (round < 201 && since(begin) < seconds); ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t i : order) {
        if (is_cancelled(context_)) return tuning_cancelled(name_);
        CODETTA_TRY(once[i], time_once(trials[i]));
      }
      const double mean = std::max(std::accumulate(once.begin(), once.end(), 0.0) / static_cast<double>(once.size()),
                                   std::numeric_limits<double>::min());
      rounds.push_back(mean);
      for (size_t i = 0; i < once.size(); ++i) shares[i].push_back(once[i] / mean);
    }
    const double typical = median(rounds);
    std::vector<double> times;
    for (auto& list : shares) times.push_back(median(list) * typical);
    return times;
  }

  // Picks the fastest candidate of a kernel, and says what was measured.
  Result<List> tune_product(size_t k) {
    plan::PlannedKernel& kernel = plan_.kernels[k];
    const auto& candidates = kernel.discovery.candidates;
    const size_t count = std::min(candidates.size(), most_candidates);
    std::vector<Trial> trials;
    std::vector<size_t> tried;  // candidates that have one
    std::vector<std::string> failures(count);
    std::optional<Error> failed;
    compile_ahead(k, count);
    for (size_t c = 0; c < count; ++c) {
      kernel.chosen = c;
      auto trial = prepare();
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
    kernel.chosen = tried[0];
    CODETTA_TRY(const std::vector<double> times,
                time_in_turn(trials, options_.tune_seconds / static_cast<double>(plan_.kernels.size())));
    const auto best = std::min_element(times.begin(), times.end());
    kernel.chosen = tried[static_cast<size_t>(best - times.begin())];
    List measured = List::array();
    for (size_t t = 0; t < tried.size(); ++t)
      measured.push_back({{"kernel", candidates[tried[t]].name}, {"program_microseconds", times[t]}});
    for (size_t c = 0; c < count; ++c) {
      if (!failures[c].empty()) measured.push_back({{"kernel", candidates[c].name}, {"failure", failures[c]}});
    }
    const std::string& picked = candidates[kernel.chosen].name;
    if (options_.progress)
      options_.progress(fmt::format("{}: product {} takes {}, {:.1f} us", name_, k, picked, *best));
    List pick{{"product", k}, {"picked", picked}, {"measured", std::move(measured)}};
    return pick;
  }

  plan::Plan& plan_;
  const Program& program_;
  const std::string& name_;
  const SizeHints& hints_;
  const ConstantValues& values_;
  const BuildOptions& options_;
  ContextState& context_;
  const bool loops_;
  const bool own_;  // all kernels are Codetta's, and there are no loops: a kernel is to blame
  Trials trials_;
  runtime::cuda::DeviceRef device_;  // null on a CPU
  Data data_;
};

}  // namespace

bool is_cancelled(const ContextState& context) {
  return context.options.cancel != nullptr && context.options.cancel->load();
}

Error tuning_cancelled(const std::string& name) {
  return diag::error(diag::Code::compile_cancelled, fmt::format("the tuning of {} was cancelled", name))
      .reason("the context's cancel flag was set")
      .help("start it again when you want it");
}

Result<std::string> tune_plan(plan::Plan& plan, const Program& program, const SizeHints& hints,
                              const ConstantValues& values, const BuildOptions& options, ContextState& context) {
  const std::string& name = Program::Access::state(program)->function.name;
  CODETTA_CHECK_OK(context.check_runs(plan.target));
  if (!(options.trial_seconds > 0)) {
    return diag::error(diag::Code::option_range,
                       fmt::format("{:g} seconds are no time for a run", options.trial_seconds))
        .reason("the limit has to be above 0 seconds")
        .help("leave out `trial_seconds`: it is 60");
  }
  if (const package::CallExtern* call = extern_in(plan)) return no_extern(name, call->name);
  CODETTA_TRY(List picks, ProductTuning(plan, program, hints, values, options, context).run());
  List result{{"sizes", List::object()}, {"products", std::move(picks)}};
  for (const auto& [symbol, size] : hints) result["sizes"][symbol] = size;
  return result.dump();
}

}  // namespace codetta::driver
