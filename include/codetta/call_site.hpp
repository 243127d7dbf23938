// SPDX-License-Identifier: Apache-2.0
// Where in the caller's C++ source a function is called.
#pragma once

#include <cstdint>
#include <version>

#if defined(__cpp_lib_source_location)
#include <source_location>
#endif

namespace codetta {

// What messages about traced epilogues and built programs point at. A last parameter with the default
// CallSite::current(); pass that of your own caller where you wrap such a function. A type of its own, since compilers
// with and without std::source_location call one library.
struct CallSite {
  const char* file = "";  // as the compiler was given it; static memory
  uint32_t line = 0;      // 1-based; 0 = not known
  uint32_t column = 0;    // 1-based; 0 where the compiler does not tell

#if defined(__cpp_lib_source_location)
  static constexpr CallSite current(const std::source_location& at = std::source_location::current()) {
    return {at.file_name(), at.line(), at.column()};
  }
#else
  static constexpr CallSite current(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return {file, line, 0};
  }
#endif
  [[nodiscard]] constexpr bool known() const { return line != 0; }
};

}  // namespace codetta
