// SPDX-License-Identifier: Apache-2.0
// The products and epilogues of which the gates of GPU kernels compile kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/bind.hpp"
#include "plan/candidates.hpp"

namespace codetta::compile_gate {

// Row-major (n) or column-major (t) factors, as BLAS names them: "tn" has consecutive k of both side by side.
struct Layout {
  const char* name;
  bool a_k_major, b_k_major;
};
inline constexpr Layout layouts[] = {
    {"tn", true, true}, {"tt", true, false}, {"nn", false, true}, {"nt", false, false}};

struct Size {
  int64_t m, n, k;
};

// pad: elements between the rows, or columns, of the factors.
plan::GemmShape shape_of(const Size& size, DType a, DType b, DType accumulator, const Layout& layout, int64_t pad = 0);

// An epilogue of everyday use.
struct Epilogue {
  const char* name;  // of a file in examples/epilogues
  std::vector<ir::BoundArgument> (*arguments)(int64_t m, int64_t n, DType type);
};
std::span<const Epilogue> everyday_epilogues();

}  // namespace codetta::compile_gate
