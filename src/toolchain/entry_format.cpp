// SPDX-License-Identifier: Apache-2.0
#include "toolchain/entry_format.hpp"

#include <array>

#include "base/digest.hpp"

namespace codetta::toolchain {

namespace {

constexpr std::string_view magic = "CODETTA\n";

template <class T>
void put(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
}

template <class T>
T take(std::string_view& bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | T{static_cast<unsigned char>(bytes[i])} << (8 * i));
  bytes.remove_prefix(sizeof(T));
  return value;
}

// False when fewer than `size` bytes are left.
bool take_text(std::string_view& bytes, uint64_t size, std::string_view& text) {
  if (size > bytes.size()) return false;
  text = bytes.substr(0, static_cast<size_t>(size));
  bytes.remove_prefix(text.size());
  return true;
}

}  // namespace

std::string encode_entry(const CacheKey& key, const CacheEntry& entry) {
  std::string bytes;
  bytes.reserve(entry_header_bytes + key.text().size() + entry.metadata.size() + entry.payload.size() +
                entry_checksum_bytes);
  bytes += magic;
  put(bytes, entry_format_version);
  put(bytes, static_cast<uint32_t>(key.kind()));
  put(bytes, uint64_t{key.text().size()});
  put(bytes, uint64_t{entry.metadata.size()});
  put(bytes, uint64_t{entry.payload.size()});
  bytes += key.text();
  bytes += entry.metadata;
  bytes += entry.payload;
  bytes.append(entry_checksum_bytes, '\0');
  (void)repair_checksum(bytes);
  return bytes;
}

std::optional<EntryView> decode_entry(std::string_view bytes) {
  if (bytes.size() < entry_header_bytes + entry_checksum_bytes || !bytes.starts_with(magic)) return std::nullopt;
  const std::string_view checked = bytes.substr(0, bytes.size() - entry_checksum_bytes);
  std::string_view tail = bytes.substr(checked.size());
  std::string_view rest = checked.substr(magic.size());
  if (take<uint32_t>(rest) != entry_format_version) return std::nullopt;
  const auto kind = take<uint32_t>(rest);
  if (kind < static_cast<uint32_t>(EntryKind::Binary) || kind > static_cast<uint32_t>(EntryKind::Memo)) {
    return std::nullopt;
  }
  EntryView entry;
  entry.kind = static_cast<EntryKind>(kind);
  const auto key_size = take<uint64_t>(rest);
  const auto metadata_size = take<uint64_t>(rest);
  const auto payload_size = take<uint64_t>(rest);
  if (!take_text(rest, key_size, entry.key) || !take_text(rest, metadata_size, entry.metadata) ||
      !take_text(rest, payload_size, entry.payload) || !rest.empty()) {
    return std::nullopt;
  }
  base::Digest128 stored;
  stored.high = take<uint64_t>(tail);
  stored.low = take<uint64_t>(tail);
  if (stored != base::digest_of(checked)) return std::nullopt;
  return entry;
}

bool repair_checksum(std::string& bytes) {
  if (bytes.size() < entry_checksum_bytes) return false;
  bytes.resize(bytes.size() - entry_checksum_bytes);
  const base::Digest128 checksum = base::digest_of(bytes);
  put(bytes, checksum.high);
  put(bytes, checksum.low);
  return true;
}

}  // namespace codetta::toolchain
