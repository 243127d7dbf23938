// SPDX-License-Identifier: Apache-2.0
// codetta::Error: the caret text and the JSON of diagnostics.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "codetta/error.hpp"
#include "diag/cut_line.hpp"
#include "diag/diagnostic.hpp"
#include "diag/display.hpp"

namespace codetta {

namespace {

using base::escape_json;
using diag::display_width;
using diag::displayable;

// "note: first line" with the further lines aligned below it.
void render_text(std::string& out, std::string_view head, std::string_view text) {
  const std::string indent(head.size() + 2, ' ');
  bool first = true;
  for (const std::string_view line : base::split(text, '\n')) {
    out += first ? fmt::format("{}: {}", head, displayable(line)) : indent + displayable(line);
    while (out.back() == ' ') out.pop_back();
    out += '\n';
    first = false;
  }
}

void render_location(std::string& out, SourceLocation where, std::string_view label) {
  if (where.line == 0) {
    if (!where.file.empty()) out += fmt::format("  --> {}\n", displayable(where.file));
    return;
  }
  if (where.length == 0 && where.line_text.empty()) {  // of the caller's C++
    const std::string column = where.column == 0 ? "" : fmt::format(":{}", where.column);
    out += fmt::format("  --> {}:{}{}\n", displayable(where.file), where.line, column);
    return;
  }
  diag::cut_line(where);
  const std::string file = where.file.empty() ? "<text>" : displayable(where.file);
  out += fmt::format("  --> {}:{}:{}\n", file, where.line, where.column);

  // Split the quoted line at the underlined part: cells before it and under it are what the caret line needs.
  const std::string_view line = where.line_text;
  const uint32_t skip = where.column > where.text_column ? where.column - where.text_column : 0;
  size_t first = 0;
  for (uint32_t i = 0; i < skip && first < line.size(); ++i) first += base::utf8_step(line, first).length;
  size_t last = first;
  for (uint32_t i = 0; i < where.length && last < line.size(); ++i) last += base::utf8_step(line, last).length;
  const uint32_t before = display_width(line.substr(0, first));
  const uint32_t under = std::max(1U, display_width(line.substr(first, last - first)));

  const std::string number = fmt::format("{}", where.line);
  std::string quoted = fmt::format("{} | {}", number, displayable(line));
  while (quoted.back() == ' ') quoted.pop_back();
  std::string carets = fmt::format("{:{}} | {:{}}{}", "", number.size(), "", before, std::string(under, '^'));
  if (!label.empty()) carets += " " + displayable(label);
  out += quoted + '\n' + carets + '\n';
}

void render_diagnostic(std::string& out, const Diagnostic& diagnostic) {
  render_text(out, fmt::format("error[{}]", diag::code_text(diagnostic.code)), diagnostic.headline);
  render_location(out, diagnostic.where, diagnostic.label);
  if (!diagnostic.reason.empty()) render_text(out, "note", diagnostic.reason);
  for (const Note& note : diagnostic.notes) {
    render_text(out, "note", note.text);
    render_location(out, note.where, {});
  }
  if (!diagnostic.help.empty()) render_text(out, "help", diagnostic.help);
}

std::string_view family_name(ErrorFamily family) {
  switch (family) {
    case ErrorFamily::Program:
      return "program";
    case ErrorFamily::Usage:
      return "usage";
    case ErrorFamily::Environment:
      return "environment";
    case ErrorFamily::Internal:
      return "internal";
  }
  return "internal";
}

ErrorFamily family_of(uint16_t code) {
  const diag::CodeInfo* info = diag::find_code(code);
  return info == nullptr ? ErrorFamily::Internal : info->family;
}

std::string json_location(const SourceLocation& where) {
  return fmt::format(R"("file":"{}","line":{},"column":{},"length":{})", escape_json(where.file), where.line,
                     where.column, where.length);
}

std::string to_json(const Diagnostic& diagnostic) {
  const diag::CodeInfo* info = diag::find_code(diagnostic.code);
  std::vector<std::string> notes;
  for (const Note& note : diagnostic.notes) {
    notes.push_back(fmt::format(R"({{"text":"{}",{}}})", escape_json(note.text), json_location(note.where)));
  }
  return fmt::format(
      R"({{"code":"{}","name":"{}","family":"{}","headline":"{}",{},"label":"{}","argument":"{}","reason":"{}","notes":[{}],"help":"{}"}})",
      diag::code_text(diagnostic.code), info == nullptr ? "unknown" : info->name,
      family_name(family_of(diagnostic.code)), escape_json(diagnostic.headline), json_location(diagnostic.where),
      escape_json(diagnostic.label), escape_json(diagnostic.argument), escape_json(diagnostic.reason),
      base::join(notes, ","), escape_json(diagnostic.help));
}

std::vector<Diagnostic> at_least_one(std::vector<Diagnostic> diagnostics) {
  if (diagnostics.empty()) {
    diagnostics.push_back(diag::error(diag::Code::internal, "an error was reported without a diagnostic")
                              .help("please report this as a bug of Codetta")
                              .diagnostic());
  }
  return diagnostics;
}

}  // namespace

Error::Error(Diagnostic diagnostic) : Error(std::vector<Diagnostic>{std::move(diagnostic)}) {}

Error::Error(std::vector<Diagnostic> diagnostics)
    : diagnostics_(std::make_shared<const std::vector<Diagnostic>>(at_least_one(std::move(diagnostics)))) {}

uint16_t Error::code() const { return diagnostics_->front().code; }

ErrorFamily Error::family() const { return family_of(code()); }

std::string Error::message() const {
  return fmt::format("error[{}]: {}", diag::code_text(code()), displayable(diagnostics_->front().headline));
}

std::string Error::render() const {
  std::string out;
  for (const Diagnostic& diagnostic : *diagnostics_) {
    if (!out.empty()) out += '\n';
    render_diagnostic(out, diagnostic);
  }
  return out;
}

std::string Error::to_json() const {
  std::vector<std::string> parts;
  for (const Diagnostic& diagnostic : *diagnostics_) parts.push_back(codetta::to_json(diagnostic));
  return fmt::format(R"({{"diagnostics":[{}]}})", base::join(parts, ","));
}

}  // namespace codetta
