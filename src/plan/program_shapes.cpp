// SPDX-License-Identifier: Apache-2.0
// What discovery is told of a program's products: sizes, strides and what copies can rely on.
#include <algorithm>
#include <numeric>
#include <set>

#include "base/checked.hpp"
#include "device/host/fold.h"
#include "ir/analyses.hpp"
#include "package/cpu_call.hpp"
#include "package/gpu_call.hpp"
#include "plan/copy_engine.hpp"
#include "plan/families.hpp"
#include "plan/families_cuda.hpp"
#include "plan/making.hpp"
#include "plan/planner.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;

namespace {

// The most bytes, up to 16, that so many elements are a multiple of for all sizes.
int32_t proven_alignment(const Dim& elements, int64_t element) {
  const Dim bytes = elements * Dim::constant(element);
  int32_t found = whole_alignment;
  while (found > 1 && !(mod(bytes, Dim::constant(found)) == Dim::constant(0))) found /= 2;
  return found;
}

// Of a dim, counted from the last, of a tensor without gaps.
Dim elements_inside(const std::vector<Dim>& shape, uint8_t from_last) {
  Dim inside = Dim::constant(1);
  for (size_t d = shape.size() - from_last; d < shape.size(); ++d) inside = inside * shape[d];
  return inside;
}

}  // namespace

// Bytes that a factor's address and those of its rows and items are multiples of. For the hinted sizes strides are
// numbers, which the families look at themselves; what a run computes is relied on for no guess.
int32_t ProgramPlanner::factor_alignment(const ir::Graph& graph, const Factor& factor, bool is_a) const {
  const NodeId source = factor.source;
  const bool copies = plan_.target.backend == Backend::cuda || plan_.target.backend == Backend::hip;
  if (!copies) return whole_alignment;
  const bool hinted = alignment_ == Alignment::Hinted;
  const ir::TensorType& type = graph.type(source);
  const int64_t element = types::byte_size(type.dtype);
  const Dim one = Dim::constant(1);
  int32_t found = whole_alignment;
  for (size_t d = 0; d < factor.offsets.size(); ++d) {
    const Dim skipped =
        factor.offsets[d] * elements_inside(type.shape, static_cast<uint8_t>(type.shape.size() - 1 - d));
    found = std::min(found,
                     proven_alignment(hinted && !is_late(skipped) ? Dim::constant(hint(skipped)) : skipped, element));
  }
  const auto prove = [&](const Dim& stride) {
    if (!hinted || is_late(stride)) found = std::min(found, proven_alignment(stride, element));
  };
  // One element along K, as of x[:, 1:2]: kernels take that for the adjacent ones, and what lies side by side along the
  // other dim begins at any element.
  const auto see_both = [&](const Dim& ks, const Dim& others, const Dim& other_stride) {
    if (!hinted && ks == one && !(others == one) && other_stride == one)
      found = std::min(found, static_cast<int32_t>(element));
  };
  if (const size_t seen = factor.view.size(); seen > 1) {
    const package::FactorDim &k = factor.view[is_a ? seen - 1 : seen - 2],
                             &other = factor.view[is_a ? seen - 2 : seen - 1];
    see_both(k.size, other.size, other.scale * elements_inside(type.shape, other.dim));
  } else if (factor.view.empty()) {
    const bool k_last = is_a != factor.transposed;
    const Dim &rows = type.shape[type.shape.size() - 2], &cols = type.shape.back();
    see_both(k_last ? cols : rows, k_last ? rows : cols, k_last ? cols : one);
  }
  for (const package::FactorDim& dim : factor.view) {
    const Dim stride = dim.scale * elements_inside(type.shape, dim.dim);
    if (!(stride == one) && !(dim.size == one)) prove(stride);
  }
  if (factor.view.empty()) {  // of what is seen otherwise there may be one dim
    const size_t rank = type.shape.size();
    const Dim &row = type.shape[rank - 1], &rows = type.shape[rank - 2];
    if (!(rows == one)) prove(row);
    if (std::any_of(type.shape.begin(), type.shape.end() - 2, [&](const Dim& dim) { return !(dim == one); }))
      prove(rows * row);
  }
  return lies_anywhere(graph, source) ? std::min(found, static_cast<int32_t>(element)) : found;
}

