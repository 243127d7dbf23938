// SPDX-License-Identifier: Apache-2.0
#include "plan/items.hpp"

#include <algorithm>
#include <optional>

#include "device/host/fold.h"
#include "package/cpu_call.hpp"
#include "package/gpu_call.hpp"

namespace codetta::plan {
namespace {

// As launches add them up; nothing where something isn't known.
std::optional<GemmShape::Strides> strides_of(const package::Operand& operand, const ArgumentLayout* layout) {
  GemmShape::Strides strides;
  for (const package::IndexTerm& term : operand.terms) {
    if (term.axis == package::Axis::Col) continue;
    const auto scale = term.scale.as_constant();
    if (!scale || layout == nullptr || layout->strides.empty()) return std::nullopt;
    const size_t rank = layout->strides.size();
    const int64_t stride = term.dim < rank ? layout->strides[rank - 1 - term.dim] : 0;
    (term.axis == package::Axis::Batch ? strides.item : strides.row) += *scale * stride;
  }
  return strides;
}

bool items_may_be_rows(const package::EpilogueProgram& program, Backend backend) {
  if (backend == Backend::cpu) return package::rows_fold(program);
  return (backend == Backend::cuda || backend == Backend::hip) && package::rows_fold_by_slots(program);
}

}  // namespace

GemmShape shape_of_run(GemmShape shape, const Lowered& lowered, const std::vector<ArgumentLayout>& layouts,
                       Backend backend) {
  constexpr size_t factors = 2;
  for (const package::Operand& operand : lowered.program.operands) {
    const size_t from = lowered.argument_input[operand.argument];  // outputs come behind all inputs
    const size_t index = from - factors;
    const auto strides = strides_of(operand, from >= factors && index < layouts.size() ? &layouts[index] : nullptr);
    if (!strides) {
      shape.operands.clear();
      return shape;
    }
    shape.operands.push_back(*strides);
  }
  const int64_t rows =
      fold::rows_of_all(shape.batch, shape.m, shape.a_batch_stride, shape.a_row_stride, shape.b_batch_stride);
  // Kernels of GPUs that read rows of A side by side rely on it.
  const bool across = backend != Backend::cpu && shape.a_k_stride != 1;
  const bool follow = std::all_of(shape.operands.begin(), shape.operands.end(), [&](const GemmShape::Strides& strides) {
    return fold::follow(shape.m, strides.item, strides.row);
  });
  if (rows == 0 || across || !follow || !items_may_be_rows(lowered.program, backend)) return shape;
  if (shape.m == 1) shape.a_row_stride = shape.a_batch_stride;
  shape.items = shape.batch;
  shape.m = rows;
  shape.batch = 1;
  shape.a_batch_stride = 0;
  return shape;
}

}  // namespace codetta::plan
