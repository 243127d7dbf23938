// SPDX-License-Identifier: Apache-2.0
// Layout ops against element-wise ones: f(permute(x), permute(y)) = permute(f(x, y)), in the direction that leaves
// fewer of them. dropout and the index functions depend on the position and stay where they are.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/reshape.hpp"
#include "opt/rules.hpp"
#include "types/dtype.hpp"

namespace codetta::opt {
namespace {

bool moves_freely(Op op) {
  const types::OpInfo& info = types::op_info(op);
  return info.elementwise() && info.arity > 0 && op != Op::dropout;
}
bool is_scalar(RuleContext& x, NodeId id) { return x.type(id).shape.empty(); }

// permute(f(permute(x, p), ...), q): if moving q inwards meets permutes in at least half of the operands, it costs
// nothing, and what it meets composes.
Rewrite permute_through(const Candidate& n, RuleContext& x) {
  if (n.op != Op::permute || !moves_freely(x.op(n.operands[0]))) return {};
  const NodeId f = n.operands[0];
  const auto& order = std::get_if<ir::PermuteAttr>(&n.attr)->order;
  int meets = 0, others = 0;
  for (const NodeId operand : x.operands(f)) {
    if (is_scalar(x, operand)) continue;
    if (x.type(operand).shape.size() != order.size()) return {};
    ++(x.op(operand) == Op::permute ? meets : others);
  }
  if (meets == 0 || meets < others) return {};
  Candidate result{x.op(f), {}, {}, n.type};
  const std::vector<NodeId> operands(x.operands(f).begin(), x.operands(f).end());
  if (result.op == Op::cast) result.attr = ir::CastAttr{n.type.dtype};
  for (const NodeId operand : operands) {
    if (is_scalar(x, operand)) {
      result.operands.push_back(operand);
      continue;
    }
    ir::PermuteAttr attr{order};
    NodeId from = operand;
    ir::TensorType type = x.type(operand);
    if (x.op(operand) == Op::permute) {
      from = x.operand(operand);
      const auto& inner = x.attr<ir::PermuteAttr>(operand).order;
      for (int32_t& i : attr.order) i = inner[static_cast<size_t>(i)];
    }
    const std::vector<ir::Dim> shape = x.type(from).shape;
    bool identity = true;
    for (size_t i = 0; i < attr.order.size(); ++i) {
      type.shape[i] = shape[static_cast<size_t>(attr.order[i])];
      identity = identity && attr.order[i] == static_cast<int32_t>(i);
    }
    result.operands.push_back(identity ? from : x.add({Op::permute, {from}, std::move(attr), std::move(type)}));
  }
  return result;
}

// reshape(f(reshape(x), ...)) back to the shape of x: operands of one shape go back together.
Rewrite reshape_through(const Candidate& n, RuleContext& x) {
  if (n.op != Op::reshape || !moves_freely(x.op(n.operands[0]))) return {};
  if (!folds(n.type.shape)) return {};  // what has been merged so that a kernel has the axes for it
  const NodeId f = n.operands[0];
  int meets = 0, others = 0;
  for (const NodeId operand : x.operands(f)) {
    if (is_scalar(x, operand)) continue;
    if (!(x.type(operand).shape == x.type(f).shape)) return {};
    const bool back = x.op(operand) == Op::reshape && x.type(x.operand(operand)).shape == n.type.shape;
    ++(back ? meets : others);
  }
  if (meets == 0 || meets < others) return {};
  Candidate result{x.op(f), {}, {}, n.type};
  if (result.op == Op::cast) result.attr = ir::CastAttr{n.type.dtype};
  const std::vector<NodeId> operands(x.operands(f).begin(), x.operands(f).end());
  for (const NodeId operand : operands) {
    if (is_scalar(x, operand)) {
      result.operands.push_back(operand);
    } else if (x.op(operand) == Op::reshape && x.type(x.operand(operand)).shape == n.type.shape) {
      result.operands.push_back(x.operand(operand));
    } else {
      ir::TensorType type = x.type(operand);
      type.shape = n.type.shape;
      result.operands.push_back(x.add({Op::reshape, {operand}, n.attr, std::move(type)}));
    }
  }
  return result;
}

// Dims that other dims are made of, where no dim of them is known to have two elements, in whose steps all could be
// counted: they become one.
Rewrite reshape_mixed(const Candidate& n, RuleContext& x) {
  if (n.op != Op::reshape) return {};
  ir::TensorType type = x.type(n.operands[0]);
  const std::vector<ir::Dim> from = std::exchange(type.shape, {});
  std::vector<size_t> into(from.size());  // the dim that each becomes a part of
  for (size_t d = 0; d < from.size(); ++d) into[d] = d;
  for (const ir::ReshapeSegment& segment : ir::reshape_segments(n.type.shape, from)) {
    if (segment.to.size() < 2 || segment.from.size() < 2 || ir::step_of(segment, from)) continue;
    for (const size_t d : segment.from) into[d] = segment.from[0];
  }
  std::vector<ir::Dim> merged = from;
  for (size_t d = from.size(); d-- > 0;) {
    if (into[d] == d) {
      type.shape.insert(type.shape.begin(), merged[d]);
    } else {
      merged[into[d]] = merged[into[d]] * merged[d];
    }
  }
  if (type.shape.size() == from.size()) return {};
  const NodeId whole = x.add({Op::reshape, n.operands, ir::ReshapeAttr{type.shape}, type});
  return Candidate{Op::reshape, {whole}, n.attr, n.type};
}

constexpr Rule layout_table[] = {
    {"permute_through", "permute(f(permute(x, p), y), q) = f(permute(x, p[q]), permute(y, q))", permute_through},
    {"reshape_through", "reshape(f(reshape(x, s), y), shape of x) = f(x, reshape(y, shape of x))", reshape_through},
};

constexpr Rule mixed_dims_table[] = {
    {"reshape_mixed", "reshape(x, (n, m)) = reshape(reshape(x, (m*n,)), (n, m)), where x is (m, n)", reshape_mixed},
};

// The number of equal parts of which a slice takes one; 0: it does not.
int64_t parts_of(const ir::Graph& graph, NodeId id) {
  const auto* slice = std::get_if<ir::SliceAttr>(&graph.attr(id));
  if (slice == nullptr || slice->step != 1) return 0;
  const NodeId whole = graph.operands(id)[0];
  const auto size = graph.type(whole).shape[static_cast<size_t>(slice->dim)].as_constant();
  const auto start = slice->start.as_constant(), count = slice->count.as_constant();
  constexpr int64_t most_parts = 64;
  const bool known = size && start && count && *count > 0 && graph.node(whole).op != Op::input;
  if (!known || *size % *count != 0 || *start % *count != 0 || *size / *count > most_parts) return 0;
  return *size / *count;
}

// Values that are read by their equal parts alone, each of which some slice takes.
std::vector<bool> read_by_parts(const ir::Graph& graph) {
  struct Parts {
    int32_t dim = 0;
    int64_t ways = 0;  // 0: read otherwise
    std::set<int64_t> seen;
  };
  std::map<NodeId, Parts> found;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const NodeId id(i);
    const int64_t ways = parts_of(graph, id);
    for (const NodeId operand : graph.operands(id)) {
      const auto [known, fresh] = found.try_emplace(operand);
      Parts& parts = known->second;
      const auto* slice = std::get_if<ir::SliceAttr>(&graph.attr(id));
      if (fresh && ways > 1) parts.dim = slice->dim, parts.ways = ways;
      if (ways < 2 || parts.ways != ways || parts.dim != slice->dim) {
        parts.ways = 0;
      } else {
        parts.seen.insert(*slice->start.as_constant() / *slice->count.as_constant());
      }
    }
  }
  for (const ir::GraphOutput& output : graph.outputs()) found[output.node].ways = 0;
  std::vector<bool> read(graph.size());
  for (const auto& [node, parts] : found)
    read[node.index()] = parts.ways > 1 && static_cast<int64_t>(parts.seen.size()) == parts.ways;
  return read;
}

}  // namespace

