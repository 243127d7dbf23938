// SPDX-License-Identifier: Apache-2.0
// Watching a run step by step: records, statistics, the trap, traces, and finding the step or the pass that is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include <nlohmann/json.hpp>

#include "codetta/observe.hpp"
#include "driver/bisect.hpp"
#include "ir/graph.hpp"
#include "unit/driver/program_check.hpp"

namespace codetta::test {
namespace {

constexpr const char* two_layers =
    "def mlp(x: f32[\"m\", 8], w: f32[8, 16], v: f32[16, 8]):\n"
    "    h = relu(x @ w)\n"
    "    y = h @ v\n"
    "    return y\n";

class ProgramObserve : public ::testing::Test {
 protected:
  struct Bound {
    std::vector<std::shared_ptr<Tensor>> tensors;
    std::vector<NamedArgument> arguments;
  };
  static Bound bound(const Program& program, const std::vector<ProgramInput>& inputs) {
    Bound result;
    for (const ProgramInput& input : inputs) {
      if (input.number) {
        result.arguments.push_back({input.name, *input.number});
      } else {
        result.tensors.push_back(input.memory);
        result.arguments.push_back({input.name, input.view()});
      }
    }
    const ProgramShapes shapes = program.shapes(result.arguments).value();
    for (const auto& output : shapes.outputs) {
      result.tensors.push_back(std::make_shared<Tensor>(Tensor::make(output.dtype, output.shape).value()));
      fill_poison(result.tensors.back()->view());
      result.arguments.push_back({output.name, result.tensors.back()->view()});
    }
    return result;
  }
  static std::vector<ProgramInput> layers() {
    return {random_input("x", f32, {5, 8}, 1), random_input("w", f32, {8, 16}, 2), random_input("v", f32, {16, 8}, 3)};
  }
  Result<std::vector<StepRecord>> watch(const Program& program, const Bound& data, const StepObserver& next = {}) {
    std::vector<StepRecord> seen;
    RunOptions options;
    options.observer = [&](const StepRecord& record) -> Result<void> {
      seen.push_back(record);
      return next ? next(record) : Result<void>();
    };
    const auto compiled = compile(program, Target::host(), {}, context_);
    if (!compiled) return compiled.error();
    if (const auto ran = compiled->run(data.arguments, {}, options); !ran) return ran.error();
    return seen;
  }

  Context context_ = Context::make({.cache_enabled = false, .no_compiler = true, .threads = 2}).value();
};

TEST_F(ProgramObserve, TellsEveryLaunchWithItsLinesAndValues) {
  const auto program = Program::parse(two_layers, "mlp.py").value();
  const Bound data = bound(program, layers());
  std::vector<double> sums;
  const auto seen = watch(program, data, [&](const StepRecord& record) -> Result<void> {
    for (const auto& value : record.written) sums.push_back(statistics(value.view).mean);
    return {};
  });
  ASSERT_TRUE(seen) << seen.error().message();
  std::vector<StepRecord> launches;
  for (const StepRecord& record : *seen) {
    if (!record.kernel.empty()) launches.push_back(record);
  }
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].origins, (std::vector<std::string>{"mlp.py:2: h = relu(x @ w)"}));
  EXPECT_EQ(launches[1].origins, (std::vector<std::string>{"mlp.py:3: y = h @ v"}));
  EXPECT_NE(launches[0].step.find("(launch_kernel)"), std::string::npos);
  EXPECT_EQ(launches[1].written.at(0).name, "y");
  EXPECT_LE(launches[0].begin_ns, launches[0].end_ns);
  EXPECT_LE(launches[0].end_ns, launches[1].begin_ns);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_GT(sums[0], 0) << "h is not negative anywhere";
  EXPECT_DOUBLE_EQ(sums[1], statistics(data.tensors.back()->view()).mean);
}

