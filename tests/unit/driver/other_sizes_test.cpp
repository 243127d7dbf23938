// SPDX-License-Identifier: Apache-2.0
// Kernels that run with other sizes than they were found with.
#include <gtest/gtest.h>

#include <algorithm>
#include <codetta/codetta.hpp>
#include <vector>

namespace codetta {
namespace {

// Dims of one element: what is full beside many rows is read at its one place beside one, but the other way around one
// value would have to be many.
TEST(KernelsOfOtherSizes, OneRowOrColumn) {
  ContextOptions options;
  options.cache_enabled = false;
  Context plain = Context::make(options).value();
  std::vector<float> a(64, 1), b(64, 1), c(64), d(64);
  for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i);
  using Sizes = std::pair<int64_t, int64_t>;
  const Sizes all[] = {{8, 6}, {1, 6}, {8, 1}, {1, 1}, {3, 2}, {0, 6}};
  const auto call = [&](Sizes size, const Dims& form, const char* text) {
    const auto [m, n] = size;
    const Dims shape{form[0] == 0 ? m : form[0], form[1] == 0 ? n : form[1]};
    GemmArguments call{.A = TensorView(a.data(), f32, {m, 4}), .B = TensorView(b.data(), f32, {4, n})};
    call.out = TensorView(d.data(), f32, {m, n});
    call.epilogue = EpilogueArguments::make(text, {{"C", TensorView(c.data(), f32, shape)}}).value();
    return call;
  };
  const char* const sum = "def f(accum, C): D = accum + C; return D";
  for (const Dims& form : {Dims{0, 0}, Dims{1, 0}, Dims{0, 1}, Dims{1, 1}}) {  // 0: as many as D has
    for (const Sizes& size : all) {
      const auto kernels = find_kernels(call(all[0], form, sum), Target::host(), {}, plain).value();
      std::fill(d.begin(), d.end(), -1.0f);
      const auto ran = kernels[0].run(call(size, form, sum));
      ASSERT_TRUE(ran) << ran.error().render();
      for (int64_t i = 0; i < size.first * size.second; ++i) {
        const int64_t row = form[0] == 0 ? i / size.second : 0, column = form[1] == 0 ? i % size.second : 0;
        const int64_t stride = form[1] == 0 ? size.second : 1;
        ASSERT_EQ(d[static_cast<size_t>(i)], static_cast<float>(4 + row * stride + column))
            << size.first << " x " << size.second;
      }
    }
  }
  const auto one_row = find_kernels(call({1, 6}, {0, 0}, sum), Target::host(), {}, plain).value();
  const auto refused = one_row[0].prepare(call({8, 6}, {0, 0}, sum));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), 414);
  EXPECT_NE(
      refused.error().render().find("C is f32[8, 6], and the kernel was found with f32[1, 6], of a product of 1 x 6"),
      std::string::npos)
      << refused.error().render();
  EXPECT_TRUE(one_row[0].prepare(call({8, 6}, {1, 0}, sum))) << "a row, beside one or more";
  // Where the text reshapes, sizes are part of the program.
  const char* const flat = "def f(accum, C): D = accum + permute(permute(C, [1, 0]), [1, 0]); return D";
  const auto many = find_kernels(call({8, 6}, {0, 0}, flat), Target::host(), {}, plain).value();
  EXPECT_FALSE(many[0].prepare(call({1, 6}, {0, 0}, flat)));
}

}  // namespace
}  // namespace codetta
