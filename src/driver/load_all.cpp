// SPDX-License-Identifier: Apache-2.0
// Kernels of a program, compiled at the same time. What shares a source, in this process or another one, is compiled
// once.
#include <algorithm>
#include <mutex>
#include <set>

#include "driver/context.hpp"
#include "toolchain/run_jobs.hpp"

namespace codetta::driver {

Result<std::vector<LoadedKernel>> ContextState::load_all(const std::vector<package::Kernel>& kernels, CpuIsa isa,
                                                         const LoadProgress& progress) {
  std::vector<size_t> work;  // one kernel a source
  std::set<std::string_view> sources;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (!kernels[k].source.empty() && sources.insert(kernels[k].source).second) work.push_back(k);
  }
  std::vector<std::optional<Result<LoadedKernel>>> results(kernels.size());
  std::mutex mutex;
  std::vector<size_t> done;  // as they end
  bool failed = false;
  const auto load_one = [&](size_t i) {
    {
      const std::lock_guard lock(mutex);
      if (failed) return;  // what runs is finished, nothing else is begun
    }
    auto result = load(kernels[work[i]], isa);
    const std::lock_guard lock(mutex);
    failed = failed || !result;
    if (result) done.push_back(work[i]);
    results[work[i]] = std::move(result);
  };
  size_t told = 0;
  const auto tell = [&] {  // from the calling thread
    for (;; ++told) {
      std::unique_lock lock(mutex);
      if (told == done.size()) return;
      const size_t k = done[told];
      const double seconds = (*results[k])->compile_seconds;
      lock.unlock();
      progress(told + 1, work.size(), kernels[k].name, seconds);
    }
  };
  const bool compiles = !options.no_compiler && !options.no_jit;
  const int parallel = compiles ? std::max(pool->size(), cpu().cores) : 1;
  if (parallel < 2 || work.size() < 2) {
    for (size_t i = 0; i < work.size(); ++i) {
      load_one(i);
      if (progress) tell();
    }
  } else {
    toolchain::run_jobs(work.size(), parallel, load_one, progress ? std::function<void()>(tell) : nullptr);
  }
  // The first error, in order; what shares a source is at hand by now.
  std::vector<LoadedKernel> loaded;
  for (const auto& result : results) {
    if (result && !*result) return result->error();
  }
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (results[k]) {
      loaded.push_back(**std::move(results[k]));
    } else {
      CODETTA_TRY(LoadedKernel same, load(kernels[k], isa));
      loaded.push_back(std::move(same));
    }
  }
  // Kernels without contraction get the same bits of a value that they compute again, but compiled ones not those of
  // the tape. Without a compiler some may be in the cache and others not: then the tape runs all of these.
  const auto computes_again = [&](size_t k) {
    return !kernels[k].source.empty() && !kernels[k].epilogue.contracts && !package::is_user(kernels[k].config);
  };
  bool interprets = false;
  for (size_t k = 0; k < kernels.size(); ++k) interprets = interprets || (loaded[k].interpreted && computes_again(k));
  for (size_t k = 0; interprets && k < kernels.size(); ++k) {
    if (!computes_again(k)) continue;
    loaded[k] = {};
    loaded[k].interpreted = true;
  }
  return loaded;
}

}  // namespace codetta::driver
