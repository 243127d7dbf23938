// SPDX-License-Identifier: Apache-2.0
// `#pragma codetta ...` in the source of a kernel, as clauses of tokens. Private to the room.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "diag/diagnostic.hpp"
#include "plan/plan.hpp"

namespace codetta::plan {

struct Token {
  enum class Kind : uint8_t { Name, Number, Sign, End };
  Kind kind = Kind::End;
  std::string_view text;  // of the source
  diag::Span span;
  int64_t value = 0;
};
struct Clause {
  std::string_view word;
  diag::Span span;
  std::vector<Token> inside, condition;  // each ends in End
  size_t conditions = 0;                 // comparisons: what makes it specific
};

// Tokens are views of the text that it holds.
class Pragmas {
 public:
  explicit Pragmas(const UserSource& source);
  Pragmas(const Pragmas&) = delete;
  Pragmas& operator=(const Pragmas&) = delete;
  // Every clause, in the order of the lines; none in comments and behind `#if 0`. Errors: E0231.
  [[nodiscard]] Result<std::vector<Clause>> clauses() const;
  // E0231 at a place in the source.
  [[nodiscard]] Error wrong(diag::Span span, std::string reason, std::string help) const;

  // The same place for an error of another code.
  [[nodiscard]] SourceLocation locate(diag::Span span) const;

  // Whether the source has this outside of comments and of what stands behind `#if 0`; within strings counts.
  [[nodiscard]] bool has_code(std::string_view text) const { return code_.find(text) != std::string::npos; }
  // The source with blanks for comments and for what stands behind `#if 0`.
  [[nodiscard]] std::string_view code() const { return code_; }

 private:
  [[nodiscard]] bool continues(size_t begin, size_t end) const;
  bool skip_word(size_t& at, size_t end, std::string_view word) const;
  [[nodiscard]] Result<std::vector<Token>> tokens(size_t at, size_t end) const;
  Result<void> line(size_t begin, size_t end, std::vector<Clause>& clauses) const;
  Result<void> parenthesized(const std::vector<Token>& all, size_t& at, std::vector<Token>& inside) const;

  std::string name_;
  diag::SourceRef source_;
  std::string code_;   // the source, blanks for what is not compiled: every character where it was
  std::string lines_;  // the same with comments that end with their line, for `//` may divide there
};

// Why a meta-parameter, which is a macro of the source, cannot have this name: words of C++, CUDA C++ and HIP, without
// which no source can be read, the operator of conditions, and what is declared in front of every source. "" where it
// can.
std::string not_a_macro(std::string_view name);

}  // namespace codetta::plan
