// SPDX-License-Identifier: Apache-2.0
// "Did you mean": optimal string alignment distance (Damerau-Levenshtein without edits inside a swapped pair).
#include "base/nearest.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace codetta::base {

namespace {

constexpr size_t max_length = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Whether one is the beginning of the other.
bool prolongs(std::string_view a, std::string_view b) {
  const size_t common = std::min(a.size(), b.size());
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(common), b.begin(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, max_length);
  b = b.substr(0, max_length);
  using Row = std::array<size_t, max_length + 1>;
  Row before{};
  Row previous{};
  Row current{};
  std::iota(previous.begin(), previous.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    before = previous;
    previous = current;
  }
  return previous[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  size_t best_distance = max_length;
  // Of equals a word that was typed to its end and beyond, or not to its end, then the shorter one.
  const auto precedes = [&](const std::string& candidate) {
    const bool is_part = prolongs(word, candidate);
    return is_part != prolongs(word, *best) ? is_part : candidate.size() < best->size();
  };
  if (word.empty() || word.size() > max_length) return {};
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > max_length) continue;
    const size_t limit = std::max(word.size(), candidate.size()) / 3;
    const size_t found = edit_distance(word, candidate);
    if (found > limit || found > best_distance || (found == best_distance && best != nullptr && !precedes(candidate)))
      continue;
    best = &candidate;
    best_distance = found;
  }
  return best == nullptr ? std::string() : *best;
}

}  // namespace codetta::base
