// SPDX-License-Identifier: Apache-2.0
// Element types of results: the join with weak literals, and the rule of each op.
#include <fmt/format.h>

#include "ir/bind.hpp"
#include "ir/infer.hpp"
#include "ir/literals.hpp"
#include "types/dtype.hpp"

namespace codetta::ir {
namespace {

using types::OpRule;

// A weak number yields to `dtype` unless it is an integer literal out of an integer type's range.
DType yield_to(DType dtype, const OperandFacts& weak) {
  if (types::is_float(weak.type->dtype)) return types::is_float(dtype) ? dtype : DType::f32;
  if (types::is_float(dtype)) return dtype;
  const DType numeric = types::is_bool(dtype) ? DType::i32 : dtype;
  if (weak.literal == nullptr || weak.literal->kind != LiteralAttr::Kind::Int) return numeric;
  const int64_t value = weak.literal->i;
  if (holds(numeric, value)) return numeric;
  return *types::join(numeric, holds(DType::i32, value) ? DType::i32 : DType::i64);
}

Complaint needs_bool(size_t operand, const OperandFacts& facts, const OperandNames& names, std::string who) {
  return {diag::Code::boolean_expected,
          fmt::format("{} takes booleans but {} is {}", who, names(operand), dtype_name(facts.type->dtype)),
          fmt::format("{} has dtype {}", names(operand), dtype_name(facts.type->dtype)),
          who == "`^`" ? "write x ** y (pow in C++) for a power; `^` is the exclusive or of comparisons"
          : who == "`&`" && types::is_integer(facts.type->dtype)
              ? "compare first, as in `x > 0`; the low 4 bits of an integer are x % 16, those above them x // 16"
              : "compare first, as in `x > 0`, or cast to bool",
          static_cast<int>(operand)};
}

// Integer powers are repeated products, which only a known exponent gives.
MaybeComplaint check_pow(DType dtype, std::span<const OperandFacts> operands, const OperandNames& names) {
  if (types::is_float(dtype)) return std::nullopt;
  const LiteralAttr* exponent = operands[1].literal;
  const bool known = exponent != nullptr && exponent->kind == LiteralAttr::Kind::Int;
  if (known && exponent->i >= 0) return std::nullopt;
  return Complaint{diag::Code::integer_power,
                   known ? fmt::format("an integer cannot be raised to the negative power {}", exponent->i)
                         : fmt::format("the exponent {} of an integer power is not a literal", names(1)),
                   fmt::format("both operands are integers, so the result would be {}", dtype_name(dtype)),
                   "write a non-negative integer literal as exponent, or cast the base to a float", 1};
}

// dropout(x, p, seed): only x takes part in the type.
MaybeComplaint check_dropout(std::span<const OperandFacts> operands, const OperandNames& names) {
  for (size_t i = 1; i < 3; ++i) {
    const TensorType& type = *operands[i].type;
    for (const Dim& dim : type.shape) {
      if (dim == Dim::constant(1)) continue;
      return Complaint{
          diag::Code::operand_kind,
          fmt::format("dropout takes one {}, but {} is a tensor", i == 1 ? "probability" : "seed", names(i)),
          fmt::format("{} is {}", names(i), to_string(type)), "pass a number or a scalar argument",
          static_cast<int>(i)};
    }
  }
  const DType seed = operands[2].type->dtype;
  if (types::is_float(seed) || types::is_bool(seed)) {
    return Complaint{diag::Code::operand_kind, fmt::format("dropout's seed is {}, not an integer", dtype_name(seed)),
                     "the seed keys a counter-based generator", "pass an integer, or cast the seed to i64", 2};
  }
  return std::nullopt;
}

DType weak_default(const OperandFacts& facts) {
  return yield_to(types::is_float(facts.type->dtype) ? DType::f32 : DType::i32, facts);
}

DType as_real(Joined joined) {
  if (types::is_float(joined.dtype)) return joined.dtype;
  return joined.weak ? DType::f64 : DType::f32;
}
DType as_number(Joined joined) {
  if (!types::is_bool(joined.dtype)) return joined.dtype;
  return DType::i32;
}

Inference typed(Attr attr, DType dtype, bool weak, std::vector<Dim> shape, DType compute, bool joins) {
  return Inferred{TensorType{dtype, weak, std::move(shape)}, std::move(attr), compute, joins};
}

Inference infer_select(std::span<const OperandFacts> operands, Attr attr, std::vector<Dim> shape,
                       const OperandNames& names) {
  if (!types::is_bool(operands[0].type->dtype)) {
    Complaint complaint = needs_bool(0, operands[0], names, "where");
    complaint.headline = fmt::format("the condition of where is {}, not bool", dtype_name(operands[0].type->dtype));
    return complaint;
  }
  Joined joined = join_types(operands.subspan(1));
  if (joined.weak) {  // the condition is typed, so numbers written in both branches take the default types
    const DType x = weak_default(operands[1]), y = weak_default(operands[2]);
    joined.dtype = *types::join(x, y);
  }
  return typed(std::move(attr), joined.dtype, false, std::move(shape), joined.dtype, true);
}

Inference infer_reduce(Op op, const OperandFacts& operand, Attr attr, const OperandNames& names) {
  ReduceAttr reduce = *std::get_if<ReduceAttr>(&attr);
  std::vector<Dim> shape;
  if (MaybeComplaint complaint = reduce_shape(*operand.type, reduce, names, shape)) return *complaint;
  const Joined joined{types::compute_dtype(operand.type->dtype), operand.type->weak};
  const bool real = op == Op::reduce_mean || op == Op::reduce_logsumexp;
  const DType dtype = real ? as_real(joined) : as_number(joined);
  return typed(std::move(reduce), dtype, joined.weak, std::move(shape), dtype, false);
}

Inference infer_layout(Op op, std::span<const OperandFacts> operands, Attr attr, const OperandNames& names) {
  std::vector<Dim> shape;
  MaybeComplaint complaint;
  if (op == Op::permute) {
    complaint = permute_shape(*operands[0].type, *std::get_if<PermuteAttr>(&attr), names, shape);
  } else if (op == Op::reshape) {
    complaint = reshape_shape(*operands[0].type, *std::get_if<ReshapeAttr>(&attr), names, shape);
  } else if (op == Op::slice) {
    complaint = slice_shape(*operands[0].type, *std::get_if<SliceAttr>(&attr), names, shape);
  } else if (op == Op::broadcast) {
    complaint = broadcast_shape(*operands[0].type, *std::get_if<ReshapeAttr>(&attr), names, shape);
  } else if (op == Op::split) {
    complaint = split_shape(*operands[0].type, *std::get_if<SplitAttr>(&attr), names, shape);
  } else {
    complaint = join_shape(operands, *std::get_if<JoinAttr>(&attr), names, shape);
  }
  if (complaint) return *complaint;
  // Moving values rounds nothing: equal dtypes stay as stored.
  bool equal = true;
  for (const OperandFacts& operand : operands) {
    equal = equal && operand.type->dtype == operands[0].type->dtype && operand.type->weak == operands[0].type->weak;
  }
  Joined joined{operands[0].type->dtype, operands[0].type->weak};
  if (!equal) joined = join_types(operands);
  return typed(std::move(attr), joined.dtype, joined.weak, std::move(shape), joined.dtype, !joined.weak);
}

Inference infer_matmul(std::span<const OperandFacts> operands, Attr attr, const OperandNames& names) {
  std::vector<Dim> shape;
  if (MaybeComplaint complaint = matmul_shape(operands, names, shape)) return *complaint;
  const DType accumulator = std::get_if<MatmulAttr>(&attr)->accumulator;
  if (MaybeComplaint complaint = check_accumulator(operands[0].type->dtype, operands[1].type->dtype, accumulator))
    return *complaint;
  return typed(std::move(attr), accumulator, false, std::move(shape), accumulator, false);
}

Inference apply_rule(Op op, std::span<const OperandFacts> operands, Attr attr, const OperandNames& names) {
  const types::OpInfo& info = types::op_info(op);
  std::vector<Dim> shape;
  if (info.elementwise() && info.rule != OpRule::index) {
    if (MaybeComplaint complaint = broadcast(operands, names, shape)) return *complaint;
  }
  switch (info.rule) {
    case OpRule::special: {
      const auto* literal = std::get_if<LiteralAttr>(&attr);
      if (literal == nullptr) break;
      const bool is_bool = literal->kind == LiteralAttr::Kind::Bool;
      const DType dtype = is_bool ? DType::boolean : literal->kind == LiteralAttr::Kind::Int ? DType::i64 : DType::f64;
      return typed(std::move(attr), dtype, !is_bool, {}, dtype, false);
    }
    case OpRule::index: {
      const ReshapeAttr& counted = *std::get_if<ReshapeAttr>(&attr);
      shape = counted.shape;
      const size_t from_end = op == Op::col_index ? 1 : op == Op::row_index ? 2 : 3;
      bool plain = shape.size() >= from_end && shape.size() <= static_cast<size_t>(max_rank) &&
                   counted.form == ReshapeForm::Shape;
      for (size_t i = 0; i < shape.size(); ++i)
        plain = plain && (shape.size() - i == from_end || shape[i] == Dim::constant(1));
      if (!plain) {
        return Complaint{diag::Code::graph_node,
                         fmt::format("{} cannot count in shape {}", info.name, types::to_string(shape)),
                         fmt::format("all of its dims are 1 but the one that is number {} from the end", from_end),
                         "give the shape as [m, 1], [1, n] or [batch, 1, 1]", -1};
      }
      return typed(std::move(attr), DType::i64, false, std::move(shape), DType::i64, false);
    }
    case OpRule::arith: {
      const Joined joined = join_types(operands);
      const DType dtype = as_number(joined);
      if (op == Op::pow) {
        if (MaybeComplaint complaint = check_pow(dtype, operands, names)) return *complaint;
      }
      return typed(std::move(attr), dtype, joined.weak, std::move(shape), dtype, !joined.weak);
    }
    case OpRule::real: {
      if (op == Op::dropout) {
        if (MaybeComplaint complaint = check_dropout(operands, names)) return *complaint;
      }
      Joined joined = join_types(op == Op::dropout ? operands.first(1) : operands);
      if (op == Op::dropout && joined.weak) joined = {DType::f32, false};  // it varies by element
      const DType dtype = as_real(joined);
      return typed(std::move(attr), dtype, joined.weak, std::move(shape), dtype, !joined.weak);
    }
    case OpRule::compare: {
      const Joined joined = join_types(operands);
      return typed(std::move(attr), DType::boolean, false, std::move(shape), joined.dtype, !joined.weak);
    }
    case OpRule::logical:
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!types::is_bool(operands[i].type->dtype))
          return needs_bool(i, operands[i], names, fmt::format("`{}`", info.spelling));
      }
      return typed(std::move(attr), DType::boolean, false, std::move(shape), DType::boolean, false);
    case OpRule::select:
      return infer_select(operands, std::move(attr), std::move(shape), names);
    case OpRule::cast: {
      const DType dtype = std::get_if<CastAttr>(&attr)->dtype;
      return typed(std::move(attr), dtype, false, std::move(shape), operands[0].type->dtype, false);
    }
    case OpRule::reduce:
      return infer_reduce(op, operands[0], std::move(attr), names);
    case OpRule::layout:
      return infer_layout(op, operands, std::move(attr), names);
    case OpRule::matmul:
      return infer_matmul(operands, std::move(attr), names);
    case OpRule::indexed:
      return infer_indexed(op, operands, std::move(attr), names);
    case OpRule::control:
      return infer_control(op, operands, std::move(attr), names);
    case OpRule::external:
      return infer_external(op, std::move(attr));
  }
  return Complaint{diag::Code::graph_node, fmt::format("{} has no type rule", info.name),
                   "inputs and literals are added by their own calls", "use add_input or add_literal", -1};
}
}  // namespace

