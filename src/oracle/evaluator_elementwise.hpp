// SPDX-License-Identifier: Apache-2.0
// Element-wise nodes but comparisons, conversions and dropout.
#pragma once

#include "oracle/evaluator.hpp"
#include "oracle/int_ops.hpp"
#include "oracle/philox.hpp"

namespace codetta::oracle {

// As cast(x, to) does.
template <class T>
void convert_block(const Block<T>& from, Block<T>& to) {
  const DType d = to.dtype;
  if (from.real() && to.real()) {
    to.reals = from.reals;
    const bool widens = types::mantissa_bits(d) >= types::mantissa_bits(from.dtype) &&
                        types::exponent_bits(d) >= types::exponent_bits(from.dtype);
    if (widens) return;
    for (Real<T>& x : to.reals) {
      if (!x.is_nan()) x.lo = stored(x.lo, d), x.hi = stored(x.hi, d);
    }
  } else if (from.real()) {
    to.ints.reserve(from.reals.size());
    for (const Real<T>& x : from.reals) to.ints.push_back(real_to_int(x, d, [](T v) { return std::trunc(v); }));
  } else if (to.real()) {
    to.reals.reserve(from.ints.size());
    const auto narrow = [&](int64_t payload) {
      const types::Scalar s = types::is_unsigned(from.dtype) ? types::Scalar::from_u64(static_cast<uint64_t>(payload))
                                                             : types::Scalar::from_i64(payload);
      return T(types::convert(s, d).as_f64());
    };
    for (const Int& x : from.ints) {
      to.reals.push_back(d == DType::f32 || d == DType::f64 ? int_to_real<T>(x, from.dtype, d)
                                                            : Real<T>{narrow(x.lo), narrow(x.hi), x.flags});
    }
  } else {
    to.ints.reserve(from.ints.size());
    for (const Int& x : from.ints) to.ints.push_back(convert_int(x, from.dtype, d));
  }
}

template <class T>
const Block<T>& Evaluator<T>::as(ir::NodeId operand, DType dtype, Block<T>& room) const {
  const Block<T>& block = blocks_[operand.index()];
  if (block.dtype == dtype) return block;
  room.dtype = dtype;
  room.axes = block.axes;
  convert_block(block, room);
  return room;
}

template <class T>
void Evaluator<T>::cast(ir::NodeId id, Block<T>& out) {
  const Block<T>& in = blocks_[graph_.operands(id)[0].index()];
  convert_block(in, out);
}

template <class T>
void Evaluator<T>::elementwise_real(ir::NodeId id, Block<T>& out) {
  const Op op = graph_.node(id).op;
  const RealContext c = context(op, out.dtype);
  const std::span<const ir::NodeId> operands = graph_.operands(id);
  Block<T> rooms[3];
  const Real<T>* data[3] = {};
  std::array<Sizes, 3> sizes;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Block<T>& block = as(operands[k], out.dtype, rooms[k]);
    data[k] = block.reals.data();
    sizes[k] = block.axes.locals();
  }
  const Sizes space = out.axes.locals();
  const auto unary = [&](auto&& f) {
    each_part(out.reals.size(), [&](size_t from, size_t to) {
      for (size_t i = from; i < to; ++i) out.reals[i] = f(data[0][i]);
    });
  };
  const auto binary = [&](auto&& f) {
    each_element<2>(space, {sizes[0], sizes[1]},
                    [&](size_t i, const auto& at) { out.reals[i] = f(data[0][at[0]], data[1][at[1]]); });
  };
  const auto ternary = [&](auto&& f) {
    each_element<3>(space, sizes, [&](size_t i, const auto& at) {
      out.reals[i] = f(data[0][at[0]], data[1][at[1]], data[2][at[2]]);
    });
  };
  using R = Real<T>;
  const auto to_integer = [](auto&& f) { return [f](const R& x) { return to_integers(x, f); }; };
  switch (op) {
    case Op::add:
      return binary([&](const R& a, const R& b) { return a.is_nan() ? a : b.is_nan() ? b : add(a, b, c); });
    case Op::sub:
      return binary([&](const R& a, const R& b) { return a.is_nan() ? a : b.is_nan() ? b : add(a, negated(b), c); });
    case Op::mul:
      return binary([&](const R& a, const R& b) { return mul(a, b, c); });
    case Op::div:
      return binary([&](const R& a, const R& b) { return div(a, b, c); });
    case Op::pow:
      return binary([&](const R& a, const R& b) { return pow(a, b, c); });
    case Op::floordiv:
      return binary([&](const R& a, const R& b) { return floordiv(a, b, c); });
    case Op::mod:
      return binary([&](const R& a, const R& b) { return mod(a, b, c); });
    case Op::minimum:
      return binary([](const R& a, const R& b) { return minimum(a, b); });
    case Op::maximum:
      return binary([](const R& a, const R& b) { return maximum(a, b); });
    case Op::elu:
      return binary([&](const R& a, const R& b) { return elu(a, b, c); });
    case Op::leaky_relu:
      return binary([&](const R& a, const R& b) { return leaky_relu(a, b, c); });
    case Op::clamp:
      return ternary([](const R& x, const R& lo, const R& hi) { return minimum(maximum(x, lo), hi); });
    case Op::multiply_add:
      return ternary([&](const R& x, const R& y, const R& z) { return multiply_add(x, y, z, c); });
    case Op::softplus:
      return ternary([&](const R& x, const R& y, const R& z) { return softplus(x, y, z, c); });
    case Op::neg:
      return unary([](const R& x) { return negated(x); });
    case Op::abs:
      return unary([](const R& x) { return x.is_nan() ? x : absolute(x); });
    case Op::sign:
      return unary([](const R& x) {
        const auto f = [](T v) { return v > 0 ? T(1) : v < 0 ? T(-1) : T(0); };  // of -0, too
        return x.is_nan() ? x : step(f(x.lo), f(x.hi), x.flags);
      });
    case Op::floor:
      return unary(to_integer([](T v) { return std::floor(v); }));
    case Op::ceil:
      return unary(to_integer([](T v) { return std::ceil(v); }));
    case Op::trunc:
      return unary(to_integer([](T v) { return std::trunc(v); }));
    case Op::round:
      return unary(to_integer([](T v) { return to_nearest_integer(v); }));
    case Op::relu:
      return unary([](const R& x) {
        return x.is_nan() ? x : R{x.lo > 0 ? x.lo : T(0), x.hi > 0 ? x.hi : T(0), x.flags};
      });
    case Op::drelu:
      return unary([](const R& x) {
        const unsigned kept = x.flags & ambiguous;
        if (x.is_nan()) return R::point(0);
        return step(x.lo > 0 && (x.flags & may_be_nan) == 0 ? T(1) : T(0), x.hi > 0 ? T(1) : T(0), kept);
      });
    default:
      return unary([&](const R& x) { return real_unary(op, x, c); });
  }
}

