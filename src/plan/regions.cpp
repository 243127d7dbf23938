// SPDX-License-Identifier: Apache-2.0
// Cutting a program into kernels: in what order products and steps come, and what is of their kernels or in memory from
// the start.
#include "plan/regions.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "package/factors.hpp"
#include "plan/factor_views.hpp"
#include "plan/region_finder.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;
using types::Op;

bool KernelRegion::computes(NodeId product) const {
  if (hook && hook->value == product) return true;
  return product == matmul ||
         std::any_of(more.begin(), more.end(), [&](const FurtherProduct& one) { return one.matmul == product; });
}

// Of those that need as many others in a row, steps come first, so that what they make can be read behind a product.
void RegionFinder::find_heads() {
  std::vector<int32_t> depth(graph_.size(), 0);  // heads in a row up to the node
  for (size_t i = 0; i < graph_.size(); ++i) {
    const NodeId node(i);
    const auto operands = graph_.operands(node);
    for (NodeId operand : operands) depth[i] = std::max(depth[i], depth[operand.index()]);
    for (NodeId source : sizes_of(node)) depth[i] = std::max(depth[i], depth[source.index()]);
    const Op op = graph_.node(node).op;
    if (op != Op::matmul && (!is_step(op) || op == Op::result)) continue;
    Head head;
    head.depth = depth[i]++;
    head.product = op == Op::matmul;
    head.node = node;
    if (head.product) {
      FactorSources sources;
      sources.unknown = [&](NodeId source) { return is_input(source) || is_made(source) || is_output(source); };
      sources.as_one = [&](NodeId source) {
        const NodeId step = graph_.node(source).op == Op::result ? graph_.operands(source)[0] : source;
        const bool of_function = graph_.node(step).op == Op::call_extern;  // known in the run, when no other plan helps
        return !of_function && (options_.dims_as_one || !sources.unknown(source));
      };
      sources.readable = [&](NodeId source) {
        return std::any_of(outputs_of_[source.index()].begin(), outputs_of_[source.index()].end(),
                           [&](uint32_t o) { return graph_.outputs()[o].dtype == graph_.type(source).dtype; });
      };
      sources.sliced = [&](NodeId source) {
        const NodeId step = graph_.node(source).op == Op::result ? graph_.operands(source)[0] : source;
        return options_.offset_bytes != 0 && graph_.node(step).op != Op::call_extern;  // lies as the function likes
      };
      sources.offset_bytes = options_.offset_bytes;
      std::tie(head.a, head.b) = factors_of_product(graph_, operands[0], operands[1], sources);
    }
    heads_.push_back(std::move(head));
  }
}

bool RegionFinder::is_operand(const Factor& factor) const {
  if (factor.view.empty()) return true;
  const auto& shape = graph_.type(factor.source).shape;
  return options_.offset_bytes != 0 && factor.view.size() <= 3 &&
         std::all_of(factor.view.begin(), factor.view.end(),
                     [&](const package::FactorDim& dim) { return package::dims_seen_as(dim, shape) == 1; });
}

bool KernelRegion::has_spaces() const {
  return std::any_of(more.begin(), more.end(), [&](const FurtherProduct& one) { return !(one.cols == cols); });
}

std::vector<NodeId> KernelRegion::products() const {
  std::vector<NodeId> all{*matmul};
  for (const FurtherProduct& one : more) all.push_back(one.matmul);
  return all;
}

Dim KernelRegion::all_cols() const {
  Dim all = cols;
  for (const FurtherProduct& one : more) all = all + one.cols;
  return all;
}

