// SPDX-License-Identifier: Apache-2.0
#include "toolchain/failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/digest.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "diag/cut_line.hpp"
#include "toolchain/undefined.hpp"

namespace codetta::toolchain {

namespace {

constexpr size_t shown_lines = 5;

std::string name_of(const CompileJob& job) { return job.label.empty() ? "a kernel" : "'" + job.label + "'"; }

// Arguments as one can paste them into a shell; nothing here ever runs one.
std::string pasteable(const FailedRun& run, const std::string& kept) {
  std::string line = run.program;
  for (const std::string& argument : run.arguments) {
    if (argument.starts_with(run.folder)) {
      line += " out" + argument.substr(std::min(argument.size(), argument.rfind('.')));
      continue;
    }
    const bool plain = argument.find_first_of(" \t\n'\"\\$`*?&;|<>()[]{}!#~") == std::string::npos && !argument.empty();
    if (plain) {
      line += " " + argument;
      continue;
    }
    line += " '";
    for (const char c : argument) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += "'";
  }
  return kept.empty() ? line : line + " < " + kept;
}

std::string keep_source(const FailedRun& run) { return keep_refused(run.options.keep_dir, run.job.source, ".cpp"); }

void add_repro(diag::ErrorBuilder& error, const FailedRun& run, const std::string& kept) {
  error.note("the command was: " + pasteable(run, kept));
  if (!kept.empty()) error.note("the source is kept as " + kept);
}

std::string last_lines(std::string_view log) {
  const std::string_view text = base::trim(log);
  size_t from = text.size();
  for (size_t i = 0; i < shown_lines && from != std::string_view::npos && from != 0; ++i)
    from = text.rfind('\n', from - 1);
  return std::string(from == std::string_view::npos ? text : text.substr(std::min(from + 1, text.size())));
}

SourceLocation locate(const CompilerMessage& message, const std::string& source, const std::string& name) {
  SourceLocation where;
  where.file = message.file == "<stdin>" ? name : message.file;
  where.line = message.line;
  where.column = std::max(message.column, 1U);
  where.length = 1;
  where.line_text = line_at(source, "<stdin>", message.file, message.line);
  diag::cut_line(where);
  return where;
}

Error rejected(const FailedRun& run, const base::ProcessResult& result) {
  const auto messages = parse_compiler_messages(result.errors);
  if (auto undefined = undefined_in_users(
          run.job.label, run.job.source, result.errors,
          fmt::format("{} ended with {}: {}", run.program, result.summary(), last_lines(result.errors))))
    return *std::move(undefined);
  const RefusedSource refused = refused_source(run.job.source, "<stdin>", result.errors, messages, "another compiler");
  auto error = diag::error(refused.code, fmt::format("the compiler rejected the source of {}", name_of(run.job)));
  const std::string kept = keep_source(run);
  const std::string name = kept.empty() ? "<source>" : kept;
  const auto errors = std::count_if(messages.begin(), messages.end(), [](const auto& one) { return one.is_error; });
  std::string reason = fmt::format("{} ({}) ended with {}", run.program, run.compiler.version, result.summary());
  reason += errors == 0 ? ": " + last_lines(result.errors.empty() ? result.output : result.errors)
                        : fmt::format(" and {} error{}", errors, errors == 1 ? "" : "s");
  error.reason(reason);
  show_errors(error, messages, run.job.source,
              [&](const CompilerMessage& message) { return locate(message, run.job.source, name); });
  add_repro(error, run, kept);
  return error.help(refused.help);
}

}  // namespace

std::string keep_refused(const std::string& folder, std::string_view source, std::string_view extension) {
  if (folder.empty()) return {};
  const auto opened = base::make_private_directory(folder);
  if (!opened) return {};
  const std::string name = fmt::format("kernel-{}{}", base::digest_of(source).hex(), extension);
  base::WriteOptions options;
  options.mode = 0600;
  options.sync = false;
  if (!base::write_file_atomically_at(*opened, name, source, options)) return {};
  return folder + (folder.ends_with('/') ? "" : "/") + name;
}

void show_errors(diag::ErrorBuilder& error, const std::vector<CompilerMessage>& messages, std::string_view source,
                 const std::function<SourceLocation(const CompilerMessage&)>& locate) {
  constexpr size_t most = 5;
  const std::optional<UsersText> users = UsersText::in(source);
  size_t shown = 0;
  for (const CompilerMessage& one : messages) {
    if (!one.is_error) continue;
    if (++shown > most) break;
    const CompilerMessage message = users ? in_users_text(one, *users) : one;
    if (message.line == 0) {
      error.note(message.text);
    } else if (shown == 1) {
      error.at(locate(message), message.text);
    } else {
      error.note(message.text, locate(message));
    }
  }
}

namespace {

bool is_no_room(const base::SystemError& why) {
  return why.errno_value == EFBIG || why.errno_value == ENOSPC || why.errno_value == EDQUOT;
}

constexpr std::string_view help_no_room = "free space, or raise the limit of the size of files (ulimit -f)";

}  // namespace

Error folder_failed(const std::string& label, const base::SystemError& why, const std::vector<std::string>& parents) {
  if (is_no_room(why)) {
    return diag::error(diag::Code::compile_folder,
                       fmt::format("there is no room for the temporary files of the compile{}",
                                   label.empty() ? "" : " of '" + label + "'"))
        .reason(why.message())
        .help(std::string(help_no_room));
  }
  return diag::error(diag::Code::compile_folder, fmt::format("no folder for the temporary files of the compile{}",
                                                             label.empty() ? "" : " of '" + label + "'"))
      .reason(fmt::format("{} (tried {})", why.message(), base::join(parents, ", ")))
      .help("make one of these folders writable, or choose a work folder that is");
}

Error start_failed(const FailedRun& run, const base::SystemError& why) {
  if (is_no_room(why)) {
    return diag::error(diag::Code::compile_folder,
                       fmt::format("there is no room for the source of {}", name_of(run.job)))
        .reason(why.message())
        .help(std::string(help_no_room));
  }
  auto error = diag::error(diag::Code::compiler_failed,
                           fmt::format("the compiler could not be started for {}", name_of(run.job)));
  error.reason(why.message());
  add_repro(error, run, keep_source(run));
  return error.help(
      "check that the program is there and executable, and that open files, processes and memory are not at their "
      "limit");
}

Error run_failed(const FailedRun& run, const base::ProcessResult& result) {
  using base::ProcessEnd;
  if (result.end == ProcessEnd::Cancelled) {
    return diag::error(diag::Code::compile_cancelled, fmt::format("the compile of {} was cancelled", name_of(run.job)))
        .reason(fmt::format("after {:.1f} s", result.seconds))
        .help("start it again when you want it");
  }
  if (result.end == ProcessEnd::TimedOut) {
    auto error = diag::error(diag::Code::compile_timeout,
                             fmt::format("the compiler did not finish {} in time", name_of(run.job)));
    error.reason(fmt::format("{} {}; it and what it had started were ended", run.program, result.summary()));
    add_repro(error, run, keep_source(run));
    return error.help(std::string(help_timeout));
  }
  if (says_no_room(result.errors)) {
    return diag::error(diag::Code::compile_folder,
                       fmt::format("the compiler could not write the files of {}", name_of(run.job)))
        .reason(last_lines(result.errors))
        .note("its temporary files were in " + run.folder)
        .help("free space there, raise the limit of the size of files (ulimit -f), or choose another work folder");
  }
  if (result.end == ProcessEnd::Signaled || says_crashed(result.errors)) {
    auto error = diag::error(diag::Code::compiler_failed, fmt::format("the compiler crashed on {}", name_of(run.job)));
    const std::string said = last_lines(result.errors);
    error.reason(fmt::format("{} ended with {}{}", run.program, result.summary(), said.empty() ? "" : ": " + said));
    add_repro(error, run, keep_source(run));
    return error.help("another compiler may take the source; if it was killed, the machine was short of memory");
  }
  return rejected(run, result);
}

Error no_object(const FailedRun& run, const std::string& why) {
  auto error =
      diag::error(diag::Code::compiler_failed, fmt::format("the compiler made no object of {}", name_of(run.job)));
  error.reason(fmt::format("{} ended well, but its output can not be read: {}", run.program, why));
  add_repro(error, run, keep_source(run));
  return error.help("check that the program is a C++ compiler");
}

Error cancelled_before_start(const CompileJob& job) {
  return diag::error(diag::Code::compile_cancelled, fmt::format("the compile of {} was cancelled", name_of(job)))
      .reason("it had not started")
      .help("start it again when you want it");
}

}  // namespace codetta::toolchain
