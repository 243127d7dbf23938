// SPDX-License-Identifier: Apache-2.0
// Setting up a command.
#include "cli/session.hpp"

#include <sstream>

#include "codetta/diagnose.hpp"

namespace codetta::cli {
namespace {

// Those of which the name contains `part`; the one that it is the whole name of, if there is one.
std::vector<Kernel> named(const KernelList& kernels, const std::string& part) {
  std::vector<Kernel> result;
  for (const Kernel& kernel : kernels) {
    const std::string& name = kernel.metadata().name;
    if (name == part) return {kernel};
    if (name.find(part) != std::string::npos) result.push_back(kernel);
  }
  return result;
}

Error no_such_kernel(const KernelList& kernels, const std::string& kernel) {
  std::string names;
  std::vector<std::string> parts;
  for (const Kernel& listed : kernels) {
    const std::string& name = listed.metadata().name;
    names += (names.empty() ? "" : ", ") + name;
    std::istringstream pieces(name);
    for (std::string piece; std::getline(pieces, piece, '_');) parts.push_back(piece);
  }
  std::string refused;
  for (const Rejection& rejection : kernels.rejections()) {
    if (rejection.kernel.find(kernel) == std::string::npos) continue;
    const std::string code = std::to_string(10000 + rejection.code).replace(0, 1, "E");
    refused += (refused.empty() ? "" : "; ") + rejection.kernel + ": " + rejection.text + " (" + code + ")";
  }
  if (!refused.empty())
    return usage_error("no kernel named '" + kernel + "' can do this", refused,
                       "leave out --kernel, or pass a part of one of these names: " + names);
  const std::string meant = nearest_word(kernel, parts);
  return usage_error("no kernel named '" + kernel + "' can do this", "candidates are " + names,
                     (meant.empty() ? "pass" : "did you mean '" + meant + "'? Pass") +
                         std::string(" a part of one of these names, or of one that `codetta kernels --all` lists, or "
                                     "leave out --kernel"));
}

}  // namespace

Result<Session> Session::make(const CommonOptions& common, const GemmOptions& options, bool runs, bool emits) {
  auto target = target_of(common);
  if (!target) return std::move(target).error();
  auto context = context_of(common);
  if (!context) return std::move(context).error();
  if (emits) target = emission_target_of(common, *context);
  if (!target) return std::move(target).error();
  std::optional<Device> device;
  if (runs && on_gpu(*target)) {  // before any data is made: there may be none
    auto opened = Device::open(target->backend, *context);
    if (!opened) return std::move(opened).error();
    device = *std::move(opened);
  }
  auto problem = build_problem(options, runs);
  if (!problem) return std::move(problem).error();
  auto kernels = find_kernels(problem->arguments, *target, {.all = options.all_kernels}, *context);
  if (!kernels) return std::move(kernels).error();
  if (!options.kernel.empty() && !kernels->empty()) {
    std::vector<Kernel> wanted = named(*kernels, options.kernel);
    if (wanted.empty() && !options.all_kernels) {
      auto all = find_kernels(problem->arguments, *target, {.all = true}, *context);
      if (!all) return std::move(all).error();
      wanted = named(*all, options.kernel);
    }
    if (wanted.empty()) return no_such_kernel(*kernels, options.kernel);
    kernels = KernelList(std::move(wanted), kernels->rejections());
  }
  if (!kernels->empty()) fill_data(*problem);
  Session session{*std::move(target), *std::move(context), *std::move(problem), *std::move(kernels), {}, {}, {}};
  session.arguments = session.problem.arguments;
  if (device) {
    auto copies = OnDevice::make(*device, session.arguments);
    if (!copies) return std::move(copies).error();
    session.arguments = copies->arguments();
    session.copies = *std::move(copies);
    session.device = std::move(device);
  }
  return session;
}

Result<void> Session::fetch_outputs() const {
  if (!device) return {};
  if (auto done = device->synchronize(); !done) return done;
  for (const auto& [name, file] : problem.output_files) {
    if (auto copied = copies->download(name); !copied) return copied;
  }
  return {};
}

Result<Kernel> Session::choose() const {
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
    if (diagnostic.code == 419)
      diagnostic.help = "compute some of the outputs by a second kernel, or simplify what is computed";
    return Error(std::move(diagnostic));
  }
  return kernels[0];
}

}  // namespace codetta::cli
