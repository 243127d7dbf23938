// SPDX-License-Identifier: Apache-2.0
// The source of a kernel of the user's with the files that it includes: what is handed on, compiled on another machine,
// or found in a cache, then needs no folder.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/cpp_text.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "codetta/io.hpp"
#include "codetta/program.hpp"
#include "diag/diagnostic.hpp"
#include "package/user_source.hpp"

namespace codetta {
namespace {

namespace fs = std::filesystem;

constexpr size_t most = size_t{16} << 20;  // bytes of a source, as of other texts

// What is behind `#word`, where the line is such a directive.
std::optional<std::string_view> directive(std::string_view line, std::string_view word) {
  line = base::trim(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = base::trim(line.substr(1));
  if (!line.starts_with(word) || (line.size() > word.size() && base::in_word(line[word.size()]))) return std::nullopt;
  return base::trim(line.substr(word.size()));
}
// The name between quotes; those between < and > are the compiler's.
std::optional<std::string_view> included_name(std::string_view line) {
  const auto rest = directive(line, "include");
  if (!rest || !rest->starts_with('"')) return std::nullopt;
  const size_t close = rest->find('"', 1);
  return close == std::string_view::npos ? std::nullopt : std::optional(rest->substr(1, close - 1));
}

class Includes {
 public:
  explicit Includes(const std::string& kernel) : kernel_(kernel) {}
  Result<void> append(std::string_view text, const fs::path& file);
  std::string text;
  std::vector<std::string> files;  // each once

 private:
  Result<void> append_file(const fs::path& file, const fs::path& same);
  void follow_condition(std::string_view line);
  [[nodiscard]] bool is_there(const fs::path& file) const;

  const std::string& kernel_;
  std::vector<fs::path> open_;              // those that the place lies in
  std::map<fs::path, std::string> guards_;  // by file: a macro that is defined once it was included
  // Files that are wanted once and have been included, where nothing is open and in each open condition.
  std::vector<std::set<fs::path>> there_{1};
};

void Includes::follow_condition(std::string_view line) {
  const auto is = [&](std::string_view word) { return directive(line, word).has_value(); };
  if (is("if") || is("ifdef") || is("ifndef")) {
    there_.emplace_back();
  } else if (there_.size() > 1 && is("endif")) {
    there_.pop_back();
  } else if (there_.size() > 1 && (is("else") || is("elif"))) {
    there_.back().clear();
  }
}

bool Includes::is_there(const fs::path& file) const {
  return std::any_of(there_.begin(), there_.end(), [&](const auto& some) { return some.contains(file); });
}

Result<void> Includes::append(std::string_view source, const fs::path& file) {
  const std::string code = base::without_comments(source);
  const size_t outside = there_.size();
  size_t number = 0;
  for (const std::string_view line : base::split(source, '\n')) {
    ++number;
    const auto begin = static_cast<size_t>(line.data() - source.data());
    const std::string_view says = std::string_view(code).substr(begin, line.size());
    follow_condition(says);
    const auto name = included_name(says);
    const fs::path path = name ? (file.parent_path() / *name).lexically_normal() : fs::path();
    std::error_code missing;
    if (name && fs::exists(path, missing)) {
      const fs::path same = fs::weakly_canonical(path, missing);
      // A file that includes itself does so behind a guard, which is defined by now.
      if (std::find(open_.begin(), open_.end(), same) == open_.end() && !is_there(same)) {
        CODETTA_CHECK_OK(append_file(path, same));
        text += fmt::format("#line {} \"{}\"\n", number + 1, package::line_name(file.string()));
        continue;
      }
    } else if (!open_.empty() && directive(says, "pragma") == "once") {
      // said by the guard
    } else {
      text += line;
    }
    if (begin + line.size() < source.size()) text += '\n';
  }
  there_.resize(std::min(there_.size(), outside));
  if (text.size() <= most) return {};
  return diag::error(diag::Code::text_too_large, "the source of " + kernel_ + " is too large with what it includes")
      .reason(fmt::format("it has more than {} bytes", most))
      .help("let files that are included several times begin with #pragma once, or include fewer");
}

Result<void> Includes::append_file(const fs::path& file, const fs::path& same) {
  CODETTA_TRY(std::string source, read_bytes(file.string(), most));
  if (std::find(files.begin(), files.end(), file.string()) == files.end()) files.push_back(file.string());
  if (!source.ends_with('\n')) source += '\n';
  const std::string code = base::without_comments(source);
  const auto lines = base::split(code, '\n');
  const bool once = std::any_of(lines.begin(), lines.end(),
                                [](std::string_view line) { return directive(line, "pragma") == "once"; });
  if (once) {
    const std::string& guard =
        guards_.try_emplace(same, fmt::format("codetta_included_{}", guards_.size())).first->second;
    text += fmt::format("#ifndef {0}\n#define {0}\n", guard);
  }
  text += fmt::format("#line 1 \"{}\"\n", package::line_name(file.string()));
  open_.push_back(same);
  CODETTA_CHECK_OK(append(source, file));
  open_.pop_back();
  if (once) {
    text += "#endif\n";
    there_.back().insert(same);
  }
  return {};
}

}  // namespace

Result<UserKernel> with_includes(UserKernel kernel) {
  if (kernel.file.empty()) return kernel;
  Includes includes(kernel.name);
  CODETTA_CHECK_OK(includes.append(kernel.source, kernel.file));
  if (includes.files.empty()) return kernel;
  kernel.source = std::move(includes.text);
  kernel.included = std::move(includes.files);
  return kernel;
}

}  // namespace codetta
