// SPDX-License-Identifier: Apache-2.0
#include "oracle/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/analyses.hpp"

namespace codetta::oracle {
namespace {

using ir::NodeId;
using types::Op;
using types::OpRule;

// Union-find over (node, dim).
class AxisUnion {
 public:
  explicit AxisUnion(const std::vector<Sizes>& sizes) {
    uint32_t next = 0;
    for (const Sizes& s : sizes) {
      first_.push_back(next);
      next += static_cast<uint32_t>(s.size());
    }
    parent_.resize(next);
    std::iota(parent_.begin(), parent_.end(), 0u);
  }
  uint32_t find(uint32_t x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  uint32_t find(NodeId node, size_t dim) { return find(first_[node.index()] + static_cast<uint32_t>(dim)); }
  void unite(NodeId a, size_t da, NodeId b, size_t db) { parent_[find(a, da)] = find(b, db); }

 private:
  std::vector<uint32_t> first_, parent_;
};

// Dims of a reshape that stay: (operand dim, result dim) with equal size and equally many elements before them.
std::vector<std::pair<size_t, size_t>> kept_dims(const Sizes& from, const Sizes& to) {
  std::vector<std::pair<size_t, size_t>> kept;
  int64_t before_from = 1, before_to = 1;
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    if (before_from == before_to && from[i] == to[j]) {
      kept.emplace_back(i, j);
      before_from *= from[i++];
      before_to *= to[j++];
    } else if (before_from * from[i] <= before_to * to[j]) {
      before_from *= from[i++];
    } else {
      before_to *= to[j++];
    }
  }
  return kept;
}

// What is evaluated whole.
bool is_whole(const types::OpInfo& info) {
  if (info.op == Op::to_device) return false;
  return info.rule == OpRule::indexed || info.rule == OpRule::control || info.rule == OpRule::external;
}

void unite_node(const ir::Graph& graph, const std::vector<Sizes>& sizes, NodeId id, AxisUnion& axes) {
  const std::span<const NodeId> operands = graph.operands(id);
  const types::OpInfo& info = types::op_info(graph.node(id).op);
  const Sizes& out = sizes[id.index()];
  const auto align = [&](NodeId operand, size_t skip) {  // all but the last `skip` dims, from the right
    const Sizes& in = sizes[operand.index()];
    for (size_t i = skip; i < in.size() && i < out.size(); ++i) {
      const size_t from = in.size() - 1 - i, to = out.size() - 1 - i;
      if (in[from] == out[to]) axes.unite(operand, from, id, to);
    }
  };
  if (info.rule == OpRule::matmul) {
    const Sizes &a = sizes[operands[0].index()], &b = sizes[operands[1].index()];
    if (a.size() < 2 || b.size() < 2) return;
    align(operands[0], 2);
    align(operands[1], 2);
    axes.unite(operands[0], a.size() - 2, id, out.size() - 2);
    axes.unite(operands[1], b.size() - 1, id, out.size() - 1);
    axes.unite(operands[0], a.size() - 1, operands[1], b.size() - 2);
  } else if (info.op == Op::permute) {
    const auto& order = graph.attr_as<ir::PermuteAttr>(id).order;
    for (size_t i = 0; i < order.size(); ++i) axes.unite(operands[0], static_cast<size_t>(order[i]), id, i);
  } else if (info.op == Op::reshape) {
    for (const auto& [from, to] : kept_dims(sizes[operands[0].index()], out)) axes.unite(operands[0], from, id, to);
  } else if (info.op == Op::slice) {
    for (size_t d = 0; d < out.size(); ++d) {
      if (d != static_cast<size_t>(graph.attr_as<ir::SliceAttr>(id).dim)) axes.unite(operands[0], d, id, d);
    }
  } else if (is_whole(info)) {
    return;
  } else {
    for (const NodeId operand : operands) align(operand, 0);
  }
}

// Marks the classes whose indices an op brings together or moves.
void mark_mixed(const Problem& problem, NodeId id, std::vector<bool>& mixed) {
  const ir::Graph& graph = *problem.graph;
  const std::span<const NodeId> operands = graph.operands(id);
  const types::OpInfo& info = types::op_info(graph.node(id).op);
  const auto mark = [&](NodeId node, size_t dim) { mixed[problem.axes[node.index()][dim]] = true; };
  if (info.rule == OpRule::reduce) {
    for (const int32_t dim : graph.attr_as<ir::ReduceAttr>(id).dims) mark(operands[0], static_cast<size_t>(dim));
  } else if (info.rule == OpRule::matmul) {
    for (const NodeId operand : operands) {
      const size_t rank = problem.size(operand).size();
      if (rank < 2) {
        for (size_t d = 0; d < rank; ++d) mark(operand, d);
      } else {
        mark(operand, operand == operands[0] ? rank - 1 : rank - 2);
      }
    }
    if (operands[0] == operands[1]) mark(operands[1], problem.size(operands[1]).size() - 2);
  } else if (info.op == Op::split || info.op == Op::join) {
    const int32_t dim =
        info.op == Op::split ? graph.attr_as<ir::SplitAttr>(id).dim : graph.attr_as<ir::JoinAttr>(id).dim;
    for (const NodeId operand : operands) mark(operand, static_cast<size_t>(dim));
    mark(id, static_cast<size_t>(dim));
  } else if (info.op == Op::slice) {
    const auto dim = static_cast<size_t>(graph.attr_as<ir::SliceAttr>(id).dim);
    mark(operands[0], dim);
    mark(id, dim);
  } else if (is_whole(info)) {
    for (const NodeId operand : operands) {
      for (size_t d = 0; d < problem.size(operand).size(); ++d) mark(operand, d);
    }
    for (size_t d = 0; d < problem.size(id).size(); ++d) mark(id, d);
  } else if (info.op == Op::reshape) {
    std::vector<bool> kept_in(problem.size(operands[0]).size()), kept_out(problem.size(id).size());
    for (const auto& [from, to] : kept_dims(problem.size(operands[0]), problem.size(id)))
      kept_in[from] = kept_out[to] = true;
    for (size_t d = 0; d < kept_in.size(); ++d) {
      if (!kept_in[d]) mark(operands[0], d);
    }
    for (size_t d = 0; d < kept_out.size(); ++d) {
      if (!kept_out[d]) mark(id, d);
    }
  }
}

Error size_error(const ir::Graph& graph, NodeId node, const ir::Dim& dim, std::string reason) {
  return diag::error(diag::Code::symbol_conflict,
                     fmt::format("size {} of a value cannot be evaluated", dim.to_string()))
      .at(graph.source(), graph.span(node))
      .reason(std::move(reason))
      .help("bind every symbol through the shape of an input");
}

bool computes_wide(const ir::Graph& graph) {
  for (uint32_t n = 0; n < graph.size(); ++n) {
    const ir::TensorType& type = graph.type(NodeId(n));
    if (type.dtype == DType::f64 && !type.weak) return true;
    for (const ir::GraphRef& child : ir::children(graph.attr(NodeId(n)))) {
      if (computes_wide(*child)) return true;
    }
  }
  return false;
}

// Sizes, axes and accuracies, once the symbols are known.
Result<Problem> complete(Problem problem) {
  const ir::Graph& graph = *problem.graph;
  const OracleOptions& options = problem.options;
  problem.wide = computes_wide(graph);
  for (uint32_t n = 0; n < graph.size(); ++n) {
    const ir::TensorType& type = graph.type(NodeId(n));
    Sizes& sizes = problem.sizes.emplace_back();
    for (const ir::Dim& dim : type.shape) {
      types::DimFault why{};
      const std::optional<int64_t> size = dim.evaluate(problem.symbols.values, &why);
      if (!size || *size < 0) {
        return size_error(graph, NodeId(n), dim,
                          size ? fmt::format("it is {}", *size) : std::string(types::to_string(why)));
      }
      sizes.push_back(*size);
    }
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) continue;  // of no elements, however large the others
    int64_t count = 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (count > INT64_MAX / 64 / sizes[d])
        return size_error(graph, NodeId(n), type.shape[d], fmt::format("it is {}, too large", sizes[d]));
      count *= sizes[d];
    }
  }
  AxisUnion unions(problem.sizes);
  for (uint32_t n = 0; n < graph.size(); ++n) unite_node(graph, problem.sizes, NodeId(n), unions);
  for (uint32_t n = 0; n < graph.size(); ++n) {
    auto& row = problem.axes.emplace_back();
    for (size_t d = 0; d < problem.sizes[n].size(); ++d) row.push_back(unions.find(NodeId(n), d));
  }
  for (const UlpRow& row : options.ulp) {
    problem.f32_accuracy[static_cast<size_t>(row.op)] = {row.f32_ulp, row.f32_abs, row.f32_ln};
    problem.f64_accuracy[static_cast<size_t>(row.op)] = {row.f64_ulp, row.f64_abs};
  }
  return problem;
}

}  // namespace

