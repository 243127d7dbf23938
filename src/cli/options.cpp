// SPDX-License-Identifier: Apache-2.0
// From options to a target, a context, a text.
#include "cli/options.hpp"

#include "cli/interrupt.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

namespace codetta::cli {

Result<Target> target_of(const CommonOptions& options) {
  if (options.target.empty()) return Target::host();
  return Target::parse(options.target);
}

Result<Context> context_of(const CommonOptions& options) {
  ContextOptions context;
  context.cache_dir = options.cache_dir;
  context.cache_enabled = !options.no_cache;
  context.no_jit = options.no_jit;
  context.no_compiler = options.no_compiler;
  context.compiler = options.compiler;
  context.compile_timeout_seconds = options.compile_timeout;
  context.debug = options.debug;
  context.threads = options.threads;
  context.cancel = &interrupted();
  context.device = options.device;
  context.cuda_home = options.cuda_home;
  context.vendor = !options.no_vendor;
  context.log = [json = options.json](std::string_view line) {
    if (!json) {
      std::fprintf(stderr, "codetta: %.*s\n", static_cast<int>(line.size()), line.data());
      return;
    }
    const std::string text =
        nlohmann::json{{"log", line}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::fprintf(stderr, "%s\n", text.c_str());
  };
  return Context::make(context);
}

std::function<void(const CompileProgress&)> compile_progress(const CommonOptions& options) {
  using Clock = std::chrono::steady_clock;
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  return [terminal, json = options.json, last = Clock::now()](const CompileProgress& p) mutable {
    if (p.seconds <= 0) return;
    if (terminal && !json) {
      std::fprintf(stderr, "\r\033[K");
      if (p.done < p.total) std::fprintf(stderr, "compiled %zu of %zu kernels: %s", p.done, p.total, p.kernel.c_str());
      return;
    }
    if (Clock::now() - last < std::chrono::seconds(5)) return;
    last = Clock::now();
    if (json) {
      std::fprintf(stderr, "{\"compiled\":%zu,\"of\":%zu}\n", p.done, p.total);
    } else {
      std::fprintf(stderr, "compiled %zu of %zu kernels\n", p.done, p.total);
    }
  };
}

Result<Source> read_source(const std::string& file_or_text, TextOf of) {
  if (of != TextOf::Kernel && file_or_text.find("def ") != std::string::npos)
    return Source{"<command line>", file_or_text};
  if (std::error_code ignored; std::filesystem::is_directory(file_or_text, ignored))
    return usage_error(file_or_text + " is a directory", "", "name the file in it that holds the text");
  std::error_code ignored;
  const auto kind = std::filesystem::status(file_or_text, ignored).type();
  const bool device = kind == std::filesystem::file_type::character || kind == std::filesystem::file_type::block;
  errno = 0;
  std::ifstream file;
  if (!device) file.open(file_or_text, std::ios::binary);
  // What is read of a pipe that does not end is more than a text may be: the front end says how much that is.
  constexpr size_t most = (size_t{16} << 20) + 1;
  std::string text;
  for (char part[1 << 16]; file && text.size() < most;) {
    file.read(part, sizeof part);
    text.append(part, static_cast<size_t>(file.gcount()));
  }
  if (device || !file.is_open() || file.bad()) {
    const std::string why = device       ? "it is a device, neither a file nor a pipe"
                            : errno != 0 ? std::strerror(errno)
                                         : "it cannot be read";
    if (of == TextOf::Kernel)
      return usage_error("cannot read " + file_or_text, why,
                         "pass the file that holds the kernel's source: NAME=FILE.cpp");
    return usage_error("cannot read " + file_or_text, "as a file: " + why + "; and a text would have a def",
                       of == TextOf::Epilogue
                           ? "pass the path of an epilogue, or its text: \"def f(accum): D = relu(accum); return D\""
                           : "pass the path of a program such as \"def p(x: f32['n', 64], w: f32[64, 8]): y = relu(x @ "
                             "w); return y\"");
  }
  return Source{file_or_text, std::move(text)};
}

}  // namespace codetta::cli
