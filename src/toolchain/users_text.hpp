// SPDX-License-Identifier: Apache-2.0
// The user's own text in the source of a kernel, which decides whose mistake a compiler's message is about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace codetta::toolchain {

// A line as a compiler names it: parts of the source begin with #line 1 "name", or as the user wrote it, outside of
// comments; what is in front of them is called `first`. Lines of such marks are left out.
struct SourceLine {
  std::string_view text, file;
  uint32_t number = 0;
};
std::vector<SourceLine> lines_of(std::string_view source, std::string_view first);
// Empty where there is none.
std::string_view line_at(std::string_view source, std::string_view first, std::string_view file, uint32_t number);

// Points into the source.
class UsersText {
 public:
  // Nothing where the source holds no kernel of the user's.
  static std::optional<UsersText> in(std::string_view source);
  // Whether a compiler says of lines of it that they are this file's, whatever that is called.
  [[nodiscard]] bool has_lines_of(std::string_view file) const;
  // Whether a compiler's file is the user's: lines of this text, or nothing of Codetta's (embedded headers, what is
  // generated around this text), as a header of the system's.
  [[nodiscard]] bool is_file(std::string_view file) const;
  [[nodiscard]] std::string_view text() const { return text_; }  // from its first #line on
  // What Codetta wrote around it.
  [[nodiscard]] std::string_view before() const { return before_; }
  [[nodiscard]] std::string_view behind() const { return behind_; }
  [[nodiscard]] const std::vector<SourceLine>& lines() const { return lines_; }  // of the text

 private:
  std::string_view before_, text_, behind_;
  std::vector<SourceLine> lines_;
};
// The same as whether there is one.
bool is_users(std::string_view source);

}  // namespace codetta::toolchain
