// SPDX-License-Identifier: Apache-2.0
// What a call of each function becomes, and what its non-tensor arguments may say.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "frontend/build.hpp"
#include "types/dtype.hpp"

namespace codetta::frontend {

using Kind = CallArgument::Kind;
using diag::Span;
using types::Op;

CallProblem dim_problem(size_t argument, int64_t dim) {
  return {argument, fmt::format("{} is not a dimension", dim),
          fmt::format("tensors have at most {} dimensions", max_rank),
          "count from 0, or from -1 for the last dimension"};
}

namespace {

using Outcome = CallOutcome;

constexpr int64_t max_parts = 1024;

Outcome emit_operands(FunctionBuilder& builder, const FunctionInfo& info, const std::vector<CallArgument>& arguments,
                      Span span) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < info.parameter_count; ++i) {
    operands.push_back(arguments[i].kind == Kind::Value ? arguments[i].value
                                                        : builder.real(info.parameters[i].number, span));
  }
  return std::vector{builder.op(info.op, std::move(operands), {}, span)};
}

Outcome emit_approximate(FunctionBuilder& builder, const FunctionInfo& info, const std::vector<CallArgument>& arguments,
                         Span span) {
  const std::string_view form = arguments[1].kind == Kind::Text ? std::string_view(arguments[1].text) : "none";
  if (form != "none" && form != "tanh") {
    return CallProblem{1, fmt::format("approximate=\"{}\" is not known", form.substr(0, 40)),
                       "the forms are \"none\" (exact, by erf) and \"tanh\"",
                       "write approximate=\"tanh\" or leave it out"};
  }
  const Op op = form == "none" ? info.op : static_cast<Op>(static_cast<uint8_t>(info.op) + 1);
  return std::vector{builder.op(op, {arguments[0].value}, {}, span)};
}

Outcome emit_clamp(FunctionBuilder& builder, const FunctionInfo& info, const std::vector<CallArgument>& arguments,
                   Span span) {
  const ValueId x = arguments[0].value;
  std::vector<ValueId> bounds;
  for (size_t i = 1; i < info.parameter_count; ++i) {
    const FunctionParameter& parameter = info.parameters[i];
    if (arguments[i].kind == Kind::Value) {
      bounds.push_back(arguments[i].value);
    } else {
      bounds.push_back(parameter.kind == ParameterKind::Value ? builder.real(parameter.number, span) : ValueId());
    }
  }
  if (!bounds[0].valid() && !bounds[1].valid()) {
    return CallProblem{0, "clamp has neither min nor max", "without a bound it is the value itself",
                       "write clamp(x, min=0.0), clamp(x, max=6.0) or clamp(x, 0.0, 6.0)"};
  }
  if (!bounds[0].valid()) return std::vector{builder.op(Op::minimum, {x, bounds[1]}, {}, span)};
  if (!bounds[1].valid()) return std::vector{builder.op(Op::maximum, {x, bounds[0]}, {}, span)};
  return std::vector{builder.op(Op::clamp, {x, bounds[0], bounds[1]}, {}, span)};
}