// Each step is told before its first element is written, and where nobody looks at what it wrote, too.
TEST_F(ProgramObserve, TellsEveryStepBeforeItRuns) {
  const auto program = Program::parse(
                           "def more(i, x):\n    return i < 2\n"
                           "def body(i, x):\n    return i + 1, x * 2.0\n"
                           "def f(x: f32[4, 4], w: f32[4, 4]):\n    i, s = while_loop(more, body, 0, x)\n"
                           "    y = relu(s @ w)\n    return y\n",
                           "f.py")
                           .value();
  const std::vector<ProgramInput> inputs{random_input("x", f32, {4, 4}, 1), random_input("w", f32, {4, 4}, 2)};
  const auto compiled = compile(program, Target::host(), {}, context_).value();
  for (const bool observed : {false, true}) {
    const Bound data = bound(program, inputs);
    std::vector<std::string> started, ended, open;
    std::optional<StepRecord> last;
    RunOptions options;
    std::vector<const StepRecord*> asked;
    options.starting = [&](const StepRecord& record) -> std::function<void()> {
      EXPECT_TRUE(record.written.empty() && record.results.empty());
      EXPECT_TRUE(started.empty()) << "asked while it runs";
      asked.push_back(&record);
      if (record.step.ends_with("(define_symbol)")) return {};
      return [&] {
        started.push_back(record.step);
        open.push_back(record.step);
        last = record;
      };
    };
    if (observed) {
      options.observer = [&](const StepRecord& record) -> Result<void> {
        if (record.step.ends_with("(define_symbol)")) return {};
        EXPECT_EQ(open.empty() ? std::string() : open.back(), record.step);
        if (!open.empty()) open.pop_back();
        ended.push_back(record.step);
        return {};
      };
    }
    auto prepared = compiled.prepare(data.arguments, options);
    ASSERT_TRUE(prepared) << prepared.error().message();
    EXPECT_FALSE(asked.empty());
    const size_t before = asked.size();
    const auto ran = prepared->run();
    ASSERT_TRUE(ran) << ran.error().message();
    EXPECT_EQ(asked.size(), before);
    ASSERT_TRUE(last);
    EXPECT_EQ(last->origins, (std::vector<std::string>{"f.py:7: y = relu(s @ w)"}));
    EXPECT_NE(last->kernel.find("codetta_relu_"), std::string::npos) << last->kernel;
    const auto in_body = std::count_if(started.begin(), started.end(), [](const std::string& step) {
      return step.starts_with("list 1, ") && step.ends_with("(launch_kernel)");
    });
    EXPECT_GE(in_body, 2);
    EXPECT_EQ(in_body % 2, 0) << "two passes";
    std::sort(started.begin(), started.end());
    std::sort(ended.begin(), ended.end());
    EXPECT_EQ(ended, observed ? started : std::vector<std::string>());
  }
}

// The steps of a program of launches alone are told as well, before they write.
TEST_F(ProgramObserve, TellsLaunchesBeforeTheyWrite) {
  const auto program = Program::parse(two_layers, "mlp.py").value();
  const Bound data = bound(program, layers());
  const TensorView y = data.tensors.back()->view();
  const double poison = *y.as<float>();
  std::vector<std::string> lines;
  RunOptions options;
  options.starting = [&](const StepRecord& record) -> std::function<void()> {
    return [&] {
      lines.insert(lines.end(), record.origins.begin(), record.origins.end());
      const double now = *y.as<float>();
      EXPECT_TRUE(now == poison || (std::isnan(now) && std::isnan(poison))) << record.step;
    };
  };
  const auto compiled = compile(program, Target::host(), {}, context_).value();
  ASSERT_TRUE(compiled.run(data.arguments, {}, options));
  EXPECT_EQ(lines, (std::vector<std::string>{"mlp.py:2: h = relu(x @ w)", "mlp.py:3: y = h @ v"}));
  EXPECT_FALSE(std::isnan(*y.as<float>()));
}

