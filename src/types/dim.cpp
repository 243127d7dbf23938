// SPDX-License-Identifier: Apache-2.0
// Canonical form, ordering, ring arithmetic and evaluation of symbolic integers.
#include "types/dim.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "types/dim_node.hpp"
#include "types/dim_substitute.hpp"

namespace codetta::types {
namespace {

int64_t nodes_of(const Dim& d) {
  const auto* node = DimBuilder::node(d);
  return node == nullptr ? 1 : node->nodes;
}

int64_t nodes_of(const Atom& atom) {
  int64_t n = 1;
  for (const Dim& d : atom.args) n += nodes_of(d);
  return n;
}

// The fault of either operand, if any.
DimFault fault_of(const Dim& a, const Dim& b) { return a.fault() != DimFault::none ? a.fault() : b.fault(); }

void collect_symbols(const Dim& d, std::set<std::string>& out) {
  const auto* node = DimBuilder::node(d);
  if (node == nullptr) return;
  for (const Term& t : node->terms) {
    for (const AtomRef& f : t.factors) {
      if (f->kind == AtomKind::symbol) out.insert(f->name);
      for (const Dim& arg : f->args) collect_symbols(arg, out);
    }
  }
}

}  // namespace

std::string_view to_string(DimFault fault) {
  switch (fault) {
    case DimFault::none:
      return "none";
    case DimFault::overflow:
      return "overflow";
    case DimFault::division_by_zero:
      return "division by zero";
    case DimFault::too_large:
      return "too large";
    case DimFault::unbound:
      break;
  }
  return "unbound symbol";
}

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (const auto c = a.kind <=> b.kind; c != 0) return c;
  if (a.kind == AtomKind::symbol) return a.name.compare(b.name) <=> 0;
  return std::lexicographical_compare_three_way(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), Dim::order);
}

std::strong_ordering compare_factors(const Term& a, const Term& b) {
  if (const auto c = b.factors.size() <=> a.factors.size(); c != 0) return c;
  return std::lexicographical_compare_three_way(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(),
                                                [](const AtomRef& x, const AtomRef& y) { return compare(*x, *y); });
}

Dim DimBuilder::build(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return compare_factors(a, b) < 0; });
  std::vector<Term> merged;
  for (Term& t : terms) {
    if (!merged.empty() && compare_factors(merged.back(), t) == 0) {
      int64_t& c = merged.back().coefficient;
      if (__builtin_add_overflow(c, t.coefficient, &c)) return Dim::faulty(DimFault::overflow);
    } else {
      merged.push_back(std::move(t));
    }
  }
  std::erase_if(merged, [](const Term& t) { return t.coefficient == 0; });
  if (merged.empty()) return Dim::constant(0);
  if (merged.size() == 1 && merged[0].factors.empty()) return Dim::constant(merged[0].coefficient);
  auto node = std::make_shared<Dim::Node>();
  for (const Term& t : merged) {
    ++node->nodes;
    for (const AtomRef& f : t.factors) node->nodes += nodes_of(*f);
  }
  if (node->nodes > max_dim_nodes) return Dim::faulty(DimFault::too_large);
  node->terms = std::move(merged);
  Dim d;
  d.node_ = std::move(node);
  return d;
}

std::vector<Term> DimBuilder::terms(const Dim& d) {
  if (d.node_ != nullptr) return d.node_->terms;
  return {Term{d.constant_, {}}};
}

Dim DimBuilder::from_atom(Atom atom) { return build({Term{1, {std::make_shared<const Atom>(std::move(atom))}}}); }

Dim Dim::constant(int64_t value) {
  Dim d;
  d.constant_ = value;
  return d;
}

Dim Dim::symbol(std::string name) { return DimBuilder::from_atom({AtomKind::symbol, std::move(name), {}}); }

