// SPDX-License-Identifier: Apache-2.0
// bisect: what each step of a run wrote against the oracle's value of the same operation, and the graphs between passes
// against each other.
#include "driver/bisect.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "base/default_floats.hpp"
#include "codetta/observe.hpp"
#include "driver/bisect_nested.hpp"
#include "driver/host_copy.hpp"
#include "driver/kernel_state.hpp"
#include "driver/planned_graph.hpp"
#include "driver/program_arguments.hpp"
#include "driver/program_state.hpp"
#include "driver/step_records.hpp"
#include "driver/verification.hpp"
#include "ir/print.hpp"
#include "opt/passes.hpp"
#include "types/dtype.hpp"

namespace codetta {
namespace driver {

Result<ir::Graph> with_outputs(const ir::Graph& graph, const std::vector<ExtraOutput>& extra) {
  ir::GraphBuilder builder(graph.source());
  std::vector<ir::NodeId> moved(graph.size());
  for (const ir::GraphInput& input : graph.inputs()) moved[input.node.index()] = builder.add_input(graph, input);
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const ir::NodeId id(i);
    if (graph.node(id).op == types::Op::input) continue;
    std::vector<ir::NodeId> operands;
    for (const ir::NodeId operand : graph.operands(id)) operands.push_back(moved[operand.index()]);
    moved[i] = builder.add_unchecked(graph.node(id).op, operands, graph.attr(id), graph.type(id), graph.span(id),
                                     graph.name_hint(id));
  }
  for (const ir::GraphOutput& output : graph.outputs())
    builder.add_output(output.name, moved[output.node.index()], output.dtype);
  for (const ExtraOutput& output : extra) builder.add_output(output.name, moved[output.node.index()], output.dtype);
  return std::move(builder).finish();
}

namespace {

bool admit_the_same(const oracle::ExpectedElement& a, const oracle::ExpectedElement& b, bool real) {
  if (!real) return a.exact_low <= b.exact_high && b.exact_low <= a.exact_high;
  if (a.may_be_nan && b.may_be_nan) return true;
  const bool a_nan = a.low != a.low, b_nan = b.low != b.low;  // certainly
  if (a_nan || b_nan) return a_nan == b_nan || (a_nan ? b : a).may_be_nan;
  return a.low <= b.high && b.low <= a.high;
}

std::string position_text(const oracle::ExpectedOutput& output, size_t element) {
  int64_t flat = output.whole ? static_cast<int64_t>(element) : output.at[element];
  std::vector<int64_t> at(output.shape.size());
  for (size_t d = at.size(); d-- > 0;) {
    at[d] = flat % output.shape[d];
    flat /= output.shape[d];
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

std::string range_text(const oracle::ExpectedElement& element, bool real) {
  if (!real) return fmt::format("{} to {}", element.exact_low, element.exact_high);
  if (element.low != element.low) return "NaN";
  return fmt::format("{} to {}{}", element.low, element.high, element.may_be_nan ? ", or NaN" : "");
}

}  // namespace

std::optional<std::string> disagreement(const oracle::OracleResult& before, const oracle::OracleResult& behind) {
  for (size_t o = 0; o < before.outputs.size(); ++o) {
    const oracle::ExpectedOutput &a = before.outputs[o], &b = behind.outputs[o];
    if (a.shape != b.shape || a.at != b.at || a.elements.size() != b.elements.size()) continue;
    const bool real = types::is_float(a.dtype);
    for (size_t e = 0; e < a.elements.size(); ++e) {
      if (admit_the_same(a.elements[e], b.elements[e], real)) continue;
      return fmt::format("{} {}: {} before, {} behind", a.name, position_text(a, e), range_text(a.elements[e], real),
                         range_text(b.elements[e], real));
    }
  }
  return std::nullopt;
}

namespace {

Result<std::vector<oracle::OracleInput>> oracle_inputs(const ir::Graph& graph,
                                                       const std::vector<NamedArgument>& arguments,
                                                       HostCopies* copies) {
  std::vector<oracle::OracleInput> inputs;
  for (const ir::GraphInput& input : graph.inputs()) {
    const auto at = std::find_if(arguments.begin(), arguments.end(),
                                 [&](const NamedArgument& argument) { return argument.name == input.name; });
    if (at->value.tensor() == nullptr) {  // shapes() has found all of them
      inputs.emplace_back(scalar_for_oracle(at->value, graph.type(input.node).dtype));
    } else if (copies == nullptr) {
      inputs.emplace_back(*at->value.tensor());
    } else {
      CODETTA_TRY(const TensorView copy, copies->copy(*at->value.tensor()));
      inputs.emplace_back(copy);
    }
  }
  return inputs;
}

// "list 1, step 0 (launch_kernel), turn 3", of a loop in a loop "turn 3.1".
std::string place_text(const BisectedStep& one) {
  if (one.turns.empty()) return one.step.step;
  return fmt::format("{}, turn {}", one.step.step, fmt::join(one.turns, "."));
}

std::string report_text(const BisectReport& report, size_t passes) {
  std::string text = report.pass.empty() ? fmt::format("passes    all {} keep what the graph means\n", passes)
                                         : fmt::format("passes    {} changes what the graph means\n", report.pass);
  for (const BisectedStep& one : report.steps) {
    text += fmt::format("{}{}\n", place_text(one), one.step.kernel.empty() ? "" : "  " + one.step.kernel);
    for (const std::string& origin : one.step.origins) text += fmt::format("          {}\n", origin);
    if (!one.unchecked.empty()) text += fmt::format("          not compared: {}\n", one.unchecked);
    for (const OutputCheck& value : one.values) {
      text += value.wrong == 0
                  ? fmt::format("          {}: {} of {} elements right, largest error {:.3g} of its bound\n",
                                value.name, value.checked, value.total, value.max_error_ratio)
                  : fmt::format("          {}: {} of {} elements WRONG; {}\n", value.name, value.wrong, value.checked,
                                value.worst);
    }
  }
  if (report.first_wrong < 0) return text + "no step is wrong\n";
  return text +
         fmt::format("the first wrong step is {}\n", place_text(report.steps[static_cast<size_t>(report.first_wrong)]));
}

// Of a run, which what the oracle knows of branches and loops comes with.
Error bisect_cancelled() {
  return diag::error(diag::Code::compile_cancelled, "the search for the wrong step was cancelled")
      .reason("the context's cancel flag was set")
      .help("start it again when you want it");
}

// The first pass that is wrong, and the optimized graph.
struct Passes {
  std::string wrong;
  size_t count = 0;
  ir::Graph optimized;
};
Result<Passes> compare_passes(const ir::Graph& graph, const Target& target, const opt::RunOptions& debug,
                              const std::vector<oracle::OracleInput>& inputs, const oracle::OracleOptions& how) {
  Passes passes;
  CODETTA_TRY(oracle::OracleResult before, oracle::evaluate(graph, inputs, how));
  CODETTA_TRY(const ir::Graph planned, graph_for(graph, target));
  if (ir::print(planned) != ir::print(graph)) {
    ++passes.count;
    CODETTA_TRY(oracle::OracleResult behind, oracle::evaluate(planned, inputs, how));
    if (const auto found = disagreement(before, behind))
      passes.wrong = fmt::format("what {} has in front of them ({})", target.to_string(), *found);
    before = std::move(behind);
  }
  CODETTA_TRY(opt::Optimized whole, opt::optimize(planned, debug));
  for (const opt::PassRecord& record : whole.passes) {
    if (record.skipped) continue;
    ++passes.count;
    if (!record.changed || !passes.wrong.empty()) continue;
    opt::RunOptions until = debug;
    until.stop_after = record.name;
    CODETTA_TRY(const opt::Optimized part, opt::optimize(planned, until));
    CODETTA_TRY(oracle::OracleResult behind, oracle::evaluate(part.graph, inputs, how));
    if (const auto found = disagreement(before, behind)) {
      passes.wrong = fmt::format("{} ({})", record.name, *found);
      break;
    }
    before = std::move(behind);
  }
  passes.optimized = std::move(whole.graph);
  return passes;
}

}  // namespace
}  // namespace driver

Result<BisectReport> bisect(const Program& program, const std::vector<NamedArgument>& arguments, const Target& wanted,
                            const std::vector<std::pair<std::string, int64_t>>& size_hints,
                            const BisectOptions& options, Context& context) {
  const base::DefaultFloats floats;
  using namespace driver;
  ContextState& state = *context.shared_state();
  CODETTA_TRY(const Target target, resolve_target(state, wanted));
  const ir::Graph& graph = Program::Access::state(program)->graph;
  CODETTA_CHECK_OK(check_hints(graph, size_hints));
  CODETTA_TRY(const ProgramShapes shapes, program.shapes(arguments));
  runtime::cuda::DeviceRef device;
  if (runs_on_gpu(target)) {
    CODETTA_TRY(device, state.gpu(target).device_for(target));
    CODETTA_CHECK_OK(device->synchronize());
  }
  HostCopies copies(device.get());
  CODETTA_TRY(const std::vector<oracle::OracleInput> inputs,
              oracle_inputs(graph, arguments, device != nullptr ? &copies : nullptr));
  oracle::OracleOptions how = program_options(target, graph, program.numerics(), shapes.symbols);
  how.seed = options.seed;
  how.goes_on = until_cancelled(state);
  CODETTA_TRY(how.functions, functions_of(options.given));
  add_given_sizes(graph, options.given, how.sizes);
  CODETTA_TRY(const Passes passes, compare_passes(graph, target, state.debug.passes, inputs, how));

  CODETTA_TRY(const CompiledProgram compiled,
              compile(program, target, size_hints.empty() ? shapes.symbols : size_hints, context));
  // Which kernels run is known with the tensors.
  RunOptions unwatched = options.run;
  unwatched.observer = nullptr;
  std::shared_ptr<const CompiledProgramState> taken;
  {  // its workspace is given back before the watched run has its own
    CODETTA_TRY(const Execution prepared, compiled.prepare(arguments, unwatched));
    taken = ExecutionState::program_of(prepared);
  }
  const CompiledProgramState& made = *taken;
  CODETTA_TRY(const plan::Plan plan, plan_of(made));
  const StepRecords records(made.package, plan);
  const AskedValues asked = asked_values(made.package->steps, plan, *made.package, records);
  CODETTA_TRY(const ir::Graph extended, with_values(passes.optimized, asked));
  CODETTA_TRY(oracle::OracleResult expected, oracle::evaluate(extended, inputs, how));
  const size_t own = graph.outputs().size();
  for (const auto& [symbol, size] : shapes.symbols) how.sizes.emplace(symbol, size);
  CODETTA_TRY(NestedValues nested, NestedValues::make(plan, *made.package, records, graph, inputs, how));

  BisectReport report;
  report.pass = passes.wrong;
  RunOptions run = options.run;
  run.observed = Observed::values;
  run.observer = [&](const StepRecord& record) -> Result<void> {
    if (options.run.observer) CODETTA_CHECK_OK(options.run.observer(record));
    if (how.goes_on && !how.goes_on()) return bisect_cancelled();
    CODETTA_CHECK_OK(nested.see(record));
    if (record.written.empty()) return {};
    const bool inside = records.known(record.step).list.has_value();
    BisectedStep& step = report.steps.emplace_back();
    step.step = record;
    for (StepRecord::Value& value : step.step.written) value.view = TensorView();
    if (inside) step.turns = nested.turns(record);
    for (const StepRecord::Value& value : record.written) {
      const oracle::ExpectedOutput* should = inside ? nested.expected(record, value.name) : nullptr;
      const auto at = asked.of_step.find({record.step, value.name});
      if (!inside && at != asked.of_step.end()) should = &expected.outputs[own + at->second];
      if (should == nullptr) continue;
      oracle::OracleResult one;
      one.outputs.push_back(*should);
      one.outputs.back().name = value.name;
      const std::array<TensorView, 1> actual{value.view};
      oracle::CheckOptions compare;
      compare.max_zeros = 1;
      CODETTA_TRY(const oracle::CheckReport checked, oracle::check(actual, one, compare));
      step.values.push_back(report_of(checked).outputs.front());
      step.wrong = step.wrong || step.values.back().wrong > 0;
    }
    if (step.values.empty()) {
      step.unchecked = !record.function.empty() ? "it is code of the caller's, taken as given"
                       : record.kernel.empty()  ? "it is no kernel"
                       : inside                 ? nested.unknown(record)
                                                : "";
      if (step.unchecked.empty()) step.unchecked = "it writes a part of a value";
    }
    if (step.wrong && report.first_wrong < 0) report.first_wrong = static_cast<int64_t>(report.steps.size()) - 1;
    return {};
  };
  CODETTA_CHECK_OK(compiled.run(arguments, {}, run));
  report.text = report_text(report, passes.count);
  return report;
}

}  // namespace codetta
