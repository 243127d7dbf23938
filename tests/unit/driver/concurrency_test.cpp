// SPDX-License-Identifier: Apache-2.0
// Many threads find, compile, prepare and run at once, through one Context and an empty cache. Made for the tsan
// preset; without it, the results are what is checked.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "codetta/codetta.hpp"

namespace {

using namespace codetta;

constexpr int thread_count = 8;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "codetta-concurrency-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Small integers: every order of summation gives the same result.
struct Operands {
  Tensor A, B, C, D;
  float alpha;
  explicit Operands(uint32_t seed)
      : A(Tensor::make(f32, {m, k}).value()),
        B(Tensor::make(f32, {k, n}).value()),
        C(Tensor::make(f32, {m, n}).value()),
        D(Tensor::make(f32, {m, n}).value()),
        alpha(static_cast<float>(1 + seed % 3)) {
    std::mt19937 gen(seed);
    for (const Tensor* tensor : {&A, &B, &C}) {
      for (size_t i = 0; i < tensor->byte_size() / sizeof(float); ++i)
        static_cast<float*>(tensor->data())[i] = static_cast<float>(static_cast<int>(gen() % 9) - 4);
    }
    poison();
  }
  void poison() const {
    for (int64_t i = 0; i < m * n; ++i) D.view().as<float>()[i] = -1e30f;
  }
  // D = relu(alpha * accum + C) + extra
  [[nodiscard]] int64_t wrong(float extra) const {
    int64_t count = 0;
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        float sum = 0;
        for (int64_t i = 0; i < k; ++i) sum += A.view().as<float>()[r * k + i] * B.view().as<float>()[i * n + c];
        const float x = alpha * sum + C.view().as<float>()[r * n + c];
        if (D.view().as<float>()[r * n + c] != (x > 0 ? x : 0) + extra) ++count;
      }
    }
    return count;
  }
  static constexpr int64_t m = 37, n = 53, k = 29;
};

// `variant` makes another program, so another kernel.
GemmArguments arguments_of(const Operands& o, int variant) {
  const std::string text =
      "def f(accum, alpha, C):\n    D = relu(accum * alpha + C) + " + std::to_string(variant) + ".0\n    return D\n";
  GemmArguments arguments{.A = o.A, .B = o.B, .out = o.D};
  arguments.epilogue = EpilogueArguments::make(text, {{"alpha", o.alpha}, {"C", o.C}, {"D", o.D}}).value();
  return arguments;
}

template <class Work>
void in_threads(Work work) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      ready.fetch_add(1);
      while (ready.load() < thread_count) std::this_thread::yield();
      work(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Context context_in(const TemporaryFolder& folder) {
  ContextOptions options;
  options.cache_dir = folder.path();
  options.threads = 2;
  return Context::make(options).value();
}

// The same kernel from every thread: one compile serves all.
TEST(Concurrency, OneKernelFromManyThreads) {
  const TemporaryFolder folder;
  // A compiler that leaves a file for each kernel that it is asked for.
  const std::string counting = folder.path() + "/counting", marks = folder.path() + "/marks";
  std::filesystem::create_directory(marks);
  std::ofstream(counting) << "#!/bin/sh\ncase \"$*\" in *-shared*) mktemp " << marks
                          << "/XXXXXX >/dev/null;; esac\nexec c++ \"$@\"\n";
  std::filesystem::permissions(counting, std::filesystem::perms::owner_all);
  ContextOptions options;
  options.cache_dir = folder.path() + "/cache";
  options.threads = 2;
  options.compiler = counting;
  Context context = Context::make(options).value();
  in_threads([&](int t) {
    const Operands operands(static_cast<uint32_t>(t));
    const GemmArguments arguments = arguments_of(operands, 0);
    const auto kernels = find_kernels(arguments, Target::host(), {}, context);
    ASSERT_TRUE(kernels) << kernels.error().render();
    auto execution = (*kernels)[0].prepare(arguments);
    ASSERT_TRUE(execution) << execution.error().render();
    for (int round = 0; round < 20; ++round) {
      operands.poison();
      ASSERT_TRUE(execution->run());
      EXPECT_EQ(operands.wrong(0), 0) << "thread " << t;
    }
  });
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(marks), {}), 1) << "compiles";
}

