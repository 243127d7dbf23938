// SPDX-License-Identifier: Apache-2.0
// Switches as a table, a name and its words in one row; parsed from "key:word,key=word" texts.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/expected.hpp"

namespace codetta::base {

struct OptionRow {
  std::string_view name;
  std::string_view words;  // "plan|graph|source"; each mention of one adds it
};

struct OptionError {
  std::string text;     // "unknown option 'dmp'", "option 'dump' takes one of plan, graph, not 'plann'"
  std::string nearest;  // what was probably meant, "dump" or "dump:plan", or ""
  size_t offset = 0;    // byte offset in what was parsed, for a caret
};

// What is set of the rows of a table, which must outlive this.
class Options {
 public:
  explicit Options(std::span<const OptionRow> table) : table_(table) {}

  // Items separated by commas, each "name:word" or "name=word". Stops at the first that is wrong, leaving those before
  // it set. An empty text sets nothing.
  Expected<void, OptionError> parse(std::string_view text);
  [[nodiscard]] bool has(std::string_view name, std::string_view word) const;

 private:
  Expected<void, OptionError> set(std::string_view name, std::string_view word);

  std::span<const OptionRow> table_;
  std::set<std::pair<std::string, std::string>> set_;
};

}  // namespace codetta::base
