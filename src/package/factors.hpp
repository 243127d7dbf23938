// SPDX-License-Identifier: Apache-2.0
// Factors of products as launches read them: a matrix, or matrices at one stride.
#pragma once

#include <vector>

#include "package/package.hpp"

namespace codetta::package {

// Buffers that the launch reads as factors where they lie: none that its own kernel or another one makes in blocks.
std::vector<uint32_t> factors_read(const Package& package, const LaunchKernel& launch);
// Whether a factor of this shape has two leading dims or more (those before the last two) that may not be 1: only then
// one stride for all of them is no matter of course.
bool leads_by_several(const std::vector<types::Dim>& shape);
// Buffers of such factors that products read where the caller's tensors lie, which have no such stride if the caller
// likes. Each once, in order.
std::vector<uint32_t> uneven_factors(const Package& package);
// Whether there is one.
bool may_be_uneven(const Package& package);

}  // namespace codetta::package
