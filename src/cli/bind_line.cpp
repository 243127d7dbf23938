// SPDX-License-Identifier: Apache-2.0
// Reading the line "# bind:".
#include "cli/bind_line.hpp"

#include <charconv>
#include <set>
#include <sstream>

namespace codetta::cli {

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<BindLine> parse_bind_line(const Source& source) {
  constexpr std::string_view mark = "# bind: ";
  BindLine bind;
  std::set<std::string> seen;
  const std::string& text = source.text;
  size_t at = text.starts_with(mark) ? 0 : text.find("\n# bind: ");
  if (at == std::string::npos) return bind;
  at += at == 0 && text.starts_with(mark) ? 0 : 1;
  const std::string where = "the line '# bind:' of " + source.name;
  std::istringstream items(text.substr(at + mark.size(), text.find('\n', at) - at - mark.size()));
  for (std::string item; items >> item;) {
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals),
                      value = equals == std::string::npos || equals == 0 ? "" : item.substr(equals + 1);
    const bool is_size = name == "M" || name == "N" || name == "K" || name == "batch";
    const auto form = [&](size_t after, std::map<std::string, Form>& forms) -> Result<void> {
      auto parsed = parse_form(item, equals + 1 + after, where);
      if (!parsed) return std::move(parsed).error();
      forms[name] = *parsed;
      return {};
    };
    if (!name.empty() && name != "types" && !seen.insert(name).second)
      return usage_error(name + " is bound twice", "in " + where, "bind each name once");
    if (value.starts_with("scalar:")) {
      bind.scalars[name] = value.substr(7);
    } else if (value.starts_with("tensor[")) {
      if (auto ok = form(6, bind.tensors); !ok) return std::move(ok).error();
    } else if (value.starts_with("out[")) {
      if (auto ok = form(3, bind.outputs); !ok) return std::move(ok).error();
    } else if (const auto size = parse_int(value); is_size && size && *size >= 0) {
      bind.sizes[name] = *size;
    } else if (name == "types" && !value.empty()) {
      std::istringstream types(value);
      for (std::string type; std::getline(types, type, ',');) {
        if (!dtype_from_name(type))
          return usage_error("element type '" + type + "' is not known", "in " + where, "write types=f32,bf16");
      }
    } else {
      return usage_error("'" + item + "' binds nothing", "in " + where,
                         "write NAME=tensor[M,N]:f32, NAME=scalar:0.5, NAME=out[M,N]:f32, types=f32,bf16 or N=64");
    }
  }
  return bind;
}

}  // namespace codetta::cli
