// SPDX-License-Identifier: Apache-2.0
// The operators and functions of include/codetta/trace.hpp. What a call means is decided by the table (build_call.cpp).
#include <limits>

#include "frontend/trace_node.hpp"

namespace codetta {

using detail::ExprComparison;
using detail::ExprNode;
using detail::ExprOperand;
using detail::NodeRef;
using detail::TraceAccess;
using frontend::CallArgument;
using ArgumentKind = CallArgument::Kind;
using types::Op;

namespace {

Expr literal(ir::LiteralAttr attr, CallSite at) {
  auto node = std::make_shared<ExprNode>();
  node->site = at;
  node->kind = ExprNode::Kind::Literal;
  node->literal = attr;
  return TraceAccess::make(std::move(node));
}

// At the place of the first operand.
Expr apply(Op op, std::initializer_list<ExprOperand> operands) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprNode::Kind::Operator;
  node->op = op;
  node->site = operands.begin()->site;
  for (const ExprOperand& operand : operands) node->operands.push_back(TraceAccess::node(operand.value));
  return TraceAccess::make(std::move(node));
}

ExprComparison compare(Op op, const ExprOperand& x, const ExprOperand& y) { return ExprComparison(apply(op, {x, y})); }

CallArgument value_argument() {
  CallArgument argument;
  argument.kind = ArgumentKind::Value;
  return argument;
}

CallArgument text_argument(std::string_view text) {
  CallArgument argument;
  argument.kind = ArgumentKind::Text;
  argument.text = text;
  return argument;
}

template <class Integers>
CallArgument integers_argument(const Integers& integers) {
  CallArgument argument;
  argument.kind = ArgumentKind::Integers;
  argument.integers.assign(std::begin(integers), std::end(integers));
  return argument;
}

CallArgument integer_argument(int integer) { return integers_argument(std::initializer_list<int>{integer}); }

// All arguments are values.
Expr call_values(std::string_view function, std::initializer_list<Expr> values, CallSite at) {
  std::vector<NodeRef> operands;
  for (const Expr& value : values) operands.push_back(TraceAccess::node(value));
  return detail::call(function, std::move(operands), std::vector<CallArgument>(values.size(), value_argument()), at);
}

// x and one argument that is no value.
Expr call_with(std::string_view function, const Expr& x, CallArgument argument, CallSite at) {
  return detail::call(function, {TraceAccess::node(x)}, {value_argument(), std::move(argument)}, at);
}

CallArgument flag_argument(bool flag) {
  CallArgument argument;
  argument.kind = ArgumentKind::Flag;
  argument.flag = flag;
  return argument;
}

Expr reduce(std::string_view function, const Expr& x, const ReduceOver& over, bool keepdim, CallSite at) {
  return detail::call(function, {TraceAccess::node(x)},
                      {value_argument(), TraceAccess::dims(over), TraceAccess::axis(over), flag_argument(keepdim)}, at);
}

}  // namespace

namespace detail {

CallArgument TraceAccess::dims(const ReduceOver& over) {
  return over.by_dims_ ? integers_argument(over.dims_) : CallArgument{};
}

CallArgument TraceAccess::axis(const ReduceOver& over) {
  if (over.by_dims_) return {};
  return text_argument(over.axis_ == Axis::Row ? "row" : over.axis_ == Axis::Column ? "column" : "all");
}

Expr call(std::string_view function, std::vector<NodeRef> operands, std::vector<CallArgument> arguments, CallSite at) {
  auto node = std::make_shared<ExprNode>();
  node->site = at;
  node->kind = ExprNode::Kind::Call;
  node->function = frontend::find_function(function);
  node->operands = std::move(operands);
  node->arguments = std::move(arguments);
  return TraceAccess::make(std::move(node));
}

}  // namespace detail

