// SPDX-License-Identifier: Apache-2.0
// Executions as bytes, over the pretended driver: what is made of them computes the same in memory of its own.
#include "runtime/cuda/detached.hpp"

#include <algorithm>

#include "runtime/cuda/execution_state.hpp"
#include "unit/runtime_cuda/step_fixture.hpp"

namespace codetta::runtime::cuda {
namespace {

using namespace package;
using runtime::test::constant;

class CudaDetached : public OnPretendedDevice {
 protected:
  // y = x; u lies somewhere, backwards, and n is a number.
  void SetUp() override {
    OnPretendedDevice::SetUp();
    x_ = p_.argument("x", DType::f32, {4, 6}, std::vector<double>(24, 1));
    u_ = p_.argument("u", DType::f32, {4, 6}, std::vector<double>(24, 1));
    n_ = p_.scalar("n", DType::i64, -7);
    y_ = p_.output("y", DType::f32, {4, 6});
    p_.put(Copy{x_, y_}, Return{});
  }
  // x: 4 bytes behind an aligned address; u: rows 8 apart, backwards; y: behind them.
  void bind(std::vector<float>& memory) {
    auto* at = memory.data();
    while (reinterpret_cast<uintptr_t>(at) % 256 != 4) ++at;
    for (int i = 0; i < 200; ++i) at[i] = static_cast<float>(i);
    p_.bindings.tensors[x_] = TensorView::make(at, DType::f32, {4, 6}).value();
    p_.bindings.tensors[u_] = TensorView::make(at + 64, DType::f32, {4, 6}, {-8, -1}).value();
    p_.bindings.tensors[y_] = TensorView::make(at + 70, DType::f32, {4, 6}).value();
  }
  static std::vector<float> values(const TensorView& view) {
    std::vector<float> all;
    for (int64_t r = 0; r < view.size(0); ++r) {
      for (int64_t c = 0; c < view.size(1); ++c)
        all.push_back(view.as<float>()[r * view.stride(0) + c * view.stride(1)]);
    }
    return all;
  }
  uint32_t x_ = 0, u_ = 0, n_ = 0, y_ = 0;
};

TEST_F(CudaDetached, ComputesTheSameInMemoryOfItsOwn) {
  std::vector<float> memory(512);
  bind(memory);
  const auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  for (const bool contents : {false, true}) {
    const auto bytes = to_bytes(*execution, contents);
    ASSERT_TRUE(bytes) << bytes.error().render();
    ASSERT_TRUE(bytes->has_value());
    auto made = DetachedExecution::make(device_, **bytes);
    ASSERT_TRUE(made) << made.error().render();
    ASSERT_EQ(made->memory.size(), 3U);
    const Bindings& bound = made->execution->state().bindings;
    EXPECT_EQ(bound.scalars[n_].i, -7);
    for (const uint32_t b : {x_, u_, y_}) {
      EXPECT_NE(bound.tensors[b].data(), p_.bindings.tensors[b].data());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(bound.tensors[b].data()) % 256,
                reinterpret_cast<uintptr_t>(p_.bindings.tensors[b].data()) % 256);
      EXPECT_EQ(bound.tensors[b].strides(), p_.bindings.tensors[b].strides());
    }
    ASSERT_TRUE(made->execution->run(stream_->get()));
    const std::vector<float> given = values(p_.bindings.tensors[x_]);
    EXPECT_EQ(values(bound.tensors[x_]), contents ? given : std::vector<float>(24));
    EXPECT_EQ(values(bound.tensors[u_]), contents ? values(p_.bindings.tensors[u_]) : std::vector<float>(24));
    EXPECT_EQ(values(bound.tensors[y_]), contents ? given : std::vector<float>(24));
    EXPECT_NE(values(p_.bindings.tensors[y_]), given) << "nothing has happened to the caller's";
  }
}

TEST_F(CudaDetached, TensorsThatShareMemoryShareIt) {
  std::vector<float> memory(512);
  bind(memory);
  p_.bindings.tensors[y_] = TensorView::make(p_.bindings.tensors[x_].as<float>() + 8, DType::f32, {4, 6}).value();
  package_ = std::make_shared<const Package>(p_.package);
  const auto execution =
      Execution::make(package_, {module_}, p_.bindings, {.checked = false, .allocator = nullptr, .device = device_});
  ASSERT_TRUE(execution) << execution.error().render();
  const auto bytes = to_bytes(*execution, true);
  ASSERT_TRUE(bytes && bytes->has_value());
  const auto made = DetachedExecution::make(device_, **bytes);
  ASSERT_TRUE(made) << made.error().render();
  EXPECT_EQ(made->memory.size(), 2U);
  const Bindings& bound = made->execution->state().bindings;
  EXPECT_EQ(bound.tensors[x_].as<float>() + 8, bound.tensors[y_].as<float>());
}

TEST_F(CudaDetached, WhatIsNotWholeIsAnError) {
  std::vector<float> memory(512);
  bind(memory);
  const auto execution = prepare();
  ASSERT_TRUE(execution);
  const auto bytes = to_bytes(*execution, true);
  ASSERT_TRUE(bytes && bytes->has_value());
  const std::string whole = **bytes;
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(DetachedExecution::make(device_, std::string_view(whole).substr(0, size))) << size;
  EXPECT_FALSE(DetachedExecution::make(device_, whole + "x"));
}

TEST_F(CudaDetached, WhatBytesCannotCarry) {
  std::vector<float> memory(512);
  bind(memory);
  p_.provide("external", [](void*, const CodettaTensor*, int, CodettaTensor*, int) { return 0; });
  p_.package.steps.clear();
  p_.put(CallExtern{"external", {x_}, CallExtern::Form::Out, {y_}, 0, 0}, Return{});
  const auto execution = prepare();
  ASSERT_TRUE(execution) << execution.error().render();
  const auto bytes = to_bytes(*execution, false);
  ASSERT_TRUE(bytes) << bytes.error().render();
  EXPECT_FALSE(bytes->has_value());
}

}  // namespace
}  // namespace codetta::runtime::cuda
