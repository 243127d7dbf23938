// SPDX-License-Identifier: Apache-2.0
// Kernels of products with what runs behind them, and what is cut off where no kernel takes it.
#include <algorithm>

#include <fmt/format.h>

#include "ir/analyses.hpp"
#include "package/gpu_call.hpp"
#include "plan/behind.hpp"
#include "plan/region_finder.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;
using types::Op;

KernelRegion RegionFinder::region_of(const std::vector<size_t>& heads) const {
  const Head& head = heads_[heads[0]];
  KernelRegion region;
  region.matmul = head.node;
  region.a = head.a;
  region.b = head.b;
  for (size_t p = 1; p < heads.size(); ++p) {
    const Head& further = heads_[heads[p]];
    region.more.push_back({further.node, further.b, graph_.type(further.node).shape.back()});
  }
  const auto& shape = graph_.type(head.node).shape;
  region.rows = shape[shape.size() - 2];
  region.cols = shape.back();
  region.batch = Dim::constant(1);
  for (size_t d = 0; d + 2 < shape.size(); ++d) region.batch = region.batch * shape[d];
  return region;
}

Result<void> RegionFinder::find_product(size_t place) {
  const Head& last = heads_[place];
  if (last.hooked) return add_hooked(place);
  if (is_made(last.node)) {
    add_step(place);
    return {};
  }
  KernelRegion region = region_of(last.together.empty() ? std::vector<size_t>{place} : last.together);
  const NodeId product = *region.matmul;
  size_t first = product.index();
  for (const FurtherProduct& further : region.more) first = std::min<size_t>(first, further.matmul.index());
  const auto level = static_cast<int32_t>(place);
  std::vector<NodeId> outputs;
  for (const NodeId node : of_level(level)) {
    if (node.index() < first || !stored_[node.index()] || !needed_[node.index()] || !of_product(node)) continue;
    outputs.push_back(node);
    if (is_statistic(node)) region.statistics = statistics_.at(level);
    for (const StoredValue& stored : places_of(node, node, {})) region.stores.push_back(stored);
  }
  region.leaves =
      leaves_of(outputs, region, [&](NodeId node) { return of_product(node) && level_[node.index()] == level; });
  make_factors(region, place);
  for (const auto* factors : {&region.a_made, &region.b_made}) {
    for (const MadeFactor& made : *factors) {
      if (made.reduced_by) read_statistics_[heads_[head_of_[made.reduced_by->index()]].level].insert(place);
    }
  }
  if (changed_) return {};
  return lower_product(place, std::move(region));
}

void RegionFinder::add_step(size_t place) {
  const NodeId step = heads_[place].node;
  KernelRegion region;
  region.step = step;
  const auto operands = graph_.operands(step);
  region.leaves.assign(operands.begin(), operands.end());
  std::sort(region.leaves.begin(), region.leaves.end());
  region.leaves.erase(std::unique(region.leaves.begin(), region.leaves.end()), region.leaves.end());
  for (const NodeId node : of_level(static_cast<int32_t>(place))) {
    const bool own = node == step || (graph_.node(node).op == Op::result && graph_.operands(node)[0] == step);
    if (own && is_stored(node)) region.stores.push_back(place_of_result(node));
  }
  products_[place] = std::move(region);
}

