// SPDX-License-Identifier: Apache-2.0
// What a run takes beside the caller's tensors: temporaries as the memory plan has them, and behind them the scratch of
// launches; for people, for tools and for the HTML page.
#pragma once

#include <string>
#include <vector>

#include "driver/context.hpp"
#include "driver/size_sets.hpp"
#include "package/package.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

struct WorkspaceReport {
  struct Launch {
    std::string kernel;                // its name in the package, or the step's: "index_put"
    std::vector<std::string> origins;  // "mlp.py:4: y = relu(x @ w)"
    int64_t bytes = 0, counter_bytes = 0;
    uint32_t device = 0;
  };
  struct Place {  // bytes on one of the program's devices
    int64_t temporaries = 0, counters = 0, scratch = 0;
    [[nodiscard]] int64_t bytes() const { return temporaries + counters + scratch; }
  };
  std::vector<Place> devices;        // at least one
  std::vector<Launch> launches;      // that need any: those that need most first
  std::vector<std::string> unknown;  // kernels of the vendor's library
  bool symbolic = false;             // some sizes are hinted at, or taken as 512
  bool late = false;                 // beside it a run takes temporaries of sizes that it finds
  bool estimated = false;            // how many blocks a GPU holds at once decides some
};

// Sizes are those of `hints`, 512 for others. The package was emitted from the plan.
WorkspaceReport workspace_report(const plan::Plan& plan, const package::Package& package, const SizeHints& hints,
                                 ContextState& context);
// The same of what is planned only.
Result<WorkspaceReport> workspace_report(const plan::Plan& plan, const std::string& name, const SizeHints& hints,
                                         ContextState& context);

// The memory plan, and the lines of the workspace behind it; as JSON `scratch` and `workspace` among the plan's keys.
std::string memory_text(const plan::Plan& plan, const WorkspaceReport& report);
std::string memory_json(const plan::Plan& plan, const WorkspaceReport& report);
std::string to_string(const WorkspaceReport& report);
// What plan::explain_json says, with the latter as `memory`.
std::string with_workspace(const std::string& explained, const plan::Plan& plan, const WorkspaceReport& report);

}  // namespace codetta::driver
