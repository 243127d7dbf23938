// SPDX-License-Identifier: Apache-2.0
// The tables of rules. All are exact in the arithmetic of docs/semantics.md: NaN, infinities and the sign of zero
// included.
#pragma once

#include "opt/rewrite.hpp"

namespace codetta::opt {

// Whether a launch could not tell a product's items apart: of leading dims that are not 1, all but the first need
// constant sizes.
bool has_mixed_items(const std::vector<types::Dim>& shape);

// Whether the three axes of a kernel tell all dims apart: of what an axis takes together all but the first are
// constant.
bool folds(const std::vector<types::Dim>& shape);

// Slices that take each of the equal parts of a value, which nothing else reads, become splits; `count` of them.
Result<ir::Graph> slices_to_splits(const ir::Graph& graph, uint32_t& count);

std::span<const Rule> algebra_rules();
std::span<const Rule> layout_rules();
std::span<const Rule> fold_rules();
std::span<const Rule> product_rules();
std::span<const Rule> behind_product_rules();  // also of what one product of two inputs is followed by
std::span<const Rule> dims_rules();
std::span<const Rule> mixed_dims_rules();

}  // namespace codetta::opt
