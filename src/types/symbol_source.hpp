// SPDX-License-Identifier: Apache-2.0
// Dims that give symbols their values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/dim.hpp"

namespace codetta::types {

// A declared dim that is factor * symbol + rest, with factor >= 1: a size of it gives the symbol one where the division
// leaves nothing and the quotient is 0 or more.
struct SymbolSource {
  std::string symbol;
  size_t shape = 0, dim = 0;  // which dim
  int64_t factor = 1;
  Dim rest;  // without the symbol; its own symbols have a value already

  [[nodiscard]] bool is_alone() const { return factor == 1 && rest == Dim(); }
  [[nodiscard]] Dim declared() const { return Dim::constant(factor) * Dim::symbol(symbol) + rest; }
};

// `is_known`: whether a symbol has a value already. nullopt: the dim has none, or several, that lack one, or is no such
// sum.
std::optional<SymbolSource> as_source(const Dim& dim, const std::function<bool(std::string_view)>& is_known);

// Of each symbol the dim that gives it its value: the first one that is the symbol alone; of others the first one that
// is a multiple of it, more or less a number or what has a value: 2*h, n + 2, n + m where another dim is n. In an order
// in which each rests on those in front of it, and on `known`, which have values already.
std::vector<SymbolSource> symbol_sources(std::span<const Shape> shapes, std::span<const std::string> known = {});

// What a size says. `why`, where there is no value: "9 less 2 is no multiple of 2".
std::optional<int64_t> value_from(const SymbolSource& source, int64_t size, const Dim::Lookup& value_of,
                                  std::string* why = nullptr);

}  // namespace codetta::types
