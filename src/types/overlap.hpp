// SPDX-License-Identifier: Apache-2.0
// How strided rectangles of memory lie to each other. It depends on nothing else of Codetta: emitted libraries link it.
#pragma once

#include <cstdint>

namespace codetta::types {

// Elements of `element` bytes; sizes and strides count elements. The extent fits in 63 bits (TensorView::make).
struct Placed {
  const void* data = nullptr;
  int64_t element = 1;
  int rank = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
};

// See overlaps() and overlaps_itself() of types/view.hpp.
bool overlaps(const Placed& a, const Placed& b);
bool overlaps_itself(const Placed& view);

}  // namespace codetta::types
