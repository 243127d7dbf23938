// SPDX-License-Identifier: Apache-2.0
// What an epilogue's names may be bound to, and what the compiler refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <type_traits>
#include <vector>

#include "codetta/codetta.hpp"

namespace codetta {
namespace {

template <class Value>
constexpr bool binds = std::is_constructible_v<ArgumentValue, Value>;
static_assert(binds<TensorView> && binds<const TensorView&> && binds<Tensor&>);
static_assert(binds<bool> && binds<int> && binds<unsigned> && binds<long long> && binds<float> && binds<double>);
static_assert(!binds<float*> && !binds<const void*> && !binds<const char*> && !binds<std::nullptr_t>);
static_assert(!binds<std::vector<float>&>);

TEST(Arguments, NumbersKeepTheirKind) {
  EXPECT_EQ(std::get<bool>(ArgumentValue(true).value()), true);
  EXPECT_EQ(std::get<int64_t>(ArgumentValue(3u).value()), 3);
  EXPECT_EQ(std::get<int64_t>(ArgumentValue(-3LL).value()), -3);
  EXPECT_EQ(std::get<int64_t>(ArgumentValue(int16_t{-7}).value()), -7);
  EXPECT_EQ(std::get<int64_t>(ArgumentValue(uint64_t{7}).value()), 7);
  EXPECT_EQ(std::get<int64_t>(ArgumentValue(uint64_t{INT64_MAX}).value()), INT64_MAX);
  EXPECT_EQ(std::get<uint64_t>(ArgumentValue(uint64_t{1} << 63).value()), uint64_t{1} << 63);
  EXPECT_EQ(std::get<uint64_t>(ArgumentValue(std::numeric_limits<size_t>::max()).value()), UINT64_MAX);
  EXPECT_EQ(std::get<double>(ArgumentValue(0.5f).value()), 0.5);
  EXPECT_EQ(std::get<double>(ArgumentValue(0.1).value()), 0.1);
}

TEST(Arguments, NumbersThatTheirTypeDoesNotHoldAreRefused) {
  std::vector<float> a(4, 1.0f), b(4, 1.0f), d(4, 7.0f);
  const TensorView A(a.data(), f32, {2, 2}), B(b.data(), f32, {2, 2}), D(d.data(), f32, {2, 2});
  const auto said = [&](double alpha) {
    const EpilogueArguments epilogue("def e(accum, alpha):\n    D = accum * alpha\n    return D\n",
                                     {{"alpha", alpha}, {"D", D}});
    const auto kernels = find_kernels({.A = A, .B = B, .epilogue = epilogue}, Target::host());
    return kernels ? std::string("fits") : kernels.error().render();
  };
  EXPECT_EQ(said(3e38), "fits");
  EXPECT_EQ(said(std::numeric_limits<double>::infinity()), "fits");
  EXPECT_EQ(said(-1e39).rfind("error[E0221]: alpha is -1e+39 but numbers are f32 here\n", 0), 0U) << said(-1e39);
  EXPECT_NE(said(-1e39).find(":1:14\n"), std::string::npos) << said(-1e39);
  EXPECT_EQ(d, std::vector<float>(4, 7.0f));
  std::vector<double> e(4, 1.0), f(4, 7.0);
  const TensorView E(e.data(), f64, {2, 2}), F(f.data(), f64, {2, 2});
  const EpilogueArguments wide("def e(accum, alpha):\n    D = accum * alpha\n    return D\n",
                               {{"alpha", 1e39}, {"D", F}});
  EXPECT_TRUE(find_kernels({.A = E, .B = E, .epilogue = wide}, Target::host()));
}

// An epilogue computes with such a number in u64: with the i32 of a product of bytes that is i64 arithmetic, which
// wraps.
TEST(Arguments, NumbersFrom2To63OnAreExact) {
  std::vector<int8_t> a(4, 1), b(4, 3);
  std::vector<uint64_t> d(4);
  std::vector<int64_t> s(4);
  const TensorView A(a.data(), i8, {2, 2}), B(b.data(), i8, {2, 2}), D(d.data(), u64, {2, 2}), S(s.data(), i64, {2, 2});
  for (const uint64_t k : {uint64_t{1} << 63, (uint64_t{1} << 63) + 1025, UINT64_MAX}) {
    const EpilogueArguments epilogue(
        "def e(accum, k):\n    D = k // 3 + cast(accum, u64)\n    S = accum + k\n    return D, S\n",
        {{"k", k}, {"D", D}, {"S", S}});
    for (const bool compiled : {true, false}) {
      Context context = Context::make({.cache_enabled = false, .no_compiler = !compiled, .threads = 1}).value();
      const GemmArguments arguments{.A = A, .B = B, .epilogue = epilogue};
      fill_poison(D), fill_poison(S);
      const auto kernels = find_kernels(arguments, Target::host(), {}, context);
      ASSERT_TRUE(kernels) << kernels.error().render();
      const auto ran = kernels->begin()->run(arguments);
      ASSERT_TRUE(ran) << ran.error().render();
      EXPECT_EQ(d, std::vector<uint64_t>(4, k / 3 + 6)) << k;
      EXPECT_EQ(s, std::vector<int64_t>(4, static_cast<int64_t>(k + 6))) << k;
      const auto checked = verify(arguments, Target::host(), {}, context);
      ASSERT_TRUE(checked) << checked.error().render();
      EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << checked->text;
    }
  }
}

TEST(Arguments, OutputsThatOverlapThemselvesAreRefused) {
  std::vector<float> a(16 * 16, 1.0f), b(16 * 16, 1.0f), d(16 * 16, 77.0f);
  const TensorView A(a.data(), f32, {16, 16}), B(b.data(), f32, {16, 16});
  for (const Dims& strides : {Dims{0, 1}, Dims{8, 1}, Dims{1, 1}}) {
    const auto D = TensorView::make(d.data(), f32, {16, 16}, strides);
    ASSERT_TRUE(D);
    const GemmArguments arguments{.A = A, .B = B, .out = *D};
    // Where kernels are looked for as where one runs, with the same words.
    const auto kernels = find_kernels(arguments, Target::host());
    ASSERT_FALSE(kernels);
    EXPECT_EQ(kernels.error().code(), 613) << kernels.error().render();
    const GemmArguments apart{.A = A, .B = B, .out = TensorView(d.data(), f32, {16, 16})};
    const auto run = find_kernels(apart, Target::host()).value()[0].run(arguments);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().render(), kernels.error().render());
    EXPECT_EQ(d, std::vector<float>(16 * 16, 77.0f));
  }
}

// Sizes and strides are arguments of a run.
TEST(Arguments, OperandsWithoutUnitStrideMayLieInAnyOrder) {
  std::vector<float> a(8 * 4), b(4 * 6, 0.5f), c(400), d(8 * 6);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 5);
  for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i);
  const auto arguments = [&](int64_t rows, const Dims& strides) {
    const TensorView A(a.data(), f32, {rows, 4}), B(b.data(), f32, {4, 6}), D(d.data(), f32, {rows, 6});
    const TensorView C = TensorView::make(c.data(), f32, {rows, 6}, strides).value();
    return GemmArguments{.A = A,
                         .B = B,
                         .out = D,
                         .epilogue = EpilogueArguments("def e(accum, C): D = accum + C; return D", {{"C", C}})};
  };
  const std::pair<int64_t, Dims> layouts[] = {{8, {1, 8}}, {5, {1, 5}}, {4, {2, 8}}, {8, {13, 2}}};
  for (const auto& [found_rows, found_strides] : layouts) {
    const KernelList kernels = find_kernels(arguments(found_rows, found_strides), Target::host()).value();
    ASSERT_FALSE(kernels.empty());
    for (const auto& [rows, strides] : layouts) {
      SCOPED_TRACE(testing::Message() << found_rows << " rows, then " << rows);
      d.assign(d.size(), -1.0f);
      const auto ran = kernels[0].run(arguments(rows, strides));
      ASSERT_TRUE(ran) << ran.error().render();
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t n = 0; n < 6; ++n) {
          float expected = c[static_cast<size_t>(r * strides[0] + n * strides[1])];
          for (int64_t k = 0; k < 4; ++k) expected += 0.5f * a[static_cast<size_t>(r * 4 + k)];
          EXPECT_EQ(d[static_cast<size_t>(r * 6 + n)], expected);
        }
      }
    }
  }
}

