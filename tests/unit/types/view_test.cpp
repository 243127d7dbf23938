// SPDX-License-Identifier: Apache-2.0
// Overlap of strided views against brute force, and matrix layouts.
#include "types/view.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace codetta::types {
namespace {

alignas(64) std::byte arena[1 << 16];

TensorView view_at(int64_t byte, DType d, const Dims& shape, const Dims& strides) {
  auto v = TensorView::make(static_cast<void*>(arena + byte), d, shape, strides);
  EXPECT_TRUE(v.has_value());
  return *v;
}

TEST(Overlap, KnownCases) {
  const auto matrix = [](int64_t byte, int64_t rows, int64_t columns) {
    return view_at(byte, f32, {rows, columns}, {16, 1});
  };
  EXPECT_TRUE(overlaps(matrix(0, 4, 4), matrix(0, 4, 4)));
  EXPECT_FALSE(overlaps(matrix(0, 4, 4), matrix(16, 4, 4)));  // side by side
  EXPECT_TRUE(overlaps(matrix(0, 4, 5), matrix(16, 4, 4)));
  EXPECT_FALSE(overlaps(matrix(0, 4, 16), matrix(256, 4, 16)));  // one below the other
  EXPECT_TRUE(overlaps(matrix(0, 5, 16), matrix(256, 4, 16)));
  EXPECT_FALSE(overlaps(view_at(0, f32, {8}, {2}), view_at(4, f32, {8}, {2})));  // even and odd
  EXPECT_TRUE(overlaps(view_at(0, f32, {8}, {2}), view_at(4, f32, {8}, {3})));
  EXPECT_TRUE(overlaps(view_at(0, f32, {8}, {2}), view_at(28, f32, {8}, {-1})));
  EXPECT_FALSE(overlaps(view_at(0, f32, {0}, {1}), view_at(0, f32, {8}, {1})));
  EXPECT_TRUE(overlaps(view_at(0, f32, {1}, {1}), view_at(3, i8, {1}, {1})));
  EXPECT_FALSE(overlaps(view_at(0, f32, {1}, {1}), view_at(4, i8, {1}, {1})));
}

TEST(Overlap, LargeViewsAreDecidedAtOnce) {
  // Left and right halves of a 2^20 x 2^20 matrix; nothing is read, so the memory need not be there.
  auto* base = reinterpret_cast<std::byte*>(uintptr_t{1} << 45);
  const int64_t n = int64_t{1} << 20;
  const auto half = [&](int64_t column, int64_t columns) {
    return *TensorView::make(static_cast<void*>(base + column * 4), f32, {n, columns}, {n, 1});
  };
  EXPECT_FALSE(overlaps(half(0, n / 2), half(n / 2, n / 2)));
  EXPECT_TRUE(overlaps(half(0, n / 2 + 1), half(n / 2, n / 2)));
  EXPECT_FALSE(overlaps(half(0, n / 2).transposed(), half(n / 2, n / 2)));
}

std::set<int64_t> bytes_of(const TensorView& v, bool* repeated = nullptr) {
  std::set<int64_t> bytes;
  std::vector<int64_t> index(static_cast<size_t>(v.rank()), 0);
  if (v.empty()) return bytes;
  for (;;) {
    int64_t offset = static_cast<const std::byte*>(v.data()) - arena;
    for (int i = 0; i < v.rank(); ++i) offset += index[static_cast<size_t>(i)] * v.stride(i) * dtype_size(v.dtype());
    for (int64_t b = 0; b < dtype_size(v.dtype()); ++b) {
      if (!bytes.insert(offset + b).second && repeated != nullptr) *repeated = true;
    }
    int i = v.rank() - 1;
    for (; i >= 0 && ++index[static_cast<size_t>(i)] == v.size(i); --i) index[static_cast<size_t>(i)] = 0;
    if (i < 0) return bytes;
  }
}

TEST(Overlap, AgreesWithBruteForce) {
  std::mt19937 random(3);
  int together = 0, apart = 0;
  for (int round = 0; round < 20000; ++round) {
    TensorView v[2];
    for (TensorView& view : v) {
      const DType d = std::array{i8, bf16, f32}[random() % 3];
      Dims shape, strides;
      const int rank = static_cast<int>(random() % 4);
      for (int i = 0; i < rank; ++i) {
        shape.push_back(static_cast<int64_t>(random() % 6));
        strides.push_back(static_cast<int64_t>(random() % 41) - 16);
      }
      view = view_at(1024 + static_cast<int64_t>(random() % 64) * 4, d, shape, strides);
    }
    bool repeated = false;
    const auto a = bytes_of(v[0], &repeated), b = bytes_of(v[1]);
    bool common = false;
    for (const int64_t x : a) common = common || b.contains(x);
    ASSERT_EQ(overlaps(v[0], v[1]), common)
        << v[0].describe() << to_string(v[0].strides()) << " " << v[1].describe() << to_string(v[1].strides());
    ASSERT_EQ(overlaps(v[1], v[0]), common);
    ASSERT_EQ(overlaps_itself(v[0]), repeated) << v[0].describe() << to_string(v[0].strides());
    ++(common ? together : apart);
  }
  EXPECT_GT(together, 1000);
  EXPECT_GT(apart, 1000);
}

TEST(Overlap, Itself) {
  EXPECT_FALSE(overlaps_itself(view_at(0, f32, {4, 4}, {4, 1})));
  EXPECT_FALSE(overlaps_itself(view_at(0, f32, {4, 4}, {1, 4})));
  EXPECT_FALSE(overlaps_itself(view_at(64, f32, {4, 4}, {-4, 1})));
  EXPECT_TRUE(overlaps_itself(view_at(0, f32, {4, 4}, {3, 1})));
  EXPECT_TRUE(overlaps_itself(view_at(0, f32, {4, 4}, {0, 1})));
  EXPECT_FALSE(overlaps_itself(view_at(0, f32, {1, 4}, {0, 1})));
  EXPECT_FALSE(overlaps_itself(view_at(0, f32, {0, 4}, {0, 0})));
}

TEST(IdenticalView, IgnoresStridesThatAreNeverStepped) {
  EXPECT_TRUE(identical_view(view_at(0, f32, {1, 4}, {4, 1}), view_at(0, f32, {1, 4}, {9, 1})));
  EXPECT_FALSE(identical_view(view_at(0, f32, {2, 4}, {4, 1}), view_at(0, f32, {2, 4}, {8, 1})));
  EXPECT_FALSE(identical_view(view_at(0, f32, {4}, {1}), view_at(4, f32, {4}, {1})));
  EXPECT_FALSE(identical_view(view_at(0, f32, {4}, {1}), view_at(0, i32, {4}, {1})));
  EXPECT_FALSE(identical_view(view_at(0, f32, {4}, {1}), view_at(0, f32, {1, 4}, {4, 1})));
  EXPECT_TRUE(identical_view(view_at(0, f32, {0}, {1}), view_at(64, f32, {0}, {3})));
}

}  // namespace
}  // namespace codetta::types
