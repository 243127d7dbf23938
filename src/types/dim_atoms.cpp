// SPDX-License-Identifier: Apache-2.0
// Division, remainder, min and max of symbolic integers: what can be known of their ranges, and the rewrites that are
// exact for all symbols >= 0.
#include <algorithm>
#include <limits>
#include <numeric>

#include "types/dim.hpp"
#include "types/dim_node.hpp"

namespace codetta::types {
namespace {

using Bound = std::optional<int64_t>;

Bound add(Bound a, Bound b) {
  int64_t r = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &r)) return std::nullopt;
  return r;
}
Bound multiply(Bound a, Bound b) {
  int64_t r = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &r)) return std::nullopt;
  return r;
}

int64_t floor_of(int64_t a, int64_t positive) {
  const int64_t q = a / positive;
  return a % positive < 0 ? q - 1 : q;
}
int64_t residue_of(int64_t a, int64_t positive) {
  const int64_t r = a % positive;
  return r < 0 ? r + positive : r;
}

DimRange range_of(const Atom& atom) {
  switch (atom.kind) {
    case AtomKind::symbol:
      return {0, std::nullopt};
    case AtomKind::floordiv: {
      const auto k = atom.args[1].as_constant();
      const DimRange a = types::range_of(atom.args[0]);
      if (k && *k > 0) {
        return {a.low ? Bound(floor_of(*a.low, *k)) : std::nullopt,
                a.high ? Bound(floor_of(*a.high, *k)) : std::nullopt};
      }
      // A value >= 0 over one >= 1 (a zero divisor has no value) lies between 0 and itself.
      const DimRange b = types::range_of(atom.args[1]);
      if (a.low && *a.low >= 0 && b.low && *b.low >= 0) return {0, a.high};
      return {};
    }
    case AtomKind::mod: {
      const DimRange b = types::range_of(atom.args[1]);
      if (!b.low || *b.low < 0) return {};
      return {0, b.high ? Bound(*b.high - 1) : std::nullopt};
    }
    case AtomKind::min:
    case AtomKind::max:
      break;
  }
  // Of min the upper end is the least known one and the lower end needs all of them; of max the reverse.
  const bool is_min = atom.kind == AtomKind::min;
  DimRange r = types::range_of(atom.args[0]);
  for (size_t i = 1; i < atom.args.size(); ++i) {
    const DimRange next = types::range_of(atom.args[i]);
    const auto all = [is_min](Bound x, Bound y) -> Bound {
      if (!x || !y) return std::nullopt;
      return is_min ? std::min(*x, *y) : std::max(*x, *y);
    };
    const auto any = [&all](Bound x, Bound y) -> Bound { return x && y ? all(x, y) : (x ? x : y); };
    r = is_min ? DimRange{all(r.low, next.low), any(r.high, next.high)}
               : DimRange{any(r.low, next.low), all(r.high, next.high)};
  }
  return r;
}

DimRange range_of(const Term& t) {
  DimRange r{1, 1};
  for (const AtomRef& f : t.factors) {
    const DimRange next = range_of(*f);
    if (!next.low || *next.low < 0) {
      if (t.factors.size() > 1) return {};
      r = next;
      break;
    }
    r = {multiply(r.low, next.low), multiply(r.high, next.high)};
    if (!r.low) return {};
  }
  const Bound c = t.coefficient;
  return t.coefficient >= 0 ? DimRange{multiply(r.low, c), multiply(r.high, c)}
                            : DimRange{multiply(r.high, c), multiply(r.low, c)};
}

bool lies_in(const Dim& d, int64_t low, int64_t high) {
  const DimRange r = types::range_of(d);
  return r.low && r.high && *r.low >= low && *r.high <= high;
}

Dim constant_times(int64_t c, const Dim& d) { return Dim::constant(c) * d; }

// a = quotient * k + rest with all coefficients of rest in [0, k); rest = step * inner + offset, 0 <= offset < k, where
// step divides k and inner has no constant term. Then a // k and a % k follow from inner and k / step alone.
struct Split {
  Dim quotient;
  Dim rest;
  Dim inner;
  int64_t step = 1;
  int64_t offset = 0;
};
Split split(const Dim& a, int64_t k) {
  std::vector<Term> quotient, rest, inner;
  int64_t offset = 0, step = k;
  for (const Term& t : DimBuilder::terms(a)) {
    const int64_t residue = residue_of(t.coefficient, k);
    quotient.push_back({floor_of(t.coefficient, k), t.factors});
    rest.push_back({residue, t.factors});
    if (t.factors.empty()) {
      offset = residue;
    } else if (residue != 0) {
      inner.push_back({residue, t.factors});
      step = std::gcd(step, residue);
    }
  }
  for (Term& t : inner) t.coefficient /= step;
  Split s;
  s.quotient = DimBuilder::build(std::move(quotient));
  s.rest = DimBuilder::build(std::move(rest));
  s.inner = DimBuilder::build(std::move(inner));
  s.step = step;
  s.offset = offset;
  return s;
}

