// SPDX-License-Identifier: Apache-2.0
// Products of one A: one kernel, or several.
#include <algorithm>

#include <fmt/format.h>

#include "ir/analyses.hpp"
#include "plan/planner.hpp"

namespace codetta::plan {

using ir::NodeId;

namespace {

// The region stores its products, and nothing follows them.
LoweringScope plain_scope(const ir::Graph& graph, KernelRegion& region) {
  LoweringScope scope;
  region.leaves.clear();
  region.stores.clear();
  for (const NodeId product : region.products()) {
    scope.outputs.push_back({product, "D", graph.type(product).dtype});
    region.stores.push_back({product, product, {}, std::nullopt});
  }
  return scope;
}

// Whether a value is stored that needs the accumulators of more than one product.
bool products_meet(const package::EpilogueProgram& program) {
  const auto own = static_cast<uint32_t>(program.split.own_ways());
  std::vector<uint64_t> of_result(program.reductions.size());
  for (size_t p = 0; p < program.phases.size(); ++p) {
    std::vector<uint64_t> needs;
    for (const package::Inst& inst : program.phases[p].insts) {
      uint64_t need = 0;
      if (inst.kind == package::Inst::Kind::Accumulator) need = uint64_t{1} << (inst.index / own);
      if (inst.kind == package::Inst::Kind::Result) need = of_result[inst.index];
      for (uint8_t i = 0; i < inst.arity; ++i) need |= needs[inst.in[i]];
      needs.push_back(need);
    }
    for (size_t r = 0; r < program.reductions.size(); ++r) {
      if (program.reductions[r].phase == p) of_result[r] = needs[program.reductions[r].value];
    }
    for (const package::Store& store : program.phases[p].stores) {
      const uint64_t need = needs[store.value];
      if ((need & (need - 1)) != 0) return true;
    }
  }
  return false;
}

}  // namespace

// Of products that differ in columns those that don't would be one kernel, where that takes less.
std::optional<double> ProgramPlanner::apart_us(const GraphScope& within, const KernelRegion& region) const {
  const ir::Graph& graph = within.graph;
  // Of products of one type: each by itself, and all of them together.
  const auto us = [&](const std::vector<const FurtherProduct*>& alike) -> std::optional<double> {
    KernelRegion own = region;
    own.matmul = alike[0]->matmul;
    own.b = alike[0]->b;
    own.cols = alike[0]->cols;
    own.more.clear();
    std::optional<double> found;
    const auto ask = [&](double times) {
      LoweringScope scope = plain_scope(graph, own);
      for (const FurtherProduct& further : own.more) scope.more_products.push_back(further.matmul);
      auto lowered = lower_region(graph, *own.matmul, scope);
      if (!lowered) return;
      own.lowered = *std::move(lowered);
      const Discovery& discovery = discovered(own.lowered.program, gemm_shape(within, own));
      if (discovery.candidates.empty()) return;
      const double microseconds = times * discovery.candidates[0].microseconds;
      found = std::min(found.value_or(microseconds), microseconds);
    };
    ask(static_cast<double>(alike.size()));
    if (!found || alike.size() == 1) return found;
    for (size_t i = 1; i < alike.size(); ++i) own.more.push_back(*alike[i]);
    ask(1);
    return found;
  };
  std::vector<FurtherProduct> all{{*region.matmul, region.b, region.cols}};
  all.insert(all.end(), region.more.begin(), region.more.end());
  std::vector<std::vector<const FurtherProduct*>> sets;
  for (const FurtherProduct& one : all) {
    const auto known = std::find_if(sets.begin(), sets.end(), [&](const auto& set) {
      return graph.type(set[0]->matmul) == graph.type(one.matmul) && set[0]->b.view == one.b.view;
    });
    (known == sets.end() ? sets.emplace_back() : *known).push_back(&one);
  }
  double microseconds = 0;
  for (const auto& set : sets) {
    const auto own = us(set);
    if (!own) return std::nullopt;
    microseconds += *own;
  }
  return microseconds;
}

// Why no kernel computes the products together, whatever follows them, or several take less time.
std::optional<Rejection> ProgramPlanner::refuses_spaces(const GraphScope& within, KernelRegion region) const {
  const ir::Graph& graph = within.graph;
  auto lowered = lower_products(graph, region.products(), plain_scope(graph, region));
  if (!lowered) {
    const Diagnostic& first = lowered.error().diagnostics().front();
    return Rejection{lowered.error().code(), {}, diag::sentence(first), {}};
  }
  region.lowered = *std::move(lowered);
  const Discovery& discovery = discovered(region.lowered.program, gemm_shape(within, region));
  if (discovery.candidates.empty()) return discovery.rejections.back();
  const double together = discovery.candidates[0].microseconds;
  const auto apart = apart_us(within, region);
  if (!apart || !is_apart(within, Question::Columns, *region.matmul, together, *apart, together >= *apart))
    return std::nullopt;
  return Rejection{static_cast<uint16_t>(diag::Code::second_product),
                   {},
                   fmt::format("{} products of one factor and of {} columns as one kernel would take {:.1f} us, as "
                               "others have it {:.1f} us",
                               region.more.size() + 1, region.all_cols().to_string(), together, *apart),
                   {}};
}

// Why several products of one A are not one kernel: all of their results would be in memory at once, or one by one they
// take no longer. Apart, each would store its accumulators at least, and the same work would have to be done behind
// them; an A that several kernels read is stored once, in front of them.
std::optional<Rejection> ProgramPlanner::better_apart(const GraphScope& within, const KernelRegion& region,
                                                      const Candidate& together) const {
  const ir::Graph& graph = within.graph;
  const bool on_gpu = plan_.target.backend != Backend::cpu;
  KernelRegion stored = region;
  const std::optional<double> in_front = on_gpu ? store_factors(stored) : 0;
  if (!in_front) return std::nullopt;
  double apart = *in_front;
  for (const CostTerm& term : together.terms) {
    if (term.name == "epilogue") apart += term.microseconds;
  }
  GemmShape shape = gemm_shape(within, stored);
  const bool spaces = region.has_spaces();
  const std::string columns =
      spaces ? fmt::format("{} columns together", shape.n) : fmt::format("{} columns", shape.n / shape.products);
  shape.n /= shape.products;
  constexpr int64_t much_larger = 4;  // than the factor that is shared
  if (shape.n / much_larger > shape.k && !products_meet(region.lowered.program)) {
    return Rejection{
        static_cast<uint16_t>(diag::Code::second_product),
        {},
        fmt::format("{} results of {} meet nowhere and would be in memory at once, to read a factor of {} columns once",
                    region.more.size() + 1, columns, shape.k),
        graph.span(*region.matmul)};
  }
  if (spaces) {
    const auto several = apart_us(within, stored);
    if (!several) return std::nullopt;
    apart += *several;
  } else {
    shape.products = 1;
    LoweringScope scope;
    scope.outputs.push_back({*region.matmul, "D", graph.type(*region.matmul).dtype});
    const auto alone = lower_region(graph, *region.matmul, scope);
    if (!alone) return std::nullopt;
    const Discovery& discovery = discovered(alone->program, shape);
    if (discovery.candidates.empty()) return std::nullopt;
    apart += static_cast<double>(region.more.size() + 1) * discovery.candidates[0].microseconds;
  }
  if (!is_apart(within, spaces ? Question::Columns : Question::Products, *region.matmul, together.microseconds, apart,
                spaces ? together.microseconds >= apart : together.microseconds > apart))
    return std::nullopt;
  return Rejection{static_cast<uint16_t>(diag::Code::second_product),
                   {},
                   fmt::format("{} products of one factor as one kernel would take {:.1f} us, one by one {:.1f} us",
                               region.more.size() + 1, together.microseconds, apart),
                   graph.span(*region.matmul)};
}

}  // namespace codetta::plan
