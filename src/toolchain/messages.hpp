// SPDX-License-Identifier: Apache-2.0
// What a C++ compiler says, taken apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.hpp"

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

// Whether a compiler's file is not the user's: embedded headers, and what is generated around the user's source.
bool is_ours(std::string_view file);
// An error in our own text that a template of it brought there is shown where the user's text asks for that.
CompilerMessage in_users_text(CompilerMessage message);

// Whether the source of a kernel holds one of the user's.
bool is_users(std::string_view source);
// Of a source that was refused, whose own lines a compiler says are of the file `first`: the mistake is the user's
// where it holds a kernel of the user's and, of the errors that have a place, one lies in that text, in what calls it,
// or in what these ask for; else what we emitted is at fault. What the error is, and what to do.
struct RefusedSource {
  diag::Code code;  // E0313 or E0504
  std::string help;
};
// `instead`: what may take a source of ours.
RefusedSource refused_source(std::string_view source, std::string_view first,
                             const std::vector<CompilerMessage>& messages, std::string_view instead);

// The compiler itself died (its own message, or a killed pass).
bool says_crashed(std::string_view log);
// Temporary files could not be written.
bool says_no_room(std::string_view log);

}  // namespace codetta::toolchain