Expr Expr::from_bool(bool value, CallSite at) {
  return codetta::literal({ir::LiteralAttr::Kind::Bool, value ? 1 : 0, 0}, at);
}
Expr Expr::from_int(int64_t value, CallSite at) { return codetta::literal({ir::LiteralAttr::Kind::Int, value, 0}, at); }
Expr Expr::from_real(double value, CallSite at) {
  return codetta::literal({ir::LiteralAttr::Kind::Float, 0, value}, at);
}
Expr Expr::from_unsigned(uint64_t value, CallSite at) {
  if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return from_int(static_cast<int64_t>(value), at);
  auto node = std::make_shared<ExprNode>();
  node->site = at;
  node->kind = ExprNode::Kind::Literal;
  node->literal = {ir::LiteralAttr::Kind::Int, static_cast<int64_t>(value), 0};
  node->is_unsigned = true;
  return TraceAccess::make(std::move(node));
}

Expr operator+(const ExprOperand& x, const ExprOperand& y) { return apply(Op::add, {x, y}); }
Expr operator-(const ExprOperand& x, const ExprOperand& y) { return apply(Op::sub, {x, y}); }
Expr operator*(const ExprOperand& x, const ExprOperand& y) { return apply(Op::mul, {x, y}); }
Expr operator/(const ExprOperand& x, const ExprOperand& y) { return apply(Op::div, {x, y}); }
Expr operator%(const ExprOperand& x, const ExprOperand& y) { return apply(Op::mod, {x, y}); }
Expr floordiv(const Expr& x, const Expr& y, CallSite at) {
  return apply(Op::floordiv, {ExprOperand(x, at), ExprOperand(y, at)});
}
Expr operator+(const ExprOperand& x) { return x.value; }
Expr operator-(const ExprOperand& x) { return apply(Op::neg, {x}); }
ExprComparison operator==(const ExprOperand& x, const ExprOperand& y) { return compare(Op::eq, x, y); }
ExprComparison operator!=(const ExprOperand& x, const ExprOperand& y) { return compare(Op::ne, x, y); }
ExprComparison operator<(const ExprOperand& x, const ExprOperand& y) { return compare(Op::lt, x, y); }
ExprComparison operator<=(const ExprOperand& x, const ExprOperand& y) { return compare(Op::le, x, y); }
ExprComparison operator>(const ExprOperand& x, const ExprOperand& y) { return compare(Op::gt, x, y); }
ExprComparison operator>=(const ExprOperand& x, const ExprOperand& y) { return compare(Op::ge, x, y); }
Expr operator&(const ExprOperand& x, const ExprOperand& y) { return apply(Op::logical_and, {x, y}); }
Expr operator|(const ExprOperand& x, const ExprOperand& y) { return apply(Op::logical_or, {x, y}); }
Expr operator^(const ExprOperand& x, const ExprOperand& y) { return apply(Op::logical_xor, {x, y}); }
Expr operator~(const ExprOperand& x) { return apply(Op::logical_not, {x}); }

