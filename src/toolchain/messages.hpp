// SPDX-License-Identifier: Apache-2.0
// What a C++ compiler says, taken apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.hpp"
#include "toolchain/users_text.hpp"

namespace codetta::toolchain {

struct CompilerMessage {
  struct Place {
    std::string file;
    uint32_t line = 0;
    uint32_t column = 0;  // 0: not said
  };
  std::string file;  // "<stdin>" for the source itself; "" when the message has no place
  uint32_t line = 0;
  uint32_t column = 0;
  bool is_error = false;  // an error or a fatal error; else a warning or a note
  std::string text;
  std::vector<Place> instantiated_at{};  // of an error in a template: by what, from the innermost on
};
// Lines of the forms file:line:column: severity: text, file:line: severity: text and program: severity: text. Other
// lines (quoted source, "In function ...") are left out.
std::vector<CompilerMessage> parse_compiler_messages(std::string_view log);

// An error in Codetta's text that a template of it brought there is shown where the user's text asks for that.
CompilerMessage in_users_text(CompilerMessage message, const UsersText& users);

// Of a source that was refused, whose own lines a compiler says are of the file `first`: the mistake is the user's
// where it holds a kernel of the user's and, of the errors that have a place, one lies in that text, in what calls it,
// or in what these ask for; without a place, where nothing is missing (which the user's text would be asked for by
// undefined_in_users). Else what we emitted is at fault. What the error is, and what to do.
struct RefusedSource {
  diag::Code code;  // E0313 or E0504
  std::string help;
};
// `log`: what the messages are of. `instead`: what may take a source of ours.
RefusedSource refused_source(std::string_view source, std::string_view first, std::string_view log,
                             const std::vector<CompilerMessage>& messages, std::string_view instead);

// The compiler itself died (its own message, or a killed pass).
bool says_crashed(std::string_view log);
// Temporary files could not be written.
bool says_no_room(std::string_view log);

}  // namespace codetta::toolchain
