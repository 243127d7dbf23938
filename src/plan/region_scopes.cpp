// SPDX-License-Identifier: Apache-2.0
// What a kernel loads and what it reads by, found by walking back from what it stores; and where a value is stored.
#include <algorithm>

#include <fmt/format.h>

#include "plan/region_finder.hpp"

namespace codetta::plan {

bool parts_differ(const ir::Graph& graph, ir::NodeId join) {
  const auto d = static_cast<size_t>(graph.attr_as<ir::JoinAttr>(join).dim);
  const auto parts = graph.operands(join);
  return std::any_of(parts.begin(), parts.end(),
                     [&](ir::NodeId part) { return !(graph.type(part).shape[d] == graph.type(parts[0]).shape[d]); });
}

using ir::NodeId;
using types::Dim;
using types::Op;

const ir::GraphInput* RegionFinder::input_of(NodeId node) const {
  return is_input(node) ? &graph_.inputs()[node.index()] : nullptr;  // they are the first nodes
}

bool RegionFinder::writes_output(NodeId made, uint32_t output) const {
  const NodeId step = graph_.node(made).op == Op::result ? graph_.operands(made)[0] : made;
  const auto* put = std::get_if<ir::IndexPutAttr>(&graph_.attr(step));
  const bool beside =
      graph_.node(step).op == Op::user_kernel && !options_.users_beside.empty() && options_.users_beside[output];
  return !beside && !forced_[made.index()] && (options_.turned_puts || put == nullptr || put->dim == 0);
}

std::vector<NodeId> RegionFinder::leaves_of(const std::vector<NodeId>& from, const KernelRegion& region,
                                            const std::function<bool(NodeId)>& here) const {
  std::set<NodeId> seen, leaves;
  std::vector<NodeId> open = from;
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (!seen.insert(node).second || region.computes(node)) continue;
    if (is_input(node) || is_made(node) || (is_stored(node) && !here(node))) {
      leaves.insert(node);
      continue;
    }
    for (NodeId operand : graph_.operands(node)) open.push_back(operand);
  }
  return {leaves.begin(), leaves.end()};
}

bool RegionFinder::of_output(NodeId leaf, const std::vector<bool>& outputs) const {
  const auto in = [&](const StoredValue& place) { return place.output && outputs[*place.output]; };
  if (outputs.empty() || is_input(leaf) || beside_[leaf.index()]) return false;
  if (is_made(leaf) && !is_hooked(leaf)) return in(place_of_result(leaf));
  const std::vector<StoredValue> places = places_of(leaf, leaf, {});
  return std::any_of(places.begin(), places.end(), in);
}

bool RegionFinder::lies_contiguous(NodeId leaf) const {
  if (!is_input(leaf)) return !of_output(leaf, options_.gaps);
  const auto index = static_cast<size_t>(input_of(leaf) - graph_.inputs().data());
  return index < options_.contiguous.size() && options_.contiguous[index];
}

bool RegionFinder::lies_apart(NodeId leaf) const {
  if (!is_input(leaf)) return of_output(leaf, options_.apart_outputs);
  const auto index = static_cast<size_t>(input_of(leaf) - graph_.inputs().data());
  return index < options_.apart_inputs.size() && options_.apart_inputs[index];
}

