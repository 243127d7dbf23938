// SPDX-License-Identifier: Apache-2.0
// The search for regions by trying: what a lowering refuses is cut off behind its product or stored in front of its
// user, and then it is tried again. Each decision cuts or stores one value more, or gives a try up for good, so it
// ends.
//
// Decisions are those of rounds over the whole program, each of which ends with the first decision: products and steps
// by place, then maps by level. Of a round only what the last decision reaches is tried, as all else gives what it
// gave. So the work grows with the program, where whole rounds would take its square.
#include <algorithm>
#include <functional>

#include "plan/region_finder.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Op;

Result<ProgramRegions> RegionFinder::run() {
  find_needed();
  cut_joins();
  for (size_t i = graph_.size(); i-- > 0;) find_made_behind(NodeId(i));
  changed_places_.clear();
  for (size_t i = graph_.size(); i-- > 0;) find_stored(NodeId(i));
  stale_maps_.insert(no_product);
  for (size_t r = 0; r < heads_.size(); ++r) try_again(static_cast<int32_t>(r));
  while (true) {
    changed_ = false;
    ++tries_;
    follow_changes();
    if (!stale_products_.empty()) {
      const size_t place = stale_products_.extract(stale_products_.begin()).value();
      products_[place].reset();
      furthest_ = std::max(furthest_, place);
      const size_t dissolved = dissolved_.size();
      CODETTA_CHECK_OK(find_product(place));
      if (dissolved_.size() > dissolved) {
        begins_anew_ = !take_apart(place);
        if (begins_anew_) return ProgramRegions{};
      } else if (changed_) {
        decided_.insert(place);
        try_product_again(place);
      } else if (!products_[place]->a_made.empty()) {
        untried_.insert(place);
      }
    } else if (!stale_maps_.empty()) {
      furthest_ = heads_.size();
      const int32_t level = stale_maps_.extract(stale_maps_.begin()).value();
      CODETTA_CHECK_OK(find_maps(level));
      if (changed_) stale_maps_.insert(level);
    } else if (!store_computed_again() && !add_statistics()) {
      break;
    }
  }
  std::vector<KernelRegion> kernels;
  for (std::optional<KernelRegion>& product : products_) {
    if (product) kernels.push_back(std::move(*product));
  }
  for (LevelMaps& maps : maps_) {
    for (Group& group : maps.groups) kernels.push_back(std::move(group.region));
  }
  drop_unread(kernels);
  place_parts(kernels);
  for (KernelRegion& region : kernels) {
    if (options_.check_indices && !region.step) find_reads(region);
  }
  ProgramRegions result;
  CODETTA_TRY(const std::vector<size_t> order, execution_order(kernels));
  for (const size_t k : order) result.kernels.push_back(std::move(kernels[k]));
  result.notes = std::move(notes_);
  for (auto& [node, why] : apart_) {
    why.span = graph_.span(node);
    result.notes.push_back({node, std::string(action::apart), std::move(why)});
  }
  return result;
}

void RegionFinder::cut_off(NodeId node) {
  changed_ = true;
  if (cut_[node.index()]) return;
  cut_[node.index()] = true;
  changed_nodes_.push_back(node);
}

void RegionFinder::force(NodeId node) {
  changed_ = true;
  forced_[node.index()] = true;
  changed_nodes_.push_back(node);
}

std::vector<NodeId> RegionFinder::read_by(NodeId node) const {
  if (graph_.node(node).op == Op::matmul) {
    const Head& head = heads_[head_of_[node.index()]];
    return {head.a.source, head.b.source};
  }
  const auto operands = graph_.operands(node);
  return {operands.begin(), operands.end()};
}

void RegionFinder::find_readers() {
  readers_.resize(graph_.size());
  for (size_t i = 0; i < graph_.size(); ++i) {
    for (NodeId operand : read_by(NodeId(i))) {
      std::vector<NodeId>& readers = readers_[operand.index()];
      if (readers.empty() || !(readers.back() == NodeId(i))) readers.push_back(NodeId(i));
    }
  }
  read_a_of_.resize(heads_.size());
  for (size_t r = 0; r < heads_.size(); ++r) {
    if (heads_[r].level != r || !heads_[r].product) continue;
    const int32_t level = level_[heads_[r].a.source.index()];
    if (level != no_product) read_a_of_[static_cast<size_t>(level)].push_back(r);
  }
}

