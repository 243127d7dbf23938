// SPDX-License-Identifier: Apache-2.0
// Limits of kernels of few rows were found on an H100; where memory gives more, an H200 has shown others.
#pragma once

#include <algorithm>

#include "plan/candidates.hpp"

namespace codetta::plan {

// How far the device's memory gives a multiprocessor more than an H100's: 0 there (23 bytes/ns) and below, 1 for an
// H200 (33) and above. What was measured on an H200 counts as far as that.
inline double memory_beyond_h100(const GpuFacts& gpu) {
  constexpr double h100 = 23, h200 = 32.8;
  return std::clamp((gpu.memory_rate / std::max(gpu.sms, 1) - h100) / (h200 - h100), 0.0, 1.0);
}

}  // namespace codetta::plan
