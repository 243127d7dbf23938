// SPDX-License-Identifier: Apache-2.0
// Golden cases of host text: a program as the C++ text and the C header of a library.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace codetta::golden {

struct HostCase {
  std::string_view name;       // "host_classifier"
  std::string_view target;     // "cpu:avx2"
  std::string_view constants;  // names of parameters that the library carries: "w1 b1"
  std::string_view weights;    // those that it loads
  std::string_view text;
  bool nvcc = false;  // compiles the kernels: their files follow, without the kernels' own sources, and the script
};

std::span<const HostCase> host_cases();
// Nothing of this machine is asked. Errors: those of the text, planning, emission, and of check_library().
Result<std::string> emit_host_case(const HostCase& host_case);

}  // namespace codetta::golden
