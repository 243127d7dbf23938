// SPDX-License-Identifier: Apache-2.0
// Contexts: cache, compiler and threads, and the loading of binaries.
#include "driver/context.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "driver/compiler_help.hpp"
#include "driver/environment.hpp"
#include "driver/machine.hpp"
#include "emit/emit.hpp"
#include "runtime/cpu/module.hpp"
#include "toolchain/undefined.hpp"

namespace codetta {

namespace {

// No file has a name with a NUL byte; the system would take what stands in front of it.
Result<void> check_paths(const ContextOptions& options) {
  const std::pair<const char*, const std::string*> paths[] = {{"cache_dir", &options.cache_dir},
                                                              {"compiler", &options.compiler},
                                                              {"cuda_home", &options.cuda_home},
                                                              {"cuda_driver", &options.cuda_driver},
                                                              {"nvrtc", &options.nvrtc},
                                                              {"cublaslt", &options.cublaslt},
                                                              {"hip_runtime", &options.hip_runtime},
                                                              {"hiprtc", &options.hiprtc},
                                                              {"cuda_compiler", &options.cuda_compiler}};
  for (const auto& [name, path] : paths) {
    const size_t at = path->find('\0');
    if (at == std::string::npos) continue;
    return diag::error(diag::Code::option_range, fmt::format("`{}` has a NUL byte", name))
        .reason(fmt::format("it is byte {} of {}, and no file has such a name", at + 1, path->size()))
        .help(fmt::format("leave out `{}`, or give a path without it", name));
  }
  return {};
}

Result<void> check_devices(const ContextOptions& options) {
  constexpr size_t most = 64;
  const std::vector<int>& devices = options.devices;
  const auto refused = [](std::string headline, std::string reason) {
    return diag::error(diag::Code::option_range, std::move(headline))
        .reason(std::move(reason))
        .help("name the GPUs of a program over several in its order, such as {0, 1}; {0, 0} runs it on one");
  };
  if (devices.size() > most)
    return refused(fmt::format("{} devices are too many", devices.size()),
                   fmt::format("a program runs on {} devices at most", most));
  for (const int device : devices) {
    if (device < 0)
      return refused(fmt::format("there is no device {}", device), "the driver counts its devices from 0");
  }
  if (devices.empty() || options.device == 0 || devices[0] == options.device) return {};
  return refused(fmt::format("the first of `devices` is {}, and `device` is {}", devices[0], options.device),
                 "what runs on one device runs on the first of them");
}

}  // namespace

Result<Context> Context::make(const ContextOptions& wanted) {
  const driver::Environment environment = driver::read_environment();
  auto state = std::make_shared<driver::ContextState>();
  state->options = driver::with_environment(wanted);
  ContextOptions& options = state->options;
  CODETTA_TRY(state->debug, driver::parse_debug(options.debug));
  constexpr int most_threads = 4096;
  if (options.threads < 0 || options.threads > most_threads) {
    return diag::error(diag::Code::option_range,
                       std::to_string(options.threads) +
                           (options.threads < 0 ? " threads are too few" : " threads are too many"))
        .reason("a context starts 0 (as many as there are processors) to " + std::to_string(most_threads))
        .help("leave out `threads`, or pass a pool of your own");
  }
  constexpr double longest_compile = 86400;
  if (!(options.compile_timeout_seconds > 0 && options.compile_timeout_seconds <= longest_compile)) {
    return diag::error(diag::Code::option_range,
                       fmt::format("{:g} seconds are no time to compile in", options.compile_timeout_seconds))
        .reason("a compiler is ended after more than 0 and at most 86400 seconds")
        .help("leave out `compile_timeout_seconds`: it is 60");
  }
  if (options.cache_bytes < 0) {
    return diag::error(diag::Code::option_range, fmt::format("a cache of {} bytes cannot be", options.cache_bytes))
        .reason("`cache_bytes` is what the cache may grow to, 0 bytes or more")
        .help("leave out `cache_bytes`: it is 1 GiB; `cache_enabled` switches the cache off");
  }
  CODETTA_CHECK_OK(check_devices(options));
  if (!options.devices.empty()) options.device = options.devices[0];
  CODETTA_CHECK_OK(check_paths(options));
  if (const std::string& compiler = options.cuda_compiler;
      !compiler.empty() && compiler != "nvrtc" && compiler != "nvcc" && !compiler.starts_with('/')) {
    return diag::error(diag::Code::option_range, fmt::format("no CUDA compiler is called '{}'", compiler))
        .reason("it is nvrtc, nvcc, or the absolute path of an nvcc")
        .help("leave out `cuda_compiler` and CODETTA_CUDA_COMPILER: NVRTC is looked for, then nvcc");
  }
  state->path = environment.path;
  state->library_path = environment.library_path;
  state->nvtx_injection = environment.nvtx_injection;
  if (options.cache_dir.empty()) options.cache_dir = environment.default_cache_dir;
  if (!options.cache_enabled) {
    state->cache = toolchain::Cache::disabled("");
  } else if (options.cache_dir.empty()) {
    state->cache =
        toolchain::Cache::disabled("no cache folder: neither CODETTA_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
    state->log(state->cache->warning());
  } else {
    state->cache = toolchain::Cache::open({.directory = options.cache_dir,
                                           .read_only = options.cache_read_only,
                                           .capacity_bytes = options.cache_bytes,
                                           .on_warning = [log = options.log](const std::string& text) {
                                             if (log) log(text);
                                           }});
  }
  state->pool = options.pool;
  if (state->pool == nullptr) {
    state->own_pool = make_thread_pool(options.threads);
    state->pool = state->own_pool.get();
  }
  state->allocator = options.allocator != nullptr ? options.allocator : &default_allocator();
  return Context(std::move(state));
}

Context& Context::process_default() {
  // Leaked on purpose: threads may still run kernels while static objects are destroyed.
  static Context* context = [] {
    auto made = make({});
    if (!made) {  // only CODETTA_DEBUG can be wrong; a context with a harmless switch, which wins over it, serves
      ContextOptions options;
      options.debug = "time:passes";  // goes to the log, and there is none
      made = make(options);
    }
    return new Context(*std::move(made));
  }();
  return *context;
}

const ContextOptions& Context::options() const { return state_->options; }
ThreadPool& Context::pool() const { return *state_->pool; }

namespace driver {

std::string ContextState::keep_dir() const {
  return cache->enabled() && !options.cache_read_only ? cache->directory() : std::string();
}

toolchain::CompileOptions ContextState::compile_options() {
  toolchain::CompileOptions how;
  how.keep_dir = keep_dir();
  how.cancel = options.cancel;
  how.timeout_seconds = options.compile_timeout_seconds;
  how.sweep = !swept_.exchange(true);
  return how;
}

void ContextState::log(std::string_view line) const {
  if (options.log) options.log(line);
}

void ContextState::log_once(const std::string& key, std::string_view line) {
  {
    const std::lock_guard lock(mutex_);
    if (!logged_.emplace(key, true).second) return;
  }
  log(line);
}

const Result<toolchain::HostCompiler>& ContextState::compiler() {
  const std::lock_guard lock(mutex_);
  if (!compiler_) {
    toolchain::FindOptions find;
    find.wanted = options.compiler;
    find.path = path;
    find.memo_dir = keep_dir();
    find.cancel = options.cancel;
    find.timeout_seconds = options.compile_timeout_seconds;
    auto found = toolchain::find_host_compiler(find);
    if (!found && found.error().code() == static_cast<uint16_t>(diag::Code::compile_cancelled)) {
      // The next one who asks may not be cancelled.
      if (!cancelled_search_) cancelled_search_ = std::move(found);
      return *cancelled_search_;
    }
    compiler_ = std::move(found);
  }
  return *compiler_;
}

const types::CpuFacts& ContextState::cpu() {
  const std::lock_guard lock(mutex_);
  if (!cpu_) cpu_ = types::read_cpu_facts();
  return *cpu_;
}

const plan::MachineFacts& ContextState::machine(CpuIsa isa) {
  const types::CpuFacts& facts = cpu();
  const std::lock_guard lock(mutex_);
  auto found = machines_.find(isa);
  if (found == machines_.end()) found = machines_.emplace(isa, machine_facts(facts, isa, pool->size())).first;
  return found->second;
}

plan::MachineFacts ContextState::machine(const Target& target) {
  if (target.backend != Backend::cuda) return machine(target.isa);
  plan::MachineFacts facts;
  facts.gpu = cuda.facts(target.arch);
  return facts;
}

Result<void> ContextState::check_runs(const Target& target) {
  if (!runs_on_gpu(target)) return device_supports(target);
  CODETTA_TRY(const runtime::cuda::DeviceRef device, gpu(target).device_for(target));
  return {};
}

namespace {

const std::vector<std::string>& flags_for(const package::Kernel& kernel, const toolchain::HostCompiler& host) {
  return host.kind == toolchain::CompilerKind::Clang ? kernel.clang_flags : kernel.gcc_flags;
}

// The source with the digest of its cache entry in the place that the loader compares.
std::string with_digest(std::string source, const std::string& digest) {
  const size_t at = source.find(emit::entry_digest_placeholder);
  if (at != std::string::npos) source.replace(at, emit::entry_digest_placeholder.size(), digest);
  return source;
}

}  // namespace

toolchain::CacheKey ContextState::binary_key(const package::Kernel& kernel, CpuIsa isa,
                                             const toolchain::HostCompiler& host) const {
  toolchain::CacheKey key(toolchain::EntryKind::Binary, "cpu epilogue");
  key.add("source", kernel.source);
  for (const std::string& flag : toolchain::compile_arguments(host, flags_for(kernel, host))) key.add("flag", flag);
  key.add("target", isa_name(isa));
  key.add("abi", std::to_string(codetta::cpu::abi_version));
  if (!host.identity.empty()) key.add("compiler", host.identity);
  return key;
}

namespace {

Result<LoadedKernel> loaded(const std::string& object, const package::Kernel& kernel, const std::string& digest) {
  LoadedKernel result;
  auto module = runtime::cpu::Module::load(object, std::string(emit::entry_digest_symbol), digest);
  if (!module && package::is_user(kernel.config)) {
    const std::string& why = module.error().diagnostics().front().reason;
    if (auto undefined = toolchain::undefined_in_users(kernel.name, kernel.source, why,
                                                       "told by the loader: " + why.substr(0, why.find(';'))))
      return *std::move(undefined);
  }
  CODETTA_TRY(result.entry.module, std::move(module));
  void* symbol = result.entry.module->symbol(kernel.symbol);
  if (symbol == nullptr) {
    return diag::error(diag::Code::module_digest, "the compiled object lacks its entry point")
        .reason("no symbol " + kernel.symbol + " in " + kernel.name)
        .help("clear the cache with `codetta cache clear` and report this");
  }
  if (package::is_user(kernel.config)) {
    result.entry.user = reinterpret_cast<CodettaExtern>(symbol);
    return result;
  }
  const auto* gemm = std::get_if<package::CpuGemmConfig>(&kernel.config);
  if (gemm != nullptr && gemm->family == package::CpuFamily::Fused) {
    result.entry.fused = reinterpret_cast<codetta::cpu::FusedFunction>(symbol);
  } else {
    result.entry.function = reinterpret_cast<codetta::cpu::EpilogueFunction>(symbol);
  }
  return result;
}

}  // namespace

Result<LoadedKernel> ContextState::load(const package::Kernel& kernel, CpuIsa isa) {
  if (kernel.source.empty()) return LoadedKernel{};  // the engine stores the accumulators itself
  LoadedKernel interpreted;
  interpreted.interpreted = true;
  if (options.no_compiler && package::is_user(kernel.config)) {
    return diag::error(diag::Code::jit_disabled, "the use of compilers is switched off")
        .reason(fmt::format("{} is a kernel of the user's: nothing but its source says what it does", kernel.name))
        .help("allow the use of a compiler");
  }
  if (options.no_compiler) return interpreted;
  const auto& host = compiler();
  if (!host && !options.compiler.empty() && !options.no_jit) {  // the user asked for this one
    if (package::is_user(kernel.config)) return host.error();
    return without_compiler(host.error(), "where no compiler is used (no_compiler), runs interpret epilogues");
  }
  if (!host && host.error().code() == static_cast<uint16_t>(diag::Code::compile_cancelled)) return host.error();
  if (!host || options.no_jit) {
    if (auto kept = load_kept(kernel, isa)) return *std::move(kept);
    if (options.no_jit) {
      return diag::error(diag::Code::jit_disabled, "compiling at run time is switched off")
          .reason(cache->enabled() ? kernel.name + " is not in the cache " + cache->directory()
                                   : kernel.name + " is in no cache: it is off")
          .help(
              "run `codetta compile` with the same cache folder beforehand, or leave out `no_jit` and CODETTA_NO_JIT");
    }
    const bool late = host.error().code() == static_cast<uint16_t>(diag::Code::compile_timeout);
    if (late || package::is_user(kernel.config)) return host.error();
    const Diagnostic& problem = host.error().diagnostics().front();
    log_once("no compiler", problem.headline + ": epilogues are interpreted, slower (" + problem.reason +
                                "; help: " + problem.help + ")");
    return interpreted;
  }
  const toolchain::CacheKey key = binary_key(kernel, isa, *host);
  const std::string digest = key.digest_hex();
  {
    const std::lock_guard lock(mutex_);
    const auto found = loaded_.find(digest);
    if (found != loaded_.end()) {
      LoadedKernel known = found->second;
      known.compile_seconds = 0;
      return known;
    }
  }
  const auto make = [&]() -> Result<LoadedKernel> {
    double seconds = 0;
    const auto compile = [&]() -> Result<toolchain::CacheEntry> {
      toolchain::CompileJob job{with_digest(kernel.source, digest), flags_for(kernel, *host), kernel.name};
      auto output = toolchain::compile(*host, job, compile_options());
      if (!output) {
        cache->account_for(static_cast<int64_t>(job.source.size()));  // kept beside the entries
        return std::move(output).error();
      }
      seconds = output->seconds;
      return toolchain::CacheEntry{kernel.name, std::move(output->object)};
    };
    bool hit = false;
    CODETTA_TRY(toolchain::CacheEntry entry, cache->get_or_make(key, compile, &hit));
    auto result = loaded(entry.payload, kernel, digest);
    if (!result && hit) {  // a healthy entry that does not load here: make our own
      CODETTA_TRY(entry, compile());
      result = loaded(entry.payload, kernel, digest);
      if (result) cache->replace(key, entry);
      hit = false;
    }
    if (!result) return std::move(result).error();
    result->from_cache = hit;
    result->compile_seconds = seconds;
    if (debug.time_passes)
      log(kernel.name + (hit ? " from cache" : " compiled in " + std::to_string(seconds * 1e3) + " ms"));
    const std::lock_guard lock(mutex_);
    loaded_.emplace(digest, *result);
    return result;
  };
  return loading_.run(digest, make).value;
}

std::optional<LoadedKernel> ContextState::load_kept(const package::Kernel& kernel, CpuIsa isa) {
  const auto& host = compiler();
  std::vector<toolchain::CacheKey> keys;  // of any compiler
  for (const auto kind : {toolchain::CompilerKind::Gcc, toolchain::CompilerKind::Clang}) {
    for (const char* linker : {"", "ld"}) {
      toolchain::HostCompiler any;
      any.kind = kind;
      any.linker = linker;
      keys.push_back(binary_key(kernel, isa, any));
    }
  }
  const std::string name = keys.back().digest_hex();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = loaded_.find(name); found != loaded_.end()) return found->second;
  }
  std::optional<LoadedKernel> kept;
  const auto use = [&](const std::string& object, const std::string& digest) {
    auto result = loaded(object, kernel, digest);
    if (!result) return false;
    result->from_cache = true;
    kept = *std::move(result);
    return true;
  };
  bool done = false;
  if (host) {
    const toolchain::CacheKey own = binary_key(kernel, isa, *host);
    const auto entry = cache->lookup(own);
    done = entry && use(entry->payload, own.digest_hex());
  }
  if (!done)
    (void)cache->find_like(
        keys, [&](const toolchain::Cache::Kept& like) { return use(like.entry.payload, like.digest_hex); });
  if (!kept) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return loaded_.emplace(name, *std::move(kept)).first->second;
}

void ContextState::compile_ahead(const std::vector<const package::Kernel*>& kernels, CpuIsa isa,
                                 const std::function<bool()>& goes_on) {
  if (options.no_compiler || options.no_jit || !compiler()) return;
  const toolchain::HostCompiler& host = *compiler();
  std::vector<toolchain::CompileJob> jobs;
  std::vector<std::pair<toolchain::CacheKey, const package::Kernel*>> wanted;
  std::map<std::string, bool> seen;
  for (const package::Kernel* kernel : kernels) {
    if (kernel->source.empty()) continue;
    toolchain::CacheKey key = binary_key(*kernel, isa, host);
    const std::string digest = key.digest_hex();
    {
      const std::lock_guard lock(mutex_);
      if (loaded_.count(digest) != 0) continue;
    }
    if (!seen.emplace(digest, true).second || cache->lookup(key)) continue;
    jobs.push_back({with_digest(kernel->source, digest), flags_for(*kernel, host), kernel->name});
    wanted.emplace_back(std::move(key), kernel);
  }
  if (jobs.empty()) return;
  const auto cancelled = [](void* poll) { return !(*static_cast<const std::function<bool()>*>(poll))(); };
  auto outputs = toolchain::compile_all(host, jobs, compile_options(), std::max(pool->size(), cpu().cores), cancelled,
                                        const_cast<std::function<bool()>*>(&goes_on));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]) continue;
    const auto& [key, kernel] = wanted[i];
    auto result = loaded(outputs[i]->object, *kernel, key.digest_hex());
    if (!result) continue;
    cache->store(key, {kernel->name, std::move(outputs[i]->object)});
    result->compile_seconds = outputs[i]->seconds;
    const std::lock_guard lock(mutex_);
    loaded_.emplace(key.digest_hex(), *std::move(result));
  }
}

}  // namespace driver
}  // namespace codetta
