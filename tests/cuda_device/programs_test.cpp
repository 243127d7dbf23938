// SPDX-License-Identifier: Apache-2.0
// Programs on a GPU through the public interface, against the same programs on the processor, where the oracle's suites
// check them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "cuda_device/fixture.hpp"

namespace codetta {
namespace {

using Sizes = std::vector<std::pair<std::string, int64_t>>;

// "bf16[rows, 256]" with a value for each name.
std::pair<DType, Dims> typed(const std::string& type, const Sizes& sizes) {
  const size_t bracket = type.find('[');
  std::pair<DType, Dims> made{*dtype_from_name(type.substr(0, bracket)), {}};
  if (bracket == std::string::npos) return made;
  std::istringstream list(type.substr(bracket + 1, type.size() - bracket - 2));
  for (std::string word; std::getline(list >> std::ws, word, ',');) {
    int64_t size = 0;
    const bool number = std::from_chars(word.data(), word.data() + word.size(), size).ec == std::errc{};
    for (const auto& [name, value] : sizes) {
      if (!number && name == word) size = value;
    }
    made.second.push_back(size);
  }
  return made;
}

double element(const Tensor& tensor, int64_t i) {
  if (tensor.view().dtype() == f32) return static_cast<double>(tensor.view().as<float>()[i]);
  const uint32_t bits = static_cast<uint32_t>(tensor.view().as<uint16_t>()[i]) << 16;
  float f = 0;
  std::memcpy(&f, &bits, sizeof f);
  return static_cast<double>(f);
}

class DevicePrograms : public OnGpu {
 protected:
  // f32 and bf16. `tolerance`: of the largest element of each output; sums are taken in another order on the processor.
  // `hints`: what the kernels are chosen for, where it is not the sizes.
  void expect_same(const std::string& text, const Sizes& sizes, double tolerance, const Sizes& hints = {}) {
    const auto program = Program::parse(text, "program.py");
    ASSERT_TRUE(program) << program.error().render();
    const auto on_device = compile(*program, {Backend::cuda, {}, {}}, hints.empty() ? sizes : hints, *context_);
    ASSERT_TRUE(on_device) << on_device.error().render();
    const auto on_host = compile(*program, Target::host(), sizes, *context_);
    ASSERT_TRUE(on_host) << on_host.error().render();
    std::vector<Tensor> host;
    std::vector<DeviceTensor> copies;
    std::vector<NamedArgument> here, there;
    uint64_t seed = 1;
    const auto add = [&](const std::string& name, DType dtype, const Dims& shape, bool output) {
      host.push_back(Tensor::make(dtype, shape).value());
      output ? fill_poison(host.back()) : fill_random(host.back(), seed++, Distribution::Normal);
      copies.push_back(DeviceTensor::copy_of(*device_, host.back()).value());
      here.push_back({name, host.back().view()});
      there.push_back({name, copies.back().view()});
    };
    for (const ProgramParameter& parameter : program->parameters()) {
      const auto [dtype, shape] = typed(parameter.type, sizes);
      add(parameter.name, dtype, shape, false);
    }
    const size_t inputs = host.size();
    const auto shapes = program->shapes(here);
    ASSERT_TRUE(shapes) << shapes.error().render();
    for (const auto& output : shapes->outputs) add(output.name, output.dtype, output.shape, true);
    const auto computed = on_host->run(here);
    ASSERT_TRUE(computed) << computed.error().render();
    const auto ran = on_device->run(there);
    ASSERT_TRUE(ran) << ran.error().render();
    ASSERT_TRUE(device_->synchronize());
    for (size_t o = inputs; o < host.size(); ++o) {
      const Tensor got = Tensor::make(host[o].view().dtype(), host[o].view().shape()).value();
      ASSERT_TRUE(copies[o].download(got));
      const int64_t count = got.view().element_count();
      double largest = 0;
      for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(element(host[o], i)));
      ASSERT_GT(largest, 0.0);
      for (int64_t i = 0; i < count; ++i) {
        const double wanted = element(host[o], i);
        ASSERT_LE(std::abs(element(got, i) - wanted), tolerance * largest)
            << there[o].name << " at " << i << ": " << element(got, i) << " instead of " << wanted;
      }
    }
  }
};

std::string example(const std::string& name) {
  for (const char* root : {"", CODETTA_SOURCE_DIR "/"}) {  // carried programs are started at the root of the sources
    std::ifstream file(root + ("examples/programs/" + name));
    std::stringstream text;
    if (file && text << file.rdbuf()) return text.str();
  }
  ADD_FAILURE() << "no examples/programs/" << name;
  return {};
}

TEST_F(DevicePrograms, ConsecutiveProducts) {
  expect_same(
      "def mlp(x: bf16[\"rows\", 256], w: bf16[256, 512], b: f32[512], v: bf16[512, 128]):\n"
      "    h = relu(x @ w + b)\n"
      "    y = h @ v\n"
      "    return y\n",
      {{"rows", 100}}, 0.02);
}

// On sm_90a the kernels chosen for many rows store, load and store again by the copy engine.
TEST_F(DevicePrograms, TemporariesByTheCopyEngine) {
  for (const int64_t rows : {1, 64, 100, 333}) {
    expect_same(
        "def f(x: bf16[\"m\", 512], w: bf16[512, 1024], u: bf16[512, 1024], v: bf16[1024, 256]):\n"
        "    a = cast(silu(x @ w), bf16)\n"
        "    b = cast((x @ u) * a, bf16)\n"
        "    y = b @ v\n"
        "    return y\n",
        {{"m", rows}}, 0.02, {{"m", 2048}});
  }
}

TEST_F(DevicePrograms, NormAndMlp) { expect_same(example("norm_mlp.py"), {{"m", 77}}, 1e-4); }

TEST_F(DevicePrograms, GatedMlp) { expect_same(example("swiglu.py"), {{"m", 130}}, 1e-4); }

TEST_F(DevicePrograms, Attention) { expect_same(example("attention.py"), {{"heads", 3}, {"s", 65}, {"t", 70}}, 1e-4); }

TEST_F(DevicePrograms, DecoderBlock) {
  for (const Sizes& sizes : {Sizes{{"b", 2}, {"s", 33}}, Sizes{{"b", 1}, {"s", 1}}}) {
    expect_same(example("llama_block.py"), sizes, 1e-4);
  }
}

// Element-wise groups and reductions that stand alone, over every axis, with strided reads and joined stores.
// Whose rows the warps that multiply them finish, of whole tiles and of pieces in every dim.
TEST_F(DevicePrograms, RowsFinishedWhereTheyAreMultiplied) {
  const std::string text =
      "def f(s: bf16[\"b\", \"m\", \"k\"], t: f32[\"b\", \"m\", 1], d: f32[\"b\", \"m\", 1], v: bf16[\"b\", \"k\", "
      "\"n\"]):\n"
      "    y = cast(exp(s * 0.0884 - t) / d, bf16) @ v\n    return y\n";
  const Sizes large{{"b", 128}, {"m", 2048}, {"k", 2048}, {"n", 128}};
  const auto kernels = explain(*Program::parse(text, "program.py"), {Backend::cuda, {}, "sm_90a"}, large);
  ASSERT_TRUE(kernels) << kernels.error().render();
  EXPECT_NE(kernels->find("picked   cuda_sm90_192x128"), std::string::npos) << *kernels;
  expect_same(text, {{"b", 3}, {"m", 256}, {"k", 512}, {"n", 128}}, 1e-2, large);
  expect_same(text, {{"b", 2}, {"m", 77}, {"k", 520}, {"n", 96}}, 1e-2, large);
  expect_same(text, {{"b", 1}, {"m", 1}, {"k", 8}, {"n", 8}}, 1e-2, large);
  expect_same(text, {{"b", 2}, {"m", 130}, {"k", 131}, {"n", 40}}, 1e-2,
              large);  // by another kernel: rows of 262 bytes
  // Rows of all items behind each other, with numbers along K.
  const std::string along =
      "def f(x: bf16[\"b\", \"m\", \"k\"], t: bf16[\"k\"], w: bf16[\"k\", \"n\"]):\n"
      "    y = cast(x * t, bf16) @ w\n    return y\n";
  expect_same(along, {{"b", 3}, {"m", 70}, {"k", 264}, {"n", 128}}, 1e-2,
              {{"b", 64}, {"m", 512}, {"k", 256}, {"n", 128}});
}

TEST_F(DevicePrograms, MapsBetweenProducts) {
  expect_same(
      "def f(x: f32[\"n\", 96], w: f32[96, 64]):\n"
      "    a = x - mean(x, dim=1, keepdim=True)\n"
      "    p = permute(a, (1, 0))\n"
      "    rows = sum(a * a, dim=1)\n"
      "    top = max(p, dim=1)\n"
      "    both = concat(a[:, 0:32], relu(a[:, 32:96]), dim=1)\n"
      "    y = exp(both) @ w\n"
      "    return y, rows, top\n",
      {{"n", 45}}, 1e-4);
}

}  // namespace
}  // namespace codetta