Outcome emit_reduce(FunctionBuilder& builder, const FunctionInfo& info, const std::vector<CallArgument>& arguments,
                    Span span) {
  const CallArgument& dims = arguments[1];
  const CallArgument& axis = arguments[2];
  ir::ReduceAttr attr;
  if (axis.kind == Kind::Text) {
    if (dims.kind == Kind::Integers) {
      return CallProblem{2, "both dim and axis are given", "they say the same thing in two ways", "keep one of them"};
    }
    if (axis.text == "row") {
      attr.axis = ir::ReduceAxis::Row;
    } else if (axis.text == "column") {
      attr.axis = ir::ReduceAxis::Column;
    } else if (axis.text != "all") {
      return CallProblem{2, fmt::format("axis \"{}\" is not known", axis.text.substr(0, 40)),
                         "the axes are \"row\" (within each row, over N), \"column\" (over M) and \"all\"",
                         "write axis=\"row\", axis=\"column\" or axis=\"all\""};
    }
  } else if (dims.kind == Kind::Integers) {
    attr.axis = ir::ReduceAxis::Dims;
    if (dims.integers.empty()) {
      return CallProblem{1, "dim lists no dimension", "nothing would be reduced", "name a dimension, or leave dim out"};
    }
    std::set<int64_t> seen;
    for (const int64_t dim : dims.integers) {
      if (!fits_dim(dim)) return dim_problem(1, dim);
      if (!seen.insert(dim).second) {
        return CallProblem{1, fmt::format("dimension {} is listed twice", dim), "a dimension is reduced once",
                           "list each dimension once"};
      }
      attr.dims.push_back(static_cast<int32_t>(dim));
    }
    std::sort(attr.dims.begin(), attr.dims.end());
  }
  const ValueId reduced = builder.op(info.op, {arguments[0].value}, attr, span);
  const bool keep = arguments.size() < 4 || arguments[3].kind != Kind::Flag || arguments[3].flag;
  if (keep) return std::vector{reduced};
  ir::ReshapeAttr dropped;  // of everything, a scalar is left
  if (attr.axis != ir::ReduceAxis::All) {
    dropped.form = ir::ReshapeForm::Squeeze;
    dropped.dims =
        attr.axis == ir::ReduceAxis::Dims ? attr.dims : std::vector{attr.axis == ir::ReduceAxis::Row ? -1 : -2};
  }
  return std::vector{builder.op(Op::reshape, {reduced}, std::move(dropped), span)};
}

Outcome emit_permute(FunctionBuilder& builder, const std::vector<CallArgument>& arguments, Span span) {
  const std::vector<int64_t>& indices = arguments[1].integers;
  const auto rank = static_cast<int64_t>(indices.size());
  ir::PermuteAttr attr;
  std::set<int64_t> seen;
  for (const int64_t index : indices) {
    const int64_t dim = index < 0 ? index + rank : index;
    if (dim < 0 || dim >= rank || !seen.insert(dim).second) {
      return CallProblem{1, "indices are not a permutation",
                         fmt::format("{} {}", index, dim < 0 || dim >= rank ? "is out of range" : "is there twice"),
                         fmt::format("list each of 0 to {} once", rank - 1)};
    }
    attr.order.push_back(static_cast<int32_t>(dim));
  }
  if (rank == 0 || rank > max_rank) {
    return CallProblem{1, fmt::format("indices list {} dimensions", rank),
                       fmt::format("tensors that can be permuted have 1 to {}", max_rank), "list each dimension once"};
  }
  return std::vector{builder.op(Op::permute, {arguments[0].value}, std::move(attr), span)};
}

Outcome emit_reshape(FunctionBuilder& builder, const std::vector<CallArgument>& arguments, Span span) {
  ir::ReshapeAttr attr{arguments[1].shape};
  if (attr.shape.size() > static_cast<size_t>(max_rank)) {
    return CallProblem{1, fmt::format("new_shape has {} dimensions", attr.shape.size()),
                       fmt::format("tensors have at most {}", max_rank), "merge dimensions"};
  }
  bool inferred = false;
  for (const ir::Dim& size : attr.shape) {
    const std::optional<int64_t> constant = size.as_constant();
    if (!constant || *constant >= 0) continue;
    if (*constant < -1 || inferred) {
      return CallProblem{1,
                         *constant < -1 ? fmt::format("{} is not a size", *constant) : "new_shape has two sizes of -1",
                         "one size may be -1: it is found from the others", "write the sizes out"};
    }
    inferred = true;
  }
  return std::vector{builder.op(Op::reshape, {arguments[0].value}, std::move(attr), span)};
}

