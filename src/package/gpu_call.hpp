// SPDX-License-Identifier: Apache-2.0
// How a kernel of a GPU is launched: what follows from its program alone, for execution in process and for emitted host
// text alike.
#pragma once

#include <optional>

#include "package/package.hpp"

namespace codetta::package {

// Which of an operand's strides belong to the batch and to rows, where at most one of its index terms follows each of
// them, undivided; -1: none does. Nothing: items are no further rows of this operand.
struct FoldSlots {
  int8_t batch = -1, row = -1;
  bool operator==(const FoldSlots&) const = default;
};
std::optional<FoldSlots> fold_slots(const Operand& operand);
// Of an operand of a program that folds: a further B has no rows that items could be.
FoldSlots fold_slots_of(const EpilogueProgram& program, size_t operand);
// As rows_fold() of cpu_call.hpp, for hosts that are told the slots: Indexed operands may take part, too.
bool rows_fold_by_slots(const EpilogueProgram& program);

// Over an empty root space stores that lie along none of the empty axes are still owed. Those of what is computed with
// the elements of another axis are not made: a result of a reduction that has no element there is not computed
// (sum(sum(accum, axis="column")) of a product without rows has a value, but no row to be summed in), a product's own
// kernel, which has phase 0, does not run, and no phase has rows or columns without batch items. Bit e, where axes are
// empty as the bits of e say (1 the batch, 2 rows, 4 columns): there is such a store. `in_product`: phase 0 is in the
// kernel of a product.
uint8_t missing_when(const EpilogueProgram& program, bool in_product);
// Of a launch: those of these bits that its sizes can come to.
uint8_t missing_when(const EpilogueProgram& program, bool in_product, const types::Dim& batch, const types::Dim& rows,
                     const types::Dim& columns);
// Whether a launch of the package would not make all that it stores where sizes are 0.
bool misses_stores(const Package& package);

// Whether the kernel finds all factors but the first of each kind among its operands, or makes them: no other kernel
// makes one for it.
inline bool factors_are_inside(const Product& product, const EpilogueProgram& program) {
  return product.b_made.empty() && (product.products() == 1 || program.makes_b() || !program.more_b.empty());
}
inline constexpr const char* factors_outside =
    "kernels of GPUs find the factors of several products among their operands";

// Bytes that the first phase loads for an element of the root space, of what has rows and columns.
int32_t bytes_of_loads(const EpilogueProgram& program);

}  // namespace codetta::package
