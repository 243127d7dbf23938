// SPDX-License-Identifier: Apache-2.0
// The source of a kernel that holds one of the user's, as a compiler is given it.
#pragma once

#include <string>

#include "package/user_source.hpp"

namespace codetta::test {

// `text` is of the file; around it stands what Codetta would write.
inline std::string users_source(const std::string& file, const std::string& text, const std::string& before = "",
                                const std::string& behind = "") {
  const std::string ending = file.substr(file.rfind('.') + 1);
  return before + std::string(package::users_text_begins) + "#line 1 \"" + file + "\"\n" + text +
         std::string(package::users_text_ends) + ending + "\"\n" + behind;
}

}  // namespace codetta::test
