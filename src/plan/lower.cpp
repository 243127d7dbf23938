// SPDX-License-Identifier: Apache-2.0
// lower_epilogue: arguments, operands and stores.
#include "plan/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "device/cpu/abi.h"
#include "plan/compared.hpp"
#include "plan/lowering.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Access;
using package::Axis;
using types::Op;

diag::ErrorBuilder Lowering::reject(diag::Code code, NodeId node, std::string headline) const {
  failed_ = node;
  diag::ErrorBuilder builder = diag::error(code, std::move(headline));
  const diag::Span span = graph_.span(node);
  if (graph_.source() && span.known()) builder.at(graph_.source(), span, ir::to_string(graph_.type(node)));
  return builder;
}

DType Lowering::register_type(NodeId node) const { return types::compute_dtype(graph_.type(node).dtype); }

Location broadcast_location(const Location& at, const std::vector<Dim>& operand_shape) {
  Location result(operand_shape.size());
  const size_t skip = at.size() - operand_shape.size();
  for (size_t i = 0; i < operand_shape.size(); ++i) {
    if (operand_shape[i] != Dim::constant(1)) result[i] = at[skip + i];
  }
  return result;
}

// The accumulator's instances: one per part of the split. What a kernel of the user's hands over stands for a product.
Result<void> Lowering::find_roots() {
  root_shape_ = graph_.type(*matmul_).shape;
  const size_t rank = root_shape_.size();
  const auto size = [&](size_t from_end) {
    return from_end < rank ? root_shape_[rank - 1 - from_end].as_constant().value_or(0) : int64_t{1};
  };
  rows_ = size(1);
  cols_ = size(0);
  root_at_.assign(rank, Index{});
  std::vector<size_t> leading;
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (root_shape_[d] != Dim::constant(1)) leading.push_back(d);
  }
  if (!fold(root_shape_, leading, Axis::Batch, root_at_, extents_[0])) {
    const bool product = graph_.node(*matmul_).op == Op::matmul;
    return reject(diag::Code::symbolic_layout, *matmul_,
                  product ? "the batch dims of this product cannot be told apart"
                          : "the leading dims of what this kernel hands over cannot be told apart")
        .reason(fmt::format("{}: of leading dims that are not 1, all but the first need constant sizes",
                            ir::to_string(graph_.type(*matmul_))))
        .help(product ? "give the inner batch dims constant sizes, or reshape them to one"
                      : "give the inner ones constant sizes, or let the kernel write to a tensor");
  }
  batches_ = extents_[0].as_constant().value_or(0);
  if (rank > 1) root_at_[rank - 2] = Index::axis(Axis::Row, rows_);
  root_at_[rank - 1] = Index::axis(Axis::Col, cols_);
  CODETTA_CHECK_OK(find_split());
  if (ways_ == 1 && scope_.ways > 1) {
    if (cols_ == 0 || cols_ % (scope_.ways * scope_.chunk) != 0) {
      return reject(diag::Code::split_unsupported, *matmul_, "the columns of this product are not split as others are")
          .reason(fmt::format("{} columns, and others are split in {} parts by chunks of {}",
                              root_shape_.back().to_string(), scope_.ways, scope_.chunk))
          .help("nothing is wrong: it is computed by itself");
    }
    ways_ = scope_.ways, chunk_ = scope_.chunk;
  }
  cols_ /= ways_;
  extents_[1] = rank > 1 ? root_shape_[rank - 2] : Dim::constant(1);
  extents_[2] = ways_ == 1 ? root_shape_[rank - 1] : Dim::constant(cols_);
  root_at_[rank - 1] = Index::axis(Axis::Col, cols_);
  result_.program.accumulator = register_type(*matmul_);
  const auto products = static_cast<int32_t>(scope_.more_products.size() + 1);
  result_.program.split.ways = ways_ * products;
  result_.program.split.products = products;
  result_.program.split.chunk = Dim::constant(ways_ == 1 && products > 1 ? 1 : chunk_);
  if (ways_ * products > package::max_split_ways) {
    return reject(diag::Code::split_unsupported, *matmul_, "the columns are split in too many parts")
        .reason(fmt::format("{} parts; a kernel takes {}", ways_ * products, package::max_split_ways))
        .help("split in fewer parts");
  }
  for (int32_t part = 0; part < ways_ * products; ++part) {
    const NodeId product = part < ways_ ? *matmul_ : scope_.more_products[static_cast<size_t>(part / ways_ - 1)];
    Instance instance;
    instance.at = root_at_;
    Index column = root(0);
    if (ways_ > 1) {
      const auto division = divide(column, chunk_);  // (c / chunk) * chunk * ways + part * chunk + c % chunk
      if (!division) {
        return reject(diag::Code::split_unsupported, *matmul_, "the split's parts do not tile the columns")
            .reason(fmt::format("{} columns in chunks of {}", cols_, chunk_))
            .help("split a dim whose size is a multiple of the number of parts");
      }
      column = scaled(division->quotient, chunk_ * ways_) + division->remainder + Index::of(part % ways_ * chunk_);
    }
    instance.at.back() = column;
    Inst inst;
    inst.kind = Inst::Kind::Accumulator;
    inst.type = inst.aux = result_.program.accumulator;
    inst.index = static_cast<uint32_t>(part);
    instance.value = recorder_.add(inst);
    instances_[product].push_back(std::move(instance));
  }
  return {};
}

