// SPDX-License-Identifier: Apache-2.0
// Sizes in the place of symbols.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "types/dim.hpp"

namespace codetta::types {

// The Dim with other ones in the place of its symbols; nothing keeps a symbol. It is faulty where the arithmetic fails.
Dim substitute(const Dim& dim, const std::function<std::optional<Dim>(std::string_view)>& instead);

}  // namespace codetta::types