void RegionFinder::find_needed() {
  needed_.assign(graph_.size(), false);
  for (const ir::GraphOutput& output : graph_.outputs()) needed_[output.node.index()] = true;
  for (const Head& head : heads_) {
    if (head.hooked && options_.hooks.at(head.node).kept) needed_[head.hooked->index()] = true;
  }
  for (size_t i = graph_.size(); i-- > 0;) {
    if (!needed_[i]) continue;
    for (NodeId read : read_by(NodeId(i))) needed_[read.index()] = true;
    for (NodeId source : sizes_of(NodeId(i))) needed_[source.index()] = true;
    if (graph_.node(NodeId(i)).op != Op::matmul) continue;
    // Where the slice begins that a factor is read through is in no type of what is read.
    const Head& head = heads_[head_of_[i]];
    for (const Factor* factor : {&head.a, &head.b}) {
      for (const types::Dim& begin : factor->offsets) {
        for (const std::string& symbol : begin.symbols()) {
          if (const ir::SizeSource* source = sizes_.find(symbol)) needed_[source->node.index()] = true;
        }
      }
    }
  }
}

bool RegionFinder::find_stored(NodeId node) {
  const size_t i = node.index();
  bool stored = !outputs_of_[i].empty(), read = false, factor = false;
  const bool lies = is_input(node) && !forced_[i];
  if (is_hooked(node) && options_.hooks.at(heads_[static_cast<size_t>(level_[i])].node).kept) read = true;
  for (NodeId reader : readers_[i]) {
    if (lies || (read && factor)) break;
    const size_t r = reader.index();
    const Op op = graph_.node(reader).op;
    if (!needed_[r] || op == Op::result) continue;
    if (op == Op::matmul) {
      const Head& head = heads_[head_of_[r]];
      read = read || (head.a.source == node && !head.makes_a) || (head.b.source == node && !head.makes_b);
      factor = factor || (head.a.source == node && head.makes_a && options_.inside);
      continue;
    }
    if (of_factor_[r] && !stored_[r]) {
      factor = true;
      read = read || types::op_info(graph_.node(node).op).is_reduction();
    }
    if (forced_[i] || is_step(op) || (is_made(node) && !is_hooked(node))) {
      read = true;
    } else if (of_product(node)) {
      read = read || !of_product(reader) || level_[r] != level_[i];
    } else {
      read = read || (cut_[i] && of_product(reader) && !is_statistic(reader));
    }
  }
  stored = stored || read;
  const bool changed = stored_[i] != stored || read_[i] != read || of_factor_[i] != factor;
  stored_[i] = stored;
  read_[i] = read;
  of_factor_[i] = factor;
  return changed;
}

// Readers come behind what they read, so from the last node on each is looked at once.
void RegionFinder::follow_changes() {
  if (changed_nodes_.empty() && changed_places_.empty()) return;
  for (NodeId node : changed_nodes_) find_made_behind(node);
  std::vector<NodeId> reached = std::exchange(changed_nodes_, {});
  std::set<NodeId> open(reached.begin(), reached.end());
  for (NodeId node : reached) {
    for (NodeId read : read_by(node)) open.insert(read);
  }
  for (const size_t place : std::exchange(changed_places_, {})) {
    try_product_again(place);
    for (const Head* head : heads_at(place)) {
      for (NodeId read : read_by(head->node)) open.insert(read);
    }
  }
  while (!open.empty()) {
    const NodeId node = open.extract(std::prev(open.end())).value();
    if (!needed_[node.index()]) continue;
    const bool was_stored = is_stored(node), was_read = read_[node.index()];
    if (!find_stored(node)) continue;
    if (is_stored(node) != was_stored || read_[node.index()] != was_read) reached.push_back(node);
    for (NodeId read : read_by(node)) open.insert(read);
  }
  try_again_above(reached);
}

// Kernels look at nodes down to what is stored; factors at what the reductions that they load are computed from, too.
void RegionFinder::try_again_above(const std::vector<NodeId>& nodes) {
  reached_.resize(graph_.size());
  searches_ += 2;
  std::vector<std::pair<NodeId, bool>> open;  // and whether a stored reduction lies in between
  std::set<int32_t> levels;
  const auto reach = [&](NodeId node, bool reduced) {
    uint32_t& reached = reached_[node.index()];
    const uint32_t now = searches_ + (reduced ? 0 : 1);
    if (reached >= now) return;
    reached = now;
    levels.insert(level_[node.index()]);
    open.emplace_back(node, reduced);
  };
  for (NodeId node : nodes) reach(node, false);
  const size_t starts = open.size();
  for (size_t o = 0; o < open.size(); ++o) {
    const auto [node, reduced] = open[o];
    bool behind = reduced;
    if (o >= starts) {
      const Op op = graph_.node(node).op;
      if (op == Op::matmul || is_step(op)) continue;
      if (is_stored(node) && (reduced || !types::op_info(op).is_reduction())) continue;
      behind = reduced || is_stored(node);
    }
    for (NodeId reader : readers_[node.index()]) {
      if (needed_[reader.index()]) reach(reader, behind);
    }
  }
  for (const int32_t level : levels) try_again(level);
}