Result<Problem> make_problem(const ir::Graph& graph, std::span<const OracleInput> inputs,
                             const OracleOptions& options) {
  if (inputs.size() != graph.inputs().size()) {
    return diag::error(diag::Code::argument_missing,
                       fmt::format("{} inputs are given to a graph of {}", inputs.size(), graph.inputs().size()))
        .reason("each input of the graph needs one value, in the graph's order")
        .help("pass the operands A and B first, then the others as the text names them");
  }
  std::vector<ir::BoundArgument> bound;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::GraphInput& input = graph.inputs()[i];
    if (const auto* view = std::get_if<TensorView>(&inputs[i])) {
      bound.push_back({input.name, input.is_scalar && view->rank() == 0, view->dtype(), view->shape()});
    } else {
      bound.push_back({input.name, true, graph.type(input.node).dtype, {}});
    }
  }
  CODETTA_TRY(ir::SymbolBindings symbols, ir::bind_symbols_in_order(graph, bound, options.sizes));
  for (const auto& [symbol, size] : options.sizes) {
    const auto is_it = [&](const auto& one) { return one.first == symbol; };
    if (std::none_of(symbols.values.begin(), symbols.values.end(), is_it)) symbols.values.emplace_back(symbol, size);
  }
  const size_t given = symbols.values.size();
  const SizeOf size_of = [&](const ir::Graph& alone, const ir::SymbolBindings& known) -> Result<SizeRange> {
    OracleOptions with = options;
    for (size_t i = given; i < known.values.size(); ++i)
      with.sizes.emplace(known.values[i].first, known.values[i].second);
    CODETTA_TRY(const OracleResult result, evaluate(alone, inputs, with));
    const std::vector<ExpectedElement>& elements = result.outputs[0].elements;
    if (elements.size() != 1) return SizeRange{0, 0, result.outputs[0].note};
    return SizeRange{elements[0].exact_low, elements[0].exact_high, {}};
  };
  CODETTA_CHECK_OK(add_sizes(graph, options, size_of, symbols));
  CODETTA_CHECK_OK(check_slices(graph, symbols));
  return complete(
      {&graph, inputs, options, {}, {}, {}, {}, false, std::move(symbols), std::make_shared<Pulse>(options.goes_on)});
}