LoweringScope RegionFinder::scope_of(const KernelRegion& region) const {
  LoweringScope scope;
  for (const FurtherProduct& further : region.more) scope.more_products.push_back(further.matmul);
  scope.sums_exponents = region.statistics.has_value();
  scope.loses_index = &loses_index_;
  scope.compared = &compared_;
  if (!selected_.empty()) scope.selected = &selected_;
  for (NodeId node : region.leaves) {
    const bool read_in_place = is_input(node) && !copied(node, region);
    const bool copy = is_input(node) && !read_in_place;
    LoweringScope::Leaf leaf{node, name_of(node), false, {copy || !lies_apart(node), copy || lies_contiguous(node)}};
    leaf.is_scalar = read_in_place && input_of(node)->is_scalar;
    scope.leaves.push_back(std::move(leaf));
  }
  for (const StoredValue& store : region.stores) {
    LoweringScope::Output output{store.node, {}, graph_.type(store.target).dtype};
    if (store.output) {
      output.name = graph_.outputs()[*store.output].name;
      output.dtype = graph_.outputs()[*store.output].dtype;
      output.layout.unit_stride = options_.apart_outputs.empty() || !options_.apart_outputs[*store.output];
    } else {
      output.name = fmt::format("t{}", store.target.index());
      output.layout.contiguous = true;
    }
    if (store.node != store.target) {
      output.whole = graph_.type(store.target).shape;
      output.along = along_of(store.target, store.part);
    }
    scope.outputs.push_back(std::move(output));
  }
  return scope;
}

std::vector<LoweringScope::Output::Along> RegionFinder::along_of(NodeId join, const PartPath& path) const {
  std::vector<LoweringScope::Output::Along> along;
  for (const uint32_t part : path) {
    const auto& attr = graph_.attr_as<ir::JoinAttr>(join);
    const auto parts = graph_.operands(join);
    const auto dim = static_cast<size_t>(attr.dim);
    Dim start = Dim::constant(attr.interleave ? static_cast<int64_t>(part) : 0);
    for (size_t p = 0; p < part && !attr.interleave; ++p) start = start + graph_.type(parts[p]).shape[dim];
    auto known = std::find_if(along.begin(), along.end(), [&](const auto& one) { return one.dim == dim; });
    if (known == along.end()) known = along.insert(along.end(), {dim, {}, 1});
    known->start = known->start + Dim::constant(known->step) * start;
    if (attr.interleave) known->step *= static_cast<int64_t>(parts.size());
    join = parts[part];
  }
  return along;
}

std::vector<PartPath> RegionFinder::parts_of(NodeId join) const {
  std::vector<PartPath> paths;
  const auto add = [&](const auto& self, NodeId node, const PartPath& path) -> void {
    const auto parts = graph_.operands(node);
    for (uint32_t p = 0; p < parts.size(); ++p) {
      PartPath next = path;
      next.push_back(p);
      if (is_inner_join(parts[p]))
        self(self, parts[p], next);
      else
        paths.push_back(std::move(next));
    }
  };
  add(add, join, {});
  return paths;
}

bool RegionFinder::is_inner_join(NodeId part) const {
  return graph_.node(part).op == types::Op::join && !is_made(part) && !is_stored(part) && parts_differ(graph_, part);
}

NodeId RegionFinder::part_at(NodeId join, const PartPath& path) const {
  for (const uint32_t part : path) join = graph_.operands(join)[part];
  return join;
}

bool RegionFinder::copied(NodeId input, const KernelRegion& region) const {
  return forced_[input.index()] && std::none_of(region.stores.begin(), region.stores.end(),
                                                [&](const StoredValue& store) { return store.node == input; });
}

std::string RegionFinder::name_of(NodeId node) const {
  const ir::GraphInput* input = is_input(node) ? input_of(node) : nullptr;
  return input != nullptr ? input->name : fmt::format("t{}", node.index());
}

StoredValue RegionFinder::place_of_result(NodeId node) const {
  for (const uint32_t o : outputs_of_[node.index()]) {
    if (writes_output(node, o) && graph_.outputs()[o].dtype == graph_.type(node).dtype) return {node, node, {}, o};
  }
  return {node, node, {}, std::nullopt};
}

