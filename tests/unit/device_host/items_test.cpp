// SPDX-License-Identifier: Apache-2.0
// Strides of leading dims seen as one (device/host/items.h), against each item's indices.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "device/host/items.h"

namespace codetta::items {
namespace {

TEST(Items, EachItemLiesWhereItsIndicesSay) {
  std::mt19937 random(3);
  const auto pick = [&](uint32_t below) { return static_cast<int64_t>(random() % below); };
  size_t one = 0, two = 0, more = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    const auto dims = static_cast<size_t>(pick(5));
    std::vector<int64_t> sizes(dims), strides(dims);
    int64_t items = 1, inside = 1;
    for (size_t d = dims; d-- > 0;) {
      sizes[d] = 1 + pick(4);
      // Often behind the dims inside of it, sometimes the same again, backwards or anywhere.
      const int64_t form = pick(6);
      strides[d] = form < 3 ? inside * 8 : form == 3 ? 0 : form == 4 ? -inside * 8 : 8 * (1 + pick(40));
      items *= sizes[d];
      inside *= sizes[d];
    }
    Items found;
    const bool fits = find(sizes.data(), strides.data(), static_cast<int>(dims), found);
    const auto place_by_indices = [&](int64_t item) {
      int64_t at = 0;
      for (size_t d = dims; d-- > 0; item /= sizes[d]) at += item % sizes[d] * strides[d];
      return at;
    };
    // Whether some number of items can stand for those of one stride.
    bool possible = false;
    for (int64_t inner = 1; inner <= items && !possible; ++inner) {
      const int64_t stride = inner > 1 ? place_by_indices(1) : 0, outer = inner < items ? place_by_indices(inner) : 0;
      bool all = items % inner == 0;
      for (int64_t i = 0; i < items && all; ++i) all = place_by_indices(i) == i % inner * stride + i / inner * outer;
      possible = all;
    }
    ASSERT_EQ(fits, possible);
    if (!fits) {
      ++more;
      continue;
    }
    ASSERT_EQ(found.inner == 0, found.skip == 0);
    (found.inner == 0 ? one : two) += 1;
    for (int64_t i = 0; i < items; ++i) ASSERT_EQ(place(i, found.stride, found.skip, found.inner), place_by_indices(i));
  }
  EXPECT_GT(one, 1000U);
  EXPECT_GT(two, 1000U);
  EXPECT_GT(more, 1000U);
}

TEST(Items, FactorsAgreeOnOneNumber) {
  long long inner = 0;
  EXPECT_TRUE(agree(inner, {4, 0, 0}));
  EXPECT_EQ(inner, 0);
  EXPECT_TRUE(agree(inner, {4, 7, 3}));
  EXPECT_EQ(inner, 3);
  EXPECT_TRUE(agree(inner, {9, 0, 0}));
  EXPECT_TRUE(agree(inner, {9, -4, 3}));
  EXPECT_FALSE(agree(inner, {9, -4, 6}));
  EXPECT_EQ(inner, 3);
}

}  // namespace
}  // namespace codetta::items
