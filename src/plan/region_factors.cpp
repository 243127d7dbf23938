// SPDX-License-Identifier: Apache-2.0
// Factors that lie nowhere: what is element-wise in front of a product, computed where the product reads it.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "plan/region_finder.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Inst;
using types::Dim;
using types::Op;

bool RegionFinder::can_make(const Head& head, bool is_a, size_t readers) const {
  const NodeId source = is_a ? head.a.source : head.b.source;
  if (!head.product || is_input(source) || head.a.source == head.b.source) return false;
  for (NodeId view = graph_.operands(head.node)[is_a ? 0 : 1];; view = graph_.operands(view)[0]) {
    if (users_[view.index()] != readers) return false;
    if (view == source) return true;
  }
}

void RegionFinder::find_made() {
  users_.assign(graph_.size(), 0);
  for (const ir::GraphOutput& output : graph_.outputs()) ++users_[output.node.index()];
  for (size_t i = 0; i < graph_.size(); ++i) {
    for (NodeId operand : graph_.operands(NodeId(i))) ++users_[operand.index()];
  }
  for (size_t r = 0; r < heads_.size(); ++r) {
    if (heads_[r].level == r) find_made_of(r);
  }
}

void RegionFinder::find_made_of(size_t place) {
  const std::vector<const Head*> all = heads_at(place);
  const auto in_front = [&](NodeId source) { return level_[source.index()] == no_product; };
  const bool every = std::all_of(all.begin(), all.end(), [&](const Head* head) {
    return head->product && in_front(head->b.source) && can_make(*head, false, 1);
  });
  const bool a =
      options_.inside && all[0]->product && in_front(all[0]->a.source) && can_make(*all[0], true, all.size());
  for (const Head* head : all) {
    Head& made = heads_[head_of_[head->node.index()]];
    made.makes_b = every;
    made.makes_a = a;
  }
}

void RegionFinder::find_made_behind(NodeId source) {
  const int32_t level = level_[source.index()];
  if (!options_.inside || level == no_product || !cut_[source.index()] || is_made(source)) return;
  for (const size_t place : read_a_of_[static_cast<size_t>(level)]) {
    const std::vector<const Head*> all = heads_at(place);
    if (all[0]->a.source != source || all[0]->tried_behind || !can_make(*all[0], true, all.size())) continue;
    for (const Head* head : all) {
      Head& made = heads_[head_of_[head->node.index()]];
      made.makes_a = made.tried_behind = true;
    }
    changed_places_.push_back(place);
  }
}

void RegionFinder::make_factors(KernelRegion& region, size_t place) {
  const std::vector<const Head*> all = heads_at(place);
  const auto in_front = [&](const Factor& factor, const Error& error, bool is_a) {
    note(factor.source, action::in_front, error);
    if (is_a) cut_statistics(level_[factor.source.index()]);
    for (const Head* head : all) {
      Head& made = heads_[head_of_[head->node.index()]];
      (is_a ? made.makes_a : made.makes_b) = false;
    }
    changed_places_.push_back(place);
    changed_ = true;
  };
  if (all[0]->makes_a) {
    if (const auto no = make_factor(region, all[0]->a, true)) return in_front(all[0]->a, *no, true);
  }
  for (const Head* one : all) {
    if (!one->makes_b) break;
    if (const auto no = make_factor(region, one->b, false)) return in_front(one->b, *no, false);
  }
}

// Of both, A: it is made again for every tile of columns.
void RegionFinder::make_in_front(const KernelRegion& region, const Error& error) {
  const bool is_a = !region.a_made.empty();
  note(is_a ? region.a.source : region.b.source, action::in_front, error);
  if (is_a) cut_statistics(level_[region.a.source.index()]);
  const size_t place = heads_[head_of_[region.matmul->index()]].level;
  for (const Head* head : heads_at(place)) {
    Head& made = heads_[head_of_[head->node.index()]];
    (is_a ? made.makes_a : made.makes_b) = false;
  }
  changed_places_.push_back(place);
  changed_ = true;
}

