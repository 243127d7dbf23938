// SPDX-License-Identifier: Apache-2.0
// is_non_negative: interval bounds first, then one atom after the other is replaced by what bounds it.
#include "types/dim_node.hpp"

namespace codetta::types {
namespace {

constexpr int max_replacements = 8, max_attempts = 200;

// What is left to spend: of one chain of replacements, and of all attempts together.
struct Budget {
  int replacements = max_replacements;
  int* attempts;
};
bool prove(const Dim& dim, Budget budget);

// `rest` + coefficient * atom >= 0, shown by what bounds the atom on the side that matters.
bool prove_with(const Dim& rest, int64_t coefficient, const Atom& atom, Budget budget) {
  --budget.replacements;
  const Dim k = Dim::constant(coefficient);
  switch (atom.kind) {
    case AtomKind::symbol:
    case AtomKind::mod:
      return false;
    case AtomKind::floordiv: {  // a - c + 1 <= c * (a // c) <= a for c > 0
      const auto c = atom.args[1].as_constant();
      if (!c || *c <= 0) return false;
      const Dim divisor = Dim::constant(*c);
      const Dim bound = coefficient < 0 ? atom.args[0] : atom.args[0] - Dim::constant(*c - 1);
      return prove(divisor * rest + k * bound, budget);
    }
    case AtomKind::min:
    case AtomKind::max:
      break;
  }
  // min is every one of its arguments at most, so a negative multiple needs one proof and a positive one needs all; max
  // the reverse.
  const bool any = (atom.kind == AtomKind::min) == (coefficient < 0);
  for (const Dim& arg : atom.args) {
    if (prove(rest + k * arg, budget) == any) return any;
  }
  return !any;
}

// Two floors: a // c >= b // d where a >= b >= 0 and c <= d, so one of each can be left out of the sum; and a // d is
// (a // c) // e where d = c * e.
bool prove_pair(const Dim& dim, const Term& high, const Term& low, Budget budget) {
  const Atom &a = *high.factors[0], &b = *low.factors[0];
  if (a.kind != AtomKind::floordiv || b.kind != AtomKind::floordiv) return false;
  const auto c = a.args[1].as_constant(), d = b.args[1].as_constant();
  if (!c || !d || *c <= 0 || *c > *d) return false;
  --budget.replacements;
  const Dim first = DimBuilder::build({{1, high.factors}}), second = DimBuilder::build({{1, low.factors}});
  if (a.args[0] == b.args[0] && *d % *c == 0 && *d > *c) {
    const Dim rest = dim - DimBuilder::build({low});
    if (prove(Dim::constant(*d / *c) * rest + Dim::constant(low.coefficient) * first, budget)) return true;
  }
  return prove(dim - first + second, budget) && prove(a.args[0] - b.args[0], budget) && prove(b.args[0], budget);
}

bool prove(const Dim& dim, Budget budget) {
  if (dim.fault() != DimFault::none) return false;
  if (const auto low = dim.lower_bound(); low && *low >= 0) return true;
  const auto* node = DimBuilder::node(dim);
  if (node == nullptr || budget.replacements == 0 || --*budget.attempts < 0) return false;
  for (const Term& term : node->terms) {
    if (term.factors.size() != 1) continue;
    if (prove_with(dim - DimBuilder::build({term}), term.coefficient, *term.factors[0], budget)) return true;
  }
  for (const Term& high : node->terms) {
    for (const Term& low : node->terms) {
      const bool apart =
          high.coefficient > 0 && low.coefficient < 0 && high.factors.size() == 1 && low.factors.size() == 1;
      if (apart && prove_pair(dim, high, low, budget)) return true;
    }
  }
  return false;
}

}  // namespace

bool is_non_negative(const Dim& dim) {
  int attempts = max_attempts;
  return prove(dim, {max_replacements, &attempts});
}

}  // namespace codetta::types
