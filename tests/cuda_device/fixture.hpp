// SPDX-License-Identifier: Apache-2.0
// A context on the first GPU, problems in its memory, and their check; skipped where there is none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.hpp"
#include "codetta/codetta.hpp"

namespace codetta {

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.emplace(*base::TemporaryDirectory::make("/tmp"));
    context_.emplace(Context::make(options()).value());
    auto device = Device::open(*context_);
    if (!device) GTEST_SKIP() << device.error().message();
    device_.emplace(*std::move(device));
  }
  ContextOptions options() const {
    ContextOptions made;
    made.cache_dir = folder_->path() + "/cache";
    return made;
  }

  struct Operand {
    std::string name;
    DType dtype;
    Dims shape;
    bool is_output = false;
    bool columns = false;  // column-major in memory
  };
  // Random operands and poisoned outputs on the device. A and B come first and may be transposed in memory.
  struct Problem {
    std::vector<DeviceTensor> tensors;
    GemmArguments arguments;
  };
  struct Shape {
    int64_t m, n, k, batch = 0;
    bool transpose_a = false, transpose_b = false;
  };
  Problem problem(DType a, DType b, const Shape& s, const std::string& text, const std::vector<Operand>& operands,
                  const std::vector<NamedArgument>& scalars = {}) const {
    Problem made;
    uint64_t seed = 11;
    const auto factor = [&](DType dtype, int64_t rows, int64_t cols, bool transposed) {
      Dims shape;
      if (s.batch > 0) shape.push_back(s.batch);
      shape.push_back(transposed ? cols : rows);
      shape.push_back(transposed ? rows : cols);
      const Tensor host = Tensor::make(dtype, shape).value();
      fill_random(host, seed++);
      made.tensors.push_back(DeviceTensor::copy_of(*device_, host).value());
      const TensorView view = made.tensors.back();
      return transposed ? view.transposed() : view;
    };
    made.arguments.A = factor(a, s.m, s.k, s.transpose_a);
    made.arguments.B = factor(b, s.k, s.n, s.transpose_b);
    std::vector<NamedArgument> bound = scalars;
    for (const Operand& operand : operands) {
      Dims lies = operand.shape;
      if (operand.columns) std::swap(lies[lies.rank() - 1], lies[lies.rank() - 2]);
      const Tensor host = Tensor::make(operand.dtype, lies).value();
      if (operand.is_output) {
        fill_poison(host);
      } else {
        fill_random(host, seed++);
      }
      made.tensors.push_back(DeviceTensor::copy_of(*device_, host).value());
      const TensorView view = operand.columns ? made.tensors.back().view().transposed() : made.tensors.back().view();
      bound.push_back({operand.name, view});
      if (operand.name == "D") made.arguments.out = view;
    }
    made.arguments.epilogue = EpilogueArguments::make(text, bound).value();
    return made;
  }
  Problem product(int64_t m, int64_t n, int64_t k, DType dtype = f32) const {
    return problem(dtype, dtype, {m, n, k}, plain, {{"D", dtype, {m, n}, true}});
  }
  KernelList kernels(const Problem& of) { return find_kernels(of.arguments, cuda, {}, *context_).value(); }
  // Runs every family's best kernel and checks it.
  void expect_right(const Problem& of, const std::string& what) {
    const auto found = find_kernels(of.arguments, cuda, {}, *context_);
    ASSERT_TRUE(found) << what << "\n" << found.error().render();
    ASSERT_FALSE(found->empty()) << what;
    std::string families;
    for (const Kernel& kernel : *found) {
      const std::string& family = kernel.metadata().family;
      if (families.find(family) != std::string::npos) continue;
      families += family + " ";
      poison(of);
      auto execution = kernel.prepare(of.arguments);
      ASSERT_TRUE(execution) << what << " " << kernel.metadata().name << "\n" << execution.error().render();
      ASSERT_TRUE(execution->run());
      check(of, what + " " + kernel.metadata().name);
    }
  }
  void check(const Problem& of, const std::string& what) {
    const auto checked = verify(of.arguments, {}, cuda, 5, *context_);
    ASSERT_TRUE(checked) << what << "\n" << checked.error().render();
    EXPECT_EQ(checked->verdict, VerifyReport::Verdict::Pass) << what << "\n" << checked->text;
  }
  void poison(const Problem& of) const {
    const auto& outputs = of.arguments.epilogue.epilogue()->outputs();
    for (const NamedArgument& argument : of.arguments.epilogue.arguments()) {
      if (std::find(outputs.begin(), outputs.end(), argument.name) == outputs.end()) continue;
      for (const DeviceTensor& tensor : of.tensors) {
        if (tensor.data() != argument.value.tensor()->data()) continue;
        ASSERT_TRUE(tensor.fill_bytes(0xFF));
      }
    }
    ASSERT_TRUE(device_->synchronize());
  }

  static inline const Target cuda{Backend::cuda, {}, ""};
  static inline const std::string plain = "def plain(accum):\n    D = accum\n    return D\n";
  std::optional<base::TemporaryDirectory> folder_;
  std::optional<Context> context_;
  std::optional<Device> device_;
};

}  // namespace codetta
