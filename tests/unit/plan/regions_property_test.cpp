// SPDX-License-Identifier: Apache-2.0
// Regions against the graph itself: the kernels of a program, one after the other over memory, give what the graph
// says, whatever is fused and wherever regions are cut.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "plan/regions.hpp"
#include "support/random_graph.hpp"
#include "support/random_program.hpp"
#include "unit/plan/bind_text.hpp"
#include "unit/plan/random_values.hpp"

namespace {

using namespace codetta;
using test::Array;
using Symbols = test::GraphEvaluator::Symbols;

struct Outcome {
  bool planned = false;
  size_t products = 0, maps = 0;  // kernels
  size_t together = 0, made = 0;  // products beside the first of a kernel, and factors made where they are read
};

// Everything that CPUs are given.
plan::RegionOptions all_options() {
  plan::RegionOptions options;
  options.together = options.prologues = true;
  return options;
}

// Where launches are all that counts, a map selects by position what else each part would be stored for.
plan::RegionOptions selecting() {
  plan::RegionOptions options;
  options.map_us = [](const plan::LoweredMap&) { return std::optional<double>(1); };
  return options;
}

// What makes a factor, run as a map over all of it.
void expect_made(const ir::Graph& graph, const plan::MadeFactor& made, std::map<ir::NodeId, Array>& memory,
                 test::GraphEvaluator& expected, const Symbols& symbols) {
  const auto& program = made.lowered.program;
  std::vector<Array> arguments(program.arguments.size());
  for (size_t i = 0; i + 1 < arguments.size(); ++i) {
    const ir::NodeId leaf = made.leaves[made.lowered.argument_input[i]];
    EXPECT_TRUE(memory.contains(leaf)) << "a factor is made of what is not stored\n" << ir::print(graph);
    arguments[i] = memory[leaf];
  }
  Array space;
  for (const types::Dim& dim : {made.lowered.batch, made.lowered.rows, made.lowered.cols})
    space.shape.push_back(dim.evaluate(symbols).value_or(-1));
  space.elements.resize(static_cast<size_t>(test::count_of(space.shape)));
  test::ProgramEvaluator actual(program, space, arguments, symbols);
  EXPECT_EQ(actual.run(), "") << program.to_string();
  const Array &want = expected.value(made.value), &have = actual.output(program.arguments.size() - 1);
  ASSERT_EQ(want.elements.size(), have.elements.size());
  for (size_t i = 0; i < want.elements.size(); ++i)
    ASSERT_TRUE(test::close(want.elements[i], have.elements[i], 1e-5)) << i << "\n" << program.to_string();
}

// The accumulators of all products of a kernel, side by side.
Array accumulators_of(const plan::KernelRegion& kernel, test::GraphEvaluator& expected, const Symbols& symbols) {
  std::vector<ir::NodeId> products{*kernel.matmul};
  for (const plan::FurtherProduct& further : kernel.more) products.push_back(further.matmul);
  Array all;
  for (const types::Dim& dim : {kernel.batch, kernel.rows, kernel.cols})
    all.shape.push_back(dim.evaluate(symbols).value_or(-1));
  const int64_t cols = all.shape[2], rows = all.shape[0] * all.shape[1];
  all.shape[2] = cols * static_cast<int64_t>(products.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (ir::NodeId product : products) {
      const auto& elements = expected.value(product).elements;
      all.elements.insert(all.elements.end(), elements.begin() + r * cols, elements.begin() + (r + 1) * cols);
    }
  }
  return all;
}

Outcome runs_right(const ir::Graph& graph, const Symbols& symbols, uint64_t seed, const plan::Refusal& refuses,
                   const plan::RegionOptions& options = {}) {
  Outcome outcome;
  const auto regions = plan::find_regions(graph, refuses, options);
  if (!regions) {
    const uint16_t code = regions.error().code();
    EXPECT_TRUE(code >= 301 && code <= 311) << regions.error().render() << ir::print(graph);
    return outcome;
  }
  outcome.planned = true;
  std::mt19937_64 random(seed);
  std::vector<Array> inputs;
  std::map<ir::NodeId, Array> memory;
  for (const ir::GraphInput& input : graph.inputs()) {
    inputs.push_back(test::random_array(graph.type(input.node), symbols, random));
    memory[input.node] = inputs.back();
  }
  test::GraphEvaluator expected(graph, symbols);
  expected.run(inputs);
  std::map<size_t, Array> outputs;
  std::map<size_t, int> parts_written;
  for (const plan::KernelRegion& kernel : regions->kernels) {
    (kernel.matmul ? outcome.products : outcome.maps) += 1;
    const auto& program = kernel.lowered.program;
    const auto defect = package::find_defect(program);
    EXPECT_FALSE(defect) << *defect << "\n" << program.to_string() << ir::print(graph);
    if (defect) return outcome;
    std::vector<Array> arguments(program.arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const uint32_t from = kernel.lowered.argument_input[i];
      if (from >= kernel.leaves.size()) continue;
      EXPECT_TRUE(memory.contains(kernel.leaves[from])) << "a value is read before it is stored\n" << ir::print(graph);
      arguments[i] = memory[kernel.leaves[from]];
    }
    Array accumulator;
    if (kernel.matmul) {
      outcome.together += kernel.more.size();
      outcome.made += kernel.b_made.size();
      std::vector<ir::NodeId> factors{kernel.a.source};
      if (kernel.b_made.empty()) factors.push_back(kernel.b.source);
      for (const plan::FurtherProduct& further : kernel.more) {
        if (kernel.b_made.empty()) factors.push_back(further.b.source);
      }
      for (ir::NodeId factor : factors)
        EXPECT_TRUE(memory.contains(factor)) << "a factor is read before it is stored\n" << ir::print(graph);
      for (const plan::MadeFactor& made : kernel.b_made) expect_made(graph, made, memory, expected, symbols);
      accumulator = accumulators_of(kernel, expected, symbols);
    } else {
      for (const types::Dim& dim : {kernel.batch, kernel.rows, kernel.cols})
        accumulator.shape.push_back(dim.evaluate(symbols).value_or(-1));
      accumulator.elements.resize(static_cast<size_t>(test::count_of(accumulator.shape)));
    }
    test::ProgramEvaluator actual(program, accumulator, arguments, symbols);
    const std::string problem = actual.run();
    const bool parts = std::any_of(kernel.stores.begin(), kernel.stores.end(),
                                   [](const plan::StoredValue& store) { return store.node != store.target; });
    EXPECT_TRUE(problem.empty() || (parts && problem.find("0 times") != std::string::npos))
        << problem << "\n"
        << program.to_string() << ir::print(graph);
    for (size_t s = 0; s < kernel.stores.size(); ++s) {
      const plan::StoredValue& store = kernel.stores[s];
      const size_t argument = program.arguments.size() - kernel.stores.size() + s;
      Array& to = store.output ? outputs[*store.output] : memory[store.target];
      const Array& have = actual.output(argument);
      if (to.elements.empty()) to = have;
      for (size_t e = 0; e < have.elements.size(); ++e) {
        if (actual.times_written(argument)[e] != 0) to.elements[e] = have.elements[e];
      }
      const bool typed = store.output && graph.outputs()[*store.output].dtype == graph.type(store.target).dtype;
      if (typed && graph.node(store.target).op != ir::Op::input) memory[store.target] = to;
    }
  }
  // Kernels sum in another order, and elements on a step that such a sum may fall to either side of prove nothing.
  std::vector<test::GraphEvaluator> nudged;
  const auto on_a_step = [&](size_t output, size_t element) {
    if (nudged.empty()) {
      for (const double nudge : {1e-9, -1e-9}) nudged.emplace_back(graph, symbols, nudge).run(inputs);
    }
    const ir::NodeId node = graph.outputs()[output].node;
    return std::any_of(nudged.begin(), nudged.end(), [&](const test::GraphEvaluator& other) {
      return !test::close(other.value(node).elements[element], expected.value(node).elements[element], 1e-5);
    });
  };
  for (size_t o = 0; o < graph.outputs().size(); ++o) {
    const Array& want = expected.value(graph.outputs()[o].node);
    const Array& have = outputs[o];
    EXPECT_EQ(want.shape, have.shape) << ir::print(graph);
    for (size_t i = 0; i < want.elements.size() && i < have.elements.size(); ++i) {
      if (test::close(want.elements[i], have.elements[i], 1e-5) || on_a_step(o, i)) continue;
      std::string programs;
      for (const plan::KernelRegion& kernel : regions->kernels) programs += kernel.lowered.program.to_string() + "\n";
      ADD_FAILURE() << "output " << o << " element " << i << ": " << test::real(want.elements[i]) << " but "
                    << test::real(have.elements[i]) << " seed " << seed << "\n"
                    << programs << ir::print(graph);
      return outcome;
    }
  }
  return outcome;
}

TEST(RegionsProperty, RandomGraphsFusedAndCut) {
  int planned = 0, tried = 0;
  size_t maps = 0;
  const uint64_t cases = CODETTA_TEST_FULL ? 100000 : 3000;
  for (uint64_t seed = 1; seed <= cases && !testing::Test::HasFailure(); ++seed) {
    test::RandomGraphOptions options;
    options.seed = seed;
    options.steps = 14;
    options.symbolic = seed % 3 == 0;
    const auto graph = test::RandomGraph(options).build();
    if (!graph) continue;
    // Some targets take nothing behind a product, some no reductions.
    const plan::Refusal refuses = [&](const plan::KernelRegion& region) -> std::optional<plan::Rejection> {
      const bool refused = seed % 4 == 1 ? region.lowered.program.phases.size() > 1
                                         : seed % 4 == 2 && region.lowered.program.phases[0].insts.size() > 1;
      if (!refused || region.lowered.program.phases[0].insts.empty()) return std::nullopt;
      return plan::Rejection{static_cast<uint16_t>(diag::Code::family_reductions), {}, "as the test wants", {}};
    };
    const Outcome outcome = runs_right(*graph, {{"m", options.m}, {"n", options.n}, {"k", options.k}}, seed, refuses,
                                       seed % 5 < 3    ? all_options()
                                       : seed % 5 == 3 ? selecting()
                                                       : plan::RegionOptions{});
    ++tried;
    planned += outcome.planned;
    maps += outcome.maps;
  }
  EXPECT_GT(planned, tried * 9 / 10) << planned << " of " << tried;
  EXPECT_GT(maps, static_cast<size_t>(tried / 4));
}

// Text and what it is cut into; values checked as well.
Outcome of_text(const std::string& text, const Symbols& symbols = {}, const plan::RegionOptions& options = {}) {
  const auto graph = test::bind_program_text(text);
  EXPECT_TRUE(graph) << graph.error().render();
  if (!graph) return {};
  Outcome outcome = runs_right(
      *graph, symbols, 7, [](const plan::KernelRegion&) { return std::nullopt; }, options);
  EXPECT_TRUE(outcome.planned) << text;
  return outcome;
}

TEST(RegionsProperty, WhatOtherCompilersGetWrong) {
  // An offset slice, a single column, a row bias, a permuted store, an operand that is an output, another user, a
  // dtype.
  for (const char* body : {
           "y = x @ w + c[:, 8:16]",
           "y = x @ w + c[:, 0:1]",
           "y = x @ w + c[0:1, 0:8]",
           "y = permute(x @ w, [1, 0])",
           "h = x @ w\n    z = h + 1.0\n    y = z * 2.0 + h",
           "h = cast(x @ w, bf16)\n    y = h + h @ w",
           "h = x @ w\n    y = h[:, 1:5] @ w[0:4, :]",
           "h = x @ w\n    y = join(h, h * 2.0, dim=-1)",
           "y = relu(join(x, c, dim=-1)) @ join(w, c[:, 8:16], w * 2.0, dim=0)",
           "h = softmax(x @ w)\n    y = h @ x",
           "y = sum(x, dim=0) + max(x @ w)",
       }) {
    const std::string text = "def f(x: f32[8, 8], w: f32[8, 8], c: f32[8, 16]):\n    " + std::string(body) +
                             "\n    u = x * w + c[:, 0:8]\n    return y, u\n";
    EXPECT_TRUE(of_text(text).planned);
    if (testing::Test::HasFailure()) FAIL() << body;
  }
}

TEST(RegionsProperty, JoinsSelectedByPosition) {
  const struct {
    const char* body;
    bool selected;
  } programs[] = {
      {"y = concat(zeros(m + 2, 2), silu(x), zeros(m + 2, 1), dim=1)", true},
      {"t = concat(zeros(1, n + 1), x * b, zeros(1, n + 1), dim=0)\n    e = zeros(m + 4, 2)\n    y = concat(e, t, e, "
       "dim=1)",
       true},
      {"y = concat(x + cast(arange(n + 1), f32), exp(c), c[1:, :] - b, expand(b, p + 1, n + 1), dim=0)", true},
      {"y = concat(x, concat(c, c * 2.0, dim=0), transpose(transpose(x) + 1.0)[:m + 1, :], dim=0)", true},
      {"y = where(concat(x > 0.0, c < 0.0, dim=0), 1.0, -concat(c, x, dim=0) * b)", true},
      {"t = concat(x, c, dim=0)\n    y = softmax(t) + t", true},
      // parts that may have no elements are stored part by part, and so is what cannot be followed, if not in front
      {"y = concat(x, c[:p, :], dim=0)", false},
      {"y = concat(zeros(0, n + 1), x, c, dim=0) + concat(x, c, zeros(0, n + 1), dim=0)", false},
      {"y = concat(x, reshape(reshape(c, ((p + 2) * (n + 1),)), (p + 2, n + 1)), dim=0)", false},
      {"y = concat(x[::2, :], c, dim=0)", false},
      {"y = concat(x, max(c, dim=0), dim=0)", false},
      {"y = concat(softmax(x), c, dim=1)[:, n // 2:]", false},
  };
  for (const auto& program : programs) {
    const bool wide = std::string_view(program.body).find("softmax(x), c") != std::string_view::npos;
    const std::string text = std::string("def f(x: f32[\"m + 2\", \"n + 1\"], c: f32[\"") +
                             (wide ? "m + 2\", \"p + 2" : "p + 2\", \"n + 1") +
                             "\"], b: f32[1, \"n + 1\"], s: f32[\"m\", \"n\", \"p\"]):\n    " + program.body +
                             "\n    z = c * 2.0\n    u = s + 1.0\n    v = b * 2.0\n    return y, z, u, v\n";
    for (const int64_t p : {7, 0}) {
      const Symbols symbols{{"m", 2}, {"n", 4}, {"p", p}};
      const size_t selecting_maps = of_text(text, symbols, selecting()).maps, maps = of_text(text, symbols).maps;
      EXPECT_EQ(selecting_maps < maps, program.selected) << selecting_maps << " of " << maps << "\n" << text;
    }
  }
}

// Values that kernels store and that neither the program returns nor any kernel reads.
std::vector<ir::NodeId> stored_for_nobody(const plan::ProgramRegions& regions, bool of_products) {
  std::set<ir::NodeId> read;
  for (const plan::KernelRegion& kernel : regions.kernels) {
    read.insert(kernel.leaves.begin(), kernel.leaves.end());
    if (!kernel.matmul) continue;
    read.insert({kernel.a.source, kernel.b.source});
    for (const plan::FurtherProduct& further : kernel.more) read.insert(further.b.source);
    for (const auto* factors : {&kernel.a_made, &kernel.b_made}) {
      for (const plan::MadeFactor& made : *factors) read.insert(made.leaves.begin(), made.leaves.end());
    }
  }
  std::vector<ir::NodeId> unread;
  for (const plan::KernelRegion& kernel : regions.kernels) {
    if (kernel.matmul.has_value() != of_products) continue;
    for (const plan::StoredValue& store : kernel.stores) {
      if (!store.output && !read.contains(store.target)) unread.push_back(store.target);
    }
  }
  return unread;
}

TEST(RegionsProperty, NothingIsStoredForNobody) {
  const plan::Refusal any = [](const plan::KernelRegion&) { return std::optional<plan::Rejection>(); };
  const auto regions_of = [&](const std::string& text) {
    const auto graph = test::bind_program_text(text);
    return graph ? plan::find_regions(*graph, any, all_options()) : Result<plan::ProgramRegions>(graph.error());
  };
  const std::string twice =
      "def f(x: f32[3, 'a', 2]):\n    v1 = softmax(reshape(x, (3, 1, a, 2)))\n    v2 = softmax(reshape(v1, (6*a,)))\n"
      "    v3 = softmax(reshape(v1, (2, 3, a, 1)))\n    return v2, v3\n";
  const auto one = regions_of(twice);
  ASSERT_TRUE(one) << one.error().render();
  ASSERT_EQ(one->kernels.size(), 2u);
  EXPECT_EQ(one->kernels[0].stores.size(), 2u) << "v1 and v2; what v1 reduces is computed with it";
  // The space of the parts is that of what they are made of, which nobody reads.
  const auto parts = regions_of(
      "def f(x: f32['n', 4]):\n    v = abs(reshape(expand(cast(x, bf16), 2, n, 4), (2*n, 2, 2)))\n"
      "    y = concat(reshape(v, (8*n,)), reshape(v, (8*n,)) * 0.5, dim=0)\n    return y\n");
  ASSERT_TRUE(parts) << parts.error().render();
  EXPECT_TRUE(stored_for_nobody(*parts, false).empty());
  const uint64_t count = CODETTA_TEST_FULL ? 4000 : 400;
  size_t of_products = 0, of_maps = 0, planned = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    test::RandomProgramOptions options;
    options.operations = 4 + static_cast<int>(seed % 12);
    options.products = seed % 4 == 0;
    options.across = options.broadcasts = true;
    options.ones = seed % 3 == 0;
    const test::RandomProgram program = test::random_program(seed, options);
    const auto regions = regions_of(program.text);
    if (!regions) continue;
    ++planned;
    of_maps += stored_for_nobody(*regions, false).size();
    of_products += stored_for_nobody(*regions, true).size();
  }
  EXPECT_EQ(of_products, 0u);
  EXPECT_EQ(of_maps, 0u);
  EXPECT_GT(planned, count * 9 / 10);
}

