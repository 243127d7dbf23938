// SPDX-License-Identifier: Apache-2.0
#include "types/dim_multiple.hpp"

#include <vector>

namespace codetta::types {

std::optional<DimMultiple> as_multiple(const Dim& dim) {
  const std::vector<std::string> symbols = dim.symbols();
  if (symbols.size() != 1) return std::nullopt;
  const auto factor = exact_quotient(dim, Dim::symbol(symbols.front()));
  const auto constant = factor ? factor->as_constant() : std::nullopt;
  if (!constant || *constant < 1) return std::nullopt;
  return DimMultiple{symbols.front(), *constant};
}

}  // namespace codetta::types
