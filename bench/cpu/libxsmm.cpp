// SPDX-License-Identifier: Apache-2.0
// libxsmm's kernels for small products.
#include <libxsmm.h>

#include "bench/cpu/peers.hpp"

namespace codetta::bench {

std::function<void()> libxsmm_batch(const float* a, const float* b, float* c, int64_t batch, int64_t m, int64_t n,
                                    int64_t k) {
  libxsmm_init();
  // Row-major C = A B is column-major C' = B' A'.
  const libxsmm_blasint columns = static_cast<libxsmm_blasint>(n), rows = static_cast<libxsmm_blasint>(m),
                        depth = static_cast<libxsmm_blasint>(k);
  const float alpha = 1, beta = 0;
  const libxsmm_smmfunction kernel =
      libxsmm_smmdispatch(columns, rows, depth, nullptr, nullptr, nullptr, &alpha, &beta, nullptr, nullptr);
  if (kernel == nullptr) return {};
  return [=] {
    for (int64_t i = 0; i < batch; ++i) kernel(b + i * k * n, a + i * m * k, c + i * m * n);
  };
}

}  // namespace codetta::bench