void Lowering::add_arguments() {
  argument_of_input_.assign(scope_.leaves.size(), UINT32_MAX);
  for (size_t i = 0; i < scope_.leaves.size(); ++i) {
    const LoweringScope::Leaf& leaf = scope_.leaves[i];
    const ir::TensorType& type = graph_.type(leaf.node);
    argument_of_input_[i] = static_cast<uint32_t>(result_.program.arguments.size());
    result_.program.arguments.push_back({leaf.name, type.dtype, leaf.is_scalar, false, type.shape});
    result_.argument_input.push_back(static_cast<uint32_t>(i));
  }
  for (size_t i = 0; i < scope_.outputs.size(); ++i) {
    const LoweringScope::Output& output = scope_.outputs[i];
    result_.program.arguments.push_back(
        {output.name, output.dtype, false, true, output.whole.empty() ? graph_.type(output.node).shape : output.whole});
    result_.argument_input.push_back(static_cast<uint32_t>(scope_.leaves.size() + i));
  }
}

// Nodes between the outputs and the leaves.
void Lowering::find_inside() {
  for (size_t i = 0; i < scope_.leaves.size(); ++i) leaf_[scope_.leaves[i].node] = static_cast<uint32_t>(i);
  ByNode<bool> found;
  const auto add = [&](NodeId node) {
    if (std::exchange(found[node], true)) return;
    inside_.push_back(node);
  };
  for (const LoweringScope::Output& output : scope_.outputs) add(output.node);
  if (matmul_) add(*matmul_);
  for (NodeId product : scope_.more_products) add(product);
  for (size_t i = 0; i < inside_.size(); ++i) {
    const NodeId node = inside_[i];
    if (is_product(node) || leaf_of(node)) continue;
    for (NodeId operand : graph_.operands(node)) add(operand);
  }
  std::sort(inside_.begin(), inside_.end(), [](NodeId a, NodeId b) { return a.index() < b.index(); });
}

// Whether nothing in here has to have the bits that others compute of it again.
bool Lowering::contracts() const {
  std::vector<bool>& compared = scope_.compared != nullptr ? *scope_.compared : compared_;
  return std::none_of(inside_.begin(), inside_.end(), [&](NodeId node) {
    if (is_product(node) || leaf_of(node)) return false;
    if (compared.empty()) compared = compared_with_itself(graph_);
    return bool{compared[node.index()]};
  });
}