std::optional<DType> default_accumulator(DType a, DType b) {
  if (types::is_bool(a) || types::is_bool(b) || types::is_float(a) != types::is_float(b)) return std::nullopt;
  if (types::is_float(a)) return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
  return types::bits(a) == 8 && types::bits(b) == 8 ? DType::i32 : DType::i64;
}

MaybeComplaint check_accumulator(DType a, DType b, DType accumulator) {
  const std::optional<DType> usual = default_accumulator(a, b);
  if (!usual) {
    return Complaint{
        diag::Code::accumulator_dtype, fmt::format("{} and {} cannot be multiplied", dtype_name(a), dtype_name(b)),
        "a matrix product takes two floats or two integers",
        types::is_bool(a) && types::is_bool(b) ? "cast both, to an integer or to a float"
                                               : "cast one side so that both are floats or both are integers",
        -1};
  }
  const bool wider =
      (*usual == DType::f32 && accumulator == DType::f64) || (*usual == DType::i32 && accumulator == DType::i64);
  if (accumulator == *usual || wider) return std::nullopt;
  std::string allowed(dtype_name(*usual));
  if (*usual == DType::f32) allowed += " or f64";
  if (*usual == DType::i32) allowed += " or i64";
  return Complaint{diag::Code::accumulator_dtype,
                   fmt::format("a product of {} and {} cannot accumulate in {}", dtype_name(a), dtype_name(b),
                               dtype_name(accumulator)),
                   fmt::format("it accumulates in {}", allowed),
                   fmt::format("set the accumulator to {}", dtype_name(*usual)), -1};
}

