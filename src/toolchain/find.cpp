// SPDX-License-Identifier: Apache-2.0
// Which compiler: the wanted one, or the first usable of the usual names.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/process.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "toolchain/probe.hpp"

namespace codetta::toolchain {

namespace {

constexpr int oldest_gcc = 12;
constexpr int oldest_clang = 16;
// GCC first: it compiles an epilogue in two thirds of Clang's time.
constexpr std::array<std::string_view, 13> usual_names = {
    "g++",        "c++",        "clang++",    "g++-15",     "g++-14",     "g++-13",    "g++-12",
    "clang++-21", "clang++-20", "clang++-19", "clang++-18", "clang++-17", "clang++-16"};
constexpr std::string_view help_install =
    "install GCC 12 or Clang 16 or a later one, or name one by its absolute path; without a compiler epilogues are "
    "interpreted";

#if defined(__x86_64__)
constexpr std::string_view own_architecture = "x86_64";
#elif defined(__aarch64__)
constexpr std::string_view own_architecture = "aarch64";
#else
constexpr std::string_view own_architecture = "";
#endif

std::string absolute_folders(std::string_view path_list) {
  std::string kept;
  for (const std::string_view folder : base::split(path_list, ':')) {
    if (!folder.starts_with('/')) continue;
    if (!kept.empty()) kept += ':';
    kept += folder;
  }
  return kept;
}

bool is_cancelled(const FindOptions& options) { return options.cancel != nullptr && options.cancel->load(); }

Error search_cancelled() {
  return diag::error(diag::Code::compile_cancelled, "the search for a C++ compiler was cancelled")
      .reason("the context's cancel flag was set while a compiler was asked what it is")
      .help("start it again when you want it");
}

std::optional<HostCompiler> examine(const std::string& path, const std::string& search_path, const FindOptions& options,
                                    std::string& why_not) {
  auto found = recall_probe(options.memo_dir, path);
  if (!found) {
    found = probe(path, search_path, options.cancel, why_not);
    if (!found || is_cancelled(options)) return std::nullopt;  // then not all was asked
    remember_probe(options.memo_dir, *found);
  }
  HostCompiler& compiler = found->compiler;
  compiler.search_path = search_path;
  const bool is_gcc = compiler.kind == CompilerKind::Gcc;
  const int oldest = is_gcc ? oldest_gcc : oldest_clang;
  if (compiler.major < oldest) {
    why_not = fmt::format("{} is {} {}, and {} is the oldest that is supported", path, is_gcc ? "GCC" : "Clang",
                          compiler.major, oldest);
    return std::nullopt;
  }
  if (found->architecture != own_architecture) {
    why_not = fmt::format("{} compiles for {}, not for this machine's {}", path,
                          found->architecture.empty() ? "another architecture" : found->architecture, own_architecture);
    return std::nullopt;
  }
  return std::move(compiler);
}

}  // namespace

Result<HostCompiler> find_host_compiler(const FindOptions& options) {
  const std::string search_path = absolute_folders(options.path);
  const std::string where = search_path.empty() ? "no folder: the search path is empty" : search_path;
  const std::string& wanted = options.wanted;
  if (!wanted.empty()) {
    if (wanted.find('/') != std::string::npos && !wanted.starts_with('/')) {
      return diag::error(diag::Code::compiler_missing,
                         fmt::format("the C++ compiler '{}' is not an absolute path", wanted))
          .reason("a path relative to the current folder would mean another compiler in every folder")
          .help("give the name alone, or the path from the root");
    }
    const auto path = base::find_executable(wanted, search_path);
    if (!path) {
      auto error =
          diag::error(diag::Code::compiler_missing, fmt::format("the C++ compiler '{}' was not found", wanted));
      error.reason(wanted.starts_with('/') ? "there is no executable file of that name" : "looked in " + where);
      if (wanted.find(' ') != std::string::npos) error.note("options can not follow the name of the compiler");
      return error.help(std::string(help_install));
    }
    std::string why_not;
    auto compiler = examine(*path, search_path, options, why_not);
    if (compiler) return std::move(*compiler);
    if (is_cancelled(options)) return search_cancelled();
    return diag::error(diag::Code::compiler_unusable, fmt::format("the C++ compiler '{}' can not be used", wanted))
        .reason(why_not)
        .help(std::string(help_install));
  }

  std::vector<std::string> reasons;
  for (const std::string_view name : usual_names) {
    const auto path = base::find_executable(name, search_path);
    if (!path) continue;
    std::string why_not;
    auto compiler = examine(*path, search_path, options, why_not);
    if (compiler) return std::move(*compiler);
    if (is_cancelled(options)) return search_cancelled();
    reasons.push_back(std::move(why_not));
  }
  if (reasons.empty()) {
    return diag::error(diag::Code::compiler_missing, "no C++ compiler was found")
        .reason(fmt::format("looked for {} in {}", fmt::join(usual_names, ", "), where))
        .help(std::string(help_install));
  }
  auto error = diag::error(diag::Code::compiler_unusable, "no C++ compiler that was found can be used");
  error.reason(reasons.front());
  for (size_t i = 1; i < reasons.size(); ++i) error.note(reasons[i]);
  return error.help(std::string(help_install));
}

}  // namespace codetta::toolchain
