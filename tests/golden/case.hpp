// SPDX-License-Identifier: Apache-2.0
// A golden case: an epilogue with what it is bound to, and the text of everything that is decided and emitted for it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace codetta::golden {

struct Case {
  std::string_view name;
  std::string_view target;  // "cpu:avx2"
  // "M=64 N=48 K=32", with "batch=2", "A=bf16", "B=i8", "strict", "as_unfused" and "fused" (the fused form is emitted
  // too) where they are wanted; A and B are f32 by default. CUDA targets name the configuration, without its
  // architecture, "kernel=cuda_simt_64x64x16", and "b_columns" where the columns of B are contiguous; "sums_exponents"
  // lowers as a region whose sums of exponents of rows are made in one pass.
  std::string_view problem;
  // "C=f32[M,N] alpha=scalar:f32 D=bf16[M,N]:strided": parameters and outputs by name. Sizes are numbers, M, N, batch.
  std::string_view arguments;
  std::string_view text;
};

std::span<const Case> all_cases();

struct Emitted {
  std::string golden;  // what is kept: text, graph, plan and the generated part of each source
  struct Source {
    std::string text;                // the whole translation unit
    std::vector<std::string> flags;  // GCC's or NVRTC's
    bool is_gpu = false;
  };
  std::vector<Source> sources;
};
// Nothing of this machine is asked. Errors: those of the text, its binding, planning and emission.
Result<Emitted> emit_case(const Case& golden_case);

}  // namespace codetta::golden
