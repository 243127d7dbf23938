// SPDX-License-Identifier: Apache-2.0
// Donated parameters: what lies in their memory, that no result changes, and each way to misuse them.
#include <gtest/gtest.h>

#include <cstring>

#include "codetta/build.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

class Donated : public ::testing::Test {
 protected:
  Context context_ = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();

  CompiledProgram compiled(const std::string& text) {
    std::vector<std::pair<std::string, int64_t>> hints;
    if (text.find("\"n\"") != std::string::npos) hints.emplace_back("n", 8);
    return codetta::compile(Program::parse(text, "p.py").value(), Target::host(), hints, context_).value();
  }
  std::string plan_of(const std::string& text) { return compiled(text).emit(Stage::Plan).value(); }
  // Without the word, what is the same otherwise.
  static std::string kept(std::string text) {
    const std::string word = "donated[";
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word)) {
      text.erase(text.find(']', at) + 1, 1);
      text.erase(at, word.size());
    }
    return text;
  }
  int64_t workspace(const std::string& text, const std::vector<ProgramInput>& inputs) {
    const CompiledProgram program = compiled(text);
    std::vector<NamedArgument> arguments;
    for (const ProgramInput& input : inputs) arguments.push_back({input.name, input.view()});
    std::vector<Tensor> outputs;
    const ProgramShapes shapes = program.shapes(arguments).value();
    for (const ProgramShapes::Output& output : shapes.outputs) {
      outputs.push_back(Tensor::make(output.dtype, output.shape).value());
      arguments.push_back({output.name, outputs.back().view()});
    }
    return program.prepare(arguments).value().workspace_size();
  }
  static std::string error_of(const std::string& text) {
    const auto program = Program::parse(text, "p.py");
    return program ? "none" : program.error().render();
  }
};

constexpr const char* chain =
    "def f(x: donated[f32[\"n\", 32]], w: f32[32, 32]):\n"
    "    a = relu(x @ w)\n"
    "    b = tanh(a @ w) * 0.5\n"
    "    c = softmax(b @ w)\n"
    "    y = c @ w\n"
    "    return y\n";

TEST_F(Donated, LaterTemporariesLieInTheirMemory) {
  const std::string plan = plan_of(chain);
  EXPECT_NE(plan.find("reuse x as x_donated"), std::string::npos) << plan;
  EXPECT_EQ(plan_of(kept(chain)).find("x_donated"), std::string::npos);
  const std::vector<ProgramInput> inputs{random_input("x", f32, {24, 32}, 1), random_input("w", f32, {32, 32}, 2)};
  // a, b and c are two at a time; one of them always lies in x.
  EXPECT_EQ(workspace(kept(chain), inputs) - workspace(chain, inputs), 24 * 32 * 4);
  EXPECT_TRUE(run_checked(chain, inputs, context_).checked);
  for (const int64_t n : {0, 1, 7}) {
    EXPECT_TRUE(
        run_checked(chain, {random_input("x", f32, {n, 32}, 3), random_input("w", f32, {32, 32}, 4)}, context_).checked)
        << n;
  }
  const std::string memory = compiled(chain).emit(Stage::Memory).value();
  EXPECT_NE(memory.find("x "), std::string::npos) << memory;
}

// h is made by a kernel that reads x at the element that it writes.
TEST_F(Donated, ElementwiseWorkTakesTheirPlace) {
  const std::string text =
      "def f(x: donated[f32[\"n\", 32]], z: f32[\"n\", 32], w: f32[32, 32]):\n"
      "    h = (z @ w) * 0.25 + x\n"
      "    y = h @ w\n"
      "    return y\n";
  const std::string plan = plan_of(text);
  EXPECT_NE(plan.find("reuse x as x_donated"), std::string::npos) << plan;
  const std::vector<ProgramInput> inputs{random_input("x", f32, {24, 32}, 1), random_input("z", f32, {24, 32}, 2),
                                         random_input("w", f32, {32, 32}, 3)};
  EXPECT_EQ(workspace(kept(text), inputs) - workspace(text, inputs), 24 * 32 * 4);
  EXPECT_TRUE(run_checked(text, inputs, context_).checked);
}

