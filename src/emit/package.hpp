// SPDX-License-Identifier: Apache-2.0
// Plan -> Package: sources for every kernel, stable names, and the plan's buffers and steps.
#pragma once

#include "base/result.hpp"
#include "package/package.hpp"
#include "plan/plan.hpp"

namespace codetta::emit {

struct PackageOptions {
  bool strict = false;   // no contraction
  std::string name;      // of the package
  std::string build_id;  // of this library
};
Result<package::Package> emit_package(const plan::Plan& plan, const PackageOptions& options);

// True when the epilogue only stores the accumulators unchanged to one contiguous-column output: no code is needed.
bool is_plain_store(const package::EpilogueProgram& program);

}  // namespace codetta::emit
