// SPDX-License-Identifier: Apache-2.0
// Kernels for few rows in process. A program that is compiled without a hint for the rows of its products is planned
// for 512 of them; a run that has one, or some, has kernels for those, as a library has (size_defaults.hpp). They are
// made when the first such run is prepared, which knows its sizes: compile() takes as long as it did.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver/program_state.hpp"
#include "driver/size_sets.hpp"

namespace codetta::driver {

// The sizes whose product is the number of rows, where no hint says which; none where several sizes are compiled for.
std::vector<std::string> unhinted_rows(const ProgramState& program, const SizeSets& sizes);

// The program by the kernels of a run of these sizes. `make`: the same with those for other hints, compiled; null where
// they are the usual ones, or cannot be compiled, which is no reason to fail. Within a capture (`captured`) nothing is
// made. Nor is it where a run takes less than 20 us by the cost model: small programs take what they take.
using StateRef = std::shared_ptr<const CompiledProgramState>;
StateRef for_rows(const StateRef& state, const SizeHints& sizes, bool captured,
                  const std::function<StateRef(const SizeHints& hints, const TuningRecord& times)>& make);

}  // namespace codetta::driver
