// SPDX-License-Identifier: Apache-2.0
// When items of a batch are further rows of one product: what sizes and strides must be, for plans, for engines, for
// kernels of a library and for emitted host text alike. Strides are in elements. No standard C++ headers.
#pragma once

namespace codetta::fold {

inline constexpr long long most_rows = 0x7fffffff;  // coordinates of the copy engine have 32 bits

// Whether each item's rows follow those of the item in front. Of one row an item they are rows wherever the items lie.
inline bool follow(long long rows, long long item_stride, long long row_stride) {
  return rows == 1 || item_stride == rows * row_stride;
}

// How many rows the one product has; 0: its factors are those of several. All items must have the same B.
inline long long rows_of_all(long long items, long long rows, long long a_item, long long a_row, long long b_item) {
  long long all = 0;
  if (items < 2 || rows < 1 || a_item == 0 || b_item != 0 || !follow(rows, a_item, a_row) ||
      __builtin_mul_overflow(items, rows, &all) || all > most_rows)
    return 0;
  return all;
}

}  // namespace codetta::fold
