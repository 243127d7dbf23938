// SPDX-License-Identifier: Apache-2.0
// Element-wise ops and reductions on scalars in plain C++: what the tests compare emitted code with.
#pragma once

#include <vector>

#include "package/epilogue_program.hpp"
#include "types/convert.hpp"

namespace codetta::emit {

// `type` is what the op computes in (for comparisons: of its operands).
types::Scalar scalar_op(types::Op op, DType type, const std::vector<types::Scalar>& in);
// The conversion of a store: floats to integers round to nearest even.
types::Scalar store_as(const types::Scalar& value, DType dtype);
// Whether `got`, read from an output, is within tolerance * max(1, |exact|) plus a rounding of its type of `want`.
bool close(const types::Scalar& got, const types::Scalar& exact, const types::Scalar& want, double tolerance);
uint32_t philox_word(uint64_t seed, uint64_t index);

class ScalarReducer {
 public:
  ScalarReducer(package::ReduceKind kind, DType type);
  void add(const types::Scalar& value);
  // A partial of a tile; `second` is the sum of a logsumexp, or of exponents.
  void add_partial(const types::Scalar& first, const types::Scalar& second);
  [[nodiscard]] types::Scalar value() const;

 private:
  package::ReduceKind kind_;
  DType type_;
  double sum_ = 0, top_ = 0;
  uint64_t bits_ = 0;  // integers
};

}  // namespace codetta::emit
