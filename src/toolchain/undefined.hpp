// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's that call what nobody defines: no compiler notices, a linker or the loader does.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.hpp"

namespace codetta::toolchain {

// The names in what a linker (GNU ld, gold, lld, mold), ptxas or the loader says of what is defined nowhere, as C++
// writes them, each once.
std::vector<std::string> undefined_names(std::string_view log);

// E0313 of the names in `log` that the user's text in `source` asks for: those that it mentions outside of comments,
// and those that neither it nor Codetta's text around it mentions (pieces that a macro joins, what a compiler calls for
// something that the processor lacks). It stands at the last line that has the first of them. Nothing where all are
// Codetta's, or where the source holds no kernel of the user's. `label`: of the kernel; `said`: by whom; `others`:
// other sources that the log is of, which may ask for what neither mentions.
std::optional<Error> undefined_in_users(const std::string& label, std::string_view source, std::string_view log,
                                        std::string said, const std::vector<std::string_view>& others = {});

}  // namespace codetta::toolchain
