// SPDX-License-Identifier: Apache-2.0
// ErrorBuilder, and diagnostics as sentences.
#include <fmt/format.h>

#include "diag/diagnostic.hpp"

namespace codetta::diag {

ErrorBuilder::ErrorBuilder(Code code, std::string headline) {
  diagnostic_.code = static_cast<uint16_t>(code);
  diagnostic_.headline = std::move(headline);
}

SourceLocation location_of(const CallSite& site) {
  SourceLocation where;
  if (!site.known()) return where;
  where.file = site.file;
  where.line = site.line;
  where.column = site.column;
  return where;
}

// One without a headline is thrown away: where on a line of a megabyte it would be is not looked for.
ErrorBuilder& ErrorBuilder::at(const SourceRef& source, Span span, std::string label) {
  if (diagnostic_.headline.empty()) return *this;
  const SourceLocation* origin = source ? source->origin(span) : nullptr;
  if (origin != nullptr) note("made by this call", *origin);
  return at(source ? source->locate(span) : SourceLocation{}, std::move(label));
}

ErrorBuilder& ErrorBuilder::at(const CallSite& site) { return site.known() ? at(location_of(site)) : *this; }

ErrorBuilder& ErrorBuilder::at(SourceLocation where, std::string label) {
  diagnostic_.where = std::move(where);
  diagnostic_.label = std::move(label);
  return *this;
}

ErrorBuilder& ErrorBuilder::in_file(std::string path) {
  diagnostic_.where = {};
  diagnostic_.where.file = std::move(path);
  return *this;
}

ErrorBuilder& ErrorBuilder::about(std::string argument) {
  diagnostic_.argument = std::move(argument);
  return *this;
}

ErrorBuilder& ErrorBuilder::reason(std::string text) {
  diagnostic_.reason = std::move(text);
  return *this;
}

ErrorBuilder& ErrorBuilder::note(std::string text) {
  diagnostic_.notes.push_back({std::move(text), {}});
  return *this;
}

ErrorBuilder& ErrorBuilder::note(std::string text, const SourceRef& source, Span span) {
  if (diagnostic_.headline.empty()) return *this;
  diagnostic_.notes.push_back({std::move(text), source ? source->locate(span) : SourceLocation{}});
  return *this;
}

ErrorBuilder& ErrorBuilder::note(std::string text, SourceLocation where) {
  diagnostic_.notes.push_back({std::move(text), std::move(where)});
  return *this;
}

ErrorBuilder& ErrorBuilder::help(std::string text) {
  diagnostic_.help = std::move(text);
  return *this;
}

std::string sentence(const Diagnostic& diagnostic) {
  return diagnostic.headline + (diagnostic.reason.empty() ? "" : ": " + diagnostic.reason);
}

std::string sentence(const Error& error) {
  const Diagnostic& first = error.diagnostics().front();
  std::string text = code_text(first.code) + ": " + sentence(first);
  if (first.where.line != 0 && !first.label.empty())
    text += fmt::format(": {}:{}: {}", first.where.file, first.where.line, first.label);
  return text;
}

}  // namespace codetta::diag
