// SPDX-License-Identifier: Apache-2.0
// Attributes of operations, shared by untyped functions and typed graphs.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "codetta/tensor.hpp"
#include "types/dim.hpp"

namespace codetta::ir {

using types::Dim;

// A number written in the text. Weak: it takes the type of what it meets. Kept as written so that printing is exact.
struct LiteralAttr {
  enum class Kind : uint8_t { Bool, Int, Float };
  Kind kind = Kind::Float;
  int64_t i = 0;                                // Bool, Int
  double f = 0;                                 // Float
  bool operator==(const LiteralAttr& o) const;  // floats by bits, so that NaN == NaN and 0.0 != -0.0
};
struct CastAttr {
  DType dtype = DType::f32;
  bool operator==(const CastAttr&) const = default;
};
enum class ReduceAxis : uint8_t { Row, Column, All, Dims };
// Untyped functions may say Row, Column or All; binding resolves them to Dims (sorted, non-negative, relative to the
// operand).
struct ReduceAttr {
  ReduceAxis axis = ReduceAxis::All;
  std::vector<int32_t> dims;
  bool operator==(const ReduceAttr&) const = default;
};
struct PermuteAttr {
  std::vector<int32_t> order;  // result dim i is operand dim order[i]
  bool operator==(const PermuteAttr&) const = default;
};
// -1 (Dim::constant(-1)) once at most in untyped functions: inferred.
struct ReshapeAttr {
  std::vector<Dim> shape;
  bool operator==(const ReshapeAttr&) const = default;
};
struct SplitAttr {
  int32_t ways = 2;
  int32_t part = 0;
  int32_t dim = -1;
  bool operator==(const SplitAttr&) const = default;
};
struct JoinAttr {
  int32_t dim = -1;
  bool interleave = false;
  bool operator==(const JoinAttr&) const = default;
};
struct MatmulAttr {
  DType accumulator = DType::f32;  // untyped functions: ignored, chosen at binding
  bool operator==(const MatmulAttr&) const = default;
};
// input: which parameter.
struct InputAttr {
  uint32_t parameter = 0;
  bool operator==(const InputAttr&) const = default;
};

using Attr = std::variant<std::monostate, LiteralAttr, CastAttr, ReduceAttr, PermuteAttr, ReshapeAttr, SplitAttr,
                          JoinAttr, MatmulAttr, InputAttr>;

}  // namespace codetta::ir
