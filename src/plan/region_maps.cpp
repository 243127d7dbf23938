// SPDX-License-Identifier: Apache-2.0
// Kernels of what is no part of a product, put together where they share what they read.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "device/gpu/abi.h"
#include "ir/reshape.hpp"
#include "plan/parameters.hpp"
#include "plan/region_finder.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Op;

namespace {

constexpr size_t looked_back = 8;  // groups that a value is offered to
constexpr size_t most_phases = 8;  // of a group: each reads again what it needs
// Of a group. What its values share is read once more for each further group, a small part of what so many values take;
// more of them write to more places at once than caches have ways, and each that joins is tried with all before it.
constexpr size_t most_stores = 64;

ptrdiff_t symbolic_dims(const std::vector<types::Dim>& shape) {
  return std::count_if(shape.begin(), shape.end(), [](const types::Dim& dim) { return !dim.is_constant(); });
}

bool same_space(const LoweredMap& map, const KernelRegion& region) {
  return map.batch == region.batch && map.rows == region.rows && map.cols == region.cols;
}

// Why the work is no part of the kernel whose value it reads.
std::optional<Rejection> keeps_apart(const Result<LoweredMap>& merged, const KernelRegion& before) {
  if (!merged) {
    const Diagnostic& first = merged.error().diagnostics().front();
    return Rejection{merged.error().code(), {}, diag::sentence(first), {}};
  }
  const size_t phases = merged->program.phases.size();
  if (phases > most_phases) {
    return Rejection{
        static_cast<uint16_t>(diag::Code::epilogue_large),
        {},
        fmt::format("together with what it reads it takes {} phases; a kernel has up to {}", phases, most_phases),
        {}};
  }
  if (same_space(*merged, before)) return std::nullopt;
  const auto text = [](const auto& space) {
    return fmt::format("{} x {} x {}", space.batch.to_string(), space.rows.to_string(), space.cols.to_string());
  };
  return Rejection{
      static_cast<uint16_t>(diag::Code::position_conflict),
      {},
      fmt::format("together they would go over {}; what is in front goes over {}", text(*merged), text(before)),
      {}};
}

void take(KernelRegion& region, LoweredMap lowered) {
  region.batch = lowered.batch;
  region.rows = lowered.rows;
  region.cols = lowered.cols;
  region.lowered = std::move(lowered);
}

}  // namespace

Result<void> RegionFinder::find_maps(int32_t level) {
  LevelMaps& maps = maps_[static_cast<size_t>(level + 1)];
  for (const NodeId node : maps.reductions) --computed_[node.index()];
  maps = {};
  for (const NodeId node : of_level(level)) apart_.erase(node);
  for (const NodeId node : of_level(level)) {
    if (!stored_[node.index()] || !needed_[node.index()] || of_product(node)) continue;
    const bool join = graph_.node(node).op == Op::join && !selects(node);
    for (const PartPath& part : join ? parts_of(node) : std::vector<PartPath>{{}}) {
      CODETTA_CHECK_OK(place(maps, part_at(node, part), node, part));
      if (changed_) return {};
    }
  }
  for (const Group& group : maps.groups) {
    std::vector<NodeId> open;
    for (const StoredValue& store : group.region.stores) open.push_back(store.node);
    const std::vector<NodeId>& leaves = group.region.leaves;
    std::set<NodeId> seen;
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      if (!seen.insert(node).second || std::binary_search(leaves.begin(), leaves.end(), node)) continue;
      if (types::op_info(graph_.node(node).op).is_reduction()) {
        maps.reductions.push_back(node);
        if (++computed_[node.index()] == 2) computed_again_.push_back(node);
      }
      for (NodeId operand : graph_.operands(node)) open.push_back(operand);
    }
  }
  return {};
}

// Whether each part has elements, whatever its sizes: a map that selects looks for one in every part, and takes the
// nearest where the position lies beside it.
static bool parts_have_elements(const ir::Graph& graph, NodeId join) {
  const auto d = static_cast<size_t>(graph.attr_as<ir::JoinAttr>(join).dim);
  const auto parts = graph.operands(join);
  return std::all_of(parts.begin(), parts.end(),
                     [&](NodeId part) { return graph.type(part).shape[d].lower_bound().value_or(0) > 0; });
}

