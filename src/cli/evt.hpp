// SPDX-License-Identifier: Apache-2.0
// For CUTLASS: what emit and build take beside the problem.
#pragma once

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

}  // namespace codetta::cli
