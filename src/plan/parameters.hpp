// SPDX-License-Identifier: Apache-2.0
// What a GPU's launch passes to a kernel, of which every driver takes 4,096 bytes.
#pragma once

#include "device/gpu/abi.h"
#include "package/epilogue_program.hpp"

namespace codetta::plan {

// For operands, arguments and reductions, in bytes; the problem and the tensor maps come on top.
inline int64_t parameter_bytes(const package::EpilogueProgram& program) {
  return static_cast<int64_t>(program.operands.size() * sizeof(codetta::gpu::Operand) +
                              program.arguments.size() * sizeof(codetta::gpu::ScalarValue) +
                              program.reductions.size() * sizeof(codetta::gpu::ReductionBuffers));
}
// Where there are maps of A and B alone.
inline constexpr auto most_parameter_bytes =
    static_cast<int64_t>(4096 - sizeof(codetta::gpu::Problem) - 2 * sizeof(codetta::gpu::TensorMap));

}  // namespace codetta::plan
