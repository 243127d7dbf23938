// SPDX-License-Identifier: Apache-2.0
// The DefineSymbol and Check steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "codetta/extern.h"
#include "package/package.hpp"

namespace codetta::runtime {

using Symbols = std::map<std::string, int64_t>;

// How two views lie to each other, with their names, for messages: forms, strides and the distance in bytes, since
// addresses differ from run to run.
std::string places_of(const std::string& first, const TensorView& x, const std::string& second, const TensorView& y);

// The value that a Size, Stride or Expression names, before the division. Errors: E0610 where an expression has none.
Result<int64_t> symbol_source(const package::Package& package, const package::DefineSymbol& step,
                              const TensorView& view, const Symbols& symbols);
// Divides `source`, which came from `view`, and defines the symbol, in a node of `spare` where there is one. Errors:
// E0610 when the division leaves a remainder, the value is negative, or the symbol already has another one.
Result<void> define_symbol(const package::Package& package, const package::DefineSymbol& step, const TensorView& view,
                           int64_t source, Symbols& symbols, std::vector<Symbols::node_type>* spare = nullptr);
// Both, of a Size, Stride or Expression.
Result<void> define_symbol(const package::Package& package, const package::DefineSymbol& step, const TensorView& view,
                           Symbols& symbols);
// Output `number` of a call of `whose` function ("scale", "a function"): its size or stride of a dim that a
// DefineSymbol names, and its view as what the program declares. Errors: E0610; TensorView::make's.
Result<int64_t> size_of_output(const package::DefineSymbol& step, const CodettaTensor& output,
                               const std::string& whose);
Result<TensorView> view_of_output(const package::Buffer& buffer, const CodettaTensor& output, uint32_t number,
                                  const std::string& whose, const Symbols& symbols);
// Errors: E0610 guard fails, E0613 forbidden overlap.
Result<void> check_guard(const package::Package& package, const package::Guard& guard,
                         const std::vector<TensorView>& tensors, const Symbols& symbols);
// E0651: a loop has made as many passes as it may. `place`: "step 3 (while): ", or nothing.
Error endless_loop(int64_t passes, const std::string& place, const std::string& predicate);
// An output may be written, and its elements lie apart from each other. Errors: E0213, E0613.
Result<void> check_output(const std::string& name, const TensorView& view);
// The same of all outputs, and what is donated may be written.
Result<void> check_outputs(const package::Package& package, const std::vector<TensorView>& tensors);

}  // namespace codetta::runtime
