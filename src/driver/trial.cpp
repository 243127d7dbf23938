// SPDX-License-Identifier: Apache-2.0
#include "driver/trial.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>

#include "base/shared_library.hpp"
#include "driver/build_id.hpp"
#include "driver/kernel_state.hpp"
#include "driver/trial_messages.hpp"
#include "runtime/cuda/detached.hpp"

// Of the command alone. Where a program is linked with the library, this tells whether it is the command.
extern "C" __attribute__((weak)) const char codetta_is_command;

namespace codetta::driver {

namespace {

constexpr double least_bytes_per_second = 50e6;  // that operands travel with, and are copied to a device

// Stands for a pool whose threads don't exist: as many tasks, done by the caller.
class AloneAsMany : public ThreadPool {
 public:
  explicit AloneAsMany(int size) : size_(size) {}
  [[nodiscard]] int size() const override { return size_; }
  void run(int tasks, void (*fn)(void* ctx, int task), void* ctx) override {
    for (int task = 0; task < tasks; ++task) fn(ctx, task);
  }

 private:
  int size_;
};

base::IsolatedLimits limits_of(double seconds, const std::function<bool()>& goes_on) {
  base::IsolatedLimits limits;
  limits.timeout =
      std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(std::min(seconds, 86400.0) * 1e3)));
  limits.goes_on = goes_on;
  return limits;
}

std::vector<std::string> whole_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

}  // namespace

std::string command_of(const ContextOptions& options) {
  if (!options.command.empty()) return options.command;
  namespace fs = std::filesystem;
  const fs::path file = base::library_file_of(reinterpret_cast<const void*>(&build_id));
  if (&codetta_is_command != nullptr) return file.string();
  for (const char* folder : {".", "bin", "../bin", "../../bin"}) {
    auto found = base::find_executable((file.parent_path() / folder / "codetta").string(), {});
    std::error_code none;
    if (found && !fs::equivalent(*found, file, none)) return *found;
  }
  return {};
}

base::Expected<base::IsolatedOutcome> trial_run(runtime::Execution& execution, int threads, double seconds,
                                                const std::function<bool()>& goes_on) {
  AloneAsMany pool(threads);
  return base::run_isolated([&] { static_cast<void>(execution.run(pool)); }, limits_of(seconds, goes_on));
}

base::Expected<void, std::string> Trials::start() {
  if (!none_.empty()) return none_;
  if (companion_ && companion_->alive()) return {};
  ready_ = false;
  companion_.reset();
  base::ProcessRequest request;
  request.program = command_of(context_.options);
  if (request.program.empty()) {
    none_ = "there is no codetta command beside the library";
    return none_;
  }
  request.arguments = {std::string(trial_verb)};
  request.environment = whole_environment();
  auto started = base::Companion::start(request);
  if (!started) {
    none_ = started.error().message();
    return none_;
  }
  companion_.emplace(*std::move(started));
  TrialHello hello;
  hello.backend = target_.backend;
  hello.driver = target_.backend == Backend::hip ? context_.options.hip_runtime : context_.options.cuda_driver;
  hello.device = context_.options.device;
  hello.build = build_id();
  companion_->post(hello.encode());
  return {};
}

void Trials::begin() {
  if (runs_on_gpu(target_)) static_cast<void>(start());
}

base::Expected<TrialOutcome, std::string> Trials::greeted(const std::function<bool()>& goes_on) {
  if (ready_) return TrialOutcome{};
  const auto [outcome, answer] = companion_->answer(limits_of(start_seconds_, goes_on));
  if (outcome.end == base::IsolatedEnd::Stopped) return TrialOutcome{outcome.end, outcome.summary()};
  const TrialAnswer told = outcome.end == base::IsolatedEnd::Finished
                               ? TrialAnswer::decode(answer)
                               : TrialAnswer{TrialAnswer::Kind::Unable, outcome.summary()};
  ready_ = told.kind == TrialAnswer::Kind::Made;
  if (ready_) return TrialOutcome{};
  none_ = fmt::format("the codetta command does not do: {}", told.text);
  companion_.reset();
  return none_;
}

base::Expected<TrialOutcome, std::string> Trials::run(Execution& execution, double seconds, bool contents,
                                                      const std::function<bool()>& goes_on) {
  if (const auto* gpu = ExecutionState::cuda(execution)) {
    const auto& kernels = ExecutionState::of(execution).package->kernels;
    const bool vendor = std::any_of(kernels.begin(), kernels.end(),
                                    [](const package::Kernel& kernel) { return package::is_vendor(kernel.config); });
    return vendor ? TrialOutcome{} : run_on_gpu(*gpu, seconds, contents, goes_on);
  }
  const auto outcome = trial_run(*ExecutionState::cpu(execution), context_.pool->size(), seconds, goes_on);
  if (!outcome) return outcome.error().message();
  return TrialOutcome{outcome->end, outcome->summary()};
}

base::Expected<TrialOutcome, std::string> Trials::run_on_gpu(const runtime::cuda::Execution& execution, double seconds,
                                                             bool contents, const std::function<bool()>& goes_on) {
  const auto bytes = runtime::cuda::to_bytes(execution, contents);
  if (!bytes) return bytes.error().message();
  if (!*bytes) return std::string("it takes functions or weights of the caller's along");
  if (const auto started = start(); !started) return started.error();
  const auto greeting = greeted(goes_on);
  if (!greeting || greeting->end != base::IsolatedEnd::Finished) return greeting;
  const double making = start_seconds_ + static_cast<double>((*bytes)->size()) / least_bytes_per_second;
  auto [outcome, answer] = companion_->ask(**bytes, limits_of(making, goes_on));
  TrialAnswer told = TrialAnswer::decode(answer);
  if (outcome.end == base::IsolatedEnd::Finished && told.kind == TrialAnswer::Kind::Made) {
    std::tie(outcome, answer) = companion_->answer(limits_of(seconds, goes_on));
    told = TrialAnswer::decode(answer);
  } else if (outcome.end == base::IsolatedEnd::TimedOut || outcome.end == base::IsolatedEnd::Died) {
    return "it could not be made there: " + outcome.summary();  // nothing of it has run
  }
  if (outcome.end != base::IsolatedEnd::Finished) return TrialOutcome{outcome.end, outcome.summary()};
  if (told.kind == TrialAnswer::Kind::Ran) return TrialOutcome{};
  if (told.kind != TrialAnswer::Kind::Lost) return told.text;
  companion_.reset();  // its context is lost
  return TrialOutcome{base::IsolatedEnd::Died, told.text};
}

}  // namespace codetta::driver
