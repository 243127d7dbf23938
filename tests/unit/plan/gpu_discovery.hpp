// SPDX-License-Identifier: Apache-2.0
// Problems that the kernels of GPUs are looked for, and what was found.
#pragma once

#include <algorithm>
#include <string>

#include "diag/diagnostic.hpp"
#include "ir/bind.hpp"
#include "plan/candidates.hpp"
#include "support/code_recorder.hpp"

namespace codetta::test {

// A product of `dtype` by `dtype`, both row-major.
inline plan::GemmShape gpu_shape(int64_t m, int64_t n, int64_t k, DType dtype) {
  plan::GemmShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.a = shape.b = dtype;
  shape.accumulator = ir::default_accumulator(dtype, dtype).value();
  shape.a_row_stride = k;
  shape.b_k_stride = n;
  return shape;
}

inline bool has_family(const plan::Discovery& discovery, package::GpuFamily family) {
  return std::any_of(discovery.candidates.begin(), discovery.candidates.end(),
                     [&](const plan::Candidate& c) { return package::gpu(c.config).family == family; });
}

// "E0405: ...", a line for each of the kernel's rejections; without those that rank too low unless `ranked` says so.
inline std::string reasons_of(const plan::Discovery& discovery, const std::string& kernel, bool ranked = false) {
  std::string all;
  for (const plan::Rejection& rejection : discovery.rejections) {
    record_code(rejection.code);
    if (rejection.kernel == kernel && (ranked || rejection.code != static_cast<uint16_t>(diag::Code::ranked_out)))
      all += diag::code_text(rejection.code) + ": " + rejection.text + "\n";
  }
  return all;
}

}  // namespace codetta::test