void RegionFinder::try_again(int32_t level) {
  stale_maps_.insert(level);
  if (level == no_product) return;
  const auto place = static_cast<size_t>(level);
  try_product_again(place);
  // Whether reductions of a factor's rows may be computed behind this product depends on all that is behind it.
  for (const size_t reader : read_a_of_[place]) {
    if (heads_[reader].makes_a) try_product_again(reader);
  }
}

void RegionFinder::try_product_again(size_t place) {
  const Head& head = heads_[place];
  if (!needed_[head.node.index()] || head.level != place || !stale_products_.insert(place).second) return;
  const auto readers = read_statistics_.find(place);
  if (readers == read_statistics_.end()) return;
  for (const size_t reader : readers->second) try_product_again(reader);
}

// All that was decided so far is of kernels in front of these products, which read what lies in memory then as now.
bool RegionFinder::take_apart(size_t place) {
  const std::vector<size_t> members = heads_[place].together;
  const auto is_made_or_cut = [&](size_t m) {
    return heads_[m].makes_a || heads_[m].makes_b || heads_[m].tried_behind || cut_[heads_[m].a.source.index()];
  };
  // Of products that differ in columns those that don't are tried together next.
  const auto type = [&](size_t m) -> const ir::TensorType& { return graph_.type(heads_[m].node); };
  const auto alike = [&](size_t m) {
    return std::count_if(members.begin(), members.end(), [&](size_t other) { return type(other) == type(m); });
  };
  if (std::any_of(members.begin(), members.end(),
                  [&](size_t m) { return alike(m) > 1 && alike(m) < static_cast<std::ptrdiff_t>(members.size()); }))
    return false;
  std::vector<NodeId>& behind = of_level_[place];
  // Without any left that are together, products are in the order of the graph.
  if (groups_ == 1 || furthest_ != place || decided_.count(place) != 0 ||
      std::any_of(members.begin(), members.end(), is_made_or_cut) ||
      std::any_of(behind.begin(), behind.end(), [&](NodeId node) { return cut_[node.index()]; }))
    return false;
  --groups_;
  for (const size_t m : members) heads_[m].level = m;
  heads_[place].together.clear();
  for (NodeId node : std::exchange(behind, {})) {
    int32_t& level = level_[node.index()];
    level = no_product;
    if (graph_.node(node).op == Op::matmul) {
      level = static_cast<int32_t>(head_of_[node.index()]);
    } else {
      for (NodeId operand : graph_.operands(node)) level = std::max(level, level_[operand.index()]);
      for (NodeId source : sizes_of(node)) level = std::max(level, level_[source.index()]);
    }
    of_level_[static_cast<size_t>(level)].push_back(node);
    changed_nodes_.push_back(node);
  }
  for (const size_t reader : std::exchange(read_a_of_[place], {}))
    read_a_of_[static_cast<size_t>(level_[heads_[reader].a.source.index()])].push_back(reader);
  if (const int32_t level = level_[heads_[place].a.source.index()]; level != no_product) {
    std::vector<size_t>& readers = read_a_of_[static_cast<size_t>(level)];
    std::erase(readers, place);
    readers.insert(readers.end(), members.begin(), members.end());
    std::sort(readers.begin(), readers.end());
  }
  for (const size_t m : members) {
    if (options_.prologues) find_made_of(m);
    changed_places_.push_back(m);
  }
  return true;
}

Result<std::vector<size_t>> RegionFinder::execution_order(const std::vector<KernelRegion>& kernels) const {
  std::map<NodeId, std::set<size_t>> producer;  // kernels that store a value (parts of a join: several)
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].hook) {
      for (const StoredValue& store : kernels[k].hook->others) producer[store.target].insert(k);
    }
    for (const StoredValue& store : kernels[k].stores) producer[store.target].insert(k);
  }
  std::vector<std::set<size_t>> needs(kernels.size());
  for (size_t k = 0; k < kernels.size(); ++k) {
    const KernelRegion& kernel = kernels[k];
    const auto want = [&](NodeId node) {
      if (is_input(node) && !copied(node, kernel)) return;
      const auto found = producer.find(node);
      if (found != producer.end()) needs[k].insert(found->second.begin(), found->second.end());
    };
    for (NodeId leaf : kernel.leaves) want(leaf);
    if (kernel.matmul) {
      if (kernel.a_made.empty()) want(kernel.a.source);
      if (kernel.b_made.empty()) want(kernel.b.source);
      for (const auto* factors : {&kernel.a_made, &kernel.b_made}) {
        for (const MadeFactor& made : *factors) {
          for (NodeId leaf : made.leaves) want(leaf);
        }
      }
      for (const FurtherProduct& further : kernel.more) want(further.b.source);
    }
    needs[k].erase(k);  // what copies a step's result to an output is among those that store it
  }
  return order_of_needs(needs);
}

}  // namespace codetta::plan
