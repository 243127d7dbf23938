// SPDX-License-Identifier: Apache-2.0
// Golden cases of host text: a program as the C++ text and the C header of a library, or as what takes their place.
#pragma once

#include <cstdint>
#include <set>
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
  enum class Form : uint8_t {
    Cpp,
    Nvcc,     // compiles the kernels: their files follow, without the kernels' own sources, and the script
    Python,   // without what all modules begin with
    Metal,    // likewise without the kernels' sources
    Kernels,  // no host text: the sources of the kernels
  };
  Form form = Form::Cpp;
  std::string_view kernel{};  // source of the user's kernel `own`, in the language of the target
  bool places = false;        // kernels are called by their places, so that the text does not follow what is in them
  bool two_devices = false;   // the last product is of another device (support/second_device.hpp)
};

struct HostText {
  std::string golden;
  std::set<std::string> steps;  // kinds of those that are printed
};

std::span<const HostCase> host_cases();
// Nothing of this machine is asked. Errors: those of the text, planning, emission, and of check_library().
Result<HostText> emit_host_case(const HostCase& host_case);

}  // namespace codetta::golden
