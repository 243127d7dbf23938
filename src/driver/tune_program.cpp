// SPDX-License-Identifier: Apache-2.0
// tune of a program: the configurations of the kernels of the user's that it calls, each call by itself over what the
// program would hand it.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "codetta/device.hpp"
#include "codetta/fill.hpp"
#include "driver/agreement.hpp"
#include "driver/configuration_trial.hpp"
#include "driver/kernel_state.hpp"
#include "driver/placed_tensor.hpp"
#include "driver/planned_graph.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_state.hpp"
#include "driver/stopping.hpp"
#include "driver/trial.hpp"
#include "driver/tune_whole.hpp"
#include "driver/user_calls.hpp"
#include "driver/user_tuning.hpp"
#include "opt/passes.hpp"

namespace codetta {
namespace driver {
namespace {

// The device's context is lost: whatever comes after would fail as well.
bool ends_all(const Error& error) { return error.code() == static_cast<uint16_t>(diag::Code::device_failed); }
// Of what a configuration fails by: nothing around it is to blame, such as a full folder, or that nothing may be
// compiled. A compiler's refusal is its own.
bool is_its_own(const Error& error) {
  return error.family() != ErrorFamily::Environment ||
         error.code() == static_cast<uint16_t>(diag::Code::compile_rejected);
}

class ProgramTuning {
 public:
  ProgramTuning(std::shared_ptr<const ProgramState> program, const std::vector<NamedArgument>& arguments,
                const Target& target, const SizeHints& sizes, const TuneOptions& options, Context& context)
      : program_(std::move(program)),
        arguments_(arguments),
        target_(target),
        sizes_(sizes),
        options_(options),
        context_(context),
        state_(*context.shared_state()),
        trials_(state_, target_) {}

  Result<TuneReport> run() {
    if (runs_on_gpu(target_)) {
      CODETTA_TRY(device_, Device::open(target_.backend, context_));
      trials_.begin();
    }
    CODETTA_TRY(const ir::Graph graph, graph_for(program_->graph, target_));
    CODETTA_TRY(const opt::Optimized optimized, opt::optimize(graph, state_.debug.passes));
    CODETTA_TRY(plan_, plan::plan_program(optimized.graph, target_, state_.machine(target_), sizes_,
                                          program_->user_sources, plan::Alignment::Hinted, program_->numerics));
    CODETTA_TRY(std::vector<UserCall> calls, user_calls(plan_, optimized.graph, sizes_));
    // Once each; those in branches and loops only where there is none outside, which has data of the program.
    std::stable_partition(calls.begin(), calls.end(),
                          [&](const UserCall& call) { return plan_.kernels[call.kernel].region.graph == nullptr; });
    std::vector<const UserCall*> different;
    for (const UserCall& call : calls) {
      const bool seen = std::any_of(different.begin(), different.end(),
                                    [&](const UserCall* known) { return name_of_call(*known) == name_of_call(call); });
      if (!seen) different.push_back(&call);
    }
    for (const UserCall* call : different)
      progress_.total += std::min(kernel_of(*call).configurations.size(), options_.max_candidates);
    if (different.empty()) add_note("the program calls no kernel of its own that has several configurations");
    for (const UserCall* call : different) {
      if (stopped_) break;
      CODETTA_CHECK_OK(tune_call(*call));
    }
    if (unable_ && told_ == 0) return *unable_;
    report_.complete = !stopped_;
    report_.seconds = since_start();
    return std::move(report_);
  }

 private:
  using TuneClock = std::chrono::steady_clock;

  [[nodiscard]] double since_start() const { return std::chrono::duration<double>(TuneClock::now() - start_).count(); }
  void add_note(const std::string& text) {
    if (report_.note.find(text) == std::string::npos) report_.note += (report_.note.empty() ? "" : "; ") + text;
  }
  [[nodiscard]] const plan::PlannedKernel& kernel_of(const UserCall& call) const { return plan_.kernels[call.kernel]; }
  [[nodiscard]] std::string name_of_call(const UserCall& call) const {
    return call_of(kernel_of(call), sizes_, plan_.numerics.strict);
  }
  [[nodiscard]] double trial_seconds() const { return options_.trial_seconds > 0 ? options_.trial_seconds : 10; }

  bool goes_on(const std::string& kernel, double measured) {
    progress_.kernel = kernel;
    progress_.microseconds = measured;
    if (measured > 0 && (progress_.best.empty() || measured < progress_.best_microseconds)) {
      progress_.best = kernel;
      progress_.best_microseconds = measured;
    }
    const bool told = !options_.progress || options_.progress(progress_);
    stopped_ = stopped_ || !told || since_start() >= options_.budget_seconds;
    return !stopped_;
  }

