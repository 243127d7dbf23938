// SPDX-License-Identifier: Apache-2.0
#include "driver/tuning_file.hpp"

#include <charconv>

#include <fmt/format.h>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::driver {
namespace {

constexpr std::string_view first_line = "codetta tuning 1";

// Lines and counted bytes from the front of a text.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text), rest_(text) {}
  bool line(std::string_view& into) {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return false;
    into = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool bytes(size_t count, std::string_view& into) {
    if (count >= rest_.size() || rest_[count] != '\n') return false;
    into = rest_.substr(0, count);
    rest_.remove_prefix(count + 1);
    return true;
  }
  [[nodiscard]] size_t position() const { return text_.size() - rest_.size(); }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  std::string_view text_, rest_;
};

// Decimal digits as std::to_string writes them.
std::optional<size_t> count_of(std::string_view text) {
  size_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size() || std::to_string(value) != text) return std::nullopt;
  return value;
}

Error damaged(std::string reason) {
  return diag::error(diag::Code::tuning_file, "the tuning file can not be used")
      .reason(std::move(reason))
      .help("export it again with `codetta tune --export FILE` on the machine that measured");
}

}  // namespace

std::string encode_tuning_file(const TuningFile& file) {
  std::string text = fmt::format("{}\nbuild {}\n", first_line, file.build);
  for (const TuningFile::Record& record : file.records) {
    text += fmt::format("record {} {}\n{}\n", record.key.size(), record.medians.size(), record.key);
    for (const auto& [kernel, microseconds] : record.medians)
      text += fmt::format("{}\t{}\n", kernel, base::format_double(microseconds));
  }
  return text + fmt::format("check {}\n", base::digest_of(text).hex());
}

Result<TuningFile> decode_tuning_file(std::string_view text) {
  TextReader in(text);
  TuningFile file;
  std::string_view line;
  if (!in.line(line) || line != first_line)
    return damaged(
        fmt::format("its first line is not \"{}\": it is no tuning file, or of another version", first_line));
  if (!in.line(line) || !line.starts_with("build ")) return damaged("its second line does not name a build");
  file.build = line.substr(6);
  for (;;) {
    const size_t at = in.position();
    if (!in.line(line)) return damaged("it ends before its check: a part of it is missing");
    if (line.starts_with("check ")) {
      if (!in.at_end()) return damaged("something stands behind its check");
      if (base::digest_of(text.substr(0, at)).hex() != line.substr(6))
        return damaged("its check does not fit: it has been changed");
      return file;
    }
    const auto words = base::split(line, ' ');
    const auto key_bytes = words.size() == 3 && words[0] == "record" ? count_of(words[1]) : std::nullopt;
    const auto kernels = key_bytes ? count_of(words[2]) : std::nullopt;
    if (!kernels) return damaged(fmt::format("at byte {} no record begins", at));
    TuningFile::Record record;
    std::string_view key;
    if (!in.bytes(*key_bytes, key)) return damaged(fmt::format("the key of the record at byte {} is cut off", at));
    record.key = key;
    for (size_t i = 0; i < *kernels; ++i) {
      if (!in.line(line)) return damaged(fmt::format("the record at byte {} has fewer kernels than {}", at, *kernels));
      const size_t tab = line.find('\t');
      const auto time = tab == std::string_view::npos ? std::nullopt : base::parse_double(line.substr(tab + 1));
      if (!time || !(*time > 0) || tab == 0 || base::format_double(*time) != line.substr(tab + 1))
        return damaged(fmt::format("kernel {} of the record at byte {} has no name or no time", i, at));
      record.medians.emplace_back(line.substr(0, tab), *time);
    }
    file.records.push_back(std::move(record));
  }
}

std::optional<std::string> field_of(std::string_view key, std::string_view name) {
  while (!key.empty()) {
    // "<bytes of the name> <bytes of the value> <name> <value>\n"
    const size_t first = key.find(' '), second = first == std::string_view::npos ? first : key.find(' ', first + 1);
    if (second == std::string_view::npos) return std::nullopt;
    const auto name_bytes = count_of(key.substr(0, first));
    const auto value_bytes = count_of(key.substr(first + 1, second - first - 1));
    key.remove_prefix(second + 1);
    if (!name_bytes || !value_bytes || *name_bytes > key.size() || *value_bytes > key.size() ||
        *name_bytes + *value_bytes + 2 > key.size())
      return std::nullopt;
    const std::string_view found = key.substr(0, *name_bytes), value = key.substr(*name_bytes + 1, *value_bytes);
    if (found == name) return std::string(value);
    key.remove_prefix(*name_bytes + *value_bytes + 2);
  }
  return std::nullopt;
}

}  // namespace codetta::driver
