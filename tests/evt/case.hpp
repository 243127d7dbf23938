// SPDX-License-Identifier: Apache-2.0
// An epilogue with what it is bound to, for visitor trees: goldens, compilation against CUTLASS's headers, runs on a
// GPU.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codetta/evt.hpp"

namespace codetta::evt_tests {

struct Case {
  std::string_view name;
  // "M=256 N=384 K=128 A=bf16", with "batch=2", "B=i8", "tf32", "two_level", "b_columns" and "nondeterministic" where
  // they are wanted; A and B are f16 by default.
  std::string_view problem;
  // "C=f16[M,N] alpha=scalar:0.5 D=f16[M,N]": parameters and outputs by name. Behind the shape ":columns" for a tensor
  // whose columns are dense, ":ld=NUMBER" for a stride between rows.
  std::string_view arguments;
  std::string_view text;
};
std::span<const Case> all_cases();

struct Problem {
  GemmArguments arguments;
  bool deterministic = true;
};
// Views over memory that nobody reads: an address that is aligned, and no more.
Problem problem_of(const Case& c);
EvtOptions options_of(const Case& c, const std::string& target);

// What is kept as the expected text.
std::string golden_of(const EvtText& text);

}  // namespace codetta::evt_tests
