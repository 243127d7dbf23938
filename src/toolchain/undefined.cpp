// SPDX-License-Identifier: Apache-2.0
#include "toolchain/undefined.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/cpp_text.hpp"
#include "base/text.hpp"
#include "diag/cut_line.hpp"
#include "toolchain/users_text.hpp"

namespace codetta::toolchain {
namespace {

std::string as_written(const std::string& name) {
  if (!name.starts_with("_Z")) return name;  // "i" would be int
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

// What a name as C++ writes it is looked for by.
struct Sought {
  std::string_view qualified;  // "there::absent<int>" of "long there::absent<int>(int)", "S" of "vtable for S"
  std::string_view word;       // "absent"; "operator+" whole, but "new" of "operator new"
};

// Where parameters end that begin at `open`, with the const behind them.
size_t behind_parameters(std::string_view name, size_t open) {
  size_t at = open;
  for (int inside = 0; at < name.size(); ++at) {
    if (name[at] == '(') ++inside;
    if (name[at] == ')' && --inside == 0) break;
  }
  at = std::min(at + 1, name.size());
  constexpr std::string_view constant = " const";
  return name.substr(at).starts_with(constant) ? at + constant.size() : at;
}

Sought sought(std::string_view name) {
  if (const size_t of = name.find(" for "); of != std::string_view::npos) name.remove_prefix(of + 5);
  // The parameters begin at the first parenthesis out of < >; a type that is returned ends in front of the last blank.
  constexpr std::string_view unnamed = "(anonymous namespace)", op = "operator";
  size_t begin = 0, end = name.size(), symbol = std::string_view::npos;
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with(unnamed)) {
      i += unnamed.size() - 1;
      continue;
    }
    const bool starts_word = i == 0 || !base::in_word(name[i - 1]);
    const std::string_view rest = name.substr(i);
    if (depth == 0 && starts_word && rest.starts_with(op) && (rest == op || !base::in_word(rest[op.size()]))) {
      symbol = i;
      const size_t behind = i + op.size() + (rest.substr(op.size()).starts_with("()") ? 2 : 0);
      end = std::min(name.find('(', behind), name.size());
      break;
    }
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth == 0 && name[i] == ' ') begin = i + 1;
    if (depth == 0 && name[i] == '(') {
      const size_t behind = behind_parameters(name, i);
      if (!name.substr(behind).starts_with("::")) {
        end = i;
        break;
      }
      i = behind;  // of what a function defines: f(int)::S::g(long)
    }
  }
  Sought result{name.substr(begin, end - begin), {}};
  if (symbol != std::string_view::npos) {
    result.word = base::trim(name.substr(symbol, end - symbol));
    const std::string_view of = base::trim(result.word.substr(op.size()));
    if (of.starts_with("new") || of.starts_with("delete")) {
      result.word = of.substr(0, of.find('['));
    } else if (of.empty() || base::in_word(of.front())) {
      result.word = op;  // a conversion
    }
    return result;
  }
  std::string_view last = result.qualified;
  if (last.ends_with('>')) {
    size_t at = last.size();
    for (int inside = 0; at > 0; --at) {
      if (last[at - 1] == '>') ++inside;
      if (last[at - 1] == '<' && --inside == 0) break;
    }
    last = last.substr(0, at == 0 ? 0 : at - 1);
  }
  size_t start = last.size();
  while (start > 0 && base::in_word(last[start - 1])) --start;
  result.word = last.substr(start);
  return result;
}

// Where a line has the word, as a whole; npos where it does not. Behind "operator" there may be blanks.
size_t place_in(std::string_view line, std::string_view word) {
  size_t symbol = 0;
  while (symbol < word.size() && base::in_word(word[symbol])) ++symbol;
  const std::string_view letters = word.substr(0, symbol), signs = word.substr(symbol);
  for (size_t at = line.find(letters); at != std::string_view::npos; at = line.find(letters, at + 1)) {
    size_t end = at + letters.size();
    if ((at > 0 && base::in_word(line[at - 1])) || (end < line.size() && base::in_word(line[end]))) continue;
    if (signs.empty()) return at;
    while (end < line.size() && line[end] == ' ') ++end;
    if (line.substr(end, signs.size()) != signs) continue;
    const std::string_view rest = line.substr(end + signs.size());
    if (rest.empty() || std::string_view("+-*/%^&|=<>!~,").find(rest.front()) == std::string_view::npos) return at;
  }
  return std::string_view::npos;
}