std::optional<Error> RegionFinder::make_factor(KernelRegion& region, const Factor& factor, bool is_a) {
  constexpr size_t most_operands = 32;  // runtime::cpu::max_maker_operands
  MadeFactor made;
  made.value = factor.source;
  const auto no = [&](std::string reason) {
    return Error(
        diag::error(diag::Code::outside_product, "this is computed in front of the product").reason(std::move(reason)));
  };
  const auto& shape = graph_.type(factor.source).shape;
  if (is_a ? shape.size() < 2 : shape.size() != 2)
    return no(fmt::format("a factor of {} dims is read from memory", shape.size()));
  Dim items = Dim::constant(1);
  for (size_t d = 0; d + 2 < shape.size(); ++d) items = items * shape[d];
  if (!(items == Dim::constant(1)) && !(items == region.batch))
    return no(fmt::format("its {} items serve several of the product's {} each", items.to_string(),
                          region.batch.to_string()));
  KernelRegion map;
  map.stores.push_back({factor.source, factor.source, {}, std::nullopt});
  map.leaves = made.leaves = leaves_of({factor.source}, map, [&](NodeId node) { return node == factor.source; });
  std::set<NodeId> seen;
  std::vector<NodeId> open{factor.source};
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (!seen.insert(node).second || std::binary_search(made.leaves.begin(), made.leaves.end(), node)) continue;
    const types::OpInfo& info = types::op_info(graph_.node(node).op);
    if (info.is_reduction()) return no("it reduces, and a block of the factor does not hold what it needs");
    if (info.op == Op::take || info.op == Op::gather) return no("it reads by indices, which are looked at in front");
    for (NodeId operand : graph_.operands(node)) open.push_back(operand);
  }
  auto lowered = try_map(map, nullptr);
  if (!lowered) return lowered.error();
  const package::EpilogueProgram& program = lowered->program;
  const Dim one = Dim::constant(1);
  // Of several items, each by itself, or all rows one behind the other.
  const Dim rows = shape[shape.size() - 2];
  const bool lies =
      (lowered->batch == items && lowered->rows == rows) || (lowered->batch == one && lowered->rows == items * rows);
  if (program.phases.size() != 1 || program.phases[0].stores.size() != 1 || !lies || !(lowered->cols == shape.back()))
    return no("its elements do not lie in rows and columns of one matrix");
  const package::Operand& block = program.operands[program.phases[0].stores[0].operand];
  if (block.access != package::Access::Full || !block.unit_stride || !block.offsets.empty())
    return no("its elements do not lie in rows and columns of one matrix");
  if (program.operands.size() > most_operands)
    return no(fmt::format("it reads {} tensors; a block takes {}", program.operands.size() - 1, most_operands - 1));
  const bool any = std::any_of(made.leaves.begin(), made.leaves.end(), [&](NodeId leaf) {
    return !is_input(leaf) || copied(leaf, map) || !input_of(leaf)->is_scalar;
  });
  if (!any) return no("it reads no tensor");
  made.lowered = *std::move(lowered);
  if (auto no_map = add_reductions(made)) return no_map;
  made.untried = is_a && made.reductions && !heads_[head_of_[region.matmul->index()]].tried_statistics &&
                 statistics_for(made).has_value();
  (is_a ? region.a_made : region.b_made).push_back(std::move(made));
  return std::nullopt;
}

std::vector<NodeId> RegionFinder::own_reductions(const MadeFactor& made) const {
  std::vector<NodeId> all;
  for (NodeId leaf : made.leaves) {
    if (!is_input(leaf) && types::op_info(graph_.node(leaf).op).is_reduction()) all.push_back(leaf);
  }
  // How often the factor and its reductions use each value: what is used more often others need.
  std::map<NodeId, uint32_t> uses;
  std::set<NodeId> seen;
  std::vector<NodeId> open{made.value};
  while (!open.empty() && !all.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    const bool here = node == made.value || std::find(all.begin(), all.end(), node) != all.end();
    if (!seen.insert(node).second || is_input(node) || is_made(node) || (is_stored(node) && !here)) continue;
    for (NodeId operand : graph_.operands(node)) {
      ++uses[operand];
      open.push_back(operand);
    }
  }
  std::erase_if(all, [&](NodeId node) { return users_[node.index()] > uses[node]; });
  return all;
}

