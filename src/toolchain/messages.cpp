// SPDX-License-Identifier: Apache-2.0
#include "toolchain/messages.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"

namespace codetta::toolchain {

namespace {

constexpr std::array<std::string_view, 4> severities = {"fatal error: ", "error: ", "warning: ", "note: "};

// Takes ":<number>" off the end of `place`.
bool take_number(std::string_view& place, uint32_t& number) {
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == place.size()) return false;
  const std::string_view digits = place.substr(colon + 1);
  uint32_t value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failed != std::errc{} || end != digits.data() + digits.size()) return false;
  number = value;
  place = place.substr(0, colon);
  return true;
}

bool contains_any(std::string_view log, std::initializer_list<std::string_view> texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](std::string_view text) { return log.find(text) != std::string_view::npos; });
}

}  // namespace

std::vector<CompilerMessage> parse_compiler_messages(std::string_view log) {
  std::vector<CompilerMessage> messages;
  for (const std::string_view line : base::split(log, '\n')) {
    size_t at = std::string_view::npos;
    std::string_view severity;
    for (const std::string_view candidate : severities) {
      const size_t found = line.find(candidate);
      if (found < at) {
        at = found;
        severity = candidate;
      }
    }
    // The severity follows "place: "; inside of a quoted line it follows something else.
    if (at == std::string_view::npos || at < 2 || line.substr(at - 2, 2) != ": ") continue;
    CompilerMessage message;
    message.is_error = severity.find("error") != std::string_view::npos;
    message.text = base::trim(line.substr(at + severity.size()));
    std::string_view place = line.substr(0, at - 2);
    uint32_t last = 0;
    if (take_number(place, last)) {
      if (take_number(place, message.line)) {
        message.column = last;
      } else {
        message.line = last;
      }
      message.file = place;
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

bool says_crashed(std::string_view log) {
  return contains_any(log, {"internal compiler error", "signal terminated program", "command failed due to signal",
                            "PLEASE submit a bug report", "out of memory allocating", "cannot allocate memory",
                            "virtual memory exhausted"});
}

bool says_no_room(std::string_view log) {
  return contains_any(log, {"No space left on device", "Disk quota exceeded", "Read-only file system",
                            "annot create temporary file", "File too large"}) ||
         (log.find("Permission denied") != std::string_view::npos && contains_any(log, {"open", "create", "write"}));
}

}  // namespace codetta::toolchain
