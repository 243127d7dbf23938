// SPDX-License-Identifier: Apache-2.0
// What `tune` tells, of GEMMs and of programs.
#pragma once

#include <functional>
#include <string>

#include "cli/options.hpp"
#include "cli/verbs.hpp"

namespace codetta::cli {

using Timed = std::function<Result<TuneReport>(const TuneOptions&)>;
// Progress while `timed` works, which Ctrl-C ends, and nothing else.
Result<TuneReport> tuned_with_progress(const CommonOptions& common, const TuneLimits& limits, const Timed& timed);
// "12 candidates in 3.4 s", "stopped after 3.4 s, 5 candidates measured".
std::string summary_of(const TuneReport& tuned);
// Progress while `timed` works, which Ctrl-C ends, then its results; the exit status. `also`: what is done with the
// results before they are told; may be empty.
int told_tuning(const CommonOptions& common, const TuneLimits& limits, const Timed& timed, Context& context,
                const std::function<Result<void>(const TuneReport&)>& also = {});

}  // namespace codetta::cli
