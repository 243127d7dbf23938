// SPDX-License-Identifier: Apache-2.0
// What a kernel that may begin before the kernel in front of it ends does too soon, found in its PTX.
#pragma once

#include <string>
#include <string_view>

namespace codetta::cuda_compile {

// Whether an instruction (its text without the indentation, a predicate in front) reads or writes global memory, or
// may: an address without a state space counts. Prefetches do not, nor parameters, constants, shared and local memory.
bool touches_memory(std::string_view instruction);

// What the entries do too soon; empty if nothing. They wait in several branches where warps have tasks of their own:
// what is looked at is the text up to the first of an entry.
std::string too_soon(std::string_view ptx);

}  // namespace codetta::cuda_compile
