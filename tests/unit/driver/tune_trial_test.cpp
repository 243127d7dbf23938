// SPDX-License-Identifier: Apache-2.0
// A candidate that crashes or hangs loses alone. It is planted by a compiler that adds a line to the fully fused
// kernel.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "base/files.hpp"
#include "codetta/codetta.hpp"

namespace {

using namespace codetta;

constexpr int64_t size = 64;

class TuneTrial : public testing::Test {
 protected:
  TuneTrial() : folder_(std::move(*base::TemporaryDirectory::make(testing::TempDir()))) {
    std::mt19937 gen(7);
    for (const Tensor* tensor : {&a_, &b_}) {
      for (int64_t i = 0; i < size * size; ++i)
        static_cast<float*>(tensor->data())[i] = static_cast<float>(static_cast<int>(gen() % 9) - 4);
    }
  }

  // A context whose compiler puts `line` at the start of the function of that name.
  Context planted(const std::string& function, const std::string& line, ThreadPool* pool = nullptr) const {
    const std::string compiler = folder_.path() + "/planting";
    EXPECT_TRUE(base::write_file_atomically(
        compiler, "#!/bin/sh\ncase \"$*\" in\n  *'-x c++ -'*) sed '/visibility.*void " + function + "(/a " + line +
                      "' | c++ \"$@\" ;;\n  *) exec c++ \"$@\" ;;\nesac\n"));
    EXPECT_EQ(::chmod(compiler.c_str(), 0755), 0);
    ContextOptions options;
    options.cache_dir = folder_.path() + "/cache";
    options.compiler = compiler;
    options.threads = 2;
    options.pool = pool;
    return Context::make(options).value();
  }

  GemmArguments arguments() {
    const EpilogueArguments epilogue("def e(accum):\n    D = relu(accum) + 1.0\n    return D\n", {{"D", d_.view()}});
    return {.A = a_.view(), .B = b_.view(), .out = d_.view(), .epilogue = epilogue};
  }

  // Tunes; the fused candidates fail as `expected` begins, the others are timed, and the outputs are those of a good
  // one.
  void expect_only_fused_fail(Context& context, const std::string& expected) {
    const GemmArguments wanted = arguments();
    TuneOptions options;
    options.trial_seconds = 1;
    options.max_candidates = 64;
    const TuneReport report = tune(wanted, Target::host(), options, context).value();
    EXPECT_TRUE(report.complete);
    EXPECT_EQ(report.note, "");
    size_t failed = 0, timed = 0;
    for (const TuneResult& result : report.results) {
      const bool fused = result.kernel.find("fused") != std::string::npos;
      EXPECT_EQ(fused, !result.failure.empty()) << result.kernel << ": " << result.failure;
      if (fused) {
        EXPECT_EQ(result.failure.substr(0, expected.size()), expected);
      } else {
        EXPECT_GT(result.microseconds, 0);
      }
      ++(fused ? failed : timed);
    }
    EXPECT_GT(timed, 0u);
    if (failed == 0) GTEST_SKIP() << "no fully fused kernel on this processor";
    EXPECT_EQ(report.results[0].failure, "");
    const KernelList after = find_kernels(wanted, Target::host(), {}, context).value();
    EXPECT_TRUE(after[0].metadata().tuned);
    EXPECT_NE(after[0].metadata().family, "fused");
    EXPECT_EQ(verify(wanted).value().verdict, VerifyReport::Verdict::Pass);
  }

  base::TemporaryDirectory folder_;
  Tensor a_ = Tensor::make(f32, {size, size}).value(), b_ = Tensor::make(f32, {size, size}).value(),
         d_ = Tensor::make(f32, {size, size}).value();
};

TEST_F(TuneTrial, ACrashLosesAlone) {
  Context context = planted("codetta_fused", "*(volatile int*)0 = 1;");
  expect_only_fused_fail(context, "crashed in its first run: signal 11");
}

TEST_F(TuneTrial, AnIllegalInstructionLosesAlone) {
  Context context = planted("codetta_fused", "__builtin_trap();");
  expect_only_fused_fail(context, "crashed in its first run: signal 4");
}

TEST_F(TuneTrial, AHangLosesAlone) {
  Context context = planted("codetta_fused", "for (;;) asm volatile(\"\");");
  expect_only_fused_fail(context, "hung in its first run: no end within 1.");
}

// Its threads don't exist in the process of a trial, and nobody waits for them there.
class PoolOfTheCaller : public ThreadPool {
 public:
  [[nodiscard]] int size() const override { return pool_->size(); }
  void run(int tasks, void (*fn)(void*, int), void* ctx) override {
    ++runs;
    pool_->run(tasks, fn, ctx);
  }
  std::atomic<int> runs = 0;

 private:
  std::unique_ptr<ThreadPool> pool_ = make_thread_pool(3);
};

TEST_F(TuneTrial, APoolOfTheCaller) {
  PoolOfTheCaller pool;
  Context context = planted("codetta_fused", "__builtin_trap();", &pool);
  expect_only_fused_fail(context, "crashed in its first run: signal 4");
  EXPECT_GT(pool.runs, 0);
}

TEST_F(TuneTrial, WhereNoneSurvives) {
  Context context = planted("codetta_epilogue", "__builtin_trap();");
  const TuneReport report = tune(arguments(), Target::host(), {}, context).value();
  EXPECT_TRUE(report.complete);
  ASSERT_FALSE(report.results.empty());
  size_t crashed = 0;
  for (const TuneResult& result : report.results)
    crashed += result.failure.find("crashed in its first run") == 0 ? 1 : 0;
  EXPECT_GE(crashed, 3u);
}

TEST_F(TuneTrial, ProgressCanStopAHang) {
  Context context = planted("codetta_epilogue", "for (;;) asm volatile(\"\");");
  int asked = 0;
  TuneOptions options;
  options.progress = [&](const TuneProgress&) { return ++asked < 20; };
  const TuneReport report = tune(arguments(), Target::host(), options, context).value();
  EXPECT_FALSE(report.complete);
  for (const TuneResult& result : report.results) EXPECT_EQ(result.failure.find("hung"), std::string::npos);
}

}  // namespace
