// SPDX-License-Identifier: Apache-2.0
// Which libcodetta this is: entries of the cache that depend on the compiler's own code hold it in their keys.
#pragma once

#include <string>

namespace codetta::driver {

// The version, and what tells builds of one version apart: the build id that the linker put into the object that holds
// this function; where there is none, the object's size, time of change and inode. Looked up once a process.
const std::string& build_id();

}  // namespace codetta::driver
