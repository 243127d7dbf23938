// SPDX-License-Identifier: Apache-2.0
// bind_symbols: the value of every symbol from the shapes of actual tensors.
#include <fmt/format.h>

#include <map>

#include "ir/bind.hpp"
#include "ir/bind_arguments.hpp"
#include "ir/infer.hpp"
#include "ir/input_sources.hpp"

namespace codetta::ir {
namespace {

using diag::Code;

struct Place {
  int64_t value = 0;
  std::string where;  // "dim 0 of x"
};

Error conflict(const Graph& graph, const GraphInput& input, std::string headline, std::string reason,
               std::string help) {
  return diag::error(Code::symbol_conflict, std::move(headline))
      .at(graph.source(), graph.span(input.node))
      .reason(std::move(reason))
      .help(std::move(help));
}

// A number where a tensor is declared, or the other way round.
Error wrong_kind(const Graph& graph, const GraphInput& input, const BoundArgument& bound) {
  const std::string declared = to_string(graph.type(input.node)), dtype(dtype_name(graph.type(input.node).dtype));
  if (input.is_scalar) {
    return conflict(graph, input, fmt::format("{} is a tensor but is declared as a number", input.name),
                    fmt::format("it is {}, declared {}", describe(bound), dtype),
                    fmt::format("bind a number, or declare {}: {}[()], a tensor without dims", input.name, dtype));
  }
  return conflict(graph, input, fmt::format("{} is a number but is declared as a tensor", input.name),
                  fmt::format("it is declared as {}", declared),
                  graph.type(input.node).shape.empty()
                      ? fmt::format("bind a tensor without dims, or declare {}: {}, a number", input.name, dtype)
                      : "bind a tensor");
}

// `given` holds one argument for each input of the graph, in its order.
Result<SymbolBindings> bind_given(const Graph& graph, const std::vector<const BoundArgument*>& given,
                                  const std::map<std::string, int64_t, std::less<>>& outside = {}) {
  SymbolBindings bindings;
  std::map<std::string, Place, std::less<>> places;
  // Dims that are one symbol bind it; the others are checked when all symbols are known.
  for (size_t n = 0; n < given.size(); ++n) {
    const GraphInput& input = graph.inputs()[n];
    const TensorType& type = graph.type(input.node);
    const BoundArgument* bound = given[n];
    if (bound->is_scalar != input.is_scalar) return wrong_kind(graph, input, *bound);
    if (input.is_scalar) continue;
    const int rank = bound->shape.rank();
    if (bound->dtype != type.dtype) {
      return conflict(graph, input,
                      fmt::format("{} is {} but is declared as {}", input.name, describe(*bound), to_string(type)),
                      fmt::format("dtypes {} and {} differ", dtype_name(bound->dtype), dtype_name(type.dtype)),
                      "convert the tensor, or declare its dtype");
    }
    if (static_cast<size_t>(rank) != type.shape.size()) {
      return conflict(graph, input,
                      fmt::format("{} has {} but is declared with {}", input.name,
                                  count_dims(static_cast<size_t>(rank)), type.shape.size()),
                      fmt::format("it is {}, declared {}", describe(*bound), to_string(type)),
                      "reshape the tensor, or declare its shape");
    }
    for (int i = 0; i < rank; ++i) {
      const Dim& dim = type.shape[static_cast<size_t>(i)];
      const int64_t size = bound->shape[i];
      const std::string where = fmt::format("dim {} of {}", i, input.name);
      const std::optional<int64_t> constant = dim.as_constant();
      if (size < 0 || (constant && *constant != size)) {
        return conflict(graph, input, fmt::format("{} is {} but is declared as {}", where, size, dim.to_string()),
                        fmt::format("{} is {}, declared {}", input.name, describe(*bound), to_string(type)),
                        "pass a tensor of the declared shape");
      }
      const std::optional<std::string_view> symbol = dim.as_symbol();
      if (!symbol) continue;
      const auto [known, fresh] = places.try_emplace(std::string(*symbol), Place{size, where});
      if (fresh) bindings.values.emplace_back(*symbol, size);
      if (!fresh && known->second.value != size) {
        return conflict(
            graph, input,
            fmt::format("{} is {} in {} but {} in {}", *symbol, known->second.value, known->second.where, size, where),
            "a symbol has one value in all places", "pass tensors whose shapes agree");
      }
    }
  }
  const auto value_of = [&](std::string_view name) -> std::optional<int64_t> {
    const auto found = places.find(name);
    if (found != places.end()) return found->second.value;
    const auto said = outside.find(name);
    return said == outside.end() ? std::nullopt : std::optional(said->second);
  };
  // What is known of a dim's symbols: "; n is 4 (dim 0 of x)".
  const auto known_of = [&](const Dim& dim) {
    std::string text;
    for (const std::string& symbol : dim.symbols()) {
      const auto found = places.find(symbol);
      if (found != places.end()) {
        text += fmt::format("; {} is {} ({})", symbol, found->second.value, found->second.where);
      } else if (const auto value = value_of(symbol)) {
        text += fmt::format("; {} is {}", symbol, *value);
      } else {
        text += fmt::format("; no dim is {} alone", symbol);
      }
    }
    return text;
  };
  // A symbol that no dim is alone has its value from a dim such as 2*n + 1.
  for (const types::SymbolSource& source : input_sources(graph)) {
    if (source.is_alone()) continue;
    const GraphInput& input = graph.inputs()[source.shape];
    const Dim& dim = graph.type(input.node).shape[source.dim];
    const int64_t size = given[source.shape]->shape[static_cast<int>(source.dim)];
    const std::string where = fmt::format("dim {} of {}", source.dim, input.name);
    std::string why;
    const std::optional<int64_t> value = types::value_from(source, size, value_of, &why);
    if (!value) {
      return conflict(graph, input, fmt::format("{} is {} but is declared as {}", where, size, dim.to_string()),
                      why + known_of(source.rest), "pass a tensor of the declared shape");
    }
    places.emplace(source.symbol, Place{*value, fmt::format("{}, which is {}", where, dim.to_string())});
    bindings.values.emplace_back(source.symbol, *value);
  }
  for (size_t n = 0; n < given.size(); ++n) {
    const GraphInput& input = graph.inputs()[n];
    const std::vector<Dim>& shape = graph.type(input.node).shape;
    const BoundArgument& bound = *given[n];
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i].is_constant() || shape[i].as_symbol()) continue;
      types::DimFault why = types::DimFault::none;
      const std::optional<int64_t> wanted = shape[i].evaluate(value_of, &why);
      const int64_t size = bound.shape[static_cast<int>(i)];
      if (wanted && *wanted == size) continue;
      std::string reason =
          fmt::format("dim {} of {} is declared as {}", i, input.name, shape[i].to_string()) + known_of(shape[i]);
      return conflict(graph, input,
                      wanted ? fmt::format("dim {} of {} is {} but should be {}", i, input.name, size, *wanted)
                             : fmt::format("dim {} of {} cannot be checked: {}", i, input.name, types::to_string(why)),
                      std::move(reason),
                      wanted ? "pass tensors whose shapes agree" : "declare a dim that is the symbol alone");
    }
  }
  return bindings;
}

}  // namespace

