// SPDX-License-Identifier: Apache-2.0
// Options.
#include "base/options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.hpp"
#include "base/text.hpp"

namespace codetta::base {

Expected<void, OptionError> Options::set(std::string_view name, std::string_view word) {
  const auto row = std::find_if(table_.begin(), table_.end(), [name](const OptionRow& r) { return r.name == name; });
  if (row == table_.end()) {
    std::vector<std::string> names;
    for (const OptionRow& known : table_) names.emplace_back(known.name);
    return OptionError{fmt::format("unknown option '{}'", name), nearest(name, names)};
  }
  std::vector<std::string> words;
  for (const std::string_view known : split(row->words, '|')) words.emplace_back(known);
  if (std::find(words.begin(), words.end(), word) == words.end()) {
    const std::string meant = nearest(word, words);
    return OptionError{fmt::format("option '{}' takes {}{}, not '{}'", name, words.size() == 1 ? "" : "one of ",
                                   join(words, ", "), word),
                       meant.empty() ? "" : std::string(name) + ":" + meant};
  }
  set_.emplace(name, word);
  return {};
}

Expected<void, OptionError> Options::parse(std::string_view text) {
  if (trim(text).empty()) return {};
  for (const std::string_view piece : split(text, ',')) {
    const std::string_view item = trim(piece);
    const size_t mark = item.find_first_of("=:");
    const std::string_view word = mark == std::string_view::npos ? "" : trim(item.substr(mark + 1));
    if (auto done = set(trim(item.substr(0, mark)), word); !done) {
      OptionError error = done.error();
      error.offset = static_cast<size_t>((item.empty() ? piece : item).data() - text.data());
      return error;
    }
  }
  return {};
}

bool Options::has(std::string_view name, std::string_view word) const {
  return set_.contains({std::string(name), std::string(word)});
}

}  // namespace codetta::base