TEST_F(ProgramObserve, AnErrorOfTheObserverEndsTheRun) {
  const auto program = Program::parse(two_layers, "mlp.py").value();
  const Bound data = bound(program, layers());
  int told = 0;
  const auto seen = watch(program, data, [&](const StepRecord&) -> Result<void> {
    ++told;
    Diagnostic own;
    own.code = 617;
    own.headline = "enough";
    return Error(std::move(own));
  });
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().diagnostics().front().headline, "enough");
  EXPECT_EQ(told, 1);
}

TEST_F(ProgramObserve, TellsStepsOfLoopsAndBranchesInOrder) {
  const auto program = Program::parse(
                           "def more(i, x):\n    return i < 3\n"
                           "def body(i, x):\n    return i + 1, x * 2.0\n"
                           "def f(x: f32[4]):\n    i, y = while_loop(more, body, 0, x)\n    return y\n",
                           "loop.py")
                           .value();
  const Bound data = bound(program, {random_input("x", f32, {4}, 1)});
  const auto seen = watch(program, data);
  ASSERT_TRUE(seen) << seen.error().message();
  size_t nested = 0;
  bool loop = false;
  for (const StepRecord& record : *seen) {
    if (record.step.rfind("list ", 0) == 0) {
      EXPECT_FALSE(loop) << record.step << " is told behind its loop";
      nested += !record.kernel.empty();
    }
    loop = loop || record.step.find("(while)") != std::string::npos;
  }
  EXPECT_TRUE(loop);
  EXPECT_GE(nested, 3u);
}

TEST(Statistics, CountsAndBounds) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> data{0, -3, inf, std::nanf(""), 5, 0, -inf, 2};
  const ValueStatistics all = statistics(TensorView(data.data(), f32, {2, 4}));
  EXPECT_EQ(all.elements, 8);
  EXPECT_EQ(all.nans, 1);
  EXPECT_EQ(all.infinities, 2);
  EXPECT_EQ(all.zeros, 2);
  EXPECT_EQ(all.least, -3);
  EXPECT_EQ(all.greatest, 5);
  EXPECT_DOUBLE_EQ(all.mean, 0.8);
  const auto column = TensorView::make(data.data(), f32, {2}, {4}).value();  // 0 and 5
  EXPECT_EQ(statistics(column).greatest, 5);
  EXPECT_EQ(statistics(column).elements, 2);
  EXPECT_EQ(statistics(TensorView(data.data(), f32, {0, 4})).elements, 0);
  std::vector<uint64_t> large{~uint64_t{0}};
  EXPECT_EQ(statistics(TensorView(large.data(), u64, {1})).greatest, 0x1p64);
}

TEST_F(ProgramObserve, TrapNamesStepLineAndElement) {
  const auto program = Program::parse(
                           "def f(x: f32[2, 4], w: f32[4, 4], v: f32[4, 4]):\n    h = log(x @ w)\n    y = exp(h @ v)\n"
                           "    return y\n",
                           "logs.py")
                           .value();
  const std::vector<double> x{1, 0, 0, 0, -1, 0, 0, 0}, ones(16, 1.0), hundreds(16, 100.0);
  const auto trap = [&](const std::vector<double>& first, const std::vector<double>& weights, bool infinities) {
    const Bound data = bound(program, {values_input("x", f32, {2, 4}, first), values_input("w", f32, {4, 4}, weights),
                                       values_input("v", f32, {4, 4}, hundreds)});
    return watch(program, data, trap_numbers(infinities));
  };
  const auto nan = trap(x, ones, false);
  ASSERT_FALSE(nan);
  EXPECT_EQ(nan.error().code(), 619);
  const std::string& reason = nan.error().diagnostics().front().reason;
  EXPECT_NE(reason.find("wrote NaN at [1, 0]"), std::string::npos) << reason;
  EXPECT_NE(reason.find("logs.py:2: h = log(x @ w)"), std::string::npos) << reason;
  EXPECT_NE(reason.find("launch_kernel"), std::string::npos) << reason;
  const std::vector<double> positive{2, 0, 0, 0, 3, 0, 0, 0};  // exp(400 log(2)) is an infinity, not a NaN
  EXPECT_TRUE(trap(positive, ones, false));
  const auto infinite = trap(positive, ones, true);
  ASSERT_FALSE(infinite);
  EXPECT_NE(infinite.error().diagnostics().front().reason.find("logs.py:3"), std::string::npos);
}

