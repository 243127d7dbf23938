// SPDX-License-Identifier: Apache-2.0
// Results that a kernel of the user's hands over element by element: which one its source declares, and what an
// epilogue behind it may be.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "plan/lower.hpp"
#include "plan/plan.hpp"

namespace codetta::plan {

// Whether a source in C++ mentions Hook<...>, be it of another of its kernels, and has no type of its own called so.
bool has_hooks(const UserSource& source);

// Which parameter of the function, counted over the operands and results of a call, is a hook: in C++ the one of type
// Hook<T, rank>, in CUDA C++ and HIP the one that a clause hook(name) names. None: the source has no hook.
// Errors, at their place in the source: E0231 for several hooks, a hook that is an operand or of another type than its
// result, a parameter that is one by another name, a clause that names no result; E0228 for a parameter with a name
// that means something else there.
Result<std::optional<size_t>> hooked_parameter(const UserSource& source, size_t operands,
                                               const std::vector<ir::TensorType>& results);

// How sources of the user's call an element type: "float", "int64_t", "bfloat16".
std::string_view user_element_type(DType dtype);

// Why the program cannot run at single elements, if so: it has more than what a kernel does with one.
std::optional<Rejection> hook_obstacle(const package::EpilogueProgram& program);

// Lets an empty program store what is handed over to its last argument: row-major, of the same type.
void add_plain_store(package::EpilogueProgram& program, const ir::TensorType& type);

// For each dim of a hooked result: its size, or an argument of the kernel that has it. The program's arguments are
// those of the kernel. Nothing where no argument has one of them.
std::optional<std::vector<UserHook::Size>> hooked_sizes(const std::vector<types::Dim>& shape,
                                                        const std::vector<package::Argument>& arguments);

// The strides of an operand, by their place in device/gpu/abi.h's Operand: of an affine one the axes that it has, of
// another one its terms.
struct HookStride {
  size_t place = 0;
  std::vector<size_t> terms;
};
std::vector<HookStride> hook_strides(const package::Operand& operand);
// What a kernel for a GPU is passed behind the epilogue's arguments: the result's sizes, then of each operand where it
// begins (if it is not the tensor's first element) and its strides. `stride`: of a dim of an argument, counted from the
// last, in elements.
std::vector<types::Dim> hook_numbers(const package::EpilogueProgram& program, const UserHook& hook,
                                     const std::function<types::Dim(size_t argument, size_t from_last)>& stride);

}  // namespace codetta::plan
