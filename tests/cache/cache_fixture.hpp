// SPDX-License-Identifier: Apache-2.0
// A cache in a fresh folder, and entries whose content follows from their number.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/files.hpp"
#include "toolchain/cache.hpp"

namespace codetta::toolchain {

inline CacheKey key_of(int number, EntryKind kind = EntryKind::Binary) {
  return CacheKey(kind, "test").add("number", std::to_string(number));
}
inline CacheEntry entry_of(int number, size_t bytes = 300) {
  CacheEntry entry;
  entry.metadata = "entry " + std::to_string(number);
  for (size_t i = 0; i < bytes; ++i)
    entry.payload += static_cast<char>((static_cast<size_t>(number) * 31 + i * 7) % 251);
  return entry;
}
inline bool same(const CacheEntry& a, const CacheEntry& b) {
  return a.metadata == b.metadata && a.payload == b.payload;
}

class CacheTest : public testing::Test {
 protected:
  CacheTest() : folder_(std::move(*base::TemporaryDirectory::make(testing::TempDir()))) {}

  [[nodiscard]] std::string directory() const { return folder_.path() + "/cache"; }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  [[nodiscard]] std::shared_ptr<Cache> open(int64_t capacity = int64_t{1} << 30, bool read_only = false,
                                            const base::SystemCalls* calls = nullptr) const {
    CacheOptions options;
    options.directory = directory();
    options.read_only = read_only;
    options.capacity_bytes = capacity;
    options.calls = calls;
    return Cache::open(options);
  }
  // Files below the cache's folder whose names begin like this, at any depth.
  [[nodiscard]] size_t count_files(const std::string& prefix) const {
    size_t count = 0;
    const auto folders = base::list_directory(directory());
    if (!folders) return 0;
    for (const auto& sub : *folders) {
      if (sub.kind != base::EntryKind::Folder) {
        count += sub.name.starts_with(prefix) ? 1 : 0;
        continue;
      }
      const auto files = base::list_directory(directory() + "/" + sub.name);
      for (const auto& file : *files) {
        count += file.name.starts_with(prefix) ? 1 : 0;
      }
    }
    return count;
  }

 private:
  base::TemporaryDirectory folder_;
};

}  // namespace codetta::toolchain
