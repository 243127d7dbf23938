// SPDX-License-Identifier: Apache-2.0
// Calls of kernels of the user's taken out of a planned program: each as a program of its own, and what the program
// computes in front of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codetta/tensor.hpp"
#include "driver/size_sets.hpp"
#include "ir/graph.hpp"
#include "plan/plan.hpp"

namespace codetta::driver {

struct UserCall {
  struct Operand {
    std::string name;  // in the graphs below
    DType dtype = DType::f32;
    Dims shape;
    std::string parameter{};                   // of the program, which it is
    std::optional<ir::LiteralAttr> literal{};  // or the number of the text that it holds
  };
  size_t kernel = 0;  // in the plan
  // The call over its operands as inputs. Symbols stay where an operand binds them, so that as much is known of sizes
  // as in the program; other sizes are numbers.
  ir::Graph alone;
  SizeHints sizes;                // of those symbols
  std::vector<Operand> operands;  // its inputs; those that are neither parameters nor literals are computed
  std::vector<Operand> results;   // its outputs
  // The same, but of every result that has dims no element is an output: nothing is copied to where the caller wants
  // it. (A GPU still makes the copy's launch, over nothing.)
  ir::Graph unread;
  std::vector<Operand> unread_results;
  // With the operands that are computed as outputs, by name; nothing where there are none, or where the call stands in
  // a branch or a loop.
  std::optional<ir::Graph> in_front;
};

// Of every kernel of the plan that has several configurations; `graph` is what was planned. Symbols have the values of
// `sizes`; nothing is told of a call whose sizes are then not known. Errors: those of building graphs.
Result<std::vector<UserCall>> user_calls(const plan::Plan& plan, const ir::Graph& graph, const SizeHints& sizes);

// What an operand holds that is neither given nor computed: the number of the text, or random numbers. Integers among
// these are indices of the smallest dim that the call has, since they may be indices of any. Errors: E0606.
Result<Tensor> contents_of(const UserCall& call, const UserCall::Operand& operand, uint64_t seed, Allocator& allocator);

}  // namespace codetta::driver
