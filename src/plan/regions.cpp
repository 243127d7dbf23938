// SPDX-License-Identifier: Apache-2.0
// Regions are found by trying: what a lowering refuses is cut off behind its product or stored in front of its user,
// and the rest is tried again. Every round cuts or stores one value more, so it ends.
//
// No cycles: a node's level is the last product or step that it depends on, in an order of these in which each comes
// behind what it needs. Products and steps read values of lower levels, and map kernels hold values of one level, put
// in groups whose order follows the graph.
#include "plan/regions.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ir/analyses.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;
using types::Op;

namespace {

constexpr int32_t no_product = -1;
constexpr size_t looked_back = 8;  // groups that a value is offered to
constexpr size_t most_phases = 8;  // of a group: each reads again what it needs

// 0: no change, 1: the last two dims swapped, -1: anything else.
int swap_of(const std::vector<int32_t>& order) {
  const auto rank = static_cast<int32_t>(order.size());
  bool identity = true, swapped = rank >= 2;
  for (int32_t d = 0; d < rank; ++d) {
    const int32_t mirrored = d == rank - 1 ? rank - 2 : d == rank - 2 ? rank - 1 : d;
    identity = identity && order[static_cast<size_t>(d)] == d;
    swapped = swapped && order[static_cast<size_t>(d)] == mirrored;
  }
  return identity ? 0 : swapped ? 1 : -1;
}

// Whether a reshape touches leading dims only: a launch counts them as one.
bool folds_leading(const std::vector<Dim>& from, const std::vector<Dim>& to) {
  const size_t m = from.size(), n = to.size();
  if (m < 2 || n < 2 || !(from[m - 1] == to[n - 1]) || !(from[m - 2] == to[n - 2])) return false;
  Dim left = Dim::constant(1), right = Dim::constant(1);
  for (size_t d = 0; d + 2 < m; ++d) left = left * from[d];
  for (size_t d = 0; d + 2 < n; ++d) right = right * to[d];
  return left == right;
}

Factor follow(const ir::Graph& graph, NodeId node) {
  Factor factor{node, false};
  while (true) {
    const NodeId at = factor.source;
    if (graph.node(at).op == Op::permute) {
      const int swap = swap_of(graph.attr_as<ir::PermuteAttr>(at).order);
      if (swap < 0) return factor;
      factor.transposed ^= swap == 1;
    } else if (graph.node(at).op != Op::reshape ||
               !folds_leading(graph.type(graph.operands(at)[0]).shape, graph.type(at).shape)) {
      return factor;
    }
    factor.source = graph.operands(at)[0];
  }
}

// Products and steps, each behind what it needs; of those that need as many others in a row, steps first, so that what
// they make can be read behind a product.
std::vector<NodeId> heads_of(const ir::Graph& graph) {
  struct Head {
    int32_t depth = 0;
    bool product = false;
    NodeId node;
  };
  std::vector<Head> heads;
  std::vector<int32_t> depth(graph.size(), 0);  // heads in a row up to the node
  bool steps = false;
  for (size_t i = 0; i < graph.size(); ++i) {
    const NodeId node(i);
    for (NodeId operand : graph.operands(node)) depth[i] = std::max(depth[i], depth[operand.index()]);
    const Op op = graph.node(node).op;
    if (op != Op::matmul && (!is_step(op) || op == Op::result)) continue;
    steps = steps || op != Op::matmul;
    heads.push_back({depth[i]++, op == Op::matmul, node});
  }
  if (steps) {
    std::stable_sort(heads.begin(), heads.end(), [](const Head& a, const Head& b) {
      return std::make_pair(a.depth, a.product) < std::make_pair(b.depth, b.product);
    });
  }
  std::vector<NodeId> nodes;
  for (const Head& head : heads) nodes.push_back(head.node);
  return nodes;
}

class RegionFinder {
 public:
  RegionFinder(const ir::Graph& graph, const Refusal& refuses, const RegionOptions& options)
      : graph_(graph),
        refuses_(refuses),
        options_(options),
        heads_(heads_of(graph)),
        level_(graph.size(), no_product),
        cut_(graph.size()),
        forced_(graph.size()),
        looked_at_(graph.size()) {
    std::vector<int32_t> own(graph.size(), no_product);
    for (size_t r = 0; r < heads_.size(); ++r) own[heads_[r].index()] = static_cast<int32_t>(r);
    for (size_t i = 0; i < graph.size(); ++i) {
      level_[i] = own[i];
      if (own[i] != no_product) continue;
      for (NodeId operand : graph.operands(NodeId(i))) level_[i] = std::max(level_[i], level_[operand.index()]);
    }
    for (NodeId head : heads_) {
      const auto operands = graph.operands(head);
      if (graph.node(head).op != Op::matmul) {
        factors_.emplace_back();
      } else {
        factors_.emplace_back(follow(graph, operands[0]), follow(graph, operands[1]));
      }
    }
    for (size_t i = 0; i < graph.size(); ++i) {
      const int32_t level = level_[i];
      cut_[i] = level != no_product && graph.node(heads_[static_cast<size_t>(level)]).op != Op::matmul;
      if (is_made(NodeId(i))) force_operands(NodeId(i));
    }
    if (options.check_indices) find_indices();
    for (size_t i = 0; i < graph.size(); ++i) {
      for (NodeId operand : graph.operands(NodeId(i)))
        cut_[i] = cut_[i] || (cut_[operand.index()] && level_[i] == level_[operand.index()]);
    }
  }

