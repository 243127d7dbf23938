// SPDX-License-Identifier: Apache-2.0
// What device/cuda/kernels/stage.h brings into shared memory: every element of every tile at its place, zeros beyond
// the operand, and no read outside of it, for any size, padding and alignment.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include "device/cuda/kernels/stage.h"

namespace codetta::gpu {
namespace {

struct Case {
  int rows, k, padding, offset;  // of the operand; elements behind each row of memory and before the first
};

template <class E, bool k_major, int extent, int tile_k, int threads, int alignment>
int wrong_elements(const Case& c, std::mt19937& random) {
  using S = Stage<E, k_major, extent, tile_k>;
  constexpr int size = sizeof(E);
  const int fast = k_major ? c.k : c.rows, slow = k_major ? c.rows : c.k;
  constexpr int unit = alignment < size ? 1 : alignment / size;
  const int64_t ld = (fast + unit - 1) / unit * unit + c.padding * unit;
  std::vector<char> memory(static_cast<size_t>((slow * ld + c.offset * unit) * size + 32));
  for (char& byte : memory) byte = static_cast<char>(random());
  const char* first = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) + c.offset * unit * size;
  host::lowest = first;
  host::highest = first + ((slow - 1) * ld + fast) * size;
  int wrong = 0;
  for (int row0 = 0; row0 < c.rows; row0 += extent) {
    std::vector<Loader<S, alignment, threads, 1>> loaders(threads);
    const char* const origin = first + (k_major ? row0 * ld : row0) * size;
    for (int t = 0; t < threads; ++t) {
      loaders[t].begin(origin, ld * size, c.rows - row0, t, nullptr);
      loaders[t].bounds(first, (c.rows - 1) * (k_major ? ld : 1) * size, (c.k - 1) * (k_major ? 1 : ld) * size);
    }
    for (int k = 0; k < c.k; k += tile_k) {
      const int limit = c.k - k < tile_k ? c.k - k : tile_k;
      std::memset(host::shared, 0x5a, S::bytes);
      for (auto& loader : loaders) loader.fetch(0, limit);
      for (auto& loader : loaders) loader.settle(0, limit);
      for (int m = 0; m < extent; ++m) {
        for (int q = 0; q < tile_k; ++q) {
          E expected{};
          if (row0 + m < c.rows && q < limit)
            std::memcpy(&expected, first + (k_major ? (row0 + m) * ld + k + q : (k + q) * ld + row0 + m) * size, size);
          const u32 at = k_major ? S::at(m, q * size) : S::at(q, m * size);
          wrong += std::memcmp(&expected, host::shared + at, size) != 0 ? 1 : 0;
        }
      }
    }
  }
  return wrong;
}

template <class E, int alignment>
void check(const char* what) {
  std::mt19937 random(20261121);
  constexpr int span = 64 / sizeof(E);
  host::misreads = 0;
  for (int i = 0; i < 24; ++i) {
    const auto below = [&](unsigned most) { return static_cast<int>(random() % most); };
    const Case c{1 + below(300), 1 + below(100), below(4), below(8)};
    SCOPED_TRACE(testing::Message() << what << ", alignment " << alignment << ": " << c.rows << " x " << c.k
                                    << ", padding " << c.padding << ", offset " << c.offset);
    EXPECT_EQ((wrong_elements<E, true, 128, span, 256, alignment>(c, random)), 0);
    EXPECT_EQ((wrong_elements<E, false, 128, span, 256, alignment>(c, random)), 0);
    EXPECT_EQ((wrong_elements<E, true, 64, span, 128, alignment>(c, random)), 0);
    EXPECT_EQ((wrong_elements<E, false, 64, span, 128, alignment>(c, random)), 0);
  }
  EXPECT_EQ(host::misreads, 0) << what << ", alignment " << alignment;
}

TEST(Stage, HoldsTheOperandAndZerosWhateverItsAlignment) {
  check<u8, 1>("bytes");
  check<u8, 4>("bytes");
  check<u8, 16>("bytes");
  check<u16, 2>("halves");
  check<u16, 4>("halves");
  check<u16, 8>("halves");
  check<u16, 16>("halves");
  check<u32, 4>("words");
  check<u32, 16>("words");
  check<u64, 8>("doubles");
  check<u64, 16>("doubles");
}

}  // namespace
}  // namespace codetta::gpu
#pragma GCC diagnostic pop
