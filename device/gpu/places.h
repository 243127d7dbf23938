// SPDX-License-Identifier: Apache-2.0
// Which of the vectors that a thread has under way at once are made of the same.
#pragma once

namespace codetta::gpu {

// The largest number that divides both; of 0 and another one that other one.
template <int a, int b>
struct CommonDivisor {
  static constexpr int value = CommonDivisor<b, a % b>::value;
};
template <int a>
struct CommonDivisor<a, 0> {
  static constexpr int value = a;
};

// Where a vector is among those that a thread has under way at once: in row `at_row` of several that are `apart` from
// each other, number `at_vector` of the `vectors`, of so many columns, that follow each other in each. The first row
// begins less than `apart` behind a multiple of `reach` (0: anywhere), the first vector at a multiple of all columns of
// a row's vectors. What they are computed from lies in that order, and what is the same for several is loaded by the
// first and lies there.
template <int at_row, int apart, int reach, int at_vector, int vectors, int columns>
struct PlaceAmong {
  static constexpr int row = at_row, vector = at_vector;
  // How far before this place the first lies that has the same of what changes every `rows` rows and `cols` columns.
  // What divides both that and where the first begins has a beginning wherever something changes. Where the distance of
  // rows does not divide it, it is not known here between which rows that is, and each loads its own.
  template <int rows, int cols>
  static constexpr int before() {
    constexpr int same_rows = reach == 0 ? 0 : CommonDivisor<rows, reach>::value;
    constexpr int same_cols = CommonDivisor<cols, vectors * columns>::value;
    constexpr int in_rows = same_rows % apart == 0 ? same_rows / apart : 0;
    constexpr int in_cols = same_cols % columns == 0 ? same_cols / columns : 0;
    return (in_rows > 1 ? row % in_rows : 0) * vectors + (in_cols > 1 ? vector % in_cols : 0);
  }
};

}  // namespace codetta::gpu