Result<void> RegionFinder::lower_product(size_t place, KernelRegion region) {
  const NodeId product = *region.matmul;
  const bool made = options_.inside && !(region.a_made.empty() && region.b_made.empty());
  const bool inside = made || (options_.inside && !region.more.empty());
  const auto key = key_of(region);
  if (const auto found = known_.find(key); found != known_.end() && !inside) {
    region.lowered = found->second;
    products_[place] = std::move(region);
    return {};
  }
  // What its rows' statistics need of kernels behind it has been stored since.
  const bool waits = region.statistics && std::any_of(region.leaves.begin(), region.leaves.end(), [&](NodeId leaf) {
                       return level_[leaf.index()] == level_[product.index()];
                     });
  if (waits) {
    drop_statistics(region, diag::error(diag::Code::better_behind, "a kernel of its own takes less time")
                                .reason("what they reduce is stored by another kernel behind the product"));
    return {};
  }
  NodeId failed = product;
  const auto before = lowered_.find(key);
  auto lowered = before != lowered_.end() ? Result<Lowered>(before->second)
                 : region.has_spaces()    ? lower_products(graph_, region.products(), scope_of(region), &failed)
                                          : lower_region(graph_, product, scope_of(region), &failed);
  if (lowered && before == lowered_.end()) lowered_.emplace(key, *lowered);
  // A reduction that runs along no axis here does not behind one of them alone either.
  const bool apart_too = !lowered && lowered.error().code() == static_cast<uint16_t>(diag::Code::reduction_axes);
  if (!lowered && !region.more.empty() && !apart_too) {
    const Diagnostic& first = lowered.error().diagnostics().front();
    dissolve(region, {lowered.error().code(), {}, diag::sentence(first), graph_.span(failed)});
    return {};
  }
  if (region.statistics) {
    if (!lowered) {
      drop_statistics(region, lowered.error());
      return {};
    }
    const auto& phases = lowered->program.phases;
    if (phases.size() > 2 || phases.back().reads_accumulator) {
      drop_statistics(region, diag::error(diag::Code::better_behind, "a kernel of its own takes less time")
                                  .reason("its rows would be read again behind other reductions of theirs"));
      return {};
    }
  }
  if (!lowered) return cut_at(product, failed, lowered.error());
  region.lowered = *std::move(lowered);
  if (const auto error = too_many(region.lowered.program, product)) {
    const Diagnostic& first = error->diagnostics().front();
    if (!region.more.empty()) {
      dissolve(region, {error->code(), {}, first.headline + ": " + first.reason, graph_.span(product)});
    } else if (region.statistics) {
      drop_statistics(region, *error);
    } else if (made) {
      make_in_front(region, *error);
    } else {
      return cut_at(product, product, *error);
    }
    return {};
  }
  if (const auto error = misses(region.lowered.program, true, region.batch, region.rows, region.all_cols())) {
    auto at = first_behind(product, true);
    if (!at) at = first_behind(product, false);
    if (at) return cut_at(product, *at, *error);
  }
  if (inside) {
    if (const auto no = take_inside(region)) {
      if (made) {
        make_in_front(region, *no);
      } else {
        const Diagnostic& first = no->diagnostics().front();
        dissolve(region, {no->code(), {}, first.reason, graph_.span(product)});
      }
      return {};
    }
  }
  if (const auto no = refuses_(region)) {
    const auto code = static_cast<diag::Code>(no->code);
    if (region.statistics) {
      drop_statistics(region, diag::error(code, "a kernel of its own takes less time").reason(no->text));
      return {};
    }
    if (code == diag::Code::better_behind) {
      const auto alone = behind_reductions(graph_, region, options_.size);
      for (NodeId node : alone->nodes) cut_off(node);
      note(alone->nodes[0], action::cut_off, diag::error(code, "a kernel of its own takes less time").reason(no->text));
      return {};
    }
    // The A of products that are one by one is read by each of them, and so it is stored in front anyway.
    if (!region.more.empty() && (code == diag::Code::second_product || !made)) {
      dissolve(region, *no);
      return {};
    }
    if (made) {
      make_in_front(region, diag::error(code, "this is computed in front of the product").reason(no->text));
      return {};
    }
    // Without a kernel for all of it: without reductions, then without anything behind the product.
    const Error error = diag::error(code, "no kernel takes this behind its product").reason(no->text);
    auto at = first_behind(product, true);
    if (at && region.lowered.program.split.ways == 1) return cut_reductions(product, *at, error, *no);
    if (at) return cut_at(product, *at, error);
    at = first_behind(product, false);
    if (at) return cut_at(product, *at, error);
    return diag::error(static_cast<diag::Code>(no->code), "no kernel computes this product")
        .at(graph_.source(), graph_.span(product), ir::to_string(graph_.type(product)))
        .reason(no->text)
        .help("choose another target, or other element types");
  }
  if (!inside) known_.emplace(key, region.lowered);
  products_[place] = std::move(region);
  return {};
}

