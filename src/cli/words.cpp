// SPDX-License-Identifier: Apache-2.0
// Words of the command line: those that are not known, and how a shell takes one.
#include "cli/options.hpp"
#include "codetta/diagnose.hpp"

namespace codetta::cli {

Error unknown_word(const std::string& kind, const std::string& word, const std::string& option,
                   const std::vector<std::string>& known, std::string meant) {
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  if (meant.empty()) meant = nearest_word(word, known);
  return usage_error(kind + " '" + word + "' is not known", option.empty() ? "" : "given to " + option,
                     meant.empty() ? "known are " + all : "did you mean '" + meant + "'? Known are " + all);
}

std::string shell_word(const std::string& argument) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!argument.empty() && argument.find_first_not_of(plain) == std::string::npos) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace codetta::cli
