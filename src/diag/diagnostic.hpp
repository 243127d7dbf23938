// SPDX-License-Identifier: Apache-2.0
// Making diagnostics: codes, source texts and spans. Rendering is Error::render and Error::to_json (render.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codetta/call_site.hpp"
#include "codetta/error.hpp"

namespace codetta::diag {

enum class Code : uint16_t {
#define CODETTA_CODE(number, name, family, title) name = number,
#include "diag/codes.def"
#undef CODETTA_CODE
};

struct CodeInfo {
  Code code;
  std::string_view name;  // "tensor_rank"
  ErrorFamily family;
  std::string_view title;  // "tensor has too many dimensions"
};
// All codes in file order.
const std::vector<CodeInfo>& all_codes();
const CodeInfo* find_code(uint16_t number);  // nullptr when unknown
std::string code_text(uint16_t number);      // "E0207"

// A half-open byte range in a SourceText. begin == end marks a point; the default is "nowhere".
struct Span {
  uint32_t begin = UINT32_MAX;
  uint32_t end = UINT32_MAX;
  [[nodiscard]] bool known() const { return begin != UINT32_MAX; }
  bool operator==(const Span&) const = default;
};

// A text that diagnostics can point into: user source or a printed graph. Immutable, shared by everything parsed from
// it.
class SourceText {
 public:
  // Of a printed text: the place in the caller's C++ that a part of it comes from.
  struct Origin {
    Span span;
    SourceLocation where;
  };
  SourceText(std::string name, std::string text, std::vector<Origin> origins = {});
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string_view text() const { return text_; }
  // Line, column (code points) and the line's text, cut to at most 160 code points around the span with "..." marks;
  // spans over several lines are cut at the first line's end. O(log lines).
  [[nodiscard]] SourceLocation locate(Span span) const;
  // Of the smallest part around the span that has one; nullptr when none has.
  [[nodiscard]] const SourceLocation* origin(Span span) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<uint32_t> line_starts_;
  std::vector<Origin> origins_;  // by begin, the longer one of two first
};
using SourceRef = std::shared_ptr<const SourceText>;

// Builder: return diag::error(Code::x, "headline").at(source, span, "label").reason("...").note(...).help("...");
class ErrorBuilder {
 public:
  ErrorBuilder(Code code, std::string headline);
  // With a note where the text has an origin there.
  ErrorBuilder& at(const SourceRef& source, Span span, std::string label = {});
  ErrorBuilder& at(SourceLocation where, std::string label = {});
  ErrorBuilder& at(const CallSite& site);     // in the caller's C++; nothing where it is not known
  ErrorBuilder& in_file(std::string path);    // file without a line
  ErrorBuilder& about(std::string argument);  // its name
  ErrorBuilder& reason(std::string text);
  ErrorBuilder& note(std::string text);
  ErrorBuilder& note(std::string text, const SourceRef& source, Span span);
  ErrorBuilder& note(std::string text, SourceLocation where);
  ErrorBuilder& help(std::string text);
  [[nodiscard]] Diagnostic diagnostic() const { return diagnostic_; }
  operator Error() const { return Error(diagnostic_); }  // NOLINT(google-explicit-constructor)
  template <class T>
  operator Result<T>() const {  // NOLINT(google-explicit-constructor)
    return Result<T>(Error(diagnostic_));
  }

 private:
  Diagnostic diagnostic_;
};
SourceLocation location_of(const CallSite& site);

// As a part of other texts: "headline: reason", and of an error's first diagnostic, with its code and with
// what it says of a place in a text, "E0207: headline: reason: file:line: label".
std::string sentence(const Diagnostic& diagnostic);
std::string sentence(const Error& error);
inline ErrorBuilder error(Code code, std::string headline) { return {code, std::move(headline)}; }

// "did you mean": the candidate nearest to `word` by Damerau-Levenshtein distance over lower case (at most a third of
// the longer one's length), the first of several, or "". Words above 64 bytes have no neighbours.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace codetta::diag
