// SPDX-License-Identifier: Apache-2.0
#include "driver/program_kernels.hpp"

#include <set>

#include <fmt/format.h>

#include "emit/host/text.hpp"
#include "emit/package.hpp"

namespace codetta::driver {

// In the order of the steps: what they launch, and what makes factors there.
std::vector<uint32_t> launched_kernels(const package::StepList& steps, const std::vector<package::StepList>& lists) {
  std::vector<uint32_t> kernels;
  const auto add = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch == nullptr) continue;
      kernels.push_back(launch->kernel);
      if (!launch->product) continue;
      for (const package::Prologue& made : launch->product->b_made) kernels.push_back(made.kernel);
    }
  };
  add(steps);
  for (const package::StepList& list : lists) add(list);
  return kernels;
}

std::vector<uint32_t> kernels_of(const plan::Plan& plan, const package::Package& package) {
  std::vector<uint32_t> result(plan.kernels.size());
  const auto planned = launched_kernels(plan.steps, plan.step_lists),
             made = launched_kernels(package.steps, package.step_lists);
  for (size_t i = 0; i < std::min(planned.size(), made.size()); ++i) result[planned[i]] = made[i];
  return result;
}

plan::EmittedKernels emitted_kernels(const package::Package& package, const std::vector<uint32_t>& kernel_of) {
  plan::EmittedKernels result;
  result.defined = package.kernels.size();
  std::set<std::string_view> sources;
  for (const package::Kernel& kernel : package.kernels) {
    if (!kernel.source.empty()) sources.insert(kernel.source);
  }
  result.compiled = sources.size();
  for (const uint32_t k : kernel_of) result.names.push_back(package.kernels[k].name);
  return result;
}

std::string source_listing(const plan::Plan& plan, const package::Package& package) {
  const std::vector<uint32_t> kernel_of = kernels_of(plan, package);
  std::string text;
  for (size_t k = 0; k < package.kernels.size(); ++k) {
    text += fmt::format("// ---- {} ----\n", package.kernels[k].name);
    for (size_t p = 0; p < kernel_of.size(); ++p) {
      if (kernel_of[p] != k) continue;
      const plan::KernelAccount& account = plan.kernels[p].account;
      for (const std::string& line : plan::origin_texts(account))
        text += fmt::format("// {}\n", emit::host::comment_text(line));
      if (const std::string gone = emit::removed_text(account); !gone.empty())
        text += fmt::format("//   {}\n", emit::host::comment_text(gone));
    }
    text += package.kernels[k].source + "\n";
  }
  return text;
}

}  // namespace codetta::driver
