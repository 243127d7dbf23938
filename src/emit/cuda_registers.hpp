// SPDX-License-Identifier: Apache-2.0
// Phase 0 where it finds its accumulators in registers: strips of them, whose elements threads load and store
// themselves, and those of sm_90a whose matrices come and go by the copy engine.
#pragma once

#include "base/code_writer.hpp"
#include "emit/phase_printer.hpp"
#include "package/gpu_gemm.hpp"
#include "plan/families_cuda.hpp"

namespace codetta::emit {

// strip_0 of the epilogue, for a program of one store a position (plan::takes_registers).
void print_strip(base::CodeWriter& out, const package::EpilogueProgram& program, const PhaseText& phase, bool asks);

// Copies, phase_0 and end_0 of the epilogue. `wanted`: plan::copies_of the program.
void print_copies(base::CodeWriter& out, const package::EpilogueProgram& program, const package::GpuGemmConfig& config,
                  const plan::Copies& wanted, const PhaseText& phase);
// columns_0 of the same, where columns are reduced: what the warps of a band have left in shared memory.
void print_columns(base::CodeWriter& out, const package::EpilogueProgram& program, const package::GpuGemmConfig& config,
                   const PhaseText& phase);

}  // namespace codetta::emit