namespace {

// Of a value that lies row-major without gaps, terms of an axis that were taken apart by its dims are one again: the
// items of [b, h, n, n] have one stride. Nothing where no term can be saved.
std::optional<std::vector<package::IndexTerm>> merged_terms(const Location& at, const std::vector<Dim>& shape) {
  if (std::find(shape.begin(), shape.end(), Dim::constant(0)) != shape.end()) return std::nullopt;
  Index position;
  std::vector<Dim> strides(shape.size());
  Dim symbolic = Dim::constant(1);  // the stride's sizes that are symbols, and those that are not
  int64_t constant = 1;
  size_t count = 0;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = symbolic * Dim::constant(constant);
    if (shape[d] == Dim::constant(1)) continue;
    position = position + scaled(scaled(at[d], constant), symbolic);
    if (const auto size = shape[d].as_constant())
      constant *= *size;
    else
      symbolic = symbolic * shape[d];
    count += at[d].terms.size();
  }
  if (position.terms.size() >= count) return std::nullopt;
  std::vector<package::IndexTerm> terms;
  for (const IndexTerm& term : position.terms) {
    const Dim step = Dim::constant(term.coef) * term.factor;
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto times = shape[d] == Dim::constant(1) ? std::nullopt : exact_quotient(step, strides[d]);
      if (!times) continue;
      // A dim that turns out to have one element has no stride: an index that passes its size is not counted in it.
      const bool own = std::any_of(at[d].terms.begin(), at[d].terms.end(), [&](const IndexTerm& of) {
        return of.axis == term.axis && of.div == term.div && of.mod == term.mod &&
               Dim::constant(of.coef) * of.factor == *times;
      });
      const auto least = shape[d].lower_bound();
      if (!own && (!least || *least < 2)) continue;
      terms.push_back({term.axis, term.div, term.mod, static_cast<uint8_t>(shape.size() - 1 - d), *times});
      break;
    }
  }
  if (terms.size() != position.terms.size()) return std::nullopt;
  return terms;
}

}  // namespace

Result<uint32_t> Lowering::make_operand(uint32_t argument, DType dtype, const Location& at,
                                        const std::vector<Dim>& shape, bool is_store, NodeId node,
                                        std::optional<size_t> gathered) {
  package::Operand operand;
  operand.argument = argument;
  operand.dtype = dtype;
  operand.is_store = is_store;
  const auto at_value = [&](size_t d) { return d == gathered || at[d].value.has_value(); };
  bool affine = true, row = false, col = false;
  int column_terms = 0, row_terms = 0;
  const ArgumentLayout& layout = argument < scope_.leaves.size()
                                     ? scope_.leaves[argument].layout
                                     : scope_.outputs[argument - scope_.leaves.size()].layout;
  bool unit = layout.unit_stride, unit_rows = true;
  const auto add_term = [&](const package::IndexTerm& term) {
    affine &= term.div == 1 && term.mod == 0;
    if (term.axis == Axis::Row) {
      row = true;
      ++row_terms;
      unit_rows &= term.dim == (layout.unit_stride ? 0 : 1) && term.scale == Dim::constant(1);
    }
    if (term.axis == Axis::Col) {
      col = true;
      ++column_terms;
      unit &= term.dim == 0 && term.scale == Dim::constant(1);
    }
    operand.terms.push_back(term);
  };
  for (size_t d = 0; d < shape.size(); ++d) {
    if (at_value(d)) operand.gathered.push_back(static_cast<uint8_t>(shape.size() - 1 - d));
  }
  const auto merged = layout.contiguous && operand.gathered.empty() ? merged_terms(at, shape) : std::nullopt;
  for (const package::IndexTerm& term : merged.value_or(std::vector<package::IndexTerm>{})) add_term(term);
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto from_end = static_cast<uint8_t>(shape.size() - 1 - d);
    if (shape[d] == Dim::constant(1) || at_value(d)) continue;
    for (const IndexTerm& term : at[d].terms) {
      if (!merged) add_term({term.axis, term.div, term.mod, from_end, Dim::constant(term.coef) * term.factor});
    }
    if (at[d].constant != 0 || at[d].is_shifted())
      operand.offsets.emplace_back(from_end, Dim::constant(at[d].constant) + at[d].shift);
  }
  // Of one row or column, a value still varies with it, as far as the program can tell: its store keeps the index,
  // which is 0.
  const auto keep_index = [&](Axis axis, bool& varies) {
    varies = true;
    // In a dim of size 1 where there is one, so that a load of the same element is known to be that.
    const auto one = std::find(shape.begin(), shape.end(), Dim::constant(1));
    const auto d = static_cast<size_t>(one == shape.end() ? 0 : one - shape.begin());
    operand.terms.push_back({axis, 1, 0, static_cast<uint8_t>(shape.size() - 1 - d), Dim::constant(1)});
  };
  if (is_store && !shape.empty() && !row && rows_ == 1) keep_index(Axis::Row, row);
  if (is_store && !shape.empty() && !col && cols_ == 1) keep_index(Axis::Col, col);
  const auto& made = instances_[node];
  if (is_store && shape.empty() && made.size() == 1 && recorder_.reads_accumulator(made[0].value)) {
    return reject(diag::Code::position_conflict, node, "a product does not store a value without dims")
        .reason("its elements lie in rows and columns")
        .help("keep the dims of size 1");
  }
  affine = affine && operand.gathered.empty();
  operand.access = !affine      ? Access::Indexed
                   : row && col ? Access::Full
                   : col        ? Access::Row
                   : row        ? Access::Column
                                : Access::Scalar;
  operand.unit_stride = affine && col && column_terms == 1 && unit;
  operand.column_major = operand.access == Access::Full && !operand.unit_stride && row_terms == 1 && unit_rows &&
                         (layout.unit_stride || layout.column_major);
  if (operand.terms.size() + 2 * operand.gathered.size() > static_cast<size_t>(codetta::cpu::max_terms)) {
    return reject(diag::Code::index_terms, node, "the layout of this value needs too many index terms")
        .reason(fmt::format("{} terms; a kernel takes {}", operand.terms.size(), codetta::cpu::max_terms))
        .help("use fewer nested reshapes and permutes, or bind a tensor that already has the layout");
  }
  auto& operands = result_.program.operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == operand) return static_cast<uint32_t>(i);
  }
  operands.push_back(std::move(operand));
  return static_cast<uint32_t>(operands.size() - 1);
}

