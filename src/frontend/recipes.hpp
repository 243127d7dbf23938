// SPDX-License-Identifier: Apache-2.0
// What a text writes for functions of NumPy and of the frameworks that the language has none for.
#pragma once

#include <span>
#include <string_view>

namespace codetta::frontend {

struct Recipe {
  std::string_view name;
  std::string_view text;    // behind "write "
  bool everywhere = false;  // in epilogues, too
};

std::span<const Recipe> all_recipes();
// Empty where there is none.
std::string_view recipe_for(std::string_view name, bool program);

}  // namespace codetta::frontend
