// SPDX-License-Identifier: Apache-2.0
// How the CPU engine calls an epilogue: what follows from its program alone, for execution in process and for emitted
// host text alike.
#pragma once

#include "package/epilogue_program.hpp"

namespace codetta::package {

// Whether the epilogue does nothing but store the accumulators, unchanged, row by row: the engine writes the result
// itself.
bool only_stores(const EpilogueProgram& program);

// Whether the epilogue may take batch items for further rows, one after the other: nothing in it knows of either, and
// what varies with the item varies with the row.
bool rows_fold(const EpilogueProgram& program);
inline constexpr int32_t max_folded_operands = 32;

// What a phase is called over; see runtime/cpu/gemm.hpp. The numbers are those of the engine's interface
// (device/host/engine.h).
enum class CpuSpace : uint8_t { Tiles, Rows, Columns, Once };
CpuSpace space_of(const EpilogueProgram& program, size_t phase);

}  // namespace codetta::package