  Result<ProgramRegions> run() {
    while (true) {
      find_stored();
      kernels_.clear();
      producer_.clear();
      changed_ = false;
      CODETTA_CHECK_OK(find_products());
      if (!changed_) CODETTA_CHECK_OK(find_maps());
      if (!changed_) break;
    }
    for (KernelRegion& region : kernels_) {
      if (options_.check_indices && !region.step) find_reads(region);
    }
    ProgramRegions result;
    for (const size_t k : execution_order()) result.kernels.push_back(std::move(kernels_[k]));
    result.notes = std::move(notes_);
    for (auto& [node, why] : apart_) {
      why.span = graph_.span(node);
      result.notes.push_back({node, std::string(action::apart), std::move(why)});
    }
    return result;
  }

 private:
  [[nodiscard]] bool is_input(NodeId node) const { return graph_.node(node).op == Op::input; }
  [[nodiscard]] bool is_made(NodeId node) const { return is_step(graph_.node(node).op); }
  [[nodiscard]] const ir::GraphInput* input_of(NodeId node) const {
    for (const ir::GraphInput& input : graph_.inputs()) {
      if (input.node == node) return &input;
    }
    return nullptr;
  }
  [[nodiscard]] bool lies_contiguous(NodeId input) const {
    const auto index = static_cast<size_t>(input_of(input) - graph_.inputs().data());
    return index < options_.contiguous.size() && options_.contiguous[index];
  }

  // Inputs that a step cannot read as they are: numbers, and what lies in pieces where it must not.
  void force_operands(NodeId step) {
    const Op op = graph_.node(step).op;
    const auto operands = graph_.operands(step);
    const bool calls = op == Op::call_extern || op == Op::user_kernel;
    for (size_t i = 0; i < operands.size() && op != Op::result; ++i) {
      if (!is_input(operands[i]) || (op == Op::cond && i == 0)) continue;
      const bool permuted = op == Op::index_put && i == 2 && graph_.attr_as<ir::IndexPutAttr>(step).dim != 0;
      const bool pieces = (permuted || options_.plain_copies) && !lies_contiguous(operands[i]);
      if ((input_of(operands[i])->is_scalar || pieces) && !calls) forced_[operands[i].index()] = true;
    }
  }
  // A step that writes to its results' places with strides of its own, or by plain copies, cannot write an output.
  [[nodiscard]] bool writes_outputs(NodeId made) const {
    const NodeId step = graph_.node(made).op == Op::result ? graph_.operands(made)[0] : made;
    const auto* put = std::get_if<ir::IndexPutAttr>(&graph_.attr(step));
    return !options_.plain_copies && (put == nullptr || put->dim == 0);
  }

