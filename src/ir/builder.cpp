// SPDX-License-Identifier: Apache-2.0
// GraphBuilder: inference, weak values, interning.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "base/text.hpp"
#include "ir/analyses.hpp"
#include "ir/graph.hpp"
#include "ir/hashing.hpp"
#include "ir/infer.hpp"
#include "ir/literals.hpp"
#include "ir/print.hpp"
#include "ir/report.hpp"
#include "ir/verify.hpp"
#include "types/dtype.hpp"

namespace codetta::ir {
namespace {

using types::OpRule;

// Where a kind of attribute stands in Attr.
template <class A, size_t Index = 0>
constexpr size_t index_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<Index, Attr>, A>) {
    return Index;
  } else {
    return index_of<A, Index + 1>();
  }
}

// The attribute that an op of the table must have.
size_t attr_index(Op op) {
  switch (types::op_info(op).rule) {
    case OpRule::special:
      return op == Op::input ? index_of<InputAttr>() : index_of<LiteralAttr>();
    case OpRule::index:
      return index_of<ReshapeAttr>();
    case OpRule::cast:
      return index_of<CastAttr>();
    case OpRule::reduce:
      return index_of<ReduceAttr>();
    case OpRule::matmul:
      return index_of<MatmulAttr>();
    case OpRule::layout:
      if (op == Op::permute) return index_of<PermuteAttr>();
      if (op == Op::reshape || op == Op::broadcast) return index_of<ReshapeAttr>();
      if (op == Op::slice) return index_of<SliceAttr>();
      return op == Op::split ? index_of<SplitAttr>() : index_of<JoinAttr>();
    case OpRule::indexed:
      if (op == Op::index_put) return index_of<IndexPutAttr>();
      return op == Op::scatter ? index_of<ScatterAttr>() : index_of<TakeAttr>();
    case OpRule::control:
      if (op == Op::cond) return index_of<CondAttr>();
      if (op == Op::size_value) return index_of<SizeAttr>();
      if (op == Op::to_device) return index_of<DeviceAttr>();
      return op == Op::while_loop ? index_of<WhileAttr>() : index_of<ResultAttr>();
    case OpRule::external:
      return op == Op::call_extern ? index_of<ExternAttr>() : index_of<UserKernelAttr>();
    default:
      return index_of<std::monostate>();
  }
}

// An integer that a double holds is written as a float where a float is meant, so that 2 and 2.0 are one literal there.
LiteralAttr as_written_for(LiteralAttr literal, DType dtype) {
  constexpr int64_t exact = int64_t{1} << 53;
  if (types::is_float(dtype) && literal.kind == LiteralAttr::Kind::Int && literal.i >= -exact && literal.i <= exact) {
    return {LiteralAttr::Kind::Float, 0, static_cast<double>(literal.i)};
  }
  return literal;
}

std::string plural(size_t count) { return fmt::format("{} operand{}", count, count == 1 ? "" : "s"); }

}  // namespace

MaybeComplaint check_form(const types::OpInfo& info, size_t operand_count, const Attr& attr) {
  const bool fits = info.arity < 0 ? operand_count >= 1 : operand_count == static_cast<size_t>(info.arity);
  if (!fits) {
    return Complaint{diag::Code::graph_node, fmt::format("{} has {}", info.name, plural(operand_count)),
                     info.arity < 0 ? "it takes one or more" : fmt::format("it takes {}", info.arity),
                     "give each operand once, in order", -1};
  }
  if (attr.index() != attr_index(info.op)) {
    return Complaint{diag::Code::graph_node, fmt::format("{} has an attribute of another op", info.name),
                     fmt::format("attribute kind {}, needed {}", attr.index(), attr_index(info.op)),
                     "pass the attribute that attr.hpp names for it", -1};
  }
  return std::nullopt;
}

// What interning remembers.
struct GraphBuilder::Tables {
  HashIndex nodes, types, attrs;
};

GraphBuilder::GraphBuilder(diag::SourceRef source) : tables_(std::make_unique<Tables>()) {
  graph_.source_ = std::move(source);
}
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&&) noexcept = default;
GraphBuilder::~GraphBuilder() = default;