Dim Dim::faulty(DimFault fault) {
  Dim d;
  d.fault_ = fault;
  return d;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (const DimFault f = fault_of(a, b); f != DimFault::none) return Dim::faulty(f);
  auto terms = DimBuilder::terms(a);
  const auto more = DimBuilder::terms(b);
  terms.insert(terms.end(), more.begin(), more.end());
  return DimBuilder::build(std::move(terms));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (const DimFault f = fault_of(a, b); f != DimFault::none) return Dim::faulty(f);
  const auto left = DimBuilder::terms(a), right = DimBuilder::terms(b);
  if (static_cast<int64_t>(left.size() * right.size()) > max_dim_nodes) return Dim::faulty(DimFault::too_large);
  std::vector<Term> terms;
  terms.reserve(left.size() * right.size());
  for (const Term& x : left) {
    for (const Term& y : right) {
      Term t;
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &t.coefficient)) return Dim::faulty(DimFault::overflow);
      if (static_cast<int64_t>(x.factors.size() + y.factors.size()) > max_dim_nodes) {
        return Dim::faulty(DimFault::too_large);
      }
      std::merge(x.factors.begin(), x.factors.end(), y.factors.begin(), y.factors.end(), std::back_inserter(t.factors),
                 [](const AtomRef& p, const AtomRef& q) { return compare(*p, *q) < 0; });
      terms.push_back(std::move(t));
    }
  }
  return DimBuilder::build(std::move(terms));
}

Dim operator-(const Dim& a) { return a * Dim::constant(-1); }
Dim operator-(const Dim& a, const Dim& b) { return a + -b; }

std::optional<int64_t> Dim::as_constant() const {
  if (!is_constant()) return std::nullopt;
  return constant_;
}

std::optional<std::string_view> Dim::as_symbol() const {
  if (node_ == nullptr || node_->terms.size() != 1) return std::nullopt;
  const Term& t = node_->terms[0];
  if (t.coefficient != 1 || t.factors.size() != 1 || t.factors[0]->kind != AtomKind::symbol) return std::nullopt;
  return std::string_view(t.factors[0]->name);
}

std::optional<int64_t> Dim::lower_bound() const { return range_of(*this).low; }
std::optional<int64_t> Dim::upper_bound() const { return range_of(*this).high; }

std::vector<std::string> Dim::symbols() const {
  std::set<std::string> names;
  collect_symbols(*this, names);
  return {names.begin(), names.end()};
}

bool Dim::operator==(const Dim& o) const {
  return fault_ == DimFault::none && o.fault_ == DimFault::none && order(*this, o) == 0;
}

std::strong_ordering Dim::order(const Dim& a, const Dim& b) {
  if (const auto c = a.fault_ <=> b.fault_; c != 0) return c;
  if (a.node_ == b.node_) return a.constant_ <=> b.constant_;
  if (a.node_ == nullptr) return std::strong_ordering::less;
  if (b.node_ == nullptr) return std::strong_ordering::greater;
  return std::lexicographical_compare_three_way(a.node_->terms.begin(), a.node_->terms.end(), b.node_->terms.begin(),
                                                b.node_->terms.end(), [](const Term& x, const Term& y) {
                                                  const auto c = compare_factors(x, y);
                                                  return c != 0 ? c : x.coefficient <=> y.coefficient;
                                                });
}

