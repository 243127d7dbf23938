// SPDX-License-Identifier: Apache-2.0
// What the runners have in common: seeds of cases, lines that stay whole.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>

namespace codetta::test {

// The seed of one case.
inline uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0xD1342543DE82EF95u + index * 0x9E3779B97F4A7C15u + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

inline void put(const std::string& text) {  // in one piece, whoever else writes
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

}  // namespace codetta::test
