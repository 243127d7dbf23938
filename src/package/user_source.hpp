// SPDX-License-Identifier: Apache-2.0
// Where a kernel of the user's stands in the source that a compiler is given: emit/ writes these, toolchain/ looks for
// them, to tell whose mistake it is.
#pragma once

#include <string>
#include <string_view>

namespace codetta::package {

// A file name as #line takes it.
inline std::string line_name(std::string_view file) {
  std::string name;
  for (const char c : file) {
    const bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    name += plain ? c : '_';
  }
  return name.empty() ? "kernel.cpp" : name;
}

// In front of the user's text, which begins with the #line that names its file.
inline constexpr std::string_view users_text_begins = "// The user's text:\n";
// Behind it, with the ending of the language; what follows is what calls the kernel.
inline constexpr std::string_view users_text_ends = "\n#line 1 \"codetta_user_entry.";

}  // namespace codetta::package
