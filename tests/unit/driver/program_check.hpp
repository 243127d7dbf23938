// SPDX-License-Identifier: Apache-2.0
// A program compiled and run over random data, its outputs poisoned first, against the oracle.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codetta/codetta.hpp"
#include "driver/program_state.hpp"
#include "oracle/oracle.hpp"
#include "types/convert.hpp"
#include "types/dtype.hpp"

namespace codetta::test {

// A bound input: memory of its own, or a number.
struct ProgramInput {
  std::string name;
  std::shared_ptr<Tensor> memory{};
  std::optional<ArgumentValue> number{};
  [[nodiscard]] TensorView view() const { return memory->view(); }
};

inline ProgramInput random_input(const std::string& name, DType dtype, const Dims& shape, uint64_t seed) {
  ProgramInput input{name, std::make_shared<Tensor>(Tensor::make(dtype, shape).value())};
  fill_random(input.view(), seed);
  return input;
}
// Integers from 0 to limit - 1.
inline ProgramInput index_input(const std::string& name, DType dtype, const Dims& shape, int64_t limit, uint64_t seed) {
  ProgramInput input{name, std::make_shared<Tensor>(Tensor::make(dtype, shape).value())};
  uint64_t state = seed;
  auto* at = static_cast<std::byte*>(input.view().data());
  for (int64_t i = 0; i < input.view().element_count(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (types::is_float(dtype)) {
      types::store_f64(at + i * dtype_size(dtype), dtype,
                       static_cast<double>((state >> 33) % static_cast<uint64_t>(limit)));
      continue;
    }
    types::store_i64(at + i * dtype_size(dtype), dtype,
                     static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(limit)));
  }
  return input;
}
inline ProgramInput values_input(const std::string& name, DType dtype, const Dims& shape,
                                 const std::vector<double>& values) {
  ProgramInput input{name, std::make_shared<Tensor>(Tensor::make(dtype, shape).value())};
  auto* at = static_cast<std::byte*>(input.view().data());
  for (size_t i = 0; i < values.size(); ++i, at += dtype_size(dtype)) {
    if (types::is_float(dtype)) {
      types::store_f64(at, dtype, values[i]);
    } else {
      types::store_i64(at, dtype, static_cast<int64_t>(values[i]));
    }
  }
  return input;
}
inline ProgramInput number_input(const std::string& name, ArgumentValue value) { return {name, {}, value}; }

struct ProgramOutcome {
  std::vector<Tensor> outputs;
  std::vector<TensorView> filled;  // what the run has made of them
  std::string plan;                // as text
  bool checked = false;
  uint16_t refused = 0;  // the code where planning refuses the program
};

// Without a result where something failed; the failure is recorded.
inline ProgramOutcome run_checked(const Program& program, const std::string& text,
                                  const std::vector<ProgramInput>& inputs, Context& context,
                                  const oracle::OracleOptions& oracle_options = {}, const RunOptions& run_options = {},
                                  bool may_be_refused = false) {
  ProgramOutcome outcome;
  const auto compiled = compile(program, Target::host(), {}, context);
  if (!compiled) outcome.refused = compiled.error().code();
  const bool refused = may_be_refused && outcome.refused >= 301 && outcome.refused <= 311;
  EXPECT_TRUE(compiled || refused) << compiled.error().render() << text;
  if (!compiled) return outcome;
  outcome.plan = compiled->emit(Stage::Plan).value();
  std::vector<NamedArgument> arguments;
  const ir::Graph& graph = Program::Access::state(program)->graph;
  std::vector<oracle::OracleInput> expected_of;
  for (const ProgramInput& input : inputs) {
    if (!input.number) {
      arguments.push_back({input.name, input.view()});
      expected_of.emplace_back(input.view());
      continue;
    }
    arguments.push_back({input.name, *input.number});
    DType dtype = DType::f32;
    for (const ir::GraphInput& declared : graph.inputs()) {
      if (declared.name == input.name) dtype = graph.type(declared.node).dtype;
    }
    const auto& value = input.number->value();
    if (const auto* flag = std::get_if<bool>(&value)) {
      expected_of.emplace_back(types::Scalar::from_bool(*flag));
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      expected_of.emplace_back(types::Scalar::from_i64(*integer, dtype));
    } else {
      expected_of.emplace_back(types::Scalar::from_f64(std::get<double>(value), dtype));
    }
  }
  const auto shapes = compiled->shapes(arguments);
  EXPECT_TRUE(shapes) << shapes.error().render() << text;
  if (!shapes) return outcome;
  std::vector<TensorView> views;
  for (const ProgramShapes::Output& output : shapes->outputs) {
    Dims room = output.shape;  // where nothing bounds a size that the run computes, as much as tests need
    for (int d = 0; d < room.rank(); ++d) room[d] = output.computed(d) && room[d] == 0 ? 64 : room[d];
    outcome.outputs.push_back(Tensor::make(output.dtype, room).value());
    views.push_back(outcome.outputs.back().view());
    fill_poison(views.back());
    arguments.push_back({output.name, views.back()});
  }
  const auto execution = compiled->prepare(arguments, run_options);
  EXPECT_TRUE(execution) << execution.error().render() << text << outcome.plan;
  if (!execution) return outcome;
  Execution running = *execution;
  oracle::OracleOptions options = oracle_options;
  options.isa = Target::host().isa;
  const auto expected = oracle::evaluate(graph, expected_of, options);
  EXPECT_TRUE(expected) << expected.error().render() << text;
  if (!expected) return outcome;
  std::vector<std::pair<TensorView, std::string>> donated;  // with their contents
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const ir::GraphInput& input : graph.inputs()) {
      if (!input.donated || input.name != inputs[i].name) continue;
      const TensorView view = inputs[i].view();
      donated.emplace_back(view, std::string(view.as<char>(), inputs[i].memory->byte_size()));
    }
  }
  for (int turn = 0; turn < 2; ++turn) {  // the second one finds what the first has left
    for (const auto& [view, contents] : donated) {
      if (!contents.empty()) std::memcpy(view.data(), contents.data(), contents.size());
    }
    running.donate_again();
    const auto ran = running.run();
    EXPECT_TRUE(ran) << ran.error().render() << text << outcome.plan;
    if (!ran) return outcome;
    outcome.filled.clear();
    for (size_t o = 0; o < views.size(); ++o) {
      const auto shape = running.output_shape(shapes->outputs[o].name);
      EXPECT_TRUE(shape) << shape.error().render() << text;
      if (!shape) return outcome;
      outcome.filled.push_back(TensorView::make(views[o].data(), views[o].dtype(), *shape, views[o].strides()).value());
    }
    const auto report = oracle::check(outcome.filled, *expected, {.max_zeros = 1});
    EXPECT_TRUE(report) << report.error().render();
    if (!report) return outcome;
    for (const oracle::OutputReport& output : report->outputs) {
      EXPECT_EQ(output.wrong, 0) << "run " << turn << ", " << output.name << ": " << output.worst_text << "\n"
                                 << text << outcome.plan;
    }
    outcome.checked = report->verdict != oracle::Verdict::Fail;
    if (!outcome.checked) break;
  }
  return outcome;
}

