// SPDX-License-Identifier: Apache-2.0
// A plan for people and for tools. Both say the same.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plan/plan.hpp"

namespace codetta::plan {
namespace {

using Json = nlohmann::ordered_json;
using package::Buffer;

std::string text_of(const Buffer& buffer) {
  constexpr std::string_view roles[] = {"argument", "output", "temporary", "constant"};
  std::string text =
      fmt::format("{} {}: {}", roles[static_cast<size_t>(buffer.role)], buffer.name, dtype_name(buffer.dtype));
  return text + (buffer.is_scalar ? " scalar" : types::to_string(buffer.shape));
}

package::StepNames names_in(const Plan& plan) {
  return {[&plan](uint32_t buffer) { return plan.buffers[buffer].name; },
          [&plan](uint32_t kernel) {
            const PlannedKernel& planned = plan.kernels[kernel];
            const bool known = planned.chosen < planned.discovery.candidates.size();
            return known ? planned.discovery.candidates[planned.chosen].name : fmt::format("kernel {}", kernel);
          }};
}

Json json_of(const Candidate& candidate) {
  Json terms = Json::array();
  for (const CostTerm& term : candidate.terms)
    terms.push_back({{"name", term.name}, {"us", term.microseconds}, {"note", term.note}});
  return {{"name", candidate.name}, {"us", candidate.microseconds}, {"terms", std::move(terms)}};
}

}  // namespace

std::string to_string(const Plan& plan) {
  std::string text = fmt::format("target {}\n", plan.target.to_string());
  for (const Buffer& buffer : plan.buffers) text += text_of(buffer) + "\n";
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const PlannedKernel& kernel = plan.kernels[i];
    text += fmt::format("kernel {}:\n", i);
    const auto& candidates = kernel.discovery.candidates;
    for (size_t c = 0; c < candidates.size(); ++c) {
      text += fmt::format("  {} {} {:.2f} us\n", c == kernel.chosen ? "*" : "-", candidates[c].name,
                          candidates[c].microseconds);
      if (c != kernel.chosen) continue;
      for (const CostTerm& term : candidates[c].terms)
        text += fmt::format("      {:.2f} us {}: {}\n", term.microseconds, term.name, term.note);
    }
    for (const Rejection& rejection : kernel.discovery.rejections) {
      text += fmt::format("  x {}{}{}: {}\n", rejection.kernel, rejection.kernel.empty() ? "" : " ",
                          diag::code_text(rejection.code), rejection.text);
    }
    std::string program = kernel.lowered.program.to_string();
    for (size_t at = 0; at < program.size();) {
      const size_t end = program.find('\n', at);
      text += "  " + program.substr(at, end - at + 1);
      at = end + 1;
    }
  }
  text += "steps:\n";
  text += package::list_steps(plan.steps, plan.step_lists, names_in(plan), "  ");
  if (!plan.temporaries.requests.empty()) text += "memory:\n" + memory_text(plan);
  return text;
}

std::string to_json(const Plan& plan) {
  Json json{{"target", plan.target.to_string()}};
  json["buffers"] = Json::array();
  for (const Buffer& buffer : plan.buffers) json["buffers"].push_back(text_of(buffer));
  json["kernels"] = Json::array();
  for (const PlannedKernel& kernel : plan.kernels) {
    Json candidates = Json::array(), rejections = Json::array();
    for (const Candidate& candidate : kernel.discovery.candidates) candidates.push_back(json_of(candidate));
    for (const Rejection& rejection : kernel.discovery.rejections) {
      rejections.push_back(
          {{"code", diag::code_text(rejection.code)}, {"kernel", rejection.kernel}, {"text", rejection.text}});
    }
    json["kernels"].push_back({{"chosen", kernel.chosen},
                               {"candidates", std::move(candidates)},
                               {"rejections", std::move(rejections)},
                               {"epilogue", kernel.lowered.program.to_string()}});
  }
  json["steps"] = Json::array();
  const package::StepNames names = names_in(plan);
  for (const package::Step& step : plan.steps) json["steps"].push_back(package::line_of(step, names));
  json["step_lists"] = Json::array();
  for (const package::StepList& list : plan.step_lists) {
    Json lines = Json::array();
    for (const package::Step& step : list) lines.push_back(package::line_of(step, names));
    json["step_lists"].push_back(std::move(lines));
  }
  json["memory"] = Json::parse(memory_json(plan), nullptr, false);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace codetta::plan
