// SPDX-License-Identifier: Apache-2.0
// What a GPU's launch passes to a kernel (Params of device/gpu/abi.h), of which every driver takes 4,096 bytes.
#pragma once

#include <string>

#include "device/gpu/abi.h"
#include "device/host/gpu_plan.h"
#include "package/epilogue_program.hpp"

namespace codetta::plan {

// Without the problem and the tensor maps of A, of the first B and of copied operands, in bytes.
int64_t parameter_bytes(const package::EpilogueProgram& program);
// That they are more than `free`, and what they consist of.
std::string too_many_parameters(const package::EpilogueProgram& program, int64_t free);
// What of a launch's parameters is free for them.
constexpr int64_t free_parameter_bytes(size_t maps) {
  return codetta::gpu::host::most_parameter_bytes -
         static_cast<int64_t>(sizeof(codetta::gpu::Problem) + maps * sizeof(codetta::gpu::TensorMap));
}

}  // namespace codetta::plan
