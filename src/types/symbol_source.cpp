// SPDX-License-Identifier: Apache-2.0
#include "types/symbol_source.hpp"

#include <set>
#include <utility>

#include "types/dim_substitute.hpp"

namespace codetta::types {

std::optional<SymbolSource> as_source(const Dim& dim, const std::function<bool(std::string_view)>& is_known) {
  std::string unknown;
  for (std::string& symbol : dim.symbols()) {
    if (is_known(symbol)) continue;
    if (!unknown.empty()) return std::nullopt;
    unknown = std::move(symbol);
  }
  if (unknown.empty()) return std::nullopt;
  const auto with = [&](int64_t value) {
    return substitute(dim, [&](std::string_view symbol) {
      return symbol == unknown ? std::optional(Dim::constant(value)) : std::nullopt;
    });
  };
  Dim rest = with(0);
  const auto factor = (with(1) - rest).as_constant();
  if (!factor || *factor < 1) return std::nullopt;
  SymbolSource source{std::move(unknown), 0, 0, *factor, std::move(rest)};
  // It may be such a sum at 0 and 1 alone: max(n, 1) + n.
  if (!(source.declared() == dim)) return std::nullopt;
  return source;
}

std::vector<SymbolSource> symbol_sources(std::span<const Shape> shapes, std::span<const std::string> with_values) {
  std::vector<SymbolSource> sources;
  std::set<std::string, std::less<>> known(with_values.begin(), with_values.end());
  const auto none = [](std::string_view) { return false; };
  const auto is_known = [&](std::string_view symbol) { return known.find(symbol) != known.end(); };
  const auto each = [&](const auto& take) {
    for (size_t s = 0; s < shapes.size(); ++s) {
      for (size_t d = 0; d < shapes[s].size(); ++d) take(s, d);
    }
  };
  const auto add = [&](SymbolSource source, size_t shape, size_t dim) {
    source.shape = shape;
    source.dim = dim;
    known.insert(source.symbol);
    sources.push_back(std::move(source));
  };
  each([&](size_t s, size_t d) {
    const auto symbol = shapes[s][d].as_symbol();
    if (symbol && !is_known(*symbol)) add({std::string(*symbol), 0, 0, 1, {}}, s, d);
  });
  const auto is_sum = [&](size_t s, size_t d) { return !shapes[s][d].is_constant() && !shapes[s][d].as_symbol(); };
  // Those of one symbol first: their values rest on no other tensor's.
  each([&](size_t s, size_t d) {
    if (!is_sum(s, d)) return;
    auto source = as_source(shapes[s][d], none);
    if (source && !is_known(source->symbol)) add(*std::move(source), s, d);
  });
  for (size_t before = sources.size() + 1; before != sources.size();) {
    before = sources.size();
    each([&](size_t s, size_t d) {
      if (!is_sum(s, d)) return;
      if (auto source = as_source(shapes[s][d], is_known)) add(*std::move(source), s, d);
    });
  }
  return sources;
}

std::optional<int64_t> value_from(const SymbolSource& source, int64_t size, const Dim::Lookup& value_of,
                                  std::string* why) {
  const auto say = [&](std::string reason) {
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  };
  DimFault fault = DimFault::none;
  const auto rest = source.rest.evaluate(value_of, &fault);
  if (!rest) return say(source.rest.to_string() + ": " + std::string(to_string(fault)));
  int64_t times = 0;
  if (__builtin_sub_overflow(size, *rest, &times)) return say(source.rest.to_string() + ": overflow");
  const std::string left = *rest == 0 ? std::to_string(size)
                           : *rest < 0 && *rest != INT64_MIN
                               ? std::to_string(size) + " and " + std::to_string(-*rest) + " more"
                               : std::to_string(size) + " less " + std::to_string(*rest);
  if (times < 0) return say(left + " is negative, and sizes are 0 or more");
  if (times % source.factor != 0) return say(left + " is no multiple of " + std::to_string(source.factor));
  return times / source.factor;
}

}  // namespace codetta::types
