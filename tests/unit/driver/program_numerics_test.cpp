// SPDX-License-Identifier: Apache-2.0
// Programs that contract nothing, and how exactly their products are multiplied: bits, kernels, the cache, what is told
// of them, and what a check takes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "codetta/build.hpp"
#include "codetta/codetta.hpp"
#include "driver/program_state.hpp"
#include "driver/verification.hpp"

namespace codetta {
namespace {

constexpr int64_t rows = 37, inner = 24, columns = 40;
constexpr const char* text =
    "def f(x: f32[\"m\", 24], w: f32[24, 40], g: f32[\"m\", 40], c: f32[\"m\", 40]):\n"
    "    h = x @ w\n"
    "    y = h * g + c\n"
    "    z = g * c + x[:, :1]\n"
    "    return h, y, z\n";

Program program_of(const Numerics& numerics, const char* source = text) {
  return Program::parse(source, "f.py").value().with_numerics(numerics).value();
}

struct Data {
  Tensor x = Tensor::make(f32, {rows, inner}).value(), w = Tensor::make(f32, {inner, columns}).value(),
         g = Tensor::make(f32, {rows, columns}).value(), c = Tensor::make(f32, {rows, columns}).value(),
         h = Tensor::make(f32, {rows, columns}).value(), y = Tensor::make(f32, {rows, columns}).value(),
         z = Tensor::make(f32, {rows, columns}).value();
  Data() {
    uint64_t seed = 21;
    for (Tensor* tensor : {&x, &w, &g, &c}) fill_random(tensor->view(), ++seed);
    for (Tensor* tensor : {&h, &y, &z}) fill_poison(tensor->view());
  }
  [[nodiscard]] std::vector<NamedArgument> arguments() const {
    return {{"x", x.view()}, {"w", w.view()}, {"g", g.view()}, {"c", c.view()},
            {"h", h.view()}, {"y", y.view()}, {"z", z.view()}};
  }
  // Of elements whose product is rounded by itself, and of those where it is not and that shows.
  struct Count {
    int apart = 0, contracted = 0;
  };
  [[nodiscard]] Count count() const {
    Count count;
    const auto see = [&count](float result, float a, float b, float added) {
      const float product = a * b, apart = product + added, whole = std::fma(a, b, added);
      count.apart += result == apart ? 1 : 0;
      count.contracted += result == whole && result != apart ? 1 : 0;
    };
    for (int64_t i = 0; i < rows * columns; ++i) {
      const float scale = g.view().as<float>()[i], more = c.view().as<float>()[i];
      see(y.view().as<float>()[i], h.view().as<float>()[i], scale, more);
      see(z.view().as<float>()[i], scale, more, x.view().as<float>()[i / columns * inner]);
    }
    return count;
  }
};

constexpr int all = static_cast<int>(2 * rows * columns);
// Whether compilers contract for this machine's kernels.
bool host_contracts() { return Target::host().isa != CpuIsa::generic; }

class ProgramNumerics : public ::testing::Test {
 protected:
  Context context(bool no_compiler = false) const {
    ContextOptions options;
    options.cache_dir = folder_.path() + "/cache";
    options.threads = 1;
    options.no_compiler = no_compiler;
    return Context::make(options).value();
  }
  static void run(const Program& program, Context& context, Data& data) {
    const auto compiled = compile(program, Target::host(), {}, context);
    ASSERT_TRUE(compiled) << compiled.error().render();
    const auto ran = compiled->run(data.arguments());
    ASSERT_TRUE(ran) << ran.error().render();
  }
  base::TemporaryDirectory folder_ = *base::TemporaryDirectory::make("/tmp", "codetta-numerics-");
};

TEST_F(ProgramNumerics, StrictProgramsRoundEachProduct) {
  Data strict, interpreted, usual;
  Context compiles = context(), interprets = context(true);
  run(program_of({.strict = true}), compiles, strict);
  EXPECT_EQ(strict.count().apart, all);
  run(program_of({.strict = true}), interprets, interpreted);
  EXPECT_EQ(std::memcmp(strict.y.view().data(), interpreted.y.view().data(), size_t{rows * columns} * 4), 0);
  EXPECT_EQ(std::memcmp(strict.z.view().data(), interpreted.z.view().data(), size_t{rows * columns} * 4), 0);
  run(program_of({}), compiles, usual);
  const Data::Count found = usual.count();
  EXPECT_EQ(found.apart + found.contracted, all) << "each is one or the other";
  if (host_contracts()) {
    EXPECT_GT(found.contracted, all / 10);
  }
}

// Each finds its own in a cache that all of them have written to.
TEST_F(ProgramNumerics, EachHasItsEntriesInTheCache) {
  const auto entries = [&] {
    size_t count = 0;
    for (const auto& at : std::filesystem::recursive_directory_iterator(folder_.path()))
      count += at.path().extension() == ".pkg" ? 1 : 0;
    return count;
  };
  const std::vector<Numerics> each{{}, {.strict = true}, {.math = MathMode::Tf32}, {true, MathMode::Tf32}};
  for (int turn = 0; turn < 2; ++turn) {
    for (size_t i = 0; i < each.size(); ++i) {
      Data data;
      Context fresh = context();
      run(program_of(each[i]), fresh, data);
      EXPECT_EQ(entries(), turn == 0 ? i + 1 : each.size());
      if (each[i].strict || !host_contracts()) {
        EXPECT_EQ(data.count().apart, all);
      } else {
        EXPECT_LT(data.count().apart, all);
      }
    }
  }
}

TEST_F(ProgramNumerics, WhatIsToldOfThem) {
  Context here = context();
  const Target gpu = Target::parse("cuda:sm_90a").value();
  const char* const large = "def f(x: f32[\"m\", 512], w: f32[512, 512]):\n    y = relu(x @ w)\n    return y\n";
  const auto manifest = [&](const Numerics& numerics) {
    return compile(program_of(numerics, large), gpu, {{"m", 4096}}, here).value().emit(Stage::Manifest).value();
  };
  EXPECT_NE(manifest({.strict = true}).find("no contraction"), std::string::npos);
  EXPECT_EQ(manifest({}).find("no contraction"), std::string::npos);
  EXPECT_NE(manifest({.math = MathMode::Tf32}).find("\"math\": \"tf32\""), std::string::npos);
  EXPECT_EQ(manifest({}).find("tf32"), std::string::npos);
  const auto source = [&](const Numerics& numerics) {
    return compile(program_of(numerics), Target::host(), {}, here).value().emit(Stage::Source).value();
  };
  EXPECT_NE(source({.strict = true}).find(", strict"), std::string::npos);
  EXPECT_EQ(source({}).find(", strict"), std::string::npos);
  EXPECT_EQ(source({}), source({.math = MathMode::Tf32})) << "a CPU multiplies as in any mode";

  const auto plan = [&](const Numerics& numerics) {
    return program_of(numerics).emit(Stage::Plan, gpu, {}, here).value();
  };
  const std::string tf32 = plan({true, MathMode::Tf32}), usual = plan({});
  EXPECT_NE(tf32.find("\nstrict\nmath tf32\n"), std::string::npos) << tf32;
  EXPECT_NE(tf32.find("no contraction\n"), std::string::npos);
  EXPECT_NE(tf32.find("_tf32"), std::string::npos);
  EXPECT_EQ(usual.find("_tf32"), std::string::npos);
  EXPECT_EQ(usual.find("\nstrict\n"), std::string::npos);
  EXPECT_NE(plan({.math = MathMode::Tf32x3}).find("_tf32x3"), std::string::npos);
  const char* const of_bytes = "def f(x: f8e4m3[\"m\", 256], w: f8e4m3[256, 256]):\n    y = x @ w\n    return y\n";
  for (const auto& [math, name] :
       {std::pair(MathMode::Fp8FastAccumulation, "_fast"), std::pair(MathMode::Fp8TwoLevelAccumulation, "_two")}) {
    const auto made = program_of({.math = math}, of_bytes).emit(Stage::Plan, gpu, {{"m", 4096}}, here);
    ASSERT_TRUE(made) << made.error().render();
    EXPECT_NE(made->find(name), std::string::npos) << *made;
  }

  const auto explained = [&](bool json) {
    return explain(program_of({true, MathMode::Tf32}), gpu, {}, json, here).value();
  };
  EXPECT_NE(explained(false).find("\nstrict: nothing is contracted\nmath: tf32\n"), std::string::npos);
  EXPECT_NE(explained(true).find("\"strict\": true"), std::string::npos);
  const auto own =
      program_of({.strict = true},
                 "def f(x: f32[\"m\", 8]):\n    y = user_kernel(\"own\", x, out=\"f32[m, 8]\")\n    return y\n")
          .with_kernels({{"own", "void own(Tensor<const float, 2> x, Tensor<float, 2> y) {}\n"}});
  EXPECT_NE(explain(own.value(), Target::host(), {}, false, here)
                ->find("strict: nothing is contracted but in kernels of yours, which are compiled as they are\n"),
            std::string::npos);
  EXPECT_NE(explained(true).find("\"math\": \"tf32\""), std::string::npos);
  EXPECT_EQ(explain(program_of({}), gpu, {}, false, here)->find("math:"), std::string::npos);

  // A library's text is that of the mode, too, and so is what it says of its functions.
  BuildOptions build;
  build.name = "lib";
  const auto host = [&](const Numerics& numerics) {
    return host_text({program_of(numerics)}, gpu, build, here).value();
  };
  EXPECT_NE(host({}), host({.strict = true})) << "kernels have other names";
}

// A kernel of the user's is compiled as in any case, but for what follows a result that it hands over.
TEST_F(ProgramNumerics, KernelsOfTheUsersContract) {
  const auto plan = [&](const std::string& source, bool strict) {
    Context here = context();
    const std::string called =
        "def f(x: f32[\"m\", 8]):\n    h = user_kernel(\"twice\", x, out=\"f32[m, 8]\")\n    y = h * 3.0 + 1.0\n"
        "    return y\n";
    const auto program =
        Program::parse(called, "f.py")->with_numerics({.strict = strict})->with_kernels({{"twice", source}});
    return program.value().emit(Stage::Plan, Target::host(), {}, here).value();
  };
  const auto kernels = [](const std::string& plan) {
    int count = 0;
    for (size_t at = 0; (at = plan.find("no contraction", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const std::string whole = "void twice(Tensor<const float, 2> x, Tensor<float, 2> y) {}";
  EXPECT_EQ(kernels(plan(whole, true)), 1) << "that behind it alone: " << plan(whole, true);
  EXPECT_EQ(kernels(plan(whole, false)), 0);
  const std::string hands_over = "void twice(Tensor<const float, 2> x, Hook<float, 2> y) {}";
  EXPECT_EQ(kernels(plan(hands_over, true)), 1) << plan(hands_over, true);
  EXPECT_EQ(kernels(plan(hands_over, false)), 0);
}

// b is what x * w rounds to: nothing is left of the rounded product, and of the exact one what rounding it lost.
TEST_F(ProgramNumerics, ChecksHoldAProgramToItsOwn) {
  constexpr int64_t count = 200;
  const char* const residual = "def f(x: f32[\"n\"], w: f32[\"n\"], b: f32[\"n\"]):\n    y = x * w + b\n    return y\n";
  Tensor x = Tensor::make(f32, {count}).value(), w = Tensor::make(f32, {count}).value(),
         b = Tensor::make(f32, {count}).value(), y = Tensor::make(f32, {count}).value();
  fill_random(x.view(), 3);
  fill_random(w.view(), 4);
  for (int64_t i = 0; i < count; ++i) {
    const float product = x.view().as<float>()[i] * w.view().as<float>()[i];
    b.view().as<float>()[i] = -product;
    y.view().as<float>()[i] = std::fma(x.view().as<float>()[i], w.view().as<float>()[i], -product);
  }
  const auto verdict = [&](bool strict) {
    VerifyOptions options;
    options.poisoned = true;
    return verify(program_of({.strict = strict}, residual),
                  {{"x", x.view()}, {"w", w.view()}, {"b", b.view()}, {"y", y.view()}}, Target::host(), options)
        .value()
        .verdict;
  };
  EXPECT_EQ(verdict(false), VerifyReport::Verdict::Pass);
  EXPECT_EQ(verdict(true), VerifyReport::Verdict::Fail);
  Context here = context();
  const auto compiled = compile(program_of({.strict = true}, residual), Target::host(), {}, here).value();
  fill_poison(y.view());
  ASSERT_TRUE(compiled.run({{"x", x.view()}, {"w", w.view()}, {"b", b.view()}, {"y", y.view()}}));
  EXPECT_EQ(verdict(true), VerifyReport::Verdict::Pass);
}

TEST_F(ProgramNumerics, BoundsFollowTheMode) {
  const Program program = program_of({});
  const ir::Graph& graph = Program::Access::state(program)->graph;
  const auto options = [&](const char* target, const Numerics& numerics) {
    return driver::program_options(Target::parse(target).value(), graph, numerics, {});
  };
  EXPECT_EQ(options("cuda:sm_90a", {}).factor_rounding, 0);
  EXPECT_EQ(options("cuda:sm_90a", {.math = MathMode::Tf32}).factor_rounding, 0x1p-10);
  EXPECT_EQ(options("cuda:sm_90a", {.math = MathMode::Tf32x3}).factor_rounding, 0x1p-21);
  EXPECT_EQ(options("cuda:sm_90a", {.math = MathMode::Fp8FastAccumulation}).product_rounding, 0x1p-13);
  EXPECT_EQ(options("cuda:sm_90a", {.math = MathMode::Fp8TwoLevelAccumulation}).product_run, 128);
  EXPECT_EQ(options("hip:gfx942", {.math = MathMode::Tf32}).factor_rounding, 0);
  EXPECT_EQ(options("cpu:generic", {.math = MathMode::Tf32}).factor_rounding, 0);
  EXPECT_TRUE(options("cpu:generic", {}).contraction);
  EXPECT_FALSE(options("cpu:generic", {.strict = true}).contraction);
}

TEST_F(ProgramNumerics, KeptByAProgramMadeOfIt) {
  const Numerics wanted{true, MathMode::Tf32x3};
  const Program program = program_of(wanted);
  EXPECT_EQ(program.numerics(), wanted);
  EXPECT_EQ(program.with_hooked_results().numerics(), wanted);
  EXPECT_EQ(program.with_numerics({}).value().numerics(), Numerics());
  const auto none = program.with_numerics({false, static_cast<MathMode>(9)});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), 703);
}

}  // namespace
}  // namespace codetta
