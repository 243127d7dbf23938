// SPDX-License-Identifier: Apache-2.0
// Of what several places of a made factor share, the first one loads it (device/gpu/make.h): for any distance of rows,
// not only those of the tiles that there are.
#include <gtest/gtest.h>

#include <utility>

#include "device/gpu/places.h"

namespace codetta::gpu {
namespace {

constexpr int lanes = 4;

struct Tally {
  int places = 0, shared = 0;
};

// The place that loads for this one has the same row and column of what changes every `rows` rows and `cols` columns,
// and loads it itself, wherever the first place is allowed to begin.
template <int row, int apart, int reach, int vector, int vectors, int rows, int cols>
void expect_right(Tally& tally) {
  using Place = PlaceAmong<row, apart, reach, vector, vectors, lanes>;
  constexpr int before = Place::template before<rows, cols>();
  constexpr int number = row * vectors + vector, loader = number - before;
  static_assert(before >= 0 && loader >= 0);
  constexpr int other_row = loader / vectors, other_vector = loader % vectors;
  static_assert(PlaceAmong<other_row, apart, reach, other_vector, vectors, lanes>::template before<rows, cols>() == 0);
  ++tally.places;
  tally.shared += before > 0 ? 1 : 0;
  constexpr int step = reach == 0 ? 1 : reach;
  for (int begin = 0; begin < 4 * rows; begin += step) {
    for (int behind = 0; behind < apart; ++behind) {
      const int first = begin + behind;
      EXPECT_EQ((first + row * apart) / rows, (first + other_row * apart) / rows)
          << "row " << row << ", " << apart << " apart, from " << first << " on, by " << rows;
    }
  }
  for (int first = 0; first < 4 * cols; first += vectors * lanes)
    EXPECT_EQ((first + vector * lanes) / cols, (first + other_vector * lanes) / cols)
        << "vector " << vector << " of " << vectors << ", from " << first << " on, by " << cols;
}

template <int apart, int reach, int vectors, int rows, int cols, int... place>
Tally expect_all(std::integer_sequence<int, place...> /*places*/) {
  Tally tally;
  (expect_right<place / vectors, apart, reach, place % vectors, vectors, rows, cols>(tally), ...);
  return tally;
}
// Of six rows.
template <int apart, int reach, int vectors, int rows, int cols>
Tally expect_all() {
  return expect_all<apart, reach, vectors, rows, cols>(std::make_integer_sequence<int, 6 * vectors>());
}

TEST(Places, LoadersHaveTheSame) {
  // As tiles have them: powers of two.
  EXPECT_EQ((expect_all<16, 128, 2, 32, 1>().shared), 6) << "every second row";
  EXPECT_EQ((expect_all<16, 32, 2, 128, 32>().shared), 9) << "no further than the rows are known to begin";
  EXPECT_EQ((expect_all<1, 4, 4, 64, 8>().shared), 20);
  EXPECT_EQ((expect_all<32, 16, 2, 64, 4>().shared), 0);
  EXPECT_EQ((expect_all<16, 0, 2, 64, 4>().shared), 0) << "rows that lie anywhere";
  // Rows that are apart by anything, and begin at multiples of anything.
  EXPECT_EQ((expect_all<24, 96, 2, 64, 4>().shared), 0);
  EXPECT_EQ((expect_all<24, 96, 2, 48, 4>().shared), 6);
  EXPECT_EQ((expect_all<12, 48, 3, 64, 8>().shared), 0);
  EXPECT_EQ((expect_all<8, 48, 3, 64, 8>().shared), 9) << "16 rows begin wherever 64 do, or 48";
  EXPECT_EQ((expect_all<6, 96, 3, 64, 24>().shared), 12);
  EXPECT_EQ((expect_all<1, 6, 3, 4, 20>().shared), 9);
  EXPECT_EQ((expect_all<20, 160, 1, 128, 1>().shared), 0);
}

}  // namespace
}  // namespace codetta::gpu