TEST_F(Donated, WritesAtIndicesBranchesAndLoops) {
  const std::string put =
      "def f(cache: donated[f32[16, 32]], at: i64[3], v: f32[3, 32], w: f32[32, 32]):\n"
      "    newer = index_put(cache, at, v)\n"
      "    y = newer @ w\n"
      "    return y\n";
  const std::string plan = plan_of(put);
  EXPECT_NE(plan.find("reuse cache as cache_donated"), std::string::npos) << plan;
  EXPECT_EQ(plan.find("copy"), std::string::npos) << plan;
  EXPECT_TRUE(run_checked(put,
                          {random_input("cache", f32, {16, 32}, 1), index_input("at", i64, {3}, 16, 2),
                           random_input("v", f32, {3, 32}, 3), random_input("w", f32, {32, 32}, 4)},
                          context_)
                  .checked);
  const std::string loop =
      "def more(i, x):\n    return i < 3\n\n"
      "def step(i, x):\n    return i + 1, tanh(x) + 0.25\n\n"
      "def f(x: donated[f32[\"n\", 32]], w: f32[32, 32]):\n"
      "    _, z = while_loop(more, step, 0, x)\n"
      "    y = z @ w\n"
      "    return y\n";
  EXPECT_NE(plan_of(loop).find("reuse x as x_donated"), std::string::npos) << plan_of(loop);
  const std::vector<ProgramInput> inputs{random_input("x", f32, {9, 32}, 1), random_input("w", f32, {32, 32}, 2)};
  EXPECT_TRUE(run_checked(loop, inputs, context_).checked);
  const std::string branch =
      "def yes(x, w):\n    a = relu(x @ w)\n    b = tanh(a @ w)\n    return b @ w\n\n"
      "def no(x, w):\n    a = x * 2.0\n    return a @ w\n\n"
      "def f(x: donated[f32[\"n\", 32]], w: f32[32, 32], p: i32[1]):\n"
      "    z = cond(p > 0, yes, no, x, w)\n"
      "    y = z @ w\n"
      "    return y\n";
  for (const double p : {0.0, 1.0}) {
    std::vector<ProgramInput> with = inputs;
    with.push_back(values_input("p", i32, {1}, {p}));
    EXPECT_TRUE(run_checked(branch, with, context_).checked) << plan_of(branch);
  }
}

TEST_F(Donated, AllElementTypesAndTwoOfThem) {
  for (const DType dtype : {bf16, f16, f32, f64}) {
    const std::string t(dtype_name(dtype));
    const std::string text = "def f(x: donated[" + t + "[\"n\", 32]], z: donated[" + t + "[\"n\", 32]], w: " + t +
                             "[32, 32]):\n    a = relu(x @ w)\n    b = tanh(a * 0.5 + z)\n    c = b * 2.0 - a\n"
                             "    y = c * b\n    return y\n";
    EXPECT_TRUE(run_checked(text,
                            {random_input("x", dtype, {5, 32}, 1), random_input("z", dtype, {5, 32}, 2),
                             random_input("w", dtype, {32, 32}, 3)},
                            context_)
                    .checked)
        << t;
  }
}

TEST_F(Donated, TheBuilderSaysTheSameAsTheText) {
  ProgramBuilder builder("f");
  const auto x = builder.donated_input("x", f32, {"n", 32}), w = builder.input("w", f32, {32, 32});
  builder.output("y", call("relu", {call("matmul", {x, w})}));
  const Program built = builder.finish().value();
  const Program read =
      Program::parse("def f(x: donated[f32[\"n\", 32]], w: f32[32, 32]):\n    y = relu(x @ w)\n    return y\n").value();
  EXPECT_EQ(built.emit(Stage::Graph).value(), read.emit(Stage::Graph).value());
  EXPECT_NE(read.emit(Stage::Graph).value().find("\"x\" donated"), std::string::npos);
  EXPECT_TRUE(read.parameters()[0].donated);
  EXPECT_FALSE(read.parameters()[1].donated);
  EXPECT_FALSE(
      Program::Access::state(read)->graph ==
      Program::Access::state(
          Program::parse("def f(x: f32[\"n\", 32], w: f32[32, 32]):\n    y = relu(x @ w)\n    return y\n").value())
          ->graph);
}