std::vector<NodeId> RegionFinder::joins_in(NodeId join) const {
  std::vector<NodeId> joins, open{join};
  std::set<NodeId> seen;
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    const bool leaf = is_input(node) || is_made(node) || (is_stored(node) && !(node == join));
    if (leaf || !seen.insert(node).second) continue;
    if (graph_.node(node).op == Op::join) joins.push_back(node);
    const auto operands = graph_.operands(node);
    open.insert(open.end(), operands.begin(), operands.end());
  }
  return joins;
}

std::optional<double> RegionFinder::apart_us(NodeId join) {
  double microseconds = 0;
  std::vector<KernelRegion> before;
  for (const PartPath& part : parts_of(join)) {
    const NodeId node = part_at(join, part);
    if (may_place(node)) continue;  // by its product's kernel
    KernelRegion region;
    region.stores = {{node, join, part, std::nullopt}};
    region.leaves = leaves_of({node}, KernelRegion{}, [](NodeId) { return false; });
    auto lowered = try_map(region, nullptr);
    const auto own = lowered ? options_.map_us(*lowered) : std::nullopt;
    if (!own) return std::nullopt;
    take(region, *std::move(lowered));
    // What shares what it reads is one kernel with it.
    const bool together = std::any_of(before.begin(), before.end(), [&](const KernelRegion& one) {
      return one.batch == region.batch && one.rows == region.rows && one.cols == region.cols &&
             std::any_of(region.leaves.begin(), region.leaves.end(),
                         [&](NodeId leaf) { return std::binary_search(one.leaves.begin(), one.leaves.end(), leaf); });
    });
    if (!together) microseconds += *own;
    before.push_back(std::move(region));
  }
  return microseconds;
}

bool RegionFinder::selects(NodeId join) {
  if (!options_.map_us || !parts_differ(graph_, join)) return false;
  const std::vector<NodeId> joins = joins_in(join);
  std::vector<NodeId> stored;  // were it not for this
  // Joins inside of others are stored there.
  std::set<NodeId> inner;
  for (const NodeId outer : joins) {
    for (const NodeId part : graph_.operands(outer)) {
      if (is_inner_join(part)) inner.insert(part);
    }
  }
  std::copy_if(joins.begin(), joins.end(), std::back_inserter(stored),
               [&](NodeId node) { return parts_differ(graph_, node) && !inner.contains(node); });
  // Those of equal parts, too: inside of another one they are chosen by the position as well.
  if (!std::all_of(joins.begin(), joins.end(), [&](NodeId node) { return parts_have_elements(graph_, node); }))
    return false;
  KernelRegion whole;
  whole.stores = places_of(join, join, {});
  if (whole.stores.empty()) return false;
  whole.leaves = leaves_of({join}, KernelRegion{}, [&](NodeId node) { return node == join; });
  const Key key = key_of(whole);
  const auto known = decided_joins_.find(key);
  if (known != decided_joins_.end()) return known->second;
  for (const NodeId node : stored) stored_[node.index()] = true;
  std::optional<double> apart = 0;
  for (const NodeId node : stored) {
    const auto own = apart_us(node);
    apart = apart && own ? std::optional(*apart + *own) : std::nullopt;
  }
  for (const NodeId node : stored) stored_[node.index()] = node == join;
  selected_.resize(graph_.size());
  const std::vector<bool> others = selected_;
  for (const NodeId node : joins) selected_[node.index()] = true;
  const auto lowered = try_map(whole, nullptr);
  const auto own = lowered ? options_.map_us(*lowered) : std::nullopt;
  const bool better = own && apart && !misses(lowered->program, false, lowered->batch, lowered->rows, lowered->cols) &&
                      options_.selects(join, *own, *apart);
  if (!better) selected_ = others;
  decided_joins_.emplace(key, better);
  return better;
}