// Whether nothing is known of how it lies in memory: a tensor of the caller's, of any strides.
bool ProgramPlanner::lies_anywhere(const ir::Graph& graph, NodeId source) const {
  return anywhere() && (graph.node(source).op == types::Op::input ||
                        std::any_of(graph.outputs().begin(), graph.outputs().end(),
                                    [&](const ir::GraphOutput& output) { return output.node == source; }));
}

void ProgramPlanner::find_factor_rows(GraphScope& scope) {
  const ir::Graph& graph = scope.graph;
  for (const NodeId product : ir::matmuls(graph)) {
    for (NodeId factor : graph.operands(product)) {
      // As it lies in memory.
      while (graph.node(factor).op == types::Op::permute || graph.node(factor).op == types::Op::slice)
        factor = graph.operands(factor)[0];
      const ir::TensorType& type = graph.type(factor);
      const Dim& row = type.shape.back();
      if (row.is_constant()) continue;
      const auto known = std::find_if(scope.factor_rows.begin(), scope.factor_rows.end(),
                                      [&](const auto& other) { return other.first == row; });
      const int64_t bytes = types::byte_size(type.dtype);
      if (known == scope.factor_rows.end()) {
        scope.factor_rows.emplace_back(row, bytes);
      } else {
        known->second = std::min(known->second, bytes);
      }
    }
  }
}

// Bytes that the copy engine can rely on in what an epilogue loads and stores, addresses and rows. Tensors of the
// caller's are taken to be aligned while other kernels take over where they are not; temporaries lie row-major at
// multiples of 64 bytes, unless a loop writes them elsewhere.
// Rows of a symbolic size are taken to be what they are for the hinted one where a product reads such rows, whose
// kernel relies on the same; not those of a size that a run computes.
int32_t ProgramPlanner::epilogue_alignment(const GraphScope& scope, const KernelRegion& region) const {
  constexpr int32_t unknown = 1, whole = whole_alignment;
  const ir::Graph& graph = scope.graph;
  const package::EpilogueProgram& program = region.lowered.program;
  const auto copies = plan_.target.backend == Backend::cuda && scope.block == 0 ? copies_of(program) : std::nullopt;
  if (!copies) return unknown;
  const auto is_output = [&](NodeId node) {
    return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                       [&](const ir::GraphOutput& output) { return output.node == node; });
  };
  const auto is_row_of_factor = [&](const Dim& columns, DType dtype) {
    return std::any_of(scope.factor_rows.begin(), scope.factor_rows.end(),
                       [&](const auto& row) { return row.first == columns && row.second <= types::byte_size(dtype); });
  };
  const auto fits = [&](uint32_t k) {
    const package::Operand& operand = program.operands[k];
    const size_t from = region.lowered.argument_input[operand.argument];
    const StoredValue* const store =
        from < region.leaves.size() ? nullptr : &region.stores[from - region.leaves.size()];
    const NodeId node = store != nullptr ? store->target : region.leaves[from];
    const types::Op op = graph.node(node).op;
    const bool callers = (store != nullptr && store->output) || op == types::Op::input || is_output(node);
    // Parts of joins, and of what has runs, begin at multiples; those of rows do where the rows do.
    const bool shifted = std::any_of(operand.offsets.begin(), operand.offsets.end(), [&](const auto& offset) {
      const auto count = offset.second.as_constant();
      return offset.first == 0 && !column_runs(operand) &&
             (!count || *count * types::byte_size(operand.dtype) % whole != 0);
    });
    if (is_step(op) || (callers && alignment_ != Alignment::Hinted) || shifted) return false;
    const Dim& columns = graph.type(node).shape.back();
    if (alignment_ != Alignment::Hinted || is_late(columns))
      return proven_alignment(columns, types::byte_size(operand.dtype)) == whole;
    if (!columns.is_constant() && !is_row_of_factor(columns, operand.dtype)) return false;
    return hint(columns) * types::byte_size(operand.dtype) % whole == 0;
  };
  const bool fit = std::all_of(copies->loads.begin(), copies->loads.end(), fits) &&
                   std::all_of(copies->stores.begin(), copies->stores.end(), fits);
  return fit ? whole : unknown;
}

