// SPDX-License-Identifier: Apache-2.0
// The bytes of a cache entry. All numbers are little endian:
//   8 magic "CODETTA\n"   u32 format version   u32 kind   u64 key size   u64 metadata size   u64 payload size
//   key text   metadata   payload   16 XXH3-128 of all bytes before it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "toolchain/cache.hpp"

namespace codetta::toolchain {

inline constexpr uint32_t entry_format_version = 1;
inline constexpr size_t entry_header_bytes = 40;
inline constexpr size_t entry_checksum_bytes = 16;
inline constexpr size_t max_entry_bytes = size_t{1} << 30;

std::string encode_entry(const CacheKey& key, const CacheEntry& entry);

// Views into the bytes that were decoded.
struct EntryView {
  EntryKind kind = EntryKind::Binary;
  std::string_view key;
  std::string_view metadata;
  std::string_view payload;
};
// nullopt for anything but what encode_entry gives. Takes arbitrary bytes; allocates nothing.
std::optional<EntryView> decode_entry(std::string_view bytes);

// Writes the checksum that the other bytes have into the last 16; false when there are fewer. For tests and fuzzing.
bool repair_checksum(std::string& bytes);

}  // namespace codetta::toolchain
