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

bool prove(const Dim& dim, Budget budget) {
  if (dim.fault() != DimFault::none) return false;
  if (const auto low = dim.lower_bound(); low && *low >= 0) return true;
  const auto* node = DimBuilder::node(dim);
  if (node == nullptr || budget.replacements == 0 || --*budget.attempts < 0) return false;
  for (const Term& term : node->terms) {
    if (term.factors.size() != 1) continue;
    if (prove_with(dim - DimBuilder::build({term}), term.coefficient, *term.factors[0], budget)) return true;
  }
  return false;
}

}  // namespace

bool is_non_negative(const Dim& dim) {
  int attempts = max_attempts;
  return prove(dim, {max_replacements, &attempts});
}

}  // namespace codetta::types
