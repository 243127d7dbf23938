// SPDX-License-Identifier: Apache-2.0
// Kernels of a program, compiled at the same time. Each compile is a process, so threads here only wait for them; what
// shares a source, in this process or another one, is compiled once.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <set>
#include <system_error>
#include <thread>

#include "driver/context.hpp"

namespace codetta::driver {

namespace {

class Loading {
 public:
  Loading(ContextState& context, const std::vector<package::Kernel>& kernels, CpuIsa isa)
      : context_(context), kernels_(kernels), isa_(isa) {
    std::set<std::string_view> sources;
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (!kernels[k].source.empty() && sources.insert(kernels[k].source).second) work_.push_back(k);
    }
    results_.resize(kernels.size());
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  ~Loading() { join(); }

  void run(int parallel, const LoadProgress& progress) {
    const bool alone = parallel < 2 || work_.size() < 2;
    if (!alone) start(std::min(static_cast<size_t>(parallel), work_.size()));
    if (threads_.empty()) {
      while (load_next()) tell(progress);
      return;
    }
    std::unique_lock lock(mutex_);
    while (running_ != 0) {
      ended_.wait(lock);
      lock.unlock();
      tell(progress);
      lock.lock();
    }
    lock.unlock();
    join();
    tell(progress);
  }

  // The first error, in order; what shares a source is at hand by now.
  Result<std::vector<LoadedKernel>> take() {
    std::vector<LoadedKernel> loaded;
    for (const auto& result : results_) {
      if (result && !*result) return result->error();
    }
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (results_[k]) {
        loaded.push_back(**std::move(results_[k]));
      } else {
        CODETTA_TRY(LoadedKernel same, context_.load(kernels_[k], isa_));
        loaded.push_back(std::move(same));
      }
    }
    return loaded;
  }

 private:
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // Signals stay with the threads of the application.
  void start(size_t wanted) {
    sigset_t all{};
    sigset_t before{};
    sigfillset(&all);
    const bool masked = ::pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < wanted; ++i) {
      try {
        threads_.emplace_back([this] { work(); });
        ++running_;
      } catch (const std::system_error&) {  // no more threads; the others do the work
        break;
      }
    }
    if (masked) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  void work() {
    while (load_next()) {
    }
    const std::lock_guard lock(mutex_);
    --running_;
    ended_.notify_all();
  }

  // False when nothing is left, or one has failed: what runs is finished, nothing else is begun.
  bool load_next() {
    size_t at = 0;
    {
      const std::lock_guard lock(mutex_);
      if (failed_ || next_ == work_.size()) return false;
      at = work_[next_++];
    }
    auto result = context_.load(kernels_[at], isa_);
    const std::lock_guard lock(mutex_);
    failed_ = failed_ || !result;
    if (result) done_.push_back({kernels_[at].name, result->compile_seconds});
    results_[at] = std::move(result);
    ended_.notify_all();
    return true;
  }

  // From the calling thread.
  void tell(const LoadProgress& progress) {
    for (;; ++told_) {
      Done one;
      {
        const std::lock_guard lock(mutex_);
        if (told_ == done_.size()) return;
        one = done_[told_];
      }
      if (progress) progress(told_ + 1, work_.size(), one.kernel, one.seconds);
    }
  }

  struct Done {
    std::string kernel;
    double seconds = 0;
  };
  ContextState& context_;
  const std::vector<package::Kernel>& kernels_;
  const CpuIsa isa_;
  std::vector<size_t> work_;  // one kernel a source
  std::vector<std::optional<Result<LoadedKernel>>> results_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Done> done_;
  size_t next_ = 0, running_ = 0, told_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<std::vector<LoadedKernel>> ContextState::load_all(const std::vector<package::Kernel>& kernels, CpuIsa isa,
                                                         const LoadProgress& progress) {
  const bool compiles = !options.no_compiler && !options.no_jit;
  Loading loading(*this, kernels, isa);
  loading.run(compiles ? std::max(pool->size(), cpu().cores) : 1, progress);
  return loading.take();
}

}  // namespace codetta::driver