// Products of one A are one kernel where none needs another, their types agree, and what is behind them lies where
// they do.
TEST(RegionsProperty, ProductsOfOneFactor) {
  const struct {
    const char* body;
    size_t products, together;
  } programs[] = {
      {"y = silu(x @ w) * (x @ u)", 1, 1},
      {"y = concat(x @ w, x @ u, dim=0)", 1, 1},
      {"a = x @ w\n    b = x @ u\n    y = join(a + 1.0, b * 2.0, dim=-1)", 1, 1},
      {"a = rope(x @ w, c, c)\n    b = rope(x @ u, c, c)\n    y = join(a, b, x @ v, dim=0)", 1, 2},
      {"a = x @ w\n    y = sum(a, dim=-1) * max(x @ u, dim=-1) + (x @ v) * a", 1, 2},
      {"y = (x @ w) * (x @ transpose(u))", 2, 0},      // read in different ways
      {"y = join(x @ w, x @ c, dim=-1)", 2, 0},        // of other sizes
      {"a = x @ w\n    y = a * (x @ (u * a))", 2, 0},  // one needs the other
      {"y = (x @ w) * (transpose(x) @ u)", 2, 0},      // another view of x
      {"y = (x @ w) * permute(x @ u, [1, 0])", 2, 0},  // not at one place
      {"a, b = split(x @ w, 2, dim=-1)\n    d, e, g, h = split(x @ u, 4, dim=-1)\n    y = join(a * b, d + e + g + h, "
       "dim=-1)",
       2, 0},  // cut in different ways
      {"y = join(x @ w, x @ u, w @ u, w @ x, dim=0)", 2, 2},
  };
  for (const auto& program : programs) {
    const std::string text = "def f(x: f32[8, 8], w: f32[8, 8], u: f32[8, 8], v: f32[8, 8], c: f32[8, 4]):\n    " +
                             std::string(program.body) +
                             "\n    z = x + w + u + v + join(c, c, dim=-1)\n    return y, z\n";
    const Outcome outcome = of_text(text, {}, all_options());
    EXPECT_EQ(outcome.products, program.products) << program.body;
    EXPECT_EQ(outcome.together, program.together) << program.body;
  }
}

