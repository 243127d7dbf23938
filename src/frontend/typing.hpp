// SPDX-License-Identifier: Apache-2.0
// Types of the values that a program's text has made so far, as binding the whole program will give them: functions
// that are called check theirs, and give sizes names by them, while the text is read.
#pragma once

#include <span>

#include "ir/bind_values.hpp"
#include "ir/function.hpp"
#include "ir/graph.hpp"

namespace codetta::frontend {

class Typing {
 public:
  // `function` stays where it is, and grows behind its parameters; `parameters` are their types.
  Typing(const ir::Function& function, std::span<const ir::TensorType> parameters);

  // The error that binding the program ends with, where an operation up to the value is wrong.
  Result<ir::TensorType> type(ir::ValueId value);
  // The same as a branch or a loop takes it: what is made of literals alone has a type there.
  Result<ir::TensorType> passed(ir::ValueId value);

 private:
  ir::GraphBuilder graph_;
  ir::ValueBinder binder_;
};

}  // namespace codetta::frontend
