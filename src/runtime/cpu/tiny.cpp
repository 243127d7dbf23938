// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/tiny.hpp"

#include <algorithm>

#include "device/cpu/micro/blocks.hpp"

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
  // Of what each item has of its own.
  const int64_t a_bytes = p.a_batch == 0 && p.a_skip == 0 ? 0 : (l.m - 1) * list.lda + l.k * l.a_size;
  const int64_t b_bytes = p.one_b() ? 0 : (l.k - 1) * list.ldb + l.n * l.b_size;
  const bool dense = a_bytes >= 0 && b_bytes >= 0 && a_bytes <= l.m * l.k * l.a_size && b_bytes <= l.k * l.n * l.b_size;
  if (dense && list.count > 0 && abi::fetches_items(*l.set, l.mr, l.m, l.k, a_bytes + b_bytes, l.batch)) {
    list.a_share = ceil_div(ceil_div(a_bytes, line), list.count) * line;
    list.b_share = ceil_div(ceil_div(b_bytes, line), list.count) * line;
  }
  return true;
}

}  // namespace codetta::runtime::cpu
