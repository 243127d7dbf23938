// SPDX-License-Identifier: Apache-2.0
// Functions of the caller's that allocate their results in branches and loops of a program, on a GPU: how many rows
// they return differs from turn to turn, and their memory comes from the stream and goes back to it.
#include <dlfcn.h>

#include <cmath>
#include <cstring>

#include "cuda_device/fixture.hpp"

namespace codetta {
namespace {

// The driver's memory in the order of a stream.
struct StreamMemory {
  using Address = unsigned long long;
  int (*allocate)(Address*, size_t, void*) = nullptr;
  int (*free)(Address, void*) = nullptr;
  int (*copy)(Address, Address, size_t, void*) = nullptr;
  bool found() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return false;
    const auto look = [&](auto& function, const char* name) {
      void* symbol = dlsym(library, name);
      std::memcpy(&function, &symbol, sizeof symbol);
      return symbol != nullptr;
    };
    return look(allocate, "cuMemAllocAsync") && look(free, "cuMemFreeAsync") && look(copy, "cuMemcpyDtoDAsync_v2");
  }
};

struct Given {
  StreamMemory memory;
  std::vector<int64_t> rows;  // that each call returns, the first ones of its operand
  size_t call = 0, fails_at = 1000;
  int made = 0, released = 0;
};
Given* given = nullptr;  // what a release, which gets a tensor alone, counts in

int rows_of(void* context, const CodettaTensor* inputs, int, CodettaTensor* outputs, int) {
  Given& g = *static_cast<Given*>(context);
  const size_t bytes = static_cast<size_t>(g.rows[g.call]) * 16;
  void* const stream = inputs[0].owner;
  StreamMemory::Address address = 0;
  if (g.memory.allocate(&address, std::max<size_t>(bytes, 16), stream) != 0) return 1;
  ++g.made;
  std::memcpy(&outputs[0].data, &address, sizeof address);
  outputs[0].rank = 2;
  outputs[0].dtype = static_cast<int32_t>(DType::f32);
  outputs[0].shape[0] = g.rows[g.call];
  outputs[0].shape[1] = 4;
  outputs[0].strides[0] = 4;
  outputs[0].strides[1] = 1;
  outputs[0].owner = stream;
  outputs[0].release = [](CodettaTensor* tensor) {
    StreamMemory::Address back = 0;
    std::memcpy(&back, &tensor->data, sizeof back);
    given->released += given->memory.free(back, tensor->owner) == 0 ? 1 : 100;
  };
  if (g.call++ == g.fails_at) return 7;
  StreamMemory::Address from = 0;
  std::memcpy(&from, &inputs[0].data, sizeof from);
  return bytes == 0 ? 0 : g.memory.copy(address, from, bytes, stream);
}

class DeviceFunctions : public OnGpu {};

TEST_F(DeviceFunctions, AllocateInBranchesAndLoops) {
  const char* const text =
      "def more(i, x, z):\n    return i < 3\n"
      "def turn(i, x, z):\n"
      "    h = call_extern(\"rows\", x, out=\"f32[k, 4]\", form=\"alloc\")\n"
      "    return i + 1, x, z * 2.0 + sum(relu(h), dim=0)\n"
      "def taken(x, z):\n"
      "    g = call_extern(\"rows\", x, out=\"f32[j, 4]\", form=\"alloc\")\n"
      "    return z - sum(g, dim=0)\n"
      "def left(x, z):\n    return z * 3.0\n"
      "def calls(x: f32[\"m\", 4], z: f32[1, 4], flag: bool):\n"
      "    i, same, end = while_loop(more, turn, 0, x, z)\n"
      "    y = cond(flag, taken, left, same, end)\n"
      "    return y\n";
  const auto program = Program::parse(text, "calls.py");
  ASSERT_TRUE(program) << program.error().render();
  const auto compiled = compile(*program, cuda, {}, *context_);
  ASSERT_TRUE(compiled) << compiled.error().render();
  constexpr int64_t m = 50;
  const Tensor x = Tensor::make(f32, {m, 4}).value(), z = Tensor::make(f32, {1, 4}).value(),
               y = Tensor::make(f32, {1, 4}).value();
  fill_random(x, 3);
  for (int64_t i = 0; i < m * 4; ++i) x.view().as<float>()[i] = std::round(8 * x.view().as<float>()[i]);  // exact sums
  for (int64_t i = 0; i < 4; ++i) z.view().as<float>()[i] = static_cast<float>(i - 1);
  const auto dx = DeviceTensor::copy_of(*device_, x).value(), dz = DeviceTensor::copy_of(*device_, z).value();
  const auto dy = DeviceTensor::make(*device_, f32, {1, 4}).value();
  const DeviceStream stream = DeviceStream::make(*device_).value();
  Given g;
  given = &g;
  ASSERT_TRUE(g.memory.found());
  RunOptions options;
  options.externs = {{"rows", rows_of, &g}};
  const auto first = [&](int64_t rows, int64_t column, bool positive) {
    float sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const float value = x.view().as<float>()[r * 4 + column];
      sum += positive && value < 0 ? 0 : value;
    }
    return sum;
  };
  const auto arguments = [&](bool flag) {
    return std::vector<NamedArgument>{{"x", dx.view()}, {"z", dz.view()}, {"flag", flag}, {"y", dy.view()}};
  };
  for (const bool flag : {true, false}) {
    auto execution = compiled->prepare(arguments(flag), options);
    ASSERT_TRUE(execution) << execution.error().render();
    for (const std::vector<int64_t>& rows :
         {std::vector<int64_t>{7, 50, 1, 33}, {0, 3, 49, 0}, {50, 50, 50, 50}, {1, 2, 3, 4}}) {
      ASSERT_TRUE(dy.fill_bytes(0xff, stream));
      g.rows = rows;
      g.call = 0;
      g.made = g.released = 0;
      const auto ran = execution->run(stream);
      ASSERT_TRUE(ran) << ran.error().render();
      ASSERT_TRUE(dy.download(y, stream));
      EXPECT_EQ(g.call, flag ? 4U : 3U);
      EXPECT_EQ(g.released, g.made) << "all that was allocated is given back, once";
      for (int64_t column = 0; column < 4; ++column) {
        float wanted = z.view().as<float>()[column];
        for (size_t i = 0; i < 3; ++i) wanted = wanted * 2 + first(rows[i], column, true);
        wanted = flag ? wanted - first(rows[3], column, false) : wanted * 3;
        EXPECT_EQ(y.view().as<float>()[column], wanted) << column;
      }
    }
  }
  // A call that fails in a turn or in the branch ends the run, and what it had allocated goes back, too.
  auto execution = compiled->prepare(arguments(true), options);
  ASSERT_TRUE(execution) << execution.error().render();
  for (const size_t fails_at : {size_t{1}, size_t{3}}) {
    g.rows = {4, 5, 6, 7};
    g.call = 0;
    g.made = g.released = 0;
    g.fails_at = fails_at;
    const auto ran = execution->run(stream);
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code(), 617) << ran.error().render();
    EXPECT_EQ(g.made, static_cast<int>(fails_at + 1));
    EXPECT_EQ(g.released, g.made);
  }
  g.fails_at = 1000;
  g.call = 0;
  EXPECT_TRUE(execution->run(stream)) << "the execution is as good as before";
  EXPECT_TRUE(device_->synchronize());
}

}  // namespace
}  // namespace codetta
