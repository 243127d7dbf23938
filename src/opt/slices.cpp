// SPDX-License-Identifier: Apache-2.0
#include "opt/slices.hpp"

#include <algorithm>

#include "opt/rules.hpp"

namespace codetta::opt {
namespace {

using types::Dim;

// What the caller gives, or a join that is stored part by part, behind slices.
bool is_slice_in_memory(NodeId node, RuleContext& x) {
  bool sliced = false;
  for (; x.op(node) == Op::slice; node = x.operand(node)) sliced = true;
  return sliced && (x.op(node) == Op::input || x.op(node) == Op::join);
}

// Rows that are several dims of a slice have no stride in common, and would be copied: as items of its last dim but
// one they are read where they lie. The windows of a convolution are such slices. A tile is filled by the rows of one
// item, so that few rows are better copied.
Rewrite rows_as_items(const Candidate& n, RuleContext& x) {
  constexpr int64_t least_rows = 32;
  if (n.op != Op::matmul || n.type.shape.size() != 2 || x.op(n.operands[0]) != Op::reshape) return {};
  const NodeId slice = x.operand(n.operands[0]);
  const std::vector<Dim> from = x.type(slice).shape, rows = x.type(n.operands[0]).shape;
  if (from.size() < 3 || from.back() != rows.back() || !is_slice_in_memory(slice, x)) return {};
  const Dim& last = from[from.size() - 2];
  const auto leading =
      std::count_if(from.begin(), from.end() - 1, [](const Dim& dim) { return !(dim == Dim::constant(1)); });
  if (leading < 2 || last.as_constant().value_or(least_rows) < least_rows) return {};
  Dim together = Dim::constant(1);
  for (size_t d = 0; d + 1 < from.size(); ++d) together = together * from[d];
  if (together != rows.front()) return {};
  ir::TensorType type = n.type;
  type.shape.assign(from.begin(), from.end() - 1);
  type.shape.push_back(n.type.shape.back());
  const Candidate items{Op::matmul, {slice, n.operands[1]}, n.attr, type};
  return Candidate{Op::reshape, {x.add(items)}, ir::ReshapeAttr{n.type.shape}, n.type};
}

constexpr Rule slice_table[] = {
    {"rows_as_items", "reshape(x, (b*m, k)) @ B = reshape(x @ B) where x of [b, m, k] is a slice", rows_as_items},
};

}  // namespace

Result<ir::Graph> items_of_slices(const ir::Graph& graph, std::vector<Fired>& fired) {
  std::vector<uint32_t> counts;
  CODETTA_TRY(ir::Graph items, rewrite(graph, slice_table, counts));
  fired.push_back({slice_table[0].name, slice_table[0].equation, counts[0]});
  return items;
}

}  // namespace codetta::opt
