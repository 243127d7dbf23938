// SPDX-License-Identifier: Apache-2.0
// Random programs: they are valid, texts and graphs are read back as printed, and the passes keep their meaning.
#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "opt/passes.hpp"
#include "support/random_program.hpp"
#include "unit/oracle/support.hpp"

namespace codetta::opt::test {
namespace {

using codetta::test::random_program;
using codetta::test::RandomProgram;
using codetta::test::RandomProgramOptions;
using oracle::test::Data;

RandomProgramOptions options_of(uint64_t seed) {
  RandomProgramOptions options = codetta::test::drawn_options(seed);
  options.operations = 4 + static_cast<int>(seed % 12);
  return options;
}

diag::SourceRef source_of(std::string text) {
  return std::make_shared<const diag::SourceText>("p.py", std::move(text));
}

TEST(RandomPrograms, AreReadBackAsPrinted) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const RandomProgram program = random_program(seed, options_of(seed));
    ASSERT_EQ(program.text, random_program(seed, options_of(seed)).text);
    const auto function = frontend::parse_program(source_of(program.text));
    ASSERT_TRUE(function) << program.text << function.error().render();
    const auto graph = ir::bind_program(*function);
    ASSERT_TRUE(graph) << program.text << graph.error().render();
    ASSERT_EQ(graph->inputs().size(), program.parameters.size());
    const auto again = frontend::parse_program(source_of(ir::print(*function)));
    ASSERT_TRUE(again) << ir::print(*function) << again.error().render();
    EXPECT_TRUE(ir::equivalent(*function, *again)) << program.text << ir::print(*function);
    const auto parsed = ir::parse_graph(source_of(ir::print(*graph)));
    ASSERT_TRUE(parsed) << ir::print(*graph) << parsed.error().render();
    EXPECT_TRUE(*parsed == *graph) << ir::print(*graph);
  }
}

// Both ways of computing meet within their bounds.
TEST(RandomPrograms, PassesKeepTheirMeaning) {
  int64_t elements = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const RandomProgram program = random_program(seed, options_of(seed));
    const auto function = frontend::parse_program(source_of(program.text));
    ASSERT_TRUE(function) << program.text << function.error().render();
    const auto graph = ir::bind_program(*function);
    ASSERT_TRUE(graph) << program.text << graph.error().render();
    const auto optimized = optimize(*graph);
    ASSERT_TRUE(optimized) << program.text << optimized.error().render();
    std::vector<Data> data;
    for (const codetta::test::RandomParameter& parameter : program.parameters) {
      Data& d = data.emplace_back(parameter.dtype, parameter.shape);
      if (parameter.index_limit > 0) {
        d.fill_integers(seed + data.size(), 0, static_cast<int>(parameter.index_limit) - 1);
      } else {
        d.fill_normal(seed * 100 + data.size());
      }
    }
    std::vector<oracle::OracleInput> inputs;
    for (Data& d : data) inputs.emplace_back(d.view());
    const auto before = oracle::evaluate(*graph, inputs), after = oracle::evaluate(optimized->graph, inputs);
    ASSERT_TRUE(before) << program.text << before.error().render();
    ASSERT_TRUE(after) << program.text << after.error().render();
    ASSERT_EQ(before->outputs.size(), program.outputs.size());
    for (size_t o = 0; o < before->outputs.size(); ++o) {
      const auto &e = before->outputs[o].elements, &f = after->outputs[o].elements;
      ASSERT_EQ(e.size(), f.size());
      for (size_t i = 0; i < e.size(); ++i, ++elements) {
        const bool nan = e[i].low != e[i].low || f[i].low != f[i].low;
        EXPECT_TRUE(nan ? e[i].may_be_nan && f[i].may_be_nan : e[i].low <= f[i].high && f[i].low <= e[i].high)
            << program.text << program.outputs[o] << " " << i;
      }
    }
  }
  EXPECT_GT(elements, 10000);
}

TEST(RandomPrograms, PassesReachTheGraphsInside) {
  const auto function =
      frontend::parse_program(source_of("def g(x):\n    return x * 1.0\ndef h(x):\n    return -(-x)\n"
                                        "def f(p: bool[1], x: f32[\"n\"]):\n    y = cond(p, g, h, x)\n    return y\n"));
  ASSERT_TRUE(function);
  const auto graph = ir::bind_program(*function);
  ASSERT_TRUE(graph);
  const auto optimized = optimize(*graph);
  ASSERT_TRUE(optimized) << optimized.error().render();
  const auto& attr = optimized->graph.attr_as<ir::CondAttr>(optimized->graph.outputs()[0].node);
  EXPECT_EQ(attr.then->size(), 1U) << ir::print(*attr.then);
  EXPECT_EQ(attr.otherwise->size(), 1U) << ir::print(*attr.otherwise);
}

