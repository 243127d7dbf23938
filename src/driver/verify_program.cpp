// SPDX-License-Identifier: Apache-2.0
// verify of programs: what a run left in the outputs against the oracle, which evaluates the whole program.
#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "codetta/program.hpp"
#include "driver/host_copy.hpp"
#include "driver/kernel_state.hpp"
#include "driver/program_state.hpp"
#include "driver/step_records.hpp"
#include "driver/verification.hpp"
#include "ir/analyses.hpp"
#include "types/view.hpp"

namespace codetta {
namespace driver {
namespace {

const ArgumentValue* value_of(const std::vector<NamedArgument>& arguments, const std::string& name) {
  for (const NamedArgument& argument : arguments) {
    if (argument.name == name) return &argument.value;
  }
  return nullptr;
}

Result<TensorView> output_of(const std::vector<NamedArgument>& arguments, const std::string& name) {
  const ArgumentValue* value = value_of(arguments, name);
  if (value != nullptr && value->tensor() != nullptr) return *value->tensor();
  return diag::error(diag::Code::argument_missing, fmt::format("output {} is not provided", name))
      .reason("what the run wrote is compared")
      .help(fmt::format("pass the tensor that the run wrote {} to", name));
}

// The oracle reads parameters as they were before the run.
Result<TensorView> former_of(const ir::GraphInput& input, const TensorView& now, const ir::Graph& graph,
                             const std::vector<NamedArgument>& arguments, const VerifyOptions& options) {
  const std::string& name = input.name;
  for (const auto& [known, former] : options.before) {
    if (known == name) return former;
  }
  if (input.donated) {
    return diag::error(diag::Code::argument_missing, fmt::format("the former contents of {} are not given", name))
        .at(graph.source(), graph.span(input.node))
        .reason("it is donated: the run may have left anything there, and a result is checked from what it was made of")
        .help(fmt::format("copy {} before the run and pass the copy in `before`", name));
  }
  for (const ir::GraphOutput& output : graph.outputs()) {
    CODETTA_TRY(const TensorView written, output_of(arguments, output.name));
    if (!types::overlaps(now, written)) continue;
    return diag::error(diag::Code::argument_missing, fmt::format("the former contents of {} are not given", name))
        .reason(
            fmt::format("output {} has overwritten it, and a result is checked from what it was made of", output.name))
        .help(fmt::format("copy {} before the run and pass the copy in `before`", name));
  }
  return now;
}

Result<void> check_before(const ir::Graph& graph, const VerifyOptions& options) {
  for (const auto& [name, former] : options.before) {
    const std::string& wanted = name;
    const auto& inputs = graph.inputs();
    if (std::any_of(inputs.begin(), inputs.end(), [&](const ir::GraphInput& input) { return input.name == wanted; }))
      continue;
    return diag::error(diag::Code::argument_unexpected, fmt::format("former contents of '{}' are given", name))
        .reason("the program has no parameter of that name")
        .help("name a parameter that is donated, or that an output overwrites");
  }
  return {};
}

// Of the longest product, also inside of branches and loops, whose graphs share the symbols.
int64_t longest_sum(const ir::Graph& graph, const std::vector<std::pair<std::string, int64_t>>& symbols) {
  int64_t longest = 0;
  for (uint32_t n = 0; n < graph.size(); ++n) {
    const ir::NodeId id(n);
    for (const ir::GraphRef& child : ir::children(graph.attr(id)))
      longest = std::max(longest, longest_sum(*child, symbols));
    if (graph.node(id).op != types::Op::matmul) continue;
    longest = std::max(longest, graph.type(graph.operands(id)[0]).shape.back().evaluate(symbols).value_or(0));
  }
  return longest;
}

}  // namespace

Result<OracleFunctions> functions_of(const std::vector<GivenResults>& given) {
  OracleFunctions functions;
  for (const GivenResults& call : given) {
    const auto calls = std::count_if(given.begin(), given.end(),
                                     [&](const GivenResults& other) { return other.function == call.function; });
    if (calls > 1) {
      return diag::error(diag::Code::target_lacks,
                         fmt::format("what {} computed cannot be taken as given", call.function))
          .reason(fmt::format("the run called it {} times, and which results belong to which call is not known", calls))
          .help("check a program that calls it once");
    }
    functions[call.function] = [&call](std::span<const TensorView>,
                                       std::span<const TensorView> wanted) -> Result<void> {
      for (size_t i = 0; i < wanted.size(); ++i) {
        const bool there = i < call.results.size();
        if (there && types::identical_view(call.results[i], nothing_taken())) continue;
        if (!there || call.results[i].dtype() != wanted[i].dtype() || call.results[i].shape() != wanted[i].shape() ||
            !call.results[i].is_row_major()) {
          return diag::error(diag::Code::symbol_conflict,
                             fmt::format("the given results of {} do not fit", call.function))
              .reason(fmt::format("result {} is {} and {} is given", i, wanted[i].describe(),
                                  there ? call.results[i].describe() : "none"))
              .help("give all results of the call, row-major, as the run left them");
        }
        const auto bytes = static_cast<size_t>(wanted[i].element_count() * dtype_size(wanted[i].dtype()));
        if (bytes != 0) std::memcpy(wanted[i].data(), call.results[i].data(), bytes);
      }
      return {};
    };
  }
  return functions;
}

namespace {

// Whether anything but `but` has the size.
bool has_size(const ir::Graph& graph, const std::string& symbol, ir::NodeId but) {
  const auto is_it = [&](const std::string& other) { return other == symbol; };
  for (uint32_t n = 0; n < graph.size(); ++n) {
    const ir::NodeId node(n);
    if (node == but) continue;
    std::vector<std::string> symbols = ir::symbols_of(graph.attr(node));
    for (const ir::Dim& dim : graph.type(node).shape) {
      const std::vector<std::string> more = dim.symbols();
      symbols.insert(symbols.end(), more.begin(), more.end());
    }
    if (std::any_of(symbols.begin(), symbols.end(), is_it)) return true;
    for (const ir::GraphRef& child : ir::children(graph.attr(node))) {
      if (has_size(*child, symbol, ir::NodeId())) return true;
    }
  }
  return false;
}

}  // namespace

void add_given_sizes(const ir::Graph& graph, const std::vector<GivenResults>& given,
                     std::map<std::string, int64_t, std::less<>>& sizes) {
  for (const ir::SizeSource& source : ir::size_sources(graph).sources) {
    const auto* call = std::get_if<ir::ExternAttr>(&graph.attr(source.node));
    if (call == nullptr) continue;
    const auto output = static_cast<size_t>(source.output);
    for (const GivenResults& one : given) {
      if (one.function != call->symbol || output >= one.results.size()) continue;
      const TensorView& result = one.results[output];
      if (types::identical_view(result, nothing_taken())) {
        if (!has_size(graph, source.symbol, source.node)) sizes.emplace(source.symbol, 0);  // nobody asks
      } else if (source.dim < result.rank()) {
        sizes.emplace(source.symbol, result.size(source.dim));
      }
    }
  }
}

oracle::OracleOptions program_options(const Target& target, const ir::Graph& graph, const Numerics& numerics,
                                      const std::vector<std::pair<std::string, int64_t>>& symbols) {
  oracle::OracleOptions how =
      runs_on_gpu(target) ? gpu_options(target, longest_sum(graph, symbols)) : oracle::OracleOptions{};
  if (target.backend == Backend::cpu) how.isa = target.isa;
  if (target.backend == Backend::cuda) permit(numerics.math, how);
  how.contraction = !numerics.strict;
  return how;
}

}  // namespace driver

Result<VerifyReport> verify(const Program& program, const std::vector<NamedArgument>& arguments, const Target& wanted,
                            const VerifyOptions& options, Context& context) {
  const base::DefaultFloats floats;
  return driver::verify_program(program, arguments, wanted, options, *context.shared_state());
}

Result<VerifyReport> driver::verify_program(const Program& program, const std::vector<NamedArgument>& arguments,
                                            const Target& wanted, const VerifyOptions& options, ContextState& state,
                                            std::function<bool()> goes_on) {
  const ir::Graph& graph = Program::Access::state(program)->graph;
  CODETTA_TRY(const Target target, resolve_target(state, wanted));
  CODETTA_TRY(const ProgramShapes shapes, program.shapes(arguments));
  CODETTA_CHECK_OK(check_before(graph, options));
  runtime::cuda::DeviceRef device;
  if (runs_on_gpu(target)) {
    CODETTA_TRY(device, state.gpu(target).device());
    CODETTA_CHECK_OK(device->synchronize());
  }
  HostCopies copies(device.get());
  const auto readable = [&](const TensorView& view) -> Result<TensorView> { return device ? copies.copy(view) : view; };
  std::vector<oracle::OracleInput> inputs;
  for (const ir::GraphInput& input : graph.inputs()) {
    const ArgumentValue& value = *value_of(arguments, input.name);  // shapes() has looked
    if (value.tensor() == nullptr) {
      inputs.emplace_back(scalar_for_oracle(value, graph.type(input.node).dtype));
      continue;
    }
    CODETTA_TRY(TensorView view, former_of(input, *value.tensor(), graph, arguments, options));
    CODETTA_TRY(view, readable(view));
    inputs.emplace_back(view);
  }
  std::vector<TensorView> actual;
  for (const ir::GraphOutput& output : graph.outputs()) {
    CODETTA_TRY(TensorView view, output_of(arguments, output.name));
    CODETTA_TRY(view, readable(view));
    actual.push_back(view);
  }
  oracle::OracleOptions how = program_options(target, graph, program.numerics(), shapes.symbols);
  how.seed = options.seed;
  how.goes_on = until_cancelled(state, std::move(goes_on));
  CODETTA_TRY(how.functions, functions_of(options.given));
  how.functions_given = true;
  add_given_sizes(graph, options.given, how.sizes);
  CODETTA_TRY(const oracle::OracleResult expected, oracle::evaluate(graph, inputs, how));
  oracle::CheckOptions compare;
  if (options.poisoned) compare.max_zeros = 1;
  CODETTA_TRY(const oracle::CheckReport checked, oracle::check(actual, expected, compare));
  VerifyReport report = report_of(checked);
  std::string taken;
  for (const GivenResults& call : options.given) {
    report.given.push_back(call.function);
    taken += fmt::format("{}: its results are taken as the run left them, and not checked\n", call.function);
  }
  report.text = taken + report.text;
  return report;
}

}  // namespace codetta
