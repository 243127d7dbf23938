// SPDX-License-Identifier: Apache-2.0
// What the pragmas of a user's kernel come to: configurations, and the strides that they rely on.
#include "plan/user_launch.hpp"

#include <gtest/gtest.h>

namespace codetta::plan {
namespace {

using types::Dim;

BoundLaunch bound(const std::string& clauses) {
  const UserSource source{"scale", "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n]) block(64) " + clauses + "\n",
                          UserSource::Language::Cuda, "scale.cu"};
  const std::vector<Dim> shape = {Dim::symbol("rows"), Dim::symbol("cols")};
  const std::vector<package::Argument> arguments = {{"x", DType::f32, false, false, shape},
                                                    {"y", DType::f32, false, true, shape}};
  auto made = bind_launch(source, arguments, {"sm_90a", true}, [](size_t argument, int32_t dim) {
    return Dim::symbol("s" + std::to_string(argument) + "_" + std::to_string(dim));
  });
  EXPECT_TRUE(made) << (made ? "" : made.error().render());
  return made ? *std::move(made) : BoundLaunch{};
}
std::vector<std::string> assumed(const BoundLaunch& launch) {
  std::vector<std::string> found;
  for (const BoundLaunch::Assumed& one : launch.assumed)
    found.push_back(std::to_string(one.argument) + "." + std::to_string(one.dim) + "=" + one.stride.to_string());
  return found;
}

TEST(UserLaunch, EqualConfigurationsCountOnce) {
  using Values = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_EQ(bound("grid(m)").configurations.size(), 1U);
  const BoundLaunch swapped = bound("grid(m) config(A = 1, B = 2) config(B = 2, A = 1) config(A = 2, B = 1)");
  ASSERT_EQ(swapped.configurations.size(), 2U);
  EXPECT_EQ(swapped.configurations[0].values, (Values{{"A", 1}, {"B", 2}}));
  EXPECT_EQ(swapped.configurations[1].values, (Values{{"A", 2}, {"B", 1}}));
  // A value may be made of those in front of it.
  const BoundLaunch computed = bound("grid(m) config(A = 4) config(A = 8, B = A * 2)");
  ASSERT_EQ(computed.configurations.size(), 2U);
  EXPECT_EQ(computed.configurations[1].values, (Values{{"A", 8}, {"B", 16}}));
}

TEST(UserLaunch, StridesAreOfTheirConfiguration) {
  using List = std::vector<std::string>;
  EXPECT_EQ(assumed(bound("grid(m)")), (List{"0.1=1", "0.0=cols", "1.1=1", "1.0=cols"}));
  EXPECT_EQ(assumed(bound("grid(m) sizes(stride(x, 0))")), (List{"0.1=1", "1.1=1", "1.0=cols"}));
  // Each of them takes another stride, so that neither may be any.
  EXPECT_EQ(assumed(bound("grid(m) sizes(stride(x, D)) config(D = 0) config(D = 1)")),
            (List{"0.1=1", "1.1=1", "1.0=cols", "0.0=cols*s0_1"}));
}

}  // namespace
}  // namespace codetta::plan
