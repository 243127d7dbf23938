// SPDX-License-Identifier: Apache-2.0
// C++ that is given as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace codetta::base {

enum class LineComments : uint8_t { Go, Stay };
// With blanks for comments, for what `#if 0` leaves out and for # where a line of a raw string begins with it, as C++
// reads them: strings are known, and every other character stays where it is, line ends among them. `Stay`: // and what
// follows it on its line does.
std::string without_comments(std::string_view text, LineComments line_comments = LineComments::Go);

// Of identifiers and keywords as compilers take them: a letter, a digit, _ or $, or part of what is beyond ASCII.
bool in_word(char c);

}  // namespace codetta::base