// Products that differ in columns at most, as sets of which some do.
std::vector<std::vector<size_t>> RegionFinder::find_spaces(const std::vector<size_t>& heads,
                                                           const std::vector<Together>& apart) {
  std::vector<std::vector<size_t>> sets;
  // A view of other columns is the same view.
  const auto one_view = [](package::FactorView a, package::FactorView b) {
    if (!a.empty() && !b.empty()) a.back().size = b.back().size = Dim::constant(1);
    return a == b;
  };
  const auto but_columns = [&](NodeId node) {
    ir::TensorType type = graph_.type(node);
    type.shape.back() = Dim::constant(1);
    return type;
  };
  for (const size_t r : heads) {
    const Head& head = heads_[r];
    const auto fits = [&](const std::vector<size_t>& set) {
      const Head& first = heads_[set[0]];
      const auto one = graph_.operands(first.node), other = graph_.operands(head.node);
      return set.size() < package::max_products && but_columns(first.node) == but_columns(head.node) &&
             graph_.type(one[0]) == graph_.type(other[0]) && but_columns(one[1]) == but_columns(other[1]) &&
             first.b.transposed == head.b.transposed && one_view(first.b.view, head.b.view) && first.a == head.a;
    };
    const auto found = std::find_if(sets.begin(), sets.end(), fits);
    (found == sets.end() ? sets.emplace_back() : *found).push_back(r);
  }
  std::erase_if(sets, [&](const std::vector<size_t>& set) {
    const auto type = [&](size_t r) -> const ir::TensorType& { return graph_.type(heads_[r].node); };
    if (std::all_of(set.begin(), set.end(), [&](size_t r) { return type(r) == type(set[0]); })) return true;
    // What did not go in one layer does not in another one either.
    const auto alike = [&](const Together& other) {
      return std::equal(set.begin(), set.end(), other.products.begin(), other.products.end(),
                        [&](size_t r, NodeId node) { return type(r) == graph_.type(node); });
    };
    if (std::any_of(apart.begin(), apart.end(), alike)) return true;
    auto why = options_.spaces(region_of(set));
    if (why) {
      const NodeId first = heads_[set[0]].node;
      why->span = graph_.span(first);
      notes_.push_back({first, std::string(action::products_apart), *std::move(why)});
    }
    return why.has_value();
  });
  return sets;
}

void RegionFinder::find_together(const std::vector<Together>& apart) {
  std::vector<bool> needed(graph_.size());
  for (const ir::GraphOutput& output : graph_.outputs()) needed[output.node.index()] = true;
  for (size_t i = graph_.size(); i-- > 0;) {
    for (NodeId operand : graph_.operands(NodeId(i))) needed[operand.index()] = needed[operand.index()] || needed[i];
    for (NodeId source : sizes_of(NodeId(i))) needed[source.index()] = needed[source.index()] || needed[i];
  }
  // By A, device and depth.
  using Shared = std::tuple<uint32_t, bool, uint32_t, int32_t>;
  std::map<Shared, std::vector<std::vector<size_t>>> alike;
  std::map<Shared, std::vector<size_t>> heads_of;
  for (size_t r = 0; r < heads_.size(); ++r) {
    const Head& head = heads_[r];
    if (!options_.together || !head.product || !needed[head.node.index()]) continue;
    // On GPUs a factor that may be made where it is read is worth more than an A that is read once, and the B of a
    // further product is an operand of the kernel, with a stride for each axis.
    if (options_.inside && (!is_input(head.b.source) || !is_operand(head.b))) continue;
    heads_of[{head.a.source.index(), head.a.transposed, device_of(head.node), head.depth}].push_back(r);
  }
  std::vector<bool> taken(heads_.size());  // by a set of products that differ in columns
  for (const auto& [key, heads] : heads_of) {
    if (!options_.spaces || heads.size() < 2) continue;
    for (std::vector<size_t>& set : find_spaces(heads, apart)) {
      for (const size_t r : set) taken[r] = true;
      alike[key].push_back(std::move(set));
    }
  }
  for (size_t r = 0; r < heads_.size(); ++r) {
    const Head& head = heads_[r];
    const Shared key{head.a.source.index(), head.a.transposed, device_of(head.node), head.depth};
    const auto of = heads_of.find(key);
    if (taken[r] || of == heads_of.end() || std::find(of->second.begin(), of->second.end(), r) == of->second.end())
      continue;
    auto& sets = alike[key];
    const auto fits = [&](const std::vector<size_t>& set) {
      const Head& first = heads_[set[0]];
      const auto one = graph_.operands(first.node), other = graph_.operands(head.node);
      return set.size() < package::max_products && !taken[set[0]] &&
             graph_.type(first.node) == graph_.type(head.node) && graph_.type(one[0]) == graph_.type(other[0]) &&
             graph_.type(one[1]) == graph_.type(other[1]) && first.b.transposed == head.b.transposed &&
             first.b.view == head.b.view && first.a == head.a;
    };
    const auto found = std::find_if(sets.begin(), sets.end(), fits);
    (found == sets.end() ? sets.emplace_back() : *found).push_back(r);
  }
  for (const auto& [key, sets] : alike) {
    for (const std::vector<size_t>& set : sets) {
      Together together;
      for (const size_t r : set) together.products.push_back(heads_[r].node);
      if (set.size() < 2 || std::find(apart.begin(), apart.end(), together) != apart.end()) continue;
      for (const size_t r : set) heads_[r].level = set.back();
      heads_[set.back()].together = set;
      ++groups_;
    }
  }
}