bool RegionFinder::reads_rows(NodeId from, const Statistics& of) const {
  std::set<NodeId> seen(of.nodes.begin(), of.nodes.end());
  std::vector<NodeId> open{from};
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (level_[node.index()] != of.level || !seen.insert(node).second) continue;
    if (!cut_[node.index()]) return true;
    for (NodeId operand : graph_.operands(node)) open.push_back(operand);
  }
  return false;
}

std::set<NodeId> RegionFinder::cut_under(const Statistics& of) const {
  std::set<NodeId> under;
  std::vector<NodeId> open = of.nodes;
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (level_[node.index()] != of.level || !cut_[node.index()] || !under.insert(node).second) continue;
    for (NodeId operand : graph_.operands(node)) open.push_back(operand);
  }
  return under;
}

bool RegionFinder::needs_others(const Statistics& of) const {
  const std::set<NodeId> under = cut_under(of);
  return std::any_of(of.others.begin(), of.others.end(), [&](NodeId node) { return under.count(node) != 0; });
}

std::optional<RegionFinder::Statistics> RegionFinder::statistics_for(const MadeFactor& made) const {
  Statistics found;
  found.level = level_[made.value.index()];
  if (found.level == no_product) return std::nullopt;
  const auto behind = [&](NodeId node) {
    return level_[node.index()] == found.level && cut_[node.index()] && is_stored(node) && needed_[node.index()];
  };
  for (NodeId leaf : made.leaves) {
    if (behind(leaf) && types::op_info(graph_.node(leaf).op).is_reduction()) found.nodes.push_back(leaf);
  }
  if (found.nodes.empty()) return std::nullopt;
  for (NodeId node : of_level_[static_cast<size_t>(found.level)]) {
    const bool own = std::find(found.nodes.begin(), found.nodes.end(), node) != found.nodes.end();
    if (behind(node) && !own) found.others.push_back(node);
  }
  // A map that stays for others reads the rows anyway; and what it stores does not come before these.
  if (needs_others(found) ||
      std::any_of(found.others.begin(), found.others.end(), [&](NodeId node) { return reads_rows(node, found); }))
    return std::nullopt;
  const auto& producer = products_[static_cast<size_t>(found.level)];
  if (!producer || !producer->matmul || !producer->more.empty() || producer->statistics) return std::nullopt;
  return found;
}

bool RegionFinder::add_statistics() {
  bool again = false;
  while (!untried_.empty()) {
    const size_t place = untried_.extract(untried_.begin()).value();
    const KernelRegion& region = *products_[place];
    Head& head = heads_[head_of_[region.matmul->index()]];
    if (region.a_made.empty() || std::exchange(head.tried_statistics, true)) continue;
    if (region.a_made[0].untried) {
      changed_places_.push_back(place);
      again = true;
    }
    const auto found = statistics_for(region.a_made[0]);
    if (!found) continue;
    const auto map_of = [&](std::vector<NodeId> nodes, const std::vector<NodeId>& more) {
      nodes.insert(nodes.end(), more.begin(), more.end());
      std::sort(nodes.begin(), nodes.end());
      KernelRegion map;
      for (NodeId node : nodes) map.stores.push_back({node, node, {}, std::nullopt});
      map.leaves =
          leaves_of(nodes, map, [&](NodeId node) { return std::binary_search(nodes.begin(), nodes.end(), node); });
      return try_map(map, nullptr);
    };
    auto map = map_of(found->nodes, found->others);
    if (!map) map = map_of(found->nodes, {});
    if (!map) continue;
    const KernelRegion& producer = *products_[static_cast<size_t>(found->level)];
    RowStatistics& statistics = statistics_
                                    .insert_or_assign(found->level, RowStatistics{producer.lowered, producer.stores,
                                                                                  producer.leaves, *std::move(map)})
                                    .first->second;
    if (!found->others.empty()) {
      if (auto rest = map_of({}, found->others)) statistics.rest = *std::move(rest);
    }
    known_.erase(key_of(producer));  // to be asked about again where statistics are refused
    take_back_notes(*found);
    for (NodeId node : found->nodes) {
      cut_[node.index()] = false;
      statistic_[node.index()] = true;
      changed_nodes_.push_back(node);
    }
    return true;
  }
  return again;
}

