// SPDX-License-Identifier: Apache-2.0
// Packages of two devices, made by hand, for host texts over pretended drivers that look at what is done where.
#pragma once

#include "emit/gpu_steps.hpp"
#include "package/gpu_library.hpp"
#include "support/second_device.hpp"

namespace codetta::test {

// A package that is put together step by step.
class DevicesPackage {
 public:
  explicit DevicesPackage(const char* target = "cuda:sm_90a") {
    made.name = "f";
    made.target = Target::parse(target).value();
    made.device_count = 2;
  }
  uint32_t buffer(const char* name, package::Buffer::Role role, uint32_t device, DType dtype,
                  std::vector<types::Dim> shape, std::vector<types::Dim> strides = {}) {
    package::Buffer b;
    b.name = name;
    b.role = role;
    b.dtype = dtype;
    b.device = device;
    b.shape = std::move(shape);
    b.strides = std::move(strides);
    made.buffers.push_back(std::move(b));
    return static_cast<uint32_t>(made.buffers.size() - 1);
  }
  template <class... Steps>
  void put(Steps&&... steps) {
    (made.steps.emplace_back(std::forward<Steps>(steps)), ...);
  }
  // Steps of device 1.
  template <class... Steps>
  void put_on_one(Steps&&... steps) {
    put(package::EnterDevice{1}, std::forward<Steps>(steps)..., package::ExitDevice{});
  }
  package::PackageRef done() {
    emit::add_steps_kernel(made);
    for (package::Kernel& kernel : made.kernels) kernel.binary = pretended_image(kernel);
    EXPECT_EQ(package::find_defect(made).value_or(""), "");
    return std::make_shared<const package::Package>(made);
  }
  package::Package made;
};
inline types::Dim size(int64_t value) { return types::Dim::constant(value); }

// x of device 0 goes to device 1 and back into y; on the way lie temporaries in columns, on both devices, and what is
// copied there is strided on one side, on both, or on none. `bias` of device 1 stays there, in `kept`.
inline DevicesPackage there_and_back(const char* target = "cuda:sm_90a") {
  using namespace package;
  using Role = Buffer::Role;
  DevicesPackage p(target);
  const std::vector<types::Dim> shape{size(4), size(6)}, columns{size(1), size(4)};
  const uint32_t x = p.buffer("x", Role::Argument, 0, DType::f32, shape),
                 bias = p.buffer("bias", Role::Argument, 1, DType::f32, shape),
                 y = p.buffer("y", Role::Output, 0, DType::f32, shape),
                 kept = p.buffer("kept", Role::Output, 1, DType::f32, shape),
                 h = p.buffer("h", Role::Temporary, 0, DType::f32, shape, columns),
                 rows = p.buffer("rows", Role::Temporary, 1, DType::f32, shape),
                 turned = p.buffer("turned", Role::Temporary, 1, DType::f32, shape, columns),
                 back = p.buffer("back", Role::Temporary, 0, DType::f32, shape, columns);
  p.put(Allocate{h}, Copy{x, h}, Allocate{back});
  p.put_on_one(Allocate{rows}, Copy{bias, kept}, Allocate{turned});
  p.put(Copy{h, rows});
  p.put_on_one(Copy{rows, turned});
  p.put(Copy{turned, back}, Copy{back, y}, Return{});
  return p;
}

// y = relu(x @ w) @ v, of which the second product is of device 1, where v and y lie.
inline Result<package::PackageRef> two_stages(const char* target, int64_t k, Context& context,
                                              plan::Alignment alignment = plan::Alignment::Hinted) {
  using namespace package;
  const std::string inner = std::to_string(k);
  const auto program = Program::parse("def f(x: bf16['m', " + inner + "], w: bf16[" + inner +
                                          ", 512], v: bf16[512, 256]):\n"
                                          "    h = cast(relu(x @ w), bf16)\n    y = h @ v\n    return y\n",
                                      "program.py");
  CODETTA_TRY(Package package, planned(*program, Target::parse(target).value(), {{"m", 64}}, context, alignment));
  move_last_product(package);
  emit::add_steps_kernel(package);
  for (package::Kernel& kernel : package.kernels) kernel.binary = pretended_image(kernel);
  CODETTA_CHECK_OK(package::check(package));
  return std::make_shared<const Package>(std::move(package));
}

}  // namespace codetta::test
