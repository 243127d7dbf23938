// SPDX-License-Identifier: Apache-2.0
// Plan -> Package: sources for every kernel, stable names, and the plan's buffers and steps.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "package/package.hpp"
#include "plan/plan.hpp"

namespace codetta::emit {

struct PackageOptions {
  bool strict = false;   // no contraction
  std::string name;      // of the package
  std::string build_id;  // of this library
  // Comments in front of each launch: the lines of the text that it carries out, and which values are not in memory.
  // Not for packages that are kept: equal programs of different texts are one entry.
  bool origins = false;
  // Without it no kernel is made for checks of contents alone: nothing will run them.
  bool checks_contents = true;
};
// Kernels of the plan whose source and configuration are equal are one kernel of the package, launched several times;
// what it calls its arguments is then neither's. Of several kernels each has a DefineKernel. `kernel_of`: which kernel
// of the package each one of the plan became.
Result<package::Package> emit_package(const plan::Plan& plan, const PackageOptions& options,
                                      std::vector<uint32_t>* kernel_of = nullptr);

// "not in memory: t f32[m, 64], mul f32[m, 64] and 2 more"; empty when all is.
std::string removed_text(const plan::KernelAccount& account);

}  // namespace codetta::emit
