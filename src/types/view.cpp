// SPDX-License-Identifier: Apache-2.0
// The overlap test of views.
#include "types/view.hpp"

#include <algorithm>

#include "types/overlap.hpp"

namespace codetta::types {

bool identical_view(const TensorView& a, const TensorView& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (a.empty()) return true;
  if (a.data() != b.data()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.size(i) > 1 && a.stride(i) != b.stride(i)) return false;
  }
  return true;
}

namespace {

Placed placed(const TensorView& view) {
  return {view.data(), dtype_size(view.dtype()), view.rank(), view.shape().begin(), view.strides().begin()};
}

}  // namespace

bool overlaps(const TensorView& a, const TensorView& b) { return overlaps(placed(a), placed(b)); }
bool overlaps_itself(const TensorView& view) { return overlaps_itself(placed(view)); }

}  // namespace codetta::types
