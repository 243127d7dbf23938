// SPDX-License-Identifier: Apache-2.0
// Operands of a launch resolved against bound views, and the checks of those views; the same for every backend.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "device/cpu/abi.h"
#include "device/host/items.h"
#include "package/factors.hpp"
#include "package/package.hpp"
#include "runtime/checks.hpp"

namespace codetta::runtime {

// The symbolic parts of an operand, evaluated.
struct OperandPlan {
  std::vector<std::pair<uint8_t, int64_t>> offsets;  // dim from the last, count
  std::vector<int64_t> scales;                       // by term
};

// Stride of the dim counted from the last; 0 where the view lacks the dim or has one element in it.
int64_t stride_from_end(const TensorView& view, int from_end);

// The bytes of a scalar argument as an element of its dtype.
void store_scalar(const codetta::cpu::ScalarValue& value, DType dtype, void* bytes);

// Errors: E0610 with `what` has no value.
Result<int64_t> value_of(const types::Dim& dim, const Symbols& symbols, std::string_view what);

// Offsets and scales are expressions over the package's symbols; addresses follow from their values and the bound view.
// `plan` gets all of it; its memory is used again.
Result<void> plan_operand(const package::Operand& operand, const Symbols& symbols, OperandPlan& plan);
// The sizes that a kernel takes as numbers, behind those among its arguments.
Result<void> plan_sizes(const package::EpilogueProgram& program, const Symbols& symbols, std::vector<int64_t>& sizes);
// Whether no element of the view is met, or it is one that no index finds: resolve_operand then gives the address of a
// 0 in host memory, with strides of 0.
bool meets_nothing(const OperandPlan& plan, const TensorView& view);
codetta::cpu::Operand resolve_operand(const package::Operand& operand, const OperandPlan& plan, const TensorView& view);

// The bound view must be what the package declares; sizes align at the last dim, and a dim that either lacks counts
// as 1. Errors: E0610.
Result<void> check_view(const package::Buffer& buffer, const TensorView& view, const Symbols& symbols);

// One stride for all leading dims of a factor (those before the last two) seen as one: 0 where there is one matrix for
// all; none where they do not fold to one.
std::optional<int64_t> batch_stride(const TensorView& view);

// Two of them, where one is not enough; none where more would be.
std::optional<items::Items> items_of(const TensorView& view);

// A view of a factor, evaluated.
struct FactorPlan {
  struct Dim {
    uint8_t dim;  // from the last
    int64_t scale, size;
  };
  std::vector<Dim> dims;  // none: as the tensor lies
};
// Errors: E0610 where a size has no value, or the view would leave `lies`.
Result<void> plan_factor(const package::Buffer& buffer, const package::FactorView& view, const TensorView& lies,
                         const Symbols& symbols, FactorPlan& plan);
// What the product sees, of a tensor that was planned for.
TensorView factor_of(const TensorView& lies, const FactorPlan& plan);

// A factor has such strides, or no elements. Errors: E0610.
Result<void> check_even(const package::Buffer& buffer, const TensorView& view);
// A launch takes its factors with one number of items inside of the second stride. Errors: E0610.
Result<void> check_agree(int64_t& inner, const items::Items& items, const package::Buffer& buffer);
// Dims of a tensor that a product takes for one lie so. Errors: E0610.
Result<void> check_as_one(const package::Buffer& buffer, const package::DimsAsOne& dims, const TensorView& view);
// The same of those that lie where the caller's tensors do, and that they agree: another package may copy them first
// (plan::Alignment::Uneven). Kernels of the vendor's take one stride.
Result<void> check_callers_factors(const package::Package& package, const package::LaunchKernel& launch,
                                   const std::vector<TensorView>& tensors);

// A factor of the product: [leading dims that fold to batch, or to 1; rows, columns] before a transposition. Errors:
// E0610.
Result<void> check_factor(const package::Buffer& buffer, const TensorView& view, bool transposed, int64_t batch,
                          int64_t rows, int64_t cols);

}  // namespace codetta::runtime
