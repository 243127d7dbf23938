// SPDX-License-Identifier: Apache-2.0
// The operators and functions of include/codetta/trace.hpp. What a call means is decided by the table (build_call.cpp).
#include <limits>

#include "frontend/trace_node.hpp"

namespace codetta {

using detail::ExprNode;
using detail::NodeRef;
using detail::TraceAccess;
using frontend::CallArgument;
using ArgumentKind = CallArgument::Kind;
using types::Op;

namespace {

Expr literal(ir::LiteralAttr attr) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprNode::Kind::Literal;
  node->literal = attr;
  return TraceAccess::make(std::move(node));
}

Expr apply(Op op, std::initializer_list<Expr> operands) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprNode::Kind::Operator;
  node->op = op;
  for (const Expr& operand : operands) node->operands.push_back(TraceAccess::node(operand));
  return TraceAccess::make(std::move(node));
}

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
Expr call_values(std::string_view function, std::initializer_list<Expr> values) {
  std::vector<NodeRef> operands;
  for (const Expr& value : values) operands.push_back(TraceAccess::node(value));
  return detail::call(function, std::move(operands), std::vector<CallArgument>(values.size(), value_argument()));
}

// x and one argument that is no value.
Expr call_with(std::string_view function, const Expr& x, CallArgument argument) {
  return detail::call(function, {TraceAccess::node(x)}, {value_argument(), std::move(argument)});
}

Expr reduce(std::string_view function, const Expr& x, const ReduceOver& over) {
  return detail::call(function, {TraceAccess::node(x)},
                      {value_argument(), TraceAccess::dims(over), TraceAccess::axis(over)});
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

Expr call(std::string_view function, std::vector<NodeRef> operands, std::vector<CallArgument> arguments) {
  auto node = std::make_shared<ExprNode>();
  node->kind = ExprNode::Kind::Call;
  node->function = frontend::find_function(function);
  node->operands = std::move(operands);
  node->arguments = std::move(arguments);
  return TraceAccess::make(std::move(node));
}

}  // namespace detail

Expr Expr::from_bool(bool value) { return codetta::literal({ir::LiteralAttr::Kind::Bool, value ? 1 : 0, 0}); }
Expr Expr::from_int(int64_t value) { return codetta::literal({ir::LiteralAttr::Kind::Int, value, 0}); }
Expr Expr::from_real(double value) { return codetta::literal({ir::LiteralAttr::Kind::Float, 0, value}); }
Expr Expr::from_unsigned(uint64_t value) {
  if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return from_int(static_cast<int64_t>(value));
  auto node = std::make_shared<ExprNode>();
  node->problem = diag::error(diag::Code::number_overflow, "integer does not fit")
                      .reason("integers have 64 bits: -9223372036854775808 to 9223372036854775807")
                      .help("write it as a float")
                      .diagnostic();
  return TraceAccess::make(std::move(node));
}

Expr operator+(const Expr& x, const Expr& y) { return apply(Op::add, {x, y}); }
Expr operator-(const Expr& x, const Expr& y) { return apply(Op::sub, {x, y}); }
Expr operator*(const Expr& x, const Expr& y) { return apply(Op::mul, {x, y}); }
Expr operator/(const Expr& x, const Expr& y) { return apply(Op::div, {x, y}); }
Expr operator%(const Expr& x, const Expr& y) { return apply(Op::mod, {x, y}); }
Expr floordiv(const Expr& x, const Expr& y) { return apply(Op::floordiv, {x, y}); }
Expr operator+(const Expr& x) { return x; }
Expr operator-(const Expr& x) { return apply(Op::neg, {x}); }
Expr operator==(const Expr& x, const Expr& y) { return apply(Op::eq, {x, y}); }
Expr operator!=(const Expr& x, const Expr& y) { return apply(Op::ne, {x, y}); }
Expr operator<(const Expr& x, const Expr& y) { return apply(Op::lt, {x, y}); }
Expr operator<=(const Expr& x, const Expr& y) { return apply(Op::le, {x, y}); }
Expr operator>(const Expr& x, const Expr& y) { return apply(Op::gt, {x, y}); }
Expr operator>=(const Expr& x, const Expr& y) { return apply(Op::ge, {x, y}); }
Expr operator&(const Expr& x, const Expr& y) { return apply(Op::logical_and, {x, y}); }
Expr operator|(const Expr& x, const Expr& y) { return apply(Op::logical_or, {x, y}); }
Expr operator^(const Expr& x, const Expr& y) { return apply(Op::logical_xor, {x, y}); }
Expr operator~(const Expr& x) { return apply(Op::logical_not, {x}); }

