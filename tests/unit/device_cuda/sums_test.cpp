// SPDX-License-Identifier: Apache-2.0
// What device/cuda/kernels/stream_sums.h leaves in shared memory: the sum of every row and column at its place, and no
// bank met twice by threads that store together.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include "device/cuda/kernels/stream_sums.h"

namespace codetta::gpu {
namespace {

// An accumulator that tells where it is stored, in the order of its thread's stores.
struct Sum {
  int value = -1;
  static inline std::vector<const Sum*>* stores = nullptr;
  Sum() = default;
  Sum(const Sum&) = default;
  Sum& operator=(const Sum& from) {
    value = from.value;
    if (stores != nullptr) stores->push_back(this);
    return *this;
  }
};
static_assert(sizeof(Sum) == 4);

// As stream::Shape has it for elements of `bytes` bytes.
template <bool k_adjacent, int bytes, int columns, int rows>
struct Shape {
  static constexpr bool along_k = k_adjacent;
  static constexpr int block = along_k ? 8 : 128 / bytes, blocks = columns / 16, tokens = rows / 8;
  static constexpr int sum_ld = columns + 4;
  // Which column a thread's loads have for row g (+ 8: `half`) of block b of the matrix instructions.
  static int column(int b, int half, int g) {
    if (along_k) return (2 * b + half) * 8 + g;
    const int pairs = block / 16;  // of neighbouring columns that a load of 16 bytes has
    return b / pairs * block + g * (16 / bytes) + b % pairs * 2 + half;
  }
};

template <class S>
void check() {
  const int columns = S::blocks * 16;
  for (int q = 0; q < S::tokens; ++q) {
    std::vector<Sum> memory(8 * S::sum_ld + 4);
    Sum* const to = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16 / sizeof(Sum);
    std::vector<std::vector<size_t>> places(32);  // of each thread's stores, in words
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      Sum acc[S::blocks * S::tokens * 4];
      for (int b = 0; b < S::blocks; ++b) {
        for (int e = 0; e < 4; ++e)
          acc[(b * S::tokens + q) * 4 + e].value = (2 * t + e % 2) * columns + S::column(b, e / 2, g);
      }
      std::vector<const Sum*> stores;
      Sum::stores = &stores;
      stream::leave_sums<S>(to, acc, q, lane);
      Sum::stores = nullptr;
      for (const Sum* store : stores) {
        if (store >= to && store < to + 8 * S::sum_ld) places[lane].push_back(static_cast<size_t>(store - to));
      }
      ASSERT_EQ(places[lane].size(), S::blocks * 4U);
    }
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < columns; ++column)
        ASSERT_EQ(to[row * S::sum_ld + column].value, row * columns + column) << "row " << row << ", column " << column;
    }
    // A store of 16 bytes goes by eight threads at a time, one of a word by all of a warp.
    const size_t words = S::along_k ? 1 : 4;
    const int together = 32 / static_cast<int>(words);
    for (size_t i = 0; i < places[0].size(); i += words) {
      for (int first = 0; first < 32; first += together) {
        std::set<size_t> banks;
        for (int lane = first; lane < first + together; ++lane) {
          EXPECT_EQ(places[lane][i] % words, 0U);
          for (size_t w = 0; w < words; ++w) banks.insert(places[lane][i + w] % 32);
        }
        EXPECT_EQ(banks.size(), 32U) << "store " << i / words << " of threads from " << first << " on";
      }
    }
  }
}

TEST(StreamSums, LieAtTheirPlacesAndMeetNoBankTwice) {
  check<Shape<false, 2, 64, 8>>();
  check<Shape<false, 2, 192, 8>>();
  check<Shape<false, 2, 128, 16>>();
  check<Shape<false, 4, 32, 8>>();
  check<Shape<false, 4, 64, 16>>();
  check<Shape<true, 2, 32, 8>>();
  check<Shape<true, 1, 64, 32>>();
}

}  // namespace
}  // namespace codetta::gpu
#pragma GCC diagnostic pop