inline ProgramOutcome run_checked(const std::string& text, const std::vector<ProgramInput>& inputs, Context& context,
                                  const oracle::OracleOptions& oracle_options = {}, const RunOptions& run_options = {},
                                  bool may_be_refused = false) {
  const auto program = Program::parse(text, "p.py");
  EXPECT_TRUE(program) << program.error().render() << text;
  if (!program) return {};
  return run_checked(*program, text, inputs, context, oracle_options, run_options, may_be_refused);
}

// What parsing, binding or the run of a program says, rendered; "ran" where nothing is refused. Dims that the run
// computes get room for `most_room`, where it says so.
inline std::string said_of(const std::string& text, const std::vector<ProgramInput>& inputs, Context& context,
                           const RunOptions& options = {}, std::optional<int64_t> most_room = {}) {
  const auto program = Program::parse(text, "p.py");
  if (!program) return program.error().render();
  const auto compiled = compile(*program, Target::host(), {}, context);
  if (!compiled) return compiled.error().render();
  std::vector<NamedArgument> arguments;
  for (const ProgramInput& input : inputs)
    arguments.push_back({input.name, input.number ? *input.number : ArgumentValue(input.view())});
  const auto shapes = compiled->shapes(arguments);
  if (!shapes) return shapes.error().render();
  std::vector<Tensor> outputs;
  for (const auto& output : shapes->outputs) {
    Dims room = output.shape;
    for (int d = 0; d < room.rank(); ++d) room[d] = output.computed(d) && most_room ? *most_room : room[d];
    outputs.push_back(Tensor::make(output.dtype, room).value());
    arguments.push_back({output.name, outputs.back().view()});
  }
  const auto ran = compiled->run(arguments, {}, options);
  return ran ? "ran" : ran.error().render();
}

}  // namespace codetta::test
