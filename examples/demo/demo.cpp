// SPDX-License-Identifier: Apache-2.0
// relu_aux_store over two products: found, run, checked against the reference, and timed against the same math in
// separate steps. 512 x 3072 x 64 does little work for each element that it stores, and gains most from fusion; in
// 1024 x 1024 x 1024 the product itself takes nearly all of the time.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <codetta/codetta.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#if defined(__x86_64__) && defined(__gnu_linux__)
#define LOOP __attribute__((target_clones("default", "avx2", "arch=skylake-avx512")))
#else
#define LOOP
#endif

namespace {

struct Sizes {
  int64_t m, n, k;
};
constexpr float alpha = 0.5f;

// What somebody without fusion writes after a product: the loops for both types, elementwise over `count` values.
LOOP void relu_aux_loop(const float* product, const float* C, float* D, float* F, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float f = product[i] * alpha + C[i] * 2.0f;
    F[i] = f;
    D[i] = f > 0 ? f : 0;
  }
}
LOOP void relu_aux_loop(const float* product, const uint16_t* C, uint16_t* D, uint16_t* F, int64_t count) {
  const auto widen = [](uint16_t bits) {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  };
  const auto narrow = [](float value) {  // to nearest even
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  };
  for (int64_t i = 0; i < count; ++i) {
    const float f = product[i] * alpha + widen(C[i]) * 2.0f;
    F[i] = narrow(f);
    D[i] = narrow(f > 0 ? f : 0);
  }
}

// Median times in seconds of several ways, taken in turns so that they meet the same machine.
std::vector<double> race(const std::vector<std::function<void()>>& ways) {
  constexpr size_t rounds = 21;
  std::vector<std::vector<double>> times(ways.size());
  for (const auto& way : ways) way();
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      ways[i]();
      times[i].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  std::vector<double> medians;
  for (auto& each : times) {
    std::nth_element(each.begin(), each.begin() + rounds / 2, each.end());
    medians.push_back(each[rounds / 2]);
  }
  return medians;
}

// OpenBLAS where it is installed: C = A @ B of row-major f32 matrices.
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
Sgemm find_openblas() {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (set_threads != nullptr) set_threads(codetta::Context::process_default().pool().size());
  return reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

std::string relu_aux_store_text() {
  std::ifstream file(EPILOGUES_FOLDER "/relu_aux_store.py");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

codetta::Tensor matrix(codetta::DType dtype, int64_t rows, int64_t columns, uint64_t seed = 0) {
  auto tensor = codetta::Tensor::make(dtype, {rows, columns}).value();
  if (seed != 0) codetta::fill_random(tensor, seed);
  return tensor;
}

bool relu_aux_store(const Sizes& sizes, codetta::DType dtype, Sgemm sgemm) {
  const auto [m, n, k] = sizes;
  const auto A = matrix(dtype, m, k, 1), B = matrix(dtype, k, n, 2), C = matrix(dtype, m, n, 3);
  const auto D = matrix(dtype, m, n), F = matrix(dtype, m, n);

  // The fused kernel.
  codetta::GemmArguments arguments{.A = A, .B = B, .out = D};
  arguments.epilogue = {relu_aux_store_text(), {{"alpha", alpha}, {"C", C}, {"D", D}, {"F", F}}};
  const auto kernels = codetta::get_kernels(arguments);
  const codetta::Kernel& kernel = kernels[0];
  auto fused = kernel.prepare(arguments).value();
  codetta::fill_poison(D);
  codetta::fill_poison(F);
  fused.run().value();
  const auto check = codetta::verify(arguments).value();
  const bool right = check.verdict == codetta::VerifyReport::Verdict::Pass;

  // The same math in two steps: our product in f32, then a loop.
  const auto product = matrix(codetta::f32, m, n);
  codetta::GemmArguments plain_arguments{.A = A, .B = B, .out = product};
  plain_arguments.epilogue = {"def plain(accum): D = accum; return D", {{"D", product}}};
  auto plain = codetta::get_kernels(plain_arguments)[0].prepare(plain_arguments).value();
  const auto loop = [&, count = m * n] {
    const float* p = product.view().as<float>();
    if (dtype == codetta::f32) {
      relu_aux_loop(p, C.view().as<float>(), D.view().as<float>(), F.view().as<float>(), count);
    } else {
      relu_aux_loop(p, C.view().as<uint16_t>(), D.view().as<uint16_t>(), F.view().as<uint16_t>(), count);
    }
  };
  std::vector<std::function<void()>> ways{[&] { fused.run().value(); },
                                          [&] {
                                            plain.run().value();
                                            loop();
                                          }};
  // OpenBLAS multiplies f32 only.
  const auto A32 = matrix(codetta::f32, m, k, 1), B32 = matrix(codetta::f32, k, n, 2);
  if (sgemm != nullptr) {
    ways.emplace_back([&, rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k)] {
      constexpr int row_major = 101, as_it_lies = 111;
      sgemm(row_major, as_it_lies, as_it_lies, rows, columns, depth, 1, A32.view().as<float>(), depth,
            B32.view().as<float>(), columns, 0, product.view().as<float>(), columns);
      loop();
    });
  }

  const std::vector<double> seconds = race(ways);
  constexpr std::array<const char*, 3> names{"fused", "our plain GEMM, then a loop", "OpenBLAS sgemm, then a loop"};
  std::printf("relu_aux_store, %lld x %lld x %lld %s, kernel %s\n", static_cast<long long>(m),
              static_cast<long long>(n), static_cast<long long>(k), std::string(codetta::dtype_name(dtype)).c_str(),
              kernel.metadata().name.c_str());
  for (const auto& output : check.outputs) {
    std::printf(
        "  %s: %lld of %lld elements checked against the reference, %lld wrong, largest error %.2g of its bound\n",
        output.name.c_str(), static_cast<long long>(output.checked), static_cast<long long>(output.total),
        static_cast<long long>(output.wrong), output.max_error_ratio);
  }
  for (size_t i = 0; i < seconds.size(); ++i) {
    std::printf("  %-28s %7.1f GFLOP/s", names[i], 2e-9 * static_cast<double>(m * n * k) / seconds[i]);
    if (i > 0) std::printf("   fused is %.2f times as fast", seconds[i] / seconds[0]);
    std::printf("\n");
  }
  if (sgemm == nullptr) std::printf("  (libopenblas.so.0 is not installed, so it is not compared with)\n");
  const auto source = kernel.source_path();  // none where there is no cache folder
  std::printf("  its source: %s\n\n", source ? source->c_str() : source.error().message().c_str());
  if (!right) std::fprintf(stderr, "%s", check.text.c_str());
  return right;
}

}  // namespace

int main() try {
  const Sgemm sgemm = find_openblas();
  bool right = true;
  for (const Sizes& sizes : {Sizes{512, 3072, 64}, Sizes{1024, 1024, 1024}}) {
    for (const codetta::DType dtype : {codetta::f32, codetta::bf16}) right &= relu_aux_store(sizes, dtype, sgemm);
  }
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s", error.what());
  return 1;
}