Outcome emit_split(FunctionBuilder& builder, const FunctionInfo& info, const std::vector<CallArgument>& arguments,
                   Span span) {
  const int64_t ways = arguments[1].integers[0];
  const int64_t dim =
      arguments[2].kind == Kind::Integers ? arguments[2].integers[0] : static_cast<int64_t>(info.parameters[2].number);
  if (ways < 2 || ways > max_parts) {
    return CallProblem{1, fmt::format("a tensor can not be split into {} parts", ways),
                       fmt::format("the number of parts is 2 to {}", max_parts), "write split(x, 2)"};
  }
  if (!fits_dim(dim)) return dim_problem(2, dim);
  std::vector<ValueId> parts;
  for (int32_t part = 0; part < ways; ++part) {
    parts.push_back(builder.op(Op::split, {arguments[0].value},
                               ir::SplitAttr{static_cast<int32_t>(ways), part, static_cast<int32_t>(dim)}, span));
  }
  return parts;
}

Outcome emit_join(FunctionBuilder& builder, const FunctionInfo& info, const std::vector<CallArgument>& arguments,
                  Span span) {
  const size_t values = arguments.size() - (info.parameter_count - 1);
  const CallArgument& dim_argument = arguments[values];
  const int64_t dim =
      dim_argument.kind == Kind::Integers ? dim_argument.integers[0] : static_cast<int64_t>(info.parameters[1].number);
  if (!fits_dim(dim)) return dim_problem(values, dim);
  if (values > static_cast<size_t>(max_parts)) {
    return CallProblem{0, fmt::format("{} parts are too many to join", values),
                       fmt::format("at most {} are", max_parts), "join groups of parts first"};
  }
  std::vector<ValueId> operands;
  for (size_t i = 0; i < values; ++i) operands.push_back(arguments[i].value);
  const bool interleave = arguments[values + 1].flag;
  return std::vector{
      builder.op(Op::join, std::move(operands), ir::JoinAttr{static_cast<int32_t>(dim), interleave}, span)};
}

}  // namespace

Outcome emit_call(FunctionBuilder& builder, const FunctionInfo& info, const std::vector<CallArgument>& arguments,
                  Span span) {
  const auto first = [&] { return arguments[0].value; };
  for (size_t i = 0; i < arguments.size(); ++i) {  // casts make enums of anything
    if (arguments[i].kind != Kind::DType || types::is_valid(arguments[i].dtype)) continue;
    return CallProblem{i, fmt::format("element type number {} does not exist", static_cast<int>(arguments[i].dtype)),
                       fmt::format("they are numbered 0 to {}", dtype_count - 1),
                       "pass one of the enum codetta::DType"};
  }
  if (info.program_only()) return emit_program_call(builder, info, arguments, span);
  switch (info.lowering) {
    case Lowering::Operands:
      return emit_operands(builder, info, arguments, span);
    case Lowering::Identity:
      return std::vector{first()};
    case Lowering::Approximate:
      return emit_approximate(builder, info, arguments, span);
    case Lowering::Clamp:
      return emit_clamp(builder, info, arguments, span);
    case Lowering::Relu6: {
      // Integers: they keep the type of an integer.
      const ValueId low = builder.literal({ir::LiteralAttr::Kind::Int, 0, 0}, span);
      const ValueId high = builder.literal({ir::LiteralAttr::Kind::Int, 6, 0}, span);
      return std::vector{builder.op(Op::clamp, {first(), low, high}, {}, span)};
    }
    case Lowering::Cast:
      return std::vector{builder.op(Op::cast, {first()}, ir::CastAttr{arguments[1].dtype}, span)};
    case Lowering::Reduce:
      return emit_reduce(builder, info, arguments, span);
    case Lowering::Permute:
      return emit_permute(builder, arguments, span);
    case Lowering::Reshape:
      return emit_reshape(builder, arguments, span);
    case Lowering::Split:
      return emit_split(builder, info, arguments, span);
    case Lowering::Join:
      return emit_join(builder, info, arguments, span);
    default:
      break;
  }
  return CallProblem{0, fmt::format("{} is not in this version", info.name), "", std::string(info.doc)};
}

}  // namespace codetta::frontend
