// SPDX-License-Identifier: Apache-2.0
// Layout ops: they move no data, they only change where a root element lies.
#include <algorithm>

#include <fmt/format.h>

#include "ir/reshape.hpp"
#include "plan/lowering.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Axis;
using types::Op;

// Of one dim.
Result<int64_t> Lowering::size_of(NodeId node, size_t d) const {
  const Dim& dim = graph_.type(node).shape[d];
  if (const auto size = dim.as_constant()) return *size;
  std::string help = "give the dims that are reshaped, split or joined constant sizes";
  if (graph_.node(node).op == Op::split) {
    std::string before;
    for (size_t i = 0; i < d; ++i) before += ":, ";
    help += fmt::format(", or take parts of x by slices: x[{0}:{1}] and x[{0}{1}:({1}) * 2] are the first two", before,
                        dim.to_string());
  }
  return reject(diag::Code::symbolic_layout, node, "a layout op over a symbolic size cannot be fused")
      .reason(fmt::format("{} has the symbolic size {}", ir::to_string(graph_.type(node)), dim.to_string()))
      .help(std::move(help));
}

Result<void> Lowering::need_constant_sizes(NodeId node) const {
  for (size_t d = 0; d < graph_.type(node).shape.size(); ++d) CODETTA_CHECK_OK(size_of(node, d));
  return {};
}

namespace {

// The position in a segment, in elements.
Index position(const Location& at, const std::vector<Dim>& shape, const std::vector<size_t>& dims) {
  Index sum;
  Dim stride = Dim::constant(1);
  for (size_t k = dims.size(); k-- > 0;) {
    sum = sum + scaled(at[dims[k]], stride);
    stride = stride * shape[dims[k]];
  }
  return sum;
}

// A bit for each axis that decides about the place.
unsigned axes_of(const Location& at) {
  unsigned axes = 0;
  for (const Index& index : at) {
    for (const IndexTerm& term : index.terms) axes |= 1u << static_cast<unsigned>(term.axis);
  }
  return axes;
}

// Of a value without elements, whose places nobody reads: it varies with every axis that `at` does.
Location anywhere(const Location& at, const std::vector<Dim>& shape) {
  Location result(shape.size());
  const auto nothing = std::find(shape.begin(), shape.end(), Dim::constant(0));
  Index& index = result[static_cast<size_t>(nothing - shape.begin())];
  for (const Axis axis : {Axis::Batch, Axis::Row, Axis::Col}) {
    if ((axes_of(at) >> static_cast<unsigned>(axis) & 1) != 0) index = index + Index::axis(axis, 0);
  }
  return result;
}

Location permuted(const Location& at, const std::vector<int32_t>& order) {
  Location result;
  for (int32_t from : order) result.push_back(at[static_cast<size_t>(from)]);
  return result;
}
}  // namespace

std::optional<Division> Lowering::divided(const Index& index, const Dim& size) const {
  if (const auto constant = size.as_constant()) return divide(index, *constant);
  // Of multiples of the size there is a quotient; what is left has to be the whole axis of that size.
  if (index.constant != 0 || index.is_shifted()) return std::nullopt;
  Division result;
  for (const IndexTerm& term : index.terms) {
    const auto times = exact_quotient(term.factor * Dim::constant(term.coef), size);
    const bool whole = term.coef == 1 && !term.is_scaled() && term.div == 1 && term.mod == 0 &&
                       extents_[static_cast<size_t>(term.axis)] == size;
    if (!times && (!whole || !result.remainder.terms.empty())) return std::nullopt;
    Index one;
    one.terms.push_back(term);
    if (!times) {
      result.remainder = one;
      continue;
    }
    one.terms[0].coef = 1;
    one.terms[0].factor = Dim::constant(1);
    result.quotient = result.quotient + scaled(one, *times);
  }
  return result;
}

std::optional<Location> Lowering::reshaped(const Location& at, const std::vector<Dim>& shape,
                                           const std::vector<Dim>& from, bool contiguous) const {
  // Where there is no element, arithmetic tells no dims apart, and may lose an axis.
  if (std::find(from.begin(), from.end(), Dim::constant(0)) != from.end()) {
    auto same = reshaped_elements(at, shape, from, true);
    return same && axes_of(*same) == axes_of(at) ? std::move(same) : anywhere(at, from);
  }
  return reshaped_elements(at, shape, from, contiguous);
}

