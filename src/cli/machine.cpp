// SPDX-License-Identifier: Apache-2.0
// doctor and cache.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/verbs.hpp"

namespace codetta::cli {

int doctor(const CommonOptions& common) {
  auto context = context_of(common);
  if (!context) return report(context.error(), common.json);
  nlohmann::json json = nlohmann::json::array();
  bool all = true;
  for (const Finding& finding : diagnose(*context)) {
    all &= finding.ok;
    json.push_back({{"what", finding.what}, {"ok", finding.ok}, {"detail", finding.detail}, {"help", finding.help}});
    if (common.json) continue;
    std::printf("%-14s %-8s %s\n", finding.what.c_str(), finding.ok ? "ok" : "missing", finding.detail.c_str());
    if (!finding.help.empty()) std::printf("%-23s help: %s\n", "", finding.help.c_str());
  }
  if (common.json) std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return all ? exit_ok : exit_environment;
}

int cache(const CommonOptions& common, const std::string& action) {
  auto context = context_of(common);
  if (!context) return report(context.error(), common.json);
  if (action == "clear" || action == "evict") {
    auto done = action == "clear" ? cache_clear(*context) : cache_evict(*context);
    if (!done) return report(done.error(), common.json);
  }
  const CacheReport cache = cache_report(*context);
  if (action == "path" && !common.json) {
    std::printf("%s\n", cache.directory.c_str());
    return cache.enabled ? exit_ok : exit_environment;
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
                cache.enabled ? "in use" : cache.warning.c_str(), static_cast<long long>(cache.entries),
                static_cast<long long>(cache.bytes), static_cast<long long>(cache.capacity_bytes));
  }
  return exit_ok;
}

}  // namespace codetta::cli
