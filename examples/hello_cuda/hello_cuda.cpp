// SPDX-License-Identifier: Apache-2.0
// D = relu(alpha * (A @ B) + bias) on an NVIDIA GPU, as one fused kernel.
#include <codetta/codetta.hpp>
#include <cstdio>
#include <vector>

int main() {
  auto device = codetta::Device::open();
  if (!device) {  // no GPU, no driver: the message says what was looked for
    std::fprintf(stderr, "%s", device.error().render().c_str());
    return 77;
  }
  std::vector<float> a(64 * 32, 0.5f), b(32 * 48, 0.25f), bias(48, -11.0f), d(64 * 48);
  const auto on_device = [&](std::vector<float>& host, const codetta::Dims& shape) {
    return codetta::DeviceTensor::copy_of(*device, {host.data(), codetta::f32, shape}).value();
  };
  auto A = on_device(a, {64, 32}), B = on_device(b, {32, 48}), C = on_device(bias, {48}), D = on_device(d, {64, 48});

  auto epilogue = codetta::EpilogueArguments(
      "def scaled_relu(accum, alpha, bias):\n"
      "    D = relu(alpha * accum + bias)\n"
      "    return D\n",
      {{"alpha", 3.0f}, {"bias", C.view()}, {"D", D.view()}});
  auto arguments = codetta::GemmArguments{.A = A, .B = B, .out = D, .epilogue = epilogue};
  auto kernels = codetta::get_kernels(arguments, codetta::Target::parse("cuda").value());
  auto run = kernels.prepare(arguments).value();  // compiles, or finds the kernel in the cache
  run.run().value();                              // only enqueues: on the default stream, or on one of your own

  D.download({d.data(), codetta::f32, {64, 48}}).value();  // waits for it
  std::printf("%s on %s: D[0, 0] = %g\n", kernels[0].metadata().name.c_str(), device->info().name.c_str(),
              static_cast<double>(d[0]));
  return d[0] == 1.0f && d.back() == 1.0f ? 0 : 1;  // 3 * (32 * 0.5 * 0.25) - 11
}
