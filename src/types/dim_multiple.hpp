// SPDX-License-Identifier: Apache-2.0
// Dims that give a symbol its value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "types/dim.hpp"

namespace codetta::types {

// factor * symbol, with factor >= 1: a size of it gives the symbol one where the factor divides it.
struct DimMultiple {
  std::string symbol;
  int64_t factor = 1;
};

// nullopt: the dim is something else.
std::optional<DimMultiple> as_multiple(const Dim& dim);

}  // namespace codetta::types