// The only atom of `d` = atom + constant with coefficient 1; its constant goes to `offset`.
const Atom* sole_atom(const Dim& d, int64_t& offset) {
  const auto* node = DimBuilder::node(d);
  if (node == nullptr || node->terms.size() > 2) return nullptr;
  const Term& t = node->terms[0];
  if (t.coefficient != 1 || t.factors.size() != 1) return nullptr;
  offset = 0;
  if (node->terms.size() == 2) {
    if (!node->terms[1].factors.empty()) return nullptr;
    offset = node->terms[1].coefficient;
  }
  return t.factors[0].get();
}

Dim divide_by_constant(const Dim& a, int64_t k) {
  const Split s = split(a, k);
  for (const Dim* part : {&s.quotient, &s.rest, &s.inner}) {
    if (part->fault() != DimFault::none) return *part;
  }
  if (lies_in(s.rest, 0, k - 1)) return s.quotient;
  // (step * inner + offset) // k == (inner + offset // step) // (k / step)
  const int64_t divisor = k / s.step;
  const Dim dividend = s.inner + Dim::constant(s.offset / s.step);
  if (divisor == 1) return s.quotient + dividend;
  // (x // j + c) // k == (x + c * j) // (j * k)
  int64_t offset = 0;
  if (const Atom* atom = sole_atom(dividend, offset); atom != nullptr && atom->kind == AtomKind::floordiv) {
    const auto j = atom->args[1].as_constant();
    int64_t product = 0;
    if (j && *j > 0 && !__builtin_mul_overflow(*j, divisor, &product)) {
      const Dim moved = atom->args[0] + constant_times(offset, Dim::constant(*j));
      if (moved.fault() == DimFault::none) return s.quotient + divide_by_constant(moved, product);
    }
  }
  return s.quotient + DimBuilder::from_atom({AtomKind::floordiv, {}, {dividend, Dim::constant(divisor)}});
}

Dim remainder_by_constant(const Dim& a, int64_t k) {
  const Split s = split(a, k);
  for (const Dim* part : {&s.rest, &s.inner}) {
    if (part->fault() != DimFault::none) return *part;
  }
  if (lies_in(s.rest, 0, k - 1)) return s.rest;
  // (step * inner + offset) % k == step * ((inner + offset // step) % (k / step)) + offset % step
  const int64_t divisor = k / s.step;
  if (divisor == 1) return Dim::constant(s.offset % s.step);
  const Dim dividend = s.inner + Dim::constant(s.offset / s.step);
  // x % j % k == x % k where k divides j
  int64_t offset = 0;
  if (const Atom* atom = sole_atom(dividend, offset); atom != nullptr && atom->kind == AtomKind::mod) {
    const auto j = atom->args[1].as_constant();
    if (j && *j > 0 && *j % divisor == 0) {
      const Dim moved = atom->args[0] + Dim::constant(offset);
      if (moved.fault() == DimFault::none) {
        return constant_times(s.step, remainder_by_constant(moved, divisor)) + Dim::constant(s.offset % s.step);
      }
    }
  }
  const Dim atom = DimBuilder::from_atom({AtomKind::mod, {}, {dividend, Dim::constant(divisor)}});
  return constant_times(s.step, atom) + Dim::constant(s.offset % s.step);
}

Dim divide(const Dim& a, const Dim& b, AtomKind kind) {
  if (a.fault() != DimFault::none) return a;
  if (b.fault() != DimFault::none) return b;
  const bool want_quotient = kind == AtomKind::floordiv;
  if (const auto k = b.as_constant()) {
    if (*k == 0) return Dim::faulty(DimFault::division_by_zero);
    if (*k == std::numeric_limits<int64_t>::min()) return Dim::faulty(DimFault::overflow);
    const Dim dividend = *k > 0 ? a : -a;
    if (dividend.fault() != DimFault::none) return dividend;
    if (want_quotient) return divide_by_constant(dividend, *k > 0 ? *k : -*k);
    return *k > 0 ? remainder_by_constant(dividend, *k) : -remainder_by_constant(dividend, -*k);
  }
  // Symbolic divisors may be 0, and then there is no value: only a divisor known to be positive is divided out.
  const DimRange divisor = range_of(b);
  if (divisor.low && *divisor.low >= 1) {
    if (const auto q = exact_quotient(a, b)) return want_quotient ? *q : Dim::constant(0);
    const DimRange dividend = range_of(a);
    const DimRange gap = range_of(b - a);
    if (dividend.low && *dividend.low >= 0 && gap.low && *gap.low >= 1) return want_quotient ? Dim::constant(0) : a;
  }
  return DimBuilder::from_atom({kind, {}, {a, b}});
}

