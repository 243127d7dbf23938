// SPDX-License-Identifier: Apache-2.0
#include "plan/regions.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ir/analyses.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Op;

namespace {

// 0: no change, 1: the last two dims swapped, -1: anything else.
int swap_of(const std::vector<int32_t>& order) {
  const auto rank = static_cast<int32_t>(order.size());
  bool identity = true, swapped = rank >= 2;
  for (int32_t d = 0; d < rank; ++d) {
    const int32_t mirrored = d == rank - 1 ? rank - 2 : d == rank - 2 ? rank - 1 : d;
    identity = identity && order[static_cast<size_t>(d)] == d;
    swapped = swapped && order[static_cast<size_t>(d)] == mirrored;
  }
  return identity ? 0 : swapped ? 1 : -1;
}

Factor follow(const ir::Graph& graph, NodeId node) {
  Factor factor{node, false};
  while (graph.node(factor.source).op == Op::permute) {
    const int swap = swap_of(graph.attr_as<ir::PermuteAttr>(factor.source).order);
    if (swap < 0) break;
    factor.transposed ^= swap == 1;
    factor.source = graph.operands(factor.source)[0];
  }
  return factor;
}

diag::ErrorBuilder outside(const ir::Graph& graph, NodeId node, std::string headline) {
  return diag::error(diag::Code::outside_product, std::move(headline))
      .at(graph.source(), graph.span(node), ir::to_string(graph.type(node)))
      .reason("every kernel is a matrix product with what follows it")
      .help("compute it outside of the program and pass the result, or behind a product");
}

void add_once(std::vector<NodeId>& list, NodeId node) {
  if (std::find(list.begin(), list.end(), node) == list.end()) list.push_back(node);
}

}  // namespace

Result<void> check_plannable(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    const types::OpInfo& info = types::op_info(graph.node(node).op);
    if (!info.program_only()) continue;
    return diag::error(diag::Code::target_lacks, fmt::format("this target cannot run {}", info.name))
        .at(graph.source(), graph.span(node), ir::to_string(graph.type(node)))
        .reason("no kernel and no host step of this target carries it out")
        .help("compute it outside of the program and pass the result");
  }
  if (!ir::matmuls(graph).empty()) return {};
  const NodeId output = graph.outputs()[0].node;
  return diag::error(diag::Code::matmul_missing, "the program has no matrix product")
      .at(graph.source(), graph.span(output), ir::to_string(graph.type(output)))
      .reason("a program is made of matrix products and what follows them")
      .help("write a @ b, or an epilogue whose first parameter is accum");
}

Result<ProgramRegions> find_regions(const ir::Graph& graph) {
  ProgramRegions result;
  result.owner.assign(graph.size(), no_region);
  result.crosses.assign(graph.size(), false);
  const auto is_input = [&](NodeId node) { return graph.node(node).op == Op::input; };
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    uint32_t& owner = result.owner[i];
    if (graph.node(node).op == Op::matmul) {
      if (graph.type(node).shape.size() > 3) {
        return diag::error(diag::Code::matmul_shape, fmt::format("a product of {} dims", graph.type(node).shape.size()))
            .at(graph.source(), graph.span(node), ir::to_string(graph.type(node)))
            .reason("kernels take [m, k] and [batch, m, k]")
            .help("reshape the leading dims of the operands to one");
      }
      owner = static_cast<uint32_t>(result.regions.size());
      result.regions.push_back({node, {node}, {}, {}});
      const auto operands = graph.operands(node);
      result.factors.emplace_back(follow(graph, operands[0]), follow(graph, operands[1]));
      for (const Factor& factor : {result.factors.back().first, result.factors.back().second}) {
        if (is_input(factor.source) || result.owner[factor.source.index()] != no_region) continue;
        return outside(graph, factor.source, "a factor of a product is computed without a product");
      }
      continue;
    }
    for (NodeId operand : graph.operands(node)) {
      const uint32_t from = result.owner[operand.index()];
      if (from != no_region && (owner == no_region || from > owner)) owner = from;
    }
    if (owner != no_region) result.regions[owner].nodes.push_back(node);
  }
  if (result.regions.empty()) {
    return outside(graph, graph.outputs()[0].node, "there is no matrix product");
  }
  const auto leaves = [&](NodeId node) { add_once(result.regions[result.owner[node.index()]].outputs, node); };
  for (const ir::GraphOutput& output : graph.outputs()) {
    if (result.owner[output.node.index()] == no_region)
      return outside(graph, output.node, fmt::format("output {} is computed without a product", output.name));
    leaves(output.node);
  }
  const auto crosses = [&](NodeId node) {
    result.crosses[node.index()] = true;
    leaves(node);
  };
  // Values that cross from one region to another, seen from what is really needed there.
  std::vector<bool> needed(graph.size());
  for (const ir::GraphOutput& output : graph.outputs()) needed[output.node.index()] = true;
  for (size_t i = graph.size(); i-- > 0;) {
    const NodeId node(i);
    if (!needed[i]) continue;
    if (graph.node(node).op == Op::matmul) {
      const auto& [a, b] = result.factors[result.owner[i]];
      for (const Factor& factor : {a, b}) {
        needed[factor.source.index()] = true;
        if (!is_input(factor.source)) crosses(factor.source);
      }
      continue;
    }
    for (NodeId operand : graph.operands(node)) {
      needed[operand.index()] = true;
      const uint32_t from = result.owner[operand.index()];
      if (from != no_region && from != result.owner[i]) crosses(operand);
    }
  }
  for (size_t r = 0; r < result.regions.size(); ++r) {
    Region& region = result.regions[r];
    std::sort(region.outputs.begin(), region.outputs.end());
    // Inputs: walk back from the outputs to graph inputs and to values of other regions.
    std::vector<bool> seen(graph.size());
    std::vector<NodeId> work = region.outputs;
    while (!work.empty()) {
      const NodeId node = work.back();
      work.pop_back();
      if (seen[node.index()] || node == region.matmul) continue;
      seen[node.index()] = true;
      const uint32_t owner = result.owner[node.index()];
      if (is_input(node) || (owner != no_region && owner != r)) {
        region.inputs.push_back(node);
        continue;
      }
      for (NodeId operand : graph.operands(node)) work.push_back(operand);
    }
    std::sort(region.inputs.begin(), region.inputs.end());
  }
  return result;
}