LoweredMap map_of(const KernelRegion& map) {
  LoweredMap lowered;
  static_cast<Lowered&>(lowered) = map.lowered;
  lowered.batch = map.batch, lowered.rows = map.rows, lowered.cols = map.cols;
  return lowered;
}

void add_reads(const KernelRegion& kernel, std::set<NodeId>& read) {
  const auto add = [&](const std::vector<NodeId>& leaves) { read.insert(leaves.begin(), leaves.end()); };
  add(kernel.leaves);
  if (kernel.hook) add(kernel.hook->leaves);
  if (!kernel.matmul) return;
  read.insert({kernel.a.source, kernel.b.source});
  for (const FurtherProduct& further : kernel.more) read.insert(further.b.source);
  for (const auto* factors : {&kernel.a_made, &kernel.b_made}) {
    for (const MadeFactor& made : *factors) add(made.leaves);
  }
}

void RegionFinder::drop_unread(std::vector<KernelRegion>& kernels) {
  std::set<const KernelRegion*> kept;  // as they are: nothing less can be lowered
  for (bool dropped = true; dropped;) {
    dropped = false;
    std::set<NodeId> read;
    for (const KernelRegion& kernel : kernels) add_reads(kernel, read);
    for (KernelRegion& kernel : kernels) {
      if (kernel.matmul || kernel.step || kernel.stores.empty() || kept.contains(&kernel)) continue;
      KernelRegion less;
      std::vector<NodeId> nodes;
      for (const StoredValue& store : kernel.stores) {
        if (!store.output && !read.contains(store.target)) continue;
        less.stores.push_back(store);
        nodes.push_back(store.node);
      }
      if (less.stores.size() == kernel.stores.size()) continue;
      less.leaves = leaves_of(nodes, KernelRegion{}, [&](NodeId node) {
        return !std::binary_search(kernel.leaves.begin(), kernel.leaves.end(), node);
      });
      if (!less.stores.empty()) {
        auto lowered = try_map(less, nullptr);
        // Over another space, too, where that asks for no further pass.
        if (!lowered || lowered->program.phases.size() > kernel.lowered.program.phases.size() ||
            misses(lowered->program, false, lowered->batch, lowered->rows, lowered->cols)) {
          kept.insert(&kernel);
          continue;
        }
        take(less, *std::move(lowered));
      }
      kernel = std::move(less);
      dropped = true;
    }
  }
  std::erase_if(kernels,
                [](const KernelRegion& kernel) { return !kernel.matmul && !kernel.step && kernel.stores.empty(); });
  std::set<NodeId> stored;
  for (const KernelRegion& kernel : kernels) {
    for (const StoredValue& store : kernel.stores) stored.insert(store.target);
  }
  std::erase_if(notes_,
                [&](const FusionNote& note) { return note.action == action::stored && !stored.contains(note.node); });
}

bool RegionFinder::store_computed_again() {
  bool any = false;
  for (const NodeId node : std::exchange(computed_again_, {})) {
    if (computed_[node.index()] < 2 || forced_[node.index()]) continue;
    force(node);
    any = true;
  }
  return any;
}

