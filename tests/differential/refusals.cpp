// SPDX-License-Identifier: Apache-2.0
#include "differential/refusals.hpp"

#include <algorithm>

#include "differential/element_maps.hpp"

namespace codetta::test {
namespace {

using ir::NodeId;
using types::Op;
using types::OpRule;

// What is known of each node, operands first.
struct Facts {
  bool of_accumulator = false;
  bool moved = false;    // a layout op lies between the accumulator or an operand and it
  bool reduced = false;  // a reduction does
  int level = 0;         // reductions one after the other that must be finished before it
};

class Proof {
 public:
  Proof(const ir::Graph& graph, const Shared& shared) : graph_(graph), shared_(shared), facts_(graph.size()) {
    for (uint32_t n = 0; n < graph.size(); ++n) {
      const NodeId id(n);
      Facts& f = facts_[n];
      const types::OpInfo& info = types::op_info(graph.node(id).op);
      f.of_accumulator = info.op == Op::matmul;
      if (info.op == Op::matmul) continue;
      for (const NodeId operand : graph.operands(id)) {
        const Facts& x = facts_[operand.index()];
        f.of_accumulator |= x.of_accumulator;
        f.moved |= x.moved;
        f.reduced |= x.reduced;
        f.level = std::max(f.level, x.level + (info.rule == OpRule::reduce && !over_one(id) ? 1 : 0));
      }
      f.moved |= info.rule == OpRule::layout;
      f.reduced |= info.rule == OpRule::reduce;
    }
  }

  bool right(uint16_t code) const {
    switch (code) {
      case 301:  // the accumulator itself in two forms: only layout operations can do that
      case 304:  // a reshape that is no division of dims
        return any([&](NodeId id) { return rule(id) == OpRule::layout; });
      case 302:  // a split through the parts of another, of a finished reduction, or of anything but columns in order
        return different_splits() || splits_other_than_columns() ||
               any([&](NodeId id) { return graph_.node(id).op == Op::split && facts(graph_.operands(id)[0]).reduced; });
      case 305:  // neither rows, columns nor everything: of what was moved or reduced before
        return any([&](NodeId id) {
                 const Facts& x = rule(id) == OpRule::reduce ? facts(graph_.operands(id)[0]) : Facts{};
                 return x.moved || x.reduced;
               }) ||
               batched_reduction();
      case 306:
        return any([&](NodeId id) { return rule(id) == OpRule::reduce && !facts(id).of_accumulator; });
      case 307:  // a join of operands
        return any([&](NodeId id) { return graph_.node(id).op == Op::join && !facts(id).of_accumulator; });
      case 610:  // on GPUs, of empty products: there is no element to compute the reduction in
        return any([&](NodeId id) { return rule(id) == OpRule::reduce && lacks_dims(id); });
      case 613:
        return std::any_of(shared_.begin(), shared_.end(),
                           [&](const auto& pair) { return conflict(pair.first, pair.second); });
      default:
        return false;
    }
  }