TEST(Arguments, ShapesOfOutputsFollowFromTheOthers) {
  std::vector<float> a(3 * 5 * 4, 1.0f), b(4 * 6, 1.0f), c(6, 1.0f);
  const TensorView A(a.data(), f32, {3, 5, 4}), B(b.data(), f32, {4, 6}), C(c.data(), f32, {6});
  GemmArguments arguments{.A = A, .B = B};
  const auto shape_is = [](const OutputShape& output, const char* name, DType dtype, const Dims& shape) {
    return output.name == name && output.dtype == dtype && output.shape == shape;
  };
  const auto plain = output_shapes(arguments);
  ASSERT_TRUE(plain && plain->size() == 1);
  EXPECT_TRUE(shape_is((*plain)[0], "D", f32, {3, 5, 6}));
  const char* text =
      "def f(accum, C): D = accum > C; s = sum(accum, axis='row'); n = sum(accum, keepdim=False); return s, D, n";
  arguments.epilogue = EpilogueArguments(text, {{"C", C}});
  const auto shapes = output_shapes(arguments);
  ASSERT_TRUE(shapes) << shapes.error().render();
  ASSERT_EQ(shapes->size(), 3u);
  EXPECT_TRUE(shape_is((*shapes)[0], "s", f32, {3, 5, 1}));
  EXPECT_TRUE(shape_is((*shapes)[1], "D", boolean, {3, 5, 6}));
  EXPECT_TRUE(shape_is((*shapes)[2], "n", f32, {}));
  arguments.epilogue = EpilogueArguments(text, {});
  ASSERT_FALSE(output_shapes(arguments));
  EXPECT_EQ(output_shapes(arguments).error().code(), 208);
  arguments.B = A;
  ASSERT_FALSE(output_shapes(arguments));
  EXPECT_EQ(output_shapes(arguments).error().code(), 220);
}

