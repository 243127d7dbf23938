// SPDX-License-Identifier: Apache-2.0
// From options to a target, a context, a text.
#include "cli/options.hpp"

#include "cli/interrupt.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include <nlohmann/json.hpp>

namespace codetta::cli {
namespace {

void say(std::string_view line, bool json) {
  if (!json) {
    std::fprintf(stderr, "codetta: %.*s\n", static_cast<int>(line.size()), line.data());
    return;
  }
  const std::string text = nlohmann::json{{"log", line}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace

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
  context.device = options.devices.empty() ? options.device : options.devices.front();
  context.devices = options.devices;
  context.cuda_home = options.cuda_home;
  context.cuda_compiler = options.cuda_compiler;
  context.vendor = !options.no_vendor;
  context.log = [json = options.json](std::string_view line) { say(line, json); };
  return Context::make(context);
}

Result<Target> emission_target_of(const CommonOptions& options, Context& context) {
  auto target = target_of(options);
  if (!target) return target;
  auto resolved = emission_target(*target, context);
  const bool gpu = target->backend == Backend::cuda || target->backend == Backend::hip;
  if (resolved && gpu && target->arch.empty() && !Device::open(target->backend, context)) {
    const std::string name = resolved->to_string();
    say("no device is here, whose architecture it would be for: this is for --target " + name + "; name another one",
        options.json);
  }
  return resolved;
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
    return usage_error(file_or_text + " is a directory", "a text is read from a file",
                       "name the file in it that holds the text");
  // What is read of a pipe that does not end is more than a text may be: the front end says how much that is.
  constexpr size_t most = (size_t{16} << 20) + 1;
  auto text = read_bytes(file_or_text, most);
  if (!text && text.error().code() != 620) return std::move(text).error();
  if (!text) {
    std::string why = text.error().diagnostics().front().reason;
    if (const std::string call = "open " + file_or_text + ": "; why.starts_with(call)) why.erase(0, call.size());
    if (of == TextOf::Kernel)
      return usage_error("cannot read " + file_or_text, why,
                         "pass the file that holds the kernel's source: NAME=FILE.cpp");
    return usage_error("cannot read " + file_or_text, "as a file: " + why + "; and a text would have a def",
                       of == TextOf::Epilogue
                           ? "pass the path of an epilogue, or its text: \"def f(accum): D = relu(accum); return D\""
                           : "pass the path of a program such as \"def p(x: f32['n', 64], w: f32[64, 8]): y = relu(x @ "
                             "w); return y\"");
  }
  return Source{file_or_text, *std::move(text)};
}

}  // namespace codetta::cli