// Where a root element lies in a value that doesn't depend on the accumulator: dim by dim from the right.
Result<Location> Lowering::plain_location(NodeId node) const {
  const auto& shape = graph_.type(node).shape;
  const auto& accumulator = root_shape_;
  Location at(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t from_end = shape.size() - 1 - i;
    if (shape[i] == Dim::constant(1)) continue;
    const bool same = from_end < accumulator.size() && shape[i] == accumulator[accumulator.size() - 1 - from_end] &&
                      (ways_ == 1 || from_end != 0);
    if (!same) {
      return reject(diag::Code::position_conflict, node, "this output does not lie in the accumulator's space")
          .reason(fmt::format("it is {} and the accumulator is {}", ir::to_string(graph_.type(node)),
                              types::to_string(root_shape_)))
          .help("compute it outside of the epilogue: it does not depend on accum");
    }
    at[i] = root(from_end);
  }
  return at;
}

// Whether a value lies along the fixed part of an axis alone: where the symbol in its size is 0 the axis has no
// element, and the value has all of its own.
bool Lowering::outlasts_axis(const Location& at) const {
  for (const Axis axis : {Axis::Batch, Axis::Row, Axis::Col}) {
    const Dim& extent = extents_[static_cast<size_t>(axis)];
    if (extent.is_constant() || extent.lower_bound().value_or(0) > 0) continue;
    bool along = false, whole = false;
    for (const Index& index : at) {
      for (const IndexTerm& term : index.terms) {
        along = along || term.axis == axis;
        whole = whole || (term.axis == axis && term.extent == 0);
      }
    }
    if (along && !whole) return true;
  }
  return false;
}