// No dim of them need have two elements, so that they are read as one, which may lie anywhere.
TEST(RandomPrograms, MixedDimsOfSymbolicSizesBecomeOne) {
  const auto function = frontend::parse_program(
      source_of("def f(x: f32[3, \"n\", 2, \"m\"], v: f32[\"n\", \"m\", 2], w: f32[\"n\", 2]):\n"
                "    y = reshape(x, (3, 2*m, n))\n    z = reshape(v, (2*m, n))\n    u = reshape(w, (2, n))\n"
                "    return y, z, u\n"));
  ASSERT_TRUE(function);
  const auto graph = ir::bind_program(*function);
  ASSERT_TRUE(graph) << graph.error().render();
  const auto optimized = optimize(*graph);
  ASSERT_TRUE(optimized) << optimized.error().render();
  EXPECT_EQ(optimized->passes.back().fired.at(0).rule, "reshape_mixed");
  EXPECT_EQ(optimized->passes.back().fired.at(0).count, 1u) << "v and w are counted in twos";
  const ir::Graph& now = optimized->graph;
  const ir::NodeId whole = now.operands(now.outputs()[0].node)[0];
  EXPECT_EQ(ir::to_string(now.type(whole)), "f32[3, 2*m*n]") << ir::print(now);
  EXPECT_EQ(now.operands(whole)[0], now.inputs()[0].node);
  EXPECT_EQ(optimize(now)->graph, now);
  Data x(DType::f32, {3, 4, 2, 5}), v(DType::f32, {4, 5, 2}), w(DType::f32, {4, 2});
  x.fill_normal(1);
  v.fill_normal(2);
  w.fill_normal(3);
  const oracle::OracleInput inputs[] = {x.view(), v.view(), w.view()};
  const auto before = oracle::evaluate(*graph, inputs), after = oracle::evaluate(now, inputs);
  ASSERT_TRUE(before && after);
  for (size_t o = 0; o < 3; ++o) {
    const auto &wanted = before->outputs[o].elements, &found = after->outputs[o].elements;
    ASSERT_EQ(wanted.size(), found.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(wanted[i].value, found[i].value);
  }
}

// Slices that take each of the equal parts of a value are splits, which a kernel may compute side by side.
TEST(RandomPrograms, EqualPartsAreSplit) {
  const auto splits_of = [](const std::string& body) {
    const auto function =
        frontend::parse_program(source_of("def f(x: f32[\"n\", 4], w: f32[4, 12]):\n    h = x @ w\n" + body));
    EXPECT_TRUE(function) << body;
    const auto graph = ir::bind_program(*function);
    EXPECT_TRUE(graph) << graph.error().render();
    const auto optimized = optimize(*graph);
    EXPECT_TRUE(optimized) << optimized.error().render();
    Data x(DType::f32, {5, 4}), w(DType::f32, {4, 12});
    x.fill_normal(1);
    w.fill_normal(2);
    const oracle::OracleInput inputs[] = {x.view(), w.view()};
    const auto before = oracle::evaluate(*graph, inputs), after = oracle::evaluate(optimized->graph, inputs);
    EXPECT_TRUE(before && after) << body;
    for (size_t o = 0; o < before->outputs.size(); ++o) {
      const auto &wanted = before->outputs[o].elements, &found = after->outputs[o].elements;
      EXPECT_EQ(wanted.size(), found.size());
      for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(wanted[i].value, found[i].value) << body;
    }
    int splits = 0;
    for (size_t i = 0; i < optimized->graph.size(); ++i) splits += optimized->graph.node(ir::NodeId(i)).op == Op::split;
    return splits;
  };
  EXPECT_EQ(splits_of("    y = h[:, :6] * sigmoid(h[:, 6:])\n    return y\n"), 2);
  EXPECT_EQ(splits_of("    p = reshape(h, (n, 3, 4))\n    y = p[:, 2] + p[:, 0] * p[:, 1] - p[:, 0]\n    return y\n"),
            3);
  // A part that nobody takes, parts of two sizes, other readers.
  EXPECT_EQ(splits_of("    y = h[:, :4] * h[:, 8:]\n    return y\n"), 0);
  EXPECT_EQ(splits_of("    y = h[:, :4] * h[:, 4:8]\n    z = h[:, 8:] + h[:, :4]\n    return y, z\n"), 3);
  EXPECT_EQ(splits_of("    y = h[:, :6] * h[:, 6:]\n    z = h[:, :4]\n    return y, z\n"), 0);
  EXPECT_EQ(splits_of("    y = h[:, :6] * h[:, 6:]\n    z = sum(h)\n    return y, z\n"), 0);
  EXPECT_EQ(splits_of("    y = h[:, :6] * h[:, 6:]\n    return y, h\n"), 0);
}

// What a loop hands on as it got it is read where it was.
TEST(RandomPrograms, ResultsThatALoopLeavesAloneAreItsOperands) {
  const auto function =
      frontend::parse_program(source_of("def more(i, w, x):\n    return i < 3\n"
                                        "def turn(i, w, x):\n    return i + 1, w, x * w\n"
                                        "def f(w: f32[4], z: f32[4]):\n    i, w2, x = while_loop(more, turn, 0, w, z)\n"
                                        "    y = x - w2\n    return y\n"));
  ASSERT_TRUE(function);
  const auto graph = ir::bind_program(*function);
  ASSERT_TRUE(graph);
  const auto optimized = optimize(*graph);
  ASSERT_TRUE(optimized) << optimized.error().render();
  uint32_t fired = 0;
  for (const PassRecord& pass : optimized->passes) {
    for (const Fired& f : pass.fired) fired += f.rule == "loop_invariant" ? f.count : 0;
  }
  EXPECT_EQ(fired, 1U) << ir::print(optimized->graph);
  const auto y = optimized->graph.operands(optimized->graph.outputs()[0].node);
  EXPECT_EQ(y[1], optimized->graph.inputs()[0].node) << ir::print(optimized->graph);
  Data w(DType::f32, {4}), z(DType::f32, {4});
  w.fill_normal(1);
  z.fill_normal(2);
  const oracle::OracleInput inputs[] = {w.view(), z.view()};
  const auto before = oracle::evaluate(*graph, inputs), after = oracle::evaluate(optimized->graph, inputs);
  ASSERT_TRUE(before && after);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(before->outputs[0].elements[i].value, after->outputs[0].elements[i].value);
}

}  // namespace
}  // namespace codetta::opt::test
