// SPDX-License-Identifier: Apache-2.0
// Words for people, as diagnostics have them, for who writes messages of their own.
#include <algorithm>

#include "codetta/diagnose.hpp"
#include "diag/diagnostic.hpp"
#include "diag/display.hpp"

namespace codetta {

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  if (std::find(candidates.begin(), candidates.end(), word) != candidates.end()) return {};
  return diag::nearest(word, candidates);
}

std::string displayable(std::string_view text) { return diag::displayable(text); }

}  // namespace codetta
