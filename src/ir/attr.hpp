// SPDX-License-Identifier: Apache-2.0
// Attributes of operations, shared by untyped functions and typed graphs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "codetta/tensor.hpp"
#include "types/dim.hpp"

namespace codetta::ir {

using types::Dim;

class Graph;
struct Function;
// Immutable and shared; compared and hashed by what they say, never by address.
using GraphRef = std::shared_ptr<const Graph>;
using FunctionRef = std::shared_ptr<const Function>;

// dtype as stored or computed. weak: a literal, or a value made of literals only; it yields to the types it meets.
struct TensorType {
  DType dtype = DType::f32;
  bool weak = false;
  std::vector<Dim> shape;  // rank 0: scalar
  bool operator==(const TensorType&) const = default;
};
std::string to_string(const TensorType& type);  // "f32[m, n]"

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
// The shape of the result. Untyped functions may leave one size open with -1 (Dim::constant(-1)): reshape infers it,
// broadcast keeps the operand's size. They may also say which dims go or come, where the operand's sizes aren't known
// yet: Squeeze drops dims of size 1 (counted in the operand), Unsqueeze adds some (counted in the result).
enum class ReshapeForm : uint8_t { Shape, Squeeze, Unsqueeze };
struct ReshapeAttr {
  std::vector<Dim> shape;  // Shape
  ReshapeForm form = ReshapeForm::Shape;
  std::vector<int32_t> dims = {};  // Squeeze, Unsqueeze
  bool operator==(const ReshapeAttr&) const = default;
};
// Elements start, start + step, ...; `count` of them. Untyped functions say where to stop instead, and there bounds
// below 0 (a Dim whose upper bound is 0 or less, but not the constant 0) count from the end.
enum class SliceBound : uint8_t { Count, Stop, Open };
struct SliceAttr {
  int32_t dim = -1;
  Dim start;
  Dim count;         // Count: of elements; Stop: the index behind the last one; Open: unused, up to the end
  int64_t step = 1;  // >= 1
  SliceBound bound = SliceBound::Count;
  bool checked = false;  // a bound comes from a value or cannot be shown to lie inside: a run checks it; the step is 1
  bool operator==(const SliceAttr&) const = default;
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

// take, gather
struct TakeAttr {
  int32_t dim = 0;
  bool operator==(const TakeAttr&) const = default;
};
struct IndexPutAttr {
  int32_t dim = 0;
  bool accumulate = false;
  bool operator==(const IndexPutAttr&) const = default;
};
// What becomes of a place and the values that are put there; None: the last one in row-major order stays.
enum class ScatterReduce : uint8_t { None, Sum, Max, Min };
struct ScatterAttr {
  int32_t dim = 0;
  ScatterReduce reduce = ScatterReduce::None;
  bool operator==(const ScatterAttr&) const = default;
};
// Graphs over the operands behind the predicate: their inputs have these types, in order, and their symbols are those
// of the graph around them. Both have the same number of outputs with equal types. Untyped functions have the functions
// instead, whose parameters have no types.
struct CondAttr {
  GraphRef then, otherwise;
  FunctionRef then_function = nullptr, otherwise_function = nullptr;
  bool operator==(const CondAttr& o) const;
};
// Graphs over the operands, which are the carried values: `condition` has one output, one boolean; `body` as many as
// there are operands, with their types. The results are the carried values once the condition is false.
struct WhileAttr {
  GraphRef condition, body;
  FunctionRef condition_function = nullptr, body_function = nullptr;
  bool operator==(const WhileAttr& o) const;
};
// A further result (1, 2, ...) of an operation that has several; the operation itself stands for result 0.
struct ResultAttr {
  int32_t index = 1;
  bool operator==(const ResultAttr&) const = default;
};
// Out: the caller allocates the results and passes them; Alloc: the function returns fresh tensors.
enum class ExternForm : uint8_t { Out, Alloc };
struct ExternAttr {
  std::string symbol;  // an identifier, and no keyword of C or C++
  ExternForm form = ExternForm::Out;
  std::vector<TensorType> results;  // one or more
  bool operator==(const ExternAttr&) const = default;
};
struct UserKernelAttr {
  std::string name;  // of the kernel definition; as ExternAttr::symbol
  std::vector<TensorType> results;
  bool operator==(const UserKernelAttr&) const = default;
};

// The symbol that a value gives its value to: a size that is known when the program has computed it.
struct SizeAttr {
  std::string symbol;
  bool operator==(const SizeAttr&) const = default;
};

// Which of the program's devices has the value: 0 is the one that a program without such an attribute runs on.
inline constexpr uint32_t max_devices = 64;
struct DeviceAttr {
  uint32_t device = 0;  // below max_devices
  bool operator==(const DeviceAttr&) const = default;
};

using Attr = std::variant<std::monostate, LiteralAttr, CastAttr, ReduceAttr, PermuteAttr, ReshapeAttr, SplitAttr,
                          JoinAttr, MatmulAttr, InputAttr, SliceAttr, TakeAttr, IndexPutAttr, ScatterAttr, CondAttr,
                          WhileAttr, ResultAttr, ExternAttr, UserKernelAttr, SizeAttr, DeviceAttr>;

// The types of all results that the attribute of cond, while_loop, call_extern or user_kernel gives to its op; empty
// for every other attribute, and for functions that aren't typed yet.
std::vector<TensorType> result_types(const Attr& attr);
// The symbols that an attribute names in sizes, once each; those in graphs and in functions are theirs.
std::vector<std::string> symbols_of(const Attr& attr);

}  // namespace codetta::ir
