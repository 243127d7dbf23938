// SPDX-License-Identifier: Apache-2.0
// build: programs as a shared library with a C header.
#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/places.hpp"
#include "cli/specs.hpp"
#include "cli/user_kernels.hpp"
#include "cli/verbs.hpp"
#include "codetta/reproducer.hpp"

namespace codetta::cli {
namespace {

// "NAME=VALUE" in two.
Result<std::pair<std::string, std::string>> split_pair(const std::string& item, const std::string& option,
                                                       const std::string& form) {
  const size_t equals = item.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == item.size())
    return usage_error("'" + item + "' is not " + form, "given to " + option, "write " + option + " " + form);
  return std::pair(item.substr(0, equals), item.substr(equals + 1));
}

Result<std::vector<Program>> programs_of(const BuildLibraryOptions& options) {
  auto source = read_source(options.program, TextOf::Program);
  if (!source) return std::move(source).error();
  std::vector<std::string> functions = options.functions;
  if (functions.empty()) functions.emplace_back();
  std::vector<Program> programs;
  for (const std::string& function : functions) {
    auto program = Program::parse(source->text, source->name, function);
    if (program) program = program->with_numerics(options.numerics);
    if (!program) return std::move(program).error();
    programs.push_back(*std::move(program));
  }
  for (const std::string& item : options.kernels) {
    auto kernel = read_kernel(item);
    if (!kernel) return std::move(kernel).error();
    // To those that call it; what no program calls is said as the last one says it.
    bool called = false;
    for (size_t i = 0; i < programs.size(); ++i) {
      auto with = programs[i].with_kernels({*kernel});
      if (with) {
        programs[i] = *std::move(with);
        called = true;
      } else if (with.error().code() != 209 || (!called && i + 1 == programs.size())) {
        return std::move(with).error();
      }
    }
  }
  return programs;
}

}  // namespace

