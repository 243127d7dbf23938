// SPDX-License-Identifier: Apache-2.0
#include "opt/classify.hpp"

#include <algorithm>

namespace codetta::opt {
namespace {

using ir::NodeId;
using types::Dim;

bool is_one(const Dim& dim) { return dim == Dim::constant(1); }

Spread spread_of(const std::vector<Dim>& operand, const std::vector<Dim>& result) {
  if (operand == result) return result.empty() ? Spread::Scalar : Spread::Full;
  // Dims that the operand has and the result has more than one of.
  bool rows = false, columns = false, lead = false, lead_missing = false, rows_missing = false, columns_missing = false;
  for (size_t i = 0; i < result.size(); ++i) {
    if (is_one(result[result.size() - 1 - i])) continue;
    const bool has = i < operand.size() && !is_one(operand[operand.size() - 1 - i]);
    (i == 0 ? columns : i == 1 ? rows : lead) |= has;
    (i == 0 ? columns_missing : i == 1 ? rows_missing : lead_missing) |= !has;
  }
  if (!columns_missing && !rows_missing && !lead_missing) return Spread::Full;
  if (lead && lead_missing) return Spread::Other;
  if (lead)
    return rows && columns ? Spread::Other : columns ? Spread::ItemRows : rows ? Spread::ItemColumns : Spread::Items;
  if (rows && columns) return Spread::Other;
  return columns ? Spread::Row : rows ? Spread::Column : Spread::Scalar;
}

ReductionAxis axis_of(const std::vector<int32_t>& dims, size_t rank) {
  const auto has = [&](size_t from_end) {
    return from_end <= rank && std::find(dims.begin(), dims.end(), static_cast<int32_t>(rank - from_end)) != dims.end();
  };
  if (dims.size() == rank) return rank == 1 ? ReductionAxis::Row : ReductionAxis::All;
  if (dims.size() == 1 && has(1)) return ReductionAxis::Row;
  if (dims.size() == 1 && has(2)) return ReductionAxis::Column;
  if (dims.size() == 2 && has(1) && has(2)) return ReductionAxis::Matrix;
  return ReductionAxis::Other;
}

}  // namespace

std::string_view to_string(Spread spread) {
  constexpr std::string_view names[] = {
      "full", "row", "column", "scalar", "items", "row of each item", "column of each item", "other"};
  return names[static_cast<size_t>(spread)];
}
std::string_view to_string(ReductionAxis axis) {
  constexpr std::string_view names[] = {"none", "row", "column", "matrix", "all", "other"};
  return names[static_cast<size_t>(axis)];
}

Classification classify(const ir::Graph& graph) {
  Classification result;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const NodeId id(i);
    const types::OpInfo& info = types::op_info(graph.node(id).op);
    auto& row = result.operands.emplace_back();
    result.reductions.push_back(ReductionAxis::None);
    if (info.elementwise()) {
      for (const NodeId operand : graph.operands(id))
        row.push_back(spread_of(graph.type(operand).shape, graph.type(id).shape));
    } else if (info.is_reduction()) {
      result.reductions.back() =
          axis_of(graph.attr_as<ir::ReduceAttr>(id).dims, graph.type(graph.operands(id)[0]).shape.size());
    }
  }
  return result;
}

}  // namespace codetta::opt