TEST_F(Donated, WhatCannotBeDonated) {
  const std::string behind = ", w: f32[32, 32]):\n    y = x @ w\n    return y\n";
  const auto first = [&](const std::string& type) {
    const std::string text = error_of("def f(x: " + type + behind);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(first("donated[f32]"), "error[E0144]: a number is donated");
  EXPECT_EQ(first("donated"), "error[E0144]: the type is missing");
  EXPECT_EQ(first("donated[donated[f32[4, 32]]]"), "error[E0144]: the tensor is donated twice");
  EXPECT_EQ(first("donated[f32[4, 32], f32[4, 32]]"), "error[E0144]: what is donated is no tensor");
  EXPECT_EQ(
      error_of("def f(x: donated[f32[4, 32]], w: f32[32, 32]):\n    y = x @ w\n    kept = x\n    return y, kept\n"),
      "error[E0232]: donated x is returned as it is\n"
      "  --> p.py:4:15\n"
      "4 |     return y, kept\n"
      "  |               ^^^^\n"
      "note: its memory is given up, and kept needs its contents until the end\n"
      "help: don't donate x, or leave it out of the results: the caller has it\n");
}

// The first lines of what a call says.
std::string said(const Result<void>& result) {
  if (result) return "fine";
  const Diagnostic& one = result.error().diagnostics().front();
  return "E0" + std::to_string(one.code) + " " + one.headline;
}

TEST_F(Donated, NothingElseLiesThere) {
  const CompiledProgram program = compiled(
      "def f(x: donated[f32[\"n\", 32]], z: donated[f32[\"n\", 32]], v: f32[\"n\", 32], w: f32[32, 32]):\n"
      "    a = (x + z) @ w + v\n    y = tanh(a) @ w\n    return y\n");
  const auto tensor = [](int64_t rows) { return Tensor::make(f32, {rows, 32}).value(); };
  const Tensor x = tensor(8), z = tensor(8), v = tensor(8), w = tensor(32), y = tensor(8);
  const auto run = [&](const TensorView& as_x, const TensorView& as_z, const TensorView& as_v, const TensorView& as_y) {
    return said(program.run({{"x", as_x}, {"z", as_z}, {"v", as_v}, {"w", w.view()}, {"y", as_y}}));
  };
  EXPECT_EQ(run(x, z, v, y), "fine");
  EXPECT_EQ(run(x, x, v, y), "E0613 donated x overlaps z");
  EXPECT_EQ(run(x, z, x, y), "E0613 donated x overlaps v");
  EXPECT_EQ(run(x, z, v, x), "E0613 donated x overlaps y") << "not even as the identical view";
  EXPECT_EQ(run(x, z, v, z), "E0613 donated z overlaps y");
  EXPECT_EQ(run(x.view().as_read_only(), z, v, y), "E0213 donated x is bound to read-only memory");
  EXPECT_EQ(run(x, z, v.view().as_read_only(), y), "fine");
}

TEST_F(Donated, MemoryThatIsReusedLiesInOnePiece) {
  const CompiledProgram program = compiled(chain);
  const Tensor x = Tensor::make(f32, {8, 64}).value(), w = Tensor::make(f32, {32, 32}).value(),
               y = Tensor::make(f32, {8, 32}).value();
  fill_random(x.view(), 1);
  fill_random(w.view(), 2);
  const auto rows = TensorView::make(x.data(), f32, {8, 32}, {64, 1}).value();
  EXPECT_EQ(said(program.run({{"x", rows}, {"w", w.view()}, {"y", y.view()}})), "E0610 donated x can not be reused");
  // Any address will do on a CPU.
  const auto odd = TensorView::make(x.view().as<float>() + 1, f32, {8, 32}).value();
  EXPECT_EQ(said(program.run({{"x", odd}, {"w", w.view()}, {"y", y.view()}})), "fine");
}

// Where small elements are given up and wider ones lie there next, the address is one of those.
TEST_F(Donated, MemoryThatIsReusedIsAlignedAsWhatLiesThere) {
  const CompiledProgram program = compiled(
      "def f(x: donated[i8[\"n\", 64]], w: f32[64, 16], v: f32[16, 16]):\n    h = tanh(cast(x, f32) @ w)\n"
      "    o = h @ v\n    return o\n");
  ASSERT_NE(program.emit(Stage::Plan).value().find("reuse x as x_donated"), std::string::npos);
  const Tensor raw = Tensor::make(i8, {8 * 64 + 4}).value(), w = Tensor::make(f32, {64, 16}).value(),
               v = Tensor::make(f32, {16, 16}).value(), o = Tensor::make(f32, {8, 16}).value();
  for (const int shift : {0, 1, 2, 4}) {
    fill_random(raw.view(), 1);
    const std::vector<std::byte> bytes(static_cast<const std::byte*>(raw.data()),
                                       static_cast<const std::byte*>(raw.data()) + raw.byte_size());
    const auto x = TensorView::make(raw.view().as<int8_t>() + shift, i8, {8, 64}).value();
    const auto ran = program.run({{"x", x}, {"w", w.view()}, {"v", v.view()}, {"o", o.view()}});
    EXPECT_EQ(said(ran), shift % 4 == 0 ? "fine" : "E0610 donated x can not be reused") << shift;
    if (ran) continue;
    const auto& told = ran.error().diagnostics().front();
    EXPECT_EQ(told.reason, "its address is " + std::to_string(shift) + " modulo 4");
    EXPECT_EQ(told.where.line, 1u) << "at the parameter";
    EXPECT_EQ(std::memcmp(raw.data(), bytes.data(), bytes.size()), 0);
  }
}

// Whoever calls g may need what it passes again.
TEST_F(Donated, FunctionsThatAreCalledDonateNothing) {
  const std::string text =
      "def g(x: donated[f32[\"n\", 64]]):\n    y = tanh(x)\n    return y\n"
      "def f(x: f32[\"n\", 64], w: f32[64, 64]):\n    y = g(x) @ w + x\n    return y\n";
  const auto donated = [&](std::string_view function) {
    const auto program = Program::parse(text, "p.py", function);
    EXPECT_TRUE(program) << program.error().render();
    return program->parameters()[0].donated;
  };
  EXPECT_TRUE(donated("g"));
  EXPECT_FALSE(donated("f"));
}

// The second run of a measurement would take what lies there for indices.
TEST_F(Donated, WhatIsTimedFindsThemAsTheyAre) {
  const CompiledProgram program = compiled(
      "def f(i: donated[i32[\"n\", 64]], t: f32[1000], w: f32[64, 64]):\n    e = take(t, i)\n    a = tanh(e) @ w\n"
      "    b = tanh(a) @ w\n    c = tanh(b) @ w\n    return c\n");
  ASSERT_NE(program.emit(Stage::Plan).value().find("reuse i as i_donated"), std::string::npos);
  const Tensor t = Tensor::make(f32, {1000}).value(), w = Tensor::make(f32, {64, 64}).value();
  fill_random(t.view(), 1);
  fill_random(w.view(), 2);
  std::vector<Tensor> kept;
  std::vector<Execution> executions;
  for (int e = 0; e < 2; ++e) {
    kept.push_back(Tensor::make(i32, {9, 64}).value());
    for (int64_t at = 0; at < 9 * 64; ++at) kept.back().view().as<int32_t>()[at] = static_cast<int32_t>(at);
    kept.push_back(Tensor::make(f32, {9, 64}).value());
    executions.push_back(
        program.prepare({{"i", kept[2 * e].view()}, {"t", t.view()}, {"w", w.view()}, {"c", kept.back().view()}})
            .value());
  }
  const auto timing = measure(executions, 0.01);
  ASSERT_TRUE(timing) << timing.error().render();
  EXPECT_EQ(std::memcmp(kept[1].data(), kept[3].data(), kept[1].byte_size()), 0);
}

TEST_F(Donated, AnExecutionUsesThemUp) {
  const CompiledProgram program = compiled(chain);
  const Tensor x = Tensor::make(f32, {8, 32}).value(), w = Tensor::make(f32, {32, 32}).value(),
               y = Tensor::make(f32, {8, 32}).value(), again = Tensor::make(f32, {8, 32}).value();
  fill_random(w.view(), 2);
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"w", w.view()}, {"y", y.view()}};
  Execution execution = program.prepare(arguments).value();
  fill_random(x.view(), 1);
  ASSERT_TRUE(execution.run());
  std::memcpy(again.data(), y.data(), y.byte_size());
  const auto twice = execution.run();
  EXPECT_EQ(said(twice), "E0655 donated x is used again");
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().diagnostics().front().where.line, 1u) << "at the parameter";
  fill_random(x.view(), 1);
  execution.donate_again();
  ASSERT_TRUE(execution.run());
  EXPECT_EQ(std::memcmp(again.data(), y.data(), y.byte_size()), 0);
  EXPECT_EQ(said(execution.run()), "E0655 donated x is used again");
  EXPECT_TRUE(measure(execution, 0.01)) << "what is timed may compute anything";
  Execution kept_inputs = compiled(kept(chain)).prepare(arguments).value();
  EXPECT_TRUE(kept_inputs.run());
  EXPECT_TRUE(kept_inputs.run());
}

