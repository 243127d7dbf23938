// SPDX-License-Identifier: Apache-2.0
#include "toolchain/users_text.hpp"

#include <algorithm>
#include <iterator>

#include "base/cpp_text.hpp"
#include "base/text.hpp"
#include "package/user_source.hpp"

namespace codetta::toolchain {

namespace {

// What `#line 7 "own.cc"`, `#line 7` and `# 7 "own.cc"` say of the line behind them.
struct LineMark {
  uint32_t number = 0;
  std::optional<std::string_view> file;
};
std::optional<LineMark> mark_in(std::string_view line) {
  line = base::trim(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = base::trim(line.substr(1));
  if (line.starts_with("line")) line = base::trim(line.substr(4));
  const std::string_view digits = line.substr(0, line.find_first_not_of("0123456789"));
  const std::optional<int64_t> number = base::parse_int64(digits);
  if (!number || *number > INT32_MAX) return std::nullopt;
  LineMark mark{static_cast<uint32_t>(*number), {}};
  const size_t open = line.find('"'), close = line.rfind('"');
  if (open < close) mark.file = line.substr(open + 1, close - open - 1);
  return mark;
}

}  // namespace

std::vector<SourceLine> lines_of(std::string_view source, std::string_view first) {
  const std::string code = base::without_comments(source);
  std::vector<SourceLine> lines;
  std::string_view here = first;
  uint32_t next = 1;
  for (const std::string_view line : base::split(source, '\n')) {
    const auto begin = static_cast<size_t>(line.data() - source.data());
    if (const auto mark = mark_in(std::string_view(code).substr(begin, line.size()))) {
      next = mark->number;
      // Its characters stay where they are in `code`.
      if (mark->file) here = source.substr(static_cast<size_t>(mark->file->data() - code.data()), mark->file->size());
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
  users.lines_ = lines_of(users.text_, {});
  return users;
}

bool UsersText::has_lines_of(std::string_view file) const {
  return std::any_of(lines_.begin(), lines_.end(), [&](const SourceLine& line) { return line.file == file; });
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
