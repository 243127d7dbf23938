// SPDX-License-Identifier: Apache-2.0
// build() for Metal: a folder of sources and a script, which a Mac makes a library of.
#pragma once

#include "codetta/build.hpp"
#include "driver/context.hpp"
#include "emit/host/metal.hpp"

namespace codetta::driver {

// Constants that the library carries are a safetensors file among them. Errors: E0209, E0210, E0213, E0221, E0230,
// E0440, E0543, E06xx (the weights), those of planning.
Result<std::vector<emit::host::File>> metal_files(const std::vector<Program>& programs, const Target& target,
                                                  const BuildOptions& options, ContextState& context);
// options.output is a folder, made where it is missing. Errors: also E0543.
Result<BuildReport> build_metal(const std::vector<Program>& programs, const Target& target, const BuildOptions& options,
                                ContextState& context);

}  // namespace codetta::driver
