// SPDX-License-Identifier: Apache-2.0
// Host steps that are kernels on a GPU: writes at indices, fills, copies of strided views, checks of contents. A
// package carries one kernel for all of them (device/gpu/kernels/steps.h), which no step names.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "package/package.hpp"

namespace codetta::package {

// How the names of its entries begin, which is what marks it. Entry `i` is that of StepEntry in device/gpu/step_abi.h,
// which says what it gets instead of Params.
inline constexpr std::string_view step_symbol = "codetta_step_";

// Whether every byte of `bits` in this dtype is the same, so that memory can be set byte by byte.
bool one_byte(DType dtype, uint64_t bits);
// Whether the package has steps that are launches of that kernel on a GPU, whatever its tensors are bound to; without
// `contents` checks of contents are none.
bool needs_steps_kernel(const Package& package, bool contents = true);
// Which of the package's kernels it is; nothing: the package has none.
std::optional<uint32_t> steps_kernel(const Package& package);
bool is_steps_kernel(const Kernel& kernel);

// By device of the package, and kernel: whether one of its steps launches it there. A child list has the device of the
// step that it is of.
std::vector<std::vector<bool>> launched_on(const Package& package);

}  // namespace codetta::package
