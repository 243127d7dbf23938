// SPDX-License-Identifier: Apache-2.0
// Type inference of one node: what ops.def's rules mean. The builder, the verifier and binding all ask here.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <variant>

#include "ir/graph.hpp"

namespace codetta::ir {

// What a rule may look at.
struct OperandFacts {
  const TensorType* type = nullptr;
  const LiteralAttr* literal = nullptr;  // of a literal node
  const Attr* attr = nullptr;            // of the node
};
// How a message calls operand i: "bias", "the accumulator".
using OperandNames = std::function<std::string(size_t)>;

// A rule's objection, without a place; `operand` is the one to point at (-1: the whole expression).
struct Complaint {
  diag::Code code = diag::Code::internal;
  std::string headline, reason, help;
  int operand = -1;
};

struct Inferred {
  TensorType type;
  Attr attr;                   // normalized
  DType compute = DType::f32;  // what operand values are converted to before the op works on them
  bool joins = false;          // operands take part in a join: weak ones become `compute`
};
using Inference = std::variant<Inferred, Complaint>;

Inference infer(Op op, std::span<const OperandFacts> operands, Attr attr, const OperandNames& names);

// What is a mistake where it is written, and has a meaning where a pass computes it: a probability beyond 1.
std::optional<Complaint> check_written(Op op, std::span<const OperandFacts> operands);

// The dtype in which an op over these operands computes; a weak literal that doesn't fit widens it.
struct Joined {
  DType dtype = DType::f32;
  bool weak = false;
};
Joined join_types(std::span<const OperandFacts> operands);

// Shapes (infer_shape.cpp). `out` receives the shape.
using MaybeComplaint = std::optional<Complaint>;
MaybeComplaint broadcast(std::span<const OperandFacts> operands, const OperandNames& names, std::vector<Dim>& out);
MaybeComplaint reduce_shape(const TensorType& operand, ReduceAttr& attr, const OperandNames& names,
                            std::vector<Dim>& out);
MaybeComplaint permute_shape(const TensorType& operand, PermuteAttr& attr, const OperandNames& names,
                             std::vector<Dim>& out);
MaybeComplaint reshape_shape(const TensorType& operand, ReshapeAttr& attr, const OperandNames& names,
                             std::vector<Dim>& out);
MaybeComplaint split_shape(const TensorType& operand, SplitAttr& attr, const OperandNames& names,
                           std::vector<Dim>& out);
MaybeComplaint join_shape(std::span<const OperandFacts> operands, JoinAttr& attr, const OperandNames& names,
                          std::vector<Dim>& out);
MaybeComplaint slice_shape(const TensorType& operand, SliceAttr& attr, const OperandNames& names,
                           std::vector<Dim>& out);
MaybeComplaint broadcast_shape(const TensorType& operand, ReshapeAttr& attr, const OperandNames& names,
                               std::vector<Dim>& out);
MaybeComplaint matmul_shape(std::span<const OperandFacts> operands, const OperandNames& names, std::vector<Dim>& out);

// Ops that only programs have (infer_program.cpp).
Inference infer_indexed(Op op, std::span<const OperandFacts> operands, Attr attr, const OperandNames& names);
Inference infer_control(Op op, std::span<const OperandFacts> operands, Attr attr, const OperandNames& names);
Inference infer_external(Op op, Attr attr);

// Why `name` cannot be the name of an extern function or a user kernel; "" when it can: an identifier, no keyword of C,
// C++ or Python, and short enough.
std::string public_name_defect(std::string_view name);

// A dim index that may count from the end; nullopt when it is out of range.
std::optional<int32_t> normalized_dim(int32_t dim, size_t rank);
MaybeComplaint no_such_dim(std::string_view who, int32_t dim, const TensorType& type, const OperandNames& names,
                           diag::Code code);

// May a product of these accumulate in that type? Floats in f32 (f64 where one is f64) or f64; 8-bit integers in i32 or
// i64, wider ones in i64. The default is default_accumulator (bind.hpp).
MaybeComplaint check_accumulator(DType a, DType b, DType accumulator);

std::string count_dims(size_t rank);  // "1 dim", "2 dims"
// "columns", "rows" or "batch items" of a dim counted from the last; "elements in dim 1" where a value has more than
// three dims.
std::string dim_noun(size_t rank, size_t from_end, bool singular = false);

}  // namespace codetta::ir
