// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a cache entry: refused, or exactly what encode_entry gives for what was read.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "toolchain/entry_format.hpp"

namespace {

// True when the views lie inside of the bytes, in order and without a gap.
bool is_inside(const codetta::toolchain::EntryView& entry, std::string_view bytes) {
  using codetta::toolchain::entry_checksum_bytes;
  using codetta::toolchain::entry_header_bytes;
  return entry.key.data() == bytes.data() + entry_header_bytes &&
         entry.metadata.data() == entry.key.data() + entry.key.size() &&
         entry.payload.data() == entry.metadata.data() + entry.metadata.size() &&
         entry.payload.data() + entry.payload.size() == bytes.data() + bytes.size() - entry_checksum_bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using codetta::toolchain::decode_entry;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto entry = decode_entry(bytes); entry && !is_inside(*entry, bytes)) std::abort();
  // The checksum hides what lies behind it from random bytes: the same with a right one.
  std::string repaired(bytes);
  if (codetta::toolchain::repair_checksum(repaired)) {
    if (const auto entry = decode_entry(repaired); entry && !is_inside(*entry, repaired)) std::abort();
  }
  return 0;
}
