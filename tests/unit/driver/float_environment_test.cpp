// SPDX-License-Identifier: Apache-2.0
// Callers with another floating-point environment: results are those of the default one, bit for bit, and theirs is as
// it was afterwards.
#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <functional>
#include <thread>

#include "codetta/codetta.hpp"
#include "codetta/observe.hpp"

namespace codetta {
namespace {

// What a thread may have set: rounding, and on x86 and AArch64 whether subnormals count as 0.
struct Setting {
  const char* name;
  int rounding;
  bool flush;
};
constexpr Setting settings[] = {{"upward", FE_UPWARD, false},
                                {"toward zero", FE_TOWARDZERO, false},
                                {"subnormals flushed", FE_TONEAREST, true},
                                {"downward, subnormals flushed", FE_DOWNWARD, true}};

#if defined(__x86_64__)
constexpr uint64_t flushing = 0x8040, control = 0xFFC0;
uint64_t word() { return __builtin_ia32_stmxcsr() & control; }
void set_flush() { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | static_cast<unsigned>(flushing)); }
#elif defined(__aarch64__)
constexpr uint64_t flushing = uint64_t{1} << 24;
uint64_t word() {
  uint64_t now = 0;
  asm volatile("mrs %0, fpcr" : "=r"(now));
  return now;
}
void set_flush() { asm volatile("msr fpcr, %0" : : "r"(word() | flushing)); }
#else
uint64_t word() { return 0; }
void set_flush() {}
#endif

// The calling thread with the setting, until the end of the scope.
class With {
 public:
  explicit With(const Setting& setting) {
    (void)std::fegetenv(&before_);
    (void)std::fesetround(setting.rounding);
    if (setting.flush) set_flush();
  }
  ~With() { (void)std::fesetenv(&before_); }
  With(const With&) = delete;
  With& operator=(const With&) = delete;

