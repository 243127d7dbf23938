// SPDX-License-Identifier: Apache-2.0
// What running_sums.cc computes, in three ways: `codetta tune` finds out which of them this machine runs fastest.
#pragma codetta config(ROWS = 1) config(ROWS = 4) config(ROWS = 16)
void running_sums(Tensor<const float, 2> x, float decay, Tensor<float, 2> sums) {
  // A sum waits for the one in front of it, so those of ROWS rows go side by side.
  for (int64_t first = 0; first < x.size(0); first += ROWS) {
    const int64_t left = x.size(0) - first, rows = left < ROWS ? left : ROWS;
    float sum[ROWS] = {};
    for (int64_t c = 0; c < x.size(1); ++c) {
      for (int64_t r = 0; r < rows; ++r) sums(first + r, c) = sum[r] = x(first + r, c) + decay * sum[r];
    }
  }
}
