// SPDX-License-Identifier: Apache-2.0
// Target, context, data and discovered kernels of one command.
#pragma once

#include <optional>
#include <string>

#include "cli/on_device.hpp"
#include "cli/options.hpp"

namespace codetta::cli {

struct Session {
  Target target;
  Context context;
  GemmProblem problem;
  KernelList kernels;

  // What the command runs (on the device, where the target is one): these tensors.
  GemmArguments arguments;
  std::optional<Device> device;
  std::optional<OnDevice> copies;

  // `runs`: the command needs data, where the target has its memory. With options.kernel only kernels whose names
  // contain it are left, of those that are listed or, where none does, of all; E0701 with the listed names, if none
  // of all does.
  // `emits`: the target may be one that no device is here for (emission_target_of).
  static Result<Session> make(const CommonOptions& common, const GemmOptions& options, bool runs, bool emits = false);
  // The best kernel. Errors: of the first rejection, where there is none.
  [[nodiscard]] Result<Kernel> choose() const;
  // Waits for the device and copies the outputs to host memory, where there is one.
  [[nodiscard]] Result<void> fetch_outputs() const;
};

}  // namespace codetta::cli