int build_library(const CommonOptions& common, const BuildLibraryOptions& options) {
  BuildOptions wanted;
  wanted.output = options.output;
  wanted.name = options.name;
  wanted.header = options.header;
  wanted.manifest = options.manifest;
  wanted.benchmark = options.benchmark;
  wanted.weights = options.weights;
  wanted.embed_weights = options.embed_weights;
  std::vector<std::string> inputs = kernel_files(options.kernels), constants = files_of(options.constants);
  inputs.insert(inputs.end(), constants.begin(), constants.end());
  inputs.insert(inputs.end(), {options.program, options.weights});
  wanted.before_writing = guard_of({.tensors = {}, .files = {}, .inputs = std::move(inputs), .takes_force = false});
  wanted.checks = !options.no_checks;
  wanted.engine_dir = options.engine_dir;
  wanted.programs_by_size = options.by_size;
  wanted.form = options.form == "nvcc"    ? BuildForm::Nvcc
                : options.form == "nvrtc" ? BuildForm::Nvrtc
                                          : BuildForm::Library;
  if (options.embed_weights && options.weights.empty())
    return report(usage_error("--embed-weights has no effect without --weights", "no file of weights is given",
                              "add --weights FILE.safetensors, or leave it out"),
                  common.json);
  const bool sources = wanted.form == BuildForm::Nvcc;
  if (sources && !options.engine_dir.empty())
    return report(usage_error("--engine-dir has no effect with --form nvcc",
                              "the sources carry what they need of the engine", "leave it out"),
                  common.json);
  if (options.tune) wanted.tune_seconds = options.tune_budget, wanted.trial_seconds = options.tune_trial;
  if (!common.json) {
    wanted.progress = [](std::string_view line) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    };
  }
  std::vector<Tensor> owned;
  for (const std::string& item : options.constants) {
    auto pair = split_pair(item, "--constant", "NAME=FILE");
    if (!pair) return report(pair.error(), common.json);
    auto tensor = read_tensor(pair->second);
    if (!tensor) return report(tensor.error(), common.json);
    owned.push_back(*std::move(tensor));
    wanted.constants.push_back({pair->first, owned.back().view()});
  }
  for (const std::string& item : options.hints) {
    auto sizes = parse_sizes(item, "--hint");
    if (!sizes) return report(sizes.error(), common.json);
    wanted.size_hints.insert(wanted.size_hints.end(), sizes->begin(), sizes->end());
  }
  auto programs = programs_of(options);
  if (!programs) return report(programs.error(), common.json);
  auto target = target_of(common);
  if (!target) return report(target.error(), common.json);
  auto context = context_of(common);
  if (!context) return report(context.error(), common.json);
  if (!options.repro.empty()) {
    if (programs->size() != 1)
      return report(usage_error("--repro takes one program", std::to_string(programs->size()) + " are given",
                                "give one --function"),
                    common.json);
    ReproducerOptions how;
    how.folder = options.output;
    how.kernel = options.repro;
    how.engine_dir = options.engine_dir;
    how.before_writing = wanted.before_writing;
    for (const std::string& item : options.dims) {
      auto size = parse_size(item, "--dim");
      if (!size) return report(size.error(), common.json);
      how.sizes.push_back(*std::move(size));
    }
    how.size_hints = wanted.size_hints;
    const auto dims = static_cast<std::ptrdiff_t>(how.sizes.size());
    for (const auto& hint : wanted.size_hints) {  // the tensors have one size: two are refused where --dim says none
      const bool said = std::any_of(how.sizes.begin(), how.sizes.begin() + dims,
                                    [&](const auto& s) { return s.first == hint.first; });
      if (!said) how.sizes.push_back(hint);
    }
    auto made = reproduce(programs->front(), *target, how, *context);
    if (!made) return report(made.error(), common.json);
    if (common.json) {
      const nlohmann::json line{
          {"folder", how.folder}, {"kernel", made->kernel}, {"files", made->files}, {"command", made->command}};
      std::printf("%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    } else {
      std::printf("kernel    %s\nfolder    %s\nrun       cd %s && %s\n", made->kernel.c_str(), how.folder.c_str(),
                  how.folder.c_str(), made->command.c_str());
    }
    return exit_ok;
  }
  if (options.show) {
    auto text = host_text(*programs, *target, wanted, *context);
    if (!text) return report(text.error(), common.json);
    const nlohmann::json json{{"text", *text}};
    std::printf("%s", common.json ? (json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n").c_str()
                                  : text->c_str());
    return exit_ok;
  }
  auto built = build(*programs, *target, wanted, *context);
  if (!built) return report(built.error(), common.json);
  if (common.json) {
    nlohmann::ordered_json json{{"library", built->library},     {"header", built->header},
                                {"manifest", built->manifest},   {"bytes", built->bytes},
                                {"seconds", built->seconds},     {"compile_seconds", built->compile_seconds},
                                {"functions", built->functions}, {"kernels", built->kernels}};
    if (!built->sizes.empty()) json["sizes"] = built->sizes;
    if (!built->benchmark.empty()) json["benchmark"] = built->benchmark;
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return exit_ok;
  }
  if (sources) {
    const std::string folder = built->library.substr(0, built->library.rfind('/'));
    std::printf("folder    %s, %lld bytes\n", folder.c_str(), static_cast<long long>(built->bytes));
    std::printf("build     sh %s/build.sh, which makes %s\n", folder.c_str(), built->library.c_str());
  } else {
    std::printf("library   %s, %lld bytes\n", built->library.c_str(), static_cast<long long>(built->bytes));
  }
  std::printf("header    %s\n", built->header.c_str());
  std::printf("manifest  %s\n", built->manifest.c_str());
  if (!built->benchmark.empty()) std::printf("benchmark %s\n", built->benchmark.c_str());
  for (const std::string& function : built->functions) std::printf("function  %s\n", function.c_str());
  for (const std::string& sizes : built->sizes) std::printf("kernels   %s\n", sizes.c_str());
  std::printf("built in  %.2f s\n", built->seconds);
  return exit_ok;
}

}  // namespace codetta::cli
