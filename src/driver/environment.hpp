// SPDX-License-Identifier: Apache-2.0
// The only place that reads the environment. Each variable has a twin in ContextOptions that wins.
#pragma once

#include <string>

#include "base/result.hpp"
#include "codetta/kernel.hpp"
#include "driver/context.hpp"

namespace codetta::driver {

struct Environment {
  std::string path;               // PATH, or the system's default
  std::string library_path;       // LD_LIBRARY_PATH
  std::string nvtx_injection;     // NVTX_INJECTION64_PATH
  std::string default_cache_dir;  // $XDG_CACHE_HOME/codetta, else ~/.cache/codetta, else ""
};
Environment read_environment();

// CODETTA_CUTLASS_DIR, whose twin is CutlassBuild::cutlass_dir; "" when unset.
std::string cutlass_directory();

// Fills what `options` leaves at its default from CODETTA_CACHE_DIR, CODETTA_CACHE_RO, CODETTA_NO_JIT,
// CODETTA_NO_VENDOR, CODETTA_NVTX and CODETTA_DEBUG.
ContextOptions with_environment(ContextOptions options);

// "dump:plan,time:passes,explain:fusion". Errors: E0702 unknown key, with what was probably meant.
Result<DebugSwitches> parse_debug(const std::string& text);

}  // namespace codetta::driver
