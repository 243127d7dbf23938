// SPDX-License-Identifier: Apache-2.0
// sums(r, c) = x(r, c) + decay * sums(r, c - 1): called by hooked.py as user_kernel("running_sums", ...). What the
// program makes of the result runs where it is stored, on as many elements at once as a vector holds.
void running_sums(Tensor<const float, 2> x, float decay, Hook<float, 2> sums) {
  constexpr int64_t most = 256;
  float run[most];
  for (int64_t r = 0; r < x.size(0); ++r) {
    float sum = 0;
    for (int64_t c = 0; c < x.size(1); c += most) {
      const int64_t count = x.size(1) - c < most ? x.size(1) - c : most;
      for (int64_t i = 0; i < count; ++i) run[i] = sum = x(r, c + i) + decay * sum;
      sums.store_run(r, c, run, count);
    }
  }
}