RegionFinder::RegionFinder(const ir::Graph& graph, const Refusal& refuses, const RegionOptions& options,
                           const std::vector<Together>& apart)
    : graph_(graph),
      refuses_(refuses),
      options_(options),
      sizes_(ir::size_sources(graph)),
      head_of_(graph.size()),
      level_(graph.size(), no_product),
      cut_(graph.size()),
      forced_(graph.size()),
      beside_(graph.size()),
      statistic_(graph.size()),
      hooked_(graph.size()),
      looked_at_(graph.size()),
      outputs_of_(graph.size()),
      stored_(graph.size()),
      read_(graph.size()),
      of_factor_(graph.size()),
      computed_(graph.size()) {
  for (size_t o = 0; o < graph.outputs().size(); ++o)
    outputs_of_[graph.outputs()[o].node.index()].push_back(static_cast<uint32_t>(o));
  find_heads();
  find_hooked();
  const auto by_depth = [&] {
    std::stable_sort(heads_.begin(), heads_.end(), [](const Head& a, const Head& b) {
      return std::make_pair(a.depth, a.product) < std::make_pair(b.depth, b.product);
    });
  };
  std::vector<Head> in_order = heads_;
  if (std::any_of(heads_.begin(), heads_.end(), [](const Head& head) { return !head.product; })) {
    by_depth();
    in_order = heads_;
  }
  if (options.together) {
    by_depth();
    for (size_t r = 0; r < heads_.size(); ++r) heads_[r].level = r;
    find_together(apart);
    if (std::none_of(heads_.begin(), heads_.end(), [](const Head& head) { return !head.together.empty(); }))
      heads_ = std::move(in_order);
  }
  std::vector<int32_t> own(graph.size(), no_product);
  for (size_t r = 0; r < heads_.size(); ++r) {
    if (heads_[heads_[r].level].together.empty()) heads_[r].level = r;
    own[heads_[r].node.index()] = static_cast<int32_t>(heads_[r].level);
    head_of_[heads_[r].node.index()] = r;
  }
  for (size_t i = 0; i < graph.size(); ++i) {
    level_[i] = own[i];
    if (own[i] != no_product) continue;
    for (NodeId operand : graph.operands(NodeId(i))) level_[i] = std::max(level_[i], level_[operand.index()]);
    for (NodeId source : sizes_of(NodeId(i))) level_[i] = std::max(level_[i], level_[source.index()]);
  }
  of_level_.resize(heads_.size());
  products_.resize(heads_.size());
  maps_.resize(heads_.size() + 1);
  for (size_t i = 0; i < graph.size(); ++i) {
    const int32_t level = level_[i];
    (level == no_product ? of_no_level_ : of_level_[static_cast<size_t>(level)]).push_back(NodeId(i));
    const Head* head = level == no_product ? nullptr : &heads_[static_cast<size_t>(level)];
    cut_[i] = head != nullptr && !head->product && !head->hooked;
    if (is_made(NodeId(i))) {
      cut_[i] = !is_hooked(NodeId(i));
      force_operands(NodeId(i));
    }
  }
  if (options.even_factors) force_factors();
  find_readers();
  if (options.prologues) find_made();
  if (options.check_indices) find_indices();
  for (size_t i = 0; i < graph.size(); ++i) {
    if (is_hooked(NodeId(i))) continue;
    for (NodeId operand : graph.operands(NodeId(i)))
      cut_[i] = cut_[i] || (cut_[operand.index()] && level_[i] == level_[operand.index()]);
  }
}

void RegionFinder::note(NodeId node, std::string_view what, const Error& error) {
  std::string text = diag::sentence(error.diagnostics().front());
  notes_.push_back({node, std::string(what), {error.code(), {}, std::move(text), graph_.span(node)}});
}

bool runs_user_kernel(const ir::Graph& graph, NodeId step) {
  if (graph.node(step).op == Op::user_kernel) return true;
  const auto children = ir::children(graph.attr(step));
  return std::any_of(children.begin(), children.end(),
                     [](const ir::GraphRef& child) { return runs_user_kernel(*child); });
}

