// SPDX-License-Identifier: Apache-2.0
// Many small products: the kernel calls of one item are listed once, then repeated for every item of the batch.
#pragma once

#include "runtime/cpu/layout.hpp"

namespace codetta::runtime::cpu {

struct TinyStep {
  abi::Kernel kernel;
  int64_t a, b, c;  // byte offsets into the item
  int64_t lanes;
};
inline constexpr int max_tiny_steps = 64;

struct TinyList {
  int count = 0;
  int64_t lda, ldb, ldc, k;  // bytes; k in elements
  TinyStep steps[max_tiny_steps];

  void run(const std::byte* a_item, const std::byte* b_item, std::byte* c_item) const {
    for (int i = 0; i < count; ++i) {
      const TinyStep& s = steps[i];
      s.kernel(a_item + s.a, lda, b_item + s.b, ldb, c_item + s.c, ldc, k, s.lanes, nullptr);
    }
  }
};

// Whether one item is one tile that kernels compute from operands in place, in one pass over k; if so, fills `list` for
// accumulators `ldc` bytes a row.
bool list_tiny(const Layout& l, const GemmProblem& p, int64_t ldc, TinyList& list);

}  // namespace codetta::runtime::cpu
