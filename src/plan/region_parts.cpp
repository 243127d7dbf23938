// SPDX-License-Identifier: Apache-2.0
// Parts of joins that products compute: their kernels store them where the join has them, and nothing copies them
// there.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "plan/region_finder.hpp"

namespace codetta::plan {

using ir::NodeId;

namespace {

bool is_part(const StoredValue& store, NodeId node) { return store.node == node && !(store.target == node); }

// The kernel of a product that stores the value itself; none where a map or a step makes it.
KernelRegion* product_of(std::vector<KernelRegion>& kernels, NodeId node) {
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const KernelRegion& kernel) {
    return kernel.matmul && !kernel.hook &&
           std::any_of(kernel.stores.begin(), kernel.stores.end(),
                       [&](const StoredValue& store) { return store.node == node && store.target == node; });
  });
  return found == kernels.end() ? nullptr : &*found;
}

bool is_map(const KernelRegion& kernel) {
  return !kernel.matmul && !kernel.step && !kernel.hook && !kernel.copied_view;
}

}  // namespace

bool RegionFinder::joins_products(NodeId join) const {
  // By part: its level, and of products that differ in columns those that it is computed from.
  using Owner = std::pair<int32_t, std::set<NodeId>>;
  std::set<Owner> owners;
  bool others = false;  // parts that no product makes
  for (const NodeId part : graph_.operands(join)) {
    const int32_t level = level_[part.index()];
    if (level == no_product || !heads_[static_cast<size_t>(level)].product) {
      others = true;
      continue;
    }
    Owner owner{level, {}};
    const std::vector<const Head*> heads = heads_at(static_cast<size_t>(level));
    const bool alike = std::all_of(heads.begin(), heads.end(), [&](const Head* head) {
      return graph_.type(head->node) == graph_.type(heads[0]->node);
    });
    std::vector<NodeId> open;
    std::set<NodeId> seen;
    if (!alike) open.push_back(part);
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      if (level_[node.index()] != level || !seen.insert(node).second) continue;
      if (graph_.node(node).op == types::Op::matmul) {
        owner.second.insert(node);
        continue;
      }
      for (const NodeId operand : graph_.operands(node)) open.push_back(operand);
    }
    owners.insert(std::move(owner));
  }
  if (owners.empty()) return false;
  if (parts_differ(graph_, join)) return others || owners.size() > 1;
  // Parts of one size the last product's kernel could put together, with what follows the join.
  const auto& readers = readers_[join.index()];
  return owners.size() > 1 && (is_output(join) || std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
                                 return graph_.node(reader).op == types::Op::matmul || is_made(reader);
                               }));
}

void RegionFinder::cut_joins() {
  for (size_t i = 0; i < graph_.size(); ++i) {
    const NodeId node(i);
    if (!needed_[i] || level_[i] == no_product || is_hooked(node) || is_made(node)) continue;
    const ir::Node& own = graph_.node(node);
    if (own.op == types::Op::matmul || own.op == types::Op::result) continue;
    const auto operands = graph_.operands(node);
    cut_[i] = cut_[i] || (own.op == types::Op::join && joins_products(node)) ||
              std::any_of(operands.begin(), operands.end(), [&](NodeId operand) {
                return cut_[operand.index()] && level_[operand.index()] == level_[i];
              });
  }
}

bool RegionFinder::may_place(NodeId part) const {
  if (!is_stored(part) || is_made(part) || is_input(part) || !of_product(part)) return false;
  return heads_[static_cast<size_t>(level_[part.index()])].product;
}

bool RegionFinder::is_known_in_front(const StoredValue& place, NodeId part) const {
  std::optional<NodeId> last;
  const auto need = [&](NodeId node) {
    for (const NodeId source : sizes_of(node)) {
      if (!last || *last < source) last = source;
    }
  };
  need(place.target);
  NodeId join = place.target;
  for (const uint32_t p : place.part) {
    const auto parts = graph_.operands(join);
    for (uint32_t i = 0; i < p; ++i) need(parts[i]);
    join = parts[p];
  }
  // A size is defined behind those that the graph has in front of it.
  return !last || std::all_of(sizes_.sources.begin(), sizes_.sources.end(), [&](const ir::SizeSource& source) {
    return *last < source.node || level_[source.node.index()] < level_[part.index()];
  });
}

std::optional<KernelRegion> RegionFinder::without_part(const KernelRegion& map, NodeId part) {
  KernelRegion less;
  std::vector<NodeId> nodes;
  for (const StoredValue& store : map.stores) {
    if (is_part(store, part)) continue;
    less.stores.push_back(store);
    nodes.push_back(store.node);
  }
  if (less.stores.empty()) return less;
  less.leaves = leaves_of(nodes, KernelRegion{},
                          [&](NodeId node) { return !std::binary_search(map.leaves.begin(), map.leaves.end(), node); });
  auto lowered = try_map(less, nullptr);
  if (!lowered || lowered->program.phases.size() > map.lowered.program.phases.size() ||
      misses(lowered->program, false, lowered->batch, lowered->rows, lowered->cols))
    return std::nullopt;
  less.batch = lowered->batch, less.rows = lowered->rows, less.cols = lowered->cols;
  less.lowered = *std::move(lowered);
  return less;
}

