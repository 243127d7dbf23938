// SPDX-License-Identifier: Apache-2.0
// diagnose and the cache's report.
#include "codetta/diagnose.hpp"

#include "codetta/evt.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "driver/context.hpp"
#include "runtime/cuda/cublaslt.hpp"
#include "runtime/cuda/device.hpp"
#include "toolchain/nvrtc.hpp"
#include "types/machine.hpp"

namespace codetta {

namespace {

Finding missing(const std::string& what, const Error& error) {
  const Diagnostic& problem = error.diagnostics().front();
  return {what, false, problem.headline + (problem.reason.empty() ? "" : "; " + problem.reason), problem.help, true};
}

// Neither a GPU nor its compiler is needed for the CPU: that they are absent is no fault of the machine.
Finding not_needed(Finding finding) {
  finding.needed = false;
  return finding;
}

// What a device is made of, as its driver counts: on RDNA ROCm counts pairs of compute units.
const char* units_of(const std::string& arch) {
  if (!arch.starts_with("gfx")) return "multiprocessors";
  return arch.starts_with("gfx9") ? "compute units" : "work-group processors";
}

// A driver and what it sees.
void add_devices(std::vector<Finding>& findings, const std::string& what, const std::string& prefix,
                 const Result<runtime::cuda::DriverRef>& driver) {
  if (!driver) {
    findings.push_back(not_needed(missing(what, driver.error())));
    return;
  }
  const runtime::cuda::Driver& d = **driver;
  findings.push_back(
      {what, true, fmt::format("{}, {}", d.origin(), runtime::cuda::version_text(d.version(), d.api())), ""});
  const auto count = runtime::cuda::Device::count(d);
  for (int i = 0; i < (count ? *count : 0); ++i) {
    const auto device = runtime::cuda::Device::open(*driver, i);
    const std::string name = fmt::format("{} {}", prefix, i);
    if (!device) {
      findings.push_back(missing(name, device.error()));
      continue;
    }
    const runtime::cuda::DeviceFacts& facts = (*device)->facts();
    findings.push_back({name, true,
                        fmt::format("{}, {}, {} {}, {:.1f} GiB, L2 {} MiB, {:.2f} TB/s, {}", facts.name, facts.arch,
                                    facts.multiprocessors, units_of(facts.arch),
                                    static_cast<double>(facts.memory_bytes) / 1073741824.0, facts.l2_bytes >> 20,
                                    facts.memory_bandwidth * 1e-12, facts.uuid),
                        ""});
  }
}

void add_hip(std::vector<Finding>& findings, driver::ContextState& state) {
  add_devices(findings, "HIP runtime", "HIP device", state.hip.gpu().driver());
  const auto compiler = state.hip.compiler();
  findings.push_back(compiler ? Finding{"HIP compiler", true, compiler->describe(), ""}
                              : not_needed(missing("HIP compiler", compiler.error())));
}

// NVRTC and nvcc, of which one compiles kernels: the other one may be missing.
void add_cuda_compilers(std::vector<Finding>& findings, driver::ContextState& state) {
  const ContextOptions& options = state.options;
  const auto version = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
  const auto nvcc = state.cuda.compiler().find_nvcc();
  const std::string of_nvcc = nvcc ? fmt::format("{} (nvcc {})", (*nvcc)->path(), version((*nvcc)->version())) : "";
  const bool asked = !options.cuda_compiler.empty() && options.cuda_compiler != "nvrtc";
  const auto nvrtc = toolchain::Nvrtc::find({.file = options.nvrtc, .cuda_home = options.cuda_home});
  const bool instead = !nvrtc && options.cuda_compiler.empty() && options.nvrtc.empty();
  const std::string why = nvrtc ? "" : missing("", nvrtc.error()).detail;
  if (nvcc && (asked || instead)) {
    findings.push_back({"CUDA compiler", true, of_nvcc + (asked ? ", as asked" : ", since " + why), ""});
  } else if (asked) {
    findings.push_back(not_needed(missing("CUDA compiler", nvcc.error())));
  } else if (!nvrtc) {
    findings.push_back(not_needed(missing("CUDA compiler", nvrtc.error())));
  } else {
    findings.push_back(
        {"CUDA compiler", true, fmt::format("{} (NVRTC {})", (*nvrtc)->path(), version((*nvrtc)->version())), ""});
  }
  findings.push_back(nvcc ? Finding{"nvcc", true, of_nvcc, ""} : not_needed(missing("nvcc", nvcc.error())));
}

void add_cuda(std::vector<Finding>& findings, driver::ContextState& state) {
  const ContextOptions& options = state.options;
  add_devices(findings, "NVIDIA driver", "device", runtime::cuda::Driver::load(options.cuda_driver));
  add_cuda_compilers(findings, state);
  const auto vendor = runtime::cuda::CublasLt::load({.file = options.cublaslt, .cuda_home = options.cuda_home});
  if (!options.vendor) {
    findings.push_back({"vendor's kernels", true, "switched off", ""});
  } else if (!vendor) {
    findings.push_back(not_needed(missing("vendor's kernels", vendor.error())));
  } else {
    findings.push_back(
        {"vendor's kernels", true, fmt::format("{} (cuBLASLt {})", (*vendor)->path(), (*vendor)->version_text()), ""});
  }
}

bool is_listed(const std::vector<Finding>& findings, const std::string& what) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.what == what; });
}

