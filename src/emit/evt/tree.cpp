// SPDX-License-Identifier: Apache-2.0
// From the graph of nodes to nested trees and topological visitors. A value with several users closes a subgraph at its
// immediate post-dominator: the first node that all paths from it meet again (Cooper, Harvey and Kennedy, "A simple,
// fast dominance algorithm"). That node's visitor is topological and holds what lies between; everything else stays a
// tree.
#include <algorithm>

#include "emit/evt/nodes.hpp"

namespace codetta::emit::evt {
namespace {

class Shaper {
 public:
  explicit Shaper(const Dag& dag)
      : dag_(dag), users_(dag.nodes.size()), meets_(dag.nodes.size()), depth_(dag.nodes.size()) {
    const auto count = static_cast<uint32_t>(dag.nodes.size());
    for (uint32_t id = 0; id < count; ++id) {
      for (const uint32_t input : dag.nodes[id].inputs) users_[input].push_back(id);
    }
    order();
    attach();
    order();
  }
  [[nodiscard]] Part build() const { return part_of(dag_.root); }

 private:
  // Immediate post-dominators of all that reaches the root, users first; no_node for the others.
  static constexpr uint32_t no_node = UINT32_MAX;
  void order() {
    std::fill(meets_.begin(), meets_.end(), no_node);
    // Users first: an order of the edges as they are now, which may lead from a later id to an earlier one.
    std::vector<uint32_t> left(dag_.nodes.size()), ready;
    for (uint32_t id = 0; id < left.size(); ++id) left[id] = static_cast<uint32_t>(users_[id].size());
    for (uint32_t id = 0; id < left.size(); ++id) {
      if (left[id] == 0) ready.push_back(id);
    }
    std::vector<uint32_t> sequence;
    while (!ready.empty()) {
      const uint32_t id = ready.back();
      ready.pop_back();
      sequence.push_back(id);
      const auto release = [&](uint32_t input) {
        if (--left[input] == 0) ready.push_back(input);
      };
      for (const uint32_t input : dag_.nodes[id].inputs) release(input);
      for (const uint32_t sink : dag_.sinks) {
        if (attached(sink) == id) release(sink);
      }
    }
    meets_[dag_.root] = dag_.root;
    depth_[dag_.root] = 0;
    for (const uint32_t id : sequence) {
      if (id == dag_.root) continue;
      uint32_t common = no_node;
      for (const uint32_t user : users_[id]) {
        if (meets_[user] == no_node) continue;
        common = common == no_node ? user : meeting(common, user);
      }
      meets_[id] = common;
      if (common != no_node) depth_[id] = depth_[common] + 1;
    }
  }
  [[nodiscard]] uint32_t meeting(uint32_t a, uint32_t b) const {
    while (a != b) {
      if (depth_[a] >= depth_[b] && a != dag_.root) {
        a = meets_[a];
      } else {
        b = meets_[b];
      }
    }
    return a;
  }
  [[nodiscard]] uint32_t attached(uint32_t sink) const {
    const auto found = std::find_if(attached_.begin(), attached_.end(), [&](const auto& a) { return a.first == sink; });
    return found == attached_.end() ? no_node : found->second;
  }

  // A store beside the way to the root belongs to the first visitor that lies behind all that it is fed from.
  void attach() {
    std::vector<std::pair<uint32_t, uint32_t>> attached;
    for (const uint32_t sink : dag_.sinks) {
      uint32_t place = no_node;
      std::vector<uint32_t> open{sink};
      std::vector<bool> seen(dag_.nodes.size());
      while (!open.empty()) {
        const uint32_t id = open.back();
        open.pop_back();
        if (seen[id]) continue;
        seen[id] = true;
        if (meets_[id] != no_node) {
          const uint32_t behind = meets_[id];
          place = place == no_node ? behind : meeting(place, behind);
          continue;
        }
        for (const uint32_t input : dag_.nodes[id].inputs) open.push_back(input);
      }
      attached.emplace_back(sink, place == no_node ? dag_.root : place);
    }
    attached_ = std::move(attached);
    for (const auto& [sink, place] : attached_) users_[sink].push_back(place);
  }

  [[nodiscard]] bool is_shared(uint32_t id) const { return users_[id].size() > 1; }