std::optional<Location> Lowering::reshaped_elements(const Location& at, const std::vector<Dim>& shape,
                                                    const std::vector<Dim>& from, bool contiguous) const {
  Location result(from.size());
  bool constant = true, any = false;
  const auto sizes_of = [&](const std::vector<Dim>& dims) {
    std::vector<int64_t> sizes;
    for (const Dim& dim : dims) {
      constant = constant && dim.is_constant();
      any = any || !(dim == Dim::constant(1));
      sizes.push_back(dim.as_constant().value_or(0));
    }
    return sizes;
  };
  const std::vector<int64_t> to_sizes = sizes_of(shape), from_sizes = sizes_of(from);
  if (constant) {
    auto exact = delinearize(linearize(at, to_sizes), from_sizes);
    if (exact || !contiguous) return exact;
  }
  const std::vector<ir::ReshapeSegment> segments = ir::reshape_segments(shape, from);
  if (any && segments.empty()) return std::nullopt;
  for (const ir::ReshapeSegment& segment : segments) {
    if (segment.to.size() == 1 && segment.from.size() == 1) {
      result[segment.from[0]] = at[segment.to[0]];
      continue;
    }
    const Index index = position(at, shape, segment.to);
    if (segment.from.size() == 1) {
      result[segment.from[0]] = index;
      continue;
    }
    // Dim by dim from the right, as long as divisions have an answer.
    Index rest = index;
    bool exact = true;
    Location parts(segment.from.size());
    for (size_t k = segment.from.size(); k-- > 1 && exact;) {
      const auto division = divided(rest, from[segment.from[k]]);
      exact = division.has_value();
      if (!exact) break;
      parts[k] = division->remainder;
      rest = division->quotient;
    }
    parts[0] = rest;
    if (exact) {
      for (size_t k = 0; k < parts.size(); ++k) result[segment.from[k]] = parts[k];
      continue;
    }
    if (!contiguous) return std::nullopt;
    const auto base = ir::step_of(segment, from);
    if (!base) return std::nullopt;
    Dim step = Dim::constant(1);
    for (size_t d = segment.from.back() + 1; d <= *base; ++d) step = step * from[d];
    result[*base] = result[*base] + scaled(index, step);
  }
  return result;
}

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
      // Where its elements were followed from the operand's they are known, though no division tells.
      const auto &here = at_.of(node), &there = at_.of(operand);
      if (here && there && *here == at) return *there;
      const auto leaf = leaf_of(operand);
      const bool contiguous = leaf && scope_.leaves[*leaf].layout.contiguous;
      auto result = reshaped(at, graph_.type(node).shape, graph_.type(operand).shape, contiguous);
      if (!result) {
        CODETTA_CHECK_OK(need_constant_sizes(node));
        CODETTA_CHECK_OK(need_constant_sizes(operand));
        return reject(diag::Code::index_terms, node, "this reshape cannot be followed by index arithmetic")
            .reason("its dims cut across the dims of the value that it meets")
            .help("reshape along boundaries of the original dims, or bind a reshaped tensor");
      }
      return *std::move(result);
    }
    case Op::slice: {
      const auto& slice = graph_.attr_as<ir::SliceAttr>(node);
      Location result = at;
      const auto d = static_cast<size_t>(slice.dim);
      if (at[d].value && slice.step != 1) {
        return reject(diag::Code::operand_join, node, "a part of a join is needed at places that values decide")
            .reason(fmt::format("the slice takes every {}th element", slice.step))
            .help("store the part beforehand");
      }
      result[d] = scaled(result[d], slice.step) + Index::of(slice.start);
      return result;
    }
    case Op::split: {
      const auto& split = graph_.attr_as<ir::SplitAttr>(node);
      Location result = at;
      const auto d = static_cast<size_t>(split.dim);
      // A size that is no multiple of the number of parts would lose its last elements.
      if (!exact_quotient(graph_.type(operand).shape[d], Dim::constant(split.ways))) CODETTA_CHECK_OK(size_of(node, d));
      result[d] = result[d] + Index::of(graph_.type(node).shape[d] * Dim::constant(split.part));
      return result;
    }
    default:
      return broadcast_location(at, graph_.type(operand).shape);
  }
}

