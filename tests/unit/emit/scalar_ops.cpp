// SPDX-License-Identifier: Apache-2.0
#include "scalar_ops.hpp"

#include <cmath>
#include <limits>

#include "support/real_ops.hpp"
#include "types/op.hpp"

namespace codetta::emit {

using types::Op;

using package::ReduceKind;
using types::Scalar;

namespace {

__extension__ typedef __int128 Wide;

Wide floor_div(Wide x, Wide y) { return y == 0 ? 0 : x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0); }

// In 128 bits, wrapped to the type afterwards.
Wide integer_op(Op op, Wide x, Wide y, Wide z) {
  switch (op) {
    case Op::add:
      return x + y;
    case Op::sub:
      return x - y;
    case Op::mul:
      return x * y;
    case Op::floordiv:
      return floor_div(x, y);
    case Op::mod:
      return y == 0 ? 0 : x - floor_div(x, y) * y;
    case Op::neg:
      return -x;
    case Op::multiply_add:
      return x * y + z;
    case Op::minimum:
      return std::min(x, y);
    case Op::maximum:
      return std::max(x, y);
    case Op::clamp:
      return std::min(std::max(x, y), z);
    case Op::abs:
      return x < 0 ? -x : x;
    case Op::sign:
      return (x > 0) - (x < 0);
    case Op::relu:
      return x > 0 ? x : 0;
    case Op::drelu:
      return x > 0;
    case Op::pow: {
      uint64_t r = 1;
      for (auto i = static_cast<uint64_t>(y); i != 0; --i) r *= static_cast<uint64_t>(x);
      return static_cast<int64_t>(r);
    }
    default:
      return x;  // floor, ceil, round, trunc
  }
}

Wide wide_of(const Scalar& s) { return types::is_unsigned(s.dtype()) ? Wide(s.as_u64()) : Wide(s.as_i64()); }

template <class T>
bool compare(Op op, T x, T y) {
  switch (op) {
    case Op::eq:
      return x == y;
    case Op::ne:
      return x != y;
    case Op::lt:
      return x < y;
    case Op::le:
      return x <= y;
    case Op::gt:
      return x > y;
    default:
      return x >= y;
  }
}

}  // namespace

uint32_t philox_word(uint64_t seed, uint64_t index) {
  uint32_t c[4] = {static_cast<uint32_t>(index >> 2), static_cast<uint32_t>(index >> 34), 0, 0};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{c[0]} * 0xd2511f53u, b = uint64_t{c[2]} * 0xcd9e8d57u;
    const uint32_t n0 = static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, n2 = static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1;
    c[0] = n0;
    c[1] = static_cast<uint32_t>(b);
    c[2] = n2;
    c[3] = static_cast<uint32_t>(a);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c[index & 3];
}

Scalar scalar_op(Op op, DType type, const std::vector<Scalar>& in) {
  const types::OpInfo& info = types::op_info(op);
  if (info.rule == types::OpRule::compare) {
    if (types::is_float(type)) return Scalar::from_bool(compare(op, in[0].as_f64(), in[1].as_f64()));
    return Scalar::from_bool(compare(op, wide_of(in[0]), wide_of(in[1])));
  }
  switch (op) {
    case Op::logical_and:
      return Scalar::from_bool(in[0].as_bool() && in[1].as_bool());
    case Op::logical_or:
      return Scalar::from_bool(in[0].as_bool() || in[1].as_bool());
    case Op::logical_xor:
      return Scalar::from_bool(in[0].as_bool() != in[1].as_bool());
    case Op::logical_not:
      return Scalar::from_bool(!in[0].as_bool());
    case Op::where:
      return in[0].as_bool() ? in[1] : in[2];
    case Op::dropout: {
      const double u = (philox_word(in[2].as_u64(), in[3].as_u64()) >> 8) * 0x1p-24, p = in[1].as_f64();
      return Scalar::from_f64(u >= p ? in[0].as_f64() / (1 - p) : 0.0, type);
    }
    default:
      break;
  }
  if (types::is_float(type)) {
    const auto at = [&](size_t i) { return i < in.size() ? in[i].as_f64() : 0.0; };
    return Scalar::from_f64(test::real_op<double>(op, at(0), at(1), at(2)), type);
  }
  const auto at = [&](size_t i) { return i < in.size() ? wide_of(in[i]) : Wide(0); };
  return convert(Scalar::from_i64(static_cast<int64_t>(integer_op(op, at(0), at(1), at(2)))), type);
}

