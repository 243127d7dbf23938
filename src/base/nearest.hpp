// SPDX-License-Identifier: Apache-2.0
// The word that was probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace codetta::base {

// Edits (insert, delete, replace, swap of neighbours) between two words over lower case; for words up to 64 bytes.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, at most a third of the longer one's length away, the first of several; "" when there
// is none. Words above 64 bytes have no neighbours.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace codetta::base
