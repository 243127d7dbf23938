// SPDX-License-Identifier: Apache-2.0
// What the pragmas of a user's kernel come to: configurations, and the strides that they rely on.
#include "plan/user_launch.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "device/embedded.hpp"
#include "ir/kernel_names.hpp"

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

TEST(UserLaunch, SourcesForACpuHaveConfigurationsAlone) {
  using Values = std::vector<std::pair<std::string, int64_t>>;
  const auto of = [](const std::string& lines) {
    return bind_configurations({"scale", lines + "void scale();\n", UserSource::Language::Cpp, "scale.cc"});
  };
  const auto none = of("");
  ASSERT_TRUE(none);
  ASSERT_EQ(none->size(), 1U);
  EXPECT_TRUE((*none)[0].values.empty());
  const auto three =
      of("#pragma codetta config(A = 1, B = 2) config(B = 2, A = 1)\n#if 0\n#pragma codetta config(A = 5)\n#endif\n"
         "#pragma codetta config(A = -3) config(A = 8, B = A * 2)\n");
  ASSERT_TRUE(three) << three.error().render();
  ASSERT_EQ(three->size(), 3U);
  EXPECT_EQ((*three)[1].values, (Values{{"A", -3}}));
  EXPECT_EQ((*three)[2].values, (Values{{"A", 8}, {"B", 16}}));
  EXPECT_EQ(name_of({"scale", {}, UserSource::Language::Cpp, {}}, (*three)[2]), "user_scale_A_8_B_16");

  const auto refused = [&](const std::string& lines, const std::string& reason) {
    const auto made = of(lines);
    ASSERT_FALSE(made) << lines;
    EXPECT_EQ(made.error().code(), 231) << lines;
    EXPECT_NE(made.error().render().find(reason), std::string::npos) << made.error().render();
  };
  refused("#pragma codetta block(64)\n", "block is about launches on a GPU");
  refused("#pragma codetta config(A = 1)\n#pragma codetta cooperative\n", "scale.cc:2:17");
  refused("#pragma codetta config(A = B)\n", "B is no");
  refused("#pragma codetta config(int = 1)\n", "int");
  refused("#pragma codetta config(Tensor = 4)\n",
          "Tensor cannot name a meta-parameter: it is a type that is declared in front of every kernel's source");
  std::string many;
  for (int i = 0; i < 257; ++i) many += "#pragma codetta config(A = " + std::to_string(i) + ")\n";
  refused(many, "there are more than 256 configurations");
}

TEST(UserLaunch, StridesAreOfTheirConfiguration) {
  using List = std::vector<std::string>;
  EXPECT_EQ(assumed(bound("grid(m)")), (List{"0.1=1", "0.0=cols", "1.1=1", "1.0=cols"}));
  EXPECT_EQ(assumed(bound("grid(m) sizes(stride(x, 0))")), (List{"0.1=1", "1.1=1", "1.0=cols"}));
  // Each of them takes another stride, so that neither may be any.
  EXPECT_EQ(assumed(bound("grid(m) sizes(stride(x, D)) config(D = 0) config(D = 1)")),
            (List{"0.1=1", "1.1=1", "1.0=cols", "0.0=cols*s0_1"}));
}

// What stands in front of every source declares nothing that a kernel could be called.
TEST(UserLaunch, NamesThatSourcesHaveAreTaken) {
  size_t declared = 0;
  for (const char* path : {"cpu/user.h", "cpu/hook.h", "gpu/user.h", "gpu/hook.h", "cuda/user.h"}) {
    const device::EmbeddedFile* file = device::find_file(path);
    ASSERT_NE(file, nullptr) << path;
    std::istringstream lines{std::string(file->text)};
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("using codetta::") && !line.starts_with("typedef ")) continue;
      const size_t begin = line.find_last_of(": ") + 1;
      const std::string name = line.substr(begin, line.size() - begin - 1);
      EXPECT_NE(ir::taken_in_kernels(name), "") << name << " of " << path;
      ++declared;
    }
  }
  EXPECT_GE(declared, 18U);
  for (const char* name : {"std", "codetta", "codetta_user", "CODETTA_FOUND", "size_t", "intptr_t", "int_least8_t",
                           "UINT16_MAX", "INT64_C", "INT_FAST32_MIN", "UINTPTR_MAX", "INTMAX_C", "gridDim"})
    EXPECT_NE(ir::taken_in_kernels(name), "") << name;
  for (const char* name : {"scale", "tensor", "hook", "Hooked", "my_Tensor", "int8", "int12_t", "INTERVAL_MAX", "in",
                           "out", "x", "std_dev", "uint", "INT"})
    EXPECT_EQ(ir::taken_in_kernels(name), "") << name;
}

}  // namespace
}  // namespace codetta::plan
