// SPDX-License-Identifier: Apache-2.0
// What is said where there may be no memory left to say it with.
#include "cli/last_words.hpp"

#include <cstring>

namespace codetta::cli {

void escape_json(const char* text, char* out, size_t bytes) noexcept {
  const char* const digits = "0123456789abcdef";
  size_t at = 0;
  for (; *text != '\0'; ++text) {
    const auto byte = static_cast<unsigned char>(*text);
    char escaped[7] = {static_cast<char>(byte)};
    if (byte == '"' || byte == '\\') {
      escaped[0] = '\\';
      escaped[1] = *text;
    } else if (byte < 0x20 || byte == 0x7f) {
      std::memcpy(escaped, "\\u00", 4);
      escaped[4] = digits[byte >> 4];
      escaped[5] = digits[byte & 15];
    } else if (byte > 0x7f) {
      escaped[0] = '?';
    }
    const size_t count = std::strlen(escaped);
    if (at + count >= bytes) break;
    std::memcpy(out + at, escaped, count);
    at += count;
  }
  out[at] = '\0';
}

}  // namespace codetta::cli
