// SPDX-License-Identifier: Apache-2.0
// Kernels of products with what runs behind them, and what is cut off where no kernel takes it.
#include <algorithm>

#include "ir/analyses.hpp"
#include "plan/region_finder.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;
using types::Op;

Result<void> RegionFinder::find_products() {
  for (size_t r = 0; r < heads_.size(); ++r) {
    const NodeId product = heads_[r];
    if (!needed_[product.index()]) continue;
    if (is_made(product)) {
      add_step(product);
      continue;
    }
    KernelRegion region;
    region.matmul = product;
    region.a = factors_[r].first;
    region.b = factors_[r].second;
    std::vector<NodeId> outputs;
    for (size_t i = product.index(); i < graph_.size(); ++i) {
      const NodeId node(i);
      if (!stored_[i] || !needed_[i] || !of_product(node) || level_[i] != static_cast<int32_t>(r)) continue;
      outputs.push_back(node);
      for (const StoredValue& place : places_of(node, node, 0)) region.stores.push_back(place);
    }
    const auto level = static_cast<int32_t>(r);
    region.leaves =
        leaves_of(outputs, product, [&](NodeId node) { return of_product(node) && level_[node.index()] == level; });
    const auto& shape = graph_.type(product).shape;
    region.rows = shape[shape.size() - 2];
    region.cols = shape.back();
    region.batch = Dim::constant(1);
    for (size_t d = 0; d + 2 < shape.size(); ++d) region.batch = region.batch * shape[d];
    CODETTA_CHECK_OK(lower_product(std::move(region)));
    if (changed_) return {};
  }
  return {};
}

void RegionFinder::add_step(NodeId step) {
  KernelRegion region;
  region.step = step;
  const auto operands = graph_.operands(step);
  region.leaves.assign(operands.begin(), operands.end());
  std::sort(region.leaves.begin(), region.leaves.end());
  region.leaves.erase(std::unique(region.leaves.begin(), region.leaves.end()), region.leaves.end());
  for (size_t i = step.index(); i < graph_.size(); ++i) {
    const NodeId node(i);
    const bool own = node == step || (graph_.node(node).op == Op::result && graph_.operands(node)[0] == step);
    if (own && stored_[i]) region.stores.push_back(place_of_result(node));
  }
  add(std::move(region));
}

Result<void> RegionFinder::lower_product(KernelRegion region) {
  const NodeId product = *region.matmul;
  const auto key = key_of(region);
  if (const auto found = known_.find(key); found != known_.end()) {
    region.lowered = found->second;
    add(std::move(region));
    return {};
  }
  NodeId failed = product;
  auto lowered = lower_region(graph_, product, scope_of(region), &failed);
  if (!lowered) return cut_at(product, failed, lowered.error());
  region.lowered = *std::move(lowered);
  if (const auto no = refuses_(region)) {
    // Without a kernel for all of it: without reductions, then without anything behind the product.
    const Error error =
        diag::error(static_cast<diag::Code>(no->code), "no kernel takes this behind its product").reason(no->text);
    const auto behind = [&](bool reductions_only) -> std::optional<NodeId> {
      for (size_t i = product.index() + 1; i < graph_.size(); ++i) {
        if (!needed_[i] || !of_product(NodeId(i)) || level_[i] != level_[product.index()]) continue;
        if (!reductions_only || types::op_info(graph_.node(NodeId(i)).op).is_reduction()) return NodeId(i);
      }
      return std::nullopt;
    };
    auto at = behind(true);
    if (!at) at = behind(false);
    if (at) return cut_at(product, *at, error);
    return diag::error(static_cast<diag::Code>(no->code), "no kernel computes this product")
        .at(graph_.source(), graph_.span(product), ir::to_string(graph_.type(product)))
        .reason(no->text)
        .help("choose another target, or other element types");
  }
  known_.emplace(key, region.lowered);
  add(std::move(region));
  return {};
}

Result<void> RegionFinder::cut_at(NodeId product, NodeId failed, const Error& error) {
  const int32_t level = level_[product.index()];
  const size_t f = failed.index();
  changed_ = true;
  if (failed != product && level_[f] == level && !cut_[f]) {
    cut_[f] = true;
    note(failed, action::cut_off, error);
  } else if (level_[f] == no_product && !is_input(failed) && !forced_[f] && !stored_[f]) {
    forced_[f] = true;
    note(failed, action::in_front, error);
  } else {
    changed_ = false;
    for (size_t i = product.index() + 1; i < graph_.size(); ++i) {
      if (level_[i] != level || cut_[i]) continue;
      if (!changed_) note(NodeId(i), action::cut_off, error);
      cut_[i] = changed_ = true;
    }
    if (!changed_) return error;
  }
  for (size_t i = product.index() + 1; i < graph_.size(); ++i) {
    if (level_[i] != level || cut_[i]) continue;
    for (NodeId operand : graph_.operands(NodeId(i))) cut_[i] = cut_[i] || cut_[operand.index()];
  }
  return {};
}

}  // namespace codetta::plan
