// SPDX-License-Identifier: Apache-2.0
// Structural hashes of what a graph is made of, and the open-addressing table that interning uses. Hashes never order
// output.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace codetta::ir {

// splitmix64's finalizer over the running hash (Steele, Lea, Flood, OOPSLA 2014).
constexpr uint64_t mix(uint64_t hash, uint64_t value) {
  uint64_t z = (hash ^ value) + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
uint64_t hash_of(std::string_view text);
uint64_t hash_of(const Dim& dim);
uint64_t hash_of(const TensorType& type);
uint64_t hash_of(const Attr& attr);

// Indices into a store that the caller keeps, found by hash.
class HashIndex {
 public:
  // The index for which `equal` holds, or `fresh` after noting it.
  template <class Equal>
  uint32_t find_or_insert(uint64_t hash, uint32_t fresh, Equal&& equal) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
      Slot& slot = slots_[at];
      if (slot.index == empty) {
        slot = {hash, fresh};
        ++count_;
        return fresh;
      }
      if (slot.hash == hash && equal(slot.index)) return slot.index;
    }
  }

 private:
  static constexpr uint32_t empty = UINT32_MAX;
  struct Slot {
    uint64_t hash = 0;
    uint32_t index = empty;
  };
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    const size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.index == empty) continue;
      size_t at = slot.hash & mask;
      while (slots_[at].index != empty) at = (at + 1) & mask;
      slots_[at] = slot;
    }
  }
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace codetta::ir