Result<KernelRegion> RegionFinder::with_parts(const KernelRegion& product, NodeId part,
                                              const std::vector<StoredValue>& places, bool keeps) {
  KernelRegion region = product;
  if (!keeps) {
    std::erase_if(region.stores, [&](const StoredValue& store) {
      return store.node == part && store.target == part && !store.output;
    });
  }
  region.stores.insert(region.stores.end(), places.begin(), places.end());
  std::vector<NodeId> nodes;
  for (const StoredValue& store : region.stores) nodes.push_back(store.node);
  const int32_t level = level_[part.index()];
  region.leaves =
      leaves_of(nodes, region, [&](NodeId node) { return of_product(node) && level_[node.index()] == level; });
  NodeId failed = part;
  CODETTA_TRY(region.lowered, region.has_spaces() ? lower_products(graph_, region.products(), scope_of(region), &failed)
                                                  : lower_region(graph_, *region.matmul, scope_of(region), &failed));
  if (auto error = too_many(region.lowered.program, part)) return *std::move(error);
  if (auto error = misses(region.lowered.program, true, region.batch, region.rows, region.all_cols()))
    return *std::move(error);
  const bool made = !(region.a_made.empty() && region.b_made.empty());
  if (options_.inside && (made || !region.more.empty())) {
    if (auto error = take_inside(region)) return *std::move(error);
  }
  return region;
}

void RegionFinder::place_parts(std::vector<KernelRegion>& kernels) {
  std::set<NodeId> parts;
  for (const KernelRegion& kernel : kernels) {
    for (const StoredValue& store : kernel.stores) {
      if (is_map(kernel) && is_part(store, store.node) && may_place(store.node)) parts.insert(store.node);
    }
  }
  for (const NodeId part : parts) {
    KernelRegion* const product = product_of(kernels, part);
    if (product == nullptr || product->statistics) continue;
    // What copies it, and what is left of that.
    std::vector<std::pair<size_t, KernelRegion>> maps;
    std::vector<StoredValue> places;
    bool fits = true;
    double copies = 0;  // microseconds
    for (size_t k = 0; k < kernels.size() && fits; ++k) {
      if (!is_map(kernels[k])) continue;
      std::vector<StoredValue> own;
      std::copy_if(kernels[k].stores.begin(), kernels[k].stores.end(), std::back_inserter(own),
                   [&](const StoredValue& store) { return is_part(store, part); });
      if (own.empty()) continue;
      auto less = without_part(kernels[k], part);
      fits = less && std::all_of(own.begin(), own.end(), [&](const StoredValue& store) {
               return device_of(store.target) == device_of(part) && is_known_in_front(store, part);
             });
      if (!fits) break;
      if (options_.map_us) {
        const double rest = less->stores.empty() ? 0 : options_.map_us(map_of(*less)).value_or(0);
        copies += std::max(options_.map_us(map_of(kernels[k])).value_or(0) - rest, 0.0);
      }
      places.insert(places.end(), own.begin(), own.end());
      maps.emplace_back(k, *std::move(less));
    }
    if (!fits || places.empty()) continue;
    std::vector<KernelRegion*> others;
    for (size_t k = 0; k < kernels.size(); ++k) {
      const auto left = std::find_if(maps.begin(), maps.end(), [&](const auto& map) { return map.first == k; });
      others.push_back(left != maps.end() ? &left->second : &kernels[k]);
    }
    std::set<NodeId> read;
    for (const KernelRegion* kernel : others) add_reads(*kernel, read);
    auto region = with_parts(*product, part, places, read.contains(part));
    std::optional<Rejection> why;
    if (!region) {
      const Diagnostic& first = region.error().diagnostics().front();
      why = Rejection{region.error().code(), {}, first.reason.empty() ? first.headline : first.reason, {}};
    } else if (auto refused = refuses_(*region)) {
      why = *std::move(refused);
    } else if (options_.places) {
      why = options_.places(*region, *product, part, copies);
    }
    if (why) {
      refuses_(*product);  // the last one that is asked for stays
      why->span = graph_.span(part);
      notes_.push_back({part, std::string(action::part_copied), *std::move(why)});
      continue;
    }
    *product = *std::move(region);
    for (auto& [k, less] : maps) kernels[k] = std::move(less);
  }
  std::erase_if(kernels,
                [](const KernelRegion& kernel) { return is_map(kernel) && !kernel.matmul && kernel.stores.empty(); });
}

}  // namespace codetta::plan
