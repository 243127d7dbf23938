// SPDX-License-Identifier: Apache-2.0
// Random epilogues as text, with what their parameters and outputs are bound to. The same seed gives the same epilogue
// everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codetta/tensor.hpp"

namespace codetta::test {

// A dim of a shape whose sizes are not chosen yet: a number, or one of these.
inline constexpr int64_t dim_m = -1, dim_n = -2, dim_batch = -3;

struct ParameterSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  bool is_number = false;  // a host number
  double number = 0;
  bool integral = false;
};
struct OutputSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::string same_as;  // in place: the operand whose view it shares; "" = its own
};
struct EpilogueSpec {
  std::string text;
  DType a = DType::f32, b = DType::f32;
  bool batched = false;
  int64_t fixed_n = 0, fixed_batch = 0;  // 0: any
  std::vector<ParameterSpec> parameters;
  std::vector<OutputSpec> outputs;
};

EpilogueSpec random_epilogue_text(uint64_t seed);

}  // namespace codetta::test