Expr row_index(CallSite at) { return call_values("row_index", {}, at); }
Expr col_index(CallSite at) { return call_values("col_index", {}, at); }
Expr batch_index(CallSite at) { return call_values("batch_index", {}, at); }
Expr identity(const Expr& x, CallSite at) { return call_values("identity", {x}, at); }
Expr multiply_add(const Expr& x, const Expr& y, const Expr& z, CallSite at) {
  return call_values("multiply_add", {x, y, z}, at);
}
Expr pow(const Expr& x, const Expr& y, CallSite at) { return call_values("pow", {x, y}, at); }
Expr reciprocal(const Expr& x, CallSite at) { return call_values("reciprocal", {x}, at); }
Expr sqrt(const Expr& x, CallSite at) { return call_values("sqrt", {x}, at); }
Expr rsqrt(const Expr& x, CallSite at) { return call_values("rsqrt", {x}, at); }
Expr abs(const Expr& x, CallSite at) { return call_values("abs", {x}, at); }
Expr sign(const Expr& x, CallSite at) { return call_values("sign", {x}, at); }
Expr floor(const Expr& x, CallSite at) { return call_values("floor", {x}, at); }
Expr ceil(const Expr& x, CallSite at) { return call_values("ceil", {x}, at); }
Expr round(const Expr& x, CallSite at) { return call_values("round", {x}, at); }
Expr trunc(const Expr& x, CallSite at) { return call_values("trunc", {x}, at); }
Expr where(const Expr& condition, const Expr& x, const Expr& y, CallSite at) {
  return call_values("where", {condition, x, y}, at);
}
Expr minimum(const Expr& x, const Expr& y, CallSite at) { return call_values("minimum", {x, y}, at); }
Expr maximum(const Expr& x, const Expr& y, CallSite at) { return call_values("maximum", {x, y}, at); }
Expr clamp(const Expr& x, const Expr& min, const Expr& max, CallSite at) {
  return call_values("clamp", {x, min, max}, at);
}
Expr clamp(const Expr& x, const Expr& min, NoBound /*max*/, CallSite at) {
  return detail::call("clamp", {TraceAccess::node(x), TraceAccess::node(min)}, {value_argument(), value_argument(), {}},
                      at);
}
Expr clamp(const Expr& x, NoBound /*min*/, const Expr& max, CallSite at) {
  return detail::call("clamp", {TraceAccess::node(x), TraceAccess::node(max)}, {value_argument(), {}, value_argument()},
                      at);
}
Expr hardtanh(const Expr& x, const Expr& min_val, const Expr& max_val, CallSite at) {
  return call_values("hardtanh", {x, min_val, max_val}, at);
}
Expr relu6(const Expr& x, CallSite at) { return call_values("relu6", {x}, at); }
Expr exp(const Expr& x, CallSite at) { return call_values("exp", {x}, at); }
Expr exp2(const Expr& x, CallSite at) { return call_values("exp2", {x}, at); }
Expr expm1(const Expr& x, CallSite at) { return call_values("expm1", {x}, at); }
Expr log(const Expr& x, CallSite at) { return call_values("log", {x}, at); }
Expr log2(const Expr& x, CallSite at) { return call_values("log2", {x}, at); }
Expr log1p(const Expr& x, CallSite at) { return call_values("log1p", {x}, at); }
Expr sin(const Expr& x, CallSite at) { return call_values("sin", {x}, at); }
Expr cos(const Expr& x, CallSite at) { return call_values("cos", {x}, at); }
Expr tanh(const Expr& x, CallSite at) { return call_values("tanh", {x}, at); }
Expr erf(const Expr& x, CallSite at) { return call_values("erf", {x}, at); }
Expr relu(const Expr& x, CallSite at) { return call_values("relu", {x}, at); }
Expr sigmoid(const Expr& x, CallSite at) { return call_values("sigmoid", {x}, at); }
Expr silu(const Expr& x, CallSite at) { return call_values("silu", {x}, at); }
Expr gelu(const Expr& x, std::string_view approximate, CallSite at) {
  return call_with("gelu", x, text_argument(approximate), at);
}
Expr softplus(const Expr& x, const Expr& beta, const Expr& threshold, CallSite at) {
  return call_values("softplus", {x, beta, threshold}, at);
}
Expr elu(const Expr& x, const Expr& alpha, CallSite at) { return call_values("elu", {x, alpha}, at); }
Expr leaky_relu(const Expr& x, const Expr& negative_slope, CallSite at) {
  return call_values("leaky_relu", {x, negative_slope}, at);
}
Expr hardswish(const Expr& x, CallSite at) { return call_values("hardswish", {x}, at); }
Expr hardsigmoid(const Expr& x, CallSite at) { return call_values("hardsigmoid", {x}, at); }
Expr mish(const Expr& x, CallSite at) { return call_values("mish", {x}, at); }
Expr drelu(const Expr& x, CallSite at) { return call_values("drelu", {x}, at); }
Expr dsigmoid(const Expr& x, CallSite at) { return call_values("dsigmoid", {x}, at); }
Expr dtanh(const Expr& x, CallSite at) { return call_values("dtanh", {x}, at); }
Expr dsilu(const Expr& x, CallSite at) { return call_values("dsilu", {x}, at); }
Expr dgelu(const Expr& x, std::string_view approximate, CallSite at) {
  return call_with("dgelu", x, text_argument(approximate), at);
}
Expr cast(const Expr& x, DType dtype, CallSite at) {
  CallArgument argument;
  argument.kind = ArgumentKind::DType;
  argument.dtype = dtype;
  return call_with("cast", x, std::move(argument), at);
}
Expr dropout(const Expr& x, const Expr& p, const Expr& seed, CallSite at) {
  return call_values("dropout", {x, p, seed}, at);
}

