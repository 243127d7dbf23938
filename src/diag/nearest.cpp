// SPDX-License-Identifier: Apache-2.0
// "Did you mean", as diagnostics use it.
#include "base/nearest.hpp"

#include "diag/diagnostic.hpp"

namespace codetta::diag {

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  return base::nearest(word, candidates);
}

}  // namespace codetta::diag