  // What holds the elements of an index: the value itself but for its layout.
  [[nodiscard]] NodeId index_source(NodeId index) const {
    for (Op op = graph_.node(index).op; op == Op::reshape || op == Op::permute || op == Op::broadcast;
         op = graph_.node(index).op)
      index = graph_.operands(index)[0];
    return index;
  }
  [[nodiscard]] const types::Dim& indexed_size(NodeId node) const {
    return graph_.type(graph_.operands(node)[0]).shape[static_cast<size_t>(graph_.attr_as<ir::TakeAttr>(node).dim)];
  }
  // Whether no element can be out of range: literals have been looked at where they have a size, and arange counts.
  [[nodiscard]] bool known_in_range(NodeId node, NodeId source) const {
    const Dim& size = indexed_size(node);
    if (const auto* literal = std::get_if<ir::LiteralAttr>(&graph_.attr(source))) {
      const auto room = (size - Dim::constant(literal->i + 1)).lower_bound();
      return literal->i >= 0 && room && *room >= 0;
    }
    const Op op = graph_.node(source).op;
    const auto& shape = graph_.type(source).shape;
    if ((op != Op::row_index && op != Op::col_index) || shape.empty()) return false;
    Dim count = Dim::constant(1);
    for (const Dim& dim : shape) count = count * dim;
    const auto room = (size - count).lower_bound();
    return room && *room >= 0;
  }
  // Indices that are computed are stored in front of the kernel that reads by them.
  void find_indices() {
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
  // Computed by a product's kernel.
  [[nodiscard]] bool of_product(NodeId node) const { return level_[node.index()] != no_product && !cut_[node.index()]; }
  [[nodiscard]] bool is_stored(NodeId node) const { return stored_[node.index()]; }

  // What other kernels read, or the program returns; of what is needed at all.
  void find_stored() {
    stored_.assign(graph_.size(), false);
    read_.assign(graph_.size(), false);
    needed_.assign(graph_.size(), false);
    for (const ir::GraphOutput& output : graph_.outputs()) {
      needed_[output.node.index()] = true;
      stored_[output.node.index()] = true;
    }
    const auto reads = [&](NodeId node) {
      needed_[node.index()] = true;
      if (is_input(node) && !forced_[node.index()]) return;
      stored_[node.index()] = read_[node.index()] = true;
    };
    for (size_t i = graph_.size(); i-- > 0;) {
      const NodeId node(i);
      if (!needed_[i] || is_input(node)) continue;
      if (graph_.node(node).op == Op::matmul) {
        const auto& [a, b] = factors_[static_cast<size_t>(level_[i])];
        reads(a.source);
        reads(b.source);
        continue;
      }
      const Op op = graph_.node(node).op;
      for (NodeId operand : graph_.operands(node)) {
        const size_t o = operand.index();
        needed_[o] = true;
        if (op == Op::result) continue;
        if (forced_[o] || is_step(op) || is_made(operand)) {
          reads(operand);
        } else if (of_product(operand)) {
          if (!of_product(node) || level_[i] != level_[o]) reads(operand);
        } else if (cut_[o] && of_product(node)) {
          reads(operand);
        }
      }
    }
  }

  void note(NodeId node, std::string_view what, const Error& error) {
    const Diagnostic& first = error.diagnostics().front();
    std::string text = first.headline;
    if (!first.reason.empty()) text += ": " + first.reason;
    notes_.push_back({node, std::string(what), {error.code(), {}, std::move(text), graph_.span(node)}});
  }

  // ---- leaves ----
  // Walks back from `from`; `here`: whether a stored node is computed in this kernel all the same.
  std::vector<NodeId> leaves_of(const std::vector<NodeId>& from, std::optional<NodeId> matmul,
                                const std::function<bool(NodeId)>& here) const {
    std::set<NodeId> seen, leaves;
    std::vector<NodeId> open = from;
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      if (!seen.insert(node).second || node == matmul) continue;
      if (is_input(node) || is_made(node) || (is_stored(node) && !here(node))) {
        leaves.insert(node);
        continue;
      }
      for (NodeId operand : graph_.operands(node)) open.push_back(operand);
    }
    return {leaves.begin(), leaves.end()};
  }