  // ---- data
  Result<PlacedTensor> room(DType dtype, const Dims& shape) const {
    return PlacedTensor::make(dtype, shape, device_ ? &*device_ : nullptr, *state_.allocator);
  }
  [[nodiscard]] const ArgumentValue* given(const std::string& name) const {
    for (const NamedArgument& argument : arguments_) {
      if (argument.name == name) return &argument.value;
    }
    return nullptr;
  }

  // Runs it where a crash or a hang harms nobody. False: it does not come to its end, as `failure` says, or goes_on()
  // said no.
  bool survives(Execution& execution, const std::string& what, std::string& failure) {
    const auto outcome = trials_.run(execution, trial_seconds(), true, [&] { return goes_on(what, 0); });
    if (!outcome) {
      add_note(fmt::format("no process for trials ({}): a configuration that crashes{} is not stopped", outcome.error(),
                           device_ ? " or hangs" : ""));
      return true;
    }
    if (outcome->end == base::IsolatedEnd::Died) failure = "crashed in its first run: " + outcome->summary;
    if (outcome->end == base::IsolatedEnd::TimedOut) failure = "hung in its first run: " + outcome->summary;
    return outcome->end == base::IsolatedEnd::Finished;
  }
  Result<void> run_once(Execution& execution) const {
    CODETTA_CHECK_OK(execution.run());
    return device_ ? device_->synchronize() : Result<void>();
  }

  // What the program computes in front of the call, by a run of that part alone, in which kernels of the user's take
  // what was measured of them before. Why it is not there; empty: it is.
  Result<std::string> compute(const UserCall& call, std::vector<NamedArgument>& operands) {
    if (!call.in_front) return std::string();
    auto front = std::make_shared<ProgramState>(*program_);
    front->graph = *call.in_front;
    CODETTA_TRY(const CompiledProgram compiled, compile(Program::Access::make(front), target_, sizes_, context_));
    std::vector<NamedArgument> all;
    for (const ir::GraphInput& input : front->graph.inputs()) {
      if (const ArgumentValue* value = given(input.name)) all.push_back({input.name, *value});
    }
    CODETTA_TRY(const ProgramShapes shapes, compiled.shapes(all));
    for (const ProgramShapes::Output& output : shapes.outputs) {
      CODETTA_TRY(PlacedTensor made, room(output.dtype, output.shape));
      all.push_back({output.name, made.view()});
      operands.push_back({output.name, made.view()});
      memory_.push_back(std::move(made));
    }
    CODETTA_TRY(Execution execution, compiled.prepare(all));
    std::string failure;
    if (!survives(execution, "what is in front of " + kernel_of(call).user->name, failure)) return failure;
    CODETTA_CHECK_OK(run_once(execution));
    for (NamedArgument& operand : operands) {  // as large as the run has made it
      CODETTA_TRY(const Dims shape, execution.output_shape(operand.name));
      const TensorView& whole = *operand.value.tensor();
      CODETTA_TRY(const TensorView part, TensorView::make(whole.data(), whole.dtype(), shape, whole.strides()));
      operand.value = part;
    }
    return std::string();
  }

  Result<std::vector<NamedArgument>> operands_of(const UserCall& call) {
    std::vector<NamedArgument> computed, operands;
    auto in_front = compute(call, computed);
    if (!in_front && ends_all(in_front.error())) return in_front.error();
    if (!in_front && was_cancelled(in_front.error())) stopped_ = true;
    if (stopped_) return operands;
    const std::string why = in_front ? *in_front : diag::sentence(in_front.error());
    if (!why.empty()) {
      computed.clear();
      add_note(fmt::format("{} is timed over random data, for what is in front of it does not run: {}",
                           kernel_of(call).user->name, why));
    }
    for (const UserCall::Operand& operand : call.operands) {
      const ArgumentValue* value = operand.parameter.empty() ? nullptr : given(operand.parameter);
      for (const NamedArgument& one : computed) {
        if (one.name == operand.name) value = &one.value;
      }
      if (value != nullptr) {
        operands.push_back({operand.name, *value});
        continue;
      }
      CODETTA_TRY(Tensor contents, contents_of(call, operand, 1 + operands.size(), *state_.allocator));
      CODETTA_TRY(PlacedTensor made, PlacedTensor::of(std::move(contents), device_ ? &*device_ : nullptr));
      operands.push_back({operand.name, made.view()});
      memory_.push_back(std::move(made));
    }
    return operands;
  }

