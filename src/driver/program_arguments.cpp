// SPDX-License-Identifier: Apache-2.0
// Numbers and names that a caller passes to a program.
#include "driver/program_arguments.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.hpp"
#include "diag/diagnostic.hpp"
#include "driver/problem.hpp"
#include "driver/program_state.hpp"
#include "ir/devices.hpp"
#include "ir/output_rooms.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::driver {
namespace {

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add_symbols_of_types(const ir::Graph& graph, std::vector<std::string>& symbols) {
  for (const ir::GraphInput& input : graph.inputs()) {
    for (const ir::Dim& dim : graph.type(input.node).shape) {
      for (const std::string& symbol : dim.symbols()) {
        if (!holds(symbols, symbol)) symbols.push_back(symbol);
      }
    }
  }
}
enum class Said { AsHint, AsSize };

// `lacks`: what is said before a name that is no symbol.
Result<void> check_hints_of(const std::vector<std::string>& symbols, const SizeHints& hints, const std::string& lacks,
                            Said said, Hinted hinted = Hinted::Once) {
  const bool hint = said == Said::AsHint;
  SizeHints seen;
  for (const auto& [symbol, value] : hints) {
    if (!holds(symbols, symbol)) {
      const std::string near = diag::nearest(symbol, symbols);
      return diag::error(diag::Code::argument_unexpected, fmt::format("{} {}", lacks, symbol))
          .reason(symbols.empty() ? std::string("all sizes are numbers")
                                  : fmt::format("known are {}", fmt::join(symbols, ", ")))
          .help(!near.empty() ? fmt::format("did you mean {}?", near)
                              : fmt::format("leave out the {}", hint ? "hint" : "size"));
    }
    const bool twice = std::any_of(seen.begin(), seen.end(), [&, &name = symbol, &size = value](const auto& one) {
      return one.first == name && (hinted == Hinted::Once || one.second == size);
    });
    if (twice) {
      return diag::error(diag::Code::argument_duplicate,
                         fmt::format("the size {} is {} twice", symbol, hint ? "hinted at" : "given"))
          .about(symbol)
          .reason(hinted == Hinted::ForSeveralSizes ? fmt::format("as {} both times", value)
                  : hint                            ? "here kernels are chosen for one value of each size"
                                                    : "sizes are known by name")
          .help(hinted == Hinted::Once ? "give each size one value" : "hint at it once, or at another size as well");
    }
    seen.emplace_back(symbol, value);
    if (value >= 0) continue;
    return diag::error(diag::Code::tensor_size,
                       fmt::format("{} {} is {}", hint ? "the hint for size" : "the size", symbol, value))
        .reason("sizes are 0 or more")
        .help(hint ? "hint at the size that is usual, or leave it out" : "give a size of 0 or more, or leave it out");
  }
  return {};
}

}  // namespace

std::vector<std::string> symbols_of_types(const ir::Graph& graph) {
  std::vector<std::string> symbols;
  add_symbols_of_types(graph, symbols);
  return symbols;
}

Result<codetta::cpu::ScalarValue> declared_number(const package::Buffer& buffer, const ArgumentValue& value) {
  const DType dtype = buffer.dtype;
  types::Scalar number;
  std::string text, why;
  if (const auto* flag = std::get_if<bool>(&value.value())) {
    number = types::Scalar::from_bool(*flag);
    text = *flag ? "true" : "false";
    if (dtype != DType::boolean) why = "a truth value is no number";
  } else if (const auto* integer = std::get_if<int64_t>(&value.value())) {
    number = types::Scalar::from_i64(*integer, dtype);
    text = std::to_string(*integer);
    const bool wraps =
        types::is_integer(dtype) && (number.as_i64() != *integer || (types::is_unsigned(dtype) && *integer < 0));
    if (dtype == DType::boolean) {
      why = "it is a number";
    } else if (wraps || !std::isfinite(number.as_f64())) {
      why = "it is out of range";
    }
  } else if (const auto* large = std::get_if<uint64_t>(&value.value())) {
    number = types::Scalar::from_u64(*large, dtype);
    text = std::to_string(*large);
    if (dtype == DType::boolean) {
      why = "it is a number";
    } else if ((types::is_integer(dtype) && dtype != DType::u64) || !std::isfinite(number.as_f64())) {
      why = "it is out of range";
    }
  } else if (const auto* real = std::get_if<double>(&value.value())) {
    number = types::Scalar::from_f64(*real, dtype);
    text = types::to_string(types::Scalar::from_f64(*real, DType::f64));
    if (!types::is_float(dtype)) {
      why = dtype == DType::boolean ? "it is a number" : "it is not an integer";
    } else if (std::isfinite(*real) && !std::isfinite(number.as_f64())) {
      why = "it is out of range";
    }
  }
  if (!why.empty()) {
    return diag::error(diag::Code::symbol_conflict,
                       fmt::format("{} is {} but is declared as {}", buffer.name, text, dtype_name(dtype)))
        .about(buffer.name)
        .reason(why)
        .help(dtype == DType::boolean
                  ? "bind true or false"
                  : fmt::format("bind a number that {} holds, or declare another type", dtype_name(dtype)));
  }
  codetta::cpu::ScalarValue result{};
  const DType held = types::compute_dtype(dtype);
  if (held == DType::f32) {
    result.f = static_cast<float>(number.as_f64());
  } else if (held == DType::f64) {
    result.d = number.as_f64();
  } else {
    result.u = number.as_u64();
  }
  return result;
}

