// SPDX-License-Identifier: Apache-2.0
// What a program's function takes, in order; the same for host text, header and manifest.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "emit/host/cpp.hpp"
#include "emit/host/text.hpp"

namespace codetta::emit::host {

struct Signature {
  std::vector<uint32_t> arguments;   // buffers: parameters in declared order, then outputs
  std::vector<std::string> symbols;  // sizes that the caller passes, in the order in which they first appear
  std::vector<std::pair<std::string, int64_t>> fixed;  // sizes that the shapes of constants give
};

Signature signature_of(const Program& program);

// Sizes that are known only when a call has computed them: read from values or from results of functions.
std::vector<std::string> computed_sizes(const package::Package& package);
// Those of branches and loops among them.
std::vector<std::string> computed_inside(const package::Package& package);
// Whether a size is known only when temporaries have been placed: computed, or read from a parameter behind them.
bool has_late_sizes(const package::Package& package);

// Dims of outputs whose sizes a call computes, in the order in which they are told.
struct ComputedDim {
  uint32_t buffer = 0;
  size_t dim = 0;
  types::Dim size;
};
std::vector<ComputedDim> computed_dims(const package::Package& package);
inline constexpr size_t max_computed_dims = 64;  // ComputedSizes of device/host/support.h

// What the variable of a symbol is before the steps, as C++: the size that constants fix, so that of tensors which do
// not agree with it those of the caller's are told, or none.
std::string first_number(const Program& program, std::string_view symbol);

// By buffer; null when it is none.
const Constant* constant_of(const Program& program, uint32_t buffer);
// The step of the main list that makes the buffer as a slice of another one; null: it is none.
const package::Reinterpret* slice_step(const package::Package& package, uint32_t buffer);

// "f32[batch, 64]".
std::string type_text(const package::Buffer& buffer);

inline std::string function_name(const Library& library, const Program& program) {
  return library.name + "_" + program.function;
}

// The table that a program belongs to; null when its function has no other.
const SizeTable* table_of(const Library& library, size_t program);
// Of each function the first program: what a caller sees of it is the same for all.
std::vector<size_t> functions_of(const Library& library);

}  // namespace codetta::emit::host
