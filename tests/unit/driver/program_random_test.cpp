// SPDX-License-Identifier: Apache-2.0
// Random programs with branches, loops and writes at indices, planned and run, against the oracle.
#include <map>
#include <string>

#include "codetta/observe.hpp"
#include "support/random_program.hpp"
#include "support/slice.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

RandomProgramOptions options_of(uint64_t seed) {
  RandomProgramOptions options = drawn_options(seed);
  options.operations = 3 + static_cast<int>(seed % 11);
  return options;
}

std::vector<ProgramInput> inputs_of(const RandomProgram& program, uint64_t seed) {
  std::vector<ProgramInput> inputs;
  for (const RandomParameter& parameter : program.parameters) {
    const Dims shape(parameter.shape);
    ++seed;
    inputs.push_back(parameter.index_limit > 0
                         ? index_input(parameter.name, parameter.dtype, shape, parameter.index_limit, seed)
                         : random_input(parameter.name, parameter.dtype, shape, seed));
  }
  return inputs;
}

TEST(ProgramRandom, AgreeWithTheOracle) {
  Context context = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
  // A commit picks one of 24 parts of the full suite.
  const uint64_t all = 6000, count = CODETTA_TEST_FULL ? all : all / 24;
  const uint64_t first = CODETTA_TEST_FULL ? 1 : 1 + commit_slice() % 24 * count;
  uint64_t loops = 0, branches = 0, sized = 0, writes = 0, refused = 0, taken = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RandomProgram program = random_program(seed, options_of(seed));
    const ProgramOutcome outcome = run_checked(program.text, inputs_of(program, seed * 1000), context, {}, {}, true);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    refused += outcome.refused != 0;
    if (outcome.refused != 0) continue;
    loops += program.text.find("while_loop(") != std::string::npos;
    branches += program.text.find("cond(") != std::string::npos;
    sized += program.text.find("x[:j]") != std::string::npos || program.text.find("x[:k]") != std::string::npos;
    taken += outcome.plan.find("_donated") != std::string::npos;
    writes += outcome.plan.find("scatter") != std::string::npos || outcome.plan.find("index_put") != std::string::npos;
  }
  EXPECT_LT(refused, count / 10);
  const auto share = [&](uint64_t of) { return CODETTA_TEST_FULL ? count / of : 0; };
  EXPECT_GT(loops, share(40));
  EXPECT_GT(branches, share(40));
  if (CODETTA_TEST_FULL) {  // rare: 3 in one part
    EXPECT_GT(sized, share(60)) << "branches and loops compute sizes";
  }
  EXPECT_GT(writes, share(12));
  EXPECT_GT(taken, share(20)) << "the memory of donated parameters is used";
}

// Seed 2862: the sum of the only row loses its index, and with it what tells rows apart.
TEST(ProgramRandom, ReductionsOfOneRowOrColumnThatLoseTheirIndex) {
  Context context = Context::make({.cache_enabled = false, .threads = 2}).value();
  const auto check = [&](const std::string& text) {
    const std::vector<ProgramInput> inputs{random_input("x", DType::f32, {1, 12}, 1),
                                           random_input("w", DType::f32, {12, 8}, 2),
                                           random_input("v", DType::f32, {12, 1}, 3)};
    EXPECT_TRUE(run_checked(text, inputs, context).checked) << text;
  };
  const std::string head = "def program(x: f32[1, 12], w: f32[12, 8], v: f32[12, 1]):\n";
  check(head +
        "    y = x @ w\n    s = sum(y, dim=1, keepdim=False)\n    D = min(s, dim=0, keepdim=False)\n"
        "    E = v * 2.0\n    return D, E\n");
  check(head +
        "    y = x @ w\n    s = max(y, dim=1)\n    D = y - s\n    m = reshape(s * 2.0, ())\n    E = v * 2.0\n    "
        "return D, m, E\n");
  check(head +
        "    y = w * v\n    z = v @ x\n    s = sum(v * 3.0, dim=0)\n    D = reshape(s, ())\n    return D, y, z\n");
}

