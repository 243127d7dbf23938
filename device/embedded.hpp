// SPDX-License-Identifier: Apache-2.0
// Device sources carried inside the library: emitted text includes or copies them, cache keys hold their digests.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace codetta::device {

struct EmbeddedFile {
  std::string_view path;        // virtual, relative to device/: "cpu/math.h"
  std::string_view text;        // the whole file
  std::string_view digest_hex;  // first 128 bits of its SHA-256, 32 lower-case digits
};

// All embedded files, in the order of device/CMakeLists.txt. The texts live as long as the library is loaded.
std::span<const EmbeddedFile> files();

// The file of exactly this virtual path, or nullptr.
inline const EmbeddedFile* find_file(std::string_view path) {
  for (const EmbeddedFile& file : files()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace codetta::device
