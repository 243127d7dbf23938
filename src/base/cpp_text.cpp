// SPDX-License-Identifier: Apache-2.0
#include "base/cpp_text.hpp"

#include <algorithm>

namespace codetta::base {
namespace {

// Comments, strings and `#if 0` as C++ reads them. Lines stay where they are.
class Blanker {
 public:
  Blanker(std::string_view text, LineComments line_comments) : text_(text), out_(text), line_comments_(line_comments) {}
  std::string run() {
    while (at_ < text_.size()) step();
    blank_skipped();
    return std::move(out_);
  }

 private:
  static constexpr size_t npos = std::string_view::npos;
  void blank(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (out_[i] != '\n' && out_[i] != '\r') out_[i] = ' ';
    }
  }
  [[nodiscard]] bool sees(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  void step() {
    const size_t begin = at_;
    if (sees("//")) {
      do {
        at_ = std::min(text_.find('\n', at_ + 1), text_.size());
      } while (at_ < text_.size() && (text_[at_ - 1] == '\\' || text_.substr(at_ - 2, 2) == "\\\r"));
      if (line_comments_ == LineComments::Go) blank(begin, at_);
    } else if (sees("/*")) {
      const size_t close = text_.find("*/", at_ + 2);
      at_ = close == npos ? text_.size() : close + 2;
      blank(begin, at_);
    } else if (text_[at_] == '"' && at_ > 0 && text_[at_ - 1] == 'R' && text_.substr(at_, 18).find('(') != npos) {
      const size_t open = text_.find('(', at_);
      const std::string end = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
      const size_t close = text_.find(end, open);
      at_ = close == npos ? text_.size() : close + end.size();
      for (size_t line = text_.find('\n', begin); line < at_; line = text_.find('\n', line + 1)) {
        const size_t first = text_.find_first_not_of(" \t", line + 1);
        if (first < at_ && text_[first] == '#') out_[first] = ' ';  // no directive
      }
    } else if (text_[at_] == '"' || (text_[at_] == '\'' && !within_number())) {
      const char quote = text_[at_++];
      while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
      at_ = std::min(at_ + 1, text_.size());
    } else {
      ++at_;
    }
  }
  [[nodiscard]] bool within_number() const {  // 1'000'000
    return at_ > 0 && in_word(text_[at_ - 1]);
  }
  // What `#if 0` leaves out, up to its #else, #elif or #endif. Other conditions are the compiler's to know.
  void blank_skipped() {
    int depth = 0;  // of conditions within it; 0: nothing is left out
    for (size_t begin = 0; begin < out_.size();) {
      const size_t end = std::min(out_.find('\n', begin), out_.size());
      const std::string_view directive = directive_of(std::string_view(out_).substr(begin, end - begin));
      const bool opens = directive.starts_with("if"), closes = directive.starts_with("endif");
      const bool turns = directive.starts_with("else") || directive.starts_with("elif");
      if (depth > 0) {
        if (opens) ++depth;
        if (closes || (turns && depth == 1)) --depth;
        if (depth > 0) blank(begin, end);
      } else if (opens && is_if_0(directive)) {
        depth = 1;
      }
      begin = end + 1;
    }
  }
  static std::string_view trimmed(std::string_view line) {
    const size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t\r");
    return first == std::string_view::npos ? std::string_view() : line.substr(first, last + 1 - first);
  }
  static std::string_view directive_of(std::string_view line) {
    line = trimmed(line);
    return line.starts_with("#") ? trimmed(line.substr(1)) : std::string_view();
  }
  static bool is_if_0(std::string_view directive) {
    const std::string_view condition = trimmed(directive.substr(2));
    return condition == "0" || condition == "false" || condition.starts_with("0 //") || condition.starts_with("0//");
  }

  std::string_view text_;
  std::string out_;
  LineComments line_comments_;
  size_t at_ = 0;
};

}  // namespace

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9') || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string without_comments(std::string_view text, LineComments line_comments) {
  return Blanker(text, line_comments).run();
}

}  // namespace codetta::base
