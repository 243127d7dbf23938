// SPDX-License-Identifier: Apache-2.0
// Graph: access, equality, hash; equality and hash of attributes and types.
#include "ir/graph.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "ir/function.hpp"
#include "ir/hashing.hpp"

namespace codetta::ir {

bool LiteralAttr::operator==(const LiteralAttr& o) const {
  if (kind != o.kind) return false;
  return kind == Kind::Float ? std::bit_cast<uint64_t>(f) == std::bit_cast<uint64_t>(o.f) : i == o.i;
}

namespace {
bool same(const GraphRef& a, const GraphRef& b) { return a == b || (a && b && *a == *b); }
bool same(const FunctionRef& a, const FunctionRef& b) { return a == b || (a && b && same_body(*a, *b)); }
}  // namespace

bool CondAttr::operator==(const CondAttr& o) const {
  return same(then, o.then) && same(otherwise, o.otherwise) && same(then_function, o.then_function) &&
         same(otherwise_function, o.otherwise_function);
}
bool WhileAttr::operator==(const WhileAttr& o) const {
  return same(condition, o.condition) && same(body, o.body) && same(condition_function, o.condition_function) &&
         same(body_function, o.body_function);
}

std::vector<GraphRef> children(const Attr& attr) {
  std::vector<GraphRef> out;
  if (const auto* branches = std::get_if<CondAttr>(&attr)) out = {branches->then, branches->otherwise};
  if (const auto* loop = std::get_if<WhileAttr>(&attr)) out = {loop->condition, loop->body};
  std::erase(out, nullptr);
  return out;
}

std::vector<TensorType> result_types(const Attr& attr) {
  if (const auto* external = std::get_if<ExternAttr>(&attr)) return external->results;
  if (const auto* kernel = std::get_if<UserKernelAttr>(&attr)) return kernel->results;
  std::vector<TensorType> types;
  const auto outputs = [&](const GraphRef& graph) {
    if (!graph) return;
    for (const GraphOutput& output : graph->outputs()) types.push_back(graph->type(output.node));
  };
  if (const auto* branches = std::get_if<CondAttr>(&attr)) outputs(branches->then);
  if (const auto* loop = std::get_if<WhileAttr>(&attr)) outputs(loop->body);
  return types;
}

std::vector<std::string> symbols_of(const Attr& attr) {
  std::set<std::string> symbols;
  const auto add = [&](const std::vector<Dim>& dims) {
    for (const Dim& dim : dims) {
      if (dim.is_constant()) continue;
      for (std::string& symbol : dim.symbols()) symbols.insert(std::move(symbol));
    }
  };
  if (const auto* reshape = std::get_if<ReshapeAttr>(&attr)) add(reshape->shape);
  if (const auto* slice = std::get_if<SliceAttr>(&attr)) add({slice->start, slice->count});
  const auto* external = std::get_if<ExternAttr>(&attr);
  const auto* kernel = std::get_if<UserKernelAttr>(&attr);
  if (external != nullptr || kernel != nullptr) {
    for (const TensorType& type : external != nullptr ? external->results : kernel->results) add(type.shape);
  }
  return {symbols.begin(), symbols.end()};
}

std::vector<TensorType> results_of(const Graph& graph, NodeId node) {
  std::vector<TensorType> types = result_types(graph.attr(node));
  if (types.empty()) types.push_back(graph.type(node));
  return types;
}

uint64_t hash_of(std::string_view text) {
  uint64_t hash = text.size();
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

uint64_t hash_of(const Dim& dim) {
  const std::optional<int64_t> value = dim.as_constant();
  return value ? mix(1, static_cast<uint64_t>(*value)) : hash_of(dim.to_string());
}

namespace {

uint64_t hash_of_shape(uint64_t hash, const std::vector<Dim>& shape) {
  hash = mix(hash, shape.size());
  for (const Dim& dim : shape) hash = mix(hash, hash_of(dim));
  return hash;
}

uint64_t hash_of_numbers(uint64_t hash, const std::vector<int32_t>& numbers) {
  hash = mix(hash, numbers.size());
  for (const int32_t number : numbers) hash = mix(hash, static_cast<uint64_t>(number));
  return hash;
}

struct AttrHash {
  uint64_t operator()(std::monostate) const { return 0; }
  uint64_t operator()(const LiteralAttr& a) const {
    const bool is_float = a.kind == LiteralAttr::Kind::Float;
    return mix(static_cast<uint64_t>(a.kind), is_float ? std::bit_cast<uint64_t>(a.f) : static_cast<uint64_t>(a.i));
  }
  uint64_t operator()(const CastAttr& a) const { return static_cast<uint64_t>(a.dtype); }
  uint64_t operator()(const ReduceAttr& a) const { return hash_of_numbers(static_cast<uint64_t>(a.axis), a.dims); }
  uint64_t operator()(const PermuteAttr& a) const { return hash_of_numbers(0, a.order); }
  uint64_t operator()(const ReshapeAttr& a) const {
    return hash_of_numbers(hash_of_shape(static_cast<uint64_t>(a.form), a.shape), a.dims);
  }
  uint64_t operator()(const SplitAttr& a) const {
    return mix(mix(static_cast<uint64_t>(a.ways), static_cast<uint64_t>(a.part)), static_cast<uint64_t>(a.dim));
  }
  uint64_t operator()(const JoinAttr& a) const { return mix(static_cast<uint64_t>(a.dim), a.interleave ? 1 : 0); }
  uint64_t operator()(const MatmulAttr& a) const { return static_cast<uint64_t>(a.accumulator); }
  uint64_t operator()(const InputAttr& a) const { return a.parameter; }
  uint64_t operator()(const SliceAttr& a) const {
    uint64_t hash = mix(static_cast<uint64_t>(a.dim), static_cast<uint64_t>(a.bound));
    hash = mix(mix(hash, hash_of(a.start)), hash_of(a.count));
    return mix(hash, static_cast<uint64_t>(a.step) + (a.checked ? uint64_t{1} << 63 : 0));
  }
  uint64_t operator()(const TakeAttr& a) const { return static_cast<uint64_t>(a.dim); }
  uint64_t operator()(const IndexPutAttr& a) const { return mix(static_cast<uint64_t>(a.dim), a.accumulate ? 1 : 0); }
  uint64_t operator()(const ScatterAttr& a) const {
    return mix(static_cast<uint64_t>(a.dim), static_cast<uint64_t>(a.reduce));
  }
  uint64_t operator()(const CondAttr& a) const { return mix(of(a.then), of(a.otherwise)); }
  uint64_t operator()(const WhileAttr& a) const { return mix(of(a.condition), of(a.body)); }
  uint64_t operator()(const ResultAttr& a) const { return static_cast<uint64_t>(a.index); }
  uint64_t operator()(const ExternAttr& a) const {
    return of(a.results, mix(hash_of(a.symbol), static_cast<uint64_t>(a.form)));
  }
  uint64_t operator()(const UserKernelAttr& a) const { return of(a.results, hash_of(a.name)); }
  uint64_t operator()(const SizeAttr& a) const { return hash_of(a.symbol); }
  uint64_t operator()(const DeviceAttr& a) const { return a.device; }

 private:
  static uint64_t of(const GraphRef& graph) { return graph ? graph->hash() : 0; }
  static uint64_t of(const std::vector<TensorType>& types, uint64_t hash) {
    for (const TensorType& type : types) hash = mix(hash, hash_of(type));
    return hash;
  }
};

bool same_node(const Node& a, const Node& b) {
  return a.op == b.op && a.type == b.type && a.attr == b.attr && a.first_operand == b.first_operand &&
         a.operand_count == b.operand_count;
}

}  // namespace

uint64_t hash_of(const Attr& attr) { return mix(attr.index(), std::visit(AttrHash{}, attr)); }

uint64_t hash_of(const TensorType& type) {
  return hash_of_shape(mix(static_cast<uint64_t>(type.dtype), type.weak ? 1 : 0), type.shape);
}

std::string to_string(const TensorType& type) {
  std::string out = type.weak ? "weak " : "";
  out += dtype_name(type.dtype);
  return out + types::to_string(type.shape);
}

std::span<const NodeId> Graph::operands(NodeId id) const {
  const Node& n = node(id);
  return std::span<const NodeId>(operand_pool_).subspan(n.first_operand, n.operand_count);
}
const TensorType& Graph::type(NodeId id) const { return types_[node(id).type.index()]; }
const Attr& Graph::attr(NodeId id) const { return attrs_[node(id).attr.index()]; }
diag::Span Graph::span(NodeId id) const { return spans_[id.index()]; }
const std::string& Graph::name_hint(NodeId id) const { return names_[id.index()]; }

// Canonical numbering makes equal graphs equal store by store.
bool Graph::operator==(const Graph& other) const {
  const auto same_input = [](const GraphInput& a, const GraphInput& b) {
    return a.name == b.name && a.node == b.node && a.is_scalar == b.is_scalar && a.donated == b.donated &&
           a.device == b.device;
  };
  const auto same_output = [](const GraphOutput& a, const GraphOutput& b) {
    return a.name == b.name && a.node == b.node && a.dtype == b.dtype;
  };
  return std::equal(nodes_.begin(), nodes_.end(), other.nodes_.begin(), other.nodes_.end(), same_node) &&
         operand_pool_ == other.operand_pool_ && types_ == other.types_ && attrs_ == other.attrs_ &&
         std::equal(inputs_.begin(), inputs_.end(), other.inputs_.begin(), other.inputs_.end(), same_input) &&
         std::equal(outputs_.begin(), outputs_.end(), other.outputs_.begin(), other.outputs_.end(), same_output);
}

uint64_t Graph::hash() const {
  uint64_t hash = nodes_.size();
  for (const Node& node : nodes_) {
    hash = mix(mix(mix(hash, static_cast<uint64_t>(node.op)), node.type.index()), node.attr.index());
  }
  for (const NodeId operand : operand_pool_) hash = mix(hash, operand.index());
  for (const TensorType& type : types_) hash = mix(hash, hash_of(type));
  for (const Attr& attr : attrs_) hash = mix(hash, hash_of(attr));
  for (const GraphInput& input : inputs_)
    hash = mix(mix(hash, hash_of(input.name)),
               (input.is_scalar ? 1U : 0U) + (input.donated ? 2U : 0U) + 4U * input.device);
  for (const GraphOutput& output : outputs_) {
    hash = mix(mix(mix(hash, hash_of(output.name)), output.node.index()), static_cast<uint64_t>(output.dtype));
  }
  return hash;
}

}  // namespace codetta::ir
