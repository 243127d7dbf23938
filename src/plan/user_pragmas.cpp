// SPDX-License-Identifier: Apache-2.0
#include "plan/user_pragmas.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/cpp_text.hpp"
#include "ir/kernel_names.hpp"

namespace codetta::plan {

using diag::Span;

namespace {

constexpr std::string_view words[] = {"kernel",  "sizes",       "config",    "hook",   "block", "grid",  "shared",
                                      "cluster", "cooperative", "dependent", "window", "map",   "im2col"};
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

Span span(size_t begin, size_t end) { return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}; }

}  // namespace

Pragmas::Pragmas(const UserSource& source)
    : name_(source.name),
      source_(std::make_shared<const diag::SourceText>(source.file, source.source)),
      code_(base::without_comments(source_->text())),
      lines_(base::without_comments(source_->text(), base::LineComments::Stay)) {}

// Where the reader has the place: a #line directive in front of it names file and line.
SourceLocation Pragmas::locate(Span span) const {
  SourceLocation where = source_->locate(span);
  const std::string_view before = source_->text().substr(0, span.begin);
  const size_t line = before.rfind("\n#line ");
  const size_t at = line == std::string_view::npos ? (before.starts_with("#line ") ? 0 : line) : line + 1;
  if (at == std::string_view::npos) return where;
  const std::string_view directive = before.substr(at, before.find('\n', at) - at);
  const size_t open = directive.find('"'), close = directive.rfind('"');
  uint32_t number = 0;
  const auto [end, failed] = std::from_chars(directive.data() + 6, directive.data() + directive.size(), number);
  if (failed != std::errc{} || open == close || end > directive.data() + open) return where;
  const auto lines =
      static_cast<uint32_t>(std::count(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  where.line = where.line - (lines + 2) + number;
  where.file = directive.substr(open + 1, close - open - 1);
  return where;
}

Error Pragmas::wrong(Span span, std::string reason, std::string help) const {
  return diag::error(diag::Code::kernel_launch,
                     fmt::format("the launch of kernel {} is not described as it has to be", name_))
      .at(locate(span))
      .reason(std::move(reason))
      .help(std::move(help));
}
Result<std::vector<Clause>> Pragmas::clauses() const {
  std::vector<Clause> found;
  const std::string_view text = lines_;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    size_t begin = at;
    if (skip_word(begin, end, "#") && skip_word(begin, end, "pragma") && skip_word(begin, end, "codetta")) {
      while (end < text.size() && continues(at, end)) end = std::min(text.find('\n', end + 1), text.size());
      CODETTA_CHECK_OK(line(begin, end, found));
    }
    at = end + 1;
  }
  return found;
}
bool Pragmas::continues(size_t begin, size_t end) const {
  const std::string_view text = lines_;
  while (end > begin && (text[end - 1] == '\r' || text[end - 1] == ' ')) --end;
  return end > begin && text[end - 1] == '\\';
}
// Past blanks and the word; false where something else is there.
bool Pragmas::skip_word(size_t& at, size_t end, std::string_view word) const {
  const std::string_view text = lines_;
  while (at < end && (text[at] == ' ' || text[at] == '\t')) ++at;
  if (text.substr(at, std::min(word.size(), end - at)) != word) return false;
  at += word.size();
  return word == "#" || at == end || !(is_name_start(text[at]) || is_digit(text[at]));
}

Result<std::vector<Token>> Pragmas::tokens(size_t at, size_t end) const {
  const std::string_view text = lines_;
  std::vector<Token> result;
  int depth = 0;
  while (at < end) {
    const char c = text[at];
    const size_t begin = at;
    if (c == ' ' || c == '\t' || c == '\\' || c == '\n' || c == '\r') {
      ++at;
      continue;
    }
    if (depth == 0 && text.substr(at, 2) == "//") break;  // a comment; within parentheses it divides
    Token token;
    if (is_name_start(c)) {
      while (at < end && (is_name_start(text[at]) || is_digit(text[at]))) ++at;
      token.kind = Token::Kind::Name;
    } else if (is_digit(c)) {
      while (at < end && is_digit(text[at])) ++at;
      token.kind = Token::Kind::Number;
      const auto [last, failed] = std::from_chars(text.data() + begin, text.data() + at, token.value);
      if (failed != std::errc{} || last != text.data() + at)
        return wrong(span(begin, at), "the number does not fit 64 bits", "use a smaller one");
    } else {
      constexpr std::string_view signs[] = {"//", "==", "!=", "<=", ">=", "&&", "(", ")", "[", "]",
                                            ",",  ":",  "=",  "+",  "-",  "*",  "/", "%", "<", ">"};
      const auto* sign = std::find_if(std::begin(signs), std::end(signs),
                                      [&](std::string_view s) { return text.substr(at, s.size()) == s; });
      if (sign == std::end(signs))
        return wrong(span(at, at + 1), "nothing here is written with this sign",
                     "expressions have integers, names, + - * / %, ceil_div, min and max");
      token.kind = Token::Kind::Sign;
      at += sign->size();
      if (*sign == "(" || *sign == "[") ++depth;
      if (*sign == ")" || *sign == "]") --depth;
    }
    token.text = text.substr(begin, at - begin);
    token.span = span(begin, at);
    result.push_back(token);
  }
  result.push_back({Token::Kind::End, {}, span(end, end), 0});
  return result;
}

Result<void> Pragmas::line(size_t begin, size_t end, std::vector<Clause>& clauses) const {
  CODETTA_TRY(const std::vector<Token> all, tokens(begin, end));
  size_t at = 0;
  while (all[at].kind != Token::Kind::End) {
    Clause clause;
    clause.word = all[at].text;
    clause.span = all[at].span;
    if (all[at].kind != Token::Kind::Name ||
        std::find(std::begin(words), std::end(words), clause.word) == std::end(words)) {
      const std::string near = diag::nearest(clause.word, {std::begin(words), std::end(words)});
      return wrong(clause.span, fmt::format("{} is no clause; there are {}", clause.word, fmt::join(words, ", ")),
                   near.empty() ? std::string("docs/language.md says what each one means")
                                : fmt::format("did you mean {}?", near));
    }
    ++at;
    CODETTA_CHECK_OK(parenthesized(all, at, clause.inside));
    if (all[at].text == "if") {
      ++at;
      CODETTA_CHECK_OK(parenthesized(all, at, clause.condition));
      if (clause.condition.empty())
        return wrong(all[at].span, "if has no condition", "write if(ROWS == 4), over meta-parameters of config");
      clause.conditions = 1 + static_cast<size_t>(std::count_if(clause.condition.begin(), clause.condition.end(),
                                                                [](const Token& t) { return t.text == "&&"; }));
    }
    clauses.push_back(std::move(clause));
  }
  return {};
}
// The tokens of `( ... )`, if that is what follows; else none.
Result<void> Pragmas::parenthesized(const std::vector<Token>& all, size_t& at, std::vector<Token>& inside) const {
  if (all[at].text != "(") return {};
  const Token open = all[at++];
  for (int depth = 1;; ++at) {
    if (all[at].kind == Token::Kind::End)
      return wrong(open.span, "the parenthesis is not closed", "close it on this line, or end the line in \\");
    depth += all[at].text == "(" ? 1 : all[at].text == ")" ? -1 : 0;
    if (depth == 0) break;
    inside.push_back(all[at]);
  }
  inside.push_back({Token::Kind::End, {}, all[at].span, 0});
  ++at;
  return {};
}

std::string not_a_macro(std::string_view name) {
  constexpr std::string_view taken =
      " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t "
      "char8_t class co_await co_return co_yield codetta compl concept const const_cast consteval constexpr "
      "constinit continue decltype default defined delete do double dynamic_cast else enum explicit export "
      "extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq "
      "nullptr operator or or_eq private protected public register reinterpret_cast requires return short "
      "signed sizeof static static_assert static_cast struct switch template this thread_local throw true "
      "try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq ";
  const bool of_compiler = name.find("__") != std::string_view::npos ||
                           (name.size() > 1 && name[0] == '_' && name[1] >= 'A' && name[1] <= 'Z');
  if (of_compiler || taken.find(" " + std::string(name) + " ") != std::string_view::npos)
    return fmt::format("{} is a word of C++ or reserved for compilers", name);
  const std::string_view declared = ir::taken_in_kernels(name);
  return declared.empty() ? "" : fmt::format("{} cannot name a meta-parameter: {}", name, declared);
}

}  // namespace codetta::plan
