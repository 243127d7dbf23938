// SPDX-License-Identifier: Apache-2.0
#include "frontend/typing.hpp"

#include "types/dtype.hpp"

namespace codetta::frontend {

Typing::Typing(const ir::Function& function, std::span<const ir::TensorType> parameters)
    : graph_(function.source), binder_(function, graph_, {}) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ir::Parameter& parameter = function.parameters[i];
    const bool number = parameter.type && parameter.type->is_scalar;
    binder_.set(ir::ValueId(i), graph_.add_input(parameter.name, parameters[i], number, parameter.span));
  }
}

Result<ir::TensorType> Typing::type(ir::ValueId value) {
  CODETTA_CHECK_OK(binder_.run());
  CODETTA_TRY(const ir::NodeId node, binder_.node(value));
  return graph_.type(node);
}

Result<ir::TensorType> Typing::passed(ir::ValueId value) {
  CODETTA_TRY(ir::TensorType is, type(value));
  CODETTA_TRY(const ir::NodeId node, binder_.node(value));
  if (is.weak) is.dtype = ir::default_dtype(graph_, node);
  is.weak = false;
  return is;
}

}  // namespace codetta::frontend
