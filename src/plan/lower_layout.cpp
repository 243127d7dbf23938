// SPDX-License-Identifier: Apache-2.0
// Layout ops: they move no data, they only change where a root element lies.
#include <algorithm>

#include <fmt/format.h>

#include "plan/lowering.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Axis;
using types::Op;

Result<std::vector<int64_t>> Lowering::sizes(NodeId node) const {
  std::vector<int64_t> result;
  for (const Dim& dim : graph_.type(node).shape) {
    const auto size = dim.as_constant();
    if (!size) {
      return reject(diag::Code::symbolic_layout, node, "a layout op over a symbolic size cannot be fused")
          .reason(fmt::format("{} has the symbolic size {}", ir::to_string(graph_.type(node)), dim.to_string()))
          .help("give the dims that are reshaped, split or joined constant sizes");
    }
    result.push_back(*size);
  }
  return result;
}

namespace {
Location permuted(const Location& at, const std::vector<int32_t>& order) {
  Location result;
  for (int32_t from : order) result.push_back(at[static_cast<size_t>(from)]);
  return result;
}
}  // namespace

// Where operand i of an accumulator-independent node is needed when the node is needed at `at`.
Result<Location> Lowering::operand_location(NodeId node, size_t i, const Location& at) {
  const NodeId operand = graph_.operands(node)[i];
  switch (graph_.node(node).op) {
    case Op::permute: {
      const auto& order = graph_.attr_as<ir::PermuteAttr>(node).order;
      Location result(at.size());
      for (size_t d = 0; d < order.size(); ++d) result[static_cast<size_t>(order[d])] = at[d];
      return result;
    }
    case Op::reshape: {
      CODETTA_TRY(const std::vector<int64_t> to, sizes(node));
      CODETTA_TRY(const std::vector<int64_t> from, sizes(operand));
      auto result = delinearize(linearize(at, to), from);
      if (!result) {
        return reject(diag::Code::index_terms, node, "this reshape cannot be followed by index arithmetic")
            .reason("its dims cut across the dims of the value that it meets")
            .help("reshape along boundaries of the original dims, or bind a reshaped tensor");
      }
      return *std::move(result);
    }
    case Op::split: {
      const auto& split = graph_.attr_as<ir::SplitAttr>(node);
      CODETTA_TRY(const std::vector<int64_t> to, sizes(node));
      Location result = at;
      const auto d = static_cast<size_t>(split.dim);
      result[d] = result[d] + Index::of(split.part * to[d]);
      return result;
    }
    default:
      return broadcast_location(at, graph_.type(operand).shape);
  }
}

// All splits of accumulator values must cut the columns in the same way; this finds how.
Result<void> Lowering::find_split() {
  std::vector<std::optional<Location>> at(graph_.size());
  const auto& accumulator = graph_.type(matmul_).shape;
  bool any = false;
  for (size_t i = 0; i < graph_.size(); ++i) any |= graph_.node(NodeId(i)).op == Op::split && dependent(NodeId(i));
  if (!any) return {};
  Location start;
  for (size_t d = 0; d < accumulator.size(); ++d) start.push_back(root(accumulator.size() - 1 - d));
  at[matmul_.index()] = std::move(start);
  for (size_t i = 0; i < graph_.size(); ++i) {
    const NodeId node(i);
    if (node == matmul_ || !dependent(node)) continue;
    std::optional<NodeId> from;
    for (NodeId operand : graph_.operands(node)) {
      const bool same_rank = graph_.type(operand).shape == graph_.type(node).shape;
      const bool is_layout = types::op_info(graph_.node(node).op).rule == types::OpRule::layout;
      if (!from && dependent(operand) && at[operand.index()] && (same_rank || is_layout)) from = operand;
    }
    if (!from) continue;
    const Location& source = *at[from->index()];
    switch (graph_.node(node).op) {
      case Op::permute:
        at[i] = permuted(source, graph_.attr_as<ir::PermuteAttr>(node).order);
        break;
      case Op::reshape: {
        CODETTA_TRY(const std::vector<int64_t> before, sizes(*from));
        CODETTA_TRY(const std::vector<int64_t> after, sizes(node));
        at[i] = delinearize(linearize(source, before), after);
        break;
      }
      case Op::split: {
        const auto& split = graph_.attr_as<ir::SplitAttr>(node);
        CODETTA_TRY(const std::vector<int64_t> part, sizes(node));
        const auto d = static_cast<size_t>(split.dim);
        const Index& index = source[d];
        const bool columns = index.constant == 0 && index.terms.size() == 1 && index.terms[0].coef == 1 &&
                             index.terms[0].axis == Axis::Col;
        // Without columns any chunk will do.
        const int64_t chunk = columns ? std::max<int64_t>(1, part[d] * index.terms[0].div) : 0;
        if (!columns || (ways_ != 1 && (ways_ != split.ways || chunk_ != chunk))) {
          return reject(diag::Code::split_unsupported, node, "this split cannot be fused")
              .reason(
                  columns
                      ? fmt::format("the epilogue already splits columns in {} parts by chunks of {}", ways_, chunk_)
                      : "only columns of the accumulator (dim -1, or a part of it after a reshape) can be split")
              .help("split along columns, in one way per epilogue");
        }
        ways_ = split.ways;
        chunk_ = chunk;
        break;
      }
      case Op::join:
      case Op::reduce_sum:
      case Op::reduce_max:
      case Op::reduce_min:
      case Op::reduce_mean:
      case Op::reduce_amax:
      case Op::reduce_sum_of_squares:
      case Op::reduce_logsumexp:
        break;
      default:
        at[i] = source;
    }
  }
  return {};
}