// What else lies in a tensor that several kernels store parts of is none of a step's.
TEST_F(ProgramObserve, OnlyWhatAStepHasWrittenIsLookedAt) {
  for (const int dim : {0, 1}) {
    const Program program = Program::parse(
                                "def f(x: f32[\"n\", 8], w: f32[8, 8]):\n    a = x @ w\n    b = sqrt(x @ "
                                "(w * 2.0))\n    y = concat(a, b, dim=" +
                                    std::to_string(dim) + ")\n    return y\n",
                                "p.py")
                                .value();
    std::vector<double> x(5 * 8, 1.0), w(64, 0.0);
    for (int i = 0; i < 8; ++i) w[static_cast<size_t>(i * 9)] = 1.0;  // a is x
    int64_t partly = 0, elements = 0;
    const StepObserver count = [&](const StepRecord& record) -> Result<void> {
      for (const StepRecord::Value& value : record.written) {
        if (value.name != "y") continue;
        partly += value.parts.empty() ? 0 : 1;
        elements += statistics(value).elements;
        EXPECT_EQ(statistics(value).nans, 0);
      }
      return {};
    };
    const auto ran =
        watch(program, bound(program, {values_input("x", f32, {5, 8}, x), values_input("w", f32, {8, 8}, w)}),
              trap_numbers(true, count));
    ASSERT_TRUE(ran) << ran.error().render();
    EXPECT_EQ(partly, dim == 0 ? 2 : 0) << "columns are stored by one kernel";
    EXPECT_EQ(elements, 80) << dim;
    x[3 * 8 + 6] = -1.0;
    const auto trapped =
        watch(program, bound(program, {values_input("x", f32, {5, 8}, x), values_input("w", f32, {8, 8}, w)}),
              trap_numbers());
    ASSERT_FALSE(trapped);
    const std::string said = trapped.error().render();
    EXPECT_NE(said.find("error[E0619]: y holds NaN"), std::string::npos) << said;
    EXPECT_NE(said.find(dim == 0 ? "wrote NaN at [8, 6]" : "wrote NaN at [3, 14]"), std::string::npos) << said;
  }
}

TEST_F(ProgramObserve, TraceIsJsonOfEveryStep) {
  const auto program = Program::parse(two_layers, "mlp.py").value();
  const auto seen = watch(program, bound(program, layers()));
  ASSERT_TRUE(seen);
  const auto trace = nlohmann::json::parse(chrome_trace(*seen, "m\"lp"));
  ASSERT_EQ(trace["traceEvents"].size(), seen->size() + 1);
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "m\"lp");
  for (size_t i = 0; i < seen->size(); ++i) {
    const auto& event = trace["traceEvents"][i + 1];
    EXPECT_EQ(event["ph"], "X");
    EXPECT_EQ(event["args"]["step"], (*seen)[i].step);
    EXPECT_GE(event["dur"].get<double>(), 0);
  }
}

TEST_F(ProgramObserve, BisectFindsNothingInARightRun) {
  const auto program = Program::parse(two_layers, "mlp.py").value();
  const Bound data = bound(program, layers());
  const auto found = bisect(program, data.arguments, Target::host(), {}, {}, context_);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->pass, "");
  EXPECT_EQ(found->first_wrong, -1) << found->text;
  size_t compared = 0;
  for (const BisectedStep& step : found->steps) {
    for (const OutputCheck& value : step.values) compared += static_cast<size_t>(value.checked);
  }
  EXPECT_EQ(compared, 5u * 16 + 5u * 8) << found->text;
  EXPECT_NE(found->text.find("no step is wrong"), std::string::npos);
}

