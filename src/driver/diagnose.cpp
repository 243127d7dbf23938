// SPDX-License-Identifier: Apache-2.0
// diagnose and the cache's report.
#include "codetta/diagnose.hpp"

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "driver/context.hpp"
#include "types/machine.hpp"

namespace codetta {

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
    findings.push_back({"host compiler", true, fmt::format("{} ({})", compiler->path, compiler->version), ""});
  } else {
    const Diagnostic& problem = compiler.error().diagnostics().front();
    findings.push_back({"host compiler", false,
                        problem.headline + (problem.reason.empty() ? "" : "; " + problem.reason),
                        problem.help + " (until then epilogues are interpreted, slower)"});
  }
  const CacheReport cache = cache_report(context);
  if (cache.enabled) {
    findings.push_back({"cache", true,
                        fmt::format("{}: {} entries, {:.1f} of {:.1f} MiB", cache.directory, cache.entries,
                                    static_cast<double>(cache.bytes) / 1048576.0,
                                    static_cast<double>(cache.capacity_bytes) / 1048576.0),
                        ""});
  } else {
    findings.push_back({"cache", false, cache.warning.empty() ? "switched off" : cache.warning,
                        "set CODETTA_CACHE_DIR to a folder that you own and nobody else can write"});
  }
  return findings;
}

CacheReport cache_report(Context& context) {
  driver::ContextState& state = *context.shared_state();
  CacheReport report;
  report.enabled = state.cache->enabled();
  report.directory = state.cache->directory();
  report.warning = state.cache->warning();
  report.capacity_bytes = state.options.cache_bytes;
  if (!report.enabled) return report;
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
  if (cache.enabled()) return &cache;
  return diag::error(diag::Code::cache_unavailable, "there is no cache to work on")
      .reason(cache.warning().empty() ? "it is switched off" : cache.warning())
      .help("set CODETTA_CACHE_DIR to a folder that you own and nobody else can write");
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
