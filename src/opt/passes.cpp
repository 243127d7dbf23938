// SPDX-License-Identifier: Apache-2.0
#include "opt/passes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "ir/analyses.hpp"
#include "ir/devices.hpp"
#include "ir/verify.hpp"
#include "opt/rules.hpp"

namespace codetta::opt {
namespace {

Result<ir::Graph> run_rules(const ir::Graph& graph, std::span<const Rule> rules, std::vector<Fired>& fired) {
  std::vector<uint32_t> counts;
  CODETTA_TRY(ir::Graph result, rewrite(graph, rules, counts));
  for (size_t i = 0; i < rules.size(); ++i) fired.push_back({rules[i].name, rules[i].equation, counts[i]});
  return result;
}

constexpr bool needs_are_met() {
  unsigned established = 0;
  for (const Pass& pass : all_passes) {
    if ((pass.needs & ~established) != 0) return false;
    established |= pass.establishes;
  }
  return true;
}
static_assert(needs_are_met(), "a pass comes before one that it needs");

Result<void> check_name(std::string_view name) {
  std::vector<std::string> names;
  for (const Pass& pass : all_passes) {
    if (pass.name == name) return {};
    names.emplace_back(pass.name);
  }
  const std::string near = diag::nearest(name, names);
  return diag::error(diag::Code::internal, fmt::format("there is no pass {}", name))
      .reason(fmt::format("the passes are {}", fmt::join(names, ", ")))
      .help(near.empty() ? "name one of them" : fmt::format("did you mean {}?", near));
}

}  // namespace

Result<ir::Graph> reduce_products(const ir::Graph& graph, std::vector<Fired>& fired) {
  const std::vector<NodeId> products = ir::matmuls(graph);
  bool epilogue = products.size() == 1 && !has_mixed_items(graph.type(products[0]).shape) &&
                  std::all_of(graph.operands(products[0]).begin(), graph.operands(products[0]).end(),
                              [&](NodeId factor) { return graph.node(factor).op == Op::input; });
  for (uint32_t i = 0; i < graph.size() && epilogue; ++i) epilogue = folds(graph.type(NodeId(i)).shape);
  // Dims that are merged for a reduction are no longer those of its product.
  std::vector<Rule> rules(behind_product_rules().begin(), behind_product_rules().end());
  rules.insert(rules.end(), dims_rules().begin(), dims_rules().end());
  if (!epilogue) rules.insert(rules.end(), product_rules().begin(), product_rules().end());
  return run_rules(graph, rules, fired);
}
Result<ir::Graph> fold_constants(const ir::Graph& graph, std::vector<Fired>& fired) {
  return run_rules(graph, fold_rules(), fired);
}
Result<ir::Graph> simplify_algebra(const ir::Graph& graph, std::vector<Fired>& fired) {
  std::vector<Rule> rules(algebra_rules().begin(), algebra_rules().end());
  // What a rule leaves of literals alone is folded at once: it may be the 1 or the 0 that the next rule looks for.
  rules.insert(rules.end(), fold_rules().begin(), fold_rules().end());
  uint32_t parts = 0;
  CODETTA_TRY(const ir::Graph split, slices_to_splits(graph, parts));
  fired.push_back({"slices_to_splits", "x[:n] and x[n:] of 2 * n = split(x, 2)", parts});
  return run_rules(split, rules, fired);
}
Result<ir::Graph> eliminate_layout(const ir::Graph& graph, std::vector<Fired>& fired) {
  std::vector<Rule> rules(layout_rules().begin(), layout_rules().end());
  // Pairs that have met are algebra's to cancel, here at once, so that one move enables the next.
  for (const Rule& rule : algebra_rules()) {
    if (rule.name.starts_with("permute") || rule.name.starts_with("reshape")) rules.push_back(rule);
  }
  return run_rules(graph, rules, fired);
}

Result<ir::Graph> eliminate_dead_code(const ir::Graph& graph, std::vector<Fired>& fired) {
  return run_rules(graph, {}, fired);
}

Result<ir::Graph> eliminate_common_subexpressions(const ir::Graph& graph, std::vector<Fired>& fired) {
  // The builder finds equal nodes; here only the order of commutative operands is added.
  ir::GraphBuilder builder(graph.source());
  std::vector<NodeId> now(graph.size());
  std::map<std::tuple<Op, NodeId, NodeId, ir::TypeId>, NodeId> commuted;
  uint32_t count = 0;
  for (const ir::GraphInput& input : graph.inputs()) {
    now[input.node.index()] = builder.add_input(graph, input);
  }
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const NodeId id(i);
    const ir::Node& node = graph.node(id);
    if (node.op == Op::input) continue;
    std::vector<NodeId> operands;
    for (const NodeId operand : graph.operands(id)) operands.push_back(now[operand.index()]);
    if (types::op_info(node.op).commutative()) {
      const auto [first, second] = std::minmax(operands[0], operands[1]);
      const auto [found, fresh] = commuted.try_emplace({node.op, first, second, node.type}, NodeId());
      if (fresh)
        found->second = builder.add_unchecked(node.op, operands, graph.attr(id), graph.type(id), graph.span(id),
                                              graph.name_hint(id));
      if (!fresh) ++count;
      now[i] = found->second;
      continue;
    }
    const size_t before = builder.size();
    now[i] =
        builder.add_unchecked(node.op, operands, graph.attr(id), graph.type(id), graph.span(id), graph.name_hint(id));
    if (builder.size() == before) ++count;
  }
  for (const ir::GraphOutput& output : graph.outputs())
    builder.add_output(output.name, now[output.node.index()], output.dtype);
  fired.push_back({"common_subexpression", "f(x, y) = f(x, y); f(y, x) where f is commutative", count});
  return std::move(builder).finish();
}

