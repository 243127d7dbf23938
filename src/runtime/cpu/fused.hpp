// SPDX-License-Identifier: Apache-2.0
// Running a whole kernel with the epilogue in registers (CpuFamily::Fused).
#pragma once

#include <cstddef>

#include "codetta/threads.hpp"
#include "device/cpu/abi.h"
#include "runtime/cpu/gemm.hpp"

namespace codetta::runtime::cpu {

// The configuration whose packed B the kernel reads: its own, but for fused ones, which read the panels of Packed.
CpuGemmConfig packing_of(const CpuGemmConfig& config);
// Bytes for B packed per run; 0 with problem.packed_b.
size_t fused_workspace_size(const CpuGemmConfig& config, const GemmProblem& problem);
// Consecutive k of A must be adjacent. One phase, no reductions, no split. Allocates nothing; pool == nullptr: the
// caller alone.
void run_fused(const CpuGemmConfig& config, const GemmProblem& problem, abi::FusedFunction function,
               const abi::Operand* operands, const abi::ScalarValue* scalars, ThreadPool* pool, void* workspace);

}  // namespace codetta::runtime::cpu
