// SPDX-License-Identifier: Apache-2.0
// Kernels and functions of the caller's whose results are outputs, on an AMD GPU that is none: they write where the
// outputs lie, or another program copies what they have made. Random operands, outputs of any strides, and nothing
// beside them is touched.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "emulator/hip_context.hpp"

namespace codetta {
namespace {

constexpr float untouched = -12345.0F;

// Where an output lies in a piece of device memory.
struct Place {
  const char* name;
  int64_t offset;      // elements, of the first one
  int64_t rows, cols;  // strides
};

class HipUserOutputs : public EmulatedHip {
 protected:
  void SetUp() override {
    EmulatedHip::SetUp();
    seed_ = std::random_device{}();
    RecordProperty("seed", std::to_string(seed_));
  }
  [[nodiscard]] CompiledProgram compiled(const std::string& text, const std::vector<UserKernel>& kernels = {}) {
    const auto program = Program::parse(text, "p.py").value().with_kernels(kernels);
    EXPECT_TRUE(program) << program.error().render();
    auto made = compile(*program, hip_, {}, *context_);
    EXPECT_TRUE(made) << made.error().render();
    return *std::move(made);
  }
  struct Output {
    DeviceTensor memory;
    TensorView view;
    Place place{};
    int64_t m = 0, n = 0;
  };
  [[nodiscard]] Output output(const Place& place, int64_t m, int64_t n) const {
    constexpr int64_t room = 4096;
    Tensor host = Tensor::make(f32, {room}).value();
    for (int64_t i = 0; i < room; ++i) host.view().as<float>()[i] = untouched;
    Output made{DeviceTensor::copy_of(*device_, host).value(), {}, place, m, n};
    made.view =
        TensorView::make(static_cast<float*>(made.memory.data()) + place.offset, f32, {m, n}, {place.rows, place.cols})
            .value();
    return made;
  }
  // Rounded sums of rows, each element times `by`; all else as it was.
  void expect_sums(const Output& out, const Tensor& x, float decay, float by, const std::string& what) const {
    Tensor host = Tensor::make(f32, {4096}).value();
    ASSERT_TRUE(out.memory.download(host));
    float* all = host.view().as<float>();
    for (int64_t r = 0; r < out.m; ++r) {
      double sum = 0, size = 0;
      for (int64_t c = 0; c < out.n; ++c) {
        const double element = x.view().as<float>()[r * out.n + c];
        sum = element + static_cast<double>(decay) * sum;
        size = std::fabs(element) + static_cast<double>(decay) * size;
        float& value = all[out.place.offset + r * out.place.rows + c * out.place.cols];
        ASSERT_NEAR(value, sum * by, size * by * 128 * 0x1p-24)
            << what << ", " << out.place.name << " at " << r << ", " << c << ", seed " << seed_;
        value = untouched;
      }
    }
    for (int64_t i = 0; i < 4096; ++i)
      ASSERT_EQ(all[i], untouched) << what << ", " << out.place.name << " beside it at " << i << ", seed " << seed_;
  }
  static std::vector<Place> places(int64_t m, int64_t n) {
    return {{"row-major", 64, n, 1},
            {"from 4 bytes on", 65, n, 1},
            {"rows apart", 64, n + 8, 1},
            {"columns side by side", 64, 1, m + 4},
            {"elements apart", 64, 2 * n + 8, 2},
            {"rows from the last", 64 + (m - 1) * n, -n, 1}};
  }
  uint64_t seed_ = 0;
};

constexpr const char* sums_of_rows =
    "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n])\n"
    "#pragma codetta sizes(m, n) block(64) grid(ceil_div(m, 64))\n"
    "extern \"C\" __global__ void sums(const float* x, float* y, int64_t m, int64_t n) {\n"
    "  const int64_t r = blockIdx.x * 64 + threadIdx.x;\n"
    "  float sum = 0;\n"
    "  for (int64_t c = 0; r < m && c < n; ++c) y[r * n + c] = sum = x[r * n + c] + 0.75f * sum;\n"
    "}\n";
constexpr const char* sums_of_strides =
    "#pragma codetta kernel(x: f32[m, n], out y: f32[m, n])\n"
    "#pragma codetta sizes(m, n, stride(y, 0), stride(y, 1)) block(64) grid(ceil_div(m, 64))\n"
    "extern \"C\" __global__ void sums(const float* x, float* y, int64_t m, int64_t n, int64_t row,\n"
    "                                int64_t col) {\n"
    "  const int64_t r = blockIdx.x * 64 + threadIdx.x;\n"
    "  float sum = 0;\n"
    "  for (int64_t c = 0; r < m && c < n; ++c) y[r * row + c * col] = sum = x[r * n + c] + 0.75f * sum;\n"
    "}\n";

// The output alone; returned twice; read by another kernel, of the user's and of Codetta's; made in a branch.
TEST_F(HipUserOutputs, LieAnywhere) {
  const struct {
    const char* what;
    std::string text;
    size_t outputs;
  } cases[] = {
      {"alone",
       "def f(x: f32[\"m\", \"n\"]):\n    y = user_kernel(\"sums\", x, out=\"f32[m, n]\")\n"
       "    return y\n",
       1},
      {"twice, and read",
       "def f(x: f32[\"m\", \"n\"]):\n    y = user_kernel(\"sums\", x, out=\"f32[m, n]\")\n"
       "    z = y * 2.0\n    v = y\n    return y, z, v\n",
       3},
      {"in a branch",
       "def one(x: f32[\"m\", \"n\"]):\n"
       "    return user_kernel(\"sums\", x, out=\"f32[m, n]\")\n"
       "def other(x: f32[\"m\", \"n\"]):\n    return x * 0.75\n"
       "def f(p: bool, x: f32[\"m\", \"n\"]):\n    y = cond(p, one, other, x)\n    return y\n",
       1},
      {"in a loop",
       "def more(i, x, y):\n    return i < 3\n"
       "def turn(i, x, y):\n    return i + 1, x, user_kernel(\"sums\", x, out=\"f32[m, n]\")\n"
       "def f(x: f32[\"m\", \"n\"]):\n    i, same, y = while_loop(more, turn, 0, x, x * 0.5)\n    return y\n",
       1},
  };
  constexpr float decay = 0.75F;
  for (const char* source : {sums_of_rows, sums_of_strides}) {
    for (const auto& one : cases) {
      const CompiledProgram sums = compiled(one.text, {{"sums", source, UserKernel::Language::hip, "sums.hip"}});
      const std::string plan = sums.emit(Stage::Plan).value();
      const size_t loop = plan.find("while");
      EXPECT_TRUE(loop == std::string::npos || plan.find("copy", loop) == std::string::npos)
          << "each turn writes where the output lies\n"
          << plan;
      const std::pair<int64_t, int64_t> sizes[] = {{6, 40}, {5, 13}};
      for (const auto& [m, n] : sizes) {
        const Tensor host = random(f32, {m, n}, seed_++);
        const DeviceTensor x = DeviceTensor::copy_of(*device_, host).value();
        for (const Place& place : places(m, n)) {
          const Output y = output(place, m, n), z = output(place, m, n), v = output(places(m, n)[2], m, n);
          std::vector<NamedArgument> arguments{{"x", x.view()}, {"y", y.view}};
          if (one.text.find("p: bool") != std::string::npos) arguments.insert(arguments.begin(), {"p", true});
          if (one.outputs == 3) arguments.insert(arguments.end(), {{"z", z.view}, {"v", v.view}});
          const auto ran = sums.run(arguments);
          ASSERT_TRUE(ran) << one.what << ", " << place.name << "\n" << ran.error().render();
          expect_sums(y, host, decay, 1, one.what);
          if (one.outputs < 3) continue;
          expect_sums(z, host, decay, 2, one.what);
          expect_sums(v, host, decay, 1, one.what);
        }
      }
    }
  }
}

// What a kernel of Codetta's stores as an output, and one of the user's reads, which is told how it lies.
TEST_F(HipUserOutputs, AreReadByUsers) {
  const CompiledProgram sums = compiled(
      "def f(x: f32[\"m\", \"n\"]):\n    h = x * 1.0 + 0.0\n"
      "    y = user_kernel(\"sums\", h, out=\"f32[m, n]\")\n    return h, y\n",
      {{"sums", sums_of_rows, UserKernel::Language::hip, "sums.hip"}});
  constexpr int64_t m = 6, n = 24;
  const Tensor host = random(f32, {m, n}, seed_++);
  const DeviceTensor x = DeviceTensor::copy_of(*device_, host).value();
  for (const Place& place : places(m, n)) {
    const Output h = output(place, m, n), y = output(place, m, n);
    const auto ran = sums.run({{"x", x.view()}, {"h", h.view}, {"y", y.view}});
    ASSERT_TRUE(ran) << place.name << "\n" << ran.error().render();
    expect_sums(y, host, 0.75F, 1, "y");
    expect_sums(h, host, 0, 1, "h");
  }
}

// A loop that carries what it makes in an output.
TEST_F(HipUserOutputs, AreCarried) {
  const CompiledProgram sums = compiled(
      "def more(i: i32[1], x: f32[\"m\", \"n\"]):\n    return i[0] < 1\n"
      "def body(i: i32[1], x: f32[\"m\", \"n\"]):\n"
      "    return i + 1, user_kernel(\"sums\", x, out=\"f32[m, n]\")\n"
      "def f(i: i32[1], x: f32[\"m\", \"n\"]):\n    j, y = while_loop(more, body, i, x)\n"
      "    return y\n",
      {{"sums", sums_of_rows, UserKernel::Language::hip, "sums.hip"}});
  constexpr int64_t m = 6, n = 24;
  const Tensor host = random(f32, {m, n}, seed_++);
  Tensor zero = Tensor::make(i32, {1}).value();
  std::memset(zero.view().data(), 0, 4);
  const DeviceTensor x = DeviceTensor::copy_of(*device_, host).value(),
                     i = DeviceTensor::copy_of(*device_, zero).value();
  for (const Place& place : places(m, n)) {
    const Output y = output(place, m, n);
    const auto ran = sums.run({{"i", i.view()}, {"x", x.view()}, {"y", y.view}});
    ASSERT_TRUE(ran) << place.name << "\n" << ran.error().render();
    expect_sums(y, host, 0.75F, 1, "y");
  }
}

int sums_there(const CodettaTensor& x, float decay, CodettaTensor& y) {
  for (int64_t r = 0; r < x.shape[0]; ++r) {
    float sum = 0;
    for (int64_t c = 0; c < x.shape[1]; ++c) {
      sum = static_cast<const float*>(x.data)[r * x.strides[0] + c * x.strides[1]] + decay * sum;
      static_cast<float*>(y.data)[r * y.strides[0] + c * y.strides[1]] = sum;
    }
  }
  return 0;
}
// The emulator's memory is the host's, and what is in front has run.
int out_form(void* seen, const CodettaTensor* inputs, int, CodettaTensor* outputs, int) {
  *static_cast<void**>(seen) = outputs[0].data;
  return sums_there(inputs[0], 0.75F, outputs[0]);
}
int alloc_form(void*, const CodettaTensor* inputs, int, CodettaTensor* outputs, int) {
  CodettaTensor& y = outputs[0];
  y.rank = 2;
  y.dtype = static_cast<int32_t>(f32);
  for (int d = 0; d < 2; ++d) y.shape[d] = inputs[0].shape[d];
  y.strides[0] = 1;  // as it likes
  y.strides[1] = y.shape[0];
  y.data = new float[static_cast<size_t>(y.shape[0] * y.shape[1])];
  y.release = [](CodettaTensor* tensor) { delete[] static_cast<float*>(tensor->data); };
  return sums_there(inputs[0], 0.75F, y);
}

// Functions are told strides, so that they write any output.
TEST_F(HipUserOutputs, OfFunctions) {
  for (const bool allocates : {false, true}) {
    const CompiledProgram sums = compiled(std::string("def f(x: f32[\"m\", \"n\"]):\n    h = x * 1.0\n") +
                                          "    y = call_extern(\"sums\", h, out=\"f32[m, n]\"" +
                                          (allocates ? ", form=\"alloc\"" : "") + ")\n    return y\n");
    constexpr int64_t m = 6, n = 24;
    const Tensor host = random(f32, {m, n}, seed_++);
    const DeviceTensor x = DeviceTensor::copy_of(*device_, host).value();
    for (const Place& place : places(m, n)) {
      const Output y = output(place, m, n);
      void* seen = nullptr;
      RunOptions options;
      options.externs.push_back({"sums", allocates ? alloc_form : out_form, &seen});
      const auto ran = sums.run({{"x", x.view()}, {"y", y.view}}, {}, options);
      ASSERT_TRUE(ran) << place.name << "\n" << ran.error().render();
      expect_sums(y, host, 0.75F, 1, allocates ? "allocated" : "written");
      EXPECT_EQ(seen, allocates ? nullptr : y.view.data()) << place.name;
    }
  }
}

}  // namespace
}  // namespace codetta