// What a target has in front of the passes, such as rows of a slice as items, is compared as they are.
TEST_F(ProgramObserve, BisectComparesWhatIsInFrontOfThePasses) {
  size_t passes[2];
  for (const bool sliced : {false, true}) {
    const std::string text = std::string("def f(x: f32[\"b\", 40, 8], w: f32[8, 4]):\n    y = reshape(x") +
                             (sliced ? "[:, 4:], (b*36, 8)) @ w\n" : ", (b*40, 8)) @ w\n") + "    return y\n";
    const auto program = Program::parse(text, "p.py").value();
    const Bound data =
        bound(program, {random_input("x", DType::f32, {2, 40, 8}, 1), random_input("w", DType::f32, {8, 4}, 2)});
    const auto found = bisect(program, data.arguments, Target::host(), {}, {}, context_);
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(found->pass, "");
    ASSERT_EQ(std::sscanf(found->text.c_str(), "passes all %zu keep", &passes[sliced ? 1 : 0]), 1) << found->text;
  }
  EXPECT_EQ(passes[1], passes[0] + 1);
}

// What a wrong kernel would leave is put there by an observer.
TEST_F(ProgramObserve, BisectNamesTheStepThatIsWrong) {
  const auto program = Program::parse(two_layers, "mlp.py").value();
  for (const int wrong : {0, 1}) {
    const Bound data = bound(program, layers());
    BisectOptions options;
    int launch = 0;
    options.run.observer = [&](const StepRecord& record) -> Result<void> {
      if (!record.kernel.empty() && launch++ == wrong) record.written.at(0).view.as<float>()[3] += 1;
      return {};
    };
    const auto found = bisect(program, data.arguments, Target::host(), {}, options, context_);
    ASSERT_TRUE(found) << found.error().message();
    ASSERT_GE(found->first_wrong, 0) << found->text;
    const BisectedStep& step = found->steps[static_cast<size_t>(found->first_wrong)];
    EXPECT_EQ(step.step.origins.at(0), wrong == 0 ? "mlp.py:2: h = relu(x @ w)" : "mlp.py:3: y = h @ v");
    EXPECT_EQ(step.values.at(0).wrong, 1);
    EXPECT_NE(step.values.at(0).worst.find("[0, 3]"), std::string::npos) << step.values.at(0).worst;
    EXPECT_NE(found->text.find("WRONG"), std::string::npos);
  }
}

// What a run of `program` is told of while the `wrong`-th launch that carries out a line with `line` leaves something
// else; 0: none does.
struct Bisected {
  BisectReport report;
  std::vector<const BisectedStep*> of_line;
};

class ProgramBisect : public ProgramObserve {
 protected:
  Bisected run(const std::string& text, const std::vector<ProgramInput>& inputs, const std::string& line,
               int wrong = 0) {
    const auto program = Program::parse(text, "p.py").value();
    const Bound data = bound(program, inputs);
    const auto is_it = [&](const StepRecord& record) {
      return std::any_of(record.origins.begin(), record.origins.end(),
                         [&](const std::string& origin) { return origin.find(line) != std::string::npos; });
    };
    BisectOptions options;
    int launches = 0;
    options.run.observer = [&](const StepRecord& record) -> Result<void> {
      if (!is_it(record) || ++launches != wrong) return {};
      for (const StepRecord::Value& value : record.written) {
        if (value.view.dtype() == f32 && !value.view.empty()) value.view.as<float>()[0] += 64;
      }
      return {};
    };
    const auto found = bisect(program, data.arguments, Target::host(), {}, options, context_);
    EXPECT_TRUE(found) << found.error().render();
    Bisected result;
    if (!found) return result;
    result.report = *found;
    for (const BisectedStep& step : result.report.steps) {
      if (is_it(step.step)) result.of_line.push_back(&step);
    }
    EXPECT_EQ(result.report.pass, "");
    return result;
  }
};