Result<void> RegionFinder::place(LevelMaps& maps, NodeId node, NodeId target, const PartPath& part) {
  std::vector<Group>& groups = maps.groups;
  std::map<NodeId, size_t>& group_of = maps.group_of;
  const std::vector<StoredValue> stores = places_of(node, target, part);
  if (stores.empty()) return {};                               // where its step has put it
  const bool copied_part = node != target && is_stored(node);  // a part of a join that lies in memory anyway
  const std::vector<NodeId> own =
      leaves_of({node}, KernelRegion{}, [&](NodeId n) { return n == node && !copied_part; });
  size_t earliest = 0;
  bool depends = false;
  for (NodeId leaf : own) {
    const auto found = group_of.find(leaf);
    if (found == group_of.end()) continue;
    depends = true;
    // What is looked at before a kernel runs is not made by it.
    earliest = std::max(earliest, found->second + (looked_at_[leaf.index()] ? 1 : 0));
  }
  const size_t from = groups.size() > looked_back ? groups.size() - looked_back : 0;
  for (size_t g = groups.size(); g-- > std::max(earliest, from);) {
    Group& group = groups[g];
    KernelRegion& before = group.region;
    if (before.copied_view || device_of(before.stores[0].target) != device_of(target)) continue;
    const bool shares = (depends && g == earliest) || std::any_of(own.begin(), own.end(), [&](NodeId leaf) {
                          return std::find(before.leaves.begin(), before.leaves.end(), leaf) != before.leaves.end();
                        });
    if (!shares) continue;
    if (before.stores.size() + stores.size() > most_stores) {
      if (depends && g == earliest) {
        apart_.insert_or_assign(
            target,
            Rejection{
                static_cast<uint16_t>(diag::Code::epilogue_large),
                {},
                fmt::format("together with what it reads it stores {} values; a kernel of no product stores up to {}",
                            before.stores.size() + stores.size(), most_stores),
                {}});
      }
      continue;
    }
    KernelRegion merged;
    merged.stores = before.stores;
    merged.stores.insert(merged.stores.end(), stores.begin(), stores.end());
    std::vector<NodeId> nodes;
    for (const StoredValue& store : merged.stores) nodes.push_back(store.node);
    const auto here = [&](NodeId n) {
      return (n == node && !copied_part) || std::find(group.nodes.begin(), group.nodes.end(), n) != group.nodes.end();
    };
    merged.leaves = leaves_of(nodes, KernelRegion{}, here);
    auto lowered = try_map(merged, nullptr);
    if (lowered) {
      if (auto error = misses(lowered->program, false, lowered->batch, lowered->rows, lowered->cols))
        lowered = *std::move(error);
    }
    if (auto why = keeps_apart(lowered, before)) {
      if (depends && g == earliest) apart_.insert_or_assign(target, *std::move(why));
      continue;
    }
    take(merged, *lowered);
    group.nodes.push_back(target);
    group_of[target] = std::max(g, group_of.contains(target) ? group_of[target] : g);
    apart_.erase(target);
    before = std::move(merged);
    return {};
  }
  KernelRegion region;
  region.stores = stores;
  region.leaves = own;
  NodeId failed = node;
  const auto lowered = try_map(region, &failed);
  if (!lowered) {
    const bool no_axes = lowered.error().code() == static_cast<uint16_t>(diag::Code::symbolic_layout);
    if (no_axes && node == target) region.copied_view = copied_view(node, own);
    if (!region.copied_view) return store_in_front(node, target, failed, own, lowered.error());
    group_of[target] = groups.size();
    groups.push_back({{target}, std::move(region)});
    return {};
  }
  if (const auto error = misses(lowered->program, false, lowered->batch, lowered->rows, lowered->cols)) {
    const auto stored = store_in_front(node, target, node, own, *error);
    if (changed_) return {};  // else it is this value's own kernel as it is
  }
  take(region, *lowered);
  group_of[target] = groups.size();  // the last one, where the parts of a join lie in several
  groups.push_back({{target}, std::move(region)});
  return {};
}

std::optional<CopiedView> RegionFinder::copied_view(NodeId node, const std::vector<NodeId>& leaves) const {
  const ir::TensorType& type = graph_.type(node);
  for (const uint32_t o : outputs_of_[node.index()]) {
    if (graph_.outputs()[o].dtype != type.dtype) return std::nullopt;
  }
  if (leaves.size() != 1 || (is_input(leaves[0]) && input_of(leaves[0])->is_scalar)) return std::nullopt;
  CopiedView view;
  for (size_t d = 0; d < type.shape.size(); ++d) view.order.push_back(static_cast<int32_t>(d));
  NodeId at = node;
  for (; graph_.node(at).op == Op::permute && at != leaves[0]; at = graph_.operands(at)[0]) {
    for (int32_t& d : view.order) d = graph_.attr_as<ir::PermuteAttr>(at).order[static_cast<size_t>(d)];
  }
  view.shape = graph_.type(at).shape;
  while (graph_.node(at).op == Op::reshape && at != leaves[0]) at = graph_.operands(at)[0];
  if (at != leaves[0]) return std::nullopt;
  if (!options_.turned_copies && !std::is_sorted(view.order.begin(), view.order.end())) return std::nullopt;
  // An input that is stored elsewhere has been copied.
  const bool whole = lies_contiguous(at) || (is_input(at) && forced_[at.index()]);
  if (at == node || whole) return view;
  // What lies anyhow goes to a place that does not, as its own shape is seen there.
  view.in_place = outputs_of_[node.index()].empty() && graph_.node(node).op == Op::reshape;
  return view.in_place ? std::optional(std::move(view)) : std::nullopt;
}