Joined join_types(std::span<const OperandFacts> operands) {
  bool any_strong = false;
  DType dtype = DType::boolean;
  for (const OperandFacts& operand : operands) {
    if (operand.type->weak) continue;
    dtype = any_strong ? *types::join(dtype, operand.type->dtype) : types::compute_dtype(operand.type->dtype);
    any_strong = true;
  }
  if (!any_strong) {  // weak numbers are i64 or f64
    dtype = operands[0].type->dtype;
    for (const OperandFacts& operand : operands) dtype = *types::join(dtype, operand.type->dtype);
    return {dtype, true};
  }
  for (const OperandFacts& operand : operands) {
    if (operand.type->weak) dtype = yield_to(dtype, operand);
  }
  return {dtype, false};
}

MaybeComplaint check_written(Op op, std::span<const OperandFacts> operands) {
  if (op != Op::dropout || operands[1].literal == nullptr) return std::nullopt;
  const LiteralAttr& p = *operands[1].literal;
  const double value = p.kind == LiteralAttr::Kind::Float ? p.f : static_cast<double>(p.i);
  if (value >= 0 && value <= 1) return std::nullopt;
  return Complaint{diag::Code::operand_kind, fmt::format("dropout's probability is {}", value),
                   "a probability is 0 to 1", "write one, such as 0.1 to drop every tenth element", 1};
}

Inference infer(Op op, std::span<const OperandFacts> operands, Attr attr, const OperandNames& names) {
  Inference result = apply_rule(op, operands, std::move(attr), names);
  const auto* inferred = std::get_if<Inferred>(&result);
  if (inferred == nullptr) return result;
  if (inferred->type.shape.size() > static_cast<size_t>(max_rank)) {
    return Complaint{diag::Code::layout_mismatch,
                     fmt::format("the result of {} has {} dims", types::op_info(op).name, inferred->type.shape.size()),
                     fmt::format("a tensor has at most {}", max_rank), "merge dims with reshape first", -1};
  }
  for (const Dim& dim : inferred->type.shape) {
    if (dim.is_constant() || dim.fault() == types::DimFault::none) continue;
    return Complaint{diag::Code::layout_mismatch,
                     fmt::format("a size of the result of {} has no value", types::op_info(op).name),
                     fmt::format("computing it gives {}", types::to_string(dim.fault())), "use smaller sizes", -1};
  }
  return result;
}

}  // namespace codetta::ir