const TensorType& GraphBuilder::type(NodeId id) const { return graph_.type(id); }
const Node& GraphBuilder::node(NodeId id) const { return graph_.node(id); }

NodeId GraphBuilder::intern(Op op, std::span<const NodeId> operands, Attr attr, TensorType type, diag::Span span,
                            std::string name) {
  const TypeId type_id(tables_->types.find_or_insert(hash_of(type), static_cast<uint32_t>(graph_.types_.size()),
                                                     [&](uint32_t i) { return graph_.types_[i] == type; }));
  if (type_id.index() == graph_.types_.size()) graph_.types_.push_back(std::move(type));
  const AttrId attr_id(tables_->attrs.find_or_insert(hash_of(attr), static_cast<uint32_t>(graph_.attrs_.size()),
                                                     [&](uint32_t i) { return graph_.attrs_[i] == attr; }));
  if (attr_id.index() == graph_.attrs_.size()) graph_.attrs_.push_back(std::move(attr));

  uint64_t hash = mix(mix(static_cast<uint64_t>(op), type_id.index()), attr_id.index());
  for (const NodeId operand : operands) hash = mix(hash, operand.index());
  const auto same = [&](uint32_t i) {
    const Node& other = graph_.nodes_[i];
    const std::span<const NodeId> others = graph_.operands(NodeId(i));
    return other.op == op && other.type == type_id && other.attr == attr_id &&
           std::equal(operands.begin(), operands.end(), others.begin(), others.end());
  };
  const NodeId id(tables_->nodes.find_or_insert(hash, static_cast<uint32_t>(graph_.nodes_.size()), same));
  if (id.index() < graph_.nodes_.size()) return id;
  const auto first = static_cast<uint32_t>(graph_.operand_pool_.size());
  graph_.operand_pool_.insert(graph_.operand_pool_.end(), operands.begin(), operands.end());
  graph_.nodes_.push_back({op, type_id, first, static_cast<uint32_t>(operands.size()), attr_id});
  graph_.spans_.push_back(span);
  graph_.names_.push_back(std::move(name));
  return id;
}

NodeId GraphBuilder::add_input(const Graph& graph, const GraphInput& input) {
  const NodeId id = add_input(input.name, graph.type(input.node), input.is_scalar, graph.span(input.node));
  graph_.inputs_.back().donated = input.donated;
  graph_.inputs_.back().device = input.device;
  return id;
}

void GraphBuilder::donate(NodeId input) {
  for (GraphInput& known : graph_.inputs_) known.donated = known.donated || known.node == input;
}

void GraphBuilder::lay_on(NodeId input, uint32_t device) {
  for (GraphInput& known : graph_.inputs_) {
    if (known.node == input) known.device = static_cast<uint8_t>(device);
  }
}

NodeId GraphBuilder::add_input(std::string name, TensorType type, bool is_scalar, diag::Span span) {
  const InputAttr attr{static_cast<uint32_t>(graph_.inputs_.size())};
  const NodeId id = intern(Op::input, {}, attr, std::move(type), span, name);
  graph_.inputs_.push_back({std::move(name), id, is_scalar});
  return id;
}

NodeId GraphBuilder::add_literal(LiteralAttr literal, diag::Span span) {
  const bool is_bool = literal.kind == LiteralAttr::Kind::Bool;
  const DType dtype = is_bool ? DType::boolean : literal.kind == LiteralAttr::Kind::Int ? DType::i64 : DType::f64;
  return intern(Op::literal, {}, literal, TensorType{dtype, !is_bool, {}}, span, {});
}

NodeId GraphBuilder::add_literal(LiteralAttr literal, DType dtype, diag::Span span) {
  if (literal.kind == LiteralAttr::Kind::Int && types::is_integer(dtype) &&
      !holds(dtype, literal.i)) {  // it wraps, as any integer that is cast
    const NodeId from[] = {intern(Op::literal, {}, literal, TensorType{DType::i64, false, {}}, span, {})};
    return intern(Op::cast, from, CastAttr{dtype}, TensorType{dtype, false, {}}, span, {});
  }
  return intern(Op::literal, {}, as_written_for(literal, dtype), TensorType{dtype, false, {}}, span, {});
}