template <class T>
void Evaluator<T>::elementwise_int(ir::NodeId id, Block<T>& out) {
  const Op op = graph_.node(id).op;
  const bool is_logical = types::op_info(op).rule == types::OpRule::logical;
  const std::span<const ir::NodeId> operands = graph_.operands(id);
  Block<T> rooms[3];
  const Int* data[3] = {};
  std::array<Sizes, 3> sizes;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Block<T>& block = as(operands[k], out.dtype, rooms[k]);
    data[k] = block.ints.data();
    sizes[k] = block.axes.locals();
  }
  each_element<3>(out.axes.locals(), sizes, [&](size_t i, const auto& at) {
    Int v[3] = {};
    for (size_t k = 0; k < operands.size(); ++k) v[k] = data[k][at[k]];
    out.ints[i] = is_logical ? logical(op, v[0], v[1]) : int_arithmetic(op, {v, operands.size()}, out.dtype);
  });
}

template <class T>
void Evaluator<T>::select(ir::NodeId id, Block<T>& out) {
  Block<T> rooms[2];
  const Block<T>& condition = blocks_[graph_.operands(id)[0].index()];
  const Block<T>& x = as(graph_.operands(id)[1], out.dtype, rooms[0]);
  const Block<T>& y = as(graph_.operands(id)[2], out.dtype, rooms[1]);
  each_element<3>(
      out.axes.locals(), {condition.axes.locals(), x.axes.locals(), y.axes.locals()}, [&](size_t i, const auto& at) {
        const Int& which = condition.ints[at[0]];
        if (out.real()) {
          const Real<T>&a = x.reals[at[1]], &b = y.reals[at[2]];
          const bool same = a.lo == b.lo && a.hi == b.hi;
          out.reals[i] = which.lo != which.hi ? hull(a, b, same ? 0u : unsigned{ambiguous}) : which.lo != 0 ? a : b;
        } else {
          const Int &a = x.ints[at[1]], &b = y.ints[at[2]];
          out.ints[i] = which.lo != which.hi ? int_hull(a, b, out.dtype, ambiguous) : which.lo != 0 ? a : b;
        }
      });
}

template <class T>
void Evaluator<T>::dropout(ir::NodeId id, Block<T>& out) {
  const RealContext c = context(Op::dropout, out.dtype);
  Block<T> rooms[3];
  const Block<T>& x = as(graph_.operands(id)[0], out.dtype, rooms[0]);
  const Block<T>& p = as(graph_.operands(id)[1], DType::f32, rooms[1]);
  const Block<T>& seed = as(graph_.operands(id)[2], DType::i64, rooms[2]);
  const T probability = p.reals[0].middle();
  const T rest = nearest(1 - probability, DType::f32);
  const auto key = static_cast<uint64_t>(seed.ints[0].lo);
  const bool vague = !p.reals[0].is_point() || !seed.ints[0].is_point();
  const Axes& axes = out.axes;
  size_t i = 0;
  for_each_row(axes.locals(), [&](int64_t, const Sizes& at) {
    uint64_t base = 0;
    for (size_t d = 0; d + 1 < axes.rank(); ++d)
      base = base * static_cast<uint64_t>(axes.full[d]) + static_cast<uint64_t>(axes.global(d, at[d]));
    const int64_t inner = axes.rank() == 0 ? 1 : axes.local(axes.rank() - 1);
    for (int64_t j = 0; j < inner && goes_on_at(j, inner); ++j, ++i) {
      const uint64_t index = axes.rank() == 0 ? 0
                                              : base * static_cast<uint64_t>(axes.full.back()) +
                                                    static_cast<uint64_t>(axes.global(axes.rank() - 1, j));
      const bool kept = T(philox_uniform(key, index)) >= probability;
      const Real<T>& v = x.reals[i];
      if (vague) {
        out.reals[i] = Real<T>::anything(v.flags);
      } else if (!kept) {
        out.reals[i] = Real<T>::point(0);
      } else if (v.is_nan()) {
        out.reals[i] = v;
      } else {
        const Real<T> q = rest == 1 ? v
                                    : inexact(v.lo / rest, v.hi / rest, v.lo == 0 || std::isinf(v.lo),
                                              v.hi == 0 || std::isinf(v.hi), v.flags, c);
        out.reals[i] = q;
      }
    }
  });
}

}  // namespace codetta::oracle