// Which nothing that the branch begins with has.
TEST_F(ProgramBisect, BranchesThatNameASizeOfAroundAreCompared) {
  const std::string text =
      "def up(x):\n    return relu(x) + sum(ones(\"count\", 4), dim=0)\n"
      "def down(x):\n    return x * 0.5\n"
      "def f(x: f32[\"n\", 4], keep: bool[\"n\"], p: bool):\n"
      "    count = sum(cast(keep, i64), keepdim=False)\n"
      "    y = cond(p, up, down, x) + sum(x[:count], dim=0)\n    return y\n";
  const std::vector<ProgramInput> inputs{random_input("x", f32, {6, 4}, 1),
                                         index_input("keep", DType::boolean, {6}, 2, 7), number_input("p", true)};
  for (const int wrong : {0, 1}) {
    const Bisected found = run(text, inputs, "relu(x)", wrong);
    ASSERT_FALSE(found.of_line.empty()) << found.report.text;
    for (const BisectedStep* step : found.of_line) {
      EXPECT_EQ(step->unchecked, "") << found.report.text;
      EXPECT_FALSE(step->values.empty()) << found.report.text;
    }
    EXPECT_EQ(found.report.first_wrong >= 0, wrong != 0) << found.report.text;
  }
}

constexpr const char* loop_of_branches =
    "def more(i, x, w):\n    return i < 4\n"
    "def up(x, w):\n    return relu(x @ w) + 1.0\n"
    "def down(x, w):\n    return tanh(x @ w) - x\n"
    "def turn(i, x, w):\n"
    "    g = x * 0.5\n"
    "    y = cond(i % 2 == 0, up, down, g, w)\n"
    "    s = sigmoid(y @ w)\n"
    "    return i + 1, s, w\n"
    "def f(x: f32[\"m\", 8], w: f32[8, 8]):\n"
    "    i, y, _ = while_loop(more, turn, 0, x, w)\n"
    "    z = exp(y)\n"
    "    return z\n";

TEST_F(ProgramBisect, StepsOfLoopsAndBranchesAreCompared) {
  const std::vector<ProgramInput> inputs{random_input("x", f32, {5, 8}, 1), random_input("w", f32, {8, 8}, 2)};
  const Bisected right = run(loop_of_branches, inputs, "sigmoid(y @ w)");
  EXPECT_EQ(right.report.first_wrong, -1) << right.report.text;
  ASSERT_EQ(right.of_line.size(), 4U) << right.report.text;
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_FALSE(right.of_line[i]->values.empty()) << right.report.text;
    EXPECT_EQ(right.of_line[i]->turns, std::vector<int64_t>{static_cast<int64_t>(i) + 1});
  }
  for (const BisectedStep& step : right.report.steps) {
    EXPECT_TRUE(step.unchecked.empty() || step.step.kernel.empty()) << step.step.step << ": " << step.unchecked;
  }
  // A branch of the third turn, and what is made of it in turns behind: these are right of what they begin with.
  for (const auto& [line, launch, turn] : {std::tuple("relu(x @ w) + 1.0", 2, 3), std::tuple("tanh(x @ w) - x", 1, 2),
                                           std::tuple("sigmoid(y @ w)", 3, 3)}) {
    const Bisected wrong = run(loop_of_branches, inputs, line, launch);
    ASSERT_GE(wrong.report.first_wrong, 0) << line << wrong.report.text;
    const BisectedStep& first = wrong.report.steps[static_cast<size_t>(wrong.report.first_wrong)];
    EXPECT_EQ(&first, wrong.of_line[static_cast<size_t>(launch) - 1]) << line << wrong.report.text;
    EXPECT_EQ(first.turns, std::vector<int64_t>{turn});
    EXPECT_NE(wrong.report.text.find("the first wrong step is " + first.step.step + ", turn " + std::to_string(turn)),
              std::string::npos)
        << wrong.report.text;
    for (const BisectedStep& step : wrong.report.steps) {
      EXPECT_FALSE(step.wrong && !step.turns.empty() && step.turns[0] > turn) << step.step.step << wrong.report.text;
    }
  }
}

