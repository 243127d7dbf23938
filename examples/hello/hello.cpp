// SPDX-License-Identifier: Apache-2.0
// D = relu(alpha * (A @ B) + bias), as one fused kernel, in ten lines.
#include <codetta/codetta.hpp>
#include <cstdio>
#include <vector>

int main() {
  std::vector<float> a(64 * 32, 0.5f), b(32 * 48, 0.25f), bias(48, -11.0f), d(64 * 48);
  codetta::TensorView A(a.data(), codetta::f32, {64, 32}), B(b.data(), codetta::f32, {32, 48});
  codetta::TensorView C(bias.data(), codetta::f32, {48}), D(d.data(), codetta::f32, {64, 48});
  codetta::EpilogueArguments epilogue("def scaled_relu(accum, alpha, bias): D = relu(alpha * accum + bias); return D",
                                      {{"alpha", 3.0f}, {"bias", C}, {"D", D}});
  codetta::GemmArguments arguments{.A = A, .B = B, .out = D, .epilogue = epilogue};
  auto kernels = codetta::get_kernels(arguments);
  kernels[0].run(arguments).value();
  std::printf("%s: D[0, 0] = %g\n", kernels[0].metadata().name.c_str(), static_cast<double>(d[0]));
  return d[0] == 1.0f && d.back() == 1.0f ? 0 : 1;  // 3 * (32 * 0.5 * 0.25) - 11
}