// x[:n] and x[n:], where nothing else reads x, are split(x, 2): a kernel may compute all parts.
Result<ir::Graph> slices_to_splits(const ir::Graph& graph, uint32_t& count) {
  const std::vector<bool> by_parts = read_by_parts(graph);
  count = 0;
  if (std::find(by_parts.begin(), by_parts.end(), true) == by_parts.end()) return graph;
  ir::GraphBuilder builder(graph.source());
  std::vector<NodeId> now(graph.size());
  for (const ir::GraphInput& input : graph.inputs()) now[input.node.index()] = builder.add_input(graph, input);
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const NodeId id(i);
    if (graph.node(id).op == Op::input) continue;
    std::vector<NodeId> operands;
    for (const NodeId operand : graph.operands(id)) operands.push_back(now[operand.index()]);
    Op op = graph.node(id).op;
    ir::Attr attr = graph.attr(id);
    if (const auto* slice = std::get_if<ir::SliceAttr>(&attr);
        slice != nullptr && by_parts[graph.operands(id)[0].index()]) {
      const ir::SplitAttr part{static_cast<int32_t>(parts_of(graph, id)),
                               static_cast<int32_t>(*slice->start.as_constant() / *slice->count.as_constant()),
                               slice->dim};
      op = Op::split;
      attr = part;
      ++count;
    }
    now[i] = builder.add_unchecked(op, operands, std::move(attr), graph.type(id), graph.span(id), graph.name_hint(id));
  }
  for (const ir::GraphOutput& output : graph.outputs())
    builder.add_output(output.name, now[output.node.index()], output.dtype);
  return std::move(builder).finish();
}

std::span<const Rule> mixed_dims_rules() { return mixed_dims_table; }
std::span<const Rule> layout_rules() { return layout_table; }

}  // namespace codetta::opt