bool runs_user_kernel(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.size(); ++i) {
    if (runs_user_kernel(graph, NodeId(i))) return true;
  }
  return false;
}

void RegionFinder::force_operands(NodeId step) {
  const Op op = graph_.node(step).op;
  const auto operands = graph_.operands(step);
  if (!options_.users_beside.empty() && runs_user_kernel(graph_, step)) {
    for (const NodeId operand : operands) {
      const bool by_step = is_made(operand) && !is_hooked(operand);
      if (is_input(operand) || !of_output(operand, options_.users_beside)) continue;
      beside_[operand.index()] = !by_step;
      forced_[operand.index()] = true;
    }
  }
  const bool calls = op == Op::call_extern || op == Op::user_kernel || op == Op::size_value;
  for (size_t i = 0; i < operands.size() && op != Op::result; ++i) {
    if (!is_input(operands[i]) || (op == Op::cond && i == 0)) continue;
    const bool permuted = op == Op::index_put && i == 2 && graph_.attr_as<ir::IndexPutAttr>(step).dim != 0;
    const bool in_pieces = permuted && !lies_contiguous(operands[i]);
    if ((input_of(operands[i])->is_scalar || in_pieces) && !calls) forced_[operands[i].index()] = true;
  }
}

void RegionFinder::force_factors() {
  for (const Head& head : heads_) {
    if (!head.product) continue;
    const auto leading = [&](const Factor& factor) {
      const bool known = !factor.view.empty() || forced_[factor.source.index()] || lies_contiguous(factor.source);
      return known ? std::vector<Dim>() : package::leading_dims(graph_.type(factor.source).shape);
    };
    const std::vector<Dim> of_a = leading(head.a), of_b = leading(head.b);
    const bool differ = of_a.size() > 1 && of_b.size() > 1 && !(of_a.back() == of_b.back());
    std::vector<NodeId> factors;
    if (of_a.size() > 2 || (of_a.size() == 2 && differ)) factors.push_back(head.a.source);
    if (of_b.size() > 2 || (of_b.size() == 2 && differ)) factors.push_back(head.b.source);
    for (const NodeId factor : factors) {
      if (forced_[factor.index()]) continue;
      beside_[factor.index()] = !is_input(factor) && (!is_made(factor) || is_hooked(factor));
      forced_[factor.index()] = true;
      note(factor, action::copied,
           diag::error(diag::Code::guard_failed, "a product takes two strides for all leading dims of a factor")
               .reason("a tensor of the caller's may have more")
               .help("bind a contiguous tensor"));
    }
  }
}

Result<std::vector<size_t>> order_of_needs(const std::vector<std::set<size_t>>& needs) {
  std::vector<size_t> order;
  std::vector<uint8_t> state(needs.size());  // 1: waiting for what it needs, 2: there
  std::vector<size_t> stack;
  for (size_t root = 0; root < needs.size(); ++root) {
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
      for (auto it = needs[k].rbegin(); it != needs[k].rend(); ++it) {
        if (state[*it] == 0) stack.push_back(*it);
        if (state[*it] != 1) continue;
        return diag::error(diag::Code::internal, "the kernels of a program cannot be ordered")
            .reason(fmt::format("kernel {} needs what kernel {} stores, and that one waits for it", k, *it))
            .help("please report this with the program");
      }
    }
  }
  return order;
}

bool is_step(Op op) {
  return op == Op::index_put || op == Op::scatter || op == Op::cond || op == Op::while_loop || op == Op::result ||
         op == Op::call_extern || op == Op::user_kernel || op == Op::size_value || op == Op::to_device;
}

Result<ProgramRegions> find_regions(const ir::Graph& graph, const Refusal& refuses, const RegionOptions& options) {
  std::vector<RegionFinder::Together> apart;
  std::vector<FusionNote> notes;
  size_t tries = 0;
  while (true) {
    RegionFinder finder(graph, refuses, options, apart);
    CODETTA_TRY(ProgramRegions regions, finder.run());
    tries += finder.tries();
    for (const auto& [products, why] : finder.dissolved()) {
      apart.push_back(products);
      notes.push_back({products.products[0], std::string(action::products_apart), why});
    }
    if (!finder.begins_anew()) {
      regions.tries = tries;
      regions.notes.insert(regions.notes.begin(), notes.begin(), notes.end());
      return regions;
    }
  }
}

}  // namespace codetta::plan
