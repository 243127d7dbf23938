// SPDX-License-Identifier: Apache-2.0
// Cutting device headers into parts and following the names they mention.
#include "emit/parts.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "device/embedded.hpp"
#include "diag/diagnostic.hpp"

namespace codetta::emit {

namespace {

constexpr std::string_view marker = "//% ";

Error missing(std::string_view what, std::string_view name) {
  return diag::error(diag::Code::internal, std::string(what) + " '" + std::string(name) + "' is missing")
      .reason("the device sources carried by this library do not have it")
      .help("this is a bug in Codetta; please report it with the epilogue");
}

constexpr bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end != 0) out.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return out;
}

}  // namespace

Result<PartLibrary> PartLibrary::make(const std::vector<PartFile>& files) {
  PartLibrary library;
  for (const PartFile& file : files) {
    const device::EmbeddedFile* embedded = device::find_file(file.path);
    if (embedded == nullptr) return missing("the device file", file.path);
    library.cut(file, embedded->text);
  }
  return library;
}

void PartLibrary::cut(const PartFile& file, std::string_view text) {
  uint32_t line_number = 0;
  size_t at = 0;
  bool inside = false;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = text.substr(at, end - at);
    ++line_number;
    const std::string_view unindented = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (unindented.starts_with(marker)) {
      const std::string_view head = unindented.substr(marker.size(), unindented.size() - marker.size() - 1);
      inside = head != ".";
      if (inside) {
        Part part{file.path, text.substr(end, 0), line_number + 1, file.domain, {}};
        for (const std::string_view word : words(head)) {
          if (!word.starts_with('+')) {
            by_name_.emplace(word, static_cast<uint32_t>(parts_.size()));
          } else if (word.starts_with("+f64:")) {
            part.mentions.emplace_back(word.substr(5), Domain::F64);
          } else {
            part.mentions.emplace_back(word.substr(1), Domain::Common);
          }
        }
        parts_.push_back(std::move(part));
      }
    } else if (inside) {
      Part& part = parts_.back();
      part.text = std::string_view(part.text.data(), part.text.size() + line.size());
    }
    at = end;
  }
}

// Also every identifier outside of comments that names a part; its domain is that of whoever asks for this part. Done
// for parts that are needed only: to scan all costs milliseconds.
std::vector<PartLibrary::Request> PartLibrary::mentions(const Part& part) const {
  std::vector<Request> result = part.mentions;
  std::set<std::string_view> seen;
  const std::string_view text = part.text;
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (is_name_start(text[i])) {
      size_t end = i;
      while (end < text.size() && is_name_part(text[end])) ++end;
      const std::string_view name = text.substr(i, end - i);
      if (seen.insert(name).second && by_name_.contains(name)) result.emplace_back(name, Domain::Common);
      i = end;
    } else if (is_name_part(text[i])) {
      while (i < text.size() && (is_name_part(text[i]) || text[i] == '.')) ++i;
    } else {
      ++i;
    }
  }
  return result;
}

std::vector<uint32_t> PartLibrary::find(std::string_view name, Domain domain) const {
  std::vector<uint32_t> own, common;
  const auto [first, last] = by_name_.equal_range(name);
  for (auto it = first; it != last; ++it) {
    const Domain of_part = parts_[it->second].domain;
    if (of_part == domain && domain != Domain::Common) own.push_back(it->second);
    if (of_part == Domain::Common) common.push_back(it->second);
  }
  return own.empty() ? common : own;
}

Result<std::string> PartLibrary::text_for(const std::set<Request>& requests) const {
  std::map<uint32_t, std::vector<Request>> chosen;  // with what they mention
  std::set<std::pair<uint32_t, Domain>> visited;
  std::vector<Request> open(requests.begin(), requests.end());
  for (const Request& request : open) {
    if (!has(request.first, request.second)) return missing("the device function", request.first);
  }
  while (!open.empty()) {
    const auto [name, domain] = open.back();
    open.pop_back();
    for (const uint32_t index : find(name, domain)) {
      if (!visited.insert({index, domain}).second) continue;
      const auto [part, fresh] = chosen.try_emplace(index);
      if (fresh) part->second = mentions(parts_[index]);
      for (const auto& [mentioned, own_domain] : part->second) {
        open.emplace_back(mentioned, own_domain == Domain::Common ? domain : own_domain);
      }
    }
  }
  std::string out;
  std::string_view path;
  uint32_t next_line = 0;
  for (const auto& [index, mentioned] : chosen) {
    const Part& part = parts_[index];
    if (part.path != path || part.line != next_line) {
      out += "#line " + std::to_string(part.line) + " \"codetta/device/" + std::string(part.path) + "\"\n";
    }
    out += part.text;
    path = part.path;
    next_line = part.line + static_cast<uint32_t>(std::count(part.text.begin(), part.text.end(), '\n'));
  }
  return out;
}

}  // namespace codetta::emit
