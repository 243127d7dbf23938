// SPDX-License-Identifier: Apache-2.0
// What is assumed of a GPU when there is none to ask: the architecture's usual data center product.
#include <algorithm>
#include <array>

#include "base/kept.hpp"
#include "plan/families_hip.hpp"

namespace codetta::plan {
namespace {

constexpr int64_t kib = 1024, mib = 1024 * kib;

// Measured: H100's clock under matrix load (1.476 GHz: 798 TFLOP/s of bf16 on 8192^3 random normal data), its memory
// rate (a copy reaches 0.9 of the data sheet's) and that its L2 gives at least 9.9 TB/s (4096^3 in 128 x 128 tiles
// without multicast). The others are nominal: multiprocessors, boost clock and memory of NVIDIA's data sheets as
// remembered, not checked against them (least certain: the L2 of L40S, all of Blackwell), with 0.8 of the clock, 0.9 of
// the memory rate, and L2 in proportion to multiprocessors and clock. Shared memory: the CUDA programming guide's table
// of compute capabilities. They rank kernels where no device is there to ask; a device's own figures replace them.
const std::array<GpuFacts, 9>& table() {
  static const auto& facts = base::kept(std::array<GpuFacts, 9>{{
      {"sm_75", 40, 1.27, 64 * kib, 64 * kib, 4 * mib, 288, 1600},          // T4
      {"sm_80", 108, 1.13, 163 * kib, 164 * kib, 40 * mib, 1835, 4000},     // A100 80 GB SXM
      {"sm_86", 72, 1.36, 99 * kib, 100 * kib, 6 * mib, 540, 3100},         // A10
      {"sm_89", 142, 2.0, 99 * kib, 100 * kib, 48 * mib, 778, 9000},        // L40S
      {"sm_90", 132, 1.476, 227 * kib, 228 * kib, 50 * mib, 3015, 12400},   // H100 SXM
      {"sm_90a", 132, 1.476, 227 * kib, 228 * kib, 50 * mib, 3015, 12400},  // H100 SXM
      {"sm_100", 148, 1.5, 227 * kib, 228 * kib, 126 * mib, 7200, 14200},   // B200
      {"sm_103", 148, 1.5, 227 * kib, 228 * kib, 126 * mib, 7200, 14200},   // B300
      {"sm_120", 170, 1.93, 99 * kib, 100 * kib, 96 * mib, 1613, 10500},    // GeForce RTX 5090
  }});
  return facts;
}

}  // namespace

int arch_number(std::string_view arch) {
  int number = 0;
  for (const char c : arch.substr(std::min<size_t>(arch.size(), 3))) {
    if (c < '0' || c > '9') break;
    number = number * 10 + (c - '0');
  }
  return number;
}

GpuFacts gpu_facts(std::string_view arch) {
  const auto exact = std::find_if(table().begin(), table().end(), [&](const GpuFacts& f) { return f.arch == arch; });
  const GpuFacts* best = exact != table().end() ? exact : table().data();
  if (exact == table().end()) {
    for (const GpuFacts& f : table()) {
      if (arch_number(f.arch) <= arch_number(arch)) best = &f;
    }
  }
  GpuFacts facts = *best;
  facts.arch = arch;
  return facts;
}

double matrix_rate(std::string_view arch) {
  if (const HipArchitecture* hip = find_hip(arch)) return hip->matrix_16;
  if (!arch.starts_with("sm_")) return 0;
  switch (arch_number(arch)) {  // NVIDIA's white papers of the architectures
    case 75:
    case 86:
    case 89:
    case 120:
      return 512;
    case 80:
      return 1024;
    case 90:
      return 2048;
    case 100:
    case 103:
      return 4096;
    default:
      return 0;
  }
}

}  // namespace codetta::plan
