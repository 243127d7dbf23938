// SPDX-License-Identifier: Apache-2.0
// Numbers and names that a caller passes to a program.
#pragma once

#include <vector>

#include "codetta/program.hpp"
#include "device/cpu/abi.h"
#include "driver/package_entry.hpp"
#include "ir/bind.hpp"
#include "package/package.hpp"

namespace codetta::driver {

// A bound number in the type that the program declares for it: rounded to a float, exact in an integer. `value` holds
// no tensor. Errors: E0221 (a truth value for a number or the reverse, a fraction for an integer, out of range).
Result<codetta::cpu::ScalarValue> declared_number(const package::Buffer& buffer, const ArgumentValue& value);

// The numbers among arguments whose names and forms are checked. Errors: those of declared_number().
Result<void> check_numbers(const ir::Graph& graph, const std::vector<NamedArgument>& arguments);

// Errors: E0209, names that are neither a parameter nor an output.
Result<void> check_known(const ir::Graph& graph, const std::vector<NamedArgument>& arguments);

std::vector<ir::BoundArgument> bound_arguments(const std::vector<NamedArgument>& arguments);

// The sizes that the types of the parameters have, in the order in which they appear.
std::vector<std::string> symbols_of_types(const ir::Graph& graph);

// Hints are for symbols of the program's types, one each or, where kernels are made for several sizes, different ones.
// Errors: E0209, E0210, E0602 (negative).
enum class Hinted : uint8_t { Once, ForSeveralSizes };
Result<void> check_hints(const ir::Graph& graph, const SizeHints& hints, Hinted hinted = Hinted::Once);
// Of several programs: each hint is for a symbol that one of them has at least.
Result<void> check_hints(const std::vector<Program>& programs, const SizeHints& hints, Hinted hinted = Hinted::Once);
// The same of sizes that are no hints: messages say so.
Result<void> check_sizes(const ir::Graph& graph, const SizeHints& sizes);
// A size for each symbol of the program's types: `sizes`, and for those that it lacks `otherwise`. Errors: as
// check_sizes.
Result<SizeHints> all_sizes(const ir::Graph& graph, SizeHints sizes, int64_t otherwise);

// Program::missing.
Result<std::vector<ProgramInput>> missing_inputs(const ir::Graph& graph, const std::vector<NamedArgument>& given,
                                                 const SizeHints& sizes, int64_t otherwise);

// Row-major integers become indices of a dim of this size; floats and truth values stay.
void wrap_integers(const TensorView& view, int64_t size, int64_t least = 0);

// What the symbols are, and the outputs then. Errors: E0208 to E0210, E0221.
Result<ProgramShapes> shapes_of(const ir::Graph& graph, const std::vector<NamedArgument>& arguments);

}  // namespace codetta::driver