TEST(Arguments, ViewsWithoutMemoryAreRefused) {
  float a = 2, b = 3, d = 77;
  const TensorView A(&a, f32, {1, 1}), B(&b, f32, {1, 1}), D(&d, f32, {1, 1});
  Tensor moved = *Tensor::make(f32, {});
  const Tensor there = std::move(moved);
  const auto code = [&](const std::optional<TensorView>& out, std::vector<NamedArgument> bound) {
    const GemmArguments arguments{
        .A = A,
        .B = B,
        .out = out,
        .epilogue = EpilogueArguments("def f(accum, C): D = accum + C; return D", std::move(bound))};
    const auto kernels = find_kernels(arguments, Target::host());
    const auto checked = verify(arguments);
    if (kernels || checked) return 0;
    EXPECT_EQ(kernels.error().code(), checked.error().code());
    return static_cast<int>(kernels.error().code());
  };
  EXPECT_EQ(code(D, {{"C", TensorView()}}), 604);
  EXPECT_EQ(code(D, {{"C", moved}}), 604);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(code(TensorView(), {{"C", there}}), 604);
  EXPECT_EQ(code(D, {{"C", there}}), 0);
  EXPECT_EQ(d, 77);
}

// Casts make enums of anything.
TEST(Arguments, EnumsWithoutANameAreRefused) {
  float a = 2, b = 3, d = 77;
  const TensorView A(&a, f32, {1, 1}), B(&b, f32, {1, 1}), D(&d, f32, {1, 1});
  const GemmArguments good{.A = A, .B = B, .out = D};
  const auto code = [](const GemmArguments& arguments, const Target& target) {
    const auto kernels = find_kernels(arguments, target);
    return kernels ? 0 : static_cast<int>(kernels.error().code());
  };
  EXPECT_EQ(code(good, Target::host()), 0);
  Target nowhere;
  nowhere.isa = static_cast<CpuIsa>(77);
  EXPECT_EQ(code(good, nowhere), 402);
  EXPECT_EQ(verify(good, {}, nowhere).error().code(), 402);
  nowhere = Target::host();
  nowhere.backend = static_cast<Backend>(9);
  EXPECT_EQ(code(good, nowhere), 401);
  ASSERT_FALSE(verify(good, {}, nowhere));
  EXPECT_EQ(verify(good, {}, nowhere).error().code(), 401);
  GemmArguments wrong = good;
  wrong.rounding = static_cast<Rounding>(9);
  EXPECT_EQ(code(wrong, Target::host()), 703);
  wrong = good;
  wrong.math = static_cast<MathMode>(9);
  EXPECT_EQ(code(wrong, Target::host()), 703);
  const auto kernels = find_kernels(good, Target::host());
  ASSERT_TRUE(kernels) << kernels.error().render();
  const auto stage = (*kernels)[0].emit(static_cast<Stage>(99));
  ASSERT_FALSE(stage);
  EXPECT_NE(stage.error().render().find("error[E0415]: stage number 99 does not exist"), std::string::npos);
  EXPECT_EQ(d, 77);
}

