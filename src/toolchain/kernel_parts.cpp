// SPDX-License-Identifier: Apache-2.0
#include "toolchain/kernel_parts.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace codetta::toolchain {
namespace {

size_t cost_of(std::string_view source, std::string_view kernel, bool is_product, const PartCosts& costs) {
  const auto phase_cost = [&](std::string_view number) {
    const size_t begin = source.find(fmt::format("void piece_{}(", number));
    const size_t end = source.find(fmt::format("void phase_{}(", number));
    return begin < end && end != std::string_view::npos ? (end - begin) / costs.phase_bytes : 0;
  };
  constexpr std::string_view phase = "Epilogue::phase_", combine = "combine<", pack = "pack_factor<";
  size_t cost = is_product ? costs.product + phase_cost("0") : costs.kernel;
  for (size_t at = kernel.find(phase); at != std::string_view::npos; at = kernel.find(phase, at + 1)) {
    const size_t number = at + phase.size();
    cost += phase_cost(kernel.substr(number, kernel.find('<', number) - number));
  }
  for (size_t at = kernel.find(combine); at != std::string_view::npos; at = kernel.find(combine, at + 1))
    cost += costs.combine;
  if (kernel.find(pack) != std::string_view::npos) cost += costs.pack;
  return cost;
}

}  // namespace

std::vector<std::string> parts_of(std::string_view source, const PartCosts& costs) {
  constexpr std::string_view kernel = "\nextern \"C\" __global__ ", end = "\n}\n", product = " codetta_gemm(";
  std::vector<std::string_view> kernels;
  for (size_t at = source.find(kernel); at != std::string_view::npos; at = source.find(kernel, at)) {
    const size_t last = source.find(end, at);
    if (last == std::string_view::npos) return {};
    kernels.push_back(source.substr(at + 1, last + end.size() - at - 1));
    at = last;
  }
  if (kernels.empty()) return {};
  const auto is_product = [&](std::string_view text) { return text.find(product) != std::string_view::npos; };
  std::stable_partition(kernels.begin(), kernels.end(), is_product);
  // The longest first, each where less is yet; the product is in the first part.
  std::vector<std::pair<size_t, std::string_view>> by_cost;
  for (const std::string_view text : kernels)
    by_cost.emplace_back(cost_of(source, text, text.data() == kernels.front().data(), costs), text);
  std::stable_sort(by_cost.begin() + 1, by_cost.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
  std::array<size_t, 2> sums{};
  std::vector<std::string> parts(2, std::string(source));
  for (const auto& [cost, text] : by_cost) {
    const size_t part = sums[1] < sums[0] ? 1 : 0;
    sums[part] += cost;
    std::string& without = parts[1 - part];
    const auto first = static_cast<size_t>(text.data() - source.data());
    for (size_t c = first; c < first + text.size(); ++c)
      if (without[c] != '\n') without[c] = ' ';
  }
  if (kernels.size() < 3 && sums[1] < costs.start) return {};
  return parts;
}

}  // namespace codetta::toolchain