TEST_F(Donated, ARunThatIsRefusedUsesNothingUp) {
  const CompiledProgram program = compiled(
      "def f(x: donated[f32[\"n\", 32]], at: i64[3], w: f32[32, 32]):\n"
      "    h = take(x, at, dim=0) @ w\n    a = tanh(x @ w) @ w\n    y = a @ w\n    return h, y\n");
  const auto tensor = [](int64_t rows) { return Tensor::make(f32, {rows, 32}).value(); };
  const Tensor x = tensor(8), w = tensor(32), h = tensor(3), y = tensor(8), before = tensor(8);
  const Tensor at = Tensor::make(i64, {3}).value();
  fill_random(x.view(), 1);
  fill_random(w.view(), 2);
  std::memcpy(before.data(), x.data(), x.byte_size());
  Execution execution =
      program.prepare({{"x", x.view()}, {"at", at.view()}, {"w", w.view()}, {"h", h.view()}, {"y", y.view()}}).value();
  auto* const index = at.view().as<int64_t>();
  index[0] = 0, index[1] = 8, index[2] = 2;
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(said(execution.run()).substr(0, 5), "E0618") << "the first fault stays the one that is told";
    EXPECT_EQ(std::memcmp(before.data(), x.data(), x.byte_size()), 0);
  }
  index[1] = 7;
  EXPECT_EQ(said(execution.run()), "fine");
  EXPECT_EQ(said(execution.run()), "E0655 donated x is used again");
  // One that fails behind its first step has used them up.
  const CompiledProgram calling = compiled(
      "def f(x: donated[f32[\"n\", 32]], w: f32[32, 32]):\n    a = tanh(x @ w) @ w\n"
      "    b = call_extern(\"fails\", a, out=\"f32[n, 32]\")\n    y = b @ w\n    return y\n");
  RunOptions options;
  options.externs = {{"fails", [](void*, const CodettaTensor*, int, CodettaTensor*, int) { return 7; }, nullptr}};
  Execution failing = calling.prepare({{"x", x.view()}, {"w", w.view()}, {"y", y.view()}}, options).value();
  EXPECT_EQ(said(failing.run()).substr(0, 5), "E0617");
  EXPECT_EQ(said(failing.run()), "E0655 donated x is used again");
}