// What is cut off behind products of one A takes none of them along, whose A was cut off behind another product.
TEST(RegionsProperty, ProductsOfOneFactorStay) {
  const std::string text =
      "def f(x: f32[5, 8, 8], w: f32[8, 8], u: f32[8, 8], v: f32[8, 8], i: i64[5, 8, 4]):\n"
      "    a = gather(x @ w, i, dim=2)\n"
      "    b = sum(a @ u[:4, :], dim=0)\n"
      "    y = a @ v[:4, :]\n"
      "    return b, y\n";
  const Outcome outcome = of_text(text, {}, all_options());
  EXPECT_TRUE(outcome.planned);
  EXPECT_EQ(outcome.products, 2u);
  EXPECT_EQ(outcome.together, 1u);
}

// Element-wise work in front of B is done where B is read, unless something else needs it or its elements do not lie
// in rows.
TEST(RegionsProperty, FactorsMadeWhereTheyAreRead) {
  const struct {
    const char* body;
    size_t products, made;
  } programs[] = {
      {"y = x @ (cast(q, f32) * s)", 1, 1},
      {"y = x @ transpose((cast(q, f32) - 3.0) * s)", 1, 1},
      {"y = x @ (cast(join(p % 16, p // 16, dim=0, interleave=True), f32) * s)", 1, 1},
      {"y = x @ (cast(join(p % 16, p // 16, dim=0), f32) * s)", 1, 1},
      {"d = reshape(cast(q, f32), (2, 4, 8)) * reshape(g, (2, 1, 8))\n    y = x @ reshape(d, (8, 8))", 1, 1},
      {"y = silu(x @ (cast(q, f32) * s)) * (x @ (cast(r, f32) * s))", 1, 2},
      {"y = silu(x @ (cast(q, f32) * s)) * (x @ w)", 1, 0},           // one of two is there
      {"d = cast(q, f32) * s\n    y = x @ d + (x + 1.0) @ d", 2, 0},  // read twice
      {"d = cast(q, f32) * s\n    y = x @ d + d", 1, 0},              // needed elsewhere
      {"y = x @ softmax(w)", 1, 0},                                   // it reduces
      {"y = x @ take(w, i, dim=0)", 1, 0},                            // by indices
      {"y = x @ (relu(x @ w) * s)", 2, 0},                            // of a product
  };
  for (const auto& program : programs) {
    const std::string text =
        "def f(x: f32[8, 8], w: f32[8, 8], q: i8[8, 8], r: i8[8, 8], p: u8[4, 8], s: f32[8], g: f32[2, 8], i: "
        "i32[8]):\n"
        "    " +
        std::string(program.body) +
        "\n    z = w + cast(q, f32) + cast(r, f32) + s + cast(join(p, p, dim=0), f32) + join(g, g, g, g, dim=0) + "
        "cast(i, f32)"
        "\n    return y, z\n";
    const Outcome outcome = of_text(text, {}, all_options());
    EXPECT_EQ(outcome.products, program.products) << program.body;
    EXPECT_EQ(outcome.made, program.made) << program.body;
  }
}

Outcome of_example(const std::string& name, const Symbols& symbols) {
  std::ifstream file(std::string(CODETTA_SOURCE_DIR) + "/examples/programs/" + name + ".py");
  return of_text({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, symbols, all_options());
}

// No element-wise work stands next to a product: only a norm of what no product has computed is a kernel of its own.
TEST(RegionsProperty, Examples) {
  const struct {
    const char* name;
    Symbols symbols;
    size_t products, maps;
  } examples[] = {{"llama_block", {{"b", 2}, {"s", 3}}, 6, 1},
                  {"attention", {{"heads", 2}, {"s", 3}, {"t", 5}}, 2, 0},
                  {"norm_mlp", {{"m", 3}}, 2, 1},
                  {"swiglu", {{"m", 3}}, 2, 1}};
  for (const auto& example : examples) {
    const Outcome outcome = of_example(example.name, example.symbols);
    EXPECT_EQ(outcome.products, example.products) << example.name;
    EXPECT_EQ(outcome.maps, example.maps) << example.name;
  }
}

}  // namespace