std::vector<StoredValue> RegionFinder::places_of(NodeId node, NodeId target, const PartPath& part) const {
  if (is_made(target) && !is_hooked(target)) {
    const StoredValue first = place_of_result(target);
    std::vector<StoredValue> copies;
    for (const uint32_t o : outputs_of_[target.index()]) {
      if (first.output != o) copies.push_back({node, target, part, o});
    }
    return copies;
  }
  std::vector<StoredValue> places;
  bool readable = false;
  for (const uint32_t o : outputs_of_[target.index()]) {
    places.push_back({node, target, part, o});
    readable = readable || graph_.outputs()[o].dtype == graph_.type(target).dtype;
  }
  const StoredValue temporary{node, target, part, std::nullopt};
  if (beside_[target.index()]) {
    places.insert(places.begin(), temporary);  // the first place is where it is read
  } else if (read_[target.index()] && (!readable || is_input(target))) {
    places.push_back(temporary);
  }
  return places;
}

RegionFinder::Key RegionFinder::key_of(const KernelRegion& region) const {
  Key key;
  key.emplace_back(region.matmul ? region.matmul->index() : UINT32_MAX, static_cast<uint32_t>(region.leaves.size()));
  for (const FurtherProduct& further : region.more) key.emplace_back(further.matmul.index(), UINT32_MAX);
  for (NodeId leaf : region.leaves) key.emplace_back(leaf.index(), copied(leaf, region) ? 1 : 0);
  for (const StoredValue& store : region.stores) {
    key.insert(key.end(), {{store.node.index(), store.output ? static_cast<uint32_t>(*store.output) : UINT32_MAX},
                           {store.target.index(), static_cast<uint32_t>(store.part.size())}});
    for (const uint32_t part : store.part) key.emplace_back(part, UINT32_MAX);
  }
  return key;
}

NodeId RegionFinder::index_source(NodeId index) const {
  for (Op op = graph_.node(index).op; op == Op::reshape || op == Op::permute || op == Op::broadcast;
       op = graph_.node(index).op)
    index = graph_.operands(index)[0];
  return index;
}

bool RegionFinder::known_in_range(NodeId node, NodeId source) const {
  const Dim& size = indexed_size(node);
  if (const auto* literal = std::get_if<ir::LiteralAttr>(&graph_.attr(source))) {
    const auto room = (size - Dim::constant(literal->i)).lower_bound();
    return literal->i >= 0 && room && *room > 0;
  }
  const Op op = graph_.node(source).op;
  const auto& shape = graph_.type(source).shape;
  if ((op != Op::row_index && op != Op::col_index) || shape.empty()) return false;
  Dim count = Dim::constant(1);
  for (const Dim& dim : shape) count = count * dim;
  const auto room = (size - count).lower_bound();
  return room && *room >= 0;
}

void RegionFinder::find_indices() {
  for (size_t i = 0; i < graph_.size(); ++i) {
    const NodeId node(i);
    if (graph_.node(node).op != Op::take && graph_.node(node).op != Op::gather) continue;
    const NodeId source = index_source(graph_.operands(node)[1]);
    if (known_in_range(node, source)) continue;
    looked_at_[source.index()] = true;
    if (is_made(source)) continue;
    if (!is_input(source) || input_of(source)->is_scalar) forced_[source.index()] = true;
    if (level_[source.index()] != no_product) cut_[i] = true;
  }
}

void RegionFinder::find_reads(KernelRegion& region) const {
  std::set<NodeId> seen(region.leaves.begin(), region.leaves.end());
  std::vector<NodeId> open;
  for (const StoredValue& store : region.stores) open.push_back(store.node);
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (!seen.insert(node).second || region.computes(node)) continue;
    const Op op = graph_.node(node).op;
    if (op == Op::take || op == Op::gather) {
      const IndexRead read{index_source(graph_.operands(node)[1]), indexed_size(node)};
      const bool known = std::find(region.indexed.begin(), region.indexed.end(), read) != region.indexed.end();
      if (looked_at_[read.index.index()] && !known) region.indexed.push_back(read);
    }
    for (NodeId operand : graph_.operands(node)) open.push_back(operand);
  }
  std::sort(region.indexed.begin(), region.indexed.end(),
            [](const IndexRead& a, const IndexRead& b) { return a.index < b.index; });
}

}  // namespace codetta::plan
