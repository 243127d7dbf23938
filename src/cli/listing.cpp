// SPDX-License-Identifier: Apache-2.0
#include "cli/listing.hpp"

#include <cstdio>

#include <nlohmann/json.hpp>

namespace codetta::cli {

std::string code_text(uint16_t code) {
  char text[8];
  std::snprintf(text, sizeof text, "E%04u", code);
  return text;
}

namespace {

std::string json_text(const nlohmann::json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

nlohmann::json json_of(const KernelMetadata& m) {
  nlohmann::json config = nlohmann::json::object(), terms = nlohmann::json::array();
  for (const auto& [name, value] : m.config) config[name] = value;
  for (const CostTerm& term : m.terms)
    terms.push_back({{"name", term.name}, {"microseconds", term.value}, {"note", term.note}});
  return {{"name", m.name},
          {"family", m.family},
          {"target", m.target.to_string()},
          {"config", config},
          {"terms", terms},
          {"estimated_us", m.estimated_us},
          {"tuned", m.tuned},
          {"measured_us", m.measured_us},
          {"workspace_bytes", m.workspace_bytes}};
}

nlohmann::json json_of(const Rejection& r) {
  nlohmann::json limits = nlohmann::json::array();
  for (const auto& [name, given, limit] : r.limits)
    limits.push_back({{"name", name}, {"given", given}, {"limit", limit}});
  return {{"code", code_text(r.code)}, {"kernel", r.kernel}, {"text", r.text}, {"limits", limits}};
}

void add(nlohmann::json& all, const char* to, const std::vector<KernelMetadata>& kernels,
         const std::vector<Rejection>& rejections) {
  for (const KernelMetadata& m : kernels) all[to].push_back(json_of(m));
  for (const Rejection& r : rejections) all["rejections"].push_back(json_of(r));
}

}  // namespace

void print_listing(const std::vector<KernelMetadata>& kernels, const std::vector<Rejection>& rejections, bool json) {
  if (json) {
    nlohmann::json all{{"kernels", nlohmann::json::array()}, {"rejections", nlohmann::json::array()}};
    add(all, "kernels", kernels, rejections);
    std::fputs(json_text(all).c_str(), stdout);
    return;
  }
  for (const KernelMetadata& m : kernels) {
    std::printf("%-44s %-10s %12.2f us %s\n", m.name.c_str(), m.family.c_str(),
                m.tuned ? m.measured_us : m.estimated_us, m.tuned ? "measured" : "estimated");
  }
  for (const Rejection& r : rejections)
    std::printf("%-44s rejected   %s: %s\n", r.kernel.c_str(), code_text(r.code).c_str(), r.text.c_str());
}

std::string with_listing(const std::string& explained, const std::vector<KernelMetadata>& kernels,
                         const std::vector<Rejection>& rejections) {
  nlohmann::json all = nlohmann::json::parse(explained);
  add(all, "candidates", kernels, rejections);
  return json_text(all, 2);
}

}  // namespace codetta::cli
