// SPDX-License-Identifier: Apache-2.0
#include "plan/factor_views.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::FactorDim;
using types::Dim;
using types::Op;

namespace {

bool is_one(const Dim& dim) { return dim == Dim::constant(1); }

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

// A dim of a view while it is followed: `dim` counts from the first of the node that it has come to. `around`: so many
// dims around it are counted with it as one, all of them whole.
struct Seen {
  size_t dim;
  Dim scale, size;
  size_t around = 0;
};

// Sizes [from, from + count) of two shapes with one product: the fewest.
struct Group {
  size_t from, to, froms, tos;
};
std::optional<Group> next_group(const std::vector<Dim>& from, const std::vector<Dim>& to, size_t f, size_t t) {
  const auto product = [](const std::vector<Dim>& shape, size_t first, size_t count) {
    Dim all = Dim::constant(1);
    for (size_t d = 0; d < count; ++d) all = all * shape[first + d];
    return all;
  };
  const size_t most = from.size() - f + to.size() - t;
  for (size_t both = 1; both <= most; ++both) {
    for (size_t m = std::min(both, from.size() - f) + 1; m-- > 0;) {
      const size_t n = both - m;
      if (n > to.size() - t) break;
      if (product(from, f, m) == product(to, t, n)) return Group{f, t, m, n};
    }
  }
  return std::nullopt;
}

std::vector<size_t> several_of(const std::vector<Dim>& shape, size_t first, size_t count) {
  std::vector<size_t> dims;
  for (size_t d = first; d < first + count; ++d) {
    if (!is_one(shape[d])) dims.push_back(d);
  }
  return dims;
}

// Through a reshape, where each dim is a part of one, or items are several in order.
bool through_reshape(const std::vector<Dim>& from, const std::vector<Dim>& to, std::vector<Seen>& view) {
  std::vector<std::vector<Seen>> becomes(to.size());  // by dim: none of size 1
  for (size_t f = 0, t = 0; f < from.size() || t < to.size();) {
    const auto group = next_group(from, to, f, t);
    if (!group) return false;
    f += group->froms;
    t += group->tos;
    const std::vector<size_t> of = several_of(from, group->from, group->froms),
                              are = several_of(to, group->to, group->tos);
    if (of.size() > 1 && are.size() > 1) return false;
    Dim behind = Dim::constant(1);
    for (size_t i = are.size(); i-- > 0 && of.size() == 1;) {
      becomes[are[i]].push_back({of[0], behind, to[are[i]]});
      behind = behind * to[are[i]];
    }
    for (const size_t d : of.size() > 1 ? of : std::vector<size_t>())
      becomes[are[0]].push_back({d, Dim::constant(1), from[d]});
  }
  std::vector<Seen> seen;
  for (size_t d = 0; d < view.size(); ++d) {
    const Seen& old = view[d];
    const std::vector<Seen>& now = becomes[old.dim];
    if (old.around != 0) return false;  // reshapes in a row are one
    const bool nowhere = is_one(old.size) || old.scale == Dim::constant(0) || now.empty();
    if (nowhere) {
      seen.push_back({0, Dim::constant(0), old.size});
    } else if (now.size() == 1) {
      seen.push_back({now[0].dim, now[0].scale * old.scale, old.size});
    } else if (d + 2 < view.size() && is_one(old.scale) && old.size == to[old.dim]) {
      seen.insert(seen.end(), now.begin(), now.end());
    } else if (is_one(old.scale) && old.size == to[old.dim]) {
      seen.push_back({now.back().dim, old.scale, old.size, now.back().dim - now.front().dim});
    } else {
      return false;
    }
  }
  view = std::move(seen);
  return true;
}

// Dims of items: none of size 1, and those that have one stride wherever the tensor lies are one.
std::vector<Seen> items_of(const std::vector<Seen>& view) {
  std::vector<Seen> items;
  for (size_t d = 0; d + 2 < view.size(); ++d) {
    if (is_one(view[d].size)) continue;
    const bool again = view[d].scale == Dim::constant(0);
    if (!items.empty()) {
      Seen& outer = items.back();
      const bool outer_again = outer.scale == Dim::constant(0);
      const bool inside =
          !again && !outer_again && outer.dim == view[d].dim && outer.scale == view[d].scale * view[d].size;
      if (inside || (again && outer_again)) {
        outer.scale = view[d].scale;
        outer.size = outer.size * view[d].size;
        continue;
      }
    }
    items.push_back(view[d]);
  }
  return items;
}

bool is_several(const std::vector<Seen>& view) {
  return std::any_of(view.begin(), view.end(), [](const Seen& dim) { return dim.around != 0; });
}

// Whether a kernel stores it in its own shape, and no view of it: parts of several sizes where they belong, and all
// parts where no position in the view says in which of them it lies.
bool stored_by_parts(const ir::Graph& graph, NodeId node, const std::vector<Seen>& view) {
  const auto* join = std::get_if<ir::JoinAttr>(&graph.attr(node));
  if (join == nullptr) return false;
  const auto& shape = graph.type(node).shape;
  const auto size_of = [&](NodeId part) { return graph.type(part).shape[static_cast<size_t>(join->dim)]; };
  const auto parts = graph.operands(node);
  const bool differ =
      std::any_of(parts.begin(), parts.end(), [&](NodeId part) { return size_of(part) != size_of(parts[0]); });
  return differ || std::any_of(view.begin(), view.end(), [&](const Seen& dim) {
           const auto last = shape.begin() + static_cast<std::ptrdiff_t>(dim.dim) + 1;
           return std::any_of(last - static_cast<std::ptrdiff_t>(dim.around), last,
                              [](const Dim& size) { return !size.is_constant(); });
         });
}

// A slice, or a part of a split: which dim, from where on, every how many elements.
struct Slice {
  size_t dim;
  Dim start, step;
};
std::optional<Slice> slice_of(const ir::Graph& graph, NodeId node) {
  const auto dim_of = [&](int32_t dim) {
    const auto rank = static_cast<int32_t>(graph.type(node).shape.size());
    return static_cast<size_t>(dim < 0 ? dim + rank : dim);
  };
  if (const auto* slice = std::get_if<ir::SliceAttr>(&graph.attr(node)))
    return Slice{dim_of(slice->dim), slice->start, Dim::constant(slice->step)};
  if (const auto* split = std::get_if<ir::SplitAttr>(&graph.attr(node))) {
    const size_t dim = dim_of(split->dim);
    return Slice{dim, graph.type(node).shape[dim] * Dim::constant(split->part), Dim::constant(1)};
  }
  return std::nullopt;
}

// Through a slice; `offsets` count in dims of what is sliced, which are as many.
bool through_slice(const Slice& slice, std::vector<Seen>& view, std::vector<Dim>& offsets) {
  for (Seen& dim : view) {
    if (dim.around != 0) return false;
    if (dim.dim == slice.dim) dim.scale = dim.scale * slice.step;
  }
  Dim& offset = offsets[slice.dim];
  offset = offset * slice.step + slice.start;
  return true;
}

// Whether elements of the last dim are reached as fast as from the first one on.
bool begins_well(const Dim& offset, int64_t element_bytes, int64_t multiple) {
  const Dim bytes = offset * Dim::constant(element_bytes);
  return mod(bytes, Dim::constant(multiple)) == Dim::constant(0);
}

// What the product sees of an input, a result of a step, or what else lies in memory as it is, if it takes a view.
std::optional<Factor> seen_of(const ir::Graph& graph, NodeId node, const FactorSources& sources) {
  std::vector<Seen> view;
  for (size_t d = 0; d < graph.type(node).shape.size(); ++d)
    view.push_back({d, Dim::constant(1), graph.type(node).shape[d]});
  if (view.size() < 2) return std::nullopt;
  std::vector<Dim> offsets(view.size());
  bool sliced = false;
  const auto is_shifted = [&] {
    return std::any_of(offsets.begin(), offsets.end(), [](const Dim& offset) { return !(offset == Dim()); });
  };
  while (graph.node(node).op != Op::input && !is_step(graph.node(node).op)) {
    const Op op = graph.node(node).op;
    if (const auto slice = slice_of(graph, node)) {
      if (!through_slice(*slice, view, offsets)) return std::nullopt;
      sliced = true;
      node = graph.operands(node)[0];
      continue;
    }
    if (op != Op::permute && op != Op::reshape && op != Op::broadcast) {
      const bool whole = stored_by_parts(graph, node, view);
      if (is_several(view) ? !whole && !sources.readable(node) : !whole || !sliced) return std::nullopt;
      break;
    }
    const NodeId from = graph.operands(node)[0];
    const std::vector<Dim>&of = graph.type(from).shape, &to = graph.type(node).shape;
    if (op == Op::permute) {
      const auto& order = graph.attr_as<ir::PermuteAttr>(node).order;
      for (Seen& dim : view) {
        const auto last = static_cast<size_t>(order[dim.dim]);
        for (size_t i = 1; i <= dim.around; ++i) {
          if (static_cast<size_t>(order[dim.dim - i]) + i != last) return std::nullopt;
        }
        dim.dim = last;
      }
      std::vector<Dim> turned(offsets.size());
      for (size_t d = 0; d < offsets.size(); ++d) turned[static_cast<size_t>(order[d])] = offsets[d];
      offsets = std::move(turned);
    } else if (is_shifted()) {
      return std::nullopt;
    } else if (op == Op::reshape) {
      if (!through_reshape(of, to, view)) return std::nullopt;
    } else {
      for (size_t d = 0; d < view.size(); ++d) {
        Seen& dim = view[d];
        const size_t missing = to.size() - of.size();
        if (dim.around != 0) return std::nullopt;
        if (is_one(dim.size) || dim.scale == Dim::constant(0) || dim.dim < missing ||
            !(of[dim.dim - missing] == to[dim.dim])) {
          dim = {0, Dim::constant(0), dim.size};
        } else {
          dim.dim -= missing;
        }
      }
    }
    offsets.resize(of.size());
    node = from;
  }
  const auto& inputs = graph.inputs();
  const bool number = std::any_of(inputs.begin(), inputs.end(),
                                  [&](const ir::GraphInput& input) { return input.node == node && input.is_scalar; });
  const size_t rank = graph.type(node).shape.size();
  if (number || rank == 0 || (is_several(view) && !sources.as_one(node))) return std::nullopt;
  const bool shifted = is_shifted();
  if (shifted && (is_several(view) || !sources.sliced(node) ||
                  !begins_well(offsets.back(), types::byte_size(graph.type(node).dtype), sources.offset_bytes)))
    return std::nullopt;
  std::vector<Seen> items = items_of(view);
  if (items.size() > 2) return std::nullopt;
  items.insert(items.end(), view.end() - 2, view.end());
  // Elements that lie side by side are read side by side; others are better copied.
  bool beside = false;
  Factor factor{node, false, {}, shifted ? std::move(offsets) : std::vector<Dim>()};
  for (size_t d = 0; d < items.size(); ++d) {
    const Seen& dim = items[d];
    const bool last_two = d + 2 >= items.size();
    if (last_two && dim.scale == Dim::constant(0) && !is_one(dim.size)) return std::nullopt;
    // Of a last dim that may be one element it is not known that the elements around it lie side by side.
    if (dim.around != 0 && dim.dim + 1 == rank && graph.type(node).shape.back().lower_bound().value_or(0) < 2)
      return std::nullopt;
    beside = beside || (last_two && dim.dim + 1 == rank && is_one(dim.scale));
    factor.view.push_back({static_cast<uint8_t>(rank - 1 - dim.dim), dim.scale, dim.size});
  }
  return beside ? std::optional(std::move(factor)) : std::nullopt;
}

// Leading dims whose strides nobody knows: of a view, or of what lies anywhere.
std::vector<Dim> items_anywhere(const ir::Graph& graph, const Factor& factor,
                                const std::function<bool(NodeId)>& unknown) {
  std::vector<Dim> items;
  for (size_t d = 0; d + 2 < factor.view.size(); ++d) items.push_back(factor.view[d].size);
  const auto& shape = graph.type(factor.source).shape;
  for (size_t d = 0; factor.view.empty() && unknown(factor.source) && d + 2 < shape.size(); ++d) {
    if (!is_one(shape[d])) items.push_back(shape[d]);
  }
  return items;
}

}  // namespace

