// SPDX-License-Identifier: Apache-2.0
// Broadcasting and the overlap test of views.
#include "types/view.hpp"

#include <algorithm>

#include "types/overlap.hpp"

namespace codetta::types {
namespace {

int64_t size_from_last(const Dims& shape, int i) { return i < shape.rank() ? shape[shape.rank() - 1 - i] : 1; }

}  // namespace

std::optional<Dims> broadcast(const Dims& a, const Dims& b, int* conflict) {
  const int rank = std::max(a.rank(), b.rank());
  Dims result;
  for (int i = 0; i < rank; ++i) result.push_back(1);
  for (int i = 0; i < rank; ++i) {
    const int64_t x = size_from_last(a, i), y = size_from_last(b, i);
    if (x != y && x != 1 && y != 1) {
      if (conflict != nullptr) *conflict = i;
      return std::nullopt;
    }
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

bool broadcasts_to(const Dims& from, const Dims& to) {
  const auto result = broadcast(from, to);
  return result && *result == to;
}

Dims broadcast_strides(const Dims& shape, const Dims& strides, const Dims& to) {
  Dims result;
  const int added = to.rank() - shape.rank();
  for (int i = 0; i < to.rank(); ++i) {
    result.push_back(i < added || shape[i - added] == 1 ? 0 : strides[i - added]);
  }
  return result;
}

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
