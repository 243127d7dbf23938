// SPDX-License-Identifier: Apache-2.0
// How tensor views lie relative to each other in memory.
#pragma once

#include "codetta/tensor.hpp"

namespace codetta::types {

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
