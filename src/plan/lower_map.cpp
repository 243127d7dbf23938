// SPDX-License-Identifier: Apache-2.0
// lower_map: work without a product. Values are computed on demand where the outputs need them; the root space is that
// of one value, the anchor, and locations are carried from it to the outputs.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ir/reshape.hpp"
#include "package/cpu_limits.hpp"
#include "plan/lowering.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Axis;
using types::Op;
using types::OpRule;

namespace {

constexpr int64_t unknown_size = 512;  // taken for symbols where sizes are compared

double elements(const std::vector<Dim>& shape) {
  double count = 1;
  for (const Dim& dim : shape) {
    const auto size = dim.evaluate([](std::string_view) -> std::optional<int64_t> { return unknown_size; });
    // Of n - 600 the size that is taken for n says nothing.
    count *= static_cast<double>(size && *size >= 0 ? *size : unknown_size);
  }
  return count;
}

std::vector<size_t> larger_than_one(const std::vector<Dim>& shape) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != Dim::constant(1)) dims.push_back(d);
  }
  return dims;
}

}  // namespace

// The operand of the largest reduction, else the largest output.
Result<NodeId> Lowering::find_anchor() {
  std::optional<NodeId> anchor;
  double most = -1;
  const auto offer = [&](NodeId node) {
    const double count = elements(graph_.type(node).shape);
    if (count > most) most = count, anchor = node;
  };
  for (const NodeId node : inside_) {
    if (!leaf_of(node) && types::op_info(graph_.node(node).op).is_reduction()) offer(graph_.operands(node)[0]);
  }
  if (!anchor) {
    for (const LoweringScope::Output& output : scope_.outputs) offer(output.node);
  }
  return *anchor;
}

// Gives `dims` of a shape an axis, the first slowest. False where the size of another than the first is unknown.
bool Lowering::fold(const std::vector<Dim>& shape, const std::vector<size_t>& dims, Axis axis, Location& at,
                    Dim& extent) {
  extent = Dim::constant(1);
  int64_t inner = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    const Dim& size = shape[dims[k]];
    extent = size * extent;
    const auto constant = size.as_constant();
    if (k > 0 && !constant) return false;
    Index& index = at[dims[k]];
    index = {};
    if (constant != 1) index.terms.push_back({1, axis, inner, k == 0 ? 0 : *constant, constant.value_or(0)});
    inner *= std::max<int64_t>(constant.value_or(1), 1);  // without elements no place is looked for
  }
  return true;
}

// Columns: what the first reduction of the anchor reduces, if that is innermost, else the innermost dim. Rows: the dims
// reduced otherwise, or the next ones; the rest are items.
Result<void> Lowering::fold_root(NodeId anchor) {
  root_shape_ = graph_.type(anchor).shape;
  std::vector<Dim> shape;      // of the dims, or of those that they are taken apart to
  std::vector<size_t> begins;  // by dim
  for (const Dim& dim : root_shape_) {
    begins.push_back(shape.size());
    const auto apart =
        std::find_if(taken_apart_.begin(), taken_apart_.end(), [&](const TakenApart& one) { return one.whole == dim; });
    if (apart == taken_apart_.end()) {
      shape.push_back(dim);
    } else {
      shape.insert(shape.end(), apart->parts.begin(), apart->parts.end());
    }
  }
  begins.push_back(shape.size());
  Location at(shape.size());
  const std::vector<size_t> dims = larger_than_one(shape);
  std::vector<size_t> reduced;
  for (const NodeId node : inside_) {
    if (!reduced.empty()) break;
    if (leaf_of(node) || !types::op_info(graph_.node(node).op).is_reduction() || graph_.operands(node)[0] != anchor)
      continue;
    for (int32_t d : graph_.attr_as<ir::ReduceAttr>(node).dims) {
      for (size_t k = begins[static_cast<size_t>(d)]; k < begins[static_cast<size_t>(d) + 1]; ++k) {
        if (shape[k] != Dim::constant(1)) reduced.push_back(k);
      }
    }
  }
  std::vector<size_t> kept;
  for (size_t d : dims) {
    if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) kept.push_back(d);
  }
  const auto part = [](const std::vector<size_t>& list, size_t begin, size_t end) {
    return std::vector<size_t>(list.begin() + static_cast<ptrdiff_t>(begin),
                               list.begin() + static_cast<ptrdiff_t>(end));
  };
  const auto assign = [&](const std::vector<size_t>& batch, const std::vector<size_t>& rows,
                          const std::vector<size_t>& cols) {
    return fold(shape, batch, Axis::Batch, at, extents_[0]) && fold(shape, rows, Axis::Row, at, extents_[1]) &&
           fold(shape, cols, Axis::Col, at, extents_[2]);
  };
  // Items and rows from one list: as few dims as possible are rows.
  const auto divided = [&](const std::vector<size_t>& outer, const std::vector<size_t>& cols) {
    for (size_t cut = outer.empty() ? 0 : outer.size() - 1;; --cut) {
      if (assign(part(outer, 0, cut), part(outer, cut, outer.size()), cols)) return true;
      if (cut == 0) return false;
    }
  };
  bool found = false;
  if (reduced.empty()) {
    for (size_t cols = dims.empty() ? 0 : 1; !found && cols <= dims.size(); ++cols) {
      const size_t outer = dims.size() - cols;
      found = divided(part(dims, 0, outer), part(dims, outer, dims.size()));
      if (cols == dims.size()) break;
    }
  } else if (kept.empty()) {  // everything
    for (size_t cut = reduced.size() - 1; !found; --cut) {
      found = divided(part(reduced, 0, cut), part(reduced, cut, reduced.size()));
      if (cut == 0) break;
    }
  } else if (reduced.back() == dims.back()) {
    found = divided(kept, reduced);                                  // rows are reduced
    for (size_t cut = reduced.size() - 1; !found && cut > 0; --cut)  // or items
      found = assign(kept, part(reduced, 0, cut), part(reduced, cut, reduced.size()));
  } else {  // columns are reduced
    for (size_t cols = 1; !found && cols <= kept.size(); ++cols) {
      const size_t outer = kept.size() - cols;
      found = assign(part(kept, 0, outer), reduced, part(kept, outer, kept.size()));
    }
  }
  if (!found) {
    return reject(diag::Code::symbolic_layout, anchor, "the dims of this value do not fold to items, rows and columns")
        .reason(fmt::format("{}: dims that are taken together need constant sizes, but for the first",
                            types::to_string(shape)))
        .help("give more dims constant sizes, or reshape to fewer dims");
  }
  root_at_.assign(root_shape_.size(), Index{});
  for (size_t d = 0; d < root_shape_.size(); ++d) {
    for (size_t k = begins[d]; k < begins[d + 1]; ++k) root_at_[d] = scaled(root_at_[d], shape[k]) + at[k];
  }
  batches_ = extents_[0].as_constant().value_or(0);
  rows_ = extents_[1].as_constant().value_or(0);
  cols_ = extents_[2].as_constant().value_or(0);
  return {};
}