TEST_F(ProgramBisect, LoopsInLoopsAndSizesOfTheProgram) {
  const std::string text =
      "def more(i, x):\n    return i < 3\n"
      "def add(j, x):\n    y = x * 0.5 + 1.0\n    return j + 1, y\n"
      "def fewer(j, x):\n    return j < 2\n"
      "def turn(i, x):\n"
      "    j, y = while_loop(fewer, add, 0, x)\n"
      "    return i + 1, concat(y[m // 2:], y[:m // 2], dim=0)\n"
      "def f(x: f32[\"m\", 6]):\n    i, y = while_loop(more, turn, 0, x)\n    return y\n";
  const std::vector<ProgramInput> inputs{random_input("x", f32, {8, 6}, 1)};
  const Bisected right = run(text, inputs, "x * 0.5 + 1.0");
  EXPECT_EQ(right.report.first_wrong, -1) << right.report.text;
  ASSERT_EQ(right.of_line.size(), 6U) << right.report.text;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_FALSE(right.of_line[i]->values.empty()) << right.report.text;
    EXPECT_EQ(right.of_line[i]->turns,
              (std::vector<int64_t>{static_cast<int64_t>(i / 2) + 1, static_cast<int64_t>(i % 2) + 1}));
  }
  const Bisected wrong = run(text, inputs, "x * 0.5 + 1.0", 4);
  ASSERT_GE(wrong.report.first_wrong, 0) << wrong.report.text;
  EXPECT_EQ(&wrong.report.steps[static_cast<size_t>(wrong.report.first_wrong)], wrong.of_line[3]);
  EXPECT_NE(wrong.report.text.find(", turn 2.2\n"), std::string::npos) << wrong.report.text;
}

// Numbers, donated memory that is reused, and a loop that runs no turn.
TEST_F(ProgramBisect, WhatLoopsBeginWith) {
  const std::string text =
      "def more(i, x, a, most):\n    return i < most\n"
      "def turn(i, x, a, most):\n    y = x * a + 1.0\n    return i + 1, y, a, most\n"
      "def f(x: donated[f32[\"m\", 6]], a: f32, most: i32):\n"
      "    i, y, _, _ = while_loop(more, turn, 0, x, a, most)\n    return y\n";
  for (const int most : {0, 3}) {
    const Bisected right =
        run(text, {random_input("x", f32, {8, 6}, 1), number_input("a", 0.75), number_input("most", int64_t{most})},
            "x * a + 1.0");
    EXPECT_EQ(right.report.first_wrong, -1) << right.report.text;
    ASSERT_EQ(right.of_line.size(), static_cast<size_t>(most)) << right.report.text;
    for (const BisectedStep* step : right.of_line) EXPECT_FALSE(step->values.empty()) << right.report.text;
  }
}

// An index_put at another dim than the first writes through a view of what the branch reads.
TEST_F(ProgramBisect, WhatIsWrittenThroughViews) {
  const std::string text =
      "def up(x):\n    return relu(x) + 1.0\n"
      "def down(x):\n    return tanh(x) - 2.0\n"
      "def f(x: f32[\"m\", 6], i: i32[2], p: bool):\n"
      "    y = x * 0.5 + 1.0\n"
      "    z = index_put(y, i, y[:, :2] + 30.0, dim=1)\n"
      "    r = cond(p, up, down, z)\n"
      "    return r\n";
  for (const bool branch : {false, true}) {
    const Bisected right =
        run(text, {random_input("x", f32, {5, 6}, 1), index_input("i", i32, {2}, 6, 2), number_input("p", branch)},
            branch ? "relu(x) + 1.0" : "tanh(x) - 2.0");
    EXPECT_EQ(right.report.first_wrong, -1) << right.report.text;
    ASSERT_EQ(right.of_line.size(), 1U) << right.report.text;
    EXPECT_FALSE(right.of_line[0]->values.empty()) << right.report.text;
  }
}

