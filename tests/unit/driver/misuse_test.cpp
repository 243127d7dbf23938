// SPDX-License-Identifier: Apache-2.0
// Objects used out of order, after a move or beyond what made them, and what errors of the driver say as data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/files.hpp"
#include "codetta/codetta.hpp"

namespace {

using namespace codetta;

constexpr const char* biased = "def e(accum, C):\n    D = relu(accum + C)\n    return D\n";

class Misuse : public testing::Test {
 protected:
  Misuse() {
    fill_random(a, 1);
    fill_random(b, 2);
    fill_random(c, 3);
  }
  GemmArguments with(std::vector<NamedArgument> arguments) {
    return {.A = a, .B = b, .out = d.view(), .epilogue = EpilogueArguments(biased, std::move(arguments))};
  }
  Diagnostic refused(const GemmArguments& arguments) {
    const auto kernels = find_kernels(arguments, Target::host(), {}, context);
    if (!kernels) return kernels.error().diagnostics()[0];
    const auto ran = (*kernels)[0].run(arguments);
    return ran ? Diagnostic{} : ran.error().diagnostics()[0];
  }

  Context context{{.cache_enabled = false, .threads = 2}};
  Tensor a{f32, {20, 16}}, b{f32, {16, 24}}, c{f32, {20, 24}}, d{f32, {20, 24}};
};

// Code, argument, line of the text, and the underlined column.
void expect_at(const Diagnostic& diagnostic, int code, const std::string& argument, uint32_t line, uint32_t column) {
  EXPECT_EQ(diagnostic.code, code) << Error(diagnostic).render();
  EXPECT_EQ(diagnostic.argument, argument) << Error(diagnostic).render();
  EXPECT_EQ(diagnostic.where.line, line) << Error(diagnostic).render();
  EXPECT_EQ(diagnostic.where.column, column) << Error(diagnostic).render();
  EXPECT_FALSE(diagnostic.reason.empty() || diagnostic.help.empty()) << Error(diagnostic).render();
}

TEST_F(Misuse, ErrorsOfAGemmNameTheArgumentAndItsPlace) {
  expect_at(refused(with({{"C", TensorView()}})), 604, "C", 1, 14);
  expect_at(refused(with({{"C", c}, {"C", c}})), 210, "C", 1, 14);
  expect_at(refused(with({})), 208, "C", 1, 14);
  expect_at(refused(with({{"C", c}, {"D", c}})), 211, "D", 3, 12);
  const TensorView shifted(static_cast<float*>(d.data()) + 4, f32, {1, 24});
  expect_at(refused(with({{"C", shifted}})), 613, "D", 3, 12);
  GemmArguments constant = with({{"C", c}});
  const Tensor& there = d;
  constant.out = TensorView(static_cast<const void*>(there.data()), f32, {20, 24});
  expect_at(refused(constant), 213, "D", 3, 12);
  GemmArguments folded = with({{"C", c}});
  folded.out = TensorView(d.data(), f32, {20, 24}, {0, 1});
  expect_at(refused(folded), 613, "D", 3, 12);
  GemmArguments nowhere = with({{"C", c}});
  nowhere.out = TensorView();
  EXPECT_EQ(refused(nowhere).argument, "out");
  EXPECT_EQ(refused({}).argument, "A");
  EXPECT_EQ(refused({.A = a, .B = a}).argument, "B");
  nowhere = with({{"C", c}});
  nowhere.accumulator = static_cast<DType>(99);
  EXPECT_EQ(refused(nowhere).headline, "99 is no value of `accumulator`");
}

TEST_F(Misuse, ErrorsOfATraceNameTheCallToo) {
  const uint32_t line = __LINE__ + 2;
  const auto traced = Epilogue::trace([](EpilogueTracer& e) {
    const Expr x = e.accum() + e.input("C");
    e.output("D", relu(x));
  });
  GemmArguments arguments = with({{"C", c}});
  const Tensor narrow(f32, {23});
  arguments.epilogue = EpilogueArguments(*traced, {{"C", narrow}});
  const Diagnostic wrong = refused(arguments);
  EXPECT_EQ(wrong.code, 207);
  EXPECT_EQ(wrong.where.line_text, "    t0 = accum + C");
  ASSERT_EQ(wrong.notes.size(), 1U);
  EXPECT_EQ(wrong.notes[0].where.file, __FILE__);
  EXPECT_EQ(wrong.notes[0].where.line, line);
  const TensorView shifted(static_cast<float*>(d.data()) + 4, f32, {1, 24});
  arguments.epilogue = EpilogueArguments(*traced, {{"C", shifted}});
  const Diagnostic overlap = refused(arguments);
  expect_at(overlap, 613, "D", 4, 12);
  ASSERT_EQ(overlap.notes.size(), 1U);
  EXPECT_EQ(overlap.notes[0].where.line, line + 1);
}

TEST_F(Misuse, ErrorsOfAProgramNameTheArgumentAndItsPlace) {
  const Program program("def f(x: f32[\"m\", 16], w: f32[16, 24]):\n    y = relu(x @ w)\n    return y\n");
  const CompiledProgram compiled = compile(program, Target::host(), {}, context).value();
  const auto refused = [&](const std::vector<NamedArgument>& arguments) {
    const auto ran = compiled.run(arguments);
    return ran ? Diagnostic{} : ran.error().diagnostics()[0];
  };
  expect_at(refused({{"x", a}, {"y", d}}), 208, "w", 1, 24);
  expect_at(refused({{"x", a}, {"w", b}, {"w", b}, {"y", d}}), 210, "w", 1, 24);
  expect_at(refused({{"x", a}, {"w", b}, {"y", d.view().as_read_only()}}), 213, "y", 3, 12);
  const Tensor wide(f32, {20, 24});
  const TensorView own(wide.data(), f32, {20, 16}), over(wide.data(), f32, {20, 24});
  expect_at(refused({{"x", own}, {"w", b}, {"y", over}}), 613, "y", 3, 12);
}

// Handles that cannot be made empty stay whole when they are moved from; the others hold nothing, and say so.
TEST_F(Misuse, WhatWasMovedFrom) {
  Epilogue epilogue{std::string(biased)};
  const Epilogue other = std::move(epilogue);
  EXPECT_EQ(epilogue.to_string(), other.to_string());  // NOLINT(bugprone-use-after-move)
  Program program("def f(x: f32[4]):\n    y = x * 2.0\n    return y\n");
  const Program same = std::move(program);
  CompiledProgram compiled = compile(program, Target::host(), {}, context).value();  // NOLINT(bugprone-use-after-move)
  const CompiledProgram kept = std::move(compiled);
  const Tensor x(f32, {4}), y(f32, {4});
  EXPECT_TRUE(compiled.run({{"x", x}, {"y", y}}));  // NOLINT(bugprone-use-after-move)
  Context gone = context;
  const Context moved = std::move(gone);
  KernelList kernels = find_kernels(with({{"C", c}}), Target::host(), {}, gone).value();  // NOLINT
  Kernel kernel = kernels[0];
  const Kernel taken = std::move(kernel);
  EXPECT_EQ(kernel.run(with({{"C", c}})).error().code(), 608);  // NOLINT(bugprone-use-after-move)
  Execution execution = taken.prepare(with({{"C", c}})).value();
  Execution runs = std::move(execution);
  EXPECT_TRUE(runs.run());
  EXPECT_EQ(execution.run().error().code(), 608);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(execution.workspace_size(), 0);
  const KernelList away = std::move(kernels);
  const auto none = kernels.prepare(with({{"C", c}}));  // NOLINT(bugprone-use-after-move)
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), 418);
  EXPECT_NE(none.error().diagnostics()[0].reason.find("moved from"), std::string::npos);
  ProgramBuilder builder("g");
  const auto in = builder.input("x", f32, {4});
  const ProgramBuilder later = std::move(builder);
  builder.output("y", in * in);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(later.finish());
  GraphValue value = in, value_kept = std::move(value);
  EXPECT_EQ(later.finish().value().outputs().size(), 1U);
}