  // A graph input that is copied in front is read from its copy; the copy itself reads the input.
  [[nodiscard]] LoweringScope scope_of(const KernelRegion& region) const {
    LoweringScope scope;
    for (NodeId node : region.leaves) {
      const bool read_in_place = is_input(node) && !copied(node, region);
      const bool contiguous = !read_in_place || lies_contiguous(node);
      LoweringScope::Leaf leaf{node, name_of(node), false, {true, contiguous}};
      leaf.is_scalar = read_in_place && input_of(node)->is_scalar;
      scope.leaves.push_back(std::move(leaf));
    }
    for (const StoredValue& store : region.stores) {
      LoweringScope::Output output{store.node, {}, graph_.type(store.target).dtype};
      if (store.output) {
        output.name = graph_.outputs()[*store.output].name;
        output.dtype = graph_.outputs()[*store.output].dtype;
      } else {
        output.name = fmt::format("t{}", store.target.index());
      }
      if (store.node != store.target) {
        const auto& join = graph_.attr_as<ir::JoinAttr>(store.target);
        const auto parts = graph_.operands(store.target);
        output.whole = graph_.type(store.target).shape;
        output.dim = static_cast<size_t>(join.dim);
        output.start = Dim::constant(join.interleave ? static_cast<int64_t>(store.part) : 0);
        if (join.interleave) output.step = static_cast<int64_t>(parts.size());
        for (size_t p = 0; p < store.part && !join.interleave; ++p)
          output.start = output.start + graph_.type(parts[p]).shape[output.dim];
      }
      scope.outputs.push_back(std::move(output));
    }
    return scope;
  }
  [[nodiscard]] bool copied(NodeId input, const KernelRegion& region) const {
    return forced_[input.index()] && std::none_of(region.stores.begin(), region.stores.end(),
                                                  [&](const StoredValue& store) { return store.node == input; });
  }
  [[nodiscard]] std::string name_of(NodeId node) const {
    const ir::GraphInput* input = is_input(node) ? input_of(node) : nullptr;
    return input != nullptr ? input->name : fmt::format("t{}", node.index());
  }

  // Where a step puts a result: the first output that can have it as it is, else a temporary.
  [[nodiscard]] StoredValue place_of_result(NodeId node) const {
    for (size_t o = 0; o < graph_.outputs().size() && writes_outputs(node); ++o) {
      const ir::GraphOutput& output = graph_.outputs()[o];
      if (output.node == node && output.dtype == graph_.type(node).dtype) return {node, node, 0, o};
    }
    return {node, node, 0, std::nullopt};
  }

  // Every place where a node goes: outputs of the program, and a temporary where others read it and no output has it.
  // Of what a step makes: where it is copied to.
  [[nodiscard]] std::vector<StoredValue> places_of(NodeId node, NodeId target, size_t part) const {
    if (is_made(target)) {
      const StoredValue first = place_of_result(target);
      std::vector<StoredValue> copies;
      for (size_t o = 0; o < graph_.outputs().size(); ++o) {
        if (graph_.outputs()[o].node == target && first.output != o) copies.push_back({node, target, part, o});
      }
      return copies;
    }
    std::vector<StoredValue> places;
    bool readable = false;
    for (size_t o = 0; o < graph_.outputs().size(); ++o) {
      const ir::GraphOutput& output = graph_.outputs()[o];
      if (output.node != target) continue;
      places.push_back({node, target, part, o});
      readable = readable || output.dtype == graph_.type(target).dtype;
    }
    if (read_[target.index()] && (!readable || is_input(target))) places.push_back({node, target, part, std::nullopt});
    return places;
  }

