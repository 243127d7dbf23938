// SPDX-License-Identifier: Apache-2.0
#include "package/vendor_gemm.hpp"

#include "device/host/fold.h"

namespace codetta::package {

void fold_batch(VendorProblem& p) {
  const int64_t rows = fold::rows_of_all(p.batch, p.m, p.a_batch, p.a_row, p.b_batch);
  if (rows == 0 || p.bias_batch != 0) return;
  const struct {
    int64_t *batch, *row, cols;
    bool there;
  } strides[] = {{&p.a_batch, &p.a_row, p.k, true},
                 {&p.d_batch, &p.d_row, p.n, p.config.d >= 0},
                 {&p.c_batch, &p.c_row, p.n, p.config.c >= 0},
                 {&p.aux_batch, &p.aux_row, p.n, p.config.aux >= 0}};
  if (p.m == 1 && p.a_k != 1) return;  // rows are read side by side
  for (const auto& one : strides) {
    if (!one.there) continue;
    // The library takes no rows that lie at one place, or across one another.
    if (!fold::follow(p.m, *one.batch, *one.row) || (p.m == 1 && *one.batch < one.cols)) return;
  }
  for (const auto& one : strides) {
    if (p.m == 1) *one.row = *one.batch;
    *one.batch = 0;
  }
  p.m = rows;
  p.batch = 1;
}

}  // namespace codetta::package