Scalar store_as(const Scalar& value, DType dtype) {
  if (types::is_float(value.dtype()) && types::is_integer(dtype))
    return convert(Scalar::from_f64(std::nearbyint(value.as_f64())), dtype);
  return convert(value, dtype);
}

bool close(const Scalar& got, const Scalar& exact, const Scalar& want, double tolerance) {
  if (!types::is_float(got.dtype())) return got == want;
  const double g = got.as_f64(), w = want.as_f64(), e = exact.as_f64();
  if (std::isnan(w) || std::isnan(g)) return std::isnan(w) && std::isnan(g);
  if (g == w) return true;
  const double rounding = std::fabs(w) * 2 * types::unit_roundoff(got.dtype()) + types::min_subnormal(got.dtype());
  return std::fabs(g - w) <= rounding + tolerance * std::max(1.0, std::fabs(e));
}

ScalarReducer::ScalarReducer(ReduceKind kind, DType type) : kind_(kind), type_(type) {
  const double inf = std::numeric_limits<double>::infinity();
  top_ = kind == ReduceKind::Min ? inf : -inf;
  if (kind == ReduceKind::Max) bits_ = static_cast<uint64_t>(types::min_int(type));
  if (kind == ReduceKind::Min) bits_ = types::max_int(type);
}

void ScalarReducer::add(const Scalar& value) {
  if (package::values_of(kind_) == 2) return add_partial(value, Scalar::from_f64(1.0));
  add_partial(value, Scalar());
}

void ScalarReducer::add_partial(const Scalar& first, const Scalar& second) {
  if (!types::is_float(type_)) {
    const Scalar now = convert(Scalar::from_u64(bits_), type_);
    const Op op = kind_ == ReduceKind::Sum ? Op::add : kind_ == ReduceKind::Max ? Op::maximum : Op::minimum;
    bits_ = scalar_op(op, type_, {now, first}).as_u64();
    return;
  }
  const double x = first.as_f64();
  switch (kind_) {
    case ReduceKind::Sum:
      sum_ += x;
      break;
    case ReduceKind::Max:
      top_ = test::real_op<double>(Op::maximum, top_, x, 0);
      break;
    case ReduceKind::Min:
      top_ = test::real_op<double>(Op::minimum, top_, x, 0);
      break;
    case ReduceKind::LogSumExp:
    case ReduceKind::SumExp: {
      const double s = second.as_f64(), top = std::max(top_, x);
      sum_ = (top_ == top ? sum_ : sum_ * std::exp(top_ - top)) + (x == top ? s : s * std::exp(x - top));
      if (std::isnan(x)) sum_ = x;
      top_ = top;
      break;
    }
  }
}

Scalar ScalarReducer::value() const {
  if (!types::is_float(type_)) return convert(Scalar::from_u64(bits_), type_);
  if (kind_ == ReduceKind::LogSumExp) return Scalar::from_f64(top_ + std::log(sum_), type_);
  if (kind_ == ReduceKind::SumExp && std::isinf(top_) && sum_ != 0) return Scalar::from_f64(top_ - top_, type_);
  return Scalar::from_f64(kind_ == ReduceKind::Sum || kind_ == ReduceKind::SumExp ? sum_ : top_, type_);
}

}  // namespace codetta::emit
