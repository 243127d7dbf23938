// SPDX-License-Identifier: Apache-2.0
// What `tune` tells, of GEMMs and of programs.
#pragma once

#include <functional>

#include "cli/options.hpp"

namespace codetta::cli {

// Progress while `timed` works, which Ctrl-C ends, then its results; the exit status. `also`: what is done with the
// results before they are told; may be empty.
int told_tuning(const CommonOptions& common, double budget_seconds, size_t candidates,
                const std::function<Result<TuneReport>(const TuneOptions&)>& timed, Context& context,
                const std::function<Result<void>(const TuneReport&)>& also = {});

}  // namespace codetta::cli