  // ---- products ----
  Result<void> find_products() {
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

  void add_step(NodeId step) {
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

  Result<void> lower_product(KernelRegion region) {
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

  // Behind the product `failed` and what depends on it becomes map work; a value in front of it is stored.
  Result<void> cut_at(NodeId product, NodeId failed, const Error& error) {
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

  // ---- maps ----
  struct Group {
    int32_t level = no_product;
    std::vector<NodeId> nodes;  // stored here
    std::vector<StoredValue> stores;
    size_t kernel = 0;
  };

  Result<void> find_maps() {
    apart_.clear();
    std::vector<Group> groups;
    std::map<NodeId, size_t> group_of;  // of a stored value; the last one where parts lie in several
    for (int32_t level = no_product; level < static_cast<int32_t>(heads_.size()); ++level) {
      const size_t first = groups.size();
      for (size_t i = 0; i < graph_.size(); ++i) {
        const NodeId node(i);
        if (!stored_[i] || !needed_[i] || of_product(node) || level_[i] != level) continue;
        const bool join = graph_.node(node).op == Op::join;
        const auto parts = graph_.operands(node);
        for (size_t part = 0; part < (join ? parts.size() : 1); ++part) {
          CODETTA_CHECK_OK(place(groups, group_of, first, level, join ? parts[part] : node, node, part));
          if (changed_) return {};
        }
      }
    }
    // A reduction that several kernels would compute is stored.
    std::vector<uint32_t> computed(graph_.size());
    for (const Group& group : groups) {
      std::vector<NodeId> open;
      for (const StoredValue& store : group.stores) open.push_back(store.node);
      const std::vector<NodeId>& leaves = kernels_[group.kernel].leaves;
      std::set<NodeId> seen;
      while (!open.empty()) {
        const NodeId node = open.back();
        open.pop_back();
        if (!seen.insert(node).second || std::binary_search(leaves.begin(), leaves.end(), node)) continue;
        if (types::op_info(graph_.node(node).op).is_reduction() && ++computed[node.index()] == 2 &&
            !forced_[node.index()]) {
          forced_[node.index()] = changed_ = true;
        }
        for (NodeId operand : graph_.operands(node)) open.push_back(operand);
      }
    }
    return {};
  }

  // Into a group in front of which all that it needs is computed, if one shares its work; else into a new one.
  Result<void> place(std::vector<Group>& groups, std::map<NodeId, size_t>& group_of, size_t first, int32_t level,
                     NodeId node, NodeId target, size_t part) {
    const std::vector<StoredValue> stores = places_of(node, target, part);
    if (stores.empty()) return {};                               // where its step has put it
    const bool copied_part = node != target && is_stored(node);  // a part of a join that lies in memory anyway
    const std::vector<NodeId> own =
        leaves_of({node}, std::nullopt, [&](NodeId n) { return n == node && !copied_part; });
    size_t earliest = first;
    bool depends = false;
    for (NodeId leaf : own) {
      const auto found = group_of.find(leaf);
      if (found == group_of.end()) continue;
      depends = depends || found->second >= first;
      // What is looked at before a kernel runs is not made by it.
      earliest = std::max(earliest, found->second + (looked_at_[leaf.index()] ? 1 : 0));
    }
    const size_t from = groups.size() > looked_back ? groups.size() - looked_back : 0;
    for (size_t g = groups.size(); g-- > std::max({earliest, from, first});) {
      Group& group = groups[g];
      KernelRegion& before = kernels_[group.kernel];
      const bool shares = (depends && g == earliest) || std::any_of(own.begin(), own.end(), [&](NodeId leaf) {
                            return std::find(before.leaves.begin(), before.leaves.end(), leaf) != before.leaves.end();
                          });
      if (!shares) continue;
      KernelRegion merged;
      merged.stores = group.stores;
      merged.stores.insert(merged.stores.end(), stores.begin(), stores.end());
      std::vector<NodeId> nodes;
      for (const StoredValue& store : merged.stores) nodes.push_back(store.node);
      const auto here = [&](NodeId n) {
        return (n == node && !copied_part) || std::find(group.nodes.begin(), group.nodes.end(), n) != group.nodes.end();
      };
      merged.leaves = leaves_of(nodes, std::nullopt, here);
      const auto lowered = try_map(merged, nullptr);
      if (auto why = keeps_apart(lowered, before)) {
        if (depends && g == earliest) apart_.insert_or_assign(target, *std::move(why));
        continue;
      }
      take(merged, *lowered);
      group.stores = merged.stores;
      group.nodes.push_back(target);
      group_of[target] = std::max(g, group_of.contains(target) ? group_of[target] : g);
      apart_.erase(target);
      before = std::move(merged);
      for (const StoredValue& store : stores) producer_[store.target].insert(group.kernel);
      return {};
    }
    KernelRegion region;
    region.stores = stores;
    region.leaves = own;
    NodeId failed = node;
    const auto lowered = try_map(region, &failed);
    if (!lowered) return store_in_front(node, target, failed, own, lowered.error());
    take(region, *lowered);
    Group group;
    group.level = level;
    group.nodes = {target};
    group.stores = stores;
    group.kernel = kernels_.size();
    group_of[target] = groups.size();  // the last one, where the parts of a join lie in several
    groups.push_back(std::move(group));
    add(std::move(region));
    return {};
  }

  // Why the work is no part of the kernel whose value it reads.
  static std::optional<Rejection> keeps_apart(const Result<LoweredMap>& merged, const KernelRegion& before) {
    if (!merged) {
      const Diagnostic& first = merged.error().diagnostics().front();
      return Rejection{
          merged.error().code(), {}, first.headline + (first.reason.empty() ? "" : ": ") + first.reason, {}};
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

  // Rounds try the same regions again.
  Result<LoweredMap> try_map(const KernelRegion& region, NodeId* failed) {
    const Key key = key_of(region);
    const auto known = known_maps_.find(key);
    if (known != known_maps_.end()) return known->second;
    auto lowered = lower_map(graph_, scope_of(region), failed);
    if (lowered) known_maps_.emplace(key, *lowered);
    return lowered;
  }
  static bool same_space(const LoweredMap& map, const KernelRegion& region) {
    return map.batch == region.batch && map.rows == region.rows && map.cols == region.cols;
  }
  static void take(KernelRegion& region, LoweredMap lowered) {
    region.batch = lowered.batch;
    region.rows = lowered.rows;
    region.cols = lowered.cols;
    region.lowered = std::move(lowered);
  }

  // A map that cannot be lowered needs one of its values in memory.
  Result<void> store_in_front(NodeId node, NodeId target, NodeId failed, const std::vector<NodeId>& leaves,
                              const Error& error) {
    const auto is_leaf = [&](NodeId n) { return std::binary_search(leaves.begin(), leaves.end(), n); };
    const auto force = [&](NodeId n) {
      const bool itself = n == node && node == target;  // a part of a join may be stored on its own
      const bool possible = !itself && !is_leaf(n) && !forced_[n.index()] && graph_.node(n).op != Op::literal &&
                            types::op_info(graph_.node(n).op).rule != types::OpRule::index;
      if (!possible) return false;
      forced_[n.index()] = changed_ = true;
      note(n, action::stored, error);
      return true;
    };
    const auto copy = [&](NodeId n) {  // an input, so that it lies without gaps
      if (!is_input(n) || forced_[n.index()] || n == node) return false;
      forced_[n.index()] = changed_ = true;
      note(n, action::copied, error);
      return true;
    };
    const types::OpInfo& info = types::op_info(graph_.node(failed).op);
    if (info.op == Op::take || info.op == Op::gather) {
      if (force(graph_.operands(failed)[0])) return {};
    }
    if (info.op == Op::reshape) {
      const NodeId operand = graph_.operands(failed)[0];
      if (force(operand) || copy(operand)) return {};
    }
    if ((info.is_reduction() || info.op == Op::join) && force(failed)) return {};
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
      if (force(reductions.back())) return {};
      reductions.pop_back();
    }
    bool any = false;
    for (NodeId operand : graph_.operands(node)) any = force(operand) || any;
    for (NodeId operand : graph_.operands(node)) any = any || copy(operand);
    if (any) return {};
    return error;
  }

  // ---- kernels ----
  using Key = std::vector<std::pair<uint32_t, uint32_t>>;
  Key key_of(const KernelRegion& region) const {
    Key key;
    key.emplace_back(region.matmul ? region.matmul->index() : UINT32_MAX, static_cast<uint32_t>(region.leaves.size()));
    for (NodeId leaf : region.leaves) key.emplace_back(leaf.index(), copied(leaf, region) ? 1 : 0);
    for (const StoredValue& store : region.stores)
      key.insert(key.end(), {{store.node.index(), store.output ? static_cast<uint32_t>(*store.output) : UINT32_MAX},
                             {store.target.index(), static_cast<uint32_t>(store.part)}});
    return key;
  }

  void add(KernelRegion region) {
    for (const StoredValue& store : region.stores) producer_[store.target].insert(kernels_.size());
    kernels_.push_back(std::move(region));
  }

  void find_reads(KernelRegion& region) const {
    std::set<NodeId> seen;
    std::vector<NodeId> open;
    for (const StoredValue& store : region.stores) open.push_back(store.node);
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      if (!seen.insert(node).second || node == region.matmul) continue;
      const bool leaf = std::find(region.leaves.begin(), region.leaves.end(), node) != region.leaves.end();
      if (leaf) continue;
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

  // Products in the order of the program, each with what it needs right in front of it; then the rest.
  std::vector<size_t> execution_order() {
    std::vector<size_t> order;
    std::vector<uint8_t> state(kernels_.size());  // 1: waiting for what it needs, 2: there
    std::vector<size_t> stack;
    for (size_t root = 0; root < kernels_.size(); ++root) {
      stack.push_back(root);
      while (!stack.empty()) {
        const size_t k = stack.back();
        if (state[k] == 2) {
          stack.pop_back();
          continue;
        }
        if (state[k] == 1) {
          state[k] = 2;
          order.push_back(k);
          stack.pop_back();
          continue;
        }
        state[k] = 1;
        std::set<size_t> wanted;
        const auto want = [&](NodeId node) {
          if (is_input(node) && !copied(node, kernels_[k])) return;
          const auto found = producer_.find(node);
          if (found != producer_.end()) wanted.insert(found->second.begin(), found->second.end());
        };
        for (NodeId leaf : kernels_[k].leaves) want(leaf);
        if (kernels_[k].matmul) {
          want(kernels_[k].a.source);
          want(kernels_[k].b.source);
        }
        for (auto it = wanted.rbegin(); it != wanted.rend(); ++it) {
          if (state[*it] == 0) stack.push_back(*it);
        }
      }
    }
    return order;
  }

  const ir::Graph& graph_;
  const Refusal& refuses_;
  const RegionOptions& options_;
  const std::vector<NodeId> heads_;  // products and steps
  std::vector<std::pair<Factor, Factor>> factors_;
  std::vector<int32_t> level_;                   // by node: the last head that it depends on
  std::vector<bool> cut_, forced_;               // by node, growing: not behind its product; in memory
  std::vector<bool> looked_at_;                  // by node: an index in memory that is checked
  std::vector<bool> needed_, stored_, read_;     // by node, of this round; read_: by another kernel
  std::vector<KernelRegion> kernels_;            // of this round
  std::map<NodeId, std::set<size_t>> producer_;  // kernels that store a value (parts of a join: several)
  std::map<Key, Lowered> known_;                 // products that have been lowered
  std::map<Key, LoweredMap> known_maps_;
  std::vector<FusionNote> notes_;
  std::map<NodeId, Rejection> apart_;  // stored values of this round that were not put where what they read is made
  bool changed_ = false;
};

}  // namespace

bool is_step(Op op) {
  return op == Op::index_put || op == Op::scatter || op == Op::cond || op == Op::while_loop || op == Op::result ||
         op == Op::call_extern || op == Op::user_kernel;
}

Result<ProgramRegions> find_regions(const ir::Graph& graph, const Refusal& refuses, const RegionOptions& options) {
  return RegionFinder(graph, refuses, options).run();
}

}  // namespace codetta::plan
