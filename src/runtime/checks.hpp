// SPDX-License-Identifier: Apache-2.0
// The DefineSymbol and Check steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "package/package.hpp"

namespace codetta::runtime {

using Symbols = std::map<std::string, int64_t>;

// Errors: E0610 when the symbol already has another value.
Result<void> define_symbol(const package::Package& package, const package::DefineSymbol& step, const TensorView& view,
                           Symbols& symbols);
// Errors: E0610 guard fails, E0613 forbidden overlap.
Result<void> check_guard(const package::Package& package, const package::Guard& guard,
                         const std::vector<TensorView>& tensors, const Symbols& symbols);
// Elements of an output lie apart from each other. Errors: E0613.
Result<void> check_outputs(const package::Package& package, const std::vector<TensorView>& tensors);

}  // namespace codetta::runtime
