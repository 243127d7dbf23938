// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "toolchain/cache.hpp"

namespace codetta::toolchain {

CacheKey::CacheKey(EntryKind kind, std::string_view what) : kind_(kind) { add("codetta", what); }

CacheKey CacheKey::of_text(EntryKind kind, std::string text) {
  CacheKey key(kind);
  key.text_ = std::move(text);
  return key;
}

CacheKey& CacheKey::add(std::string_view name, std::string_view value) {
  // Both lengths stand before the texts, so that no two lists of fields give one text.
  text_ += fmt::format("{} {} ", name.size(), value.size());
  text_ += name;
  text_ += ' ';
  text_ += value;
  text_ += '\n';
  return *this;
}

std::string CacheKey::digest_hex() const { return digest_hex_of(kind_, text_); }

std::string digest_hex_of(EntryKind kind, std::string_view key_text) {
  return base::Hasher().add(static_cast<uint32_t>(kind)).add(key_text).digest().hex();
}

}  // namespace codetta::toolchain
