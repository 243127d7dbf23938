// SPDX-License-Identifier: Apache-2.0
// bind_program: a program's values typed by its declared parameters.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <set>

#include "ir/analyses.hpp"
#include "ir/bind.hpp"
#include "ir/bind_values.hpp"
#include "ir/devices.hpp"
#include "ir/input_sources.hpp"

namespace codetta::ir {
namespace {

// Whether a size can say the number of elements, and of bytes: passes merge dims and kernels multiply those that they
// know, whatever a 0 beside them makes of it.
bool is_countable(const std::vector<Dim>& shape) {
  Dim bytes = Dim::constant(sizeof(int64_t));
  for (const Dim& dim : shape) {
    if (dim != Dim::constant(0)) bytes = bytes * dim;
  }
  return bytes.fault() == types::DimFault::none;
}

// Sizes multiply to a size. Every symbol must be in a dim of some parameter that gives it a value when the program runs
// (types::symbol_sources), or come from a value.
Result<void> check_sizes(const ProgramFunction& function, const Graph& graph) {
  std::set<std::string, std::less<>> bound;
  for (const types::SymbolSource& source : input_sources(graph)) bound.insert(source.symbol);
  const auto check = [&](const TensorType& type, diag::Span span) -> Result<void> {
    if (!is_countable(type.shape)) {
      return diag::error(diag::Code::tensor_overflow, fmt::format("the extent of {} overflows", to_string(type)))
          .at(function.source, span)
          .reason("its sizes multiply to more than 64 bits count, or to more terms than a size has")
          .help("use smaller sizes");
    }
    for (const Dim& dim : type.shape) {
      if (dim.is_constant()) continue;
      for (const std::string& symbol : dim.symbols()) {
        if (bound.contains(symbol)) continue;
        return diag::error(diag::Code::symbol_unbound, fmt::format("symbol {} has no value", symbol))
            .at(function.source, span, to_string(type))
            .reason(fmt::format("no parameter has a dim of {0} alone, as {0}, 2*{0} or {0} + 1 are", symbol))
            .help(fmt::format("declare a parameter with that size, such as x: f32[\"{}\", 64]", symbol));
      }
    }
    return {};
  };
  std::vector<const Graph*> graphs{&graph};
  while (!graphs.empty()) {
    const Graph& next = *graphs.back();
    graphs.pop_back();
    // No two graphs give a value to one symbol, and what leaves a branch or a loop has none of its own.
    for (const SizeSource& source : size_sources(next).sources) bound.insert(source.symbol);
    for (size_t i = 0; i < next.size(); ++i) {
      const NodeId id(i);
      const bool parameter = &next == &graph && next.node(id).op == Op::input;
      const diag::Span span = parameter ? function.parameters[i].type->span : next.span(id);
      for (const TensorType& type : results_of(next, id)) CODETTA_CHECK_OK(check(type, span));
      for (const GraphRef& child : children(next.attr(id))) graphs.push_back(child.get());
    }
  }
  return {};
}

}  // namespace

Result<Graph> bind_program(const ProgramFunction& function) {
  GraphBuilder builder(function.source);
  ValueBinder binder(function, builder, {});
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const Parameter& parameter = function.parameters[i];
    if (!parameter.type) {
      return diag::error(diag::Code::parameter_type, fmt::format("parameter {} has no type", parameter.name))
          .at(function.source, parameter.span)
          .reason("shapes and dtypes of a program follow from its parameters")
          .help(fmt::format("write {}: f32[\"m\", 64], with the sizes that it has", parameter.name));
    }
    TensorType type{parameter.type->dtype, false, parameter.type->shape};
    for (const Dim& dim : type.shape) {
      if (dim.fault() == types::DimFault::none && dim.as_constant().value_or(0) >= 0) continue;
      return diag::error(diag::Code::parameter_type,
                         fmt::format("parameter {} has the size {}", parameter.name, dim.to_string()))
          .at(function.source, parameter.type->span)
          .reason("sizes are 0 or more")
          .help("write a size that a tensor can have");
    }
    if (type.shape.size() > static_cast<size_t>(max_rank)) {
      return diag::error(diag::Code::parameter_type,
                         fmt::format("parameter {} has {} dims", parameter.name, type.shape.size()))
          .at(function.source, parameter.type->span)
          .reason(fmt::format("a tensor has at most {}", max_rank))
          .help("use fewer dims");
    }
    const NodeId node = builder.add_input(parameter.name, std::move(type), parameter.type->is_scalar, parameter.span);
    if (parameter.type->donated) builder.donate(node);
    binder.set(ValueId(i), node);
  }
  CODETTA_CHECK_OK(binder.run());
  for (const Output& output : function.outputs) {
    CODETTA_TRY(const NodeId node, binder.node(output.value));
    const TensorType& type = builder.type(node);
    const Parameter* given = node.index() < function.parameters.size() ? &function.parameters[node.index()] : nullptr;
    if (given != nullptr && given->type->donated) {
      return diag::error(diag::Code::donated_returned, fmt::format("donated {} is returned as it is", given->name))
          .at(function.source, output.span)
          .reason(fmt::format("its memory is given up, and {} needs its contents until the end", output.name))
          .help(fmt::format("don't donate {}, or leave it out of the results: the caller has it", given->name));
    }
    if (type.weak) {
      return diag::error(diag::Code::output_constant, fmt::format("output '{}' is a constant", output.name))
          .at(function.source, output.span)
          .reason("it depends on no parameter")
          .help("compute it from a parameter");
    }
    builder.add_output(output.name, node, type.dtype);
  }
  CODETTA_TRY(Graph graph, std::move(builder).finish());
  CODETTA_CHECK_OK(check_sizes(function, graph));
  return placed(std::move(graph));
}

}  // namespace codetta::ir
