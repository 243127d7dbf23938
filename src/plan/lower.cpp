// SPDX-License-Identifier: Apache-2.0
// lower_epilogue: arguments, operands and stores.
#include "plan/lower.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "device/cpu/abi.h"
#include "plan/lowering.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using package::Access;
using package::Axis;
using types::Op;

diag::ErrorBuilder Lowering::reject(diag::Code code, NodeId node, std::string headline) const {
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

Index Lowering::root(size_t from_end) const {
  if (from_end == 0) return Index::axis(Axis::Col, cols_);
  if (from_end == 1) return Index::axis(Axis::Row, rows_);
  return Index::axis(Axis::Batch, batches_);
}

// The accumulator's instances: one per part of the split.
Result<void> Lowering::find_roots() {
  const auto& shape = graph_.type(matmul_).shape;
  const size_t rank = shape.size();
  const auto size = [&](size_t from_end) {
    return from_end < rank ? shape[rank - 1 - from_end].as_constant().value_or(0) : int64_t{1};
  };
  batches_ = size(2);
  rows_ = size(1);
  cols_ = size(0);
  CODETTA_CHECK_OK(find_split());
  cols_ /= ways_;
  result_.program.accumulator = graph_.type(matmul_).dtype;
  result_.program.split.ways = ways_;
  result_.program.split.chunk = Dim::constant(chunk_);
  for (int32_t part = 0; part < ways_; ++part) {
    Instance instance;
    if (rank == 3) instance.at.push_back(root(2));
    instance.at.push_back(root(1));
    Index column = root(0);
    if (ways_ > 1) {
      const auto division = divide(column, chunk_);  // (c / chunk) * chunk * ways + part * chunk + c % chunk
      if (!division) {
        return reject(diag::Code::split_unsupported, matmul_, "the split's parts do not tile the columns")
            .reason(fmt::format("{} columns in chunks of {}", cols_, chunk_))
            .help("split a dim whose size is a multiple of the number of parts");
      }
      column = scaled(division->quotient, chunk_ * ways_) + division->remainder + Index::of(part * chunk_);
    }
    instance.at.push_back(column);
    Inst inst;
    inst.kind = Inst::Kind::Accumulator;
    inst.type = inst.aux = result_.program.accumulator;
    inst.index = static_cast<uint32_t>(part);
    instance.value = recorder_.add(inst);
    instances_[matmul_.index()].push_back(std::move(instance));
  }
  return {};
}

Result<void> Lowering::add_arguments() {
  const auto operands = graph_.operands(matmul_);
  argument_of_input_.assign(graph_.inputs().size(), UINT32_MAX);
  for (size_t i = 0; i < graph_.inputs().size(); ++i) {
    const ir::GraphInput& input = graph_.inputs()[i];
    if (input.node == operands[0] || input.node == operands[1]) continue;
    const ir::TensorType& type = graph_.type(input.node);
    argument_of_input_[i] = static_cast<uint32_t>(result_.program.arguments.size());
    result_.program.arguments.push_back({input.name, type.dtype, input.is_scalar, false, type.shape});
    result_.argument_input.push_back(static_cast<uint32_t>(i));
  }
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const ir::GraphOutput& output = graph_.outputs()[i];
    result_.program.arguments.push_back({output.name, output.dtype, false, true, graph_.type(output.node).shape});
    result_.argument_input.push_back(static_cast<uint32_t>(graph_.inputs().size() + i));
  }
  return {};
}

