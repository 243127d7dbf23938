// SPDX-License-Identifier: Apache-2.0
// What the pragmas of a kernel's source say about its launch on a GPU, for the arguments of one call. docs/language.md
// says what they mean.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/plan.hpp"

namespace codetta::plan {

struct BoundLaunch {
  std::vector<UserConfiguration> configurations;  // at least one; those that say the same are there once
  int32_t narrow = 0;                             // of package::GpuUserConfig
  // Strides that a configuration does not ask for: of every dim of a tensor whose stride is not among its sizes.
  struct Assumed {
    size_t argument = 0;
    int32_t dim = 0;
    types::Dim stride;
  };
  std::vector<Assumed> assumed;  // by any of the configurations, for which one runs is known later
};
// What clauses may ask for.
struct LaunchTarget {
  std::string arch;                         // "sm_90a", for messages
  bool sm_90 = true;                        // or newer, or not known: clusters and tensor maps
  bool amd = false;                         // has none of these, no windows of L2, and no launches that overlap
  int64_t shared_bytes = int64_t{1} << 20;  // the most that any block can have; what a device has is asked at run time
};

// `arguments`: operands, then results. `stride`: the stride of a dim of an argument, in elements. `hook`: the argument
// that the function hands over, which lies nowhere. Errors: E0231, at the place in the source.
Result<BoundLaunch> bind_launch(const UserSource& source, const std::vector<package::Argument>& arguments,
                                const LaunchTarget& target,
                                const std::function<types::Dim(size_t argument, int32_t dim)>& stride,
                                std::optional<size_t> hook = std::nullopt);

// Of a source for a CPU, whose only clauses are configurations; at least one. Errors: E0231, at the place in the
// source.
Result<std::vector<UserConfiguration>> bind_configurations(const UserSource& source);
// "user_running_sums_ROWS_4": what a configuration is called.
std::string name_of(const UserSource& source, const UserConfiguration& configuration);

}  // namespace codetta::plan
