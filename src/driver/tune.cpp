// SPDX-License-Identifier: Apache-2.0
// Tuning: the fused candidates timed, interleaved, and checked.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "driver/kernel_state.hpp"
#include "driver/tuning_record.hpp"
#include "types/view.hpp"

namespace codetta {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// A copy of every operand that an output overwrites, so that each check starts from the same contents.
struct Saved {
  std::string name;
  TensorView view;
  Tensor copy;  // row-major
};

void copy_elements(const TensorView& from, const TensorView& to) {
  const auto size = static_cast<size_t>(dtype_size(from.dtype()));
  const int64_t count = from.element_count();
  Dims index;
  for (int d = 0; d < from.rank(); ++d) index.push_back(0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t source = 0, target = 0;
    for (int d = 0; d < from.rank(); ++d) {
      source += index[d] * from.stride(d);
      target += index[d] * to.stride(d);
    }
    std::memcpy(to.as<std::byte>() + target * static_cast<int64_t>(size),
                from.as<std::byte>() + source * static_cast<int64_t>(size), size);
    for (int d = from.rank(); d-- > 0;) {
      if (++index[d] < from.size(d)) break;
      index[d] = 0;
    }
  }
}

Result<std::vector<Saved>> save_overwritten(const driver::Problem& problem) {
  std::vector<Saved> saved;
  for (const auto& input : problem.bound.inputs()) {
    const auto at = problem.tensors.find(input.name);
    if (at == problem.tensors.end()) continue;
    const bool overwritten =
        std::any_of(problem.bound.outputs().begin(), problem.bound.outputs().end(), [&](const auto& output) {
          const auto out = problem.tensors.find(output.name);
          return out != problem.tensors.end() && types::identical_view(out->second, at->second);
        });
    if (!overwritten) continue;
    CODETTA_TRY(Tensor copy, Tensor::make(at->second.dtype(), at->second.shape()));
    copy_elements(at->second, copy.view());
    saved.push_back({input.name, at->second, std::move(copy)});
  }
  return saved;
}

struct Contender {
  const Kernel* kernel = nullptr;
  std::optional<Execution> execution;
  TuneResult result;
  std::vector<double> samples;
  int64_t repeats = 1;  // runs per sample, so that a sample lasts long enough for the clock
};

double percentile(std::vector<double>& sorted, double p) {
  const auto at = static_cast<size_t>(p * static_cast<double>(sorted.size() - 1));
  return sorted[at];
}

void summarize(Contender& contender) {
  if (contender.samples.empty()) return;
  std::sort(contender.samples.begin(), contender.samples.end());
  contender.result.microseconds = percentile(contender.samples, 0.5);
  contender.result.spread =
      (percentile(contender.samples, 0.75) - percentile(contender.samples, 0.25)) / contender.result.microseconds;
}

Result<double> sample(Contender& contender) {
  const auto start = Clock::now();
  for (int64_t i = 0; i < contender.repeats; ++i) CODETTA_CHECK_OK(contender.execution->run());
  return microseconds_since(start) / static_cast<double>(contender.repeats);
}

}  // namespace

