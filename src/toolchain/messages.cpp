// SPDX-License-Identifier: Apache-2.0
#include "toolchain/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"
#include "toolchain/undefined.hpp"

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

// "file:line:column" or "file:line".
CompilerMessage::Place place_of(std::string_view text) {
  CompilerMessage::Place place;
  uint32_t last = 0;
  if (!take_number(text, last)) return place;
  if (take_number(text, place.line)) {
    place.column = last;
  } else {
    place.line = last;
  }
  place.file = text;
  return place;
}

bool contains_any(std::string_view log, std::initializer_list<std::string_view> texts) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](std::string_view text) { return log.find(text) != std::string_view::npos; });
}

}  // namespace

std::vector<CompilerMessage> parse_compiler_messages(std::string_view log) {
  std::vector<CompilerMessage> messages;
  // GCC tells where templates are instantiated in front of their errors, once for all of a function.
  std::vector<CompilerMessage::Place> instantiated_at;
  for (const std::string_view line : base::split(log, '\n')) {
    if (contains_any(line, {": In ", ": At "})) instantiated_at.clear();
    for (const std::string_view required : {":   required from ", ":   recursively required from "}) {
      if (const size_t found = line.find(required); found != std::string_view::npos)
        instantiated_at.push_back(place_of(line.substr(0, found)));
    }
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
    CompilerMessage::Place place = place_of(line.substr(0, at - 2));
    message.file = std::move(place.file);
    message.line = place.line;
    message.column = place.column;
    if (message.is_error) message.instantiated_at = instantiated_at;
    // Clang tells it behind the error.
    if (message.text.starts_with("in instantiation of ") && message.text.ends_with(" requested here")) {
      const auto error = std::find_if(messages.rbegin(), messages.rend(), [](const auto& one) { return one.is_error; });
      if (error != messages.rend()) error->instantiated_at.push_back({message.file, message.line, message.column});
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

CompilerMessage in_users_text(CompilerMessage message, const UsersText& users) {
  if (users.is_file(message.file)) return message;
  const auto place = std::find_if(message.instantiated_at.begin(), message.instantiated_at.end(),
                                  [&](const auto& one) { return one.line != 0 && users.is_file(one.file); });
  if (place == message.instantiated_at.end()) return message;
  message.file = place->file;
  message.line = place->line;
  message.column = place->column;
  return message;
}

RefusedSource refused_source(std::string_view source, std::string_view first, std::string_view log,
                             const std::vector<CompilerMessage>& messages, std::string_view instead) {
  const RefusedSource ours{diag::Code::compile_rejected,
                           fmt::format("report this with the kept source; {} may take it", instead)};
  const std::optional<UsersText> users = UsersText::in(source);
  if (!users) return ours;
  const auto of_users = [&](std::string_view file) {
    if (file == first) return users->has_lines_of(file);
    return users->is_file(file) || file.starts_with("codetta_user_entry.");
  };
  bool placed = false, by_user = false;
  for (const CompilerMessage& message : messages) {
    if (!message.is_error || message.line == 0) continue;
    placed = true;
    by_user = by_user || of_users(message.file) ||
              std::any_of(message.instantiated_at.begin(), message.instantiated_at.end(),
                          [&](const CompilerMessage::Place& place) { return of_users(place.file); });
  }
  if (!placed) by_user = undefined_names(log).empty();
  if (by_user) return {diag::Code::user_source, "correct the source of the kernel there"};
  return ours;
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