// B says how many matrices there are: weights that were packed for another batch would be taken for other items'.
TEST(Arguments, PackedWeightsHaveTheBatchOfB) {
  constexpr int64_t m = 40, n = 50, k = 60;
  std::vector<float> a(3 * m * k, 1.0f), b(3 * k * n), d(3 * m * n);
  for (int64_t i = 0; i < 3; ++i) std::fill_n(b.begin() + i * k * n, k * n, static_cast<float>(i + 1));
  const TensorView A(a.data(), f32, {3, m, k}), D(d.data(), f32, {3, m, n});
  const TensorView all(b.data(), f32, {3, k, n}), two(b.data(), f32, {2, k, n}), one(b.data(), f32, {1, k, n}),
      shared(b.data(), f32, {k, n});
  // How the run of B with weights packed from `packed` ends, for every kernel that packs.
  const auto code = [&](const TensorView& B, const TensorView& packed) {
    GemmArguments arguments{.A = A, .B = B, .out = D};
    const auto kernels = find_kernels(arguments, Target::host());
    EXPECT_TRUE(kernels) << kernels.error().render();
    std::set<int> codes;
    for (const Kernel& kernel : *kernels) {
      const auto weights = kernel.pack(packed);
      if (!weights) continue;
      arguments.packed_B = &*weights;
      std::fill(d.begin(), d.end(), -7777.0f);
      const auto ran = kernel.run(arguments);
      codes.insert(ran ? 0 : static_cast<int>(ran.error().code()));
      if (!ran) {  // told by forms of B, not by the name of what was emitted
        const Diagnostic& told = ran.error().diagnostics()[0];
        EXPECT_NE(told.reason.find("; the kernel reads packed f32 k=60 n=50"), std::string::npos) << told.reason;
        EXPECT_EQ(told.reason.find("codetta_"), std::string::npos) << told.reason;
      }
      for (size_t i = 0; ran && i < d.size(); ++i) {
        const auto item = static_cast<int64_t>(i) / (m * n);
        EXPECT_EQ(d[i], static_cast<float>(k * (B.rank() == 3 && B.size(0) == 3 ? item + 1 : 1))) << i;
        if (d[i] == -7777.0f) break;
      }
    }
    EXPECT_EQ(codes.size(), 1u);
    return codes.empty() ? -1 : *codes.begin();
  };
  EXPECT_EQ(code(all, all), 0);
  EXPECT_EQ(code(shared, shared), 0);
  EXPECT_EQ(code(one, one), 0);
  EXPECT_EQ(code(shared, one), 0);
  EXPECT_EQ(code(all, shared), 610);
  EXPECT_EQ(code(all, one), 610);
  EXPECT_EQ(code(all, two), 610);
  EXPECT_EQ(code(shared, all), 610);
  EXPECT_EQ(code(one, all), 610);
}

// The passes find that D is C whatever the product is. It is still a GEMM with an epilogue that runs.
TEST(Arguments, AChoiceBetweenEqualsRuns) {
  std::vector<float> a(16 * 16, 1.0f), b(16 * 16, 1.0f), c(16 * 16), d(16 * 16, 77.0f);
  for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i);
  const TensorView A(a.data(), f32, {16, 16}), B(b.data(), f32, {16, 16}), C(c.data(), f32, {16, 16}),
      D(d.data(), f32, {16, 16});
  const GemmArguments arguments{
      .A = A,
      .B = B,
      .out = D,
      .epilogue = EpilogueArguments("def f(accum, C): D = where(accum > 0, C, C); return D", {{"C", C}})};
  const auto kernels = find_kernels(arguments, Target::host());
  ASSERT_TRUE(kernels) << kernels.error().render();
  const auto run = (*kernels)[0].run(arguments);
  ASSERT_TRUE(run) << run.error().render();
  EXPECT_EQ(d, c);
}

}  // namespace
}  // namespace codetta