// Memory of sizes that the program computes is taken, and handed on, while it runs. What the inner loop leaves is
// carried by the outer one in the same memory.
TEST_F(ProgramBisect, LoopsOfSizesThatAreKnownLate) {
  const std::string text =
      "def more(i, x):\n    return i < 2\n"
      "def turn(i, x):\n    y = x * 0.5 + 1.0\n    return i + 1, y\n"
      "def outer(i, x):\n    j, y = while_loop(more, turn, 0, x * 2.0)\n    return i + 1, y\n"
      "def f(x: f32[\"m\", 6], k: i32[2]):\n"
      "    s = x[:k[1]] * 3.0\n"
      "    i, y = while_loop(more, outer, 0, s)\n"
      "    z = sum(y, dim=0)\n"
      "    return z\n";
  const Bisected right =
      run(text, {random_input("x", f32, {8, 6}, 1), values_input("k", i32, {2}, {7, 5})}, "x * 0.5 + 1.0");
  EXPECT_EQ(right.report.first_wrong, -1) << right.report.text;
  ASSERT_EQ(right.of_line.size(), 4U) << right.report.text;
  for (const BisectedStep* step : right.of_line) EXPECT_FALSE(step->values.empty()) << right.report.text;
}

// A product whose B is made as it is packed has the kernel that makes it beside its own: steps behind it keep theirs.
TEST_F(ProgramObserve, StepsBehindAMadeFactorKeepTheirLines) {
  const auto program = Program::parse(
                           "def f(x: bf16[\"n\", 4], p: f64[\"n\", 6]):\n"
                           "    b = hardswish(x)\n"
                           "    y = x @ transpose(b)\n"
                           "    z = p * 2.0\n"
                           "    return y, z\n",
                           "made.py")
                           .value();
  const Bound data = bound(program, {random_input("x", bf16, {9, 4}, 1), random_input("p", f64, {9, 6}, 2)});
  const auto compiled = compile(program, Target::host(), {}, context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const std::string plan = compiled->emit(Stage::Plan).value();
  ASSERT_NE(plan.find("(x) transposed"), std::string::npos) << "nothing is made here:\n" << plan;
  const auto found = bisect(program, data.arguments, Target::host(), {}, {}, context_);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->first_wrong, -1) << found->text;
  std::vector<std::pair<std::string, std::string>> last_lines;  // of what is written
  for (const BisectedStep& step : found->steps) {
    for (const OutputCheck& value : step.values) last_lines.emplace_back(value.name, step.step.origins.back());
  }
  EXPECT_EQ(last_lines, (std::vector<std::pair<std::string, std::string>>{{"y", "made.py:3: y = x @ transpose(b)"},
                                                                          {"z", "made.py:4: z = p * 2.0"}}));
}

ir::Graph one_operation(ir::Op op) {
  ir::GraphBuilder builder;
  const ir::NodeId x = builder.add_input("x", ir::TensorType{f32, false, {types::Dim::constant(4)}});
  builder.add_output("y", builder.add(op, std::array{x}).value(), f32);
  return std::move(builder).finish().value();
}

TEST(Disagreement, IsFoundWhereNoValueIsAdmittedByBoth) {
  std::vector<float> data{1, 0, -3, 1};
  const std::vector<oracle::OracleInput> inputs{TensorView(data.data(), f32, {4})};
  const auto values = [&](ir::Op op) { return oracle::evaluate(one_operation(op), inputs).value(); };
  EXPECT_EQ(driver::disagreement(values(ir::Op::abs), values(ir::Op::abs)), std::nullopt);
  const auto found = driver::disagreement(values(ir::Op::relu), values(ir::Op::abs));
  ASSERT_TRUE(found);
  EXPECT_NE(found->find("y [2]: 0 to 0 before, 3 to 3 behind"), std::string::npos) << *found;
  const auto nan = driver::disagreement(values(ir::Op::sqrt), values(ir::Op::abs));
  ASSERT_TRUE(nan);
  EXPECT_NE(nan->find("NaN"), std::string::npos) << *nan;
}

}  // namespace
}  // namespace codetta::test