// One compiled program, prepared and run by each thread over tensors and for a number of turns of its own.
TEST(Concurrency, OneProgramFromManyThreads) {
  const auto program = Program::parse(
      "def goes(i, most, y):\n    go = i < most\n    return go\n"
      "def turn(i, most, y):\n    return i + 1, most, y + 1.0\n"
      "def f(a: f32[\"m\", \"k\"], b: f32[\"k\", \"n\"], c: f32[\"m\", \"n\"], alpha: f32, turns: i32):\n"
      "    y = relu(alpha * (a @ b) + c)\n"
      "    i, most, D = while_loop(goes, turn, 0, turns, y)\n"
      "    return D\n",
      "f.py");
  ASSERT_TRUE(program) << program.error().render();
  Context context = Context::make({.cache_enabled = false, .threads = 2}).value();
  const auto compiled = compile(*program, Target::host(), {}, context);
  ASSERT_TRUE(compiled) << compiled.error().render();
  in_threads([&](int t) {
    const Operands operands(static_cast<uint32_t>(t));
    auto execution = compiled->prepare({{"a", operands.A.view()},
                                        {"b", operands.B.view()},
                                        {"c", operands.C.view()},
                                        {"alpha", operands.alpha},
                                        {"turns", t % 3},
                                        {"D", operands.D.view()}});
    ASSERT_TRUE(execution) << execution.error().render();
    for (int round = 0; round < 20; ++round) {
      operands.poison();
      ASSERT_TRUE(execution->run());
      EXPECT_EQ(operands.wrong(static_cast<float>(t % 3)), 0) << "thread " << t;
    }
  });
}

// Different kernels, each met by two threads; every thread walks all of them from another start.
TEST(Concurrency, ManyKernelsFromManyThreads) {
  const TemporaryFolder folder;
  Context context = context_in(folder);
  in_threads([&](int t) {
    for (int step = 0; step < thread_count / 2; ++step) {
      const int variant = (t / 2 + step) % (thread_count / 2);
      const Operands operands(static_cast<uint32_t>(10 * t + step));
      const GemmArguments arguments = arguments_of(operands, variant);
      const auto kernels = find_kernels(arguments, Target::host(), {}, context);
      ASSERT_TRUE(kernels) << kernels.error().render();
      const auto ran = (*kernels)[0].run(arguments);
      ASSERT_TRUE(ran) << ran.error().render();
      EXPECT_EQ(operands.wrong(static_cast<float>(variant)), 0) << "thread " << t << ", variant " << variant;
    }
  });
}

// A Kernel is immutable and shared: threads prepare, pack and run it on operands of their own, and ask for its stages.
TEST(Concurrency, OneKernelObjectIsShared) {
  const TemporaryFolder folder;
  Context context = context_in(folder);
  const Operands first(99);
  const KernelList kernels = find_kernels(arguments_of(first, 1), Target::host(), {}, context).value();
  in_threads([&](int t) {
    const Operands operands(static_cast<uint32_t>(100 + t));
    const GemmArguments arguments = arguments_of(operands, 1);
    for (size_t i = 0; i < std::min<size_t>(kernels.size(), 3); ++i) {
      EXPECT_TRUE(kernels[i].emit(Stage::Source));
      operands.poison();
      const auto ran = kernels[i].run(arguments);
      ASSERT_TRUE(ran) << ran.error().render();
      EXPECT_EQ(operands.wrong(1), 0) << kernels[i].metadata().name << " in thread " << t;
    }
  });
}

// Two contexts over one cache folder, as two users of the library in one process would have.
TEST(Concurrency, TwoContextsShareAFolder) {
  const TemporaryFolder folder;
  Context contexts[] = {context_in(folder), context_in(folder)};
  in_threads([&](int t) {
    const Operands operands(static_cast<uint32_t>(200 + t));
    const GemmArguments arguments = arguments_of(operands, 2 + t / 4);
    const auto kernels = find_kernels(arguments, Target::host(), {}, contexts[t % 2]);
    ASSERT_TRUE(kernels) << kernels.error().render();
    const auto ran = (*kernels)[0].run(arguments);
    ASSERT_TRUE(ran) << ran.error().render();
    EXPECT_EQ(operands.wrong(static_cast<float>(2 + t / 4)), 0);
  });
}

}  // namespace
