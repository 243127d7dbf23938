// SPDX-License-Identifier: Apache-2.0
#include "driver/user_calls.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "codetta/fill.hpp"
#include "driver/program_arguments.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::driver {

namespace {

using types::Op;

// Nothing where they are not known.
std::optional<Dims> shape_of(const ir::TensorType& type, const SizeHints& sizes) {
  Dims shape;
  for (const ir::Dim& dim : type.shape) {
    const auto value = dim.evaluate(sizes);
    if (!value || *value < 0) return std::nullopt;
    shape.push_back(*value);
  }
  return shape;
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Dims keep their symbols where all of them are `bound`, and are numbers elsewhere.
ir::TensorType over_symbols(ir::TensorType type, const std::vector<std::string>& bound, const SizeHints& sizes) {
  for (ir::Dim& dim : type.shape) {
    const auto symbols = dim.symbols();
    const bool known =
        std::all_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) { return holds(bound, symbol); });
    if (!known) dim = ir::Dim::constant(*dim.evaluate(sizes));
  }
  type.weak = false;
  return type;
}

// What the graph computes of these nodes; nothing is donated, for the caller keeps its tensors.
Result<ir::Graph> up_to(const ir::Graph& graph, const std::vector<std::pair<ir::NodeId, std::string>>& outputs) {
  ir::GraphBuilder builder(graph.source());
  std::vector<ir::NodeId> now(graph.size());
  for (const ir::GraphInput& input : graph.inputs()) {
    now[input.node.index()] =
        builder.add_input(input.name, graph.type(input.node), input.is_scalar, graph.span(input.node));
    builder.lay_on(now[input.node.index()], input.device);
  }
  for (uint32_t n = 0; n < graph.size(); ++n) {
    const ir::NodeId node(n);
    if (graph.node(node).op == Op::input) continue;
    std::vector<ir::NodeId> operands;
    for (const ir::NodeId operand : graph.operands(node)) operands.push_back(now[operand.index()]);
    now[n] = builder.add_unchecked(graph.node(node).op, operands, graph.attr(node), graph.type(node), graph.span(node),
                                   graph.name_hint(node));
  }
  for (const auto& [node, name] : outputs) builder.add_output(name, now[node.index()], graph.type(node).dtype);
  return std::move(builder).finish();
}

// Parameters keep their names, by which errors tell of them.
std::string name_beside(const ir::Graph& graph, std::string name) {
  const auto taken = [&](const ir::GraphInput& input) { return input.name == name; };
  while (std::any_of(graph.inputs().begin(), graph.inputs().end(), taken)) name += '_';
  return name;
}

// The call over `inputs`, by the nodes that they stand for.
struct CallText {
  struct Input {
    ir::NodeId of;
    std::string name;
    ir::TensorType type;
    bool number = false;
  };
  std::vector<Input> inputs;
  std::vector<size_t> operands;  // inputs, in the order of the call
  ir::UserKernelAttr attr;
  diag::SourceRef source;
  diag::Span span;
};

Result<ir::Graph> alone(const CallText& call, const ir::Graph& whole, bool read, const SizeHints& sizes,
                        std::vector<UserCall::Operand>& results) {
  ir::GraphBuilder builder(call.source);
  std::vector<ir::NodeId> inputs, operands;
  for (const CallText::Input& input : call.inputs)
    inputs.push_back(builder.add_input(input.name, input.type, input.number));
  for (const size_t i : call.operands) operands.push_back(inputs[i]);
  const std::vector<ir::TensorType>& types = call.attr.results;
  const ir::NodeId made = builder.add_unchecked(Op::user_kernel, operands, call.attr, types[0], call.span);
  for (size_t r = 0; r < types.size(); ++r) {
    ir::NodeId result = r == 0 ? made
                               : builder.add_unchecked(Op::result, std::vector<ir::NodeId>{made},
                                                       ir::ResultAttr{static_cast<int32_t>(r)}, types[r]);
    if (!read && !types[r].shape.empty()) {
      const ir::SliceAttr none{.dim = 0, .start = ir::Dim::constant(0), .count = ir::Dim::constant(0)};
      CODETTA_TRY(result, builder.add(Op::slice, std::vector<ir::NodeId>{result}, none));
    }
    const std::string name = name_beside(whole, fmt::format("result_{}", r));
    builder.add_output(name, result, types[r].dtype);
    results.push_back({name, types[r].dtype, *shape_of(builder.type(result), sizes)});
  }
  return std::move(builder).finish();
}

}  // namespace

