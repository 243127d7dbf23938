// SPDX-License-Identifier: Apache-2.0
// What the gates of GPU kernels (cuda_compile, hip_compile, metal_compile) share: which of their units a command line
// chooses, and how their times are told.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace codetta::compile_gate {

// --slice COMMIT, --count N, --part I/N, --only TEXT, --list.
struct Choice {
  std::string slice, only;
  size_t count = SIZE_MAX, part = 1, parts = 1;
  bool list = false;
};

// An option of one gate: a flag, a number of at least 1, or a text.
struct Option {
  std::string_view name;
  std::variant<bool*, int*, std::string*> value;
};

// Whether every argument is one of `choice` or of `own`, with a value where it needs one.
bool parse(int argc, char** argv, Choice& choice, std::span<const Option> own);

// FNV-1a.
uint64_t hash_of(std::string_view text, uint64_t seed = 0xcbf29ce484222325u);

// Those of the part whose label contains `only`. With a slice an nth of the golden ones of these, as their hashes with
// the slice's say, and the `count` of the others whose hashes are the smallest. Unit: label, golden.
template <class Unit>
std::vector<Unit> chosen(std::vector<Unit> all, const Choice& choice, uint64_t nth_golden) {
  std::erase_if(all, [&](const Unit& u) {
    return u.label.find(choice.only) == std::string::npos || hash_of(u.label) % choice.parts != choice.part - 1;
  });
  if (choice.slice.empty()) return all;
  const uint64_t seed = hash_of(choice.slice);
  std::erase_if(all, [&](const Unit& u) { return u.golden && hash_of(u.label, seed) % nth_golden != 0; });
  const auto others = std::stable_partition(all.begin(), all.end(), [](const Unit& u) { return u.golden; });
  std::stable_sort(others, all.end(),
                   [&](const Unit& a, const Unit& b) { return hash_of(a.label, seed) < hash_of(b.label, seed); });
  const auto kept = std::min(choice.count, static_cast<size_t>(all.end() - others));
  all.erase(others + static_cast<std::ptrdiff_t>(kept), all.end());
  return all;
}

// User and system time in seconds: of this process (RUSAGE_SELF), or of its children that have ended (RUSAGE_CHILDREN).
double processor_seconds(int who);

// "0.200 s (median), 0.250 s (nine of ten), 0.400 s (all), 1 above 0.3 s"
std::string spread_of(std::vector<double> seconds);

}  // namespace codetta::compile_gate