// Whether a run with tensors that lie row-major takes items of this batch for further rows.
bool ProgramPlanner::batch_folds(const package::EpilogueProgram& program, int64_t batch, int64_t rows) const {
  const bool cpu = plan_.target.backend == Backend::cpu;
  if (batch < 2 || plan_.target.backend == Backend::metal) return false;
  if (!(cpu ? package::rows_fold(program) : package::rows_fold_by_slots(program))) return false;
  std::vector<bool> used(program.operands.size());  // by phases: factors have rows of their own
  for (const package::Phase& phase : program.phases) {
    for (const package::Inst& inst : phase.insts) {
      if (inst.kind == package::Inst::Kind::Load) used[inst.index] = true;
    }
    for (const package::Store& store : phase.stores) used[store.operand] = true;
  }
  return rows == 1 ||
         std::all_of(program.operands.begin(), program.operands.end(), [&](const package::Operand& operand) {
           if (!used[static_cast<size_t>(&operand - program.operands.data())]) return true;
           // Dims counted from the last, of which the batch's folded ones are side by side.
           std::optional<int> row, lowest;
           for (const package::IndexTerm& term : operand.terms) {
             if (term.axis == package::Axis::Row) row = term.dim;
             if (term.axis == package::Axis::Batch) lowest = std::min<int>(lowest.value_or(term.dim), term.dim);
           }
           return row ? lowest && *lowest == *row + 1 : !lowest.has_value();
         });
}

// What is read between two readings of the product's B, or what it is made of.
double ProgramPlanner::bytes_beside(const GraphScope& scope, const KernelRegion& region) {
  std::set<NodeId> own;
  if (region.b_made.empty()) own.insert(region.b.source);
  for (const MadeFactor& made : region.b_made) own.insert(made.leaves.begin(), made.leaves.end());
  if (region.b_made.empty()) {
    for (const FurtherProduct& product : region.more) own.insert(product.b.source);
  }
  double bytes = scope.turn_bytes.value_or(0);
  for (const NodeId node : own) bytes -= scope.reads.of_node(node);
  return std::max(bytes, 0.0);
}