Result<std::vector<UserCall>> user_calls(const plan::Plan& plan, const ir::Graph& whole, const SizeHints& sizes) {
  std::vector<UserCall> calls;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const plan::PlannedKernel& kernel = plan.kernels[k];
    if (!kernel.user || kernel.discovery.candidates.size() < 2) continue;
    const bool outermost = kernel.region.graph == nullptr;
    const ir::Graph& graph = outermost ? whole : *kernel.region.graph;
    const ir::NodeId node = kernel.region.matmul;
    CallText text;
    text.attr = graph.attr_as<ir::UserKernelAttr>(node);
    text.source = graph.source();
    text.span = graph.span(node);
    bool known = true;
    for (const ir::TensorType& result : text.attr.results) known = known && shape_of(result, sizes);
    UserCall call;
    call.kernel = k;
    std::vector<std::pair<ir::NodeId, std::string>> computed;
    for (const ir::NodeId operand : graph.operands(node)) {
      const auto seen = std::find_if(text.inputs.begin(), text.inputs.end(),
                                     [&](const CallText::Input& input) { return input.of == operand; });
      text.operands.push_back(static_cast<size_t>(seen - text.inputs.begin()));
      if (seen != text.inputs.end()) continue;
      const ir::TensorType& type = graph.type(operand);
      const auto shape = shape_of(type, sizes);
      known = known && shape;
      if (!known) break;
      UserCall::Operand one{name_beside(whole, fmt::format("operand_{}", text.inputs.size())), type.dtype, *shape};
      bool number = false;
      if (const auto* literal = std::get_if<ir::LiteralAttr>(&graph.attr(operand))) {
        one.literal = *literal;
      } else if (outermost && graph.node(operand).op == Op::input) {
        const auto at = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                                     [&](const ir::GraphInput& input) { return input.node == operand; });
        one.name = one.parameter = at->name;
        number = at->is_scalar;
      } else if (outermost) {
        computed.emplace_back(operand, one.name);
      }
      text.inputs.push_back({operand, one.name, type, number});
      call.operands.push_back(std::move(one));
    }
    if (!known) continue;
    std::vector<std::string> bound;
    for (const CallText::Input& input : text.inputs) {
      for (const ir::Dim& dim : input.type.shape) {
        if (dim.as_symbol()) bound.emplace_back(*dim.as_symbol());
      }
    }
    for (const auto& size : sizes) {
      if (holds(bound, size.first)) call.sizes.push_back(size);
    }
    for (CallText::Input& input : text.inputs) input.type = over_symbols(std::move(input.type), bound, sizes);
    for (ir::TensorType& result : text.attr.results) result = over_symbols(std::move(result), bound, sizes);
    CODETTA_TRY(call.alone, alone(text, whole, true, sizes, call.results));
    CODETTA_TRY(call.unread, alone(text, whole, false, sizes, call.unread_results));
    if (!computed.empty()) {
      CODETTA_TRY(call.in_front, up_to(graph, computed));
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

Result<Tensor> contents_of(const UserCall& call, const UserCall::Operand& operand, uint64_t seed,
                           Allocator& allocator) {
  CODETTA_TRY(Tensor made, Tensor::make(operand.dtype, operand.shape, allocator));
  if (!operand.literal) {
    int64_t least = 0;
    for (const auto* list : {&call.operands, &call.results}) {
      for (const UserCall::Operand& one : *list) {
        for (int d = 0; d < one.shape.rank(); ++d) {
          const int64_t size = one.shape[d];
          if (size > 0 && (least == 0 || size < least)) least = size;
        }
      }
    }
    fill_random(made.view(), seed);
    if (least > 0) wrap_integers(made.view(), least);
    return made;
  }
  const bool real = operand.literal->kind == ir::LiteralAttr::Kind::Float;
  if (types::is_float(operand.dtype)) {
    types::store_f64(made.data(), operand.dtype, real ? operand.literal->f : static_cast<double>(operand.literal->i));
  } else {
    types::store_i64(made.data(), operand.dtype, operand.literal->i);
  }
  return made;
}

}  // namespace codetta::driver