Result<SymbolBindings> bind_symbols(const Graph& graph, const std::vector<BoundArgument>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const BoundArgument& first = *find_argument(arguments, arguments[i].name);
    if (&first == &arguments[i]) continue;
    return diag::error(Code::argument_duplicate, fmt::format("argument {} is provided twice", first.name))
        .about(first.name)
        .reason(fmt::format("as {} and as {}", describe(first), describe(arguments[i])))
        .help("provide each name once");
  }
  std::vector<const BoundArgument*> given;
  for (const GraphInput& input : graph.inputs()) {
    given.push_back(find_argument(arguments, input.name));
    if (given.back() != nullptr) continue;
    return diag::error(Code::argument_missing, fmt::format("argument {} is not provided", input.name))
        .at(graph.source(), graph.span(input.node))
        .about(input.name)
        .reason(fmt::format("it is declared as {}", to_string(graph.type(input.node))))
        .help(fmt::format("bind {} to a {}", input.name, input.is_scalar ? "number" : "tensor"));
  }
  return bind_given(graph, given);
}

Result<SymbolBindings> bind_symbols_in_order(const Graph& graph, const std::vector<BoundArgument>& arguments,
                                             const std::map<std::string, int64_t, std::less<>>& known) {
  std::vector<const BoundArgument*> given;
  for (const BoundArgument& argument : arguments) given.push_back(&argument);
  if (given.size() == graph.inputs().size()) return bind_given(graph, given, known);
  return diag::error(Code::argument_missing,
                     fmt::format("{} arguments are given for {} inputs", given.size(), graph.inputs().size()))
      .reason("each input of the graph takes one, in its order")
      .help("pass as many as there are inputs");
}

}  // namespace codetta::ir
