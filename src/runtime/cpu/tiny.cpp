// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/tiny.hpp"

#include <algorithm>

namespace codetta::runtime::cpu {

bool list_tiny(const Layout& l, const GemmProblem& p, int64_t ldc, TinyList& list) {
  if (l.form != Form::Rows || l.ways != 1 || l.tiles_r != 1 || l.tiles_c != 1 || l.slices != 1 || !l.a_direct ||
      l.k > l.kc) {
    return false;
  }
  list.count = 0;
  list.lda = p.a_row * l.a_size;
  list.ldb = p.b_k * l.b_size;
  list.ldc = ldc;
  list.k = l.k;
  const int64_t lanes = l.set->lanes;
  for (int64_t col = 0; col < l.n;) {
    int64_t vectors = std::min(l.vectors, ceil_div(l.n - col, lanes));
    while (l.set->max_rows[vectors - 1] == 0) --vectors;
    const int64_t valid = l.n - col - (vectors - 1) * lanes;
    const abi::Kernel* kernels = valid < lanes ? l.set->partial[vectors - 1] : l.set->full[vectors - 1];
    const int64_t most = l.block_rows(vectors, valid < lanes);
    const int64_t step = ceil_div(l.m, ceil_div(l.m, most));
    for (int64_t r = 0; r < l.m; r += step) {
      if (list.count == max_tiny_steps) return false;
      list.steps[list.count++] = {kernels[std::min(step, l.m - r) - 1], r * list.lda, col * l.b_size,
                                  r * ldc + col * l.acc_size, valid};
    }
    col += vectors * lanes;
  }
  return true;
}

}  // namespace codetta::runtime::cpu
