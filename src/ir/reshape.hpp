// SPDX-License-Identifier: Apache-2.0
// Which dims of two shapes of as many elements correspond.
#pragma once

#include <optional>
#include <vector>

#include "types/dim.hpp"

namespace codetta::ir {

using types::Dim;

// Dims of one shape that hold as many elements as those of the other.
struct ReshapeSegment {
  std::vector<size_t> to, from;
};
// Where the products of the trailing dims agree, a shape can be cut; dims of size 1 belong to no segment. Empty where
// the shapes cannot be compared, and where all dims are 1.
std::vector<ReshapeSegment> reshape_segments(const std::vector<Dim>& to, const std::vector<Dim>& from);

// The dim in whose steps the elements of the segment are counted where they lie without gaps: the segment's last, or
// one inside of it, of two elements or more for all sizes, as a dim of one element may have any stride.
std::optional<size_t> step_of(const ReshapeSegment& segment, const std::vector<Dim>& from);

// Whether several dims of `from` that correspond to others cannot be counted so.
bool needs_order(const std::vector<Dim>& to, const std::vector<Dim>& from);

}  // namespace codetta::ir