// A device that is asked for by its number, where none of the drivers has it.
void add_absent_device(std::vector<Finding>& findings, int device) {
  if (device == 0 || is_listed(findings, fmt::format("device {}", device)) ||
      is_listed(findings, fmt::format("HIP device {}", device)))
    return;
  findings.push_back({fmt::format("device {}", device), false, "no GPU of this machine has this number",
                      "choose one of the devices that are listed here"});
}

// Whether code for `target` runs here.
Finding target_finding(const Target& target, driver::ContextState& state) {
  const std::string name = target.to_string();
  switch (target.backend) {
    case Backend::cpu: {
      const types::CpuFacts cpu = types::read_cpu_facts();
      if (std::find(cpu.isas.begin(), cpu.isas.end(), target.isa) != cpu.isas.end())
        return {"target", true, name + " runs on this processor", ""};
      return {"target", false,
              fmt::format("{} does not run here: the best of this processor is {}", name, isa_name(cpu.best)),
              "its code can be emitted here, and runs on another machine"};
    }
    case Backend::cuda:
    case Backend::hip: {
      driver::GpuDevice& gpu = target.backend == Backend::hip ? state.hip.gpu() : state.cuda.gpu();
      const auto device = target.arch.empty() ? gpu.device() : gpu.device_for(target);
      if (device)
        return {"target", true,
                fmt::format("{} runs on device {}, {}", name, (*device)->facts().ordinal, (*device)->facts().name), ""};
      Finding none = missing("target", device.error());
      none.detail = name + " does not run here: " + none.detail;
      if (!target.arch.empty()) none.help += "; compiling alone needs the compiler only";
      return none;
    }
    case Backend::metal:
      return {"target", true, name + ": its sources are emitted here; Apple's tools compile and run them", ""};
    case Backend::cutlass:
      break;
  }
  return {"target", true, name + ": CUTLASS's templates are emitted here, and compiled with nvcc", ""};
}

void add_cutlass(std::vector<Finding>& findings) {
  const auto version = cutlass_version();
  if (!version) {
    findings.push_back(missing("CUTLASS", version.error()));
  } else if (version->empty()) {
    findings.push_back({"CUTLASS", false, "no folder of CUTLASS is named",
                        "set CODETTA_CUTLASS_DIR to one; for emitting alone none is needed"});
  } else {
    findings.push_back({"CUTLASS", true, "CUTLASS " + *version, ""});
  }
}

}  // namespace

std::vector<Finding> diagnose(Context& context) {
  driver::ContextState& state = *context.shared_state();
  std::vector<Finding> findings;
  const types::CpuFacts cpu = types::read_cpu_facts();
  std::string isas;
  for (const CpuIsa isa : cpu.isas) isas += (isas.empty() ? "" : " ") + std::string(isa_name(isa));
  findings.push_back({"processor", true, fmt::format("{}; {}; best {}", cpu.name, isas, isa_name(cpu.best)), ""});
  findings.push_back(
      {"caches", true, fmt::format("L1d {} KiB, L2 {} KiB, L3 {} KiB", cpu.l1d >> 10, cpu.l2 >> 10, cpu.l3 >> 10), ""});
  findings.push_back({"threads", true, fmt::format("{} of {} processors", state.pool->size(), cpu.cores), ""});
  const auto& compiler = state.compiler();
  if (compiler) {
    // One that says what it is may still lack its assembler or linker: only a compile shows that it works.
    const toolchain::CompileJob job{"extern \"C\" int codetta_trial() { return 1; }\n", {"-nostdlib"}, "trial"};
    const auto trial = toolchain::compile(*compiler, job, state.compile_options());
    const std::string found = fmt::format("{} ({})", compiler->path, compiler->version);
    if (trial) {
      findings.push_back({"host compiler", true, found, ""});
    } else {
      Finding broken = missing("host compiler", trial.error());
      broken.detail = found + " compiles nothing: " + broken.detail;
      findings.push_back(std::move(broken));
    }
  } else {
    const Diagnostic& problem = compiler.error().diagnostics().front();
    findings.push_back({"host compiler", false,
                        problem.headline + (problem.reason.empty() ? "" : "; " + problem.reason),
                        problem.help + " (until then epilogues are interpreted, slower)"});
  }
  add_cuda(findings, state);
  add_hip(findings, state);
  add_absent_device(findings, state.options.device);
  for (size_t place = 1; place < state.options.devices.size(); ++place)
    add_absent_device(findings, state.options.devices[place]);
  const CacheReport cache = cache_report(context);
  if (cache.enabled && !cache.warning.empty()) {
    findings.push_back(
        {"cache", false, cache.warning,
         fmt::format("`chmod -R go-w {0}` where others may write, `chown -R $(id -u) {0}` where it is "
                     "another user's, `chmod -R u+rwX {0}` where you may not write; remove what is no folder; or set "
                     "CODETTA_CACHE_DIR to another folder, or CODETTA_CACHE_RO to 1 where nothing is to be written",
                     cache.directory)});
  } else if (cache.enabled) {
    findings.push_back({"cache", true,
                        fmt::format("{}: {} entries, {:.1f} of {:.1f} MiB", cache.directory, cache.entries,
                                    static_cast<double>(cache.bytes) / 1048576.0,
                                    static_cast<double>(cache.capacity_bytes) / 1048576.0),
                        ""});
  } else if (cache.warning.empty()) {
    findings.push_back({"cache", true, "switched off, as asked", ""});
  } else {
    findings.push_back(
        {"cache", false, cache.warning, "set CODETTA_CACHE_DIR to a folder that you own and nobody else can write"});
  }
  return findings;
}

