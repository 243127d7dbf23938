// SPDX-License-Identifier: Apache-2.0
// What the CPU engine has room for in one epilogue: plan/ refuses what is larger, runtime/ relies on it.
#pragma once

#include <cstdint>

namespace codetta::package {

inline constexpr int32_t max_cpu_phases = 64, max_cpu_reductions = 64;

}  // namespace codetta::package