// One element a row, or one for all, in all columns: also behind a row that ends inside of a vector.
TEST(ProgramRandom, ReadsByIndicesOfWholeRows) {
  Context context = Context::make({.cache_enabled = false, .threads = 2}).value();
  Context interprets = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
  const std::vector<ProgramInput> inputs{
      random_input("x", DType::f32, {9, 8}, 1), random_input("w", DType::f32, {8, 70}, 2),
      index_input("i", DType::i32, {1}, 70, 3), index_input("j", DType::i64, {9, 1}, 70, 4)};
  const std::string text =
      "def program(x: f32[9, 8], w: f32[8, 70], i: i32[1], j: i64[9, 1]):\n    v = x @ w\n    y = softmax(v)\n"
      "    z = y + take(v, i, dim=1)\n    u = logsumexp(v) - gather(v, j, dim=1)\n    t = y * gather(v, j, dim=1)\n"
      "    s = y - take(take(x, i % 9, dim=0), i % 8, dim=1)\n    return y, z, u, t, s\n";
  EXPECT_TRUE(run_checked(text, inputs, context).checked);
  EXPECT_TRUE(run_checked(text, inputs, interprets).checked);
}

// Steps of branches and of each turn of a loop are compared with what they begin with, and none of a right run is
// wrong.
TEST(ProgramRandom, BisectFindsNothing) {
  Context context = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
  const uint64_t count = CODETTA_TEST_FULL ? 2000 : 150;
  uint64_t compared = 0, unknown = 0, refused = 0;
  std::map<std::string, uint64_t> reasons;
  for (uint64_t seed = 20001; seed < 20001 + count; ++seed) {
    RandomProgramOptions options = options_of(seed);
    options.control = true;
    options.counts = options.parts = options.inner_counts = false;  // outputs of known sizes
    const RandomProgram random = random_program(seed, options);
    const Program program = Program::parse(random.text, "random.py").value();
    std::vector<ProgramInput> inputs = inputs_of(random, seed * 1000);
    std::vector<NamedArgument> arguments;
    for (const ProgramInput& input : inputs)
      arguments.push_back({input.name, input.number ? *input.number : ArgumentValue(input.view())});
    const ProgramShapes shapes = program.shapes(arguments).value();
    for (const auto& output : shapes.outputs) {
      inputs.push_back({output.name, std::make_shared<Tensor>(Tensor::make(output.dtype, output.shape).value())});
      fill_poison(inputs.back().view());
      arguments.push_back({output.name, inputs.back().view()});
    }
    const auto found = bisect(program, arguments, Target::host(), {}, {}, context);
    refused += !found;
    if (!found) continue;
    ASSERT_EQ(found->first_wrong, -1) << "seed " << seed << "\n" << random.text << found->text;
    for (const BisectedStep& step : found->steps) {
      if (!step.step.step.starts_with("list") || step.step.kernel.empty()) continue;
      compared += !step.values.empty();
      if (!step.values.empty() || step.unchecked == "it writes a part of a value") continue;
      ++unknown;
      ++reasons[step.unchecked];
    }
  }
  EXPECT_LT(refused, count / 10);
  EXPECT_GT(compared, count / 2);
  std::string told;
  for (const auto& [reason, times] : reasons) told += std::to_string(times) + " " + reason + "\n";
  EXPECT_LT(unknown, compared / 10) << told;
}

TEST(ProgramRandom, CompiledKernelsDoTheSame) {
  Context context = Context::make({.cache_enabled = false, .threads = 2}).value();
  const uint64_t count = CODETTA_TEST_FULL ? 60 : 4;
  for (uint64_t seed = 7001; seed < 7001 + count; ++seed) {
    RandomProgramOptions small = options_of(seed);
    small.operations = 5;
    small.control = true;
    const RandomProgram program = random_program(seed, small);
    run_checked(program.text, inputs_of(program, seed * 1000), context, {}, {}, true);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace codetta::test