Expr sum(const Expr& x, const ReduceOver& over, bool keepdim, CallSite at) {
  return reduce("sum", x, over, keepdim, at);
}
Expr max(const Expr& x, const ReduceOver& over, bool keepdim, CallSite at) {
  return reduce("max", x, over, keepdim, at);
}
Expr min(const Expr& x, const ReduceOver& over, bool keepdim, CallSite at) {
  return reduce("min", x, over, keepdim, at);
}
Expr mean(const Expr& x, const ReduceOver& over, bool keepdim, CallSite at) {
  return reduce("mean", x, over, keepdim, at);
}
Expr amax(const Expr& x, const ReduceOver& over, bool keepdim, CallSite at) {
  return reduce("amax", x, over, keepdim, at);
}
Expr sum_of_squares(const Expr& x, const ReduceOver& over, bool keepdim, CallSite at) {
  return reduce("sum_of_squares", x, over, keepdim, at);
}
Expr logsumexp(const Expr& x, const ReduceOver& over, bool keepdim, CallSite at) {
  return reduce("logsumexp", x, over, keepdim, at);
}

Expr permute(const Expr& x, const std::vector<int>& indices, CallSite at) {
  return call_with("permute", x, integers_argument(indices), at);
}

Expr reshape(const Expr& x, const std::vector<int64_t>& new_shape, CallSite at) {
  CallArgument argument;
  argument.kind = ArgumentKind::Shape;
  for (const int64_t size : new_shape) argument.shape.push_back(types::Dim::constant(size));
  return call_with("reshape", x, std::move(argument), at);
}

std::vector<Expr> split(const Expr& x, int n, int dim, CallSite at) {
  const Expr whole =
      detail::call("split", {TraceAccess::node(x)}, {value_argument(), integer_argument(n), integer_argument(dim)}, at);
  std::vector<Expr> parts;
  const size_t count = n >= 2 && n <= 1024 ? static_cast<size_t>(n) : 1;
  for (size_t i = 0; i < count; ++i) {
    auto node = std::make_shared<ExprNode>();
    node->site = at;
    node->kind = ExprNode::Kind::Part;
    node->part = i;
    node->operands = {TraceAccess::node(whole)};
    parts.push_back(TraceAccess::make(std::move(node)));
  }
  return parts;
}

Expr join(const std::vector<Expr>& parts, int dim, bool interleave, CallSite at) {
  if (parts.empty()) {
    auto node = std::make_shared<ExprNode>();
    node->site = at;
    node->problem = diag::error(diag::Code::argument_count, "join has no parts")
                        .reason("it puts one or more values together")
                        .help("pass the parts: join({a, b})")
                        .diagnostic();
    return TraceAccess::make(std::move(node));
  }
  std::vector<NodeRef> operands;
  for (const Expr& part : parts) operands.push_back(TraceAccess::node(part));
  std::vector<CallArgument> arguments(parts.size(), value_argument());
  arguments.push_back(integer_argument(dim));
  arguments.push_back(flag_argument(interleave));
  return detail::call("join", std::move(operands), std::move(arguments), at);
}

}  // namespace codetta