constexpr size_t max_arguments = 64;  // each is compared with each

Dim extremum(const Dim& a, const Dim& b, AtomKind kind) {
  if (a.fault() != DimFault::none) return a;
  if (b.fault() != DimFault::none) return b;
  std::vector<Dim> all;
  for (const Dim* d : {&a, &b}) {
    const auto* node = DimBuilder::node(*d);
    const bool nested = node != nullptr && node->terms.size() == 1 && node->terms[0].coefficient == 1 &&
                        node->terms[0].factors.size() == 1 && node->terms[0].factors[0]->kind == kind;
    if (nested) {
      const auto& args = node->terms[0].factors[0]->args;
      all.insert(all.end(), args.begin(), args.end());
    } else {
      all.push_back(*d);
    }
  }
  if (all.size() > max_arguments) return Dim::faulty(DimFault::too_large);
  std::sort(all.begin(), all.end(), [](const Dim& x, const Dim& y) { return Dim::order(x, y) < 0; });
  // True when x can be left out because y is there.
  const auto yields = [kind](const Dim& x, const Dim& y) {
    const DimRange gap = kind == AtomKind::min ? range_of(x - y) : range_of(y - x);
    return x == y || (gap.low && *gap.low >= 0);
  };
  std::vector<Dim> kept;
  for (const Dim& d : all) {
    if (std::any_of(kept.begin(), kept.end(), [&](const Dim& k) { return yields(d, k); })) continue;
    std::erase_if(kept, [&](const Dim& k) { return yields(k, d); });
    kept.push_back(d);
  }
  if (kept.size() == 1) return kept[0];
  return DimBuilder::from_atom({kind, {}, std::move(kept)});
}

}  // namespace

DimRange range_of(const Dim& d) {
  if (d.fault() != DimFault::none) return {};
  const auto* node = DimBuilder::node(d);
  if (node == nullptr) return {d.as_constant(), d.as_constant()};
  DimRange r{0, 0};
  for (const Term& t : node->terms) {
    const DimRange next = range_of(t);
    r = {add(r.low, next.low), add(r.high, next.high)};
  }
  return r;
}

Dim floordiv(const Dim& a, const Dim& b) { return divide(a, b, AtomKind::floordiv); }
Dim mod(const Dim& a, const Dim& b) { return divide(a, b, AtomKind::mod); }
Dim min(const Dim& a, const Dim& b) { return extremum(a, b, AtomKind::min); }
Dim max(const Dim& a, const Dim& b) { return extremum(a, b, AtomKind::max); }

std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
  if (a.fault() != DimFault::none || b.fault() != DimFault::none || b == Dim::constant(0)) return std::nullopt;
  const auto divisor = DimBuilder::terms(b);
  const auto dividend = DimBuilder::terms(a);
  const int64_t lead = divisor[0].coefficient;
  if (divisor.size() > 1) {
    // A constant multiple of b, or nothing.
    // By -1 the least integer has no quotient, and the processor traps.
    if (lead == -1 || dividend[0].coefficient % lead != 0) return std::nullopt;
    const Dim q = Dim::constant(dividend[0].coefficient / lead);
    if (q * b == a) return q;
    return std::nullopt;
  }
  std::vector<Term> quotient;
  for (const Term& t : dividend) {
    if (t.coefficient == 0) continue;
    if (lead == -1 && t.coefficient == std::numeric_limits<int64_t>::min()) return std::nullopt;
    if (t.coefficient % lead != 0) return std::nullopt;
    Term q{t.coefficient / lead, {}};
    std::set_difference(t.factors.begin(), t.factors.end(), divisor[0].factors.begin(), divisor[0].factors.end(),
                        std::back_inserter(q.factors),
                        [](const AtomRef& x, const AtomRef& y) { return compare(*x, *y) < 0; });
    if (q.factors.size() + divisor[0].factors.size() != t.factors.size()) return std::nullopt;
    quotient.push_back(std::move(q));
  }
  return DimBuilder::build(std::move(quotient));
}

}  // namespace codetta::types