// What a kernel holds too many reductions for is cut off as if it were tried again behind each of them.
Result<void> RegionFinder::cut_reductions(NodeId product, NodeId first, const Error& error, const Rejection& why) {
  const auto limited = std::find_if(why.limits.begin(), why.limits.end(),
                                    [](const Rejection::Limit& limit) { return limit.name == "reductions"; });
  if (limited == why.limits.end()) return cut_at(product, first, error);
  const int32_t level = level_[product.index()];
  int64_t left = limited->given;
  for (const NodeId reduction : of_level(level)) {
    if (changed_ && left <= limited->limit) break;
    if (reduction.index() < first.index() || !needed_[reduction.index()] || !of_product(reduction) ||
        !types::op_info(graph_.node(reduction).op).is_reduction())
      continue;
    note(reduction, action::cut_off, error);
    std::vector<NodeId> open{reduction};  // and what depends on it
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      if (cut_[node.index()] || level_[node.index()] != level || is_hooked(node)) continue;
      cut_off(node);
      left -= needed_[node.index()] && types::op_info(graph_.node(node).op).is_reduction() ? 1 : 0;
      open.insert(open.end(), readers_[node.index()].begin(), readers_[node.index()].end());
    }
  }
  return {};
}

std::optional<NodeId> RegionFinder::first_behind(NodeId product, bool reductions_only) const {
  for (const NodeId node : of_level(level_[product.index()])) {
    if (node.index() <= product.index() || !needed_[node.index()] || !of_product(node)) continue;
    if (graph_.node(node).op == Op::matmul) continue;  // of the same A
    if (!reductions_only || types::op_info(graph_.node(node).op).is_reduction()) return node;
  }
  return std::nullopt;
}

std::optional<Error> RegionFinder::misses(const package::EpilogueProgram& program, bool in_product, const Dim& batch,
                                          const Dim& rows, const Dim& cols) const {
  if (!options_.whole_when_empty && !options_.is_late) return std::nullopt;
  const Dim one = Dim::constant(1);
  const auto seen = [&](const Dim& size) {
    return options_.whole_when_empty || (!size.is_constant() && options_.is_late(size)) ? size : one;
  };
  if (package::missing_when(program, in_product, seen(batch), seen(rows), seen(cols)) == 0) return std::nullopt;
  return diag::error(diag::Code::guard_failed, "a kernel of its own makes this where a size is 0")
      .reason("it would be computed with elements that are not there")
      .help("leave the call out where a size is 0");
}

std::vector<const RegionFinder::Head*> RegionFinder::heads_at(size_t place) const {
  std::vector<const Head*> heads;
  for (const size_t r : heads_[place].together) heads.push_back(&heads_[r]);
  if (heads.empty()) heads.push_back(&heads_[place]);
  return heads;
}

void RegionFinder::dissolve(const KernelRegion& region, Rejection why) {
  Together together;
  together.products.push_back(*region.matmul);
  for (const FurtherProduct& further : region.more) together.products.push_back(further.matmul);
  dissolved_.emplace_back(std::move(together), std::move(why));
  changed_ = true;
}

Result<void> RegionFinder::cut_at(NodeId product, NodeId failed, const Error& error) {
  const int32_t level = level_[product.index()];
  const size_t f = failed.index();
  // Further products of the same A stay.
  const auto is_behind = [&](NodeId node) {
    return node.index() > product.index() && !cut_[node.index()] && graph_.node(node).op != Op::matmul;
  };
  if (failed != product && level_[f] == level && !cut_[f]) {
    cut_off(failed);
    note(failed, action::cut_off, error);
  } else if (level_[f] == no_product && !is_input(failed) && !forced_[f] && !stored_[f]) {
    force(failed);
    note(failed, action::in_front, error);
  } else {
    for (const NodeId node : of_level(level)) {
      if (!is_behind(node)) continue;
      if (!changed_) note(node, action::cut_off, error);
      cut_off(node);
    }
    if (!changed_) return error;
  }
  for (const NodeId node : of_level(level)) {
    if (!is_behind(node) || is_hooked(node)) continue;
    const auto operands = graph_.operands(node);
    const auto is_cut_here = [&](NodeId operand) { return cut_[operand.index()] && level_[operand.index()] == level; };
    if (std::any_of(operands.begin(), operands.end(), is_cut_here)) cut_off(node);
  }
  return {};
}

}  // namespace codetta::plan
