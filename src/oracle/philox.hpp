// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <cstdint>

namespace codetta::oracle {

// Output word index % 4 for the counter (low, high, 0, 0) of index / 4 and the key (low, high) of `seed`.
constexpr uint32_t philox_word(uint64_t seed, uint64_t index) {
  uint32_t counter[4] = {static_cast<uint32_t>(index >> 2), static_cast<uint32_t>(index >> 34), 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{0xD2511F53} * counter[0], q = uint64_t{0xCD9E8D57} * counter[2];
    const uint32_t next[4] = {static_cast<uint32_t>(q >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(q),
                              static_cast<uint32_t>(p >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p)};
    for (int i = 0; i < 4; ++i) counter[i] = next[i];
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter[index & 3];
}
constexpr double philox_uniform(uint64_t seed, uint64_t index) { return (philox_word(seed, index) >> 8) * 0x1p-24; }

}  // namespace codetta::oracle
