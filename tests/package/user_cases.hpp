// SPDX-License-Identifier: Apache-2.0
// A program that calls a kernel of the user's, and what the kernel may say about its launch.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "codetta/tensor.hpp"
#include "types/convert.hpp"

namespace codetta::test {

struct UserCase {
  const char* clauses;
  int64_t m, n;
  const char* refused;  // part of what both say; null: it is launched
};

inline constexpr const char* program_text =
    "def f(x: f32['m', 'n'], a: f32, b: bf16, k: i32, d: f64):\n"
    "    y, z = user_kernel('mix', x, a, b, k, d, out=('f32[m, n]', 'f16[m]'))\n"
    "    return y, z\n";

inline std::string source_of(const std::string& clauses) {
  return "#pragma codetta kernel(x: f32[m, n], a: f32, b: bf16, k: i32, d: f64, out y: f32[m, n], out z: f16[m])\n"
         "#pragma codetta sizes(m, 3 * n: i32, stride(x, 0), stride(y, 0): i32) " +
         clauses + "\n__device__ void wait() { asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"); }\n";
}

// A number as a tensor of rank 0 in host memory.
struct Number {
  alignas(8) std::byte bytes[8] = {};
  DType dtype;
  Number(DType type, double value) : dtype(type) {
    if (type == DType::i32) {
      types::store_i64(bytes, type, static_cast<int64_t>(value));
    } else {
      types::store_f64(bytes, type == DType::bf16 ? DType::f32 : type, value);  // 16-bit floats travel as f32
    }
  }
};

inline std::span<const UserCase> user_cases() {
  static constexpr UserCase cases[] = {
      {"block(64) grid(m)", 6, 10, nullptr},
      {"block(8, 4, 2) grid(ceil_div(n, 8), m, 2) shared(16 * n * m)", 6, 1000, nullptr},
      {"block(32) grid(2 * m) cluster(2, 1, 1) dependent", 5, 3, nullptr},
      {"block(32) grid(4, m) cluster(4, 3) cooperative", 6, 3, nullptr},
      {"block(128) grid(m) cooperative window(x, bytes = 2 * n, percent = 35)", 7, 300, nullptr},
      {"block(128) grid(m) window(y)", 7, 300, nullptr},
      {"config(T = 32, R = -2) block(T) grid(m) if(R < 0) grid(n)", 4, 9, nullptr},
      {"block(32) grid(1) map(x, box(4, 8), swizzle(32))", 6, 8, nullptr},
      {"config(B = 4) block(32) grid(1) map(x, box(B, 16), steps(2, 1), promotion(64)) map(y, box(1, 4))", 6, 20,
       nullptr},
      {"block(32) grid(1) map(x, box(4, 8))", 6, 10, "the stride of dim 0 is 40 bytes; strides are multiples of 16"},
      {"block(64) grid(m)", 0, 10, nullptr},
      {"hook(z) block(64) grid(m)", 6, 10, nullptr},
      {"block(64) grid(m - 3)", 3, 10, "its grid is 0 x 1 x 1 blocks, and a result has elements"},
      {"block(n) grid(1)", 3, 1025, "1025 x 1 x 1 threads"},
      {"block(64) grid(m) cooperative", 133, 3, "holds 132 of its 133 x 1 x 1 blocks"},
      {"block(64) grid(m) cluster(2)", 3, 3, "has 3 blocks, no multiple of the 2 of a cluster"},
      {"block(64) grid(1) shared(4 * m * n)", 300, 300,
       "Failed to set the allowed dynamic shared memory size to 360000"},
  };
  return cases;
}

// Bytes of the parameters of `mix` where a case launches it. In one: where z lies, its size, and the strides of its
// elements in a matrix of one row.
inline std::vector<size_t> parameter_sizes(const UserCase& one) {
  const std::string clauses = one.clauses;
  const auto has = [&](const char* words) { return clauses.find(words) != std::string::npos; };
  constexpr size_t map = 128;
  return {has("map(x") ? map : 8, 4, 2, 4, 8, has("map(y") ? map : 8, has("hook(z") ? size_t{32} : 8, 8, 4, 8, 4};
}

}  // namespace codetta::test
