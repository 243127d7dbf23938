// SPDX-License-Identifier: Apache-2.0
#include "differential/traced_form.hpp"

#include <map>
#include <tuple>

#include "ir/function.hpp"

namespace codetta::test {
namespace {

using types::Op;

class Retrace {
 public:
  Retrace(const ir::EpilogueFunction& function, EpilogueTracer& tracer) : function_(function), tracer_(tracer) {}

  void run() {
    made_.push_back(tracer_.accum());
    for (size_t i = 1; i < function_.parameters.size(); ++i)
      made_.push_back(tracer_.input(function_.parameters[i].name));
    for (size_t i = made_.size(); i < function_.values.size(); ++i) made_.push_back(value(function_.values[i]));
    for (const ir::Output& output : function_.outputs) tracer_.output(output.name, made_[output.value.index()]);
  }

 private:
  static ReduceOver over(const ir::ReduceAttr& attr) {
    switch (attr.axis) {
      case ir::ReduceAxis::Row:
        return Axis::Row;
      case ir::ReduceAxis::Column:
        return Axis::Column;
      case ir::ReduceAxis::All:
        return Axis::All;
      case ir::ReduceAxis::Dims:
        break;
    }
    return std::vector<int>(attr.dims.begin(), attr.dims.end());
  }

  static Expr literal(const ir::LiteralAttr& attr) {
    using Kind = ir::LiteralAttr::Kind;
    return attr.kind == Kind::Float ? Expr(attr.f) : attr.kind == Kind::Bool ? Expr(attr.i != 0) : Expr(attr.i);
  }

  Expr part(const ir::Value& value) {
    const auto& attr = *std::get_if<ir::SplitAttr>(&value.attr);
    const size_t of = value.operands[0].index();
    auto [at, fresh] = splits_.try_emplace({of, attr.ways, attr.dim});
    if (fresh) at->second = split(made_[of], attr.ways, attr.dim);
    return at->second[static_cast<size_t>(attr.part)];
  }

  Expr value(const ir::Value& value) {
    const auto x = [&](size_t i) { return made_[value.operands[i].index()]; };
    switch (value.op) {
      case Op::literal:
        return literal(*std::get_if<ir::LiteralAttr>(&value.attr));
      case Op::row_index:
        return row_index();
      case Op::col_index:
        return col_index();
      case Op::batch_index:
        return batch_index();
      case Op::add:
        return x(0) + x(1);
      case Op::sub:
        return x(0) - x(1);
      case Op::mul:
        return x(0) * x(1);
      case Op::div:
        return x(0) / x(1);
      case Op::mod:
        return x(0) % x(1);
      case Op::neg:
        return -x(0);
      case Op::eq:
        return x(0) == x(1);
      case Op::ne:
        return x(0) != x(1);
      case Op::lt:
        return x(0) < x(1);
      case Op::le:
        return x(0) <= x(1);
      case Op::gt:
        return x(0) > x(1);
      case Op::ge:
        return x(0) >= x(1);
      case Op::logical_and:
        return x(0) & x(1);
      case Op::logical_or:
        return x(0) | x(1);
      case Op::logical_xor:
        return x(0) ^ x(1);
      case Op::logical_not:
        return ~x(0);
      case Op::gelu_erf:
        return gelu(x(0));
      case Op::gelu_tanh:
        return gelu(x(0), "tanh");
      case Op::dgelu_erf:
        return dgelu(x(0));
      case Op::dgelu_tanh:
        return dgelu(x(0), "tanh");
      case Op::cast:
        return cast(x(0), std::get_if<ir::CastAttr>(&value.attr)->dtype);
      case Op::permute: {
        const auto& order = std::get_if<ir::PermuteAttr>(&value.attr)->order;
        return permute(x(0), {order.begin(), order.end()});
      }
      case Op::reshape: {
        // An epilogue squeezes nothing but reductions.
        if (std::get_if<ir::ReshapeAttr>(&value.attr)->form == ir::ReshapeForm::Squeeze)
          return reduction(function_[value.operands[0]], false);
        std::vector<int64_t> sizes;
        for (const ir::Dim& dim : std::get_if<ir::ReshapeAttr>(&value.attr)->shape)
          sizes.push_back(dim.as_constant().value_or(-1));
        return reshape(x(0), sizes);
      }
      case Op::split:
        return part(value);
      case Op::join: {
        std::vector<Expr> parts;
        for (size_t i = 0; i < value.operands.size(); ++i) parts.push_back(x(i));
        const auto& attr = *std::get_if<ir::JoinAttr>(&value.attr);
        return join(parts, attr.dim, attr.interleave);
      }
      default:
        return types::op_info(value.op).is_reduction() ? reduction(value, true) : function(value);
    }
  }

  Expr reduction(const ir::Value& value, bool keepdim) {
    const Expr x = made_[value.operands[0].index()];
    const ReduceOver where = over(*std::get_if<ir::ReduceAttr>(&value.attr));
    switch (value.op) {
      case Op::reduce_sum:
        return sum(x, where, keepdim);
      case Op::reduce_max:
        return max(x, where, keepdim);
      case Op::reduce_min:
        return min(x, where, keepdim);
      case Op::reduce_mean:
        return mean(x, where, keepdim);
      case Op::reduce_amax:
        return amax(x, where, keepdim);
      case Op::reduce_sum_of_squares:
        return sum_of_squares(x, where, keepdim);
      default:
        return logsumexp(x, where, keepdim);
    }
  }

  // Those whose C++ name is that of the op. An op that is not listed gives an Expr that holds nothing, which is E0156.
  Expr function(const ir::Value& value) {
    const auto x = [&](size_t i) { return made_[value.operands[i].index()]; };
#define ONE(name) \
  case Op::name:  \
    return name(x(0));
#define TWO(name) \
  case Op::name:  \
    return name(x(0), x(1));
#define THREE(name) \
  case Op::name:    \
    return name(x(0), x(1), x(2));
    switch (value.op) {
      ONE(abs)
      ONE(sign)
      ONE(floor)
      ONE(ceil)
      ONE(round)
      ONE(trunc)
      ONE(exp)
      ONE(exp2)
      ONE(expm1)
      ONE(log)
      ONE(log2)
      ONE(log1p)
      ONE(sqrt)
      ONE(rsqrt)
      ONE(reciprocal)
      ONE(sin)
      ONE(cos)
      ONE(tanh)
      ONE(erf)
      ONE(relu)
      ONE(sigmoid)
      ONE(silu)
      ONE(hardswish)
      ONE(hardsigmoid)
      ONE(mish)
      ONE(drelu)
      ONE(dsigmoid)
      ONE(dtanh)
      ONE(dsilu)
      TWO(pow)
      TWO(floordiv)
      TWO(minimum)
      TWO(maximum)
      TWO(elu)
      TWO(leaky_relu)
      THREE(multiply_add)
      THREE(where)
      THREE(clamp)
      THREE(softplus)
      THREE(dropout)
      default:
        return {};
    }
#undef ONE
#undef TWO
#undef THREE
  }

  const ir::EpilogueFunction& function_;
  EpilogueTracer& tracer_;
  std::vector<Expr> made_;
  std::map<std::tuple<size_t, int32_t, int32_t>, std::vector<Expr>> splits_;
};

}  // namespace

Result<Epilogue> traced_form(const Epilogue& epilogue) {
  return Epilogue::trace([&](EpilogueTracer& tracer) { Retrace(*epilogue.function(), tracer).run(); });
}

}  // namespace codetta::test
