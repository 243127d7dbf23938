// SPDX-License-Identifier: Apache-2.0
// The fully fused form of a CPU kernel (device/cpu/fused.h): what it can do, as plan/ ranks it and emit/ prints it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "codetta/target.hpp"
#include "package/epilogue_program.hpp"

namespace codetta::plan {

// The register block of a pair of operand dtypes on an instruction-set level.
struct FusedBlock {
  std::string_view multiply;  // the micro-kernel's name in device/cpu/fused.h
  int mr = 6, nr = 64;        // rows and columns; B is packed in panels of nr columns
  int group = 1;              // elements of k that lie together in a panel: [k / group][nr][group]
  DType accumulator = DType::f32;
  CpuIsa packed_isa = CpuIsa::avx2;  // whose packed layout of B it reads
};
std::optional<FusedBlock> fused_block(CpuIsa isa, DType a, DType b);

// Why this form cannot be had: reductions, splits, several phases, 64-bit values, operand dtypes or an ISA without a
// micro-kernel. Empty if it can.
std::string fused_obstacle(const package::EpilogueProgram& program, CpuIsa isa, DType a, DType b);

// Any 64-bit value in the program: vectors then have half as many lanes.
bool has_wide_values(const package::EpilogueProgram& program);

}  // namespace codetta::plan