Result<Problem> make_child_problem(const ir::Graph& graph, const Problem& outer, ir::SymbolBindings symbols) {
  CODETTA_CHECK_OK(check_slices(graph, symbols));
  return complete({&graph, {}, outer.options, {}, {}, {}, {}, false, std::move(symbols), outer.pulse});
}

std::vector<bool> mixed_classes(const Problem& problem, NodeId root) {
  size_t classes = 0;
  for (const auto& row : problem.axes) classes += row.size();
  std::vector<bool> mixed(classes, false);
  const NodeId roots[] = {root};
  for (const NodeId id : ir::topological_order(*problem.graph, roots)) mark_mixed(problem, id, mixed);
  return mixed;
}

Axes axes_of(const Problem& problem, NodeId node, const Picks& picks) {
  Axes axes{problem.size(node), {}};
  for (size_t d = 0; d < axes.full.size(); ++d) {
    const auto found = picks.find(problem.axes[node.index()][d]);
    axes.picks.push_back(found == picks.end() ? nullptr : found->second);
  }
  return axes;
}

std::vector<bool> read_in_parts(const Problem& problem, std::span<const NodeId> roots, const Picks& picks) {
  const ir::Graph& graph = *problem.graph;
  std::vector<bool> parts(graph.size(), false), strided(graph.size(), false);
  if (problem.inputs.empty()) return parts;  // a graph inside of another gets blocks
  for (const NodeId id : ir::topological_order(graph, roots)) {
    const Op op = graph.node(id).op;
    const bool moves = op == Op::permute || op == Op::slice;
    strided[id.index()] = op == Op::input || (moves && strided[graph.operands(id)[0].index()]);
    parts[id.index()] = strided[id.index()] && axes_of(problem, id, picks).count() > part_elements;
    if (op == Op::matmul || moves) continue;
    for (const NodeId operand : graph.operands(id)) parts[operand.index()] = false;
  }
  for (const NodeId root : roots) parts[root.index()] = false;
  return parts;
}

double work_of(const Problem& problem, std::span<const NodeId> roots, const Picks& picks) {
  double work = 0;
  const std::vector<bool> parts = read_in_parts(problem, roots, picks);
  const auto elements = [&](NodeId id) { return static_cast<double>(axes_of(problem, id, picks).count()); };
  for (const NodeId id : ir::topological_order(*problem.graph, roots)) {
    if (!parts[id.index()]) work += 64 * elements(id);
    if (problem.graph->node(id).op != Op::matmul) continue;
    for (const NodeId operand : problem.graph->operands(id)) {
      if (parts[operand.index()]) work += 64 * elements(operand);
    }
    const Sizes& a = problem.size(problem.graph->operands(id)[0]);
    if (!a.empty()) work += elements(id) * static_cast<double>(a.back());
  }
  return work;
}

}  // namespace codetta::oracle
