// SPDX-License-Identifier: Apache-2.0
#include "oracle/int_ops.hpp"

#include <algorithm>

namespace codetta::oracle {
namespace {

using types::Op;

Wide floor_quotient(Wide a, Wide b) {
  const Wide q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t wrapping_power(uint64_t base, uint64_t exponent, DType d) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= base;
    base *= base;
  }
  return wrapped(result, d);
}

struct Range {
  Wide lo, hi;
};

// Ends of a product; 64-bit factors can't overflow 128 bits but for u64 * u64, which is unsigned.
Int product(Range x, Range y, DType d, unsigned flags) {
  if (x.lo == x.hi && y.lo == y.hi) {
    const int64_t p = wrapped(static_cast<uint64_t>(x.lo) * static_cast<uint64_t>(y.lo), d);
    return {p, p, static_cast<uint8_t>(flags)};
  }
  constexpr Wide safe = Wide(1) << 62;
  if (x.lo < -safe || x.hi > safe || y.lo < -safe || y.hi > safe) return any_int(d, flags);
  const Wide ends[] = {x.lo * y.lo, x.lo * y.hi, x.hi * y.lo, x.hi * y.hi};
  return int_result(*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4), d, flags);
}

// Is each end's function value an end of the result's? Then f maps ends to ends.
template <class F>
Int monotone(Range x, DType d, unsigned flags, F&& f) {
  return int_result(f(x.lo), f(x.hi), d, flags);
}

Int quotient(Op op, Range x, Range y, DType d, unsigned flags) {
  if (!(x.lo == x.hi && y.lo == y.hi)) return any_int(d, flags);
  if (y.lo == 0) return {0, 0, static_cast<uint8_t>(flags)};
  const Wide q = floor_quotient(x.lo, y.lo);
  const Wide r = op == Op::floordiv ? q : x.lo - q * y.lo;
  return int_result(r, r, d, flags);
}

Wide sign_of(Wide x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

}  // namespace

Int int_arithmetic(Op op, std::span<const Int> operands, DType d) {
  unsigned flags = 0;
  Range v[3] = {};
  for (size_t i = 0; i < operands.size() && i < 3; ++i) {
    flags |= operands[i].flags;
    v[i] = {widened(operands[i].lo, d), widened(operands[i].hi, d)};
  }
  const Range x = v[0], y = v[1], z = v[2];
  switch (op) {
    case Op::add:
      return int_result(x.lo + y.lo, x.hi + y.hi, d, flags);
    case Op::sub:
      return int_result(x.lo - y.hi, x.hi - y.lo, d, flags);
    case Op::mul:
      return product(x, y, d, flags);
    case Op::multiply_add: {
      const Int p = product(x, y, d, flags);
      return int_result(widened(p.lo, d) + z.lo, widened(p.hi, d) + z.hi, d, flags | p.flags);
    }
    case Op::pow:
      if (!(x.lo == x.hi && y.lo == y.hi)) return any_int(d, flags);
      return {wrapping_power(static_cast<uint64_t>(x.lo), static_cast<uint64_t>(y.lo), d),
              wrapping_power(static_cast<uint64_t>(x.lo), static_cast<uint64_t>(y.lo), d), static_cast<uint8_t>(flags)};
    case Op::floordiv:
    case Op::mod:
      return quotient(op, x, y, d, flags);
    case Op::neg:
      return int_result(-x.hi, -x.lo, d, flags);
    case Op::abs:
      if (x.lo < 0 && x.hi > 0) return int_result(0, std::max(-x.lo, x.hi), d, flags);
      return x.hi > 0 ? int_result(x.lo, x.hi, d, flags) : int_result(-x.hi, -x.lo, d, flags);
    case Op::sign:
      return monotone(x, d, flags, sign_of);
    case Op::drelu:
      return monotone(x, d, flags, [](Wide a) { return Wide(a > 0 ? 1 : 0); });
    case Op::relu:
      return monotone(x, d, flags, [](Wide a) { return std::max<Wide>(a, 0); });
    case Op::minimum:
      return int_result(std::min(x.lo, y.lo), std::min(x.hi, y.hi), d, flags);
    case Op::maximum:
      return int_result(std::max(x.lo, y.lo), std::max(x.hi, y.hi), d, flags);
    case Op::clamp:
      return int_result(std::min(std::max(x.lo, y.lo), z.lo), std::min(std::max(x.hi, y.hi), z.hi), d, flags);
    default:
      return operands[0];  // floor, ceil, round, trunc
  }
}

Int compared(Op op, Outcomes p, unsigned flags) {
  bool yes = false, no = false;
  const auto outcome = [&](bool possible, bool result) {
    if (possible) (result ? yes : no) = true;
  };
  outcome(p.less, op == Op::lt || op == Op::le || op == Op::ne);
  outcome(p.equal, op == Op::eq || op == Op::le || op == Op::ge);
  outcome(p.greater, op == Op::gt || op == Op::ge || op == Op::ne);
  outcome(p.unordered, op == Op::ne);
  return {no ? 0 : 1, yes ? 1 : 0, static_cast<uint8_t>((flags & ambiguous) | (yes && no ? ambiguous : 0))};
}

Outcomes compare_ints(const Int& a, const Int& b, DType d) {
  const Range x{widened(a.lo, d), widened(a.hi, d)}, y{widened(b.lo, d), widened(b.hi, d)};
  return {x.lo < y.hi, x.lo <= y.hi && y.lo <= x.hi, x.hi > y.lo, false};
}

Int logical(Op op, const Int& a, const Int& b) {
  const auto flags = static_cast<uint8_t>(a.flags | b.flags);
  switch (op) {
    case Op::logical_not:
      return {1 - a.hi, 1 - a.lo, a.flags};
    case Op::logical_and:
      return {a.lo & b.lo, a.hi & b.hi, flags};
    case Op::logical_or:
      return {a.lo | b.lo, a.hi | b.hi, flags};
    default:
      break;
  }
  if (a.is_point() && b.is_point()) return {a.lo ^ b.lo, a.lo ^ b.lo, flags};
  return {0, 1, static_cast<uint8_t>(flags | ambiguous)};
}

Int int_hull(const Int& a, const Int& b, DType d, unsigned flags) {
  const bool low = widened(b.lo, d)<widened(a.lo, d), high = widened(b.hi, d)> widened(a.hi, d);
  return {low ? b.lo : a.lo, high ? b.hi : a.hi, static_cast<uint8_t>(a.flags | b.flags | flags)};
}

Int convert_int(const Int& x, DType from, DType to) {
  if (types::is_bool(to)) {
    const Wide lo = widened(x.lo, from), hi = widened(x.hi, from);
    const bool zero = lo <= 0 && hi >= 0, other = lo != 0 || hi != 0;
    return {zero ? 0 : 1, other ? 1 : 0, x.flags};
  }
  return int_result(widened(x.lo, from), widened(x.hi, from), to, x.flags);
}

}  // namespace codetta::oracle