Result<uint32_t> Lowering::make_operand(uint32_t argument, DType dtype, const Location& at,
                                        const std::vector<Dim>& shape, bool is_store, NodeId node) {
  package::Operand operand;
  operand.argument = argument;
  operand.dtype = dtype;
  operand.is_store = is_store;
  bool affine = true, row = false, col = false;
  int column_terms = 0;
  bool unit = argument >= layouts_.size() || layouts_[argument].unit_stride;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto from_end = static_cast<uint8_t>(shape.size() - 1 - d);
    if (shape[d] == Dim::constant(1)) continue;
    for (const IndexTerm& term : at[d].terms) {
      affine &= term.div == 1 && term.mod == 0;
      row |= term.axis == Axis::Row;
      if (term.axis == Axis::Col) {
        col = true;
        ++column_terms;
        unit &= from_end == 0 && term.coef == 1;
      }
      operand.terms.push_back({term.axis, term.div, term.mod, from_end, Dim::constant(term.coef)});
    }
    if (at[d].constant != 0) operand.offsets.emplace_back(from_end, Dim::constant(at[d].constant));
  }
  // Of one row or column, a value still varies with it, as far as the program can tell: its store keeps the index,
  // which is 0.
  const auto& root = graph_.type(matmul_).shape;
  const auto keep = [&](Axis axis, const Dim& extent, bool& there) {
    if (!is_store || shape.empty() || there || extent != Dim::constant(1)) return;
    there = true;
    // In a dim of size 1 where there is one, so that a load of the same element is known to be that.
    const auto one = std::find(shape.begin(), shape.end(), Dim::constant(1));
    const auto d = static_cast<size_t>(one == shape.end() ? 0 : one - shape.begin());
    operand.terms.push_back({axis, 1, 0, static_cast<uint8_t>(shape.size() - 1 - d), Dim::constant(1)});
  };
  keep(Axis::Row, root[root.size() - 2], row);
  operand.access = !affine      ? Access::Indexed
                   : row && col ? Access::Full
                   : col        ? Access::Row
                   : row        ? Access::Column
                                : Access::Scalar;
  operand.unit_stride = affine && col && column_terms == 1 && unit;
  if (operand.terms.size() > static_cast<size_t>(codetta::cpu::max_terms)) {
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
  const auto& accumulator = graph_.type(matmul_).shape;
  Location at(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t from_end = shape.size() - 1 - i;
    if (shape[i] == Dim::constant(1)) continue;
    const bool same = from_end < accumulator.size() && shape[i] == accumulator[accumulator.size() - 1 - from_end] &&
                      (ways_ == 1 || from_end != 0);
    if (!same) {
      return reject(diag::Code::position_conflict, node, "this output does not lie in the accumulator's space")
          .reason(fmt::format("it is {} and the accumulator is {}", ir::to_string(graph_.type(node)),
                              ir::to_string(graph_.type(matmul_))))
          .help("compute it outside of the epilogue: it does not depend on accum");
    }
    at[i] = root(from_end);
  }
  return at;
}

Result<void> Lowering::store_outputs() {
  for (size_t i = 0; i < graph_.outputs().size(); ++i) {
    const ir::GraphOutput& output = graph_.outputs()[i];
    const auto argument = static_cast<uint32_t>(result_.program.arguments.size() - graph_.outputs().size() + i);
    std::vector<Instance> instances = instances_[output.node.index()];
    if (!dependent(output.node)) {
      CODETTA_TRY(Location at, plain_location(output.node));
      CODETTA_TRY(const ValueRef value, value_at(output.node, at));
      instances.push_back({std::move(at), value});
    }
    for (const Instance& instance : instances) {
      CODETTA_TRY(const uint32_t operand,
                  make_operand(argument, output.dtype, instance.at, graph_.type(output.node).shape, true, output.node));
      recorder_.store(operand, instance.value);
    }
  }
  return {};
}

Result<Lowered> Lowering::run() {
  const size_t count = graph_.size();
  dependent_.assign(count, false);
  instances_.resize(count);
  dependent_[matmul_.index()] = true;
  for (size_t i = 0; i < count; ++i) {
    const NodeId node(i);
    if (node == matmul_) continue;
    for (NodeId operand : graph_.operands(node)) {
      if (dependent(operand)) dependent_[i] = true;
    }
    if (graph_.node(node).op == Op::matmul) {
      return reject(diag::Code::second_product, node, "a region holds one matrix product")
          .reason("this product would have to run inside the other's epilogue")
          .help("compile it as a program");
    }
  }
  CODETTA_CHECK_OK(find_roots());
  CODETTA_CHECK_OK(add_arguments());
  for (size_t i = 0; i < count; ++i) {
    const NodeId node(i);
    if (node != matmul_ && dependent(node)) CODETTA_CHECK_OK(lower_dependent(node));
  }
  CODETTA_CHECK_OK(store_outputs());
  recorder_.finish(result_.program);
  return std::move(result_);
}

Result<Lowered> lower_epilogue(const ir::Graph& graph, NodeId matmul, const std::vector<ArgumentLayout>& layouts) {
  return Lowering(graph, matmul, layouts).run();
}

}  // namespace codetta::plan
