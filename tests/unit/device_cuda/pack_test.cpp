// SPDX-License-Identifier: Apache-2.0
// What device/cuda/pack.h copies of factors whose rows begin anywhere: every element at its place, no read outside of
// the tensor, nothing written beside the copy.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include "device/cuda/pack.h"

namespace codetta::gpu {
namespace {

struct Factor {
  i64 batches, slow, fast, batch_stride, slow_stride;
  int begin;  // bytes behind a multiple of 16
  i64 inner = 0, skip = 0;
  [[nodiscard]] i64 item(i64 b) const { return b * batch_stride + (inner == 0 ? 0 : b / inner * skip); }
};

template <class E>
void expect_packed(const Factor& c, unsigned blocks, std::mt19937& random) {
  constexpr i64 size = sizeof(E), unit = 16 / size;
  if (c.begin % size != 0) return;
  const bool empty = c.batches == 0 || c.slow == 0 || c.fast == 0;
  const i64 extent = empty ? 0 : c.item(c.batches - 1) + (c.slow - 1) * c.slow_stride + c.fast;
  const i64 stride = (c.fast + unit - 1) / unit * unit, packed = c.batches * c.slow * stride * size;
  std::vector<char> memory(static_cast<size_t>(extent * size + 48)), copy(static_cast<size_t>(packed + 32), 'x');
  for (char& byte : memory) byte = static_cast<char>(random());
  const auto aligned = [](char* p) { return p + (16 - reinterpret_cast<uintptr_t>(p) % 16) % 16; };
  char* const from = aligned(memory.data()) + c.begin;
  char* const to = aligned(copy.data());
  host::lowest = from;
  host::highest = from + extent * size;
  host::misreads = 0;
  PackParams params{};
  params.factor[0] = {from, to, c.batches, c.slow, c.fast, c.batch_stride, c.slow_stride, 1, stride, c.inner, c.skip};
  gridDim = {blocks, 1, 1};
  for (unsigned block = 0; block < blocks; ++block) {
    for (unsigned thread = 0; thread < pack_threads; ++thread) {
      blockIdx = {block, 0, 0};
      threadIdx = {thread, 0, 0};
      pack_factor<E>(params);
    }
  }
  const std::string what = "rows of " + std::to_string(c.fast) + " elements of " + std::to_string(size) + " bytes, " +
                           std::to_string(c.slow_stride) + " apart, from byte " + std::to_string(c.begin) + " on, " +
                           std::to_string(c.batches) + " x " + std::to_string(c.slow);
  EXPECT_EQ(host::misreads, 0) << what;
  i64 wrong = 0;
  for (i64 b = 0; b < c.batches; ++b) {
    for (i64 s = 0; s < c.slow; ++s) {
      if (c.fast > 0)
        wrong += std::memcmp(to + (b * c.slow + s) * stride * size, from + (c.item(b) + s * c.slow_stride) * size,
                             c.fast * size) != 0;
    }
  }
  EXPECT_EQ(wrong, 0) << what;
  for (const char* p = copy.data(); p < copy.data() + copy.size(); ++p) {
    if (p < to || p >= to + packed) {
      EXPECT_EQ(*p, 'x') << what;
    }
  }
}

template <class E>
void expect_all(std::mt19937& random) {
  for (int begin = 0; begin < 16; ++begin) {
    for (const i64 fast : {1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33, 63, 64, 65, 257, 479, 2049}) {
      const i64 rows = 1 + static_cast<i64>(random() % 9), items = 1 + static_cast<i64>(random() % 3);
      const unsigned blocks = 1 + random() % 3;
      expect_packed<E>({1, rows, fast, 0, fast, begin}, blocks, random);                              // dense
      expect_packed<E>({items, rows, fast, rows * (fast + 3) + 1, fast + 3, begin}, blocks, random);  // gaps
      expect_packed<E>({items, rows, fast, 0, fast, begin}, blocks, random);                          // one item
      expect_packed<E>({items, rows, fast, fast, fast / 2, begin}, blocks, random);                   // overlapping
      // Heads of rows; heads that share one; a batch that does.
      const i64 row = 3 * fast, whole = rows * row;
      expect_packed<E>({3 * items, rows, fast, fast, row, begin, 3, whole - row}, blocks, random);
      expect_packed<E>({3 * items, rows, fast, 0, fast, begin, 3, rows * fast}, blocks, random);
      expect_packed<E>({3 * items, rows, fast, fast, row, begin, 3, -row}, blocks, random);
    }
    for (const Factor& none : {Factor{0, 3, 5, 15, 5, begin}, {2, 0, 5, 15, 5, begin}, {2, 3, 0, 15, 5, begin}})
      expect_packed<E>(none, 1, random);
  }
}

TEST(Packing, RowsThatBeginAnywhere) {
  std::mt19937 random(7);
  expect_all<u8>(random);
  expect_all<u16>(random);
  expect_all<u32>(random);
}

}  // namespace
}  // namespace codetta::gpu
#pragma GCC diagnostic pop