std::vector<Finding> diagnose(const Target& target, Context& context) {
  driver::ContextState& state = *context.shared_state();
  const bool cuda = target.backend == Backend::cuda, hip = target.backend == Backend::hip;
  std::vector<Finding> findings{target_finding(target, state)};
  for (Finding& finding : diagnose(context)) {
    const std::string& what = finding.what;
    const bool gpus = what == "NVIDIA driver" || what == "CUDA compiler";
    const bool of_hip = what.starts_with("HIP") && !what.starts_with("HIP device");
    const bool of_cpu = what == "processor" || what == "host compiler" || what == "threads" || what == "caches";
    finding.needed = what == "cache" || (cuda && gpus) || (hip && of_hip) ||
                     (target.backend == Backend::cpu && of_cpu) ||
                     (cuda && what == fmt::format("device {}", state.options.device)) ||
                     (target.backend == Backend::cutlass && what == "nvcc") ||
                     (hip && what == fmt::format("HIP device {}", state.options.device));
    findings.push_back(std::move(finding));
  }
  if (target.backend == Backend::cutlass) add_cutlass(findings);
  return findings;
}

CacheReport cache_report(Context& context) {
  driver::ContextState& state = *context.shared_state();
  CacheReport report;
  report.enabled = state.cache->enabled();
  report.read_only = state.options.cache_read_only;
  report.directory = state.cache->directory();
  report.warning = state.cache->warning();
  report.capacity_bytes = state.options.cache_bytes;
  if (!report.enabled) return report;
  if (report.warning.empty()) report.warning = state.cache->defect();
  const toolchain::CacheStatistics statistics = state.cache->statistics();
  report.entries = statistics.entries;
  report.bytes = statistics.bytes;
  report.hits = statistics.hits;
  report.misses = statistics.misses;
  report.damaged = statistics.damaged;
  report.io_errors = statistics.io_errors;
  report.stored = statistics.stored;
  report.evicted = statistics.evicted;
  return report;
}

namespace {
Result<toolchain::Cache*> usable_cache(Context& context) {
  toolchain::Cache& cache = *context.shared_state()->cache;
  if (cache.enabled() && context.options().cache_read_only) {
    return diag::error(diag::Code::cache_unavailable, "the cache is read-only")
        .reason("nothing in " + cache.directory() + " is changed while CODETTA_CACHE_RO or its twin is set")
        .help("unset CODETTA_CACHE_RO");
  }
  if (cache.enabled()) return &cache;
  return diag::error(diag::Code::cache_unavailable, "there is no cache to work on")
      .reason(cache.warning().empty() ? "it is switched off" : cache.warning())
      .help(cache.warning().empty() ? "leave out --no-cache, or set cache_enabled"
                                    : "set CODETTA_CACHE_DIR to a folder that you own and nobody else can write");
}
}  // namespace

Result<void> cache_clear(Context& context) {
  CODETTA_TRY(toolchain::Cache * cache, usable_cache(context));
  cache->clear();
  return {};
}

Result<void> cache_evict(Context& context) {
  CODETTA_TRY(toolchain::Cache * cache, usable_cache(context));
  cache->evict();
  return {};
}

}  // namespace codetta
