// SPDX-License-Identifier: Apache-2.0
// The public interface on an AMD GPU that is none: a context whose runtime and compiler are emulated.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "base/files.hpp"
#include "codetta/codetta.hpp"
#include "support/gpu_problem.hpp"

namespace codetta {

class EmulatedHip : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.emplace(*base::TemporaryDirectory::make("/tmp"));
    context_.emplace(Context::make(test::hip_options(*folder_, CODETTA_EMULATED_HIP)).value());
    device_.emplace(Device::open(Backend::hip, *context_).value());
  }

  static Tensor random(DType dtype, const Dims& shape, uint64_t seed) {
    Tensor made = Tensor::make(dtype, shape).value();
    fill_random(made, seed);
    return made;
  }

  std::optional<base::TemporaryDirectory> folder_;
  std::optional<Context> context_;
  std::optional<Device> device_;
  const Target hip_{Backend::hip, {}, ""};
};

}  // namespace codetta
