// SPDX-License-Identifier: Apache-2.0
// Limits of kernels of few rows were found on an H100; where memory gives more, an H200 has shown others.
#pragma once

#include <algorithm>
#include <cmath>

#include "plan/candidates.hpp"

namespace codetta::plan {

// How far the device's memory gives a multiprocessor more than an H100's: 0 there (23 bytes/ns) and below, 1 for an
// H200 (33) and above. What was measured on an H200 counts as far as that.
inline double memory_beyond_h100(const GpuFacts& gpu) {
  constexpr double h100 = 23, h200 = 32.8;
  return std::clamp((gpu.memory_rate / std::max(gpu.sms, 1) - h100) / (h200 - h100), 0.0, 1.0);
}

// What part of its time longer a kernel of few rows reads B, whose `units` are on the multiprocessors at once. Two of
// these share their way to memory. While all of them read, each pair gets the same, so that those with more units than
// others end later: by a fifth or a third of what they have more (an H200, bench/NOTES.md).
inline double unevenness(const GpuFacts& gpu, double units) {
  const double sms = std::max(gpu.sms, 1);
  const double each = units / (units > sms ? sms : std::max(1.0, std::floor(sms / 2)));
  const double more = std::min(std::ceil(each) / each - 1, 0.8);
  return (units > sms ? 0.3 : 0.2) * memory_beyond_h100(gpu) * more;
}

}  // namespace codetta::plan
