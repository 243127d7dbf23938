// SPDX-License-Identifier: Apache-2.0
// A Metal text in one piece. Only the shared headers ask which compiler they meet, in forms that are known here, so the
// preprocessor's directives stay; what is replaced is each first inclusion of an embedded file.
#include <set>
#include <string>

#include "device/embedded.hpp"
#include "emit/metal.hpp"

namespace codetta::emit {
namespace {

void append_included(std::string_view text, std::set<std::string>& seen, std::string& out) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = text.find('\n', at);
    const std::string_view line = text.substr(at, end == std::string_view::npos ? text.size() - at : end - at);
    at = end == std::string_view::npos ? text.size() : end + 1;
    constexpr std::string_view include = "#include \"device/", once = "#pragma once";
    if (line == once) continue;
    if (line.starts_with(include) && line.ends_with("\"")) {
      const std::string path(line.substr(include.size(), line.size() - include.size() - 1));
      const device::EmbeddedFile* file = device::find_file(path);
      // Of another machine: kept, and never reached.
      if (file == nullptr || path.starts_with("cuda/") || path.starts_with("hip/") || path == "gpu/library_f32.h") {
        (out += line) += '\n';
        continue;
      }
      if (!seen.insert(path).second) continue;
      out += "// ---- device/" + path + "\n";
      append_included(file->text, seen, out);
      continue;
    }
    (out += line) += '\n';
  }
}

}  // namespace

std::string whole_metal_text(std::string_view text) {
  std::string out;
  std::set<std::string> seen;
  append_included(text, seen, out);
  return out;
}

}  // namespace codetta::emit
