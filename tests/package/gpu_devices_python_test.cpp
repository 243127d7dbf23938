// SPDX-License-Identifier: Apache-2.0
// Modules for CUDA whose programs use two devices, over the pretended cuda.bindings, which looks at what is done on
// which device and in what order.
#include <sstream>

#include "package/gpu_devices.hpp"
#include "package/gpu_python.hpp"

namespace codetta::test {
namespace {

using namespace package;  // NOLINT: all kinds of steps
using Role = Buffer::Role;

class DevicesPython : public CudaPython {
 protected:
  struct Seen {
    std::string result, wrong, left, launches;
    std::vector<std::string> holds;
  };
  Seen look(const std::string& name) {
    Seen seen;
    std::ifstream in(file(name + ".out"));
    for (std::string line; std::getline(in, line);) {
      const std::string kind = line.substr(0, line.find(' ')), rest = line.substr(kind.size());
      if (kind == "result") seen.result = rest;
      if (kind == "wrong") seen.wrong += rest + "\n";
      if (kind == "left") seen.left = rest;
      if (kind == "holds") seen.holds.push_back(rest);
      if (kind == "launch") seen.launches += rest.substr(1, rest.find(' ', 1));
    }
    return seen;
  }
};

TEST_F(DevicesPython, TensorsGoThereAndBack) {
  DevicesPackage p;  // in one piece all along, so that the pretended driver does all that is asked of it
  const std::vector<types::Dim> shape{size(2), size(3)};
  const uint32_t x = p.buffer("x", Role::Argument, 0, DType::f32, shape),
                 bias = p.buffer("bias", Role::Argument, 1, DType::f32, shape),
                 y = p.buffer("y", Role::Output, 0, DType::f32, shape),
                 kept = p.buffer("kept", Role::Output, 1, DType::f32, shape),
                 there = p.buffer("there", Role::Temporary, 1, DType::f32, shape),
                 again = p.buffer("again", Role::Temporary, 1, DType::f32, shape);
  p.put_on_one(Allocate{there}, Copy{bias, kept}, Allocate{again});
  p.put(Copy{x, there});
  p.put_on_one(Copy{there, again});
  p.put(Copy{again, y}, Return{});
  const std::string line = write("back", *p.done()) + " f32:2,3 f32:2,3@device1 f32:2,3 f32:2,3@device1\n";
  if (!run(line, {"turns=3"})) GTEST_SKIP() << "no numpy";
  Seen seen = look("back");
  EXPECT_EQ(seen.result, " 0");
  EXPECT_EQ(seen.wrong, "");
  EXPECT_EQ(seen.left.substr(0, 5), " 7 1 ") << "the thread's context, and one stream for all calls";
  EXPECT_EQ(seen.left, " 7 1 " + std::to_string(3 * (2 + 2)))
      << "what comes back waits for all in front and is waited for; one event at the begin and the end";
  ASSERT_EQ(seen.holds.size(), 4U);
  EXPECT_EQ(seen.holds[0], seen.holds[2]);
  EXPECT_EQ(seen.holds[1], seen.holds[3]);
  // On one GPU, which needs all tensors there.
  const std::string near = write("near", *p.done()) + " f32:2,3 f32:2,3 f32:2,3 f32:2,3\n";
  ASSERT_TRUE(run(near, {"devices=1", "further=0", "turns=2"}));
  seen = look("near");
  EXPECT_EQ(seen.result, " 0");
  EXPECT_EQ(seen.wrong, "");
  EXPECT_EQ(seen.holds[0], seen.holds[2]);
  const struct {
    std::string line, name;
    std::vector<std::string> told;
    std::string wanted;
  } refused[] = {
      {line,
       "back",
       {"devices=1"},
       "E0642: too few GPUs: the program uses 2 devices, and from device 0 on there are 1; name others, or one several "
       "times, with set_further_devices()"},
      {near, "near", {}, "E0648: bias does not lie on device 1: its address "},
      {line, "back", {"further=0"}, "E0648: bias does not lie on device 0: its address "},
      {line, "back", {"further=2"}, "0"},  // which is refused by itself
      {line, "back", {"further=near"}, "0 E0701: ordinals of GPUs are a list of integers: "},
      {line, "back", {"cuMemcpyPeerAsync=1"}, "E0647: Failed to copy a tensor to another device with error: "},
      {line, "back", {"cuEventRecord=1"}, "E0647: Failed to record an event with error: "},
      {line, "back", {"cuStreamWaitEvent=1"}, "E0647: Failed to wait for another device with error: "},
      {line, "back", {"cuMemAllocAsync=2"}, ""},
      {line, "back", {"cuStreamCreate=1"}, "E0647: Failed to make a stream with error: "},
      {line, "back", {"cuEventCreate=1"}, "E0647: Failed to make an event with error: "},
      {line, "back", {"cuDevicePrimaryCtxRetain=1"}, "E0647: Failed to retain device 1 with error: "},
  };
  for (const auto& one : refused) {
    SCOPED_TRACE(one.told.empty() ? one.line : one.told[0]);
    ASSERT_TRUE(run(one.line, one.told));
    seen = look(one.name);
    EXPECT_NE(seen.result.find(one.wanted), std::string::npos) << seen.result;
    EXPECT_EQ(seen.left.substr(0, 3), " 7 ") << "the thread has its context back";
    EXPECT_EQ(seen.wrong, "");
  }
}

TEST_F(DevicesPython, WhatIsStridedGoesInOnePiece) {
  DevicesPackage p = there_and_back();
  const std::string line = write("strided", *p.done()) + " f32:4,6 f32:4,6@device1 f32:4,6 f32:4,6@device1\n";
  if (!run(line)) GTEST_SKIP() << "no numpy";
  const Seen seen = look("strided");
  EXPECT_EQ(seen.result, " 0");
  EXPECT_EQ(seen.wrong, "");
  std::string moves;  // into h, h in one piece, into turned, that in one piece, into back, and into y
  for (int i = 0; i < 6; ++i) moves += "codetta_step_move ";
  EXPECT_EQ(seen.launches, moves);
}

// More streams than are kept for: what is part of a capture is not taken by calls of other streams until that ends.
TEST_F(DevicesPython, CapturesOfManyStreams) {
  DevicesPackage p;
  const std::vector<types::Dim> shape{size(8)};
  const uint32_t x = p.buffer("x", Role::Argument, 0, DType::f32, shape),
                 y = p.buffer("y", Role::Output, 1, DType::f32, shape);
  p.put(Copy{x, y}, Return{});
  const std::string line = write("many", *p.done()) + " f32:8 f32:8@device1\n";
  if (!run(line, {"captured=20"})) GTEST_SKIP() << "no numpy";
  const Seen seen = look("many");
  EXPECT_EQ(seen.result, " 0");
  EXPECT_EQ(seen.wrong, "");
  EXPECT_EQ(seen.left.substr(0, 6), " 7 21 ")
      << "a stream for each capture and for the call in none; the last takes one";
}

// A first call on a stream that is being captured: what it loads, allocates and uploads leaves the capture valid.
TEST_F(DevicesPython, AFirstCallInACapture) {
  DevicesPackage p = there_and_back();
  const uint32_t two = p.buffer("two", Role::Constant, 1, DType::f32, {size(4), size(6)}),
                 z = p.buffer("z", Role::Output, 1, DType::f32, {size(4), size(6)});
  p.made.buffers[two].constant.assign(4 * 24, '\1');
  std::vector<package::Step>& steps = p.made.steps;
  steps.insert(steps.end() - 1, {package::EnterDevice{1}, LoadConstant{two}, Copy{two, z}, package::ExitDevice{}});
  const std::string line =
      write("first", *p.done()) + " f32:4,6 f32:4,6@device1 f32:4,6 f32:4,6@device1 f32:4,6@device1\n";
  if (!run(line, {"within=3001"})) GTEST_SKIP() << "no numpy";
  const Seen seen = look("first");
  EXPECT_EQ(seen.result, " 0");
  EXPECT_EQ(seen.wrong, "");
  EXPECT_NE(seen.launches, "");
}

TEST_F(DevicesPython, ConstantsPredicatesAndSizesOfEachDevice) {
  DevicesPackage p;
  const types::Dim n = types::Dim::symbol("n");
  const uint32_t count = p.buffer("count", Role::Argument, 1, DType::u8, {}),
                 flag = p.buffer("flag", Role::Argument, 1, DType::boolean, {}),
                 x = p.buffer("x", Role::Argument, 0, DType::i32, {size(4)}),
                 y = p.buffer("y", Role::Output, 0, DType::i32, {size(4)}),
                 two = p.buffer("two", Role::Constant, 1, DType::i32, {size(4)}),
                 there = p.buffer("there", Role::Temporary, 1, DType::i32, {n});
  const int32_t values[] = {5, 6, 7, 8};
  p.made.buffers[two].constant.assign(reinterpret_cast<const char*>(values), sizeof values);
  p.made.step_lists = {{Copy{two, y}}, {Copy{x, y}}};
  p.put_on_one(LoadConstant{two}, DefineSymbol{"n", count, 0, DefineSymbol::From::Value}, Allocate{there}, Free{there},
               If{flag, 0, 1});
  p.put(Return{});
  const std::string line = write("reads", *p.done()) + " u8:@device1 bool:@device1 i32:4 i32:4\n";
  if (!run(line, {"turns=2"})) GTEST_SKIP() << "no numpy";
  const Seen seen = look("reads");
  EXPECT_EQ(seen.result.substr(0, 2), " 0") << seen.result;
  EXPECT_EQ(seen.wrong, "");
  ASSERT_EQ(seen.holds.size(), 4U);
  EXPECT_EQ(seen.holds[3], " 05000000060000000700000008000000") << "poisoned memory is true, and 165";
}

TEST_F(DevicesPython, ProductsAreLaunchedWhereTheirTensorsLie) {
  FakeGpu gpu;
  Context context = uncached();
  for (const int64_t k : {256, 16384}) {
    const auto package = two_stages("cuda:sm_90a", k, context);
    ASSERT_TRUE(package) << package.error().render();
    const std::string inner = std::to_string(k);
    const std::string line = write("stages", **package) + " bf16:64," + inner + " bf16:" + inner +
                             ",512 bf16:512,256@device1 f32:64,256@device1\n";
    if (!run(line, {"turns=2"})) GTEST_SKIP() << "no numpy";
    const Seen seen = look("stages");
    EXPECT_EQ(seen.result, " 0");
    EXPECT_EQ(seen.wrong, "");
    EXPECT_NE(seen.launches.find("codetta_gemm codetta_gemm"), std::string::npos) << seen.launches;
  }
}

}  // namespace
}  // namespace codetta::test
