// SPDX-License-Identifier: Apache-2.0
// What a launch can ask an NVIDIA GPU for, and no AMD GPU.
#pragma once

#include <string_view>

#include "package/step.hpp"

namespace codetta::package {

// "tensor maps"; empty: nothing. A launch that may overlap with the kernel in front may also follow it.
inline std::string_view only_on_nvidia(const LaunchOptions& options) {
  if (!options.maps.empty()) return "tensor maps";
  if (options.cluster != LaunchOptions().cluster) return "clusters";
  return options.window ? "windows of L2" : std::string_view();
}

}  // namespace codetta::package
