// SPDX-License-Identifier: Apache-2.0
// sums(r, c) = x(r, c) + decay * sums(r, c - 1) on an NVIDIA GPU: called by program.py as user_kernel("running_sums",
// ...). A warp has a row; each lane first sums a piece of it, then adds what the pieces in front have come to.
#pragma codetta kernel(x: f32[m, n], decay: f32, out sums: f32[m, n])
#pragma codetta sizes(m: i32, n: i32, stride(x, 0)) config(ROWS = 4) config(ROWS = 1) config(ROWS = 8)
#pragma codetta block(32, ROWS) grid(ceil_div(m, ROWS)) shared(4 * n * ROWS)

__device__ float power(float base, int exponent) {
  float result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

extern "C" __global__ void running_sums(const float* x, float decay, float* sums, int m, int n, int64_t stride) {
  extern __shared__ float staged[];
  const int r = blockIdx.x * ROWS + threadIdx.y, lane = threadIdx.x;
  if (r >= m) return;
  float* row = staged + threadIdx.y * n;
  for (int c = lane; c < n; c += 32) row[c] = x[r * stride + c];
  __syncwarp();
  const int piece = (n + 31) / 32, begin = min(lane * piece, n), end = min(begin + piece, n);
  float sum = 0;
  for (int c = begin; c < end; ++c) row[c] = sum = row[c] + decay * sum;
  float before = 0;
  for (int l = 0; l < 32; ++l) {
    const int last = min((l + 1) * piece, n), first = min(l * piece, n);
    const float total = __shfl_sync(0xffffffffu, sum, l);
    if (l < lane) before = total + power(decay, last - first) * before;
  }
  float weight = decay;
  for (int c = begin; c < end; ++c, weight *= decay) row[c] += weight * before;
  __syncwarp();
  for (int c = lane; c < n; c += 32) sums[static_cast<int64_t>(r) * n + c] = row[c];
}
