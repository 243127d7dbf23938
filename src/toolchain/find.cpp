// SPDX-License-Identifier: Apache-2.0
// Which compiler: the wanted one, or the first usable of the usual names.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
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
constexpr std::string_view help_install = "install GCC 12 or Clang 16 or a later one, or name one by its absolute path";

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

std::optional<HostCompiler> examine(const std::string& path, const std::string& search_path, const FindOptions& options,
                                    Refusal& refusal) {
  auto found = recall_probe(options.memo_dir, path);
  if (!found) {
    found = probe(path, search_path, options, refusal);
    if (!found || is_cancelled(options)) return std::nullopt;
    remember_probe(options.memo_dir, *found);
  }
  HostCompiler& compiler = found->compiler;
  compiler.search_path = search_path;
  const bool is_gcc = compiler.kind == CompilerKind::Gcc;
  const int oldest = is_gcc ? oldest_gcc : oldest_clang;
  if (compiler.major < oldest) {
    refusal.reason = fmt::format("{} is {} {}, and {} is the oldest that is supported", path, is_gcc ? "GCC" : "Clang",
                                 compiler.major, oldest);
    return std::nullopt;
  }
  if (found->architecture != own_architecture) {
    refusal.reason =
        fmt::format("{} compiles for {}, not for this machine's {}", path,
                    found->architecture.empty() ? "another architecture" : found->architecture, own_architecture);
    return std::nullopt;
  }
  return std::move(compiler);
}

// Of an absolute path.
std::string why_no_program(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return fmt::format("there is no file of that name: {}", std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return "it is a folder";
  return S_ISREG(info.st_mode) ? "the file is not executable" : "it is no file";
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
      const bool there = wanted.starts_with('/') && ::access(wanted.c_str(), F_OK) == 0;
      auto error = diag::error(diag::Code::compiler_missing, fmt::format("the C++ compiler '{}' {}", wanted,
                                                                         there ? "is no program" : "was not found"));
      error.reason(wanted.starts_with('/') ? why_no_program(wanted) : "looked in " + where);
      if (wanted.find(' ') != std::string::npos) error.note("options can not follow the name of the compiler");
      return error.help(std::string(help_install));
    }
    Refusal refusal;
    auto compiler = examine(*path, search_path, options, refusal);
    if (compiler) return std::move(*compiler);
    if (is_cancelled(options)) return search_cancelled("a C++ compiler");
    if (refusal.timed_out)
      return said_too_late(fmt::format("the C++ compiler '{}' did not finish in time", wanted), refusal);
    return diag::error(diag::Code::compiler_unusable, fmt::format("the C++ compiler '{}' can not be used", wanted))
        .reason(refusal.reason)
        .help(std::string(help_install));
  }

  std::vector<Refusal> refusals;
  for (const std::string_view name : usual_names) {
    const auto path = base::find_executable(name, search_path);
    if (!path) continue;
    Refusal refusal;
    auto compiler = examine(*path, search_path, options, refusal);
    if (compiler) return std::move(*compiler);
    if (is_cancelled(options)) return search_cancelled("a C++ compiler");
    refusals.push_back(std::move(refusal));
  }
  if (refusals.empty()) {
    return diag::error(diag::Code::compiler_missing, "no C++ compiler was found")
        .reason(fmt::format("looked for {} in {}", fmt::join(usual_names, ", "), where))
        .help(std::string(help_install));
  }
  // One that hangs may be the one that works.
  const auto late = std::find_if(refusals.begin(), refusals.end(), [](const Refusal& one) { return one.timed_out; });
  if (late != refusals.end()) std::rotate(refusals.begin(), late, late + 1);
  auto error = refusals.front().timed_out
                   ? said_too_late("a C++ compiler did not finish in time", refusals.front())
                   : diag::error(diag::Code::compiler_unusable, "no C++ compiler that was found can be used")
                         .reason(refusals.front().reason)
                         .help(std::string(help_install));
  for (size_t i = 1; i < refusals.size(); ++i) error.note(refusals[i].reason);
  return error;
}

}  // namespace codetta::toolchain
