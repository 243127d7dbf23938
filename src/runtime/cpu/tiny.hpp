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
  // Bytes of the next item's A and of its B that each step asks for; 0: items are not fetched (abi::fetches_items).
  int64_t a_share = 0, b_share = 0;
  TinyStep steps[max_tiny_steps];

  // The item after it begins `a_next` and `b_next` bytes further; only speed depends on these.
  void run(const std::byte* a_item, const std::byte* b_item, std::byte* c_item, int64_t a_next, int64_t b_next) const {
    for (int i = 0; i < count; ++i) {
      const TinyStep& s = steps[i];
      fetch(a_item + a_next + i * a_share, a_share);
      fetch(b_item + b_next + i * b_share, b_share);
      s.kernel(a_item + s.a, lda, b_item + s.b, ldb, c_item + s.c, ldc, k, s.lanes, nullptr);
    }
  }

 private:
  static void fetch(const std::byte* p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 3);
  }
};

// Whether one item is one tile that kernels compute from operands in place, in one pass over k; if so, fills `list` for
// accumulators `ldc` bytes a row.
bool list_tiny(const Layout& l, const GemmProblem& p, int64_t ldc, TinyList& list);

}  // namespace codetta::runtime::cpu
