// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace codetta::test {

// Any text picks a slice of a campaign (FNV-1a).
inline uint64_t slice_of(const char* text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (; *text != '\0'; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001B3u;
  return hash % 1000000;
}

}  // namespace codetta::test