void RegionFinder::take_back_notes(const Statistics& of) {
  const std::set<NodeId> under = cut_under(of);
  const auto kept = std::stable_partition(notes_.begin(), notes_.end(), [&](const FusionNote& told) {
    return told.action != action::cut_off || told.why.code != static_cast<uint16_t>(diag::Code::better_behind) ||
           under.count(told.node) == 0;
  });
  taken_back_.insert_or_assign(of.level, std::vector<FusionNote>(kept, notes_.end()));
  notes_.erase(kept, notes_.end());
}

void RegionFinder::drop_statistics(const KernelRegion& region, const Error& error) {
  const auto first = std::find_if(region.stores.begin(), region.stores.end(),
                                  [&](const StoredValue& store) { return is_statistic(store.node); });
  const int32_t level = level_[region.matmul->index()];
  note(first->node, action::cut_off, error);
  taken_back_.erase(level);
  cut_statistics(level);
}

void RegionFinder::cut_statistics(int32_t level) {
  if (level == no_product) return;
  for (NodeId node : of_level_[static_cast<size_t>(level)]) {
    if (is_statistic(node)) cut_off(node);
  }
  const auto taken = taken_back_.extract(level);
  if (!taken.empty()) notes_.insert(notes_.end(), taken.mapped().begin(), taken.mapped().end());
}

