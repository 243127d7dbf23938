// SPDX-License-Identifier: Apache-2.0
// What an epilogue's names may be bound to, and what the compiler refuses.
#include <gtest/gtest.h>

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
  EXPECT_EQ(std::get<double>(ArgumentValue(0.5f).value()), 0.5);
  EXPECT_EQ(std::get<double>(ArgumentValue(0.1).value()), 0.1);
}

TEST(Arguments, OutputsThatOverlapThemselvesAreRefused) {
  std::vector<float> a(16 * 16, 1.0f), b(16 * 16, 1.0f), d(16 * 16, 77.0f);
  const TensorView A(a.data(), f32, {16, 16}), B(b.data(), f32, {16, 16});
  for (const Dims& strides : {Dims{0, 1}, Dims{8, 1}, Dims{1, 1}}) {
    const auto D = TensorView::make(d.data(), f32, {16, 16}, strides);
    ASSERT_TRUE(D);
    const GemmArguments arguments{.A = A, .B = B, .out = *D};
    const auto kernels = find_kernels(arguments, Target::host());
    const auto run = kernels ? (*kernels)[0].run(arguments) : Result<void>(kernels.error());
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code(), 613) << run.error().render();
    EXPECT_EQ(d, std::vector<float>(16 * 16, 77.0f));
  }
}

}  // namespace
}  // namespace codetta
