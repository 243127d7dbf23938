// SPDX-License-Identifier: Apache-2.0
// What can be said in front of a run of launches behind a size that it computes. When the size is known work is done,
// and no other package may take over any more: so all of them are looked at before, for half of the size that there may
// be: with all of it what begins there would have no elements. What such a size alone decides no plan relies on
// (ProgramPlanner::is_late).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "package/package.hpp"

namespace codetta::package {

struct LookAhead {
  // Sizes that get a value in the run, in the order of their steps, of sizes that are known before and of those in
  // front of them here: half of what checks allow, and where none says how much, likely_size.
  std::vector<std::pair<std::string, types::Dim>> sizes;
  // A buffer that gets its place in the run: in memory of its own, which is aligned as memory of a run is, or from the
  // first element of `source` on, or from another one (Buffer::begin, Buffer::offset).
  struct Place {
    uint32_t buffer = 0;
    std::optional<uint32_t> source{};
    // Of a slice: Buffer::begin, with 0 for what a run computes.
    std::vector<types::Dim> begin{};
  };
  struct Look {
    const LaunchKernel* launch = nullptr;  // of one that may refuse what others take: of no kernel of the user's
    bool known = false;           // where all of its buffers lie, and its sizes; not of kernels of the vendor's library
    std::vector<Place> places{};  // of its buffers, sources in front
  };
  std::vector<Look> looks;
};

inline constexpr int64_t likely_size = 512;

// Of what runs from this step of the main list on, the lists of branches and loops among it.
LookAhead look_ahead(const Package& package, size_t from);
// The first step of the main list that is a branch or a loop; the list's size where there is none.
size_t first_control(const Package& package);

}  // namespace codetta::package
