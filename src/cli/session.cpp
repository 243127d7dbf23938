// SPDX-License-Identifier: Apache-2.0
// Setting up a command.
#include "cli/session.hpp"

namespace codetta::cli {

Result<Session> Session::make(const CommonOptions& common, const GemmOptions& options) {
  auto target = target_of(common);
  if (!target) return std::move(target).error();
  auto context = context_of(common);
  if (!context) return std::move(context).error();
  auto problem = build_problem(options);
  if (!problem) return std::move(problem).error();
  auto kernels = find_kernels(problem->arguments, *target, {}, *context);
  if (!kernels) return std::move(kernels).error();
  return Session{*std::move(target), *std::move(context), *std::move(problem), *std::move(kernels)};
}

Result<Kernel> Session::choose(const std::string& name) const {
  if (kernels.empty()) {
    Diagnostic diagnostic;
    diagnostic.code = 701;
    diagnostic.headline = "no kernel can do this";
    diagnostic.help = "change the types, the sizes or the target; `codetta kernels` lists every rejection";
    for (const Rejection& rejection : kernels.rejections()) {
      if (diagnostic.reason.empty()) diagnostic.code = rejection.code;
      diagnostic.reason += (diagnostic.reason.empty() ? "" : "; ") +
                           (rejection.kernel.empty() ? "" : rejection.kernel + ": ") + rejection.text;
    }
    return Error(std::move(diagnostic));
  }
  std::string names;
  for (const Kernel& kernel : kernels) {
    if (kernel.metadata().name.find(name) != std::string::npos) return kernel;
    names += (names.empty() ? "" : ", ") + kernel.metadata().name;
  }
  return usage_error("no kernel named '" + name + "' can do this", "candidates are " + names,
                     "pass one of these, or leave out --kernel");
}

}  // namespace codetta::cli