TEST_F(Donated, AResultIsCheckedFromWhatWasThereBefore) {
  const Program program = Program::parse(chain, "p.py").value();
  const CompiledProgram built = compiled(chain);
  const Tensor x = Tensor::make(f32, {8, 32}).value(), w = Tensor::make(f32, {32, 32}).value(),
               y = Tensor::make(f32, {8, 32}).value(), before = Tensor::make(f32, {8, 32}).value();
  fill_random(x.view(), 1);
  fill_random(w.view(), 2);
  fill_poison(y.view());
  std::memcpy(before.data(), x.data(), x.byte_size());
  const std::vector<NamedArgument> arguments{{"x", x.view()}, {"w", w.view()}, {"y", y.view()}};
  ASSERT_TRUE(built.run(arguments));
  EXPECT_NE(std::memcmp(before.data(), x.data(), x.byte_size()), 0) << "something else lies there now";
  VerifyOptions options;
  options.poisoned = true;
  const auto without = verify(program, arguments, Target::host(), options, context_);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code(), 208);
  options.before = {{"x", before.view()}};
  const auto report = verify(program, arguments, Target::host(), options, context_);
  ASSERT_TRUE(report) << report.error().render();
  EXPECT_EQ(report->verdict, VerifyReport::Verdict::Pass) << report->text;
}

TEST_F(Donated, ConstantsOfLibrariesAreNot) {
  const Program program = Program::parse(chain, "p.py").value();
  const Tensor x = Tensor::make(f32, {8, 32}).value();
  BuildOptions options;
  options.output = ::testing::TempDir() + "/libdonated.so";
  options.constants = {{"x", x.view()}};
  const auto built = build({program}, Target::host(), options, context_);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code(), 139);
  EXPECT_EQ(built.error().diagnostics().front().headline, "donated x cannot be a constant");
}

TEST_F(Donated, HeadersAndTextsSaySo) {
  const CompiledProgram program = compiled(chain);
  const std::string host = program.emit(Stage::Host).value();
  EXPECT_NE(host.find("reuse_donated(v["), std::string::npos) << host;
  EXPECT_NE(host.find("check_donated(v["), std::string::npos);
  EXPECT_NE(host.find("float* x, const float* w, float* y"), std::string::npos);
  EXPECT_NE(host.find("x: donated, f32 [n, 32]"), std::string::npos);
  EXPECT_NE(host.find("A donated tensor is overwritten"), std::string::npos);
  EXPECT_NE(program.emit(Stage::Manifest).value().find("\"donated\": true"), std::string::npos);
  EXPECT_EQ(compiled(kept(chain)).emit(Stage::Host).value().find("donated"), std::string::npos);
}

}  // namespace
}  // namespace codetta::test
