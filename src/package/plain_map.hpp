// SPDX-License-Identifier: Apache-2.0
// A tensor map of a launch as the plain struct that device/host/user_maps.h declares (UserMap), which this room does
// not know.
#pragma once

#include <algorithm>

#include "package/step.hpp"

namespace codetta::package {

// `rank`: of the tensor that is walked; find_defect() has compared it with the map.
template <class Plain>
Plain plain_map(const TensorMap& map, size_t rank) {
  Plain plain{};
  plain.im2col = map.kind == TensorMap::Kind::Im2col;
  plain.argument = static_cast<int32_t>(map.argument);
  std::fill(std::begin(plain.steps), std::end(plain.steps), 1);
  std::copy_n(map.box.begin(), std::min(map.box.size(), std::size(plain.box)), plain.box);
  std::copy_n(map.element_strides.begin(), std::min({map.element_strides.size(), rank, std::size(plain.steps)}),
              plain.steps);
  std::copy_n(map.lower_corner.begin(), std::min(map.lower_corner.size(), std::size(plain.lower)), plain.lower);
  std::copy_n(map.upper_corner.begin(), std::min(map.upper_corner.size(), std::size(plain.upper)), plain.upper);
  plain.channels = map.channels;
  plain.pixels = map.pixels;
  plain.swizzle = static_cast<int32_t>(map.swizzle);
  plain.interleave = static_cast<int32_t>(map.interleave);
  plain.promotion = static_cast<int32_t>(map.promotion);
  plain.nan_outside = map.nan_outside;
  return plain;
}

}  // namespace codetta::package