// From the anchor to everything that holds its elements, each once.
void Lowering::push_locations(NodeId anchor) {
  at_[anchor] = root_at_;
  for (const NodeId node : inside_) {
    if (node.index() <= anchor.index() || leaf_of(node)) continue;
    const auto operands = graph_.operands(node);
    const types::OpInfo& info = types::op_info(graph_.node(node).op);
    const auto& shape = graph_.type(node).shape;
    if (info.is_reduction()) {
      std::optional<Location> at = at_.of(operands[0]);
      if (!at) continue;
      for (int32_t d : graph_.attr_as<ir::ReduceAttr>(node).dims) (*at)[static_cast<size_t>(d)] = Index{};
      at_[node] = std::move(at);
    } else if (info.rule == OpRule::layout) {
      const auto& from = at_.of(operands[0]);
      if (!from) continue;
      if (info.op == Op::permute) {
        Location moved;
        for (int32_t d : graph_.attr_as<ir::PermuteAttr>(node).order) moved.push_back((*from)[static_cast<size_t>(d)]);
        at_[node] = std::move(moved);
      } else if (info.op == Op::reshape) {
        at_[node] = reshaped(*from, graph_.type(operands[0]).shape, shape, false);
      }
    } else if (info.elementwise()) {
      Location at(shape.size());
      std::vector<bool> known(shape.size());
      bool any = false;
      for (NodeId operand : operands) {
        const auto& from = at_.of(operand);
        if (!from) continue;
        any = true;
        const size_t skip = shape.size() - from->size();
        for (size_t d = 0; d < from->size(); ++d) {
          if (graph_.type(operand).shape[d] == Dim::constant(1) || known[skip + d]) continue;
          at[skip + d] = (*from)[d];
          known[skip + d] = true;
        }
      }
      // Along dims that only leaves have it lies as they do, aligned to the right.
      for (size_t d = 0; d < shape.size() && any; ++d) {
        if (known[d] || shape[d] == Dim::constant(1)) continue;
        const size_t from_end = shape.size() - 1 - d;
        any = from_end < root_shape_.size() && root_shape_[root_shape_.size() - 1 - from_end] == shape[d];
        if (any) at[d] = root(from_end);
      }
      if (any && independent(at)) at_[node] = std::move(at);
    }
  }
}

// Whether the reduced dims take every value of each axis that they run along, once.
bool Lowering::covers(NodeId node, const Location& from) const {
  const int64_t sizes[] = {batches_, rows_, cols_};
  for (const Axis axis : {Axis::Batch, Axis::Row, Axis::Col}) {
    int64_t known = 1, symbolic = 0, above = 1;
    bool used = false;
    for (int32_t d : graph_.attr_as<ir::ReduceAttr>(node).dims) {
      for (const IndexTerm& term : from[static_cast<size_t>(d)].terms) {
        if (term.axis != axis) continue;
        used = true;
        known *= std::max<int64_t>(term.extent, 1);
        if (term.extent == 0) ++symbolic, above = term.div;
      }
    }
    if (!used) continue;
    const int64_t size = sizes[static_cast<size_t>(axis)];
    if (size != 0 ? symbolic != 0 || known != size : symbolic != 1 || above != known) return false;
  }
  return true;
}

