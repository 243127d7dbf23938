// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's that call what nobody defines: no compiler notices, a linker or the loader does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.hpp"

namespace codetta::toolchain {

// The names in what a linker (GNU ld, gold, lld, mold), ptxas or the loader says of what is defined nowhere, as C++
// writes them, each once.
std::vector<std::string> undefined_names(std::string_view log);

// E0313, at the last line of the user's text in `source` that has the first of `names`, of which there is one.
// `label`: of the kernel; `said`: by whom.
Error undefined_in_users(const std::string& label, std::string_view source, const std::vector<std::string>& names,
                         std::string said);

}  // namespace codetta::toolchain
