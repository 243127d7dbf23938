// SPDX-License-Identifier: Apache-2.0
// Factors of products as launches read them: a matrix, or matrices at two strides (device/host/items.h).
#pragma once

#include <vector>

#include "package/package.hpp"

namespace codetta::package {

// Buffers that the launch reads as factors where they lie: none that its own kernel or another one makes in blocks.
std::vector<uint32_t> factors_read(const Package& package, const LaunchKernel& launch);
// Leading dims of a factor of this shape (those before the last two) that may not be 1.
std::vector<types::Dim> leading_dims(const std::vector<types::Dim>& shape);
// Buffers of factors that products read as they lie where the caller's tensors lie, and that may lie unevenly if the
// caller likes: launches take two strides for all leading dims of a factor seen as one, and those of one product take
// the second one after equally many items. By launch, each launch's in order; none without any.
std::vector<std::vector<uint32_t>> uneven_factors(const Package& package);
// Whether there is one.
bool may_be_uneven(const Package& package);

}  // namespace codetta::package