 private:
  std::fenv_t before_{};
};

// The caller's threads, which have a setting of their own.
class Odd : public ThreadPool {
 public:
  [[nodiscard]] int size() const override { return 3; }
  void run(int tasks, void (*fn)(void*, int), void* context) override {
    std::vector<std::thread> threads;
    for (int i = 0; i < tasks; ++i) {
      threads.emplace_back([=] {
        const With setting(settings[3]);
        fn(context, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

using Bytes = std::vector<std::byte>;
Bytes bytes_of(const TensorView& view) {
  const auto* const first = view.as<std::byte>();
  return {first, first + view.element_count() * dtype_size(view.dtype())};
}

class FloatEnvironment : public ::testing::Test {
 protected:
  // `compute` gives the same bytes under each setting as without, and leaves the setting as it is.
  static void expect_same(const char* what, const std::function<Bytes()>& compute) {
    const Bytes wanted = compute();
    ASSERT_FALSE(wanted.empty()) << what;
    for (const Setting& setting : settings) {
      Bytes found;
      bool kept = false;
      {
        const With with(setting);
        const uint64_t before = word();
        found = compute();
        kept = std::fegetround() == setting.rounding && word() == before;
      }
      EXPECT_TRUE(kept) << what << ", " << setting.name << ": the caller's setting is gone";
      EXPECT_TRUE(found == wanted) << what << ", " << setting.name;
    }
  }
  static Context context(bool compiler, ThreadPool* pool = nullptr) {
    return Context::make({.cache_enabled = false, .no_compiler = !compiler, .threads = 3, .pool = pool}).value();
  }
  // Random values of which some are subnormal, and so are some products of them.
  static Tensor random(DType dtype, const Dims& shape, uint64_t seed) {
    Tensor made = Tensor::make(dtype, shape).value();
    fill_random(made, seed);
    if (dtype == f32) {
      auto* const data = made.view().as<float>();
      for (int64_t i = 0; i < made.view().element_count(); i += 3) data[i] *= 0x1p-66F;
      for (int64_t i = 1; i < made.view().element_count(); i += 7) data[i] *= 0x1p-130F;
    }
    return made;
  }
};

TEST_F(FloatEnvironment, KernelsComputeTheSame) {
  const std::string text =
      "def f(accum, alpha, C):\n"
      "    D = exp(accum * alpha) + C * (1 / 3)\n"
      "    total = sum(accum * 0.1, axis=\"column\")\n"
      "    return D, total\n";
  Odd odd;
  for (const bool compiler : {true, false}) {
    for (ThreadPool* const pool : {static_cast<ThreadPool*>(nullptr), static_cast<ThreadPool*>(&odd)}) {
      Context c = context(compiler, pool);
      for (const int64_t m : {5, 260}) {
        const Tensor a = random(f32, {m, 96}, 1), b = random(f32, {96, 200}, 2), add = random(f32, {m, 200}, 3),
                     d = Tensor::make(f32, {m, 200}).value(), total = Tensor::make(f32, {200}).value();
        expect_same(compiler ? "compiled" : "interpreted", [&] {
          fill_poison(d);
          fill_poison(total);
          GemmArguments arguments{.A = a, .B = b, .out = d.view()};
          arguments.epilogue =
              EpilogueArguments::make(text, {{"alpha", 0.1}, {"C", add}, {"D", d}, {"total", total}}).value();
          const KernelList kernels = find_kernels(arguments, Target::host(), {}, c).value();
          Execution execution = kernels.prepare(arguments).value();
          EXPECT_TRUE(execution.run());
          EXPECT_EQ(execution.interpreted(), !compiler);
          EXPECT_EQ(verify(arguments, {}, Target::host(), 1, c)->verdict, VerifyReport::Verdict::Pass);
          Bytes all = bytes_of(d), sums = bytes_of(total);
          all.insert(all.end(), sums.begin(), sums.end());
          return all;
        });
      }
    }
  }
}

TEST_F(FloatEnvironment, AnExecutionOfAnotherSettingComputesTheSame) {
  Context c = context(false);
  const Tensor a = random(f32, {7, 33}, 1), b = random(f32, {33, 20}, 2), d = Tensor::make(f32, {7, 20}).value();
  GemmArguments arguments{.A = a, .B = b, .out = d.view()};
  arguments.epilogue =
      EpilogueArguments::make("def f(accum):\n    D = accum * 0.3\n    return D\n", {{"D", d}}).value();
  Execution execution = find_kernels(arguments, Target::host(), {}, c).value().prepare(arguments).value();
  expect_same("run", [&] {
    fill_poison(d);
    EXPECT_TRUE(execution.run());
    return bytes_of(d);
  });
}

// Host steps between kernels, kernels of the user's, functions of the caller's.
TEST_F(FloatEnvironment, ProgramsComputeTheSame) {
  const std::string text =
      "def f(x: f32[\"n\", 24], w: f32[24, 24], i: i64[40], v: f32[40, 24], t: f64[8]):\n"
      "    h = softmax(x @ w * 0.7)\n"
      "    p = index_put(h, i, v, accumulate=True)\n"
      "    u = user_kernel(\"scale\", p, out=\"f32[n, 24]\")\n"
      "    e = call_extern(\"third\", u, out=\"f32[n, 24]\")\n"
      "    y = e @ w\n"
      "    z = sqrt(t * t) / 3.0\n"
      "    return y, z\n";
  const char* const source =
      "void scale(Tensor<const float, 2> x, Tensor<float, 2> y) {\n"
      "  for (int64_t r = 0; r < x.size(0); ++r)\n"
      "    for (int64_t c = 0; c < x.size(1); ++c) y(r, c) = x(r, c) * 0.1f;\n"
      "}\n";
  Context c = context(true);
  const Tensor x = random(f32, {9, 24}, 1), w = random(f32, {24, 24}, 2), v = random(f32, {40, 24}, 3),
               t = random(f64, {8}, 4), i = Tensor::make(i64, {40}).value();
  for (int64_t k = 0; k < 40; ++k) i.view().as<int64_t>()[k] = k % 9;
  const Tensor y = Tensor::make(f32, {9, 24}).value(), z = Tensor::make(f64, {8}).value();
  RunOptions options;
  const auto third = [](void*, const CodettaTensor* in, int, CodettaTensor* out, int) {
    for (int64_t k = 0; k < in->shape[0] * in->shape[1]; ++k)
      static_cast<float*>(out->data)[k] = static_cast<const float*>(in->data)[k] / 3;
    return 0;
  };
  options.externs = {{"third", third, nullptr}};
  expect_same("program", [&] {
    fill_poison(y);
    fill_poison(z);
    const Program program = Program::parse(text, "p.py").value().with_kernels({{"scale", source}}).value();
    const auto compiled = compile(program, Target::host(), {}, c);
    EXPECT_TRUE(compiled) << compiled.error().render();
    const auto ran = compiled->run({{"x", x.view()},
                                    {"w", w.view()},
                                    {"i", i.view()},
                                    {"v", v.view()},
                                    {"t", t.view()},
                                    {"y", y.view()},
                                    {"z", z.view()}},
                                   {}, options);
    EXPECT_TRUE(ran) << ran.error().render();
    Bytes all = bytes_of(y), more = bytes_of(z);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  });
}

// What is read of a text, drawn and told is the same, too.
TEST_F(FloatEnvironment, TextsAndToolsToo) {
  const auto as_bytes = [](const std::string& text) {
    const auto* const first = reinterpret_cast<const std::byte*>(text.data());
    return Bytes(first, first + text.size());
  };
  expect_same("constants", [&] {
    const Program program =
        Program::parse("def f(x: f32[4]):\n    y = x * (1 / 3) + exp(0.1) + 1e-42\n    return y\n", "p.py").value();
    const auto compiled = compile(program, Target::host(), {}, Context::process_default());
    return as_bytes(program.emit(Stage::Graph).value() + compiled->emit(Stage::Source).value());
  });
  expect_same("fill_random", [&] {
    const Tensor drawn = Tensor::make(f32, {1000}).value();
    fill_random(drawn, 7);
    return bytes_of(drawn);
  });
  const Tensor values = random(f32, {1000}, 5);
  expect_same("statistics", [&] {
    const ValueStatistics found = statistics(values);
    const double all[] = {found.mean, found.least, found.greatest, static_cast<double>(found.zeros)};
    Bytes bytes(sizeof all);
    std::memcpy(bytes.data(), all, sizeof all);
    return bytes;
  });
  expect_same("explain", [&] {
    const Program program =
        Program::parse("def f(x: bf16[\"n\", 512], w: bf16[512, 512]):\n    y = x @ w\n    return y\n", "p.py").value();
    return as_bytes(explain(program, Target::parse("cuda:sm_90a").value(), {{"n", 300}}).value());
  });
}

}  // namespace
}  // namespace codetta