Result<LoweredMap> RegionFinder::try_map(const KernelRegion& region, NodeId* failed) {
  const Key key = key_of(region);
  const auto known = known_maps_.find(key);
  if (known != known_maps_.end()) return known->second;
  auto lowered = lower_map(graph_, scope_of(region), failed);
  if (lowered) {
    if (auto error = too_many(lowered->program, region.stores.back().node)) {
      if (failed != nullptr) *failed = region.stores.back().node;
      return *std::move(error);
    }
  }
  if (lowered) known_maps_.emplace(key, *lowered);
  return lowered;
}

std::optional<Error> RegionFinder::too_many(const package::EpilogueProgram& program, NodeId node) const {
  if (options_.parameter_bytes == 0 || parameter_bytes(program) <= options_.parameter_bytes) return std::nullopt;
  return diag::error(diag::Code::epilogue_large, "this is more than one kernel holds")
      .at(graph_.source(), graph_.span(node))
      .reason(too_many_parameters(program, options_.parameter_bytes))
      .help("split it");
}

std::optional<NodeId> RegionFinder::waist_of(NodeId node, const std::vector<NodeId>& leaves) const {
  std::set<NodeId> inside;
  std::vector<NodeId> open{node};
  while (!open.empty()) {
    const NodeId n = open.back();
    open.pop_back();
    const bool given =
        graph_.node(n).op == Op::literal || types::op_info(graph_.node(n).op).rule == types::OpRule::index;
    if (given || std::binary_search(leaves.begin(), leaves.end(), n) || !inside.insert(n).second) continue;
    for (NodeId operand : graph_.operands(n)) open.push_back(operand);
  }
  const auto is_reduction = [&](NodeId n) { return types::op_info(graph_.node(n).op).is_reduction(); };
  std::map<NodeId, NodeId> last_user;
  size_t reductions = 0;
  for (NodeId n : inside) {
    for (NodeId operand : graph_.operands(n)) {
      if (inside.count(operand) != 0) last_user[operand] = n;
    }
    reductions += is_reduction(n) ? 1 : 0;
  }
  std::map<NodeId, size_t> ends;  // values that are needed up to here
  for (const auto& [value, user] : last_user) ++ends[user];
  std::optional<NodeId> waist;
  size_t live = 0, before = 0, least = reductions;
  for (NodeId n : inside) {
    before += is_reduction(n) ? 1 : 0;
    live -= ends[n];
    if (n == node) break;
    const size_t behind = reductions - before, difference = std::max(before, behind) - std::min(before, behind);
    if (++live == 1 && !forced_[n.index()] && difference < least) waist = n, least = difference;
  }
  return waist;
}

std::optional<NodeId> RegionFinder::half_of(NodeId node, const std::vector<NodeId>& leaves) const {
  const auto is_leaf = [&](NodeId n) { return std::binary_search(leaves.begin(), leaves.end(), n); };
  std::map<NodeId, uint32_t> seen;  // by which search, last
  std::vector<NodeId> open;
  uint32_t searches = 0;
  const auto leaves_below = [&](NodeId from) {
    open.push_back(from);
    size_t count = 0;
    ++searches;  // a value that is an operand at two places is searched from twice
    while (!open.empty()) {
      const NodeId n = open.back();
      open.pop_back();
      if (std::exchange(seen[n], searches) == searches) continue;
      if (is_leaf(n)) {
        ++count;
        continue;
      }
      for (NodeId operand : graph_.operands(n)) open.push_back(operand);
    }
    return count;
  };
  std::optional<NodeId> half;
  for (NodeId at = node;;) {
    size_t most = 1;
    std::optional<NodeId> next;
    for (NodeId operand : graph_.operands(at)) {
      if (is_leaf(operand) || forced_[operand.index()]) continue;
      if (const size_t count = leaves_below(operand); count > most) most = count, next = operand;
    }
    if (!next) return half;
    half = at = *next;
    if (most <= leaves.size() / 2 + 1) return half;
  }
}

