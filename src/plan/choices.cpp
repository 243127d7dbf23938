// SPDX-License-Identifier: Apache-2.0
#include "plan/choices.hpp"

namespace codetta::plan {

std::string_view name_of(Question question) {
  constexpr std::string_view names[] = {"factors", "products", "behind", "rows", "join", "columns", "parts"};
  return names[static_cast<size_t>(question)];
}

std::string_view way_of(Question question, bool apart) {
  constexpr std::string_view ways[][2] = {
      {"made by the product", "stored in front of the product"},
      {"one kernel", "a kernel each"},
      {"behind the product in its kernel", "in a kernel of its own"},
      {"by the product in front", "in a kernel of their own"},
      {"parts chosen by one kernel", "stored part by part"},
      {"one kernel", "in kernels of their own"},
      {"stored in the join by the product", "copied there"},
  };
  return ways[static_cast<size_t>(question)][apart ? 1 : 0];
}

}  // namespace codetta::plan