// All splits of accumulator values must cut the columns in the same way; this finds how.
Result<void> Lowering::find_split() {
  ByNode<std::optional<Location>> at;
  const auto splits = [&](NodeId node) { return graph_.node(node).op == Op::split && dependent(node); };
  if (std::none_of(inside_.begin(), inside_.end(), splits)) return {};
  at[*matmul_] = root_at_;
  for (NodeId product : scope_.more_products) at[product] = root_at_;
  for (const NodeId node : inside_) {
    if (is_product(node) || !dependent(node)) continue;
    std::optional<NodeId> from;
    for (NodeId operand : graph_.operands(node)) {
      const bool same_rank = graph_.type(operand).shape == graph_.type(node).shape;
      const bool is_layout = types::op_info(graph_.node(node).op).rule == types::OpRule::layout;
      if (!from && dependent(operand) && at.of(operand) && (same_rank || is_layout)) from = operand;
    }
    if (!from) continue;
    const Location& source = *at.of(*from);
    switch (graph_.node(node).op) {
      case Op::permute:
        at[node] = permuted(source, graph_.attr_as<ir::PermuteAttr>(node).order);
        break;
      case Op::reshape: {
        at[node] = reshaped(source, graph_.type(*from).shape, graph_.type(node).shape, false);
        break;
      }
      case Op::split: {
        const auto& split = graph_.attr_as<ir::SplitAttr>(node);
        const auto d = static_cast<size_t>(split.dim);
        CODETTA_TRY(const int64_t part, size_of(node, d));
        const Index& index = source[d];
        const bool columns = index.constant == 0 && !index.is_symbolic() && index.terms.size() == 1 &&
                             index.terms[0].coef == 1 && index.terms[0].axis == Axis::Col;
        // Without columns any chunk will do.
        const int64_t chunk = columns ? std::max<int64_t>(1, part * index.terms[0].div) : 0;
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
        at[node] = source;
    }
  }
  return {};
}

Result<void> Lowering::lower_layout(NodeId node) {
  const auto operands = graph_.operands(node);
  auto& result = instances_[node];
  const Op op = graph_.node(node).op;
  if (op == Op::slice || op == Op::broadcast) {
    return reject(diag::Code::position_conflict, node, "a part or a repetition of the accumulator is no epilogue")
        .reason(fmt::format("{} of {}", types::op_info(op).name, ir::to_string(graph_.type(operands[0]))))
        .help("store the accumulator, and take its parts in a second step");
  }
  if (op == Op::join) {
    const auto& join = graph_.attr_as<ir::JoinAttr>(node);
    const auto d = static_cast<size_t>(join.dim);
    int64_t offset = 0;
    for (size_t part = 0; part < operands.size(); ++part) {
      CODETTA_TRY(const int64_t size, size_of(operands[part], d));
      std::vector<Instance> parts = instances_[operands[part]];
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
      offset += size;
    }
    return {};
  }
  const auto& sources = instances_[operands[0]];
  for (size_t i = 0; i < sources.size(); ++i) {
    const Instance& instance = sources[i];
    Instance moved = instance;
    if (op == Op::permute) {
      moved.at = permuted(instance.at, graph_.attr_as<ir::PermuteAttr>(node).order);
    } else if (op == Op::reshape) {
      auto at = reshaped(instance.at, graph_.type(operands[0]).shape, graph_.type(node).shape, false);
      if (!at) {
        CODETTA_CHECK_OK(need_constant_sizes(node));
        CODETTA_CHECK_OK(need_constant_sizes(operands[0]));
        return reject(diag::Code::index_terms, node, "this reshape cannot be followed by index arithmetic")
            .reason("its dims cut across the dims of the accumulator")
            .help("reshape along boundaries of the original dims, or bind a reshaped output view");
      }
      moved.at = *std::move(at);
    } else {  // split: keep the instances that lie in this part
      const auto& split = graph_.attr_as<ir::SplitAttr>(node);
      const auto d = static_cast<size_t>(split.dim);
      CODETTA_TRY(const int64_t size, size_of(node, d));
      if (size == 0) {  // no element to find a part for
        moved.at[d] = root(0);
        if (i == static_cast<size_t>(split.part) % sources.size()) result.push_back(std::move(moved));
        continue;
      }
      const auto maximum = moved.at[d].maximum();
      const int64_t minimum = moved.at[d].constant;
      const int64_t begin = split.part * size;
      if (!maximum) {
        return reject(diag::Code::split_unsupported, node, "this split cannot be fused")
            .reason("the range of its index is not known")
            .help("split along columns, in one way per epilogue");
      }
      if (*maximum < begin || minimum >= begin + size) continue;
      if (minimum < begin || *maximum >= begin + size) {
        return reject(diag::Code::split_unsupported, node, "this split cuts through the parts of another")
            .reason(
                fmt::format("indices {} to {} against a part of {} to {}", minimum, *maximum, begin, begin + size - 1))
            .help("split along columns, in one way per epilogue");
      }
      moved.at[d].constant -= begin;
    }
    result.push_back(std::move(moved));
  }
  return {};
}

}  // namespace codetta::plan
