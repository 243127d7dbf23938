// SPDX-License-Identifier: Apache-2.0
// Eigen's product. A file of its own: it is built with the machine's own instructions.
#include <Eigen/Core>

#include "bench/cpu/peers.hpp"

namespace codetta::bench {

void eigen_sgemm(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix>(c, m, n).noalias() = Eigen::Map<const Matrix>(a, m, k) * Eigen::Map<const Matrix>(b, k, n);
}

}  // namespace codetta::bench
