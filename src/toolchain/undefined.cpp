// SPDX-License-Identifier: Apache-2.0
#include "toolchain/undefined.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/text.hpp"
#include "diag/cut_line.hpp"
#include "toolchain/failure.hpp"

namespace codetta::toolchain {
namespace {

bool in_word(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string as_written(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

// "absent" of "ns::absent<int>(int)".
std::string_view word_of(std::string_view name) {
  name = name.substr(0, name.find_first_of("(<"));
  size_t begin = name.size();
  while (begin > 0 && in_word(name[begin - 1])) --begin;
  return name.substr(begin);
}

// Where a line has the word, as a whole; npos where it does not.
size_t place_in(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !in_word(line[at - 1])) && (end == line.size() || !in_word(line[end]))) return at;
  }
  return std::string_view::npos;
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

Error undefined_in_users(const std::string& label, std::string_view source, const std::vector<std::string>& names,
                         std::string said) {
  auto error = diag::error(diag::Code::user_source,
                           fmt::format("the source of '{}' uses what is not defined: {}", label, names.front()));
  const std::string_view word = word_of(names.front());
  SourceLocation where;
  for (const SourceLine& line : lines_of(source, "<stdin>")) {
    const size_t at = is_ours(line.file) ? std::string_view::npos : place_in(line.text, word);
    if (at == std::string_view::npos || word.empty()) continue;
    where = {};
    where.file = line.file;
    where.line = line.number;
    where.column = 1 + static_cast<uint32_t>(std::count_if(line.text.begin(), line.text.begin() + at, [](char c) {
                     return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // code points
                   }));
    where.length = static_cast<uint32_t>(word.size());
    where.line_text = line.text;
  }
  diag::cut_line(where);
  if (where.line != 0) error.at(where, "declared, and defined nowhere");
  error.reason(std::move(said));
  for (size_t i = 1; i < names.size(); ++i) error.note("nor is " + names[i]);
  return error.help(where.line != 0 ? "define it in the source of the kernel"
                                    : "nothing in the source names it: define it there, or do without what the "
                                      "compiler calls it for, since kernels are linked with nothing that has it");
}

}  // namespace codetta::toolchain
