// SPDX-License-Identifier: Apache-2.0
// What compute nodes call: functors of CUTLASS where they mean what docs/semantics.md says, else small structs of our
// own that are printed beside the tree.
#pragma once

#include <set>
#include <string>

#include "codetta/tensor.hpp"
#include "emit/evt/nodes.hpp"
#include "types/op.hpp"

namespace codetta::emit::evt {

// The name of the function that an element-wise op is in a type: "add", "relu", "floordiv_int".
std::string function_for(types::Op op, DType type);
// Of what reduces in memory, of 32 or 64 bits. `by_each_lane`: all lanes of a warp call it with what is the warp's.
std::string atomic_function(ReduceFunction reduce, DType type, bool by_each_lane);
// The template's name in the emitted text: "cutlass::plus", "codetta_evt::relu".
std::string functor_name(const std::string& function);
// The definitions of those that are ours, with what they need; empty when none is.
std::string functor_text(const std::set<std::string>& functions);

// C++ texts of values: 0, and the identity of a largest (or, `of_min`, of a smallest) value.
std::string zero_text(DType type);
std::string limit_text(DType type, bool of_min);

}  // namespace codetta::emit::evt
