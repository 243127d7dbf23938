// SPDX-License-Identifier: Apache-2.0
// Loops of the tape interpreter: each runs one instruction, copy, conversion or fold over up to a block of lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codetta/tensor.hpp"
#include "package/epilogue_program.hpp"
#include "types/op.hpp"

namespace codetta::runtime::cpu::tape {

// dst and the sources never overlap.
using Kernel = void (*)(std::byte* dst, const std::byte* const* sources, int64_t lanes);

// The op on operands of `dtype` (for where: of the branches; comparisons write bool). nullptr: the op has no such form.
Kernel op_kernel(types::Op op, DType dtype);

// values -> one partial (LogSumExp, SumExp: a pair of max and sum); `first`: the partial holds nothing yet.
using Fold = void (*)(std::byte* partial, const std::byte* values, int64_t lanes, bool first);
Fold fold_across(package::ReduceKind kind, DType dtype);
// One partial per lane.
Fold fold_lanes(package::ReduceKind kind, DType dtype);

// Element `i` from or to `memory` + (offsets != null ? offsets[i] : i * stride) elements of `size` bytes.
void gather(std::byte* dst, const std::byte* memory, int64_t size, int64_t stride, const int64_t* offsets,
            int64_t lanes);
void scatter(const std::byte* src, std::byte* memory, int64_t size, int64_t stride, const int64_t* offsets,
             int64_t lanes);
// All lanes = lane 0.
void splat(std::byte* values, int64_t size, int64_t lanes);

// As `cast` does, and as a store does (floats to integers: nearest even). `scratch` holds lanes * 8 bytes.
void convert_cast(const std::byte* src, DType from, std::byte* dst, DType to, int64_t lanes);
void convert_store(const std::byte* src, DType from, std::byte* dst, DType to, int64_t lanes, std::byte* scratch);

}  // namespace codetta::runtime::cpu::tape
