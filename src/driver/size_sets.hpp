// SPDX-License-Identifier: Apache-2.0
// Kernels for several sizes: hints that name a symbol more than once, and which of the sets a size belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "emit/host/cpp.hpp"

namespace codetta::driver {

using SizeHints = std::vector<std::pair<std::string, int64_t>>;  // symbol -> value

inline constexpr size_t most_size_sets = 16;

struct SizeSets {
  SizeHints hints;                                // as they were given
  std::vector<emit::host::SizeTable::Axis> axes;  // of the symbols with several hints, in the order of the hints
  // By the places on the axes, the last one fastest; each has every hinted symbol once. One, where there are no axes.
  std::vector<SizeHints> sets;
  // The place among `sets` for these sizes; a symbol that they lack counts as the first of its axis.
  [[nodiscard]] size_t pick(const SizeHints& sizes) const;
};
// check_hints() has passed. Errors: E0703, more than most_size_sets.
Result<SizeSets> size_sets(const SizeHints& hints);

// The greatest size that is as near to `less` as to `more`, as a ratio; 0 <= less < more.
int64_t geometric_mean(int64_t less, int64_t more);

// "batch = 8, s = 512".
std::string hints_text(const SizeHints& sizes);

}  // namespace codetta::driver
