// SPDX-License-Identifier: Apache-2.0
// The epilogues of examples/epilogues, bound as their `# bind:` lines say (docs/language.md defines them).
#pragma once

#include <vector>

#include "case.hpp"

namespace codetta::evt_tests {

// In the order of their names. The element type is the first that CUTLASS multiplies without conversion, sizes that a
// line leaves open are those of `Case`, and reductions may be atomic. Their texts live as long as the program; throws
// where a line is none.
const std::vector<Case>& example_cases();

}  // namespace codetta::evt_tests
