// SPDX-License-Identifier: Apache-2.0
// What tests of the public interface over a pretended GPU share: contexts for AMD's, and a small product on the device.
#pragma once

#include <string>
#include <vector>

#include "base/files.hpp"
#include "codetta/codetta.hpp"

namespace codetta::test {

// One thread, a cache in the folder; this library is both the HIP runtime and its compiler.
inline ContextOptions hip_options(const base::TemporaryDirectory& folder, const char* library) {
  ContextOptions made;
  made.cache_dir = folder.path() + "/cache";
  made.threads = 1;
  made.hip_runtime = made.hiprtc = library;
  return made;
}

struct GpuProblems {
  // [m, k] x [k, n] -> D on the device, outputs poisoned.
  struct Problem {
    std::vector<DeviceTensor> tensors;
    GemmArguments arguments;
  };
  static constexpr int64_t m = 33, n = 20, k = 17;
  static inline const std::string plain = "def plain(accum):\n    D = accum\n    return D\n";
  static inline const std::string reducing =
      "def reducing(accum):\n    D = accum\n    total = sum(accum, dim=-1)\n    return D, total\n";

  // Where the text has them, with a row `bias` and row sums `total`.
  static Problem problem_on(const Device& device, DType dtype = f32, const std::string& text = plain, int64_t rows = m,
                            int64_t cols = n, int64_t depth = k) {
    const Dims shapes[] = {{rows, depth}, {depth, cols}, {rows, cols}};
    Problem made;
    for (uint64_t i = 0; i < 3; ++i) {
      const Tensor host = Tensor::make(dtype, shapes[i]).value();
      if (i < 2) {
        fill_random(host, i + 1);
      } else {
        fill_poison(host);
      }
      made.tensors.push_back(DeviceTensor::copy_of(device, host).value());
    }
    made.arguments.A = made.tensors[0];
    made.arguments.B = made.tensors[1];
    std::vector<NamedArgument> bound{{"D", made.tensors[2].view()}};
    const auto bind = [&](const char* name, const Dims& shape) {
      if (text.find(name) == std::string::npos) return;
      made.tensors.push_back(DeviceTensor::copy_of(device, Tensor::make(f32, shape).value()).value());
      bound.push_back({name, made.tensors.back().view()});
    };
    bind("bias", {cols});
    bind("total", {rows, 1});
    made.arguments.out = made.tensors[2].view();
    made.arguments.epilogue = EpilogueArguments::make(text, bound).value();
    return made;
  }
};

}  // namespace codetta::test
