// SPDX-License-Identifier: Apache-2.0
// Access to the micro-kernels by instruction-set level.
#pragma once

#include "codetta/target.hpp"
#include "codetta/tensor.hpp"
#include "device/cpu/micro/micro.hpp"

namespace codetta::cpu {

// The kernels of a level, null where this library was built for another architecture. Says nothing about the machine:
// ask cpu_supports() before calling any of them.
const MicroTable* micro_table(CpuIsa isa);

}  // namespace codetta::cpu
