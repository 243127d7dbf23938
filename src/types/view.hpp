// SPDX-License-Identifier: Apache-2.0
// Broadcasting of concrete shapes, and how tensor views lie relative to each other in memory.
#pragma once

#include <optional>

#include "codetta/tensor.hpp"

namespace codetta::types {

// NumPy's rule: shapes align at the last dimension; sizes are equal or one of them is 1. Nullopt when they do not fit,
// and then *conflict is the dimension, counted from the last (0 = last).
std::optional<Dims> broadcast(const Dims& a, const Dims& b, int* conflict = nullptr);
// Whether `from` broadcasts to exactly `to`.
bool broadcasts_to(const Dims& from, const Dims& to);
// Strides that walk a tensor of `shape` and `strides` as one of shape `to`: 0 along what is repeated. broadcasts_to
// must hold.
Dims broadcast_strides(const Dims& shape, const Dims& strides, const Dims& to);

// The same elements in the same places: pointer, dtype, shape, and the strides of all dimensions of more than one
// element. Empty views of the same dtype and shape are identical.
bool identical_view(const TensorView& a, const TensorView& b);

// Whether both views have a byte in common. Exact, by byte ranges and then by a bounded search for a common element;
// when the search gives up (views of many dimensions with unrelated strides) the answer is true, so false is always a
// proof.
bool overlaps(const TensorView& a, const TensorView& b);
// Whether two elements of the view lie at one place (a stride of 0, rows that overlap). True also when the search gives
// up.
bool overlaps_itself(const TensorView& view);

}  // namespace codetta::types
