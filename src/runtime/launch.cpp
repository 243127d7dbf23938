// SPDX-License-Identifier: Apache-2.0
// Resolving a LaunchKernel step: strides, addresses, phases and reductions as the engine takes them.
#include "runtime/launch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"

namespace codetta::runtime {

using package::Access;
using package::Axis;

namespace {

// Stride of the dim counted from the last; 0 where the view lacks the dim or has one element in it.
int64_t stride_from_end(const TensorView& view, int from_end) {
  const int dim = view.rank() - 1 - from_end;
  return dim < 0 || view.size(dim) == 1 ? 0 : view.stride(dim);
}

codetta::cpu::Operand resolve_operand(const package::Operand& operand, const TensorView& view) {
  codetta::cpu::Operand result{};
  int64_t offset = 0;
  for (const auto& [dim, count] : operand.offsets) offset += count.as_constant().value_or(0) * stride_from_end(view, dim);
  result.data = static_cast<std::byte*>(view.data()) + offset * dtype_size(operand.dtype);
  for (size_t i = 0; i < operand.terms.size(); ++i) {
    const package::IndexTerm& term = operand.terms[i];
    const int64_t stride = term.scale.as_constant().value_or(0) * stride_from_end(view, term.dim);
    const size_t slot = operand.access == Access::Indexed ? i : static_cast<size_t>(term.axis);
    result.stride[slot] += stride;
  }
  return result;
}

cpu::Scope scope_of(package::Scope scope) {
  switch (scope) {
    case package::Scope::Tile:
      return cpu::Scope::Tile;
    case package::Scope::RowPanel:
      return cpu::Scope::RowPanel;
    case package::Scope::Whole:
      break;
  }
  return cpu::Scope::Whole;
}

// A phase without accumulators whose stores all lie in one reduced space runs over that space only.
cpu::Space space_of(const package::EpilogueProgram& program, size_t index) {
  const package::Phase& phase = program.phases[index];
  const bool reduces = std::any_of(program.reductions.begin(), program.reductions.end(),
                                   [&](const package::Reduction& r) { return r.phase == index; });
  if (phase.reads_accumulator || reduces || phase.stores.empty()) return cpu::Space::Tiles;
  std::optional<cpu::Space> space;
  for (const package::Store& store : phase.stores) {
    const package::Operand& operand = program.operands[store.operand];
    const bool batched = std::any_of(operand.terms.begin(), operand.terms.end(), [](const auto& t) { return t.axis == Axis::Batch; });
    cpu::Space wanted = cpu::Space::Tiles;
    if (operand.access == Access::Column) wanted = cpu::Space::Rows;
    if (operand.access == Access::Row) wanted = cpu::Space::Columns;
    if (operand.access == Access::Scalar && !batched) wanted = cpu::Space::Once;
    if (space && *space != wanted) return cpu::Space::Tiles;
    space = wanted;
  }
  return *space;
}

cpu::Reduction reduction_of(const package::Reduction& reduction) {
  cpu::Reduction result;
  result.kind = static_cast<cpu::ReductionKind>(reduction.kind);
  result.axis = static_cast<cpu::ReductionAxis>(reduction.axis);
  result.dtype = reduction.type;
  result.mean = reduction.mean;
  result.parts = reduction.parts;
  result.phase = static_cast<int32_t>(reduction.phase);
  return result;
}
static_assert(static_cast<int>(cpu::ReductionKind::LogSumExp) == static_cast<int>(package::ReduceKind::LogSumExp));
static_assert(static_cast<int>(cpu::ReductionAxis::All) == static_cast<int>(package::ReduceAxis::All));

}  // namespace

Result<Launch> Launch::make(const package::Package& package, const package::LaunchKernel& step, const Bindings& bindings,
                            const KernelEntry& entry, const Symbols& symbols, int threads) {
  const package::Kernel& kernel = package.kernels[step.kernel];
  Launch launch;
  launch.step_ = &step;
  launch.program_ = &kernel.epilogue;
  launch.config_ = kernel.config;
  cpu::GemmProblem& problem = launch.problem_;
  problem.batch = step.batch.evaluate(symbols).value_or(0);
  problem.m = step.m.evaluate(symbols).value_or(0);
  problem.n = step.n.evaluate(symbols).value_or(0);
  problem.k = step.k.evaluate(symbols).value_or(0);
  problem.split.ways = kernel.epilogue.split.ways;
  problem.split.chunk = kernel.epilogue.split.chunk.evaluate(symbols).value_or(0);
  for (size_t i = 0; i < kernel.epilogue.phases.size(); ++i) {
    const package::Phase& phase = kernel.epilogue.phases[i];
    launch.phases_.push_back({scope_of(phase.scope), space_of(kernel.epilogue, i), phase.reads_accumulator});
  }
  for (const package::Reduction& reduction : kernel.epilogue.reductions) launch.reductions_.push_back(reduction_of(reduction));

  launch.plain_ = kernel.source.empty();
  launch.module_ = entry.module;
  if (!launch.plain_) {
    launch.call_.function = entry.function;
    if (entry.function == nullptr) {
      launch.tape_ = std::make_unique<cpu::Tape>(kernel.epilogue);
      launch.call_.interpret = &cpu::Tape::run_tile;
      launch.call_.context = launch.tape_.get();
    }
  }
  launch.resolve(bindings);
  if (const auto& packed = bindings.packed_b[step.kernel]) {
    if (!cpu::packed_matches(packed->bytes.data(), packed->bytes.byte_size(), launch.config_, problem)) {
      return diag::error(diag::Code::guard_failed, "the packed weights do not fit this kernel and these sizes")
          .reason(fmt::format("the kernel {} multiplies [{}, {}] by [{}, {}]", kernel.name, problem.m, problem.k, problem.k, problem.n))
          .help("pack B with Kernel::pack of the same kernel, for the same K and N");
    }
    problem.packed_b = packed->bytes.data();
  }
  launch.workspace_bytes = launch.plain_ ? cpu::workspace_size(launch.config_, problem, threads)
                                         : cpu::workspace_size(launch.config_, problem, launch.call_, threads);
  return launch;
}

void Launch::resolve(const Bindings& bindings) {
  const TensorView &a = bindings.tensors[step_->a], &b = bindings.tensors[step_->b];
  problem_.a = a.data();
  problem_.b = b.data();
  problem_.a_batch = stride_from_end(a, 2);
  problem_.b_batch = stride_from_end(b, 2);
  problem_.a_row = a.stride(a.rank() - (step_->a_transposed ? 1 : 2));
  problem_.a_k = a.stride(a.rank() - (step_->a_transposed ? 2 : 1));
  problem_.b_k = b.stride(b.rank() - (step_->b_transposed ? 1 : 2));
  problem_.b_col = b.stride(b.rank() - (step_->b_transposed ? 2 : 1));

  const auto view_of = [&](uint32_t argument) -> const TensorView& { return bindings.tensors[step_->arguments[argument]]; };
  if (plain_) {
    const TensorView& out = view_of(program_->operands[0].argument);
    store_ = {out.data(), stride_from_end(out, 2), stride_from_end(out, 1)};
    return;
  }
  operands_.clear();
  for (const package::Operand& operand : program_->operands) operands_.push_back(resolve_operand(operand, view_of(operand.argument)));
  scalars_.clear();
  for (size_t i = 0; i < program_->arguments.size(); ++i) {
    scalars_.push_back(program_->arguments[i].is_scalar ? bindings.scalars[step_->arguments[i]] : codetta::cpu::ScalarValue{});
  }
  call_.operands = operands_.data();
  call_.scalars = scalars_.data();
  call_.phases = phases_;
  call_.reductions = reductions_;
}

}  // namespace codetta::runtime