NodeId GraphBuilder::add_unchecked(Op op, std::span<const NodeId> operands, Attr attr, TensorType type, diag::Span span,
                                   std::string name) {
  return intern(op, operands, std::move(attr), std::move(type), span, std::move(name));
}

void GraphBuilder::add_output(std::string name, NodeId node, DType dtype) {
  graph_.outputs_.push_back({std::move(name), node, dtype});
}

NodeId GraphBuilder::coerce(NodeId operand, DType dtype) {
  if (!type(operand).weak) return operand;
  const diag::Span span = graph_.span(operand);
  if (node(operand).op == Op::literal) return add_literal(graph_.attr_as<LiteralAttr>(operand), dtype, span);
  TensorType cast{dtype, false, type(operand).shape};
  const NodeId from[] = {operand};
  return intern(Op::cast, from, CastAttr{dtype}, std::move(cast), span, {});
}

namespace {

// A float of the text that its type would have as an infinity: it is said instead, as of numbers that are bound.
MaybeComplaint beyond_type(const LiteralAttr* literal, DType dtype, size_t operand) {
  constexpr double first_inf = 0x1.ffffffp127;  // halfway to 2^128: from here on f32 rounds to infinity
  const bool beyond = literal != nullptr && literal->kind == LiteralAttr::Kind::Float && std::isfinite(literal->f) &&
                      dtype == DType::f32 && std::abs(literal->f) >= first_inf;
  if (!beyond) return std::nullopt;
  return Complaint{
      diag::Code::number_overflow, "float does not fit",
      fmt::format("{} meets f32 here, whose largest number is 3.40282347e+38", base::format_real(literal->f)),
      fmt::format("write {} for infinity, or compute in f64: cast(x, f64)", literal->f < 0 ? "-inf" : "inf"),
      static_cast<int>(operand)};
}

}  // namespace

NodeId GraphBuilder::fold_weak(Op op, std::span<const NodeId> operands, diag::Span span) {
  const LiteralAttr* literals[3] = {};
  if (operands.empty() || operands.size() > std::size(literals)) return {};
  for (size_t i = 0; i < operands.size(); ++i) {
    if (node(operands[i]).op != Op::literal) return {};
    literals[i] = &graph_.attr_as<LiteralAttr>(operands[i]);
    // A bool has one type from the start.
    if (!type(operands[i]).weak && literals[i]->kind != LiteralAttr::Kind::Bool) return {};
  }
  const std::optional<LiteralAttr> value = fold_literals(op, std::span(literals).first(operands.size()));
  return value ? add_literal(*value, span) : NodeId();
}

Result<NodeId> GraphBuilder::add(Op op, std::span<const NodeId> operands, Attr attr, diag::Span span, std::string name,
                                 std::span<const diag::Span> written) {
  const types::OpInfo& info = types::op_info(op);
  for (const NodeId operand : operands) {
    if (operand.index() < graph_.size()) continue;
    const Complaint foreign{
        diag::Code::graph_node, fmt::format("an operand of {} is not a node of this graph", info.name),
        fmt::format("the graph has {} nodes", graph_.size()), "use the ids that this builder returned", -1};
    return located(graph_, foreign, op, {}, attr, span, {});
  }
  if (const MaybeComplaint complaint = check_form(info, operands.size(), attr))
    return located(graph_, *complaint, op, operands, attr, span, written);
  if (const NodeId literal = fold_weak(op, operands, span); literal.valid()) return literal;

  std::vector<OperandFacts> facts;
  facts.reserve(operands.size());
  for (const NodeId operand : operands)
    facts.push_back({&type(operand), std::get_if<LiteralAttr>(&graph_.attr(operand)), &graph_.attr(operand)});
  const auto names = [&](size_t i) { return display_name(graph_, operands[i]); };
  Inference inference = infer(op, facts, attr, names);
  if (const auto* complaint = std::get_if<Complaint>(&inference))
    return located(graph_, *complaint, op, operands, attr, span, written);
  if (const MaybeComplaint complaint = check_written(op, facts))
    return located(graph_, *complaint, op, operands, attr, span, written);
  auto& inferred = *std::get_if<Inferred>(&inference);
  if (!inferred.joins)
    return intern(op, operands, std::move(inferred.attr), std::move(inferred.type), span, std::move(name));

  std::vector<NodeId> typed(operands.begin(), operands.end());
  for (size_t i = 0; i < typed.size(); ++i) {
    DType dtype = inferred.compute;
    if (op == Op::dropout && i > 0) dtype = i == 1 ? DType::f32 : DType::i64;
    if (info.rule == OpRule::indexed && i == 1) dtype = DType::i64;
    if (type(typed[i]).weak) {
      // Of the graph as it is: what the operands in front were converted to may have moved the facts.
      const auto* literal = std::get_if<LiteralAttr>(&graph_.attr(typed[i]));
      if (const MaybeComplaint complaint = beyond_type(literal, dtype, i))
        return located(graph_, *complaint, op, operands, attr, span, written);
    }
    typed[i] = coerce(typed[i], dtype);
  }
  return intern(op, typed, std::move(inferred.attr), std::move(inferred.type), span, std::move(name));
}