  // ---- one call
  struct Call {
    const UserCall& call;
    std::string name;
    Program alone, timed;
    std::string name_alone, name_timed;  // call_of() of the same call in these
    std::vector<NamedArgument> operands;
    std::vector<PlacedTensor> results, unread_results;
    std::vector<Tensor> poison;      // contents of results before a run
    std::vector<Tensor> expected{};  // of the first configuration that ran
    std::string expected_of{};
  };

  // The same call in a program of its own, and what call_of() says of it there.
  Result<std::pair<Program, std::string>> program_of(const UserCall& call, const ir::Graph& graph) const {
    const plan::PlannedKernel& kernel = kernel_of(call);
    auto made = std::make_shared<ProgramState>();
    made->function.name = kernel.user->name;
    made->function.source = program_->graph.source();
    made->graph = graph;
    made->user_sources.push_back(*kernel.user);
    made->numerics = program_->numerics;
    CompiledProgramState state;
    state.program = made;
    state.context = context_.shared_state();
    state.target = target_;
    state.hints = call.sizes;
    CODETTA_TRY(const plan::Plan plan, plan_of(state));
    for (const plan::PlannedKernel& one : plan.kernels) {
      if (one.user) return std::pair(Program::Access::make(made), call_of(one, call.sizes, plan.numerics.strict));
    }
    return diag::error(diag::Code::internal, fmt::format("the call of {} alone calls nothing", kernel.user->name));
  }

  Result<Execution> prepared(const Call& call, const Program& program, const std::string& name, size_t configuration,
                             const std::vector<UserCall::Operand>& outputs,
                             const std::vector<PlacedTensor>& memory) const {
    const plan::PlannedKernel& kernel = kernel_of(call.call);
    const TuningRecord decided{{{measured_name(kernel.configurations[configuration], name), 1.0}}};
    CODETTA_TRY(const CompiledProgram compiled,
                compile_with(program, target_, call.call.sizes, {{kernel.user->name, decided}}, context_));
    std::vector<NamedArgument> arguments = call.operands;
    for (size_t r = 0; r < outputs.size(); ++r) arguments.push_back({outputs[r].name, memory[r].view()});
    return compiled.prepare(arguments);
  }

  Result<void> tune_call(const UserCall& user) {
    memory_.clear();
    const plan::PlannedKernel& kernel = kernel_of(user);
    // On a GPU a result that the caller wants is copied to where it wants it, behind the kernel.
    const bool copies = device_ && !kernel.hook;
    CODETTA_TRY(auto alone, program_of(user, user.alone));
    CODETTA_TRY(auto timed, program_of(user, copies ? user.unread : user.alone));
    Call call{user, name_of_call(user), alone.first, timed.first, alone.second, timed.second, {}, {}, {}, {}};
    CODETTA_TRY(call.operands, operands_of(user));
    if (stopped_) return {};
    for (const UserCall::Operand& result : user.results) {
      CODETTA_TRY(PlacedTensor made, room(result.dtype, result.shape));
      CODETTA_TRY(Tensor unset, Tensor::make(result.dtype, result.shape, *state_.allocator));
      fill_poison(unset.view());
      call.results.push_back(std::move(made));
      call.poison.push_back(std::move(unset));
    }
    for (const UserCall::Operand& result : user.unread_results) {
      CODETTA_TRY(PlacedTensor made, room(result.dtype, result.shape));
      call.unread_results.push_back(std::move(made));
    }
    // Written after each. What fails now is not to win by its old time.
    const auto keep = [&](size_t c, const TuneResult& result) {
      keep_user_times(state_, *kernel.user, target_,
                      {{measured_name(kernel.configurations[c], call.name),
                        result.failure.empty() ? std::optional(result.microseconds) : std::nullopt}});
    };
    std::vector<ConfigurationTrial> all(std::min(kernel.configurations.size(), options_.max_candidates));
    progress_.best.clear();
    for (size_t c = 0; c < all.size(); ++c) {
      TuneResult& result = all[c].result;
      result.kernel = kernel.discovery.candidates[c].name;
      result.call = call.name;
      if (!goes_on(result.kernel, 0)) break;
      if (const auto tried = try_out(all[c], call, c, copies); !tried) CODETTA_CHECK_OK(lose(all[c], tried.error()));
      if (!result.failure.empty()) all[c].drop();
      if (result.failure.empty() && !(result.microseconds > 0)) break;  // stopped
      ++progress_.done;
      if (all[c].tells()) keep(c, result);
      if (result.microseconds > 0 && !goes_on(result.kernel, result.microseconds)) break;
    }
    CODETTA_CHECK_OK(time_in_turn(all));
    const auto first = static_cast<std::ptrdiff_t>(report_.results.size());
    for (size_t c = 0; c < all.size(); ++c) {
      if (all[c].tells()) keep(c, all[c].result);
      if (all[c].tells()) ++told_;
      if (all[c].tells() || !all[c].result.failure.empty()) report_.results.push_back(all[c].result);
    }
    std::stable_sort(report_.results.begin() + first, report_.results.end(),
                     [](const TuneResult& a, const TuneResult& b) {
                       if (a.failure.empty() != b.failure.empty()) return a.failure.empty();
                       return a.failure.empty() && a.microseconds < b.microseconds;
                     });
    return {};
  }

