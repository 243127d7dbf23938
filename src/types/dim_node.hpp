// SPDX-License-Identifier: Apache-2.0
// The canonical polynomial inside of a Dim. Private to dim*.cpp.
#pragma once

#include <string>
#include <vector>

#include "types/dim.hpp"

namespace codetta::types {

enum class AtomKind : uint8_t { symbol, floordiv, mod, min, max };

struct Atom {
  AtomKind kind = AtomKind::symbol;
  std::string name;       // symbol
  std::vector<Dim> args;  // floordiv, mod: dividend, divisor; min, max: two or more, sorted
};
using AtomRef = std::shared_ptr<const Atom>;

std::strong_ordering compare(const Atom& a, const Atom& b);

// A product of atoms, sorted, repeated for powers; the constant term has none.
struct Term {
  int64_t coefficient = 0;
  std::vector<AtomRef> factors;
};
std::strong_ordering compare_factors(const Term& a, const Term& b);  // higher degree first, so constants come last

// Terms sorted by compare_factors, no two alike, no zero coefficients, and not just a constant.
struct Dim::Node {
  std::vector<Term> terms;
  int64_t nodes = 0;  // of the expression tree
};

// Makes canonical Dims from any list of terms.
struct DimBuilder {
  static Dim build(std::vector<Term> terms);  // sorts and merges
  static std::vector<Term> terms(const Dim& d);
  static Dim from_atom(Atom atom);
  static const Dim::Node* node(const Dim& d) { return d.node_.get(); }
};

struct DimRange {
  std::optional<int64_t> low, high;
};
DimRange range_of(const Dim& d);

}  // namespace codetta::types
