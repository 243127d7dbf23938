// SPDX-License-Identifier: Apache-2.0
// Which epilogues are entries of the vendor's menu, and which operands of theirs the library gets.
#include "plan/vendor.hpp"

#include <gtest/gtest.h>

#include "unit/plan/bind_text.hpp"

namespace {

using namespace codetta;
using Activation = package::CudaVendorConfig::Activation;

plan::VendorMatch match(const std::string& text, std::vector<ir::BoundArgument> arguments,
                        const plan::VendorTraits& traits, DType dtype = DType::bf16) {
  arguments.push_back(test::tensor("D", dtype, {64, 48}));
  const ir::GemmFacts facts = test::gemm_facts(64, 48, 32, dtype);
  const auto graph = test::bind_text(text, arguments, facts);
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().render());
  const std::vector<plan::ArgumentLayout> layouts(arguments.size());
  const auto lowered = plan::lower_epilogue(*graph, test::product(*graph), layouts);
  EXPECT_TRUE(lowered) << (lowered ? "" : lowered.error().render());
  plan::GemmShape shape;
  shape.m = 64, shape.n = 48, shape.k = 32;
  shape.a = shape.b = dtype;
  shape.accumulator = facts.accumulator;
  shape.nonzero_scalars = {"alpha"};
  return plan::match_vendor(lowered->program, shape, traits);
}

constexpr plan::VendorTraits all{true, true}, none{};

TEST(VendorMenu, ActivationsBelongToLibrariesThatAreKnown) {
  const std::string relu = "def f(accum):\n    D = relu(accum)\n    return D\n";
  EXPECT_EQ(match(relu, {}, all).obstacle, "");
  EXPECT_EQ(match(relu, {}, all).config.activation, Activation::Relu);
  EXPECT_NE(match(relu, {}, none).obstacle.find("relu of NaN"), std::string::npos);
  EXPECT_NE(match(relu, {}, all, DType::f32).obstacle.find("relu of NaN"), std::string::npos);
  const std::string gelu = "def f(accum):\n    D = gelu(accum, approximate=\"tanh\")\n    return D\n";
  EXPECT_EQ(match(gelu, {}, all).config.activation, Activation::Gelu);
  EXPECT_EQ(match(gelu, {}, all).obstacle, "");
  EXPECT_NE(match(gelu, {}, none).obstacle.find("1 + tanh cancels"), std::string::npos);
}

TEST(VendorMenu, SecondMatricesAreFound) {
  const plan::VendorMatch two =
      match("def f(accum, bias):\n    F = accum + bias\n    D = gelu(F, approximate=\"tanh\")\n    return D, F\n",
            {test::tensor("bias", DType::bf16, {48}), test::tensor("F", DType::bf16, {64, 48})}, all);
  EXPECT_EQ(two.obstacle, "");
  EXPECT_GE(two.config.aux, 0);
  EXPECT_GE(two.config.bias, 0);
  EXPECT_NE(two.config.aux, two.config.d);
  const plan::VendorMatch derivative =
      match("def f(accum, F):\n    D = accum * dgelu(F, approximate=\"tanh\")\n    return D\n",
            {test::tensor("F", DType::bf16, {64, 48})}, all);
  EXPECT_EQ(derivative.obstacle, "");
  EXPECT_EQ(derivative.config.activation, Activation::Dgelu);
}

TEST(VendorMenu, FactorsComeFromLiteralsAndNumbers) {
  const plan::VendorMatch scaled = match("def f(accum, alpha, C):\n    D = alpha * accum + C * -1.5\n    return D\n",
                                         {test::scalar("alpha"), test::tensor("C", DType::bf16, {64, 48})}, none);
  EXPECT_EQ(scaled.obstacle, "");
  EXPECT_GE(scaled.config.alpha_argument, 0);
  EXPECT_EQ(scaled.config.beta, -1.5);
  EXPECT_GE(scaled.config.c, 0);
  EXPECT_NE(match("def f(accum, beta, C):\n    D = accum + C * beta\n    return D\n",
                  {test::scalar("beta"), test::tensor("C", DType::bf16, {64, 48})}, none)
                .obstacle.find("beta is 0 or unknown"),
            std::string::npos);
  EXPECT_NE(
      match("def f(accum, C):\n    D = accum + C\n    return D\n", {test::tensor("C", DType::f32, {64, 48})}, none)
          .obstacle.find("C is not of D's type"),
      std::string::npos);
}

}  // namespace
