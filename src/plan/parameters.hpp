// SPDX-License-Identifier: Apache-2.0
// What a GPU's launch passes to a kernel (Params of device/gpu/abi.h), of which every driver takes 4,096 bytes.
#pragma once

#include <algorithm>

#include "device/gpu/abi.h"
#include "device/host/gpu_plan.h"
#include "package/epilogue_program.hpp"

namespace codetta::plan {

// Without the problem and the tensor maps of A, of the first B and of copied operands, in bytes.
inline int64_t parameter_bytes(const package::EpilogueProgram& program) {
  // One of each lies there even where there are none; further products have a map for their B.
  const auto times = [](size_t count, size_t bytes) { return std::max<size_t>(count, 1) * bytes; };
  return static_cast<int64_t>(times(program.operands.size(), sizeof(codetta::gpu::Operand)) +
                              times(program.arguments.size(), sizeof(codetta::gpu::ScalarValue)) +
                              times(program.reductions.size(), sizeof(codetta::gpu::ReductionBuffers)) +
                              static_cast<size_t>(program.split.products - 1) * sizeof(codetta::gpu::TensorMap));
}
// What of a launch's parameters is free for them.
constexpr int64_t free_parameter_bytes(size_t maps) {
  return codetta::gpu::host::most_parameter_bytes -
         static_cast<int64_t>(sizeof(codetta::gpu::Problem) + maps * sizeof(codetta::gpu::TensorMap));
}

}  // namespace codetta::plan
