// SPDX-License-Identifier: Apache-2.0
// Options.
#include "base/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/nearest.hpp"
#include "base/text.hpp"

namespace codetta::base {

namespace {

std::optional<bool> parse_flag(std::string_view text) {
  if (text == "true" || text == "on" || text == "yes" || text == "1") return true;
  if (text == "false" || text == "off" || text == "no" || text == "0") return false;
  return std::nullopt;
}

std::vector<std::string> words(std::string_view choices) {
  std::vector<std::string> out;
  if (choices.empty()) return out;
  for (const std::string_view word : split(choices, '|')) out.emplace_back(word);
  return out;
}

// What the row expects, for messages and help; "" when the value is fine.
std::string mismatch(const OptionRow& row, std::string_view value) {
  switch (row.kind) {
    case OptionKind::Flag:
      return parse_flag(value) ? "" : "true or false";
    case OptionKind::Integer:
      return parse_int64(value) ? "" : "an integer";
    case OptionKind::Real:
      return parse_double(value) ? "" : "a number";
    case OptionKind::Text:
      return {};
    case OptionKind::Choice:
    case OptionKind::List: {
      const std::vector<std::string> allowed = words(row.choices);
      const bool any = row.kind == OptionKind::List && allowed.empty();
      const bool fits = any ? !value.empty() : std::find(allowed.begin(), allowed.end(), value) != allowed.end();
      if (fits) return {};
      return any ? "a word" : (allowed.size() == 1 ? "" : "one of ") + join(allowed, ", ");
    }
  }
  return {};
}

}  // namespace

const OptionRow* Options::find(std::string_view name) const {
  const auto at = std::find_if(table_.begin(), table_.end(), [name](const OptionRow& row) { return row.name == name; });
  return at == table_.end() ? nullptr : &*at;
}

Expected<void, OptionError> Options::set(std::string_view name, std::string_view value) {
  const OptionRow* row = find(name);
  if (row == nullptr) {
    std::vector<std::string> names;
    for (const OptionRow& known : table_) names.emplace_back(known.name);
    return OptionError{fmt::format("unknown option '{}'", name), base::nearest(name, names)};
  }
  if (const std::string expected = mismatch(*row, value); !expected.empty()) {
    return OptionError{fmt::format("option '{}' takes {}, not '{}'", name, expected, value),
                       base::nearest(value, words(row->choices))};
  }
  std::vector<std::string>& values = values_[std::string(name)];
  const bool known = std::find(values.begin(), values.end(), value) != values.end();
  if (row->kind != OptionKind::List) {
    values.assign(1, std::string(value));
  } else if (!known) {
    values.emplace_back(value);
  }
  return {};
}

Expected<void, OptionError> Options::parse(std::string_view text) {
  if (trim(text).empty()) return {};
  for (const std::string_view piece : split(text, ',')) {
    const std::string_view item = trim(piece);
    const size_t mark = item.find_first_of("=:");
    const std::string_view name = trim(item.substr(0, mark));
    const OptionRow* row = find(name);
    const bool bare_flag = mark == std::string_view::npos && row != nullptr && row->kind == OptionKind::Flag;
    const std::string_view value = mark == std::string_view::npos ? "" : trim(item.substr(mark + 1));
    if (auto done = set(name, bare_flag ? "true" : value); !done) {
      OptionError error = done.error();
      error.offset = static_cast<size_t>((item.empty() ? piece : item).data() - text.data());
      return error;
    }
  }
  return {};
}

std::string Options::value_of(std::string_view name, OptionKind kind) const {
  const OptionRow* row = find(name);
  if (row == nullptr || row->kind != kind) return {};
  const auto at = values_.find(name);
  return at == values_.end() ? std::string(row->default_text) : at->second.front();
}

bool Options::flag(std::string_view name) const { return parse_flag(value_of(name, OptionKind::Flag)).value_or(false); }

int64_t Options::integer(std::string_view name) const {
  return parse_int64(value_of(name, OptionKind::Integer)).value_or(0);
}

double Options::real(std::string_view name) const {
  return parse_double(value_of(name, OptionKind::Real)).value_or(0.0);
}

std::string Options::text(std::string_view name) const {
  const OptionRow* row = find(name);
  return value_of(name, row != nullptr && row->kind == OptionKind::Choice ? OptionKind::Choice : OptionKind::Text);
}

std::vector<std::string> Options::list(std::string_view name) const {
  const auto at = values_.find(name);
  const OptionRow* row = find(name);
  if (at == values_.end() || row->kind != OptionKind::List) return {};
  return at->second;
}

bool Options::has(std::string_view name, std::string_view word) const {
  const std::vector<std::string> values = list(name);
  return std::find(values.begin(), values.end(), word) != values.end();
}

std::string Options::canonical() const {
  std::vector<std::string> items;
  for (const OptionRow& row : table_) {
    const auto at = values_.find(row.name);
    if (at == values_.end()) continue;
    std::vector<std::string> values = at->second;
    std::sort(values.begin(), values.end());
    for (const std::string& value : values) items.push_back(fmt::format("{}={}", row.name, value));
  }
  return join(items, ",");
}

std::string Options::help() const {
  std::vector<std::string> heads;
  size_t width = 0;
  for (const OptionRow& row : table_) {
    std::string value;
    switch (row.kind) {
      case OptionKind::Flag:
        break;
      case OptionKind::Integer:
        value = "=INTEGER";
        break;
      case OptionKind::Real:
        value = "=NUMBER";
        break;
      case OptionKind::Text:
        value = "=TEXT";
        break;
      case OptionKind::Choice:
      case OptionKind::List:
        value = "=" + std::string(row.choices.empty() ? "WORD" : row.choices);
        break;
    }
    heads.push_back(std::string(row.name) + value);
    width = std::max(width, heads.back().size());
  }
  std::string out;
  for (size_t i = 0; i < heads.size(); ++i) {
    const OptionRow& row = table_[i];
    out += fmt::format("{:{}}  {}", heads[i], width, row.doc);
    if (!row.default_text.empty()) out += fmt::format(" (default: {})", row.default_text);
    out += '\n';
  }
  return out;
}

}  // namespace codetta::base
