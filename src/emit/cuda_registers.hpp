// SPDX-License-Identifier: Apache-2.0
// Phase 0 where it finds its accumulators in registers: strips of them, whose elements threads load and store
// themselves, and those of sm_90a whose matrices come and go by the copy engine.
#pragma once

#include "base/code_writer.hpp"
#include "emit/phase_printer.hpp"
#include "package/gpu_gemm.hpp"
#include "plan/copy_engine.hpp"
#include "plan/families_cuda.hpp"

namespace codetta::emit {

// strip_0 of the epilogue, for a program of one store a position (plan::takes_registers).
void print_strip(base::CodeWriter& out, const package::EpilogueProgram& program, const PhaseText& phase, bool asks);

// Copies, phase_0 and end_0 of the epilogue. `wanted`: plan::copies_of the program. `load_slots`: of the kernel, which
// may have several such programs; `first_map`: where the tensor maps of these copies begin. Returns columns of a strip,
// by 16.
int print_copies(base::CodeWriter& out, const package::EpilogueProgram& program, const package::GpuGemmConfig& config,
                 const plan::Copies& wanted, int load_slots, size_t first_map, const PhaseText& phase);
// Copies of several such programs of one kernel: the slots that they share.
void print_slots(base::CodeWriter& out, const plan::CopySlots& slots, int load_slots);
// columns_0 of the same, where columns are reduced: what the warps of a band have left in shared memory.
void print_columns(base::CodeWriter& out, const package::EpilogueProgram& program, const package::GpuGemmConfig& config,
                   const PhaseText& phase);

}  // namespace codetta::emit
