// SPDX-License-Identifier: Apache-2.0
#include "runtime/io/npy_header.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.hpp"

namespace codetta::runtime::io {
namespace {

constexpr size_t max_dims = 64;  // NumPy's own limit

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  bool run(NpyHeader& header) {
    if (!expect('{')) return false;
    bool descr = false, order = false, shape = false;
    while (!accept('}')) {
      std::string key;
      if (!quoted(key, "a key") || !expect(':')) return false;
      if (key == "descr" && !descr) {
        descr = true;
        if (!description(header)) return false;
      } else if (key == "fortran_order" && !order) {
        order = true;
        if (!truth(header.fortran_order)) return false;
      } else if (key == "shape" && !shape) {
        shape = true;
        if (!tuple(header.shape)) return false;
      } else if (key == "codetta_dtype" && !header.codetta_dtype) {
        if (!quoted(header.codetta_dtype.emplace(), "a dtype")) return false;
      } else {
        return fail(fmt::format("the key '{}' is unknown or given twice", key.substr(0, 40)));
      }
      if (!accept(',') && peek() != '}') return fail("a ',' or '}' is missing");
    }
    if (!descr || !order || !shape) return fail("descr, fortran_order or shape is missing");
    return comment(header) && (at_ == text_.size() || fail("text follows the dictionary"));
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  bool fail(const std::string& what) {
    if (problem_.empty()) problem_ = fmt::format("byte {} of the header: {}", at_, what);
    return false;
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  bool expect(char c) { return accept(c) || fail(fmt::format("'{}' is missing", c)); }

  bool quoted(std::string& out, const char* what) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return fail(fmt::format("{} in quotes is missing", what));
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return fail("a string does not end");
    out = text_.substr(at_ + 1, end - at_ - 1);
    if (out.find_first_of("\\\n") != std::string::npos) return fail("a string has an escape");
    at_ = end + 1;
    return true;
  }
  bool truth(bool& out) {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        out = value;
        return true;
      }
    }
    return fail("True or False is missing");
  }
  // NumPy takes no further key in the dictionary, but reads it as Python does.
  bool comment(NpyHeader& header) {
    skip_space();
    if (text_.substr(at_, dtype_comment.size()) != dtype_comment) return true;
    if (header.codetta_dtype) return fail("the element type is given twice");
    at_ += dtype_comment.size();
    const size_t end = std::min(text_.find_first_of(" \n", at_), text_.size());
    header.codetta_dtype = text_.substr(at_, end - at_);
    at_ = end;
    skip_space();
    return true;
  }
  // A string, or the list of a structured type, which is skipped.
  bool description(NpyHeader& header) {
    if (peek() != '[') return quoted(header.descr, "a type");
    header.structured = true;
    int open = 0;
    std::string ignored;
    do {
      const char c = peek();
      if (c == '\'' || c == '"') {
        if (!quoted(ignored, "a name")) return false;
        continue;
      }
      if (at_ == text_.size()) return fail("the type does not end");
      open += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
      ++at_;
    } while (open > 0);
    return true;
  }
  bool tuple(std::vector<int64_t>& out) {
    if (!expect('(')) return false;
    while (!accept(')')) {
      int64_t value = 0;
      const size_t begin = at_;
      if (peek() < '0' || peek() > '9') return fail(peek() == '-' ? "a size is negative" : "a size is missing");
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        const auto next = base::checked_mul_add(value, 10, text_[at_] - '0');
        if (!next) {
          at_ = begin;
          return fail("a size exceeds 64 bits");
        }
        value = *next;
      }
      out.push_back(value);
      if (out.size() > max_dims) return fail("there are more than 64 sizes");
      if (accept(',')) continue;
      if (peek() != ')') return fail("a ',' or ')' is missing");
      if (out.size() == 1) return fail("a tuple of one needs a ','");
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string problem_;
};

}  // namespace

std::optional<NpyHeader> parse_npy_header(std::string_view text, std::string* problem) {
  NpyHeader header;
  HeaderParser parser(text);
  if (parser.run(header)) return header;
  *problem = parser.problem();
  return std::nullopt;
}

}  // namespace codetta::runtime::io
