// SPDX-License-Identifier: Apache-2.0
// The stated accuracy of functions, by op.
#pragma once

#include <span>

#include "types/op.hpp"

namespace codetta::oracle {

// A result differs from the true one by at most ulp * (spacing of the format there) + abs, at exact arguments; of an
// exponential r in f32 by ln * |ln r| spacings more.
struct UlpRow {
  types::Op op;
  double f32_ulp, f32_abs;
  double f64_ulp, f64_abs;
  double f32_ln = 0;
};
// device/cpu/ulp.def. Ops that are not listed are correctly rounded.
std::span<const UlpRow> cpu_ulp_table();
std::span<const UlpRow> cuda_ulp_table();   // device/gpu/ulp.def
std::span<const UlpRow> sm90a_ulp_table();  // likewise, of what programs for sm_90a compute
std::span<const UlpRow> hip_ulp_table();    // device/hip/ulp.def

struct Accuracy {
  double ulp = 0.5, abs = 0, ln = 0;
};

}  // namespace codetta::oracle
