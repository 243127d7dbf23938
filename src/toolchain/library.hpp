// SPDX-License-Identifier: Apache-2.0
// A shared library of several translation units: compiled in parallel processes, then linked, all in a private folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "toolchain/compiler.hpp"

namespace codetta::toolchain {

struct LibraryFile {
  std::string path;  // below the folder: "device/host/support.h"
  std::string bytes;
};

struct LibraryJob {
  std::string name;                   // DT_SONAME
  std::vector<CompileJob> units;      // flags without -c, -fPIC and -I; includes are found below the folder
  std::vector<LibraryFile> files;     // written there before anything is compiled
  std::string exports;                // version script; every other symbol becomes local
  std::vector<std::string> archives;  // absolute paths, searched together
};

struct LibraryOutput {
  std::string bytes;  // stripped
  double seconds = 0;
  std::vector<std::pair<std::string, double>> unit_seconds;  // by label
};

// Compiles the units in up to `parallel` processes. `progress` is told, from the calling thread, how many units are
// done. Errors: those of compile() by unit, the first in job order; E0542 the linker refused;
// E0505 it took too long; E0510 it was cancelled; E0507.
Result<LibraryOutput> build_library(const HostCompiler& compiler, const LibraryJob& job, const CompileOptions& options,
                                    int parallel, const std::function<void(size_t done, size_t all)>& progress = {});

}  // namespace codetta::toolchain