  // The nodes below `top`, itself included, that must be parts of one topological visitor; empty: a tree will do.
  [[nodiscard]] std::vector<bool> flat_below(uint32_t top) const {
    std::vector<bool> flat(dag_.nodes.size()), below(dag_.nodes.size());
    std::vector<uint32_t> open{top};
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      if (below[id]) continue;
      below[id] = true;
      for (const uint32_t input : dag_.nodes[id].inputs) open.push_back(input);
      for (const auto& [sink, place] : attached_) {
        if (place == id) open.push_back(sink);
      }
    }
    flat[top] = true;
    bool any = false;
    for (const auto& [sink, place] : attached_) {
      if (place == top) flat[sink] = any = true;
    }
    // A store that others take on is flat before what lies behind it is.
    std::vector<bool> closed(dag_.nodes.size());
    for (bool more = true; more;) {
      more = false;
      for (uint32_t id = 0; id < dag_.nodes.size(); ++id) {
        if (!below[id] || closed[id] || !is_shared(id) || !flat[meets_[id]]) continue;
        more = any = closed[id] = true;
        mark_between(id, meets_[id], flat);
      }
      // A store beside the way belongs to the visitor that its place has become a part of.
      for (const auto& [sink, place] : attached_) {
        if (flat[place] && below[sink] && !flat[sink]) more = flat[sink] = true;
      }
    }
    if (!any) return {};
    return flat;
  }
  void mark_between(uint32_t from, uint32_t to, std::vector<bool>& flat) const {
    std::vector<uint32_t> open{from};
    std::vector<bool> seen(dag_.nodes.size());
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      if (id == to || seen[id]) continue;
      seen[id] = flat[id] = true;
      open.insert(open.end(), users_[id].begin(), users_[id].end());
    }
  }

  [[nodiscard]] Part part_of(uint32_t top) const {
    const Node& node = dag_.nodes[top];
    if (node.inputs.empty()) return {Part::Form::Leaf, top, {}};
    const std::vector<bool> flat = flat_below(top);
    if (!flat.empty()) return graph_of(top, flat);
    Part tree{Part::Form::Tree, top, {}};
    for (const uint32_t input : node.inputs) tree.parts.push_back(part_of(input));
    return tree;
  }

  [[nodiscard]] Part graph_of(uint32_t top, const std::vector<bool>& flat) const {
    Part graph{Part::Form::Graph, top, {}};
    std::vector<uint32_t> position(dag_.nodes.size(), no_node);
    const auto append = [&](uint32_t id, Part part, std::vector<uint32_t> edges) {
      position[id] = static_cast<uint32_t>(graph.parts.size());
      graph.parts.push_back(std::move(part));
      graph.edges.push_back(std::move(edges));
    };
    const auto add = [&](uint32_t id) {
      const Node& node = dag_.nodes[id];
      const bool closed = id != top && std::none_of(node.inputs.begin(), node.inputs.end(),
                                                    [&](uint32_t input) { return flat[input]; });
      if (closed) return append(id, part_of_closed(id, flat), {});
      std::vector<uint32_t> edges;
      for (const uint32_t input : node.inputs) {
        if (position[input] == no_node) append(input, part_of(input), {});
        edges.push_back(position[input]);
      }
      append(id, {Part::Form::Leaf, id, {}}, std::move(edges));
    };
    for (uint32_t id = 0; id < dag_.nodes.size(); ++id) {
      if (flat[id] && id != top) add(id);
    }
    add(top);
    return graph;
  }
  // A part that takes nothing from the others: a tree of its own, unless stores are attached to it.
  [[nodiscard]] Part part_of_closed(uint32_t id, const std::vector<bool>& flat) const {
    for (const auto& [sink, place] : attached_) {
      if (place != id || !flat[sink]) continue;
      Part tree{dag_.nodes[id].inputs.empty() ? Part::Form::Leaf : Part::Form::Tree, id, {}};
      for (const uint32_t input : dag_.nodes[id].inputs) tree.parts.push_back(part_of(input));
      return tree;
    }
    return part_of(id);
  }

  const Dag& dag_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<uint32_t> meets_, depth_;
  std::vector<std::pair<uint32_t, uint32_t>> attached_;  // sink, the node whose visitor it belongs to
};

}  // namespace

Part shape_tree(const Dag& dag) { return Shaper(dag).build(); }

int nesting_of(const Dag& dag) {
  std::vector<int> nesting(dag.nodes.size(), 1);
  for (size_t id = 0; id < dag.nodes.size(); ++id) {
    for (const uint32_t input : dag.nodes[id].inputs) nesting[id] = std::max(nesting[id], nesting[input] + 1);
  }
  return *std::max_element(nesting.begin(), nesting.end());
}
int nesting_of(const Part& part) {
  int below = 0;
  for (const Part& child : part.parts) below = std::max(below, nesting_of(child));
  return below + 1;
}

}  // namespace codetta::emit::evt