Result<ir::Graph> merge_mixed_dims(const ir::Graph& graph, std::vector<Fired>& fired) {
  return run_rules(graph, mixed_dims_rules(), fired);
}

namespace {

// `inside`: the graph of a branch or a loop.
Result<Optimized> optimize_graph(const ir::Graph& graph, const RunOptions& options, bool inside);

Result<ir::GraphRef> optimized(const ir::GraphRef& child, const RunOptions& options) {
  CODETTA_TRY(Optimized result, optimize_graph(*child, options, true));
  return ir::GraphRef(std::make_shared<const ir::Graph>(std::move(result.graph)));
}

// The graph with the graphs inside of its nodes run through the passes.
Result<ir::Graph> with_optimized_children(const ir::Graph& graph, const RunOptions& options) {
  ir::GraphBuilder builder(graph.source());
  std::vector<NodeId> now(graph.size());
  for (const ir::GraphInput& input : graph.inputs()) {
    now[input.node.index()] = builder.add_input(graph, input);
  }
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const NodeId id(i);
    if (graph.node(id).op == Op::input) continue;
    std::vector<NodeId> operands;
    for (const NodeId operand : graph.operands(id)) operands.push_back(now[operand.index()]);
    ir::Attr attr = graph.attr(id);
    if (auto* branches = std::get_if<ir::CondAttr>(&attr)) {
      CODETTA_TRY(branches->then, optimized(branches->then, options));
      CODETTA_TRY(branches->otherwise, optimized(branches->otherwise, options));
    }
    if (auto* loop = std::get_if<ir::WhileAttr>(&attr)) {
      CODETTA_TRY(loop->condition, optimized(loop->condition, options));
      CODETTA_TRY(loop->body, optimized(loop->body, options));
    }
    now[i] = builder.add_unchecked(graph.node(id).op, operands, std::move(attr), graph.type(id), graph.span(id),
                                   graph.name_hint(id));
  }
  for (const ir::GraphOutput& output : graph.outputs())
    builder.add_output(output.name, now[output.node.index()], output.dtype);
  return std::move(builder).finish();
}

bool has_children(const ir::Graph& graph) {
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (!ir::children(graph.attr(NodeId(i))).empty()) return true;
  }
  return false;
}

Result<Optimized> optimize_graph(const ir::Graph& graph, const RunOptions& options, bool inside) {
  if (!options.stop_after.empty()) CODETTA_CHECK_OK(check_name(options.stop_after));
  for (const std::string& name : options.skip) CODETTA_CHECK_OK(check_name(name));
  Optimized result{graph, {}};
  // A rule may leave a value that needs no tensors and lies anywhere (where(c, x, x) = x). Where a branch or a loop of
  // it would move to another device than its results are used on, the pass is left out.
  const bool devices = !inside && ir::uses_devices(graph) && !ir::find_mixed(graph);
  const auto moves = [&](const ir::Graph& next) { return devices && ir::find_mixed(next).has_value(); };
  if (has_children(graph)) {
    CODETTA_TRY(ir::Graph next, with_optimized_children(graph, options));
    if (!moves(next)) result.graph = std::move(next);
  }
  for (const Pass& pass : all_passes) {
    PassRecord& record = result.passes.emplace_back();
    record.name = pass.name;
    record.nodes_before = record.nodes_after = result.graph.size();
    record.skipped = std::find(options.skip.begin(), options.skip.end(), pass.name) != options.skip.end();
    if (!record.skipped) {
      const auto start = std::chrono::steady_clock::now();
      CODETTA_TRY(ir::Graph next, pass.run(result.graph, record.fired));
      if (moves(next)) {
        next = result.graph;
        record.fired.clear();
      }
      record.microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
      std::erase_if(record.fired, [](const Fired& f) { return f.count == 0; });
      if (options.verify) {
        const Result<void> valid = inside ? ir::verify_inside(next) : ir::verify(next);
        if (!valid) {
          return diag::error(diag::Code::internal, fmt::format("pass {} broke the graph", pass.name))
              .reason(valid.error().message())
              .help(fmt::format("report it, and skip the pass {} meanwhile", pass.name));
        }
      }
      record.changed = !(next == result.graph);
      record.nodes_after = next.size();
      result.graph = std::move(next);
    }
    if (options.dump) record.dump = record.changed ? ir::print(result.graph) : "(unchanged)";
    if (pass.name == options.stop_after) break;
  }
  return result;
}

}  // namespace

Result<Optimized> optimize(const ir::Graph& graph, const RunOptions& options) {
  CODETTA_TRY(Optimized result, optimize_graph(graph, options, false));
  // A value that turns out to need no tensors stays where the program returns it.
  CODETTA_TRY(result.graph, ir::with_devices_of(std::move(result.graph), graph));
  return result;
}

}  // namespace codetta::opt
