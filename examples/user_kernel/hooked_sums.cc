// SPDX-License-Identifier: Apache-2.0
// sums(r, c) = x(r, c) + decay * sums(r, c - 1): called by hooked.py as user_kernel("running_sums", ...). What the
// program makes of an element of the result runs where it is stored.
void running_sums(Tensor<const float, 2> x, float decay, Hook<float, 2> sums) {
  for (int64_t r = 0; r < x.size(0); ++r) {
    float sum = 0;
    for (int64_t c = 0; c < x.size(1); ++c) {
      sum = x(r, c) + decay * sum;
      sums.store(r, c, sum);
    }
  }
}