namespace {

// Floor division and its remainder; the divisor is not 0. Only INT64_MIN // -1 overflows.
std::optional<int64_t> floor_quotient(int64_t a, int64_t b) {
  if (b == -1 && a == std::numeric_limits<int64_t>::min()) return std::nullopt;
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
int64_t floor_remainder(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

struct Evaluator {
  const Dim::Lookup& value_of;
  DimFault fault = DimFault::none;

  std::optional<int64_t> fail(DimFault f) {
    if (fault == DimFault::none) fault = f;
    return std::nullopt;
  }

  std::optional<int64_t> value(const Atom& atom) {
    if (atom.kind == AtomKind::symbol) {
      const auto v = value_of(atom.name);
      return v ? v : fail(DimFault::unbound);
    }
    auto result = value(atom.args[0]);
    for (size_t i = 1; result && i < atom.args.size(); ++i) {
      const auto next = value(atom.args[i]);
      if (!next) return std::nullopt;
      switch (atom.kind) {
        case AtomKind::min:
          result = std::min(*result, *next);
          break;
        case AtomKind::max:
          result = std::max(*result, *next);
          break;
        default:
          if (*next == 0) return fail(DimFault::division_by_zero);
          if (atom.kind == AtomKind::mod) {
            result = floor_remainder(*result, *next);
          } else if (!(result = floor_quotient(*result, *next))) {
            return fail(DimFault::overflow);
          }
      }
    }
    return result;
  }

  std::optional<int64_t> value(const Dim& d) {
    if (d.fault() != DimFault::none) return fail(d.fault());
    const auto* node = DimBuilder::node(d);
    if (node == nullptr) return d.as_constant();
    __int128 sum = 0;
    for (const Term& t : node->terms) {
      __int128 product = t.coefficient;
      bool zero = false, overflow = false;  // a factor of 0 wins over an overflow before it
      for (const AtomRef& f : t.factors) {
        const auto v = value(*f);
        if (!v) return std::nullopt;
        zero = zero || *v == 0;
        overflow = overflow || __builtin_mul_overflow(product, static_cast<__int128>(*v), &product);
      }
      if (zero) continue;
      if (overflow || __builtin_add_overflow(sum, product, &sum)) return fail(DimFault::overflow);
    }
    if (sum > std::numeric_limits<int64_t>::max() || sum < std::numeric_limits<int64_t>::min()) {
      return fail(DimFault::overflow);
    }
    return static_cast<int64_t>(sum);
  }
};

struct Substitution {
  const std::function<std::optional<Dim>(std::string_view)>& instead;

  Dim of(const Atom& atom) const {
    if (atom.kind == AtomKind::symbol) {
      std::optional<Dim> dim = instead(atom.name);
      return dim ? *std::move(dim) : Dim::symbol(atom.name);
    }
    Dim result = of(atom.args[0]);
    for (size_t i = 1; i < atom.args.size(); ++i) {
      const Dim next = of(atom.args[i]);
      result = atom.kind == AtomKind::min   ? min(result, next)
               : atom.kind == AtomKind::max ? max(result, next)
               : atom.kind == AtomKind::mod ? mod(result, next)
                                            : floordiv(result, next);
    }
    return result;
  }
  Dim of(const Dim& d) const {
    const auto* node = DimBuilder::node(d);
    if (node == nullptr) return d;
    Dim sum;
    for (const Term& term : node->terms) {
      Dim product = Dim::constant(term.coefficient);
      for (const AtomRef& factor : term.factors) product = product * of(*factor);
      sum = sum + product;
    }
    return sum;
  }
};

}  // namespace

Dim substitute(const Dim& dim, const std::function<std::optional<Dim>(std::string_view)>& instead) {
  return Substitution{instead}.of(dim);
}

std::optional<int64_t> Dim::evaluate(const Lookup& value_of, DimFault* why) const {
  Evaluator evaluator{value_of};
  const auto result = evaluator.value(*this);
  if (why != nullptr) *why = evaluator.fault;
  return result;
}

std::optional<int64_t> Dim::evaluate(const std::map<std::string, int64_t>& values, DimFault* why) const {
  return evaluate(
      [&values](std::string_view name) -> std::optional<int64_t> {
        const auto it = values.find(std::string(name));
        if (it == values.end()) return std::nullopt;
        return it->second;
      },
      why);
}

std::optional<int64_t> Dim::evaluate(std::span<const std::pair<std::string, int64_t>> values, DimFault* why) const {
  return evaluate(
      [&values](std::string_view name) -> std::optional<int64_t> {
        for (const auto& [known, value] : values) {
          if (known == name) return value;
        }
        return std::nullopt;
      },
      why);
}

}  // namespace codetta::types
