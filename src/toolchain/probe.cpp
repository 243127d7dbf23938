// SPDX-License-Identifier: Apache-2.0
#include "toolchain/probe.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>

#include "base/files.hpp"
#include "toolchain/failure.hpp"

namespace codetta::toolchain {

namespace {

constexpr size_t max_binary_bytes = size_t{1} << 30;

// The value of `#define name value`, "" when it is not defined (or defined as nothing).
std::string_view macro(std::string_view text, std::string_view name) {
  const std::string start = fmt::format("#define {} ", name);
  const size_t at = text.find(start);
  if (at == std::string_view::npos || (at != 0 && text[at - 1] != '\n')) return {};
  const size_t from = at + start.size();
  return text.substr(from, std::min(text.find('\n', from), text.size()) - from);
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// Where the compiler has one of its programs; "" when it can't say.
std::string program_of(const std::string& path, const std::string& name, const std::string& search_path,
                       const FindOptions& options, Refusal& refusal) {
  const auto said = ask(path, {"-print-prog-name=" + name}, search_path, options, refusal);
  if (!said) return {};
  const std::string found = first_line(said->output);
  // Without a folder of its own it is looked up as any program is.
  return base::find_executable(found, search_path).value_or("");
}

// Clang behind a wrapper such as ccache says where it is installed.
std::string clang_binary(const std::string& path, std::string_view version_text) {
  constexpr std::string_view label = "InstalledDir: ";
  const size_t at = version_text.find(label);
  if (at == std::string_view::npos) return path;
  const std::string binary = first_line(version_text.substr(at + label.size())) + "/clang";
  return stamp_of(binary) ? binary : path;
}

bool add_content(base::Hasher& hasher, Probe& probe, const std::string& path, Refusal& refusal) {
  const auto stamp = stamp_of(path);
  const auto bytes = base::read_file(path, max_binary_bytes);
  if (!stamp || !bytes) {
    refusal.reason = bytes ? path + " is not a regular file" : bytes.error().message();
    return false;
  }
  probe.files.push_back(*stamp);
  hasher.add(base::digest_of(*bytes));
  return true;
}

}  // namespace

std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
#if defined(__APPLE__)
  const struct timespec modified = info.st_mtimespec;
#else
  const struct timespec modified = info.st_mtim;
#endif
  return FileStamp{path, info.st_size, int64_t{modified.tv_sec} * 1'000'000'000 + modified.tv_nsec, info.st_ino};
}

std::vector<std::string> child_environment(const std::string& search_path, const std::string& temporary_dir) {
  std::vector<std::string> environment{"PATH=" + search_path, "LC_ALL=C"};
  if (!temporary_dir.empty()) environment.push_back("TMPDIR=" + temporary_dir);
  return environment;
}

std::optional<base::ProcessResult> ask(const std::string& path, std::vector<std::string> arguments,
                                       const std::string& search_path, const FindOptions& options, Refusal& refusal) {
  base::ProcessRequest request;
  request.program = path;
  request.arguments = std::move(arguments);
  request.environment = child_environment(search_path, {});
  request.timeout = std::chrono::milliseconds(static_cast<int64_t>(std::max(options.timeout_seconds, 0.001) * 1000));
  request.cancel = options.cancel;
  auto result = base::run_process(request);
  if (!result) {
    refusal.reason = result.error().message();
    return std::nullopt;
  }
  if (!result->success()) {
    refusal.timed_out = result->end == base::ProcessEnd::TimedOut;
    const std::string said = first_line(result->errors.empty() ? result->output : result->errors);
    refusal.reason = fmt::format("`{} {}`: {}{}{}", path, fmt::join(request.arguments, " "), result->summary(),
                                 said.empty() ? "" : ": ", said);
    return std::nullopt;
  }
  return std::move(*result);
}

bool is_cancelled(const FindOptions& options) { return options.cancel != nullptr && options.cancel->load(); }

Error search_cancelled(const std::string& what) {
  return diag::error(diag::Code::compile_cancelled, fmt::format("the search for {} was cancelled", what))
      .reason("the context's cancel flag was set while a compiler was asked what it is")
      .help("start it again when you want it");
}

diag::ErrorBuilder said_too_late(const std::string& headline, const Refusal& refusal) {
  return diag::error(diag::Code::compile_timeout, headline)
      .reason(refusal.reason + "; it and what it had started were ended")
      .help(std::string(help_timeout));
}

std::optional<Probe> probe(const std::string& path, const std::string& search_path, const FindOptions& options,
                           Refusal& refusal) {
  // The macros say what it is whatever it calls itself; a C compiler without the C++ part fails here.
  const auto macros = ask(path, {"-dM", "-E", "-x", "c++", "-"}, search_path, options, refusal);
  if (!macros) return std::nullopt;
  Probe found;
  HostCompiler& compiler = found.compiler;
  compiler.path = path;
  compiler.search_path = search_path;
  const std::string_view clang = macro(macros->output, "__clang_major__");
  const std::string_view gcc = macro(macros->output, "__GNUC__");
  const std::string_view major = clang.empty() ? gcc : clang;
  if (std::from_chars(major.data(), major.data() + major.size(), compiler.major).ec != std::errc{} || major.empty()) {
    refusal.reason = path + " is neither GCC nor Clang: it defines neither __GNUC__ nor __clang_major__";
    return std::nullopt;
  }
  compiler.kind = clang.empty() ? CompilerKind::Gcc : CompilerKind::Clang;
  for (const char* name : {"x86_64", "aarch64"}) {
    if (!macro(macros->output, fmt::format("__{}__", name)).empty()) found.architecture = name;
  }
  const auto version = ask(path, {"--version"}, search_path, options, refusal);
  if (!version) return std::nullopt;
  compiler.version = first_line(version->output);

  base::Hasher hasher;
  hasher.add(version->output);
  if (!add_content(hasher, found, path, refusal)) return std::nullopt;
  const bool is_gcc = compiler.kind == CompilerKind::Gcc;
  const std::string worker =
      is_gcc ? program_of(path, "cc1plus", search_path, options, refusal) : clang_binary(path, version->output);
  if (refusal.timed_out) return std::nullopt;
  if (worker.empty()) {
    refusal.reason = fmt::format("`{} -print-prog-name=cc1plus` names no program", path);
    return std::nullopt;
  }
  if (worker != path && !add_content(hasher, found, worker, refusal)) return std::nullopt;
#if defined(__linux__)
  if (!is_gcc) {
    compiler.linker = program_of(path, "ld", search_path, options, refusal);
    if (const auto runtime = ask(path, {"-print-libgcc-file-name"}, search_path, options, refusal)) {
      const std::string library = first_line(runtime->output);
      if (stamp_of(library)) compiler.runtime = library;
    }
    if (refusal.timed_out) return std::nullopt;
  }
#endif
  compiler.identity = hasher.digest().hex();
  return found;
}

}  // namespace codetta::toolchain
