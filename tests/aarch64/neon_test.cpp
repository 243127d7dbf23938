// SPDX-License-Identifier: Apache-2.0
// The NEON micro-kernels at every register block and tail, on small integers (so exactly), and the vector functions of
// emitted epilogues against the C library. No test framework: there is none for AArch64 on the build machine.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "device/cpu/convert.h"
#include "device/cpu/math.h"
#include "device/cpu/micro/micro.hpp"

namespace {

using namespace codetta::cpu;

int checks = 0, failures = 0;
template <class... T>
void check(bool holds, const char* format, T... values) {
  ++checks;
  if (holds || ++failures > 20) return;
  std::printf("FAILED ");
  std::printf(format, values...);
  std::printf("\n");
}

int value(int i, int j) { return (i * 7 + j * 13 + i * j) % 9 - 4; }

// One kernel: rows x cols accumulators over k, every byte of C outside of them watched.
template <class A, class B, class Acc>
void run(const char* name, Kernel kernel, int rows, int cols, int nr, int group, int k, int lanes_left,
         bool row_of_init) {
  const int sign = static_cast<B>(-1) < static_cast<B>(0) ? 0 : 4;  // unsigned B holds 0 to 8
  std::vector<A> a(static_cast<size_t>(rows * k));
  std::vector<B> b(static_cast<size_t>((k / group) * (cols * group)));
  std::vector<Acc> init(static_cast<size_t>(nr)), c(static_cast<size_t>((rows + 1) * nr), static_cast<Acc>(77));
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < k; ++i) a[static_cast<size_t>(r * k + i)] = static_cast<A>(value(r, i));
  for (int i = 0; i < k; ++i)
    for (int n = 0; n < cols; ++n)
      b[static_cast<size_t>(i / group * cols * group + n * group + i % group)] = static_cast<B>(value(n, i) + sign);
  for (int n = 0; n < nr; ++n) init[static_cast<size_t>(n)] = static_cast<Acc>(n);
  kernel(a.data(), static_cast<i64>(static_cast<size_t>(k) * sizeof(A)), b.data(),
         static_cast<i64>(static_cast<size_t>(cols * group) * sizeof(B)), c.data(),
         static_cast<i64>(static_cast<size_t>(nr) * sizeof(Acc)), k, lanes_left, row_of_init ? init.data() : nullptr);
  for (int r = 0; r <= rows; ++r) {
    for (int n = 0; n < nr; ++n) {
      int expected = row_of_init ? n : 0;
      for (int i = 0; i < k; ++i) expected += value(r, i) * (value(n, i) + sign);
      if (r == rows || n >= cols) expected = 77;
      check(c[static_cast<size_t>(r * nr + n)] == static_cast<Acc>(expected),
            "%s %d x %d, k %d at (%d, %d): %g, expected %d", name, rows, cols, k, r, n,
            static_cast<double>(c[static_cast<size_t>(r * nr + n)]), expected);
    }
  }
}

template <class A, class B, class Acc>
void run_set(const char* name, const KernelSet& set) {
  check(set.lanes > 0, "%s is missing", name);
  for (int v = 1; v <= max_vectors; ++v) {
    for (int rows = 1; rows <= set.max_rows[v - 1]; ++rows) {
      for (const int steps : {1, 2, 3, 7, 16, 33}) {
        const int k = steps * set.group, nr = v * set.lanes;
        run<A, B, Acc>(name, set.full[v - 1][rows - 1], rows, nr, nr, set.group, k, 0, steps % 2 == 1);
        if (set.partial[v - 1] == nullptr) continue;
        for (int left = 1; left <= set.lanes; ++left)
          run<A, B, Acc>(name, set.partial[v - 1][rows - 1], rows, nr - set.lanes + left, nr, set.group, k, left,
                         steps % 2 == 0);
      }
    }
  }
}

// A function of one vector at many points and every tail of its load and store.
template <class F, class G>
void function(const char* name, F vector, G exact, double low, double high, double tolerance) {
  for (int i = 0; i < 4000; ++i) {
    float in[lanes], out[lanes + 1];
    const int n = 1 + i % lanes;
    for (int j = 0; j <= lanes; ++j) out[j] = 77;
    for (int j = 0; j < lanes; ++j) in[j] = static_cast<float>(low + (high - low) * (i * lanes + j) / (4000.0 * lanes));
    store(out, vector(load<f32v>(in, n)), n);
    for (int j = 0; j <= lanes; ++j) {
      const double want = j < n ? exact(static_cast<double>(in[j])) : 77;
      check(std::abs(out[j] - want) <= (j < n ? tolerance * std::fmax(1e-30, std::abs(want)) + 1e-7 * tolerance : 0),
            "%s(%g) = %g, expected %g", name, j < lanes ? static_cast<double>(in[j]) : 0.0, static_cast<double>(out[j]),
            want);
    }
  }
}

void conversions() {
  for (uint32_t bits = 0; bits < 65536; bits += lanes) {
    u16v codes;
    for (int j = 0; j < lanes; ++j) codes[j] = static_cast<u16>(bits + static_cast<uint32_t>(j));
    const f32v wide = widen_f16(codes), brain = widen_bf16(codes);
    const u16v half_back = narrow_f16(wide), brain_back = narrow_bf16(brain);
    for (int j = 0; j < lanes; ++j) {
      __fp16 half;
      const uint16_t code = codes[j];
      std::memcpy(&half, &code, 2);
      const float want = static_cast<float>(half), got = wide[j];
      check(std::isnan(want) ? std::isnan(got) : want == got && half_back[j] == code, "f16 %04x",
            static_cast<unsigned>(code));
      check(std::isnan(brain[j]) || brain_back[j] == code, "bf16 %04x", static_cast<unsigned>(code));
    }
  }
}

}  // namespace

int main() {
  const MicroTable& table = neon_table();
  const auto packed = [&](Product p) -> const KernelSet& { return table.packed[static_cast<int>(p)]; };
  const auto in_place = [&](Source s) -> const KernelSet& { return table.in_place[static_cast<int>(s)]; };
  run_set<float, float, float>("f32", packed(Product::f32));
  run_set<double, double, double>("f64", packed(Product::f64));
  run_set<int32_t, int32_t, int32_t>("int32", packed(Product::int32));
  run_set<int16_t, int16_t, int32_t>("int16", packed(Product::int16));
  run_set<int64_t, int64_t, int64_t>("int64", packed(Product::int64));
  run_set<float, __fp16, float>("f16 in place", in_place(Source::f16));
  run_set<int32_t, int8_t, int32_t>("int8 in place", in_place(Source::int8));
  run_set<int32_t, uint8_t, int32_t>("uint8 in place", in_place(Source::uint8));
  function(
      "exp", [](f32v x) { return ct_exp(x); }, [](double x) { return std::exp(x); }, -80, 80, 1e-6);
  function(
      "log", [](f32v x) { return ct_log(x); }, [](double x) { return std::log(x); }, 1.5, 1e6, 1e-6);
  function(
      "tanh", [](f32v x) { return ct_tanh(x); }, [](double x) { return std::tanh(x); }, -9, 9, 1e-6);
  function(
      "erf", [](f32v x) { return ct_erf(x); }, [](double x) { return std::erf(x); }, -5, 5, 1e-6);
  function(
      "sigmoid", [](f32v x) { return ct_sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, -20, 20, 2e-6);
  conversions();
  std::printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 && checks > 100000 ? 0 : 1;
}