Result<RegionGraph> extract(const ir::Graph& graph, const ProgramRegions& regions, size_t r) {
  const Region& region = regions.regions[r];
  ir::GraphBuilder builder(graph.source());
  std::map<NodeId, NodeId> clone;
  const auto operands = graph.operands(region.matmul);
  const NodeId factors[] = {builder.add_input("A", graph.type(operands[0])),
                            builder.add_input("B", graph.type(operands[1]))};
  for (NodeId node : region.inputs) {
    std::string name = graph.name_hint(node);
    bool is_scalar = false;
    for (const ir::GraphInput& input : graph.inputs()) {
      if (input.node != node) continue;
      name = input.name;
      is_scalar = input.is_scalar;
    }
    clone[node] = builder.add_input(name.empty() ? fmt::format("t{}", node.index()) : std::move(name), graph.type(node),
                                    is_scalar, graph.span(node));
  }
  clone[region.matmul] =
      builder.add_unchecked(Op::matmul, factors, graph.attr(region.matmul), graph.type(region.matmul),
                            graph.span(region.matmul), graph.name_hint(region.matmul));
  const std::vector<bool> needed = ir::needed_by(graph, region.outputs);
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    const uint32_t owner = regions.owner[i];
    if (!needed[i] || clone.contains(node) || (owner != no_region && owner != r) || graph.node(node).op == Op::input)
      continue;
    std::vector<NodeId> copied;
    bool complete = true;  // what only other regions need may rest on values that are not here
    for (NodeId operand : graph.operands(node)) {
      const auto found = clone.find(operand);
      complete = complete && found != clone.end();
      if (complete) copied.push_back(found->second);
    }
    if (complete)
      clone[node] = builder.add_unchecked(graph.node(node).op, copied, graph.attr(node), graph.type(node),
                                          graph.span(node), graph.name_hint(node));
  }
  RegionGraph result;
  for (NodeId node : region.outputs) {
    bool stored = false;  // where it can be read again
    for (size_t o = 0; o < graph.outputs().size(); ++o) {
      const ir::GraphOutput& output = graph.outputs()[o];
      if (output.node != node) continue;
      builder.add_output(output.name, clone[node], output.dtype);
      result.outputs.push_back({node, o});
      stored = stored || output.dtype == graph.type(node).dtype;
    }
    if (!regions.crosses[node.index()] || stored) continue;
    builder.add_output(fmt::format("t{}", node.index()), clone[node], graph.type(node).dtype);
    result.outputs.push_back({node, std::nullopt});
  }
  CODETTA_TRY(result.graph, std::move(builder).finish());
  result.matmul = ir::matmuls(result.graph)[0];
  return result;
}

}  // namespace codetta::plan
