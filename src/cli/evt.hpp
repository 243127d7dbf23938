// SPDX-License-Identifier: Apache-2.0
// For CUTLASS: what emit and build take beside the problem.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "codetta/evt.hpp"

namespace codetta::cli {

struct EvtFlags {
  std::string tile, cluster, schedule, name, cutlass_dir;
  std::vector<std::string> buffers;  // NAME=BUFFER
  bool nondeterministic = false, plain_pointers = false, no_cd = false;
};
int emit_for_cutlass(const CommonOptions& common, const GemmOptions& options, const std::string& what,
                     const EvtFlags& flags);
int build_for_cutlass(const CommonOptions& common, const GemmOptions& options, const EvtFlags& flags,
                      const std::string& output);

Result<EvtOptions> cutlass_options(const CommonOptions& common, const EvtFlags& flags);

// kernels and explain for a target of CUTLASS.
int kernels_of_cutlass(const CommonOptions& common, const GemmOptions& options, const EvtFlags& flags);
int explain_cutlass(const CommonOptions& common, const GemmOptions& options, const EvtFlags& flags);
// CUTLASS's candidates beside our own: nothing where the target is not CUDA or no folder of CUTLASS is configured. An
// epilogue that CUTLASS cannot take is a rejection. Errors: E0531.
Result<std::optional<CutlassKernels>> cutlass_beside(const Target& target, const GemmArguments& arguments,
                                                     const EvtFlags& flags, Context& context);
std::vector<KernelMetadata> metadata_of(const CutlassKernels& found);
// Adds them to what explain says.
void append_explained(std::string& text, const CutlassKernels& found, bool json);

}  // namespace codetta::cli
