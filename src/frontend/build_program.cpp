// SPDX-License-Identifier: Apache-2.0
// What a call becomes of the functions that only programs may call. Composites are made of primitive operations here,
// so that everything behind the front end knows those alone.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/build.hpp"

namespace codetta::frontend {

using Kind = CallArgument::Kind;
using diag::Span;
using types::Op;

namespace {

using Values = std::vector<ValueId>;
using Arguments = std::vector<CallArgument>;

constexpr size_t max_joined = 1024;

// Operations of one call; all have its place.
struct Emitter {
  FunctionBuilder& builder;
  Span span;
  ValueId op(Op op, std::vector<ValueId> operands, ir::Attr attr = {}) {
    return builder.op(op, std::move(operands), std::move(attr), span);
  }
  ValueId real(double value) { return builder.real(value, span); }
  ValueId reduce(Op reduction, ValueId x, int64_t dim) {
    return op(reduction, {x}, ir::ReduceAttr{ir::ReduceAxis::Dims, {static_cast<int32_t>(dim)}});
  }
};

// An integer argument, or the standard one of its parameter.
int64_t integer_of(const FunctionInfo& info, const Arguments& arguments, size_t i) {
  return arguments[i].kind == Kind::Integers ? arguments[i].integers[0]
                                             : static_cast<int64_t>(info.parameters[i].number);
}

std::vector<int32_t> narrow_dims(const std::vector<int64_t>& dims) { return {dims.begin(), dims.end()}; }

CallOutcome emit_transpose(Emitter emit, const FunctionInfo& info, const Arguments& arguments) {
  const int rank = emit.builder.rank(arguments[0].value);
  if (rank < 2) {
    return CallProblem{0, "only tensors of two or more dimensions can be transposed",
                       rank < 0 ? "the number of dimensions is not known here" : fmt::format("this one has {}", rank),
                       "write permute(x, indices=(1, 0))"};
  }
  ir::PermuteAttr attr;
  for (int32_t i = 0; i < rank; ++i) attr.order.push_back(i);
  size_t swapped[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t dim = integer_of(info, arguments, i + 1);
    if (dim < -rank || dim >= rank) {
      return CallProblem{i + 1, fmt::format("{} is not a dimension", dim), fmt::format("the tensor has {}", rank),
                         fmt::format("use one from {} to {}", -rank, rank - 1)};
    }
    swapped[i] = static_cast<size_t>(dim < 0 ? dim + rank : dim);
  }
  std::swap(attr.order[swapped[0]], attr.order[swapped[1]]);
  return Values{emit.op(Op::permute, {arguments[0].value}, std::move(attr))};
}

CallOutcome emit_concat(Emitter emit, const FunctionInfo& info, const Arguments& arguments) {
  const size_t parts = arguments.size() - 1;
  const CallArgument& dim_argument = arguments[parts];
  const int64_t dim =
      dim_argument.kind == Kind::Integers ? dim_argument.integers[0] : static_cast<int64_t>(info.parameters[1].number);
  if (!fits_dim(dim)) return dim_problem(parts, dim);
  if (parts > max_joined) {
    return CallProblem{0, fmt::format("{} parts are too many to join", parts),
                       fmt::format("at most {} are", max_joined), "join groups of parts first"};
  }
  std::vector<ValueId> operands;
  for (size_t i = 0; i < parts; ++i) operands.push_back(arguments[i].value);
  return Values{emit.op(Op::join, std::move(operands), ir::JoinAttr{static_cast<int32_t>(dim), false})};
}

CallOutcome emit_squeeze(Emitter emit, const FunctionInfo& info, const Arguments& arguments) {
  for (const int64_t dim : arguments[1].integers) {
    if (!fits_dim(dim)) return dim_problem(1, dim);
  }
  if (arguments[1].integers.empty() || arguments[1].integers.size() > static_cast<size_t>(max_rank)) {
    return CallProblem{1, fmt::format("dim lists {} dimensions", arguments[1].integers.size()),
                       fmt::format("it names 1 to {}", max_rank), fmt::format("write {}(x, 0)", info.name)};
  }
  ir::ReshapeAttr attr;
  attr.form = info.lowering == Lowering::Squeeze ? ir::ReshapeForm::Squeeze : ir::ReshapeForm::Unsqueeze;
  attr.dims = narrow_dims(arguments[1].integers);
  return Values{emit.op(Op::reshape, {arguments[0].value}, std::move(attr))};
}

// The sizes that arguments [first, end) list, or what is wrong with them.
std::variant<std::vector<ir::Dim>, CallProblem> sizes_of(const Arguments& arguments, size_t first, size_t end,
                                                         int64_t least) {
  std::vector<ir::Dim> shape;
  for (size_t i = first; i < end; ++i) {
    for (const ir::Dim& size : arguments[i].shape) {
      if (const auto constant = size.as_constant(); constant && *constant < least) {
        return CallProblem{i, fmt::format("{} is not a size", *constant),
                           least < 0 ? "sizes are 0 or more; -1 keeps the one that is there" : "sizes are 0 or more",
                           "write the size out"};
      }
      shape.push_back(size);
    }
  }
  if (shape.size() <= static_cast<size_t>(max_rank)) return shape;
  return CallProblem{first, fmt::format("{} sizes are given", shape.size()),
                     fmt::format("tensors have at most {} dimensions", max_rank), "merge dimensions"};
}

CallOutcome expand_to(Emitter emit, ValueId value, const Arguments& arguments, size_t first, size_t end,
                      int64_t least) {
  auto sizes = sizes_of(arguments, first, end, least);
  if (auto* problem = std::get_if<CallProblem>(&sizes)) return std::move(*problem);
  return Values{
      emit.op(Op::broadcast, {value}, ir::ReshapeAttr{std::move(*std::get_if<std::vector<ir::Dim>>(&sizes))})};
}

CallOutcome emit_filled(Emitter emit, const FunctionInfo& info, const Arguments& arguments) {
  const size_t last = arguments.size() - 1;
  const CallArgument& dtype = arguments[last];
  const bool full = info.lowering == Lowering::Full;
  ValueId value = full ? arguments[0].value : emit.real(info.name == "ones" ? 1.0 : 0.0);
  if (dtype.kind == Kind::DType) {
    value = emit.op(Op::cast, {value}, ir::CastAttr{dtype.dtype});
  } else if (!full) {
    value = emit.op(Op::cast, {value}, ir::CastAttr{DType::f32});
  }
  return expand_to(emit, value, arguments, full ? 1 : 0, last, 0);
}

CallOutcome emit_arange(Emitter emit, const Arguments& arguments) {
  auto sizes = sizes_of(arguments, 0, 1, 0);
  if (auto* problem = std::get_if<CallProblem>(&sizes)) return std::move(*problem);
  auto& shape = *std::get_if<std::vector<ir::Dim>>(&sizes);
  if (shape.size() != 1) {
    return CallProblem{0, fmt::format("arange takes one size, {} are given", shape.size()),
                       "it counts along one dimension", "write arange(n), and reshape it"};
  }
  return Values{emit.op(Op::col_index, {}, ir::ReshapeAttr{std::move(shape)})};
}

CallOutcome emit_indexed(Emitter emit, const FunctionInfo& info, const Arguments& arguments) {
  std::vector<ValueId> operands;
  size_t next = 0;
  for (; next < arguments.size() && arguments[next].kind == Kind::Value; ++next)
    operands.push_back(arguments[next].value);
  const bool takes = info.lowering == Lowering::Take;
  const int64_t dim = info.parameter_count > next ? integer_of(info, arguments, next) : 0;  // embedding has none
  if (!fits_dim(dim)) return dim_problem(next, dim);
  const auto along = static_cast<int32_t>(dim);
  if (takes) return Values{emit.op(info.op, std::move(operands), ir::TakeAttr{along})};
  if (info.lowering == Lowering::IndexPut)
    return Values{emit.op(info.op, std::move(operands), ir::IndexPutAttr{along, arguments[next + 1].flag})};
  static constexpr std::string_view reductions[] = {"none", "sum", "max", "min"};
  const CallArgument& said = arguments[next + 1];
  const auto* const found = std::find(std::begin(reductions), std::end(reductions),
                                      said.kind == Kind::Text ? std::string_view(said.text) : "none");
  if (found == std::end(reductions)) {
    return CallProblem{next + 1, fmt::format("reduce=\"{}\" is not known", said.text.substr(0, 40)),
                       "it is \"none\", \"sum\", \"max\" or \"min\"", "write one of them"};
  }
  const auto reduce = static_cast<ir::ScatterReduce>(found - std::begin(reductions));
  return Values{emit.op(info.op, std::move(operands), ir::ScatterAttr{along, reduce})};
}

CallOutcome emit_softmax(Emitter emit, const FunctionInfo& info, const Arguments& arguments) {
  const ValueId x = arguments[0].value;
  const int64_t dim = integer_of(info, arguments, 1);
  if (!fits_dim(dim)) return dim_problem(1, dim);
  if (info.op == Op::sub) return Values{emit.op(Op::sub, {x, emit.reduce(Op::reduce_logsumexp, x, dim)})};
  const ValueId largest = emit.reduce(Op::reduce_max, x, dim);
  const ValueId shifted = emit.op(Op::sub, {x, largest});
  const ValueId e = emit.op(Op::exp, {shifted});
  return Values{emit.op(Op::div, {e, emit.reduce(Op::reduce_sum, e, dim)})};
}

CallOutcome emit_norm(Emitter emit, const FunctionInfo& info, const Arguments& arguments) {
  const bool centered = info.lowering == Lowering::LayerNorm;
  const CallArgument& eps_argument = arguments.back();
  ValueId x = arguments[0].value;
  if (centered) x = emit.op(Op::sub, {x, emit.reduce(Op::reduce_mean, x, -1)});
  const ValueId square = emit.op(Op::mul, {x, x});
  const ValueId variance = emit.reduce(Op::reduce_mean, square, -1);
  const ValueId eps =
      eps_argument.kind == Kind::Value ? eps_argument.value : emit.real(info.parameters[arguments.size() - 1].number);
  const ValueId above_zero = emit.op(Op::add, {variance, eps});
  const ValueId scale = emit.op(Op::rsqrt, {above_zero});
  ValueId y = emit.op(Op::mul, {x, scale});
  if (arguments[1].kind == Kind::Value) y = emit.op(Op::mul, {y, arguments[1].value});
  if (centered && arguments[2].kind == Kind::Value) y = emit.op(Op::add, {y, arguments[2].value});
  return Values{y};
}

CallOutcome emit_rope(Emitter emit, const Arguments& arguments) {
  const ValueId x = arguments[0].value, cosine = arguments[1].value, sine = arguments[2].value;
  const bool interleave = arguments[3].flag;
  ValueId parts[2];
  for (int32_t part = 0; part < 2; ++part) {
    ir::Attr attr = ir::SplitAttr{2, part, -1};
    const auto last = static_cast<int32_t>(emit.builder.rank(x)) - 1;  // -1 of a scalar, which binding refuses
    if (interleave) attr = ir::SliceAttr{last, ir::Dim::constant(part), {}, 2, ir::SliceBound::Open};
    parts[part] = emit.op(interleave ? Op::slice : Op::split, {x}, std::move(attr));
  }
  const auto product = [&](ValueId a, ValueId b) { return emit.op(Op::mul, {a, b}); };
  const ValueId c0 = product(parts[0], cosine), s1 = product(parts[1], sine);
  const ValueId first = emit.op(Op::sub, {c0, s1});
  const ValueId c1 = product(parts[1], cosine), s0 = product(parts[0], sine);
  const ValueId second = emit.op(Op::add, {c1, s0});
  return Values{emit.op(Op::join, {first, second}, ir::JoinAttr{-1, interleave})};
}

// `node` and its further results.
Values with_results(Emitter emit, ValueId node, const std::vector<int>& ranks) {
  Values values{node};
  for (size_t i = 1; i < ranks.size(); ++i) {
    values.push_back(emit.builder.op(Op::result, {node}, ir::ResultAttr{static_cast<int32_t>(i)}, emit.span, ranks[i]));
  }
  return values;
}

std::vector<ValueId> values_from(const Arguments& arguments, size_t first) {
  std::vector<ValueId> values;
  for (size_t i = first; i < arguments.size() && arguments[i].kind == Kind::Value; ++i)
    values.push_back(arguments[i].value);
  return values;
}

CallOutcome emit_cond(Emitter emit, const Arguments& arguments) {
  const CallArgument &then = arguments[1], &otherwise = arguments[2];
  if (then.ranks.size() != otherwise.ranks.size()) {
    return CallProblem{2,
                       fmt::format("the branches return {} and {} values", then.ranks.size(), otherwise.ranks.size()),
                       "both branches give the same results", "return as many values from both"};
  }
  std::vector<ValueId> operands{arguments[0].value};
  for (const ValueId value : values_from(arguments, 3)) operands.push_back(value);
  const ir::CondAttr attr{nullptr, nullptr, then.function, otherwise.function};
  const ValueId node = emit.builder.op(Op::cond, std::move(operands), attr, emit.span, then.ranks[0]);
  return with_results(emit, node, then.ranks);
}

CallOutcome emit_while(Emitter emit, const Arguments& arguments) {
  const CallArgument &condition = arguments[0], &body = arguments[1];
  std::vector<ValueId> carried = values_from(arguments, 2);
  if (condition.ranks.size() != 1) {
    return CallProblem{0, fmt::format("the condition returns {} values", condition.ranks.size()),
                       "it says whether the loop goes on", "return one boolean from it"};
  }
  if (body.ranks.size() != carried.size()) {
    return CallProblem{1, fmt::format("the body returns {} values, {} are carried", body.ranks.size(), carried.size()),
                       "what the body returns is carried to its next run",
                       "return each carried value once, in the order of the arguments"};
  }
  std::vector<int> ranks;
  for (const ValueId value : carried) ranks.push_back(emit.builder.rank(value));
  const ir::WhileAttr attr{nullptr, nullptr, condition.function, body.function};
  const ValueId node = emit.builder.op(Op::while_loop, std::move(carried), attr, emit.span, ranks[0]);
  return with_results(emit, node, ranks);
}

CallOutcome emit_external(Emitter emit, const FunctionInfo& info, const Arguments& arguments) {
  std::vector<ValueId> operands = values_from(arguments, 1);
  const size_t after = 1 + operands.size();
  const std::vector<ir::TensorType>& results = arguments[after].types;
  std::vector<int> ranks;
  for (const ir::TensorType& type : results) ranks.push_back(static_cast<int>(type.shape.size()));
  ir::Attr attr = ir::UserKernelAttr{arguments[0].text, results};
  if (info.lowering == Lowering::CallExtern) {
    const CallArgument& form = arguments[after + 1];
    const std::string_view said = form.kind == Kind::Text ? std::string_view(form.text) : "out";
    if (said != "out" && said != "alloc") {
      return CallProblem{after + 1, fmt::format("form=\"{}\" is not known", said.substr(0, 40)),
                         "the forms are \"out\" (the results are passed to it) and \"alloc\" (it returns them)",
                         "write form=\"alloc\" or leave it out"};
    }
    attr = ir::ExternAttr{arguments[0].text, said == "out" ? ir::ExternForm::Out : ir::ExternForm::Alloc, results};
  }
  const bool allocates =
      std::holds_alternative<ir::ExternAttr>(attr) && std::get_if<ir::ExternAttr>(&attr)->form == ir::ExternForm::Alloc;
  const ValueId node = emit.builder.op(info.op, std::move(operands), std::move(attr), emit.span, ranks[0]);
  if (allocates) emit.builder.define_sizes(node, results);
  return with_results(emit, node, ranks);
}

// Binding says what is no device.
CallOutcome emit_to_device(Emitter emit, const FunctionInfo& info, const Arguments& arguments) {
  const int64_t said = std::clamp<int64_t>(integer_of(info, arguments, 1), INT32_MIN, INT32_MAX);
  return Values{emit.op(Op::to_device, {arguments[0].value}, ir::DeviceAttr{static_cast<uint32_t>(said)})};
}

}  // namespace

CallOutcome emit_program_call(FunctionBuilder& builder, const FunctionInfo& info, const Arguments& arguments,
                              Span span) {
  Emitter emit{builder, span};
  switch (info.lowering) {
    case Lowering::Matmul:
      return Values{emit.op(Op::matmul, {arguments[0].value, arguments[1].value}, ir::MatmulAttr{})};
    case Lowering::Transpose:
      return emit_transpose(emit, info, arguments);
    case Lowering::Concat:
      return emit_concat(emit, info, arguments);
    case Lowering::Squeeze:
    case Lowering::Unsqueeze:
      return emit_squeeze(emit, info, arguments);
    case Lowering::Expand:
      return expand_to(emit, arguments[0].value, arguments, 1, arguments.size(), -1);
    case Lowering::Full:
    case Lowering::Filled:
      return emit_filled(emit, info, arguments);
    case Lowering::Arange:
      return emit_arange(emit, arguments);
    case Lowering::Take:
    case Lowering::IndexPut:
    case Lowering::Scatter:
      return emit_indexed(emit, info, arguments);
    case Lowering::Softmax:
      return emit_softmax(emit, info, arguments);
    case Lowering::LayerNorm:
    case Lowering::RmsNorm:
      return emit_norm(emit, info, arguments);
    case Lowering::Rope:
      return emit_rope(emit, arguments);
    case Lowering::Cond:
      return emit_cond(emit, arguments);
    case Lowering::WhileLoop:
      return emit_while(emit, arguments);
    case Lowering::CallExtern:
    case Lowering::UserKernel:
      return emit_external(emit, info, arguments);
    case Lowering::ToDevice:
      return emit_to_device(emit, info, arguments);
    default:
      break;
  }
  return CallProblem{0, fmt::format("{} is no function of programs", info.name), "", std::string(info.doc)};
}

}  // namespace codetta::frontend
