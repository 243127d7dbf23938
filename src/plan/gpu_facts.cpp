// SPDX-License-Identifier: Apache-2.0
// What is assumed of a GPU when there is none to ask: the architecture's usual data center product.
#include <algorithm>
#include <array>

#include "plan/families_cuda.hpp"

namespace codetta::plan {
namespace {

constexpr int64_t kib = 1024, mib = 1024 * kib;

// Multiprocessors, clocks, memory and L2 as NVIDIA's product data sheets and architecture white papers give them (H100
// and H200 data sheets 2023 and 2024, A100 and A10 data sheets 2021, L40S data sheet 2023, T4 data sheet 2019,
// Blackwell architecture brief 2024, RTX Blackwell white paper 2025); shared memory from the CUDA programming guide's
// table of compute capabilities. `ghz` is what remains under matrix load: H100 and H200 1.476 (798 TFLOP/s of bf16 on
// 8192^3 random normal data, measured), the others the same 0.8 of their boost clock. memory_rate is 0.9 of the data
// sheet's, which a copy reaches on H100 and H200. l2_rate: H100 at least 9.9 TB/s (4096^3 in 128 x 128 tiles without
// multicast, measured); the others in proportion to multiprocessors and clock.
const std::array<GpuFacts, 9> table{{
    {"sm_75", 40, 1.27, 64 * kib, 64 * kib, 4 * mib, 288, 1600},          // T4
    {"sm_80", 108, 1.13, 163 * kib, 164 * kib, 40 * mib, 1835, 4000},     // A100 80 GB SXM
    {"sm_86", 72, 1.36, 99 * kib, 100 * kib, 6 * mib, 540, 3100},         // A10
    {"sm_89", 142, 2.0, 99 * kib, 100 * kib, 48 * mib, 778, 9000},        // L40S
    {"sm_90", 132, 1.476, 227 * kib, 228 * kib, 50 * mib, 3015, 12400},   // H100 SXM
    {"sm_90a", 132, 1.476, 227 * kib, 228 * kib, 50 * mib, 3015, 12400},  // H100 SXM
    {"sm_100", 148, 1.5, 227 * kib, 228 * kib, 126 * mib, 7200, 14200},   // B200
    {"sm_103", 148, 1.5, 227 * kib, 228 * kib, 126 * mib, 7200, 14200},   // B300
    {"sm_120", 170, 1.93, 99 * kib, 100 * kib, 96 * mib, 1613, 10500},    // GeForce RTX 5090
}};

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
  const auto exact = std::find_if(table.begin(), table.end(), [&](const GpuFacts& f) { return f.arch == arch; });
  const GpuFacts* best = exact != table.end() ? exact : table.data();
  if (exact == table.end()) {
    for (const GpuFacts& f : table) {
      if (arch_number(f.arch) <= arch_number(arch)) best = &f;
    }
  }
  GpuFacts facts = *best;
  facts.arch = arch;
  return facts;
}

}  // namespace codetta::plan