Expr row_index() { return call_values("row_index", {}); }
Expr col_index() { return call_values("col_index", {}); }
Expr batch_index() { return call_values("batch_index", {}); }
Expr identity(const Expr& x) { return call_values("identity", {x}); }
Expr multiply_add(const Expr& x, const Expr& y, const Expr& z) { return call_values("multiply_add", {x, y, z}); }
Expr pow(const Expr& x, const Expr& y) { return call_values("pow", {x, y}); }
Expr reciprocal(const Expr& x) { return call_values("reciprocal", {x}); }
Expr sqrt(const Expr& x) { return call_values("sqrt", {x}); }
Expr rsqrt(const Expr& x) { return call_values("rsqrt", {x}); }
Expr abs(const Expr& x) { return call_values("abs", {x}); }
Expr sign(const Expr& x) { return call_values("sign", {x}); }
Expr floor(const Expr& x) { return call_values("floor", {x}); }
Expr ceil(const Expr& x) { return call_values("ceil", {x}); }
Expr round(const Expr& x) { return call_values("round", {x}); }
Expr trunc(const Expr& x) { return call_values("trunc", {x}); }
Expr where(const Expr& condition, const Expr& x, const Expr& y) { return call_values("where", {condition, x, y}); }
Expr minimum(const Expr& x, const Expr& y) { return call_values("minimum", {x, y}); }
Expr maximum(const Expr& x, const Expr& y) { return call_values("maximum", {x, y}); }
Expr clamp(const Expr& x, const Expr& min, const Expr& max) { return call_values("clamp", {x, min, max}); }
Expr clamp(const Expr& x, const Expr& min, NoBound /*max*/) {
  return detail::call("clamp", {TraceAccess::node(x), TraceAccess::node(min)},
                      {value_argument(), value_argument(), {}});
}
Expr clamp(const Expr& x, NoBound /*min*/, const Expr& max) {
  return detail::call("clamp", {TraceAccess::node(x), TraceAccess::node(max)},
                      {value_argument(), {}, value_argument()});
}
Expr hardtanh(const Expr& x, const Expr& min_val, const Expr& max_val) {
  return call_values("hardtanh", {x, min_val, max_val});
}
Expr relu6(const Expr& x) { return call_values("relu6", {x}); }
Expr exp(const Expr& x) { return call_values("exp", {x}); }
Expr exp2(const Expr& x) { return call_values("exp2", {x}); }
Expr expm1(const Expr& x) { return call_values("expm1", {x}); }
Expr log(const Expr& x) { return call_values("log", {x}); }
Expr log2(const Expr& x) { return call_values("log2", {x}); }
Expr log1p(const Expr& x) { return call_values("log1p", {x}); }
Expr sin(const Expr& x) { return call_values("sin", {x}); }
Expr cos(const Expr& x) { return call_values("cos", {x}); }
Expr tanh(const Expr& x) { return call_values("tanh", {x}); }
Expr erf(const Expr& x) { return call_values("erf", {x}); }
Expr relu(const Expr& x) { return call_values("relu", {x}); }
Expr sigmoid(const Expr& x) { return call_values("sigmoid", {x}); }
Expr silu(const Expr& x) { return call_values("silu", {x}); }
Expr gelu(const Expr& x, std::string_view approximate) { return call_with("gelu", x, text_argument(approximate)); }
Expr softplus(const Expr& x, const Expr& beta, const Expr& threshold) {
  return call_values("softplus", {x, beta, threshold});
}
Expr elu(const Expr& x, const Expr& alpha) { return call_values("elu", {x, alpha}); }
Expr leaky_relu(const Expr& x, const Expr& negative_slope) { return call_values("leaky_relu", {x, negative_slope}); }
Expr hardswish(const Expr& x) { return call_values("hardswish", {x}); }
Expr hardsigmoid(const Expr& x) { return call_values("hardsigmoid", {x}); }
Expr mish(const Expr& x) { return call_values("mish", {x}); }
Expr drelu(const Expr& x) { return call_values("drelu", {x}); }
Expr dsigmoid(const Expr& x) { return call_values("dsigmoid", {x}); }
Expr dtanh(const Expr& x) { return call_values("dtanh", {x}); }
Expr dsilu(const Expr& x) { return call_values("dsilu", {x}); }
Expr dgelu(const Expr& x, std::string_view approximate) { return call_with("dgelu", x, text_argument(approximate)); }
Expr cast(const Expr& x, DType dtype) {
  CallArgument argument;
  argument.kind = ArgumentKind::DType;
  argument.dtype = dtype;
  return call_with("cast", x, std::move(argument));
}
Expr dropout(const Expr& x, const Expr& p, const Expr& seed) { return call_values("dropout", {x, p, seed}); }

Expr sum(const Expr& x, const ReduceOver& over) { return reduce("sum", x, over); }
Expr max(const Expr& x, const ReduceOver& over) { return reduce("max", x, over); }
Expr min(const Expr& x, const ReduceOver& over) { return reduce("min", x, over); }
Expr mean(const Expr& x, const ReduceOver& over) { return reduce("mean", x, over); }
Expr amax(const Expr& x, const ReduceOver& over) { return reduce("amax", x, over); }
Expr sum_of_squares(const Expr& x, const ReduceOver& over) { return reduce("sum_of_squares", x, over); }
Expr logsumexp(const Expr& x, const ReduceOver& over) { return reduce("logsumexp", x, over); }

Expr permute(const Expr& x, const std::vector<int>& indices) {
  return call_with("permute", x, integers_argument(indices));
}

Expr reshape(const Expr& x, const std::vector<int64_t>& new_shape) {
  CallArgument argument;
  argument.kind = ArgumentKind::Shape;
  for (const int64_t size : new_shape) argument.shape.push_back(types::Dim::constant(size));
  return call_with("reshape", x, std::move(argument));
}

std::vector<Expr> split(const Expr& x, int n, int dim) {
  const Expr whole =
      detail::call("split", {TraceAccess::node(x)}, {value_argument(), integer_argument(n), integer_argument(dim)});
  std::vector<Expr> parts;
  const size_t count = n >= 2 && n <= 1024 ? static_cast<size_t>(n) : 1;
  for (size_t i = 0; i < count; ++i) {
    auto node = std::make_shared<ExprNode>();
    node->kind = ExprNode::Kind::Part;
    node->part = i;
    node->operands = {TraceAccess::node(whole)};
    parts.push_back(TraceAccess::make(std::move(node)));
  }
  return parts;
}

Expr join(const std::vector<Expr>& parts, int dim, bool interleave) {
  if (parts.empty()) {
    auto node = std::make_shared<ExprNode>();
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
  CallArgument flag;
  flag.kind = ArgumentKind::Flag;
  flag.flag = interleave;
  arguments.push_back(std::move(flag));
  return detail::call("join", std::move(operands), std::move(arguments));
}

}  // namespace codetta
