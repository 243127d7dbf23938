// SPDX-License-Identifier: Apache-2.0
// Programs that write at indices, on a GPU through the public interface: the bits of the same programs on the
// processor, sums of repeated indices included, for they are taken in the same order.
#include <cstring>
#include <random>

#include "codetta/contents.hpp"
#include "cuda_device/fixture.hpp"

namespace codetta {
namespace {

class DeviceSteps : public OnGpu {
 protected:
  struct Bound {
    std::string name;
    DType dtype;
    Dims shape;
    int64_t below = 0;  // integers from 0 to this - 1; 0: random numbers
  };
  // Both runs of the program over the same random arguments: outputs of the processor, then of the device.
  struct Runs {
    std::vector<Tensor> host, device;
    Result<void> ran;
  };
  Runs run(const std::string& text, const std::vector<Bound>& arguments,
           const std::vector<std::pair<std::string, int64_t>>& sizes = {}) {
    Runs runs{{}, {}, {}};
    const auto program = Program::parse(text, "program.py");
    EXPECT_TRUE(program) << program.error().render();
    const auto on_device = compile(*program, cuda, sizes, *context_);
    EXPECT_TRUE(on_device) << on_device.error().render();
    const auto on_host = compile(*program, Target::host(), sizes, *context_);
    EXPECT_TRUE(on_host) << on_host.error().render();
    if (!on_device || !on_host) return runs;
    std::vector<Tensor> host;
    std::vector<DeviceTensor> copies;
    std::vector<NamedArgument> here, there;
    std::mt19937 random(7);
    const auto add = [&](const Bound& bound, bool output) {
      host.push_back(Tensor::make(bound.dtype, bound.shape).value());
      output ? fill_poison(host.back()) : fill_random(host.back(), host.size(), Distribution::Normal);
      for (int64_t i = 0; bound.below > 0 && i < host.back().view().element_count(); ++i)
        host.back().view().as<int64_t>()[i] = static_cast<int64_t>(random() % static_cast<uint32_t>(bound.below));
      copies.push_back(DeviceTensor::copy_of(*device_, host.back()).value());
      here.push_back({bound.name, host.back().view()});
      there.push_back({bound.name, copies.back().view()});
    };
    for (const Bound& bound : arguments) add(bound, false);
    const auto shapes = program->shapes(here);
    EXPECT_TRUE(shapes) << shapes.error().render();
    for (const auto& output : shapes->outputs) add({output.name, output.dtype, output.shape}, true);
    const auto computed = on_host->run(here);
    EXPECT_TRUE(computed) << computed.error().render();
    runs.ran = on_device->run(there);
    EXPECT_TRUE(device_->synchronize());
    for (size_t o = arguments.size(); o < host.size(); ++o) {
      runs.device.push_back(Tensor::make(host[o].view().dtype(), host[o].view().shape()).value());
      EXPECT_TRUE(copies[o].download(runs.device.back()));
      runs.host.push_back(std::move(host[o]));
    }
    return runs;
  }
  void expect_same_bits(const std::string& text, const std::vector<Bound>& arguments) {
    const Runs runs = run(text, arguments);
    ASSERT_TRUE(runs.ran) << text << runs.ran.error().render();
    ASSERT_FALSE(runs.host.empty());
    for (size_t o = 0; o < runs.host.size(); ++o) {
      const TensorView wanted = runs.host[o].view(), got = runs.device[o].view();
      const auto bytes = static_cast<size_t>(wanted.element_count() * dtype_size(wanted.dtype()));
      EXPECT_EQ(std::memcmp(wanted.data(), got.data(), bytes), 0) << text << "output " << o;
    }
  }
};

std::string named(DType dtype) { return std::string(dtype_name(dtype)); }

TEST_F(DeviceSteps, IndexPutOfRowsAndColumns) {
  for (const DType dtype : {f32, bf16, f16, f64, i32, i8}) {
    for (const char* how : {"", ", accumulate=True"}) {
      // A cache of keys that some tokens are written to, a gradient of an embedding, and columns.
      expect_same_bits("def f(x: " + named(dtype) + "[300, 130], i: i64[77], v: " + named(dtype) +
                           "[77, 130]):\n    y = index_put(x, i, v" + how + ")\n    return y\n",
                       {{"x", dtype, {300, 130}}, {"i", i64, {77}, 300}, {"v", dtype, {77, 130}}});
      expect_same_bits("def f(x: " + named(dtype) + "[9, 40, 8], i: i64[5, 11], v: " + named(dtype) +
                           "[9, 5, 11, 8]):\n    y = index_put(x, i, v, dim=1" + how + ")\n    return y\n",
                       {{"x", dtype, {9, 40, 8}}, {"i", i64, {5, 11}, 40}, {"v", dtype, {9, 5, 11, 8}}});
    }
  }
}

// Few lanes and many indices, most of them repeated: several threads share a lane.
TEST_F(DeviceSteps, ManyIndicesInto1D) {
  for (const DType dtype : {f32, bf16, i64}) {
    expect_same_bits("def f(x: " + named(dtype) + "[50], i: i64[20000], v: " + named(dtype) +
                         "[20000]):\n    y = index_put(x, i, v, accumulate=True)\n    return y\n",
                     {{"x", dtype, {50}}, {"i", i64, {20000}, 50}, {"v", dtype, {20000}}});
  }
}

TEST_F(DeviceSteps, ScatterInEveryWay) {
  for (const DType dtype : {f32, bf16, f16, i32}) {
    for (const char* reduce : {"none", "sum", "max", "min"}) {
      for (const char* dim : {"0", "1"}) {
        expect_same_bits("def f(x: " + named(dtype) + "[70, 90], i: i64[70, 90], v: " + named(dtype) +
                             "[70, 90]):\n    y = scatter(x, i, v, dim=" + dim + ", reduce=\"" + reduce +
                             "\")\n    return y\n",
                         {{"x", dtype, {70, 90}}, {"i", i64, {70, 90}, 60}, {"v", dtype, {70, 90}}});
      }
    }
  }
}

TEST_F(DeviceSteps, BetweenKernels) {
  expect_same_bits(
      "def f(x: f32[64, 32], i: i64[20], v: f32[20, 32]):\n"
      "    h = index_put(x * 2.0, i, v + 1.0, accumulate=True)\n"
      "    y = h * 3.0\n"
      "    return y\n",
      {{"x", f32, {64, 32}}, {"i", i64, {20}, 64}, {"v", f32, {20, 32}}});
}

TEST_F(DeviceSteps, AnIndexOutOfRangeIsAnError) {
  const auto taking = Program::parse("def f(y: f32[8, 4], i: i64[3]):\n    v = take(y, i)\n    return v\n", "take.py");
  const auto reading = compile(*taking, cuda, {}, *context_);
  ASSERT_TRUE(reading) << reading.error().render();
  const auto program = Program::parse(
      "def f(x: f32[8, 4], i: i64[3], v: f32[3, 4]):\n    y = index_put(x, i, v)\n    return y\n", "program.py");
  ASSERT_TRUE(program) << program.error().render();
  const auto compiled = compile(*program, cuda, {}, *context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  const Tensor x = Tensor::make(f32, {8, 4}).value(), v = Tensor::make(f32, {3, 4}).value(),
               i = Tensor::make(DType::i64, {3}).value();
  fill_random(x, 1);
  fill_random(v, 2);
  const int64_t indices[] = {1, 9, 2}, fine[] = {1, 7, 2};
  std::memcpy(i.data(), indices, sizeof indices);
  const auto dx = DeviceTensor::copy_of(*device_, x).value(), dv = DeviceTensor::copy_of(*device_, v).value(),
             dy = DeviceTensor::copy_of(*device_, x).value();
  const auto di = DeviceTensor::copy_of(*device_, i).value();
  const std::vector<NamedArgument> arguments{{"x", dx.view()}, {"i", di.view()}, {"v", dv.view()}, {"y", dy.view()}};
  const auto ran = compiled->run(arguments);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code(), 618) << ran.error().render();
  EXPECT_NE(ran.error().render().find("index 9 is out of range for the size 8"), std::string::npos)
      << ran.error().render();
  const auto read = reading->run({{"y", dy.view()}, {"i", di.view()}, {"v", dv.view()}});
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().render().find("it stands at [1] of i"), std::string::npos) << read.error().render();
  RunOptions unchecked;
  unchecked.checked = false;
  EXPECT_TRUE(reading->run({{"y", dy.view()}, {"i", di.view()}, {"v", dv.view()}}, {}, unchecked));
  auto execution = compiled->prepare(arguments);
  ASSERT_TRUE(execution) << execution.error().render();
  ASSERT_TRUE(execution->run()) << "a run only enqueues";
  ASSERT_TRUE(device_->synchronize());
  EXPECT_FALSE(check_contents(*execution));
  EXPECT_TRUE(check_contents(*execution)) << "it is told once";
  ASSERT_TRUE(execution->run());
  ASSERT_TRUE(device_->synchronize());
  EXPECT_FALSE(execution->run()) << "or by the next run, before it enqueues anything";
  std::memcpy(i.data(), fine, sizeof fine);
  ASSERT_TRUE(di.upload(i));
  ASSERT_TRUE(execution->run());
  ASSERT_TRUE(device_->synchronize());
  EXPECT_TRUE(check_contents(*execution));
}

}  // namespace
}  // namespace codetta
