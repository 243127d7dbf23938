// SPDX-License-Identifier: Apache-2.0
// Graph: access, equality, hash; equality and hash of attributes and types.
#include "ir/graph.hpp"

#include <algorithm>
#include <bit>

#include "ir/hashing.hpp"

namespace codetta::ir {

bool LiteralAttr::operator==(const LiteralAttr& o) const {
  if (kind != o.kind) return false;
  return kind == Kind::Float ? std::bit_cast<uint64_t>(f) == std::bit_cast<uint64_t>(o.f) : i == o.i;
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
  uint64_t operator()(const ReshapeAttr& a) const { return hash_of_shape(0, a.shape); }
  uint64_t operator()(const SplitAttr& a) const {
    return mix(mix(static_cast<uint64_t>(a.ways), static_cast<uint64_t>(a.part)), static_cast<uint64_t>(a.dim));
  }
  uint64_t operator()(const JoinAttr& a) const { return mix(static_cast<uint64_t>(a.dim), a.interleave ? 1 : 0); }
  uint64_t operator()(const MatmulAttr& a) const { return static_cast<uint64_t>(a.accumulator); }
  uint64_t operator()(const InputAttr& a) const { return a.parameter; }
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
    return a.name == b.name && a.node == b.node && a.is_scalar == b.is_scalar;
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
  for (const GraphInput& input : inputs_) hash = mix(mix(hash, hash_of(input.name)), input.is_scalar ? 1 : 0);
  for (const GraphOutput& output : outputs_) {
    hash = mix(mix(mix(hash, hash_of(output.name)), output.node.index()), static_cast<uint64_t>(output.dtype));
  }
  return hash;
}

}  // namespace codetta::ir
