// SPDX-License-Identifier: Apache-2.0
// Several compiles at once. Each is a process, so threads here only wait.
#include <optional>

#include "toolchain/compile.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/run_jobs.hpp"

namespace codetta::toolchain {

std::vector<Result<CompileOutput>> compile_all(const HostCompiler& compiler, const std::vector<CompileJob>& jobs,
                                               const CompileOptions& options, int parallel, bool (*cancelled)(void*),
                                               void* context) {
  std::vector<std::optional<Result<CompileOutput>>> outcomes(jobs.size());
  std::atomic<bool> cancel = false;
  const auto job = [&](size_t i) {
    outcomes[i] = cancel ? Result<CompileOutput>(cancelled_before_start(jobs[i]))
                         : compile_cancellable(compiler, jobs[i], options, &cancel);
  };
  const auto poll = [&] {
    if ((cancelled != nullptr && cancelled(context)) || (options.cancel != nullptr && options.cancel->load()))
      cancel = true;
  };
  const bool polls = cancelled != nullptr || options.cancel != nullptr;
  run_jobs(jobs.size(), parallel, job, polls ? std::function<void()>(poll) : std::function<void()>());
  std::vector<Result<CompileOutput>> results;
  results.reserve(jobs.size());
  for (auto& outcome : outcomes) results.push_back(std::move(*outcome));
  return results;
}

}  // namespace codetta::toolchain
