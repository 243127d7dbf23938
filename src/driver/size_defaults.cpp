// SPDX-License-Identifier: Apache-2.0
#include "driver/size_defaults.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "driver/program_arguments.hpp"
#include "types/symbol_source.hpp"

namespace codetta::driver {

namespace {

constexpr size_t most_row_symbols = 3;
// Host text of more launches takes a compiler longer than their kernels do.
constexpr size_t many_launches_of_text = 16;

bool is_one_of(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

using Shapes = std::vector<types::Shape>;

Shapes shapes_of_arguments(const ir::Graph& graph, const std::function<bool(const ir::GraphInput&)>& is_argument) {
  Shapes shapes;
  for (const ir::GraphInput& input : graph.inputs()) {
    if (!input.is_scalar && is_argument(input)) shapes.push_back(graph.type(input.node).shape);
  }
  return shapes;
}

bool is_in(const Shapes& shapes, const std::string& symbol) {
  return std::any_of(shapes.begin(), shapes.end(), [&](const types::Shape& shape) {
    return std::any_of(shape.begin(), shape.end(),
                       [&](const ir::Dim& dim) { return is_one_of(dim.symbols(), symbol); });
  });
}

// Shapes of the factors of all products, those of branches and loops, whose sizes have the same names, among them.
void add_factors(const ir::Graph& graph, std::vector<std::pair<types::Shape, types::Shape>>& found) {
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const ir::NodeId node(i);
    for (const ir::GraphRef& child : ir::children(graph.attr(node))) add_factors(*child, found);
    if (graph.node(node).op != types::Op::matmul) continue;
    found.emplace_back(graph.type(graph.operands(node)[0]).shape, graph.type(graph.operands(node)[1]).shape);
  }
}

// Whether the symbols of a size, multiplied, say about how much it is: b*s, 2*h, n + 2; of n + m and n // 4 they do
// not.
bool is_product(const ir::Dim& dim) {
  if (types::as_source(dim, [](std::string_view) { return false; })) return true;
  std::optional<ir::Dim> rest = dim;
  for (const std::string& symbol : dim.symbols()) {
    if (rest) rest = types::exact_quotient(*rest, ir::Dim::symbol(symbol));
  }
  return rest && rest->is_constant();
}

// The greatest number of rows that belongs to `less`, where `more` follows.
int64_t last_row_count(int64_t less, int64_t more) { return less == 1 ? 1 : geometric_mean(less, more); }

std::vector<uint32_t> kernels_launched(const package::Package& package) {
  std::vector<uint32_t> kernels;
  const auto add = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      if (const auto* launch = std::get_if<package::LaunchKernel>(&step)) kernels.push_back(launch->kernel);
    }
  };
  add(package.steps);
  for (const package::StepList& list : package.step_lists) add(list);
  return kernels;
}

}  // namespace

Result<void> check_programs_by_size(int programs) {
  if (programs >= 0 && programs <= most_programs_by_size) return {};
  return diag::error(diag::Code::option_range, fmt::format("{} programs by size are asked for", programs))
      .reason(fmt::format("a function has kernels for up to {} numbers of rows without hints", most_programs_by_size))
      .help("say 1 to 5, or 0 for as many as pay; hints name other sizes");
}

std::vector<std::string> symbols_of_rows(const ir::Graph& graph, const SizeHints& hints,
                                         const std::function<bool(const ir::GraphInput&)>& is_argument) {
  const std::vector<std::string> known = symbols_of_types(graph);
  const Shapes arguments = shapes_of_arguments(graph, is_argument);
  std::vector<std::string> hinted, passed, found;
  for (const auto& [symbol, size] : hints) hinted.push_back(symbol);  // those of constants among them
  for (const types::SymbolSource& source : types::symbol_sources(arguments, hinted)) passed.push_back(source.symbol);
  bool has_hint = false;
  const auto add = [&](const ir::Dim& dim) {
    if (!is_product(dim)) return;
    for (const std::string& symbol : dim.symbols()) {
      has_hint = has_hint || (is_one_of(hinted, symbol) && is_in(arguments, symbol));
      if (is_one_of(passed, symbol) && !is_one_of(found, symbol)) found.push_back(symbol);
    }
  };
  std::vector<std::pair<types::Shape, types::Shape>> factors;
  add_factors(graph, factors);
  bool symbolic = false;
  for (const auto& [a, b] : factors) {
    for (size_t d = 0; d + 1 < a.size(); ++d) {
      symbolic = symbolic || !a[d].is_constant();
      add(a[d]);
    }
  }
  for (const auto& [a, b] : factors) {
    if (!symbolic && !b.empty()) add(b.back());
  }
  if (has_hint || found.size() > most_row_symbols) return {};
  // In the order of the text, whatever the order of the products.
  std::vector<std::string> ordered;
  for (const std::string& symbol : known) {
    if (is_one_of(found, symbol)) ordered.push_back(symbol);
  }
  return ordered;
}