// Whether other text than the user's is what asks for it: it is called as Codetta's functions are, or written there, be
// it as a compiler's own function.
bool is_others(const Sought& name, const std::vector<std::string_view>& others) {
  if (name.word.starts_with("ct_") || name.word.starts_with("codetta_")) return true;
  const std::string builtin = "__builtin_" + std::string(name.word);
  for (const std::string_view part : others) {
    for (const std::string_view line : base::split(part, '\n')) {
      if (place_in(line, name.word) != std::string_view::npos || place_in(line, builtin) != std::string_view::npos)
        return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> undefined_names(std::string_view log) {
  std::vector<std::string> names;
  for (const std::string_view line : base::split(log, '\n')) {
    for (const std::string_view words : {"undefined reference to ", "undefined symbol: ", "undefined hidden symbol: ",
                                         "Unresolved extern function ", "Unresolved extern variable "}) {
      const size_t at = line.find(words);
      if (at == std::string_view::npos) continue;
      std::string_view name = base::trim(line.substr(at + words.size()));
      if (!name.empty() && (name.front() == '`' || name.front() == '\'')) name.remove_prefix(1);
      name = name.substr(0, std::min({name.find('\''), name.find(';'), name.find(", version ")}));
      std::string written = as_written(std::string(name));
      if (!written.empty() && std::find(names.begin(), names.end(), written) == names.end())
        names.push_back(std::move(written));
    }
  }
  return names;
}

std::optional<Error> undefined_in_users(const std::string& label, std::string_view source, std::string_view log,
                                        std::string said, const std::vector<std::string_view>& others) {
  const std::optional<UsersText> users = UsersText::in(source);
  if (!users) return std::nullopt;
  std::vector<std::string_view> around{users->before(), users->behind()};
  around.insert(around.end(), others.begin(), others.end());
  const std::string code = base::without_comments(users->text());
  const std::vector<SourceLine>& lines = users->lines();
  // Without a place where no line has it.
  const auto place_of = [&](std::string_view word) {
    SourceLocation where;
    for (auto line = lines.rbegin(); line != lines.rend() && !word.empty(); ++line) {
      const std::string_view text = line->text;
      const auto begin = static_cast<size_t>(text.data() - users->text().data());
      const size_t at = place_in(std::string_view(code).substr(begin, text.size()), word);
      if (at == std::string_view::npos) continue;
      where.file = line->file;
      where.line = line->number;
      where.column = 1 + static_cast<uint32_t>(base::count_code_points(text.substr(0, at)));
      where.length = static_cast<uint32_t>(base::count_code_points(word));
      where.line_text = text;
      break;
    }
    return where;
  };
  std::vector<std::string> own;
  SourceLocation where;
  for (std::string& name : undefined_names(log)) {
    const Sought what = sought(name);
    if (what.qualified.starts_with("codetta::")) continue;
    SourceLocation place = place_of(what.word);
    if (place.line == 0 && (what.word.empty() || is_others(what, around))) continue;
    if (own.empty()) where = std::move(place);
    own.push_back(std::move(name));
  }
  if (own.empty()) return std::nullopt;
  auto error = diag::error(diag::Code::user_source,
                           fmt::format("the source of '{}' uses what is not defined: {}", label, own.front()));
  diag::cut_line(where);
  if (where.line != 0) error.at(where, "declared, and defined nowhere");
  error.reason(std::move(said));
  for (size_t i = 1; i < own.size(); ++i) error.note("nor is " + own[i]);
  return error.help(where.line != 0 ? "define it in the source of the kernel"
                                    : "nothing in the source names it: define it there, or do without what the "
                                      "compiler calls it for, since kernels are linked with nothing that has it");
}

}  // namespace codetta::toolchain
