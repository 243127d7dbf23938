// SPDX-License-Identifier: Apache-2.0
// The version, as the build states it.
#include "codetta/version.hpp"

namespace codetta {

const char* version() noexcept { return CODETTA_VERSION; }

}  // namespace codetta