 private:
  [[nodiscard]] OpRule rule(NodeId id) const { return types::op_info(graph_.node(id).op).rule; }
  [[nodiscard]] const Facts& facts(NodeId id) const { return facts_[id.index()]; }
  template <class Test>
  bool any(Test&& test) const {
    for (uint32_t n = 0; n < graph_.size(); ++n) {
      if (test(NodeId(n))) return true;
    }
    return false;
  }
  // Over dims of size 1: the value itself.
  [[nodiscard]] bool over_one(NodeId id) const {
    const auto& dims = graph_.attr_as<ir::ReduceAttr>(id).dims;
    const auto& shape = graph_.type(graph_.operands(id)[0]).shape;
    return std::all_of(dims.begin(), dims.end(),
                       [&](int32_t dim) { return shape[static_cast<size_t>(dim)] == ir::Dim::constant(1); });
  }
  // Is what is reduced, or may it be, there without rows or columns of the product?
  [[nodiscard]] bool lacks_dims(NodeId id) const {
    const auto& shape = graph_.type(graph_.operands(id)[0]).shape;
    return any([&](NodeId other) { return graph_.node(other).op == Op::matmul && graph_.type(other).shape != shape; });
  }
  [[nodiscard]] bool different_splits() const {
    NodeId first;
    return any([&](NodeId id) {
      if (graph_.node(id).op != Op::split) return false;
      if (!first.valid()) first = id;
      const auto &x = graph_.attr_as<ir::SplitAttr>(first), &y = graph_.attr_as<ir::SplitAttr>(id);
      return x.ways != y.ways || x.dim != y.dim || graph_.operands(first)[0] != graph_.operands(id)[0];
    });
  }
  // Is the dim that is split anything but columns of the product in even steps?
  [[nodiscard]] bool splits_other_than_columns() const {
    NodeId product;
    any([&](NodeId id) { return graph_.node(id).op == Op::matmul && (product = id, true); });
    const ElementMap made(graph_, product, true);
    // Without elements it is not seen what layout operations have made of the columns.
    if (made[product].empty())
      return any([&](NodeId id) { return graph_.node(id).op == Op::split && facts(graph_.operands(id)[0]).moved; });
    const int64_t columns = made.sizes(product).back();
    return any([&](NodeId id) {
      if (graph_.node(id).op != Op::split) return false;
      const NodeId whole = graph_.operands(id)[0];
      const std::vector<int64_t>& sizes = made.sizes(whole);
      const auto d = static_cast<size_t>(graph_.attr_as<ir::SplitAttr>(id).dim);
      size_t step = 1;
      for (size_t i = d + 1; i < sizes.size(); ++i) step *= static_cast<size_t>(sizes[i]);
      const std::vector<int64_t>& from = made[whole];
      if (from.size() <= step || sizes[d] < 2) return false;
      for (size_t i = 1; i < static_cast<size_t>(sizes[d]); ++i) {
        const int64_t before = from[(i - 1) * step], here = from[i * step];
        if (before < 0 || here < 0) return false;
        if (before / columns != here / columns || here - before != from[step] - from[0]) return true;
      }
      return false;
    });
  }
  // Over the batch and one of rows and columns.
  [[nodiscard]] bool batched_reduction() const {
    return any([&](NodeId id) {
      if (rule(id) != OpRule::reduce) return false;
      const size_t rank = graph_.type(graph_.operands(id)[0]).shape.size();
      const std::vector<int32_t>& dims = graph_.attr_as<ir::ReduceAttr>(id).dims;
      return rank == 3 && dims.size() == 2 && (dims[0] == 0 || dims[1] == 0);
    });
  }

  // Does some work read an element of the operand elsewhere than where the output writes it, or after that? The output
  // must be written once an element of the product (of each part of it, where it is split).
  [[nodiscard]] bool conflict(const std::string& operand, const std::string& output) const {
    NodeId in, out, product;
    for (const ir::GraphInput& input : graph_.inputs()) {
      if (input.name == operand) in = input.node;
    }
    for (const ir::GraphOutput& o : graph_.outputs()) {
      if (o.name == output) out = o.node;
    }
    any([&](NodeId id) { return graph_.node(id).op == Op::matmul && (product = id, true); });
    const ElementMap reads(graph_, in, true), made(graph_, product, true);
    size_t ways = 1;
    std::vector<NodeId> parts;
    any([&](NodeId id) {
      if (graph_.node(id).op != Op::split) return false;
      ways = static_cast<size_t>(graph_.attr_as<ir::SplitAttr>(id).ways);
      parts.push_back(id);
      return false;
    });
    // Elements of all parts in one place are worked on together.
    const ElementMap together(graph_, parts, true);
    const size_t elements = made[product].size();
    // What has elements where the product has none is reduced.
    const bool less = elements == 0 ? !made[out].empty() : made[out].size() * ways < elements;
    if (less || reads.sizes(in) != reads.sizes(out)) return true;
    const int level = facts(out).level;
    const auto conflicts = [&](NodeId value, int at) {
      for (size_t e = 0; e < reads[value].size(); ++e) {
        const int64_t read = reads[value][e];
        if (read == ElementMap::none) continue;
        if (read == ElementMap::several || at > level) return true;
        if (value == out && read != static_cast<int64_t>(e)) return true;
        const int64_t work = together[value][e], writing = together[out][static_cast<size_t>(read)];
        if (work >= 0 && writing >= 0 && work != writing) return true;
        const int64_t here = made[value][e], there = made[out][static_cast<size_t>(read)];
        const bool same_place = reads.sizes(value) == reads.sizes(out) && read == static_cast<int64_t>(e);
        // Where both are made of one element each, that decides, but for parts of a split, which are made together.
        const bool known = here >= 0 && there >= 0 && (ways == 1 || reads.sizes(value) == made.sizes(product));
        if (here != there ? known || here < 0 || there < 0 : !same_place && here < 0) return true;
      }
      return false;
    };
    return std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [&](const ir::GraphOutput& o) { return conflicts(o.node, facts(o.node).level); }) ||
           any([&](NodeId id) {
             return rule(id) == OpRule::reduce &&
                    conflicts(graph_.operands(id)[0], facts(graph_.operands(id)[0]).level);
           });
  }

  const ir::Graph& graph_;
  const Shared& shared_;
  std::vector<Facts> facts_;
};

}  // namespace

bool is_refusal_right(const ir::Graph& graph, uint16_t code, const Shared& shared) {
  return Proof(graph, shared).right(code);
}

}  // namespace codetta::test