std::pair<Factor, Factor> factors_of_product(const ir::Graph& graph, NodeId a, NodeId b, const FactorSources& sources) {
  const Factor plain_a = follow(graph, a), plain_b = follow(graph, b);
  const auto view_of = [&](const Factor& plain, NodeId node) {
    const bool there = graph.node(plain.source).op == Op::input || is_step(graph.node(plain.source).op);
    return there ? std::nullopt : seen_of(graph, node, sources);
  };
  const std::optional<Factor> seen_a = view_of(plain_a, a), seen_b = view_of(plain_b, b);
  const auto agree = [&](const Factor& one, const Factor& other) {
    const std::vector<Dim> x = items_anywhere(graph, one, sources.unknown),
                           y = items_anywhere(graph, other, sources.unknown);
    return x.size() <= 1 || y.size() <= 1 || (x.size() == 2 && y.size() == 2 && x[1] == y[1]);
  };
  if (seen_a && seen_b && agree(*seen_a, *seen_b)) return {*seen_a, *seen_b};
  if (seen_b && agree(plain_a, *seen_b)) return {plain_a, *seen_b};
  if (seen_a && agree(*seen_a, plain_b)) return {*seen_a, plain_b};
  return {plain_a, plain_b};
}

}  // namespace codetta::plan