Result<void> check_numbers(const ir::Graph& graph, const std::vector<NamedArgument>& arguments) {
  for (const ir::GraphInput& input : graph.inputs()) {
    for (const NamedArgument& argument : arguments) {
      if (!input.is_scalar || argument.name != input.name || argument.value.tensor() != nullptr) continue;
      package::Buffer buffer;
      buffer.name = input.name;
      buffer.dtype = graph.type(input.node).dtype;
      CODETTA_CHECK_OK(declared_number(buffer, argument.value));
    }
  }
  return {};
}

std::vector<ir::BoundArgument> bound_arguments(const std::vector<NamedArgument>& arguments) {
  std::vector<ir::BoundArgument> bound;
  for (const NamedArgument& argument : arguments) {
    ir::BoundArgument b;
    b.name = argument.name;
    if (const TensorView* tensor = argument.value.tensor()) {
      b.dtype = tensor->dtype();
      b.shape = tensor->shape();
    } else {
      b.is_scalar = true;
      b.dtype = scalar_dtype(argument.value, DType::f32);
    }
    bound.push_back(std::move(b));
  }
  return bound;
}

Result<void> check_known(const ir::Graph& graph, const std::vector<NamedArgument>& arguments) {
  std::vector<std::string> known, unknown;
  for (const ir::GraphInput& input : graph.inputs()) known.push_back(input.name);
  for (const ir::GraphOutput& output : graph.outputs()) known.push_back(output.name);
  for (const NamedArgument& argument : arguments) {
    if (!holds(known, argument.name)) unknown.push_back(argument.name);
  }
  if (unknown.empty()) return {};
  const std::string near = diag::nearest(unknown.front(), known);
  return diag::error(diag::Code::argument_unexpected,
                     fmt::format("the program has no parameter or output {}", base::join(unknown, ", ")))
      .reason(fmt::format("it has {}", base::join(known, ", ")))
      .help(near.empty() ? "remove the argument" : fmt::format("did you mean {}?", near));
}

Result<void> check_hints(const ir::Graph& graph, const SizeHints& hints, Hinted hinted) {
  return check_hints_of(symbols_of_types(graph), hints, "the program has no size", Said::AsHint, hinted);
}

Result<void> check_hints(const std::vector<Program>& programs, const SizeHints& hints, Hinted hinted) {
  std::vector<std::string> symbols;
  for (const Program& program : programs) add_symbols_of_types(Program::Access::state(program)->graph, symbols);
  return check_hints_of(symbols, hints, programs.size() == 1 ? "the program has no size" : "no program has a size",
                        Said::AsHint, hinted);
}

Result<void> check_sizes(const ir::Graph& graph, const SizeHints& sizes) {
  std::vector<std::string> symbols = symbols_of_types(graph);
  for (const ir::OutputRoom& room : ir::output_rooms(graph)) {
    std::copy_if(room.names.begin(), room.names.end(), std::back_inserter(symbols),
                 [](const std::string& name) { return !name.empty(); });
  }
  return check_hints_of(symbols, sizes, "the program has no size", Said::AsSize);
}

Result<SizeHints> all_sizes(const ir::Graph& graph, SizeHints sizes, int64_t otherwise) {
  CODETTA_CHECK_OK(check_sizes(graph, sizes));
  const size_t given = sizes.size();
  for (std::string& symbol : symbols_of_types(graph)) {
    const auto end = sizes.begin() + static_cast<std::ptrdiff_t>(given);
    if (std::none_of(sizes.begin(), end, [&](const auto& one) { return one.first == symbol; }))
      sizes.emplace_back(std::move(symbol), otherwise);
  }
  return sizes;
}

Result<ProgramShapes> shapes_of(const ir::Graph& graph, const std::vector<NamedArgument>& arguments) {
  CODETTA_CHECK_OK(check_known(graph, arguments));
  CODETTA_TRY(ir::SymbolBindings symbols, ir::bind_symbols(graph, bound_arguments(arguments)));
  ProgramShapes result;
  result.symbols = std::move(symbols.values);
  const std::vector<ir::OutputRoom> rooms = ir::output_rooms(graph);
  const std::vector<uint32_t> devices = ir::devices_of(graph);
  for (size_t o = 0; o < rooms.size(); ++o) {
    const ir::GraphOutput& output = graph.outputs()[o];
    const types::Shape& shape = graph.type(output.node).shape;
    std::vector<int64_t> sizes;
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto most = rooms[o].names[d].empty() ? std::optional(shape[d]) : ir::most_of(graph, shape[d]);
      types::DimFault why{};
      const std::optional<int64_t> size = most ? most->evaluate(result.symbols, &why) : int64_t{0};
      if (!size || *size < 0) {
        return diag::error(diag::Code::symbol_conflict,
                           fmt::format("size {} of output {} cannot be", shape[d].to_string(), output.name))
            .at(graph.source(), graph.span(output.node))
            .reason(size ? fmt::format("it is {}", *size) : std::string(types::to_string(why)))
            .help("pass tensors of other sizes");
      }
      sizes.push_back(*size);
    }
    if (sizes.size() > static_cast<size_t>(max_rank)) {
      return diag::error(diag::Code::tensor_rank, fmt::format("output {} has {} dimensions", output.name, sizes.size()))
          .reason(fmt::format("a tensor has at most {}", max_rank))
          .help("reshape it");
    }
    result.outputs.push_back(
        {output.name, output.dtype, Dims(sizes), rooms[o].names, static_cast<int>(devices[output.node.index()])});
  }
  return result;
}

}  // namespace codetta::driver