// An execution needs the tensors, and nothing else of what it was made of.
TEST_F(Misuse, AnExecutionOutlivesWhatMadeIt) {
  Execution execution;
  {
    const Context own({.cache_enabled = false, .threads = 2});
    Context used = own;
    const GemmArguments arguments = with({{"C", c}});
    execution = find_kernels(arguments, Target::host(), {}, used).value().prepare(arguments).value();
  }
  EXPECT_TRUE(execution.run());
  EXPECT_EQ(verify(with({{"C", c}}), Target::host(), {}, context).value().verdict, VerifyReport::Verdict::Pass);
}

TEST_F(Misuse, WorkspacesOfEmptyProblemsAreValid) {
  for (const Dims& size : {Dims{0, 24, 16}, Dims{20, 0, 16}, Dims{20, 24, 0}, Dims{0, 0, 0}}) {
    const GemmArguments arguments{.A = TensorView(a.data(), f32, {size[0], size[2]}),
                                  .B = TensorView(b.data(), f32, {size[2], size[1]}),
                                  .out = TensorView(d.data(), f32, {size[0], size[1]})};
    for (const Kernel& kernel : find_kernels(arguments, Target::host(), {}, context).value()) {
      Execution execution = kernel.prepare(arguments).value();
      const int64_t bytes = execution.workspace_size();
      ASSERT_EQ(bytes, kernel.metadata().workspace_bytes) << kernel.metadata().name;
      const Tensor memory(u8, {bytes});
      EXPECT_TRUE(execution.set_workspace(memory.data(), bytes)) << to_string(size);
      EXPECT_TRUE(execution.run());
      const auto none = execution.set_workspace(nullptr, 0);
      EXPECT_EQ(none.has_value(), bytes == 0) << to_string(size);
      if (!none) {
        EXPECT_EQ(none.error().diagnostics()[0].argument, "workspace");
      }
    }
  }
}

