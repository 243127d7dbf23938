// SPDX-License-Identifier: Apache-2.0
#include "driver/size_sets.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"

namespace codetta::driver {

int64_t geometric_mean(int64_t less, int64_t more) {
  const auto root = std::sqrt(static_cast<long double>(less) * static_cast<long double>(more));
  return std::clamp(static_cast<int64_t>(root), less, more - 1);
}

Result<SizeSets> size_sets(const SizeHints& hints) {
  SizeSets found{.hints = hints, .axes = {}, .sets = {}};
  SizeHints once;
  for (const auto& [symbol, size] : hints) {
    const auto named = [&name = symbol](const auto& one) { return one.first == name; };
    if (std::any_of(once.begin(), once.end(), named)) continue;
    std::vector<int64_t> sizes;
    for (const auto& [other, value] : hints) {
      if (other == symbol) sizes.push_back(value);
    }
    once.emplace_back(symbol, size);
    if (sizes.size() == 1) continue;
    std::sort(sizes.begin(), sizes.end());
    emit::host::SizeTable::Axis axis{symbol, sizes, {}};
    for (size_t i = 0; i + 1 < sizes.size(); ++i) axis.up_to.push_back(geometric_mean(sizes[i], sizes[i + 1]));
    found.axes.push_back(std::move(axis));
  }
  size_t count = 1;
  for (const auto& axis : found.axes) {
    count *= axis.sizes.size();
    if (count <= most_size_sets) continue;
    return diag::error(diag::Code::option_range, "kernels for too many sizes are asked for")
        .reason(fmt::format("the hinted sizes are more than {} combinations", most_size_sets))
        .help("hint at fewer sizes: those between two take the kernels of the nearer one");
  }
  for (size_t i = 0; i < count; ++i) {
    SizeHints set = once;
    size_t rest = i;
    for (size_t a = found.axes.size(); a-- > 0;) {
      const auto& axis = found.axes[a];
      for (auto& [symbol, value] : set) {
        if (symbol == axis.symbol) value = axis.sizes[rest % axis.sizes.size()];
      }
      rest /= axis.sizes.size();
    }
    found.sets.push_back(std::move(set));
  }
  return found;
}

size_t SizeSets::pick(const SizeHints& sizes) const {
  size_t at = 0;
  for (const auto& axis : axes) {
    size_t place = 0;
    for (const auto& [symbol, value] : sizes) {
      if (symbol != axis.symbol) continue;
      while (place < axis.up_to.size() && value > axis.up_to[place]) ++place;
      break;
    }
    at = at * axis.sizes.size() + place;
  }
  return at;
}

std::string hints_text(const SizeHints& sizes) {
  std::string text;
  for (const auto& [symbol, value] : sizes) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", symbol, value);
  return text;
}

}  // namespace codetta::driver
