// SPDX-License-Identifier: Apache-2.0
#include "toolchain/users_text.hpp"

#include <algorithm>
#include <iterator>

#include "base/text.hpp"
#include "package/user_source.hpp"

namespace codetta::toolchain {

std::vector<SourceLine> lines_of(std::string_view source, std::string_view first) {
  std::vector<SourceLine> lines;
  std::string_view here = first;
  uint32_t next = 1;
  for (const std::string_view line : base::split(source, '\n')) {
    const size_t open = line.find('"'), close = line.rfind('"');
    if (line.starts_with("#line ") && open < close) {
      next = static_cast<uint32_t>(base::parse_int64(base::trim(line.substr(6, open - 6))).value_or(1));
      here = line.substr(open + 1, close - open - 1);
    } else {
      lines.push_back({line, here, next++});
    }
  }
  return lines;
}

std::string_view line_at(std::string_view source, std::string_view first, std::string_view file, uint32_t number) {
  for (const SourceLine& line : lines_of(source, first)) {
    if (line.number == number && line.file == file) return line.text;
  }
  return {};
}

std::optional<UsersText> UsersText::in(std::string_view source) {
  const size_t mark = source.find(package::users_text_begins);
  if (mark == std::string_view::npos || (mark > 0 && source[mark - 1] != '\n')) return std::nullopt;
  const size_t begin = mark + package::users_text_begins.size();
  const size_t end = source.rfind(package::users_text_ends);
  if (end == std::string_view::npos || end < begin) return std::nullopt;
  UsersText users;
  users.before_ = source.substr(0, mark);
  users.text_ = source.substr(begin, end - begin);
  users.behind_ = source.substr(end);
  return users;
}

bool UsersText::has_lines_of(std::string_view file) const {
  const std::vector<SourceLine> lines = lines_of(text_, {});
  return std::any_of(lines.begin(), lines.end(), [&](const SourceLine& line) { return line.file == file; });
}

bool UsersText::is_file(std::string_view file) const {
  if (has_lines_of(file)) return true;
  if (file.starts_with("./")) file.remove_prefix(2);
  const std::string_view ours[] = {"device/", "codetta/", "codetta_"};
  return file != "<stdin>" && std::none_of(std::begin(ours), std::end(ours),
                                           [&](std::string_view begin) { return file.starts_with(begin); });
}

bool is_users(std::string_view source) { return UsersText::in(source).has_value(); }

}  // namespace codetta::toolchain
