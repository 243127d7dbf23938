// SPDX-License-Identifier: Apache-2.0
// The state behind codetta::Context: cache, compiler, threads, machine facts, loaded modules.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/digest.hpp"
#include "base/single_flight.hpp"
#include "codetta/kernel.hpp"
#include "driver/cuda_state.hpp"
#include "driver/hip_state.hpp"
#include "opt/passes.hpp"
#include "package/package.hpp"
#include "plan/candidates.hpp"
#include "runtime/execution.hpp"
#include "toolchain/cache.hpp"
#include "toolchain/compiler.hpp"
#include "types/machine.hpp"

namespace codetta::driver {

// A compiled epilogue: the loaded module with its function, or none when it is interpreted or stored by the engine.
struct LoadedKernel {
  runtime::KernelEntry entry;
  bool interpreted = false;
  bool from_cache = false;
  double compile_seconds = 0;
};

// Told after each kernel that has a source: how many are there, of how many, and the seconds that it took the compiler.
using LoadProgress = std::function<void(size_t done, size_t all, const std::string& kernel, double seconds)>;

// What debug=... asks for; parsed once.
struct DebugSwitches {
  bool dump_graph = false, dump_plan = false, dump_memory = false, dump_source = false;
  bool time_passes = false;
  bool explain_fusion = false;
  opt::RunOptions passes;  // to leave out
  [[nodiscard]] bool any() const {
    return dump_graph || dump_plan || dump_memory || dump_source || time_passes || explain_fusion ||
           !passes.skip.empty() || !passes.stop_after.empty();
  }
};

struct ContextState {
  ContextOptions options;
  DebugSwitches debug;
  std::string path;            // PATH for finding the compiler
  std::string library_path;    // LD_LIBRARY_PATH, which decides what the loader finds
  std::string nvtx_injection;  // NVTX_INJECTION64_PATH, by which profilers name their library
  std::shared_ptr<toolchain::Cache> cache;
  std::unique_ptr<ThreadPool> own_pool;
  ThreadPool* pool = nullptr;
  Allocator* allocator = nullptr;

  // Found at first need and kept; an Error is kept too, unless the search was cancelled.
  const Result<toolchain::HostCompiler>& compiler();
  // Of this machine; read from the system once.
  const types::CpuFacts& cpu();
  // For the cost model, by ISA level.
  const plan::MachineFacts& machine(CpuIsa isa);
  // By target, which names its architecture.
  plan::MachineFacts machine(const Target& target);
  // Whether kernels of this target run here, now, on the context's device. Errors: E0403, E0430, E0640 to E0642, E0654.
  Result<void> check_runs(const Target& target);
  // Of a target that runs_on_gpu().
  GpuDevice& gpu(const Target& target) { return target.backend == Backend::hip ? hip.gpu() : cuda.gpu(); }
  // The kernel compiled and loaded on that GPU, the first one unless `on` says another. Errors: as CudaState::load and
  // HipState::load.
  Result<LoadedGpuKernel> load_on_gpu(const package::Kernel& kernel, const Target& target, bool capturing = false,
                                      runtime::cuda::DeviceRef on = {}) {
    return target.backend == Backend::hip ? hip.load(kernel, capturing, std::move(on))
                                          : cuda.load(kernel, capturing, std::move(on));
  }
  // Compiles (or finds in memory or on disk) the binary of a package's kernel and loads it. Single flight per source.
  // Where compiling is impossible or forbidden, what any compiler has put into the cache serves. Errors: E0313,
  // E0503 (no_jit), E0504..E0509.
  Result<LoadedKernel> load(const package::Kernel& kernel, CpuIsa isa);
  // load() of all of them, in their order; those of different sources at the same time. `progress` is called by the
  // calling thread. Errors: that of the first one that has one; what has not begun by then is left.
  Result<std::vector<LoadedKernel>> load_all(const std::vector<package::Kernel>& kernels, CpuIsa isa,
                                             const LoadProgress& progress);
  // Compiles what load() would have to compile, in parallel processes. A failing one is left to load(), which reports
  // it. `goes_on` is polled while compilers run; false ends them.
  void compile_ahead(const std::vector<const package::Kernel*>& kernels, CpuIsa isa,
                     const std::function<bool()>& goes_on);
  // What is in the cache for the kernel, by whichever compiler; nothing when there is none, or it does not load.
  std::optional<LoadedKernel> load_kept(const package::Kernel& kernel, CpuIsa isa);
  // Key text of the binary entry: complete source, embedded-header digest (part of the source), flags, target, and at
  // the end the compiler's identity, where it has one.
  [[nodiscard]] toolchain::CacheKey binary_key(const package::Kernel& kernel, CpuIsa isa,
                                               const toolchain::HostCompiler& compiler) const;
  // Where compilers may keep what they refuse: the cache's folder; "" when it is off or read-only.
  [[nodiscard]] std::string keep_dir() const;
  // What every compile is told: keep_dir(), the caller's cancel, and once to sweep what killed processes left.
  [[nodiscard]] toolchain::CompileOptions compile_options();
  void log(std::string_view line) const;
  // Logs once per context and key.
  void log_once(const std::string& key, std::string_view line);

  CudaState cuda{*this};
  HipState hip{*this};

 private:
  friend class codetta::Context;
  std::mutex mutex_;
  std::atomic<bool> swept_ = false;
  std::optional<Result<toolchain::HostCompiler>> compiler_;
  std::optional<Result<toolchain::HostCompiler>> cancelled_search_;
  std::optional<types::CpuFacts> cpu_;
  std::map<CpuIsa, plan::MachineFacts> machines_;
  std::map<std::string, LoadedKernel> loaded_;  // by binary key digest
  std::map<std::string, bool> logged_;
  base::SingleFlight<std::string, Result<LoadedKernel>> loading_;
};

}  // namespace codetta::driver
