// SPDX-License-Identifier: Apache-2.0
// kernels and explain for CUTLASS: for a cutlass target, and beside our own kernels where a folder of CUTLASS is known.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/evt.hpp"
#include "cli/listing.hpp"
#include "cli/specs.hpp"

namespace codetta::cli {
namespace {

struct Found {
  Target target;
  CutlassKernels kernels;
};

Result<Found> find(const CommonOptions& common, const GemmOptions& gemm, const EvtFlags& flags) {
  auto options = cutlass_options(common, flags);
  if (!options) return std::move(options).error();
  auto version = cutlass_version(flags.cutlass_dir);  // a folder that is named has to be one
  if (!version) return std::move(version).error();
  auto context = context_of(common);
  if (!context) return std::move(context).error();
  auto problem = build_problem(gemm, false);
  if (!problem) return std::move(problem).error();
  auto kernels = find_cutlass_kernels(problem->arguments, *options, *context);
  if (!kernels) return std::move(kernels).error();
  return Found{options->target, *std::move(kernels)};
}

}  // namespace

std::vector<KernelMetadata> metadata_of(const CutlassKernels& found) {
  std::vector<KernelMetadata> all;
  for (const CutlassKernel& kernel : found.kernels) all.push_back(kernel.metadata);
  return all;
}

Result<std::optional<CutlassKernels>> cutlass_beside(const Target& target, const GemmArguments& arguments,
                                                     const EvtFlags& flags, Context& context) {
  if (target.backend != Backend::cuda) return std::optional<CutlassKernels>();
  auto version = cutlass_version(flags.cutlass_dir);
  if (!version) return std::move(version).error();
  if (version->empty()) return std::optional<CutlassKernels>();
  EvtOptions options;
  options.target = target;
  options.target.backend = Backend::cutlass;
  auto found = find_cutlass_kernels(arguments, options, context);
  if (found) return std::optional(*std::move(found));
  const Diagnostic& why = found.error().diagnostics().front();
  CutlassKernels none;
  none.rejections.push_back(
      {why.code, "cutlass", why.headline + (why.reason.empty() ? "" : ": " + why.reason) + "; " + why.help});
  return std::optional(std::move(none));
}

void append_explained(std::string& text, const CutlassKernels& found, bool json_wanted) {
  if (json_wanted) {
    text = with_listing(text, metadata_of(found), found.rejections);
    return;
  }
  char line[160];
  const auto add = [&](const char* format, auto... values) {
    std::snprintf(line, sizeof line, format, values...);
    text += line;
  };
  if (!found.kernels.empty()) {
    const KernelMetadata& best = found.kernels[0].metadata;
    add("\nthe best of CUTLASS: %s, estimated %.1f us\n", best.name.c_str(), best.estimated_us);
    for (const auto& [name, value] : best.config) add("  %s = %lld\n", name.c_str(), static_cast<long long>(value));
    text += "cost terms, microseconds:\n";
    for (const CostTerm& term : best.terms) {
      add("  %-24s %12.3f  ", term.name.c_str(), term.value);
      text += term.note + "\n";
    }
    add("\n%zu candidates of CUTLASS, best first:\n", found.kernels.size());
    for (const CutlassKernel& kernel : found.kernels)
      add("  %-48s %12.1f us estimated\n", kernel.metadata.name.c_str(), kernel.metadata.estimated_us);
  }
  add("\n%zu of CUTLASS rejected:\n", found.rejections.size());
  for (const Rejection& r : found.rejections) text += "  " + r.kernel + " " + code_text(r.code) + ": " + r.text + "\n";
}

int kernels_of_cutlass(const CommonOptions& common, const GemmOptions& gemm, const EvtFlags& flags) {
  auto found = find(common, gemm, flags);
  if (!found) return report(found.error(), common.json);
  print_listing(metadata_of(found->kernels), found->kernels.rejections, common.json);
  return exit_ok;
}

int explain_cutlass(const CommonOptions& common, const GemmOptions& gemm, const EvtFlags& flags) {
  auto found = find(common, gemm, flags);
  if (!found) return report(found.error(), common.json);
  std::string text = common.json ? nlohmann::json{{"target", found->target.to_string()},
                                                  {"candidates", nlohmann::json::array()},
                                                  {"rejections", nlohmann::json::array()}}
                                       .dump()
                                 : "target " + found->target.to_string() + "\n";
  append_explained(text, found->kernels, common.json);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return exit_ok;
}

}  // namespace codetta::cli
