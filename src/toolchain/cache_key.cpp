// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "toolchain/cache.hpp"

namespace codetta::toolchain {

CacheKey::CacheKey(EntryKind kind, std::string_view what) : kind_(kind) { add("codetta", what); }

CacheKey& CacheKey::add(std::string_view name, std::string_view value) {
  // Both lengths stand before the texts, so that no two lists of fields give one text.
  text_ += fmt::format("{} {} ", name.size(), value.size());
  text_ += name;
  text_ += ' ';
  text_ += value;
  text_ += '\n';
  return *this;
}

std::string CacheKey::digest_hex() const {
  return base::Hasher().add(static_cast<uint32_t>(kind_)).add(text_).digest().hex();
}

}  // namespace codetta::toolchain