// Where the operand of a reduction is needed: the reduced dims run along the root's.
Result<Location> Lowering::reduced_at(NodeId node, const Location& at) {
  const NodeId operand = graph_.operands(node)[0];
  const auto& shape = graph_.type(operand).shape;
  const auto& dims = graph_.attr_as<ir::ReduceAttr>(node).dims;
  Location from = at;
  const auto& pushed = at_.of(operand);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == Dim::constant(1)) continue;
    const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int32_t>(d)) != dims.end();
    const size_t from_end = shape.size() - 1 - d;
    const bool aligned = from_end < root_shape_.size() && root_shape_[root_shape_.size() - 1 - from_end] == shape[d];
    if (reduced && (pushed || aligned)) {
      from[d] = pushed ? (*pushed)[d] : root(from_end);
    } else if (reduced) {
      return reject(diag::Code::reduction_axes, node, "this reduction runs along no axis of the kernel's space")
          .reason(fmt::format("dim {} of {} against {}", d, ir::to_string(graph_.type(operand)),
                              types::to_string(root_shape_)))
          .help("reduce a value of the same shape as the others");
    }
  }
  CODETTA_CHECK_OK(check_reduced(node, from));
  return from;
}

Result<LoweredMap> Lowering::run_map(std::optional<NodeId> over, std::vector<TakenApart> apart) {
  taken_apart_ = std::move(apart);
  find_inside();
  CODETTA_TRY(const NodeId anchor, over ? Result<NodeId>(*over) : find_anchor());
  CODETTA_CHECK_OK(fold_root(anchor));
  push_locations(anchor);
  result_.program.accumulator = DType::f32;
  result_.program.contracts = contracts();
  add_arguments();
  CODETTA_CHECK_OK(store_outputs());
  // Before they are written down: each phase repeats what it needs of those in front of it.
  if (recorder_.phases() > static_cast<size_t>(package::max_cpu_phases) ||
      recorder_.reductions() > static_cast<size_t>(package::max_cpu_reductions)) {
    return reject(diag::Code::epilogue_large, anchor, "this is more than one kernel holds")
        .reason(fmt::format("{} phases and {} reductions", recorder_.phases(), recorder_.reductions()))
        .help("split it");
  }
  recorder_.finish(result_.program);
  LoweredMap map;
  static_cast<Lowered&>(map) = std::move(result_);
  map.batch = extents_[0];
  map.rows = extents_[1];
  map.cols = extents_[2];
  return map;
}

// Dims of the kernel's space that the reshape takes apart, of which there is no quotient: each part gets an axis then.
// False where nothing is added.
static bool take_apart(const ir::Graph& graph, NodeId reshape, std::vector<TakenApart>& apart) {
  const auto &from = graph.type(graph.operands(reshape)[0]).shape, &to = graph.type(reshape).shape;
  bool any = false;
  for (const ir::ReshapeSegment& segment : ir::reshape_segments(to, from)) {
    if (segment.to.size() != 1 || segment.from.size() < 2 || to[segment.to[0]].is_constant()) continue;
    TakenApart one{to[segment.to[0]], {}};
    for (const size_t d : segment.from) one.parts.push_back(from[d]);
    if (std::any_of(apart.begin(), apart.end(), [&](const TakenApart& other) { return other.whole == one.whole; }))
      continue;
    apart.push_back(std::move(one));
    any = true;
  }
  return any;
}

Result<LoweredMap> lower_map(const ir::Graph& graph, const LoweringScope& scope, NodeId* failed) {
  Lowering lowering(graph, std::nullopt, scope);
  auto result = lowering.run_map();
  if (result) return result;
  const NodeId at = lowering.failed().value_or(scope.outputs[0].node);
  // Places in the dims that a reshape folds are known from those in the folded dim by divisions, which symbolic sizes
  // do not have. The other way there are none: over the space of what is reshaped, and of what is reshaped in front.
  constexpr int most = 3;
  std::optional<NodeId> reshape = at;
  for (int tries = 0; tries < most && reshape && graph.node(*reshape).op == Op::reshape; ++tries) {
    const NodeId operand = graph.operands(*reshape)[0];
    if (graph.node(operand).op == Op::literal) break;
    Lowering over(graph, std::nullopt, scope);
    auto other = over.run_map(operand);
    if (other) return other;
    const auto in_front = over.failed();
    reshape = in_front && *in_front < *reshape ? in_front : std::nullopt;
  }
  // Or over the same space, with an axis for each of the dims that are one in it.
  std::vector<TakenApart> apart;
  reshape = at;
  while (reshape && graph.node(*reshape).op == Op::reshape && take_apart(graph, *reshape, apart)) {
    Lowering parts(graph, std::nullopt, scope);
    auto other = parts.run_map(std::nullopt, apart);
    if (other) return other;
    reshape = parts.failed();
  }
  if (failed != nullptr) *failed = at;
  return result;
}

}  // namespace codetta::plan