GemmShape ProgramPlanner::gemm_shape(const GraphScope& scope, const KernelRegion& region) const {
  const ir::Graph& graph = scope.graph;
  const auto operands = graph.operands(*region.matmul);
  const auto& a_shape = graph.type(operands[0]).shape;
  const auto& b_shape = graph.type(operands[1]).shape;
  GemmShape gemm;
  // A guess of each of several sizes is none of their product, which a grid may not hold.
  constexpr int64_t most_guessed = 1 << 15;
  gemm.batch = hinted(region.batch).value_or(std::min(hint(region.batch), most_guessed));
  gemm.a_made = !region.a_made.empty();
  gemm.b_made = !region.b_made.empty();
  const bool cpu = plan_.target.backend == Backend::cpu;
  const auto add_cost = [&](const MadeFactor& made, double& most_clocks, double& most_bytes) {
    const package::EpilogueProgram& program = made.lowered.program;
    MakingCost cost;
    if (!cpu) {
      const double elements = static_cast<double>(hint(made.lowered.batch)) *
                              static_cast<double>(hint(made.lowered.rows)) *
                              static_cast<double>(hint(made.lowered.cols));
      cost = making_cost(program, elements, [this](const Dim& dim) { return hint(dim); });
    } else {
      for (const package::Inst& inst : program.phases[0].insts)
        cost.clocks += inst.kind == package::Inst::Kind::Op ? vector_clocks(inst.op, inst.type) : 0.5;
      for (const package::Operand& operand : program.operands) {
        const bool whole = operand.access == package::Access::Full || operand.access == package::Access::Indexed;
        if (whole && !operand.is_store) cost.read_bytes += static_cast<double>(types::byte_size(operand.dtype));
      }
    }
    most_clocks = std::max(most_clocks, cost.clocks);
    most_bytes = std::max(most_bytes, cost.read_bytes);
    return cost.unshared_clocks;
  };
  for (const MadeFactor& made : region.a_made)
    gemm.a_unshared_clocks = std::max(gemm.a_unshared_clocks, add_cost(made, gemm.a_clocks, gemm.a_read_bytes));
  for (const MadeFactor& made : region.b_made) add_cost(made, gemm.b_clocks, gemm.b_read_bytes);
  gemm.products = static_cast<int32_t>(region.more.size() + 1);
  const bool any_a = !gemm.a_made && lies_anywhere(graph, region.a.source);
  // Kernels of CPUs take any B; one form reads rows of A and nothing else.
  const bool any_b = !cpu && !gemm.b_made &&
                     (lies_anywhere(graph, region.b.source) ||
                      std::any_of(region.more.begin(), region.more.end(),
                                  [&](const auto& product) { return lies_anywhere(graph, product.b.source); }));
  // Elements along a dim of size 1 are side by side, which of another size they need not be.
  const auto size = [&](const Dim& dim) {
    return (any_a || any_b) && !dim.is_constant() ? std::max<int64_t>(hint(dim), 2) : hint(dim);
  };
  gemm.m = size(region.rows);
  const int64_t own_columns = size(region.cols);
  gemm.n = base::checked_mul(own_columns, int64_t{gemm.products}).value_or(own_columns);
  if (region.has_spaces()) {
    const int64_t ways = region.lowered.program.split.ways;
    gemm.n = own_columns;
    gemm.widths = {own_columns / ways};
    for (const FurtherProduct& further : region.more) {
      gemm.n = base::checked_add(gemm.n, size(further.cols)).value_or(gemm.n);
      gemm.widths.push_back(size(further.cols) / ways);
    }
  }
  gemm.k = size(a_shape.back());
  gemm.a = graph.type(operands[0]).dtype;
  gemm.b = graph.type(operands[1]).dtype;
  gemm.accumulator = graph.type(*region.matmul).dtype;
  gemm.math = plan_.numerics.math;
  gemm.a_row_stride = region.a.transposed ? 1 : gemm.k;
  gemm.a_k_stride = region.a.transposed ? gemm.m : 1;
  gemm.b_k_stride = region.b.transposed ? 1 : own_columns;
  gemm.b_col_stride = region.b.transposed ? gemm.k : 1;
  // Of a made factor they say which way it is computed, also where a size is 1.
  if (gemm.a_made && region.a.transposed) gemm.a_k_stride = std::max<int64_t>(gemm.a_k_stride, 2);
  if (gemm.b_made && !region.b.transposed) gemm.b_k_stride = std::max<int64_t>(gemm.b_k_stride, 2);
  const auto batched = [](const std::vector<Dim>& shape) {
    return std::any_of(shape.begin(), shape.end() - 2, [](const Dim& dim) { return !(dim == Dim::constant(1)); });
  };
  gemm.m_multiple = proven_alignment(region.rows, 1);
  gemm.any_m = !region.rows.is_constant();
  gemm.any_n = !region.all_cols().is_constant();
  gemm.a_batch_stride = batched(a_shape) ? gemm.m * gemm.k : 0;
  gemm.b_batch_stride = batched(b_shape) ? gemm.k * own_columns : 0;
  const auto see = [&](const Factor& factor, int64_t& batch, int64_t& skip, int64_t& row, int64_t& col) {
    const auto& shape = graph.type(factor.source).shape;
    const auto stride = [&](const package::FactorDim& dim) {
      return hint(dim.scale * elements_inside(shape, dim.dim));
    };
    const size_t count = factor.view.size();
    if (count == 0) return;
    row = stride(factor.view[count - 2]);
    col = stride(factor.view[count - 1]);
    batch = count > 2 ? stride(factor.view[count - 3]) : 0;
    if (count < 4) return;
    gemm.inner = std::max<int64_t>(hint(factor.view[1].size), 1);
    skip = stride(factor.view[0]) - batch * gemm.inner;
  };
  see(region.a, gemm.a_batch_stride, gemm.a_skip, gemm.a_row_stride, gemm.a_k_stride);
  see(region.b, gemm.b_batch_stride, gemm.b_skip, gemm.b_k_stride, gemm.b_col_stride);
  // Of Bs that lie differently, since their columns are as many as they like, kernels can rely on what all have.
  for (const FurtherProduct& further : region.more) {
    if (!region.has_spaces()) break;
    const int64_t columns = size(further.cols);
    int64_t items = batched(b_shape) ? gemm.k * columns : 0, skip = 0;
    int64_t k = further.b.transposed ? 1 : columns, col = further.b.transposed ? gemm.k : 1;
    see(further.b, items, skip, k, col);
    const auto meet = [](int64_t& one, int64_t other) {
      if (one == other) return;
      one = std::gcd(one, other);
      if (one == 1) one = 3;  // side by side they are not
    };
    meet(gemm.b_batch_stride, items), meet(gemm.b_skip, skip);
    meet(gemm.b_k_stride, k), meet(gemm.b_col_stride, col);
  }
  // Where items are taken for further rows, it is planned so.
  const bool rows_follow = region.a.view.empty() || fold::follow(gemm.m, gemm.a_batch_stride, gemm.a_row_stride);
  if (gemm.inner == 0 && gemm.b_batch_stride == 0 && gemm.a_batch_stride != 0 && !region.a.transposed && rows_follow &&
      batch_folds(region.lowered.program, gemm.batch, gemm.m)) {
    if (const auto rows = base::checked_mul(gemm.batch, gemm.m)) {
      gemm.m = *rows;
      gemm.m_multiple = proven_alignment(region.batch * region.rows, 1);
      gemm.any_m = gemm.any_m || !region.batch.is_constant();
      gemm.batch = 1;
      gemm.a_batch_stride = 0;
    }
  }
  if (!gemm.a_made) {
    gemm.a_alignment = factor_alignment(graph, region.a, true);
  } else if (const auto brought = brought_for_a(region.lowered.program)) {
    const uint32_t argument = region.lowered.program.operands[*brought].argument;
    gemm.a_alignment = factor_alignment(graph, Factor{region.leaves[region.lowered.argument_input[argument]]}, true);
  }
  if (!gemm.b_made) {
    gemm.b_alignment = factor_alignment(graph, region.b, false);
    for (const FurtherProduct& product : region.more)
      gemm.b_alignment = std::min(gemm.b_alignment, factor_alignment(graph, product.b, false));
  }
  // Then only kernels fit that copy them first, or take one element at a time.
  const auto apart = [](int64_t elements) { return 2 * std::min(elements, int64_t{1} << 40) + 1; };
  // Neighbours are as likely to lie along the dim where they were as anywhere else.
  const auto lies = [&](int64_t& inside, int64_t& across, int64_t elements) {
    inside = 2;
    across = apart(elements);
  };
  if (any_a && (cpu || gemm.a_k_stride == 1)) {
    lies(gemm.a_k_stride, gemm.a_row_stride, gemm.k);
  } else if (any_a) {
    lies(gemm.a_row_stride, gemm.a_k_stride, gemm.m);
  }
  if (any_b && gemm.b_k_stride == 1) {
    lies(gemm.b_k_stride, gemm.b_col_stride, gemm.k);
  } else if (any_b) {
    lies(gemm.b_col_stride, gemm.b_k_stride, own_columns);
  }
  gemm.epilogue_alignment = epilogue_alignment(scope, region);
  gemm.beside = bytes_beside(scope, region);
  return gemm;
}

}  // namespace codetta::plan
