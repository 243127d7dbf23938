// SPDX-License-Identifier: Apache-2.0
// Tuning while sources for nvcc are made, over the pretended driver and compiler: what becomes a candidate to be timed.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "unit/driver_cuda/fixture.hpp"

namespace codetta {
namespace {

class CudaBuildTune : public CudaApi {
 protected:
  void SetUp() override {
    CudaApi::SetUp();
    fake_.parameter_bytes = 0;
    fake_.computes = false;
  }
  // The manifest's `tuning` of a program called f.
  nlohmann::json tuned(Context& context, const Program& program,
                       const std::vector<std::pair<std::string, int64_t>>& sizes, double seconds) {
    BuildOptions options;
    options.output = folder_->path() + "/sources";
    options.form = BuildForm::Nvcc;
    options.tune_seconds = seconds;
    options.size_hints = sizes;
    const auto built = build({program}, Target::parse("cuda:sm_90a").value(), options, context);
    EXPECT_TRUE(built) << built.error().render();
    if (!built) return {};
    return nlohmann::json::parse(*base::read_file(built->manifest, 1 << 20))["tuning"]["f"];
  }
};

// What spills is passed over before other kernels are timed beside it, of which each would fail by it.
TEST_F(CudaBuildTune, OthersAreTimedBesideMapsThatFit) {
  const Program program = Program::parse(
                              "def f(x: f32[4096, 64], w: f32[64, \"n\"]):\n"
                              "    h = x @ w\n    y = softmax(h * 2.0, dim=-1)\n    return y\n",
                              "f.py")
                              .value();
  nvrtc_.spills_if = "short_rows<0, 8>";
  Context c = context();
  const nlohmann::json products = tuned(c, program, {{"n", 2048}}, 0.01)["products"];
  ASSERT_EQ(products.size(), 2U);
  for (const auto& product : products) {
    size_t timed = 0;
    for (const auto& one : product["measured"]) timed += one.contains("program_microseconds") ? 1 : 0;
    EXPECT_GE(timed, 1U) << product.dump(1);
  }
  for (const auto& one : products[0]["measured"]) EXPECT_FALSE(one.contains("failure")) << one.dump();
  EXPECT_NE(products[1].dump().find("E0533: codetta_rows does not fit the registers"), std::string::npos)
      << "the program has a map that spills: " << products[1].dump(1);
}

// Candidates of products of both devices of a program are timed within it, where they run.
TEST_F(CudaBuildTune, ProductsOfAnotherDevice) {
  fake_.looks = true;
  const Program program =
      Program::parse(
          "def f(x: bf16[\"m\", 256], w: bf16[256, 512], v: bf16[512, 128]):\n"
          "    h = cast(relu(x @ w), bf16)\n    y = to_device(h, 1) @ to_device(v, 1)\n    return y\n",
          "f.py")
          .value();
  Context c = context();
  const nlohmann::json products = tuned(c, program, {{"m", 64}}, 0.01)["products"];
  ASSERT_EQ(products.size(), 2U);
  for (const auto& product : products) {
    size_t timed = 0;
    for (const auto& one : product["measured"]) {
      timed += one.contains("program_microseconds") ? 1 : 0;
      EXPECT_FALSE(one.contains("failure")) << one.dump();
    }
    EXPECT_GE(timed, 1U) << product.dump(1);
  }
  EXPECT_EQ(fake_.wrong, std::vector<std::string>());
}

// As build() of a library does.
TEST_F(CudaBuildTune, SourcesTakeConfigurationsThatWereTimed) {
  fake_.parameter_sizes["scale"] = {8, 8};
  const Program program =
      Program::parse("def f(x: f32[\"n\"]):\n    y = user_kernel(\"scale\", x, out=\"f32[n]\")\n    return y\n", "f.py")
          .value()
          .with_kernels({{"scale",
                          "#pragma codetta kernel(x: f32[n], out y: f32[n])\n"
                          "#pragma codetta config(WAY = 0) config(WAY = 1)\n"
                          "#pragma codetta block(32) grid(1)\n"
                          "extern \"C\" __global__ void __launch_bounds__(32) scale(const float* "
                          "x, float* y) {}\n",
                          UserKernel::Language::cuda, "scale.cu"}})
          .value();
  Context c = context();
  const nlohmann::json tuning = tuned(c, program, {{"n", 64}}, 300);
  ASSERT_EQ(tuning["configurations"].size(), 1U) << tuning.dump(1);
  EXPECT_EQ(tuning["configurations"][0]["measured"].size(), 2U);
}

}  // namespace
}  // namespace codetta