Result<TuneReport> tune(const GemmArguments& arguments, const Target& target, const TuneOptions& options,
                        Context& context) {
  CODETTA_CHECK_OK(device_supports(target));
  const auto start = Clock::now();
  DiscoveryOptions discovery;
  discovery.max_candidates = options.max_candidates;
  CODETTA_TRY(const KernelList kernels, find_kernels(arguments, target, discovery, context));
  TuneReport report;
  if (kernels.empty()) return report;
  const driver::FoundState& found = *driver::KernelState::of(kernels[0]).found;
  CODETTA_TRY(const std::vector<Saved> saved, save_overwritten(found.problem));
  std::vector<std::pair<std::string, TensorView>> before;
  for (const Saved& s : saved) before.emplace_back(s.name, s.copy.view());
  const auto restore = [&] {
    for (const Saved& s : saved) copy_elements(s.copy.view(), s.view);
  };

  TuneProgress progress;
  progress.total = kernels.size();
  const auto goes_on = [&](const Contender& contender, double measured) {
    progress.kernel = contender.result.kernel;
    progress.microseconds = measured;
    if (measured > 0 && (progress.best.empty() || measured < progress.best_microseconds)) {
      progress.best = contender.result.kernel;
      progress.best_microseconds = measured;
    }
    const bool in_budget = microseconds_since(start) < options.budget_seconds * 1e6;
    return (!options.progress || options.progress(progress)) && in_budget;
  };

  // Written after each candidate, on top of what earlier calls measured: whatever ends this process loses nothing.
  driver::TuningRecord record = driver::load_tuning(found);
  const auto keep = [&](const TuneResult& result) {
    if (!result.failure.empty() || !(result.microseconds > 0)) return;
    std::erase_if(record.medians, [&](const auto& known) { return known.first == result.kernel; });
    record.medians.emplace_back(result.kernel, result.microseconds);
  };
  // Compiled a few at a time before any of them is timed, so that no compiler disturbs a measurement.
  const size_t batch = std::max<size_t>(4, static_cast<size_t>(context.pool().size()));
  const auto compile_next = [&](size_t first) {
    std::vector<const package::Kernel*> sources;
    std::vector<package::PackageRef> packages;
    for (size_t i = first; i < std::min(first + batch, kernels.size()); ++i) {
      auto package = driver::KernelState::of(kernels[i]).package();
      if (package) packages.push_back(*std::move(package));
    }
    for (const auto& package : packages)
      for (const package::Kernel& kernel : package->kernels) sources.push_back(&kernel);
    found.context->compile_ahead(sources, target.isa, [&] { return !options.progress || options.progress(progress); });
  };

  std::vector<Contender> contenders(kernels.size());
  bool stopped = false;
  for (size_t i = 0; i < kernels.size() && !stopped; ++i) {
    Contender& contender = contenders[i];
    contender.kernel = &kernels[i];
    contender.result.kernel = kernels[i].metadata().name;
    stopped = !goes_on(contender, 0);
    if (stopped) break;
    if (i % batch == 0) {
      compile_next(i);
      stopped = !goes_on(contender, 0);
      if (stopped) break;
    }
    auto execution = kernels[i].prepare(arguments);
    if (!execution) {
      contender.result.failure = execution.error().message();
      ++progress.done;
      continue;
    }
    contender.execution = *std::move(execution);
    restore();
    CODETTA_CHECK_OK(contender.execution->run());
    const auto checked = verify(arguments, before, target, i + 1);
    if (!checked || checked->verdict != VerifyReport::Verdict::Pass) {
      contender.result.failure = checked ? "wrong result: " + checked->text : checked.error().message();
      contender.execution.reset();
      ++progress.done;
      continue;
    }
    CODETTA_TRY(const double once, sample(contender));
    contender.repeats = std::clamp<int64_t>(static_cast<int64_t>(200 / std::max(once, 0.01)), 1, 10000);
    for (int s = 0; s < 3; ++s) {
      CODETTA_TRY(const double measured, sample(contender));
      contender.samples.push_back(measured);
    }
    summarize(contender);
    keep(contender.result);
    driver::save_tuning(found, record);
    ++progress.done;
    stopped = !goes_on(contender, contender.result.microseconds);
  }

  // The good ones again, interleaved, so that a change of the machine's speed hits all alike.
  std::vector<Contender*> finalists;
  for (Contender& contender : contenders) {
    if (contender.execution && contender.result.microseconds > 0) finalists.push_back(&contender);
  }
  std::sort(finalists.begin(), finalists.end(),
            [](const Contender* a, const Contender* b) { return a->result.microseconds < b->result.microseconds; });
  if (finalists.size() > 4) finalists.resize(4);
  for (int round = 0; round < 15 && !stopped; ++round) {
    for (Contender* contender : finalists) {
      CODETTA_TRY(const double measured, sample(*contender));
      contender->samples.push_back(measured);
    }
    stopped = !finalists.empty() && !goes_on(*finalists[0], finalists[0]->result.microseconds);
  }
  for (Contender& contender : contenders) {
    if (contender.kernel == nullptr || contender.result.kernel.empty()) continue;
    summarize(contender);
    if (contender.result.failure.empty() && contender.result.microseconds == 0) continue;  // not reached
    report.results.push_back(contender.result);
  }
  std::stable_sort(report.results.begin(), report.results.end(), [](const TuneResult& a, const TuneResult& b) {
    if (a.failure.empty() != b.failure.empty()) return a.failure.empty();
    return a.failure.empty() && a.microseconds < b.microseconds;
  });
  for (const TuneResult& result : report.results) keep(result);
  if (!record.medians.empty()) driver::save_tuning(found, record);
  restore();
  if (!finalists.empty()) CODETTA_CHECK_OK(finalists[0]->execution->run());  // outputs as after one run
  report.complete = !stopped;
  report.seconds = microseconds_since(start) * 1e-6;
  return report;
}

}  // namespace codetta