Result<void> Lowering::lower_layout(NodeId node) {
  const auto operands = graph_.operands(node);
  auto& result = instances_[node.index()];
  const Op op = graph_.node(node).op;
  if (op == Op::join) {
    const auto& join = graph_.attr_as<ir::JoinAttr>(node);
    const auto d = static_cast<size_t>(join.dim);
    int64_t offset = 0;
    for (size_t part = 0; part < operands.size(); ++part) {
      CODETTA_TRY(const std::vector<int64_t> size, sizes(operands[part]));
      std::vector<Instance> parts = instances_[operands[part].index()];
      if (!dependent(operands[part])) {
        CODETTA_TRY(Location at, plain_location(operands[part]));
        CODETTA_TRY(const ValueRef value, value_at(operands[part], at));
        parts.push_back({std::move(at), value});
      }
      for (Instance instance : parts) {
        instance.at[d] = join.interleave ? scaled(instance.at[d], static_cast<int64_t>(operands.size())) +
                                               Index::of(static_cast<int64_t>(part))
                                         : instance.at[d] + Index::of(offset);
        instance.value = recorder_.convert(instance.value, register_type(node));
        result.push_back(std::move(instance));
      }
      offset += size[d];
    }
    return {};
  }
  const auto& sources = instances_[operands[0].index()];
  for (size_t i = 0; i < sources.size(); ++i) {
    const Instance& instance = sources[i];
    Instance moved = instance;
    if (op == Op::permute) {
      moved.at = permuted(instance.at, graph_.attr_as<ir::PermuteAttr>(node).order);
    } else if (op == Op::reshape) {
      CODETTA_TRY(const std::vector<int64_t> before, sizes(operands[0]));
      CODETTA_TRY(const std::vector<int64_t> after, sizes(node));
      auto at = delinearize(linearize(instance.at, before), after);
      if (!at) {
        return reject(diag::Code::index_terms, node, "this reshape cannot be followed by index arithmetic")
            .reason("its dims cut across the dims of the accumulator")
            .help("reshape along boundaries of the original dims, or bind a reshaped output view");
      }
      moved.at = *std::move(at);
    } else {  // split: keep the instances that lie in this part
      const auto& split = graph_.attr_as<ir::SplitAttr>(node);
      CODETTA_TRY(const std::vector<int64_t> size, sizes(node));
      const auto d = static_cast<size_t>(split.dim);
      if (size[d] == 0) {  // no element to find a part for
        moved.at[d] = root(0);
        if (i == static_cast<size_t>(split.part) % sources.size()) result.push_back(std::move(moved));
        continue;
      }
      const auto maximum = moved.at[d].maximum();
      const int64_t minimum = moved.at[d].constant;
      const int64_t begin = split.part * size[d];
      if (!maximum) {
        return reject(diag::Code::split_unsupported, node, "this split cannot be fused")
            .reason("the range of its index is not known")
            .help("split along columns, in one way per epilogue");
      }
      if (*maximum < begin || minimum >= begin + size[d]) continue;
      if (minimum < begin || *maximum >= begin + size[d]) {
        return reject(diag::Code::split_unsupported, node, "this split cuts through the parts of another")
            .reason(fmt::format("indices {} to {} against a part of {} to {}", minimum, *maximum, begin,
                                begin + size[d] - 1))
            .help("split along columns, in one way per epilogue");
      }
      moved.at[d].constant -= begin;
    }
    result.push_back(std::move(moved));
  }
  return {};
}

}  // namespace codetta::plan
