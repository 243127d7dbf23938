// SPDX-License-Identifier: Apache-2.0
#include "toolchain/nvrtc_failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "diag/cut_line.hpp"
#include "toolchain/failure.hpp"
#include "toolchain/undefined.hpp"

namespace codetta::toolchain {

namespace {

std::string name_of(const CudaJob& job) { return job.label.empty() ? "a kernel" : "'" + job.label + "'"; }

std::string keep_source(const FailedCuda& run) { return keep_refused(run.options.keep_dir, run.job.source, ".cu"); }

void add_repro(diag::ErrorBuilder& error, const FailedCuda& run, const std::string& kept) {
  error.note("the flags were: " + base::join(run.job.flags, " "));
  if (!kept.empty()) error.note("the source is kept as " + kept);
}

SourceLocation locate(const CompilerMessage& message, const FailedCuda& run, const std::string& kept) {
  SourceLocation where;
  where.file = message.file;
  where.line = message.line;
  where.column = 1;
  where.length = 1;
  if (message.file == nvrtc_source_name && !kept.empty()) where.file = kept;
  if (message.file == nvrtc_source_name && kept.empty()) where.file = "<source>";
  std::string_view line = line_at(run.job.source, nvrtc_source_name, message.file, message.line);
  for (const CudaHeader& header : run.job.headers) {
    if (header.path == message.file) line = line_at(header.text, header.path, header.path, message.line);
  }
  where.line_text = line;
  if (const size_t begin = line.find_first_not_of(" \t"); begin != std::string_view::npos)
    where.column = static_cast<uint32_t>(begin) + 1;
  diag::cut_line(where);
  return where;
}

}  // namespace

std::vector<CompilerMessage> parse_cuda_messages(std::string_view log) {
  std::vector<CompilerMessage> messages;
  for (const std::string_view line : base::split(log, '\n')) {
    // [detected during] instantiation of "name" at line 4 of kernel.cu, behind the error. Without a file: of its own.
    constexpr std::string_view at_line = "\" at line ";
    const size_t told = line.rfind(at_line);
    if (line.find(" instantiation of \"") < told && told != std::string_view::npos && !messages.empty()) {
      const std::string_view place = line.substr(told + at_line.size());
      const size_t of = place.find(" of ");
      const auto number = base::parse_int64(base::trim(place.substr(0, of)));
      if (of != std::string_view::npos && number)
        messages.back().instantiated_at.push_back(
            {std::string(base::trim(place.substr(of + 4))), static_cast<uint32_t>(*number), 0});
      continue;
    }
    if (line.starts_with("ptxas error") || line.starts_with("ptxas fatal") || line.starts_with("nvrtc: error") ||
        line.starts_with("nvrtc: fatal")) {
      messages.push_back({"", 0, 0, true, std::string(base::trim(line))});
      continue;
    }
    const size_t close = line.find("): ");
    const size_t open = line.rfind('(', close);
    if (close == std::string_view::npos || open == std::string_view::npos) continue;
    CompilerMessage message;
    const auto [end, wrong] = std::from_chars(line.data() + open + 1, line.data() + close, message.line);
    if (wrong != std::errc{} || end != line.data() + close) continue;
    message.file = line.substr(0, open);
    std::string_view rest = line.substr(close + 3);
    bool known = false;
    for (const std::string_view severity : {"catastrophic error", "error", "warning", "remark"}) {
      if (!rest.starts_with(severity)) continue;
      rest.remove_prefix(severity.size());
      message.is_error = severity.find("error") != std::string_view::npos;
      known = true;
      break;
    }
    const size_t colon = rest.find(": ");
    if (!known || colon == std::string_view::npos) continue;
    message.text = base::trim(rest.substr(colon + 2));
    messages.push_back(std::move(message));
  }
  return messages;
}

std::string version_text_of(std::string_view compiler, int version) {
  return fmt::format("{} {}.{}", compiler, version / 1000, version % 1000 / 10);
}

Error nvrtc_unusable(const std::string& why) {
  return diag::error(diag::Code::cuda_compiler_unusable, "the CUDA compiler can not be used")
      .reason(why)
      .help(
          "install the CUDA toolkit 12 or 13, or its NVRTC alone (pip install nvidia-cuda-nvrtc), and name its folder "
          "in cuda_home");
}

Error cuda_rejected(const FailedCuda& run, const std::string& log) {
  if (auto undefined =
          undefined_in_users(run.job.label, run.job.source, log, fmt::format("{} said: {}", run.compiler, log)))
    return *std::move(undefined);
  const std::string kept = keep_source(run);
  const auto messages = parse_cuda_messages(log);
  const RefusedSource refused = refused_source(run.job.source, nvrtc_source_name, log, messages, "another toolkit");
  auto error = diag::error(refused.code, fmt::format("the compiler rejected the source of {}", name_of(run.job)));
  const auto errors = std::count_if(messages.begin(), messages.end(), [](const auto& one) { return one.is_error; });
  error.reason(errors == 0 ? fmt::format("{} said: {}", run.compiler, log.empty() ? "nothing" : log)
                           : fmt::format("{} found {} error{}", run.compiler, errors, errors == 1 ? "" : "s"));
  show_errors(error, messages, run.job.source,
              [&](const CompilerMessage& message) { return locate(message, run, kept); });
  add_repro(error, run, kept);
  return error.help(refused.help);
}

Error cuda_timed_out(const FailedCuda& run, double seconds) {
  auto error =
      diag::error(diag::Code::compile_timeout, fmt::format("the compiler did not finish {} in time", name_of(run.job)));
  error.reason(
      fmt::format("{} was ended after {:.1f} s of {:.1f}", run.compiler, seconds, run.options.timeout_seconds));
  add_repro(error, run, keep_source(run));
  return error.help("raise the timeout or free the machine");
}

Error cuda_failed(const FailedCuda& run, const std::string& why, const std::string& log) {
  auto error = diag::error(diag::Code::compiler_failed, fmt::format("the compiler failed on {}", name_of(run.job)));
  error.reason(fmt::format("{}: {}{}{}", run.compiler, why, log.empty() ? "" : "; ", log));
  add_repro(error, run, keep_source(run));
  return error.help("another toolkit may take the source; if memory was short, compile fewer kernels at a time");
}

std::string architecture_of(const CudaJob& job) {
  for (const std::string& flag : job.flags) {
    const size_t at = flag.find('=');
    if (at != std::string::npos && flag.find("arch") <= at) return flag.substr(at + 1);
  }
  return {};
}

Error cuda_architecture_unknown(const FailedCuda& run, const std::string& known) {
  return diag::error(diag::Code::cuda_architecture,
                     fmt::format("{} does not know the architecture {}", run.compiler, architecture_of(run.job)))
      .reason(fmt::format("{} compiles for {}", run.path, known))
      .help("install a CUDA toolkit that knows it, or name one of these architectures");
}

Result<void> check_architecture(const FailedCuda& run, const std::vector<int>& known) {
  const std::string arch = architecture_of(run.job);
  if (known.empty() || arch.empty()) return {};
  const size_t digits = arch.find('_');
  int number = 0;
  if (digits != std::string::npos) std::from_chars(arch.data() + digits + 1, arch.data() + arch.size(), number);
  if (std::find(known.begin(), known.end(), number) != known.end()) return {};
  std::string list;
  for (const int one : known) list += fmt::format("{}sm_{}", list.empty() ? "" : ", ", one);
  return cuda_architecture_unknown(run, list);
}

}  // namespace codetta::toolchain
