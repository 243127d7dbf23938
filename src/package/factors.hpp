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
// Whether a product reads such a factor where the caller's tensor lies, which has no such stride if the caller likes.
bool may_be_uneven(const Package& package);

}  // namespace codetta::package
