// SPDX-License-Identifier: Apache-2.0
// What steps write and where they stand: for whoever watches a run.
#pragma once

#include <string>
#include <vector>

#include "package/package.hpp"

namespace codetta::package {

// The buffers that hold new values when the step has ended, in the order in which it names them: of launches the
// outputs, of calls the results, of an alloc-form call none (SelectOutput tells them). Branches and loops write nothing
// themselves, and steps that only give memory or names to buffers do not either.
std::vector<uint32_t> buffers_written(const Package& package, const Step& step);
// Whether a run of the step leaves something in memory by itself: launches, calls, copies, fills, writes at indices.
bool writes(const Step& step);
// Where a step of the package stands: "step 3 (copy)", "list 1, step 0 (fill)".
std::string place_of(const Package& package, const Step& step);

}  // namespace codetta::package
