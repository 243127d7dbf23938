// SPDX-License-Identifier: Apache-2.0
// Arithmetic on index expressions. Sizes are bounded by the checked tensor extents, so 64 bits never overflow here.
#include "plan/index.hpp"

#include <algorithm>
#include <tuple>

namespace codetta::plan {
namespace {

// g * m * (x / (d * m)) + g * ((x / d) % m) = g * (x / d): undoes what a division took apart.
bool merge_pair(const IndexTerm& high, const IndexTerm& low, IndexTerm& merged) {
  if (high.axis != low.axis || low.mod == 0 || !(high.factor == low.factor)) return false;
  if (high.div != low.div * low.mod || high.coef != low.coef * low.mod) return false;
  merged = low;
  merged.mod = high.mod == 0 ? 0 : high.mod * low.mod;
  merged.extent = high.extent == 0 ? 0 : high.extent * low.mod;
  return true;
}

void normalize(Index& index) {
  auto& terms = index.terms;
  std::erase_if(terms, [](const IndexTerm& t) { return t.coef == 0 || t.extent == 1; });
  for (IndexTerm& t : terms) {
    if (t.mod != 0 && t.extent != 0 && t.extent < t.mod) t.mod = 0;
  }
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < terms.size() && !changed; ++i) {
      for (size_t j = 0; j < terms.size() && !changed; ++j) {
        if (i == j) continue;
        IndexTerm merged;
        const bool same = i < j && terms[i].axis == terms[j].axis && terms[i].div == terms[j].div &&
                          terms[i].mod == terms[j].mod && terms[i].factor == terms[j].factor;
        if (same) {
          merged = terms[i];
          merged.coef += terms[j].coef;
        } else if (!merge_pair(terms[i], terms[j], merged)) {
          continue;
        }
        terms[i] = merged;
        terms.erase(terms.begin() + static_cast<ptrdiff_t>(j));
        changed = true;
      }
    }
    std::erase_if(terms, [](const IndexTerm& t) { return t.coef == 0; });
  }
  std::sort(terms.begin(), terms.end());
}

// (x / d) % m divided by g: quotient (x / (d * g)) % (m / g), remainder (x / d) % g; exact when g divides m (or there
// is no m).
bool divide_term(const IndexTerm& term, int64_t g, IndexTerm& quotient, IndexTerm& remainder) {
  if (term.mod != 0 && term.mod % g != 0) return false;
  quotient = remainder = term;
  quotient.div = term.div * g;
  quotient.mod = term.mod == 0 ? 0 : term.mod / g;
  quotient.extent = (term.extent + g - 1) / g;
  remainder.mod = g;
  remainder.extent = term.extent == 0 ? g : std::min(g, term.extent);
  return true;
}

}  // namespace

std::strong_ordering IndexTerm::operator<=>(const IndexTerm& o) const {
  const auto numbers = [](const IndexTerm& t) { return std::tie(t.coef, t.axis, t.div, t.mod, t.extent); };
  const auto order = numbers(*this) <=> numbers(o);
  return order != 0 ? order : types::Dim::order(factor, o.factor);
}

bool Index::is_symbolic() const {
  return is_shifted() || std::any_of(terms.begin(), terms.end(), [](const IndexTerm& t) { return t.is_scaled(); });
}

bool Index::operator<(const Index& o) const {
  if (constant != o.constant) return constant < o.constant;
  if (value != o.value) return value < o.value;
  if (!(shift == o.shift)) return shift.to_string() < o.shift.to_string();
  return std::lexicographical_compare(terms.begin(), terms.end(), o.terms.begin(), o.terms.end());
}

Index Index::axis(package::Axis axis, int64_t extent) {
  Index index;
  index.terms.push_back({1, axis, 1, 0, extent});
  normalize(index);
  return index;
}

Index Index::of(const types::Dim& value) {
  Index index;
  if (const auto constant = value.as_constant()) {
    index.constant = *constant;
  } else {
    index.shift = value;
  }
  return index;
}

