// SPDX-License-Identifier: Apache-2.0
// What a user would pick instead. Libraries are loaded when first asked for; one that is missing is left out of the
// tables.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/cpu/clock.hpp"
#include "codetta/tensor.hpp"

namespace codetta::bench {

// Row-major C = A B in f32, on one thread.
std::vector<Contender> f32_products(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k);
void eigen_sgemm(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k);
std::function<void()> libxsmm_batch(const float* a, const float* b, float* c, int64_t batch, int64_t m, int64_t n,
                                    int64_t k);

// A matrix product of oneDNN with post-operations, in their order.
struct OneDnnStep {
  enum class Kind { Multiply, Add, Scale, GeluTanh, GeluErf, Clamp } kind;
  const void* data = nullptr;  // Multiply, Add: [rows, cols] row-major, broadcast where a size is 1
  DType dtype = DType::f32;
  int64_t rows = 1, cols = 1;
  float alpha = 1, beta = 0;  // Scale: alpha * x + beta; Clamp: to [alpha, beta]
};
struct OneDnnProblem {
  int64_t m = 0, n = 0, k = 0;
  DType a = DType::f32, b = DType::f32, d = DType::f32;
  const void* A = nullptr;
  const void* B = nullptr;
  void* D = nullptr;
  const void* bias = nullptr;  // [n] f32, added to the product
  bool prepacked = false;      // weights in the layout that it asks for, brought there beforehand
  std::vector<OneDnnStep> steps{};
};
// One contender per version of oneDNN that could be loaded and takes the problem.
std::vector<Contender> onednn_products(const OneDnnProblem& problem);

// "OpenBLAS 0.3.21", ... of what is there.
std::vector<std::string> peer_versions();

}  // namespace codetta::bench
