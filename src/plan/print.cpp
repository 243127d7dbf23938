// SPDX-License-Identifier: Apache-2.0
// A plan for people.
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "package/device_copies.hpp"
#include "package/gpu_call.hpp"
#include "plan/plan.hpp"

namespace codetta::plan {
namespace {

using package::Buffer;

std::string text_of(const Buffer& buffer) {
  constexpr std::string_view roles[] = {"argument", "output", "temporary", "constant"};
  std::string text =
      fmt::format("{} {}: {}", roles[static_cast<size_t>(buffer.role)], buffer.name, dtype_name(buffer.dtype));
  return text + (buffer.is_scalar ? " scalar" : types::to_string(buffer.shape)) + (buffer.donated ? " donated" : "") +
         (buffer.device != 0 ? fmt::format(" on device {}", buffer.device) : "") +
         (buffer.filled.empty() ? "" : ", of which it fills " + types::to_string(buffer.filled));
}

package::StepNames names_in(const Plan& plan) {
  return {[&plan](uint32_t buffer) { return plan.buffers[buffer].name; },
          [&plan](uint32_t kernel) {
            const PlannedKernel& planned = plan.kernels[kernel];
            const bool known = planned.chosen < planned.discovery.candidates.size();
            return known ? planned.discovery.candidates[planned.chosen].name : fmt::format("kernel {}", kernel);
          }};
}

}  // namespace

std::vector<std::string_view> not_without(const Plan& plan, size_t kernel) {
  std::vector<std::string_view> all;
  const PlannedKernel& planned = plan.kernels[kernel];
  if (plan.target.backend == Backend::cpu || planned.user) return all;
  unsigned missing = 0;
  const auto look = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr || launch->kernel != kernel) continue;
      missing |= package::missing_when(planned.lowered.program, launch->product.has_value(), launch->batch, launch->m,
                                       launch->n);
    }
  };
  look(plan.steps);
  for (const package::StepList& list : plan.step_lists) look(list);
  // What is missing without two of them is missing without one.
  constexpr std::pair<unsigned, std::string_view> axes[] = {{2, "rows"}, {4, "columns"}, {1, "batch items"}};
  for (const auto& [empty, name] : axes) {
    if ((missing >> empty & 1u) != 0) all.push_back(name);
  }
  return all;
}

std::string to_string(const Plan& plan) {
  std::string text = fmt::format("target {}\n", plan.target.to_string());
  if (plan.numerics.strict) text += "strict\n";
  if (plan.numerics.math != MathMode::Strict) text += fmt::format("math {}\n", math_mode_name(plan.numerics.math));
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
    if (const auto axes = not_without(plan, i); !axes.empty())
      text += fmt::format("  without {} other kernels make what it stores\n", fmt::join(axes, " or "));
    std::string program = kernel.lowered.program.to_string();
    for (size_t at = 0; at < program.size();) {
      const size_t end = program.find('\n', at);
      text += "  " + program.substr(at, end - at + 1);
      at = end + 1;
    }
  }
  if (!plan.notes.empty()) text += "not fused:\n";
  for (const FusionNote& note : plan.notes) {
    text += fmt::format("  %{} {}: {}: {}\n", note.node.index(), note.action, diag::code_text(note.why.code),
                        note.why.text);
  }
  text += "steps:\n";
  text += package::list_steps(plan.steps, plan.step_lists, names_in(plan), "  ");
  const auto copies = package::device_copies(plan.steps, plan.step_lists, plan.buffers);
  if (!copies.empty()) text += "between devices:\n";
  for (const package::DeviceCopy& copy : copies) text += "  " + package::line_of(copy, names_in(plan)) + "\n";
  if (!plan.temporaries.requests.empty()) text += "memory:\n" + memory_text(plan);
  return text;
}

}  // namespace codetta::plan