// A workspace may hold anything when it is set, and serve something else between runs.
TEST_F(Misuse, WorkspacesKeepNothingBetweenRuns) {
  const GemmArguments arguments = with({{"C", c}});
  for (const Kernel& kernel : find_kernels(arguments, Target::host(), {}, context).value()) {
    Execution execution = kernel.prepare(arguments).value();
    const Tensor memory(u8, {execution.workspace_size()});
    for (int round = 0; round < 3; ++round) {
      if (memory.byte_size() != 0) std::memset(memory.data(), round == 1 ? 0xFF : 0xA5, memory.byte_size());
      if (round == 0) {
        ASSERT_TRUE(execution.set_workspace(memory.data(), execution.workspace_size()));
      }
      fill_poison(d);
      ASSERT_TRUE(execution.run());
      EXPECT_EQ(verify(arguments, Target::host(), {.poisoned = true}, context).value().verdict,
                VerifyReport::Verdict::Pass)
          << kernel.metadata().name << " round " << round;
    }
  }
}

TEST_F(Misuse, RejectionsHaveTheirNumbers) {
  const auto folder = base::TemporaryDirectory::make(testing::TempDir());
  ASSERT_TRUE(folder);
  const Tensor large_a(f32, {80, 512}), large_b(f32, {512, 600}), large_d(f32, {80, 600});
  const GemmArguments arguments{.A = large_a, .B = large_b, .out = large_d.view()};
  std::vector<Rejection> before;
  for (const bool cached : {false, true}) {
    Context own({.cache_dir = folder->path(), .threads = 1});
    const KernelList kernels = find_kernels(arguments, Target::host(), {.max_candidates = 2}, own).value();
    const auto by_code = [&](int code) {
      return *std::find_if(kernels.rejections().begin(), kernels.rejections().end(),
                           [&](const Rejection& r) { return r.code == code; });
    };
    const Rejection ranked = by_code(418);
    ASSERT_EQ(ranked.limits.size(), 1U);
    EXPECT_EQ(ranked.limits[0].name, "candidates");
    EXPECT_GT(ranked.limits[0].given, 2);
    EXPECT_EQ(ranked.limits[0].limit, 2);
    const Rejection size = by_code(406);
    ASSERT_EQ(size.limits.size(), 3U) << size.text;
    EXPECT_EQ(size.limits[0].name, "rows");
    EXPECT_EQ(size.limits[0].given, 80);
    EXPECT_EQ(size.limits[1].given, 600);
    EXPECT_EQ(size.limits[2].given, 80 * 600 * 512);
    for (const auto& [name, given, limit] : size.limits) {
      EXPECT_GT(given, limit) << name;
      EXPECT_NE(size.text.find(std::to_string(limit)), std::string::npos) << size.text;
    }
    for (size_t i = 0; cached && i < before.size(); ++i) {
      const Rejection& now = kernels.rejections()[i];
      ASSERT_EQ(now.limits.size(), before[i].limits.size()) << now.text;
      for (size_t j = 0; j < now.limits.size(); ++j) {
        EXPECT_EQ(now.limits[j].name, before[i].limits[j].name);
        EXPECT_EQ(now.limits[j].given, before[i].limits[j].given);
        EXPECT_EQ(now.limits[j].limit, before[i].limits[j].limit);
      }
    }
    before = kernels.rejections();
  }
}

TEST_F(Misuse, TimesOfATuningAreSeconds) {
  const GemmArguments arguments = with({{"C", c}});
  const auto code = [&](const TuneOptions& options) {
    const auto report = tune(arguments, Target::host(), options, context);
    return report ? 0 : static_cast<int>(report.error().code());
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(code({.budget_seconds = nan}), 703);
  EXPECT_EQ(code({.max_candidates = 0}), 703);
  EXPECT_EQ(code({.trial_seconds = -1}), 703);
  EXPECT_EQ(code({.trial_seconds = nan}), 703);
}

TEST(Throwing, ConstructorsThrowWhatMakeReturns) {
  const auto code = [](auto&& make) {
    try {
      make();
    } catch (const Exception& e) {
      return static_cast<int>(e.error().code());
    }
    return 0;
  };
  EXPECT_EQ(code([] { Epilogue("def f(accum): D = acum; return D"); }), 130);
  EXPECT_EQ(code([] { Epilogue([](EpilogueTracer&) {}); }), 126);
  EXPECT_EQ(code([] { Program("def f(x: f32[4]): y = z; return y"); }), 130);
  EXPECT_EQ(code([] { Context({.threads = -1}); }), 703);
  EXPECT_EQ(code([] { Tensor(f32, {-1}); }), 602);
  EXPECT_EQ(code([] { TensorView(static_cast<const void*>(nullptr), f32, {1}); }), 604);
  EXPECT_EQ(code([] { EpilogueArguments("def f(): D = 1; return D", {}); }), 125);
  EXPECT_EQ(code([] { get_kernels({}); }), 223);
  EXPECT_EQ(Epilogue("def f(accum): D = accum; return D").name(), "f");
}

}  // namespace