bool Index::uses(package::Axis which) const {
  return std::any_of(terms.begin(), terms.end(), [&](const IndexTerm& t) { return t.axis == which; });
}

std::optional<int64_t> Index::maximum() const {
  if (is_shifted() || value) return std::nullopt;
  int64_t sum = constant;
  for (const IndexTerm& t : terms) {
    if (t.extent == 0 || t.is_scaled()) return std::nullopt;
    sum += t.coef * (t.extent - 1);
  }
  return sum;
}

Index operator+(const Index& a, const Index& b) {
  Index sum = a;
  sum.constant += b.constant;
  if (b.is_shifted()) sum.shift = sum.shift + b.shift;
  if (b.value) sum.value = b.value;  // no two of them meet
  sum.terms.insert(sum.terms.end(), b.terms.begin(), b.terms.end());
  normalize(sum);
  return sum;
}

Index scaled(const Index& a, int64_t factor) {
  Index result = a;
  result.constant *= factor;
  if (result.is_shifted()) result.shift = result.shift * types::Dim::constant(factor);
  for (IndexTerm& t : result.terms) t.coef *= factor;
  normalize(result);
  return result;
}

Index scaled(const Index& a, const types::Dim& factor) {
  if (const auto constant = factor.as_constant()) return scaled(a, *constant);
  Index result = a;
  result.shift = (a.shift + types::Dim::constant(a.constant)) * factor;
  result.constant = 0;
  for (IndexTerm& t : result.terms) t.factor = t.factor * factor;
  normalize(result);
  return result;
}

std::optional<Division> divide(const Index& a, int64_t divisor) {
  if (divisor <= 0 || a.is_shifted() || a.value) return std::nullopt;
  Division result;
  Index rest;  // what is not a multiple of the divisor
  result.quotient.constant = a.constant / divisor;
  rest.constant = a.constant % divisor;
  std::optional<IndexTerm> large;  // at most one term may straddle the divisor
  for (const IndexTerm& t : a.terms) {
    if (t.coef % divisor == 0) {
      result.quotient.terms.push_back(t);
      result.quotient.terms.back().coef /= divisor;
    } else if (t.is_scaled()) {
      const auto quotient = exact_quotient(t.factor * types::Dim::constant(t.coef), types::Dim::constant(divisor));
      if (!quotient) return std::nullopt;
      result.quotient.terms.push_back(t);
      result.quotient.terms.back().coef = 1;
      result.quotient.terms.back().factor = *quotient;
    } else if (t.extent != 0 && t.coef * (t.extent - 1) < divisor) {
      rest.terms.push_back(t);
    } else if (large || divisor % t.coef != 0) {
      return std::nullopt;
    } else {
      large = t;
    }
  }
  const auto low = rest.maximum();
  if (!low) return std::nullopt;
  if (large) {
    IndexTerm quotient, remainder;
    const int64_t g = divisor / large->coef;
    if (*low >= large->coef || !divide_term(*large, g, quotient, remainder)) return std::nullopt;
    quotient.coef = 1;
    result.quotient.terms.push_back(quotient);
    rest.terms.push_back(remainder);
  }
  const auto maximum = rest.maximum();
  if (!maximum || *maximum >= divisor) return std::nullopt;
  normalize(result.quotient);
  normalize(rest);
  result.remainder = rest;
  return result;
}

Index linearize(const Location& location, const std::vector<int64_t>& shape) {
  Index sum;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1) sum = sum + scaled(location[i], stride);
    stride *= shape[i];
  }
  return sum;
}

std::optional<Location> delinearize(const Index& index, const std::vector<int64_t>& shape) {
  Location location(shape.size());
  Index rest = index;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    bool last = true;  // no larger dim follows: what is left is the index
    for (size_t j = 0; j < i; ++j) last = last && shape[j] == 1;
    if (last) {
      location[i] = rest;
      return location;
    }
    auto division = divide(rest, shape[i]);
    if (!division) return std::nullopt;
    location[i] = std::move(division->remainder);
    rest = std::move(division->quotient);
  }
  return location;
}

}  // namespace codetta::plan