Result<void> Lowering::store_outputs() {
  for (size_t i = 0; i < scope_.outputs.size(); ++i) {
    const LoweringScope::Output& output = scope_.outputs[i];
    const auto argument = static_cast<uint32_t>(result_.program.arguments.size() - scope_.outputs.size() + i);
    std::vector<Instance> instances = instances_[output.node];
    if (!dependent(output.node)) {
      const std::optional<Location>& known = at_.of(output.node);
      Location at;
      if (known) {
        at = *known;
      } else {
        CODETTA_TRY(at, plain_location(output.node));
      }
      CODETTA_TRY(const ValueRef value, value_at(output.node, at));
      instances.push_back({std::move(at), value});
    }
    const auto& shape = output.whole.empty() ? graph_.type(output.node).shape : output.whole;
    for (Instance& instance : instances) {
      if (outlasts_axis(instance.at)) {
        return reject(diag::Code::position_conflict, output.node, "this is stored by a kernel of its own")
            .reason("where a size is 0 the others have no element, and this has")
            .help("compute it on its own");
      }
      for (const auto& along : output.along) instance.at[along.dim] = scaled(instance.at[along.dim], along.step);
      CODETTA_TRY(uint32_t operand, make_operand(argument, output.dtype, instance.at, shape, true, output.node));
      for (const auto& along : output.along) {
        if (along.start == Dim::constant(0)) continue;
        package::Operand& part = result_.program.operands[operand];
        part.offsets.emplace_back(static_cast<uint8_t>(shape.size() - 1 - along.dim), along.start);
      }
      recorder_.store(operand, recorder_.before_rounding(instance.value, output.dtype));
    }
  }
  return {};
}

Result<Lowered> Lowering::run() {
  find_inside();
  result_.program.contracts = contracts();
  dependent_[*matmul_] = true;
  for (NodeId product : scope_.more_products) dependent_[product] = true;
  for (const NodeId node : inside_) {
    if (is_product(node) || leaf_of(node)) continue;
    for (NodeId operand : graph_.operands(node)) {
      if (dependent(operand)) dependent_[node] = true;
    }
    if (graph_.node(node).op == Op::matmul) {
      return reject(diag::Code::second_product, node, "a region holds one matrix product")
          .reason("this product would have to run inside the other's epilogue")
          .help("compile it as a program");
    }
  }
  CODETTA_CHECK_OK(find_roots());
  add_arguments();
  for (const NodeId node : inside_) {
    if (!is_product(node) && dependent(node)) CODETTA_CHECK_OK(lower_dependent(node));
  }
  CODETTA_CHECK_OK(store_outputs());
  recorder_.finish(result_.program);
  return std::move(result_);
}

Result<Lowered> lower_epilogue(const ir::Graph& graph, NodeId matmul, const std::vector<ArgumentLayout>& layouts) {
  LoweringScope scope;
  std::vector<uint32_t> input_of;  // leaf -> graph input
  const auto factors = graph.operands(matmul);
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::GraphInput& input = graph.inputs()[i];
    if (input.node == factors[0] || input.node == factors[1]) continue;
    LoweringScope::Leaf leaf{input.node, input.name, input.is_scalar};
    if (input_of.size() < layouts.size()) leaf.layout = layouts[input_of.size()];
    scope.leaves.push_back(std::move(leaf));
    input_of.push_back(static_cast<uint32_t>(i));
  }
  for (const ir::GraphOutput& output : graph.outputs()) {
    scope.outputs.push_back({output.node, output.name, output.dtype});
    const size_t argument = scope.leaves.size() + scope.outputs.size() - 1;
    if (argument < layouts.size()) scope.outputs.back().layout = layouts[argument];
  }
  Lowering lowering(graph, matmul, scope);
  CODETTA_TRY(Lowered lowered, lowering.run());
  for (uint32_t& from : lowered.argument_input) {
    from = from < scope.leaves.size() ? input_of[from]
                                      : static_cast<uint32_t>(graph.inputs().size() + from - scope.leaves.size());
  }
  return lowered;
}

Result<Lowered> lower_region(const ir::Graph& graph, NodeId matmul, const LoweringScope& scope, NodeId* failed) {
  Lowering lowering(graph, matmul, scope);
  auto result = lowering.run();
  if (!result && failed != nullptr) *failed = lowering.failed().value_or(matmul);
  return result;
}

}  // namespace codetta::plan
