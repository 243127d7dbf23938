// SPDX-License-Identifier: Apache-2.0
// What `tune` tells, of GEMMs and of programs.
#pragma once

#include <functional>

#include "cli/options.hpp"
#include "cli/verbs.hpp"

namespace codetta::cli {

// Progress while `timed` works, which Ctrl-C ends, then its results; the exit status. `also`: what is done with the
// results before they are told; may be empty.
int told_tuning(const CommonOptions& common, const TuneLimits& limits,
                const std::function<Result<TuneReport>(const TuneOptions&)>& timed, Context& context,
                const std::function<Result<void>(const TuneReport&)>& also = {});

}  // namespace codetta::cli
