// SPDX-License-Identifier: Apache-2.0
// Options as a table: name, type, default and doc line in one row; parsed from "key=value,key:value" texts.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.hpp"

namespace codetta::base {

enum class OptionKind : uint8_t {
  Flag,     // true, false, on, off, yes, no, 1, 0; the key alone means true
  Integer,  // 64-bit
  Real,
  Text,
  Choice,  // one word of `choices`
  List,    // words of `choices` (any, if empty); every mention adds one
};

struct OptionRow {
  std::string_view name;
  OptionKind kind = OptionKind::Flag;
  std::string_view default_text;  // read like a value; a List's default is empty
  std::string_view choices;       // "plan|graph|source"
  std::string_view doc;
};

struct OptionError {
  std::string text;     // "unknown option 'dmp'", "option 'level' takes an integer, not 'high'"
  std::string nearest;  // what was probably meant, or ""
  size_t offset = 0;    // byte offset in what was parsed, for a caret
};

// Values for the rows of a table, which must outlive this.
class Options {
 public:
  explicit Options(std::span<const OptionRow> table) : table_(table) {}

  Expected<void, OptionError> set(std::string_view name, std::string_view value);
  // Items separated by commas, each "name", "name=value" or "name:value". Stops at the first that is wrong, leaving
  // those before it set. An empty text sets nothing.
  Expected<void, OptionError> parse(std::string_view text);

  // The value or the default. The name must be a row of that kind; others read as false, 0, "".
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] int64_t integer(std::string_view name) const;
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] std::string text(std::string_view name) const;  // of Text and Choice
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name, std::string_view word) const;  // is the word in the List?
  [[nodiscard]] bool is_set(std::string_view name) const { return values_.contains(name); }

  // "name=value" of what was set, in table order: equal settings give equal texts.
  [[nodiscard]] std::string canonical() const;
  // One line a row: "dump=plan|graph|source   what to print (default: ...)".
  [[nodiscard]] std::string help() const;

 private:
  [[nodiscard]] const OptionRow* find(std::string_view name) const;
  [[nodiscard]] std::string value_of(std::string_view name, OptionKind kind) const;

  std::span<const OptionRow> table_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

}  // namespace codetta::base