Result<Graph> GraphBuilder::finish() && {
  if (graph_.outputs_.empty()) {
    const PrintedGraph printed = print_with_lines(graph_);
    return diag::error(diag::Code::graph_outputs, "the graph has no outputs")
        .at(graph_.source_ ? graph_.source_ : printed.text, {})
        .reason(fmt::format("{} nodes, none of them needed", graph_.size()))
        .help("call add_output for each result");
  }
  constexpr uint32_t unseen = UINT32_MAX;
  const SizeSources sizes = size_sources(graph_);
  std::vector<uint32_t> number(graph_.size(), unseen);
  std::vector<NodeId> order;
  order.reserve(graph_.size());
  const auto place = [&](NodeId id) {
    number[id.index()] = static_cast<uint32_t>(order.size());
    order.push_back(id);
  };
  for (const GraphInput& input : graph_.inputs_) place(input.node);
  struct Visit {
    NodeId node;
    uint32_t next = 0;
  };
  std::vector<Visit> stack;
  for (const GraphOutput& output : graph_.outputs_) {
    if (number[output.node.index()] == unseen) stack.push_back({output.node});
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next < sizes.count(graph_, visit.node)) {
        const NodeId operand = sizes.at(graph_, visit.node, visit.next++);
        if (number[operand.index()] == unseen) stack.push_back({operand});
      } else {
        if (number[visit.node.index()] == unseen) place(visit.node);
        stack.pop_back();
      }
    }
  }

  Graph out;
  std::vector<TypeId> types(graph_.types_.size());
  std::vector<AttrId> attrs(graph_.attrs_.size());
  out.nodes_.reserve(order.size());
  out.operand_pool_.reserve(graph_.operand_pool_.size());
  for (const NodeId id : order) {
    Node node = graph_.node(id);
    const std::span<const NodeId> operands = graph_.operands(id);
    if (!types[node.type.index()].valid()) {
      types[node.type.index()] = TypeId(out.types_.size());
      out.types_.push_back(graph_.type(id));
    }
    if (!attrs[node.attr.index()].valid()) {
      attrs[node.attr.index()] = AttrId(out.attrs_.size());
      out.attrs_.push_back(graph_.attr(id));
    }
    node.type = types[node.type.index()];
    node.attr = attrs[node.attr.index()];
    node.first_operand = static_cast<uint32_t>(out.operand_pool_.size());
    for (const NodeId operand : operands) out.operand_pool_.push_back(NodeId(number[operand.index()]));
    out.nodes_.push_back(node);
    out.spans_.push_back(graph_.span(id));
    out.names_.push_back(std::move(graph_.names_[id.index()]));
  }
  out.inputs_ = std::move(graph_.inputs_);
  out.outputs_ = std::move(graph_.outputs_);
  for (GraphInput& input : out.inputs_) input.node = NodeId(number[input.node.index()]);
  for (GraphOutput& output : out.outputs_) output.node = NodeId(number[output.node.index()]);
  out.source_ = std::move(graph_.source_);
  graph_ = Graph();
  tables_ = std::make_unique<Tables>();
  return out;
}

}  // namespace codetta::ir
