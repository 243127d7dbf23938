// SPDX-License-Identifier: Apache-2.0
#include "ir/output_rooms.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ir/analyses.hpp"

namespace codetta::ir {
namespace {

// Every name that a library's function, or a run, has already.
std::set<std::string> names_in(const Graph& graph) {
  std::set<std::string> names;
  for (const GraphInput& input : graph.inputs()) names.insert(input.name);
  for (const GraphOutput& output : graph.outputs()) names.insert(output.name);
  for (size_t i = 0; i < graph.size(); ++i) {
    for (const Dim& dim : graph.type(NodeId(i)).shape) {
      for (std::string& symbol : dim.symbols()) names.insert(std::move(symbol));
    }
    for (std::string& symbol : symbols_of(graph.attr(NodeId(i)))) names.insert(std::move(symbol));
  }
  return names;
}

class Bounds {
 public:
  explicit Bounds(const Graph& graph) : sizes_(size_sources(graph)), checks_(size_checks(graph)) {}

  [[nodiscard]] std::optional<Dim> most(const Dim& size, int depth = 0) const {
    constexpr int deepest = 16;  // sizes that bound each other
    const std::optional<std::string> symbol = computed_in(size);
    if (!symbol) return size;
    if (depth == deepest) return std::nullopt;
    for (const SizeCheck& check : checks_) {
      if (check.most == Dim::constant(INT64_MAX)) continue;
      if (check.value == size) {
        if (auto found = most(check.most, depth + 1)) return found;
      }
      if (check.most - check.value == size || check.value - check.least == size) {
        if (auto found = most(check.most - check.least, depth + 1)) return found;
      }
    }
    // A multiple of the symbol and a rest, which is without it.
    const Dim one = Dim::symbol(*symbol);
    const Dim factor = factor_of(size, *symbol);
    const Dim rest = size - factor * one;
    if (has(rest, *symbol) || factor == Dim()) return std::nullopt;
    if (types::is_non_negative(-factor)) return most(rest, depth + 1);  // the symbol is 0 or more
    if (size == one || !types::is_non_negative(factor)) return std::nullopt;
    const auto bound = most(one, depth + 1), others = most(rest, depth + 1), times = most(factor, depth + 1);
    return bound && others && times ? std::optional(*others + *times * *bound) : std::nullopt;
  }

 private:
  static bool has(const Dim& dim, const std::string& symbol) {
    const std::vector<std::string> symbols = dim.symbols();
    return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
  }
  [[nodiscard]] std::optional<std::string> computed_in(const Dim& size) const {
    if (size.is_constant()) return std::nullopt;
    for (std::string& symbol : size.symbols()) {
      if (sizes_.find(symbol) != nullptr) return std::move(symbol);
    }
    return std::nullopt;
  }
  // Of a sum of products: what multiplies the symbol, or 0.
  [[nodiscard]] static Dim factor_of(const Dim& size, const std::string& symbol) {
    const Dim one = Dim::symbol(symbol);
    if (const auto whole = types::exact_quotient(size, one); whole && !has(*whole, symbol)) return *whole;
    const auto at = [&](int64_t value) {
      return size.evaluate([&](std::string_view name) { return std::optional<int64_t>(name == symbol ? value : 0); });
    };
    const auto none = at(0), some = at(1);
    return none && some ? Dim::constant(*some - *none) : Dim();
  }

  SizeSources sizes_;
  std::vector<SizeCheck> checks_;
};

}  // namespace

bool OutputRoom::computed() const {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) { return !name.empty(); });
}

std::vector<OutputRoom> output_rooms(const Graph& graph) {
  const SizeSources sizes = size_sources(graph);
  std::vector<OutputRoom> rooms;
  std::set<std::string> taken;
  for (const GraphOutput& output : graph.outputs()) {
    OutputRoom& room = rooms.emplace_back();
    room.shape = graph.type(output.node).shape;
    room.names.resize(room.shape.size());
    if (sizes.sources.empty()) continue;
    std::vector<size_t> computed;
    for (size_t d = 0; d < room.shape.size(); ++d) {
      const std::vector<std::string> symbols =
          room.shape[d].is_constant() ? std::vector<std::string>() : room.shape[d].symbols();
      if (std::any_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return sizes.find(s) != nullptr; }))
        computed.push_back(d);
    }
    if (computed.empty()) continue;
    if (taken.empty()) taken = names_in(graph);
    for (const size_t d : computed) {
      std::string name = output.name + "_capacity";
      if (computed.size() > 1) name += fmt::format("_{}", d);
      while (!taken.insert(name).second) name += "_";
      room.shape[d] = Dim::symbol(name);
      room.names[d] = std::move(name);
    }
  }
  return rooms;
}

std::optional<Dim> most_of(const Graph& graph, const Dim& size) { return Bounds(graph).most(size); }

}  // namespace codetta::ir