std::optional<Error> RegionFinder::add_reductions(MadeFactor& made) {
  KernelRegion reductions, whole;
  const std::vector<NodeId> nodes = own_reductions(made);
  if (nodes.empty()) return std::nullopt;
  std::vector<NodeId> apart;
  for (NodeId node : nodes) {
    if (is_statistic(node)) {
      made.reduced_by = heads_[static_cast<size_t>(level_[node.index()])].node;
    } else {
      apart.push_back(node);
    }
  }
  for (NodeId node : apart) reductions.stores.push_back({node, node, {}, std::nullopt});
  const auto here = [&](NodeId node) {
    return node == made.value || std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  reductions.leaves = leaves_of(apart, reductions, here);
  whole.stores.push_back({made.value, made.value, {}, std::nullopt});
  whole.leaves = leaves_of({made.value}, whole, here);
  if (!apart.empty()) {
    auto first = try_map(reductions, nullptr);
    if (!first) return first.error();
    made.reductions = *std::move(first);
  }
  auto all = try_map(whole, nullptr);
  if (!all) return all.error();
  made.whole = *std::move(all);
  return std::nullopt;
}

// Arguments and operands of factors join those of the epilogue: a tensor that both read is one argument.
std::optional<Error> RegionFinder::take_inside(KernelRegion& region) const {
  package::EpilogueProgram& program = region.lowered.program;
  std::vector<uint32_t>& from = region.lowered.argument_input;
  const auto no = [](std::string reason) {
    return Error(
        diag::error(diag::Code::outside_product, "this is computed in front of the product").reason(std::move(reason)));
  };
  const auto leaf_index = [&](NodeId leaf) {
    const auto found = std::find(region.leaves.begin(), region.leaves.end(), leaf);
    const auto index = static_cast<uint32_t>(found - region.leaves.begin());
    if (found == region.leaves.end()) {
      region.leaves.push_back(leaf);
      for (uint32_t& input : from) input += input >= index ? 1 : 0;  // what is stored comes behind the leaves
    }
    return index;
  };
  // The argument that a leaf is, or none. A slice of it is another one: it begins elsewhere.
  std::vector<size_t> slices;
  const auto argument_of_leaf = [&](uint32_t leaf) {
    size_t i = 0;
    while (i < from.size() && (from[i] != leaf || std::find(slices.begin(), slices.end(), i) != slices.end())) ++i;
    return i;
  };
  const auto take = [&](const MadeFactor& made, package::FactorProgram::Which which,
                        size_t product) -> std::optional<Error> {
    const package::EpilogueProgram& map = made.lowered.program;
    program.contracts = program.contracts && map.contracts;
    std::vector<uint32_t> argument_of, operand_of(map.operands.size());
    for (size_t i = 0; i < map.arguments.size(); ++i) {
      if (map.arguments[i].is_output) {
        argument_of.push_back(UINT32_MAX);
        continue;
      }
      const uint32_t leaf = leaf_index(made.leaves[made.lowered.argument_input[i]]);
      const size_t known = argument_of_leaf(leaf);
      argument_of.push_back(static_cast<uint32_t>(known));
      if (known < from.size()) continue;
      from.push_back(leaf);
      program.arguments.push_back(map.arguments[i]);
    }
    for (size_t k = 0; k < map.operands.size(); ++k) {
      if (map.operands[k].is_store) continue;
      package::Operand operand = map.operands[k];
      operand.argument = argument_of[operand.argument];
      operand_of[k] = static_cast<uint32_t>(program.operands.size());
      program.operands.push_back(std::move(operand));
    }
    package::FactorProgram& factor = program.factors.emplace_back();
    factor.which = which;
    factor.product = static_cast<uint32_t>(product);
    factor.dtype = graph_.type(made.value).dtype;
    const auto& shape = graph_.type(made.value).shape;
    factor.batch_in_rows = made.lowered.batch == Dim::constant(1) && !(made.lowered.rows == shape[shape.size() - 2]);
    factor.insts = map.phases[0].insts;
    factor.value = map.phases[0].stores[0].value;
    for (Inst& inst : factor.insts) {
      if (inst.kind == Inst::Kind::Extent) return no("it needs the sizes of its own space");
      if (inst.kind == Inst::Kind::Scalar) inst.index = argument_of[inst.index];
      if (inst.kind == Inst::Kind::Load || inst.kind == Inst::Kind::LoadAt) inst.index = operand_of[inst.index];
    }
    return std::nullopt;
  };
  for (const FurtherProduct& further : region.more) {
    const Factor& b = further.b;
    const ir::TensorType& type = graph_.type(b.source);
    if (b.view.empty() && type.shape.size() > 3)
      return no(fmt::format("a further factor has {} dims", type.shape.size()));
    // A slice is an argument of its own, which begins where the product does (ProgramPlanner::add_kernel).
    const uint32_t leaf = leaf_index(b.source);
    const size_t known = b.offsets.empty() ? argument_of_leaf(leaf) : from.size();
    package::Operand operand;
    operand.argument = static_cast<uint32_t>(known);
    if (known == from.size()) {
      std::vector<Dim> shape = type.shape;
      for (size_t d = 0; d < b.offsets.size(); ++d) shape[d] = shape[d] - b.offsets[d];
      if (!b.offsets.empty()) slices.push_back(known);
      from.push_back(leaf);
      program.arguments.push_back(
          {name_of(b.source) + (b.offsets.empty() ? "" : "_slice"), type.dtype, false, false, std::move(shape)});
    }
    operand.dtype = type.dtype;
    operand.unit_stride = false;
    // A matrix has an index of its rows and of its columns, also where that is 0.
    const auto add = [&](package::Axis axis, const package::FactorDim& dim) {
      const bool one = dim.size == Dim::constant(1);
      if (axis != package::Axis::Batch || !(dim.scale == Dim::constant(0)))
        operand.terms.push_back({axis, 1, 0, dim.dim, one ? Dim::constant(1) : dim.scale});
    };
    const size_t seen = b.view.size();
    if (seen != 0) {
      if (seen == 3) add(package::Axis::Batch, b.view[0]);
      add(package::Axis::Row, b.view[seen - 2]);
      add(package::Axis::Col, b.view[seen - 1]);
    } else {
      const auto k_dim = static_cast<uint8_t>(b.transposed ? 0 : 1);
      if (type.shape.size() == 3 && !(type.shape[0] == Dim::constant(1)))
        operand.terms.push_back({package::Axis::Batch, 1, 0, 2});
      operand.terms.push_back({package::Axis::Row, 1, 0, k_dim});
      operand.terms.push_back({package::Axis::Col, 1, 0, static_cast<uint8_t>(1 - k_dim)});
    }
    program.more_b.push_back(static_cast<uint32_t>(program.operands.size()));
    program.operands.push_back(std::move(operand));
  }
  for (const MadeFactor& made : region.a_made) {
    if (auto error = take(made, package::FactorProgram::Which::A, 0)) return error;
  }
  for (size_t p = 0; p < region.b_made.size(); ++p) {
    if (auto error = take(region.b_made[p], package::FactorProgram::Which::B, p)) return error;
  }
  return std::nullopt;
}

}  // namespace codetta::plan
