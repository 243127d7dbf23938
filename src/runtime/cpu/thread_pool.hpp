// SPDX-License-Identifier: Apache-2.0
// How many threads the default pool has.
#pragma once

#include "codetta/threads.hpp"

namespace codetta::runtime::cpu {

// Processors that this process may use, at least 1.
int usable_processors();

}  // namespace codetta::runtime::cpu