SizeHints hints_for_rows(const std::vector<std::string>& symbols, int64_t rows) {
  SizeHints hints;
  for (size_t i = symbols.size(); i-- > 0;) {
    const int64_t size = i == 0 ? rows : std::min(rows, usual_rows);
    hints.insert(hints.begin(), {symbols[i], size});
    rows /= size;
  }
  return hints;
}

SizesOfRows sizes_of_rows(const std::vector<std::string>& symbols, const std::vector<int64_t>& rows) {
  SizesOfRows made;
  std::vector<int64_t> most;  // rows that belong to each but the last
  for (size_t i = 0; i + 1 < rows.size(); ++i) most.push_back(last_row_count(rows[i], rows[i + 1]));
  // Sizes whose product counts: steps by four, up to the first that is enough alone for the most rows.
  std::vector<int64_t> sizes = rows;
  if (symbols.size() > 1) {
    sizes = {1};
    while (sizes.back() <= most.back()) sizes.push_back(4 * sizes.back());
  }
  emit::host::SizeTable::Axis axis{{}, sizes, {}};
  for (size_t i = 0; i + 1 < sizes.size(); ++i) axis.up_to.push_back(last_row_count(sizes[i], sizes[i + 1]));
  size_t count = 1;
  for (const std::string& symbol : symbols) {
    axis.symbol = symbol;
    made.axes.push_back(axis);
    count *= sizes.size();
  }
  for (size_t i = 0; i < count; ++i) {
    int64_t product = 1;
    for (size_t rest = i, a = 0; a < symbols.size(); ++a, rest /= sizes.size()) product *= sizes[rest % sizes.size()];
    size_t place = 0;
    while (place < most.size() && product > most[place]) ++place;
    made.taken.push_back(place);
  }
  return made;
}

bool same_kernels(const package::Package& a, const package::Package& b) {
  return a.kernels == b.kernels && kernels_launched(a) == kernels_launched(b);
}

void BuildShare::add(const package::Package& package) {
  for (const package::Kernel& kernel : package.kernels) {
    if (!is_one_of(kernels_, kernel.name)) kernels_.push_back(kernel.name);
  }
  launches_ = std::max(launches_, kernels_launched(package).size());
  ++programs_;
}

bool BuildShare::takes(const package::Package& package) const {
  size_t kernels = kernels_.size();
  for (const package::Kernel& kernel : package.kernels) kernels += is_one_of(kernels_, kernel.name) ? 0 : 1;
  const size_t programs = launches_ > many_launches_of_text ? 2 * programs_at_first_ : programs_at_first_ + 2;
  return kernels <= 2 * kernels_at_first_ && programs_ < programs;
}

std::string sets_text(const std::string& function, const std::vector<SizeHints>& sets) {
  std::string text = function + ": ";
  for (const SizeHints& set : sets) text += (&set == &sets.front() ? "" : "; ") + hints_text(set);
  return text;
}

std::string rows_text(const std::string& function, const std::vector<std::string>& symbols,
                      const std::vector<int64_t>& rows) {
  std::string text = fmt::format("{}: {} = ", function, fmt::join(symbols, " * "));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(rows[i]);
    const int64_t most = i + 1 < rows.size() ? last_row_count(rows[i], rows[i + 1]) : 0;
    if (most > rows[i] && symbols.size() == 1) text += fmt::format(" (to {})", most);
    if (i + 1 == rows.size()) text += " (and more)";
  }
  return text;
}

}  // namespace codetta::driver
