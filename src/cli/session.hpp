// SPDX-License-Identifier: Apache-2.0
// Target, context, data and discovered kernels of one command.
#pragma once

#include <string>

#include "cli/options.hpp"

namespace codetta::cli {

struct Session {
  Target target;
  Context context;
  GemmProblem problem;
  KernelList kernels;

  static Result<Session> make(const CommonOptions& common, const GemmOptions& options);
  // The best kernel, or the best whose name contains `name`. Errors: E0701 with the names that there are.
  [[nodiscard]] Result<Kernel> choose(const std::string& name) const;
};

}  // namespace codetta::cli
