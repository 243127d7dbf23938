// SPDX-License-Identifier: Apache-2.0
// doctor and cache.
#include <cstdio>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/verbs.hpp"

namespace codetta::cli {

int doctor(const CommonOptions& common) {
  std::optional<Target> target;
  if (!common.target.empty()) {
    auto named = target_of(common);
    if (!named) return report(named.error(), common.json);
    target = *named;
  }
  auto context = context_of(common);
  if (!context) return report(context.error(), common.json);
  nlohmann::json json = nlohmann::json::array();
  bool all = true;
  for (const Finding& finding : target ? diagnose(*target, *context) : diagnose(*context)) {
    all &= finding.ok || !finding.needed;
    json.push_back({{"what", finding.what},
                    {"ok", finding.ok},
                    {"needed", finding.needed},
                    {"detail", finding.detail},
                    {"help", finding.help}});
    if (common.json) continue;
    const char* const state = finding.ok ? "ok" : finding.needed ? "missing" : "none";
    std::printf("%-16s %-8s %s\n", finding.what.c_str(), state, finding.detail.c_str());
    // What nobody needs wants no advice.
    if (!finding.help.empty() && (finding.needed || !target)) std::printf("%-25s help: %s\n", "", finding.help.c_str());
  }
  if (common.json) std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  if (!common.json && target)
    std::printf("%s\n", all ? ("all that " + target->to_string() + " needs is here").c_str()
                            : ("something that " + target->to_string() + " needs is missing").c_str());
  return all ? exit_ok : exit_environment;
}

namespace {
// What E0511 says to whoever would change it.
Error no_cache(const CacheReport& cache) {
  Diagnostic diagnostic;
  diagnostic.code = 511;
  diagnostic.headline = "there is no cache to work on";
  diagnostic.reason = cache.warning.empty() ? "it is switched off" : cache.warning;
  diagnostic.help = cache.warning.empty() ? "leave out --no-cache"
                                          : "set CODETTA_CACHE_DIR to a folder that you own and nobody else can write";
  return Error(std::move(diagnostic));
}
}  // namespace

int cache(const CommonOptions& common, const std::string& action) {
  auto context = context_of(common);
  if (!context) return report(context.error(), common.json);
  if (action == "clear" || action == "evict") {
    auto done = action == "clear" ? cache_clear(*context) : cache_evict(*context);
    if (!done) return report(done.error(), common.json);
  }
  const CacheReport cache = cache_report(*context);
  const int status = cache.enabled ? exit_ok : exit_environment;
  if (!cache.enabled && !common.json) return report(no_cache(cache), false);
  if (action == "path" && !common.json) {
    std::printf("%s\n", cache.directory.c_str());
    return status;
  }
  if (common.json) {
    std::printf("%s\n", nlohmann::json{{"directory", cache.directory},
                                       {"enabled", cache.enabled},
                                       {"warning", cache.warning},
                                       {"entries", cache.entries},
                                       {"bytes", cache.bytes},
                                       {"capacity_bytes", cache.capacity_bytes}}
                            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                            .c_str());
  } else {
    std::printf("%s: %s, %lld entries, %lld of %lld bytes\n", cache.directory.c_str(),
                cache.read_only ? "read-only" : "in use", static_cast<long long>(cache.entries),
                static_cast<long long>(cache.bytes), static_cast<long long>(cache.capacity_bytes));
    if (!cache.warning.empty()) std::printf("%s\n", cache.warning.c_str());
  }
  return status;
}

}  // namespace codetta::cli