  // It alone, by what it failed with. Errors: what ends the whole call.
  Result<void> lose(ConfigurationTrial& one, const Error& error) {
    if (ends_all(error)) return error;
    if (was_cancelled(error)) {
      stopped_ = true;
      return {};
    }
    one.result.failure = diag::sentence(error);
    one.blameless = !is_its_own(error);
    if (one.blameless && !unable_) unable_ = error;
    one.drop();
    return {};
  }

  // Fills in the result. Errors: why it loses, or what ends the whole call.
  Result<void> try_out(ConfigurationTrial& next, Call& call, size_t c, bool copies) {
    CODETTA_TRY(Execution whole, prepared(call, call.alone, call.name_alone, c, call.call.results, call.results));
    if (!survives(whole, next.result.kernel, next.result.failure)) return {};
    for (size_t r = 0; r < call.results.size(); ++r) CODETTA_CHECK_OK(call.results[r].write(call.poison[r].view()));
    CODETTA_CHECK_OK(run_once(whole));
    std::vector<Tensor> made;
    for (const PlacedTensor& result : call.results) {
      CODETTA_TRY(Tensor contents, result.read(*state_.allocator));
      made.push_back(std::move(contents));
    }
    for (size_t r = 0; r < call.expected.size(); ++r) {
      const auto found = disagreement_of(call.expected[r].view(), made[r].view());
      if (!found) continue;
      next.result.failure = fmt::format("its results are not those of {}: {}{}", call.expected_of,
                                        made.size() == 1 ? "" : fmt::format("result {}, ", r), *found);
      return {};
    }
    if (call.expected_of.empty()) {
      call.expected = std::move(made);
      call.expected_of = next.result.kernel;
    }
    next.execution = std::move(whole);
    if (copies) {
      CODETTA_TRY(next.execution,
                  prepared(call, call.timed, call.name_timed, c, call.call.unread_results, call.unread_results));
    }
    CODETTA_TRY(next.sampler, Sampler::make(std::span(&*next.execution, 1)));
    return next.sample(3);
  }

  // The good ones again, interleaved, so that a change of the machine's speed hits all alike.
  Result<void> time_in_turn(std::vector<ConfigurationTrial>& all) {
    std::vector<ConfigurationTrial*> finalists;
    for (ConfigurationTrial& one : all) {
      if (one.sampler && one.result.microseconds > 0) finalists.push_back(&one);
    }
    std::sort(finalists.begin(), finalists.end(), [](const ConfigurationTrial* a, const ConfigurationTrial* b) {
      return a->result.microseconds < b->result.microseconds;
    });
    if (finalists.size() > 4) finalists.resize(4);
    for (int round = 0; round < 15 && !stopped_ && finalists.size() > 1; ++round) {
      for (ConfigurationTrial* finalist : finalists) {
        if (const auto sampled = finalist->sample(1); !sampled) CODETTA_CHECK_OK(lose(*finalist, sampled.error()));
        if (stopped_) return {};
      }
      std::erase_if(finalists, [](const ConfigurationTrial* finalist) { return !finalist->sampler; });
      if (!finalists.empty()) goes_on(finalists[0]->result.kernel, finalists[0]->result.microseconds);
    }
    return {};
  }

  std::shared_ptr<const ProgramState> program_;
  const std::vector<NamedArgument>& arguments_;
  const Target target_;
  const SizeHints& sizes_;
  const TuneOptions& options_;
  Context& context_;
  ContextState& state_;
  std::optional<Device> device_;  // none on a CPU
  Trials trials_;
  plan::Plan plan_;
  std::vector<PlacedTensor> memory_;  // of operands
  TuneProgress progress_;
  TuneReport report_;
  size_t told_ = 0;              // configurations that told something of themselves
  std::optional<Error> unable_;  // the first that failed by something else
  bool stopped_ = false;
  TuneClock::time_point start_ = TuneClock::now();
};

}  // namespace

Result<TuneReport> tune_configurations_of(const Program& program, const std::vector<NamedArgument>& arguments,
                                          const Target& target, const SizeHints& sizes, const TuneOptions& options,
                                          Context& context) {
  return ProgramTuning(Program::Access::state(program), arguments, target, sizes, options, context).run();
}

}  // namespace driver
}  // namespace codetta