Result<void> RegionFinder::store_in_front(NodeId node, NodeId target, NodeId failed, const std::vector<NodeId>& leaves,
                                          const Error& error) {
  const auto is_leaf = [&](NodeId n) { return std::binary_search(leaves.begin(), leaves.end(), n); };
  const auto store = [&](NodeId n) {
    const bool itself = n == node && node == target;  // a part of a join may be stored on its own
    const bool possible = !itself && !is_leaf(n) && !forced_[n.index()] && graph_.node(n).op != Op::literal &&
                          types::op_info(graph_.node(n).op).rule != types::OpRule::index;
    if (!possible) return false;
    force(n);
    note(n, action::stored, error);
    return true;
  };
  const auto copy = [&](NodeId n) {  // an input, or what is read where an output lies, so that it has no gaps
    const bool by_step = is_made(n) && !is_hooked(n);
    const bool apart = !is_input(n) && is_leaf(n) && !lies_contiguous(n);
    if (n == node || !(is_input(n) ? !forced_[n.index()] : apart)) return false;
    beside_[n.index()] = apart && !by_step;
    force(n);
    note(n, action::copied, error);
    return true;
  };
  if (error.code() == static_cast<uint16_t>(diag::Code::epilogue_large)) {
    if (const auto waist = waist_of(node, leaves); waist && store(*waist)) return {};
    const auto bytes = static_cast<int64_t>(leaves.size() * sizeof(codetta::gpu::Operand));
    if (options_.parameter_bytes != 0 && 2 * bytes > options_.parameter_bytes) {
      if (const auto half = half_of(node, leaves); half && store(*half)) return {};
    }
  }
  const types::OpInfo& info = types::op_info(graph_.node(failed).op);
  if (info.op == Op::take || info.op == Op::gather) {
    if (store(graph_.operands(failed)[0])) return {};
  }
  // What it is a view of that no kernel has the axes for.
  if (symbolic_dims(graph_.type(node).shape) > 3) {
    NodeId base = node;
    while (graph_.node(base).op == Op::permute) base = graph_.operands(base)[0];
    while (graph_.node(base).op == Op::reshape) base = graph_.operands(base)[0];
    if (store(base)) return {};
  }
  if (info.op == Op::reshape) {
    const NodeId operand = graph_.operands(failed)[0];
    if (ir::needs_order(graph_.type(failed).shape, graph_.type(operand).shape) && store(failed)) return {};
    if (store(operand) || copy(operand)) return {};
  }
  if ((info.is_reduction() || info.op == Op::join) && store(failed)) return {};
  // Reductions in it, the last first; then everything that its own operation works on.
  std::set<NodeId> seen;
  std::vector<NodeId> open{node}, reductions;
  while (!open.empty()) {
    const NodeId n = open.back();
    open.pop_back();
    if (!seen.insert(n).second || is_leaf(n)) continue;
    if (n != node && types::op_info(graph_.node(n).op).is_reduction()) reductions.push_back(n);
    for (NodeId operand : graph_.operands(n)) open.push_back(operand);
  }
  std::sort(reductions.begin(), reductions.end());
  while (!reductions.empty()) {
    if (store(reductions.back())) return {};
    reductions.pop_back();
  }
  bool any = false;
  for (NodeId operand : graph_.operands(node)) any = store(operand) || any;
  for (NodeId operand : graph_.operands(node)) any = any || copy(operand);
  if (any) return {};
  return error;
}

}  // namespace codetta::plan
