// SPDX-License-Identifier: Apache-2.0
// Functions of HIP kernels on the host: their stated accuracy (device/hip/ulp.def) against long double. f32 arguments
// step through all bit patterns, f64 ones are random ones of every exponent and near those that functions turn at.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#define CODETTA_LANES 1
#define CODETTA_F64
#include "device/gpu/math.h"
#include "support/real_ops.hpp"
#include "support/ulps.hpp"
#include "types/dtype.hpp"

namespace codetta {
namespace {

using types::Op;

struct Stated {
  double f32_ulp = 0.5, f32_abs = 0, f64_ulp = 0.5, f64_abs = 0;
};
std::map<Op, Stated> stated_accuracy() {
  std::map<Op, Stated> table;
#define CODETTA_ULP(name, f32_ulp, f32_abs, f64_ulp, f64_abs) table[Op::name] = {f32_ulp, f32_abs, f64_ulp, f64_abs};
#include "device/hip/ulp.def"
#undef CODETTA_ULP
  return table;
}

template <class T>
struct Function {
  Op op;
  T (*call)(T);
};
#define FUNCTION(name)                              \
  {                                                 \
    Op::name, [](T x) { return gpu::one::name(x); } \
  }
template <class T>
std::vector<Function<T>> functions() {
  return {FUNCTION(exp),       FUNCTION(exp2),      FUNCTION(expm1),       FUNCTION(log),        FUNCTION(log2),
          FUNCTION(log1p),     FUNCTION(sqrt),      FUNCTION(rsqrt),       FUNCTION(sin),        FUNCTION(cos),
          FUNCTION(tanh),      FUNCTION(erf),       FUNCTION(sigmoid),     FUNCTION(silu),       FUNCTION(gelu_erf),
          FUNCTION(gelu_tanh), FUNCTION(hardswish), FUNCTION(hardsigmoid), FUNCTION(mish),       FUNCTION(dsigmoid),
          FUNCTION(dtanh),     FUNCTION(dsilu),     FUNCTION(dgelu_erf),   FUNCTION(dgelu_tanh), FUNCTION(reciprocal)};
}
#undef FUNCTION

template <class T>
void measure(const std::vector<T>& arguments) {
  constexpr bool narrow = sizeof(T) == 4;
  auto table = stated_accuracy();
  for (const Function<T>& function : functions<T>()) {
    const Stated& stated = table[function.op];
    const double bound = narrow ? stated.f32_ulp : stated.f64_ulp, absolute = narrow ? stated.f32_abs : stated.f64_abs;
    double worst = 0;
    T at = 0;
    for (const T x : arguments) {
      const long double exact = test::real_op<long double>(function.op, x, 0, 0);
      const double error = test::error_in_ulps(function.call(x), exact, absolute);
      if (error > worst) worst = error, at = x;
    }
    EXPECT_LE(worst, bound) << types::op_info(function.op).name << (narrow ? " of f32 " : " of f64 ") << at << " gives "
                            << function.call(at) << ", exact " << test::real_op<long double>(function.op, at, 0, 0);
    std::printf("%-12s %s %8.3f ulp of %g\n", std::string(types::op_info(function.op).name).c_str(),
                narrow ? "f32" : "f64", worst, bound);
  }
}

// The same bits as division, for numerators of every exponent.
TEST(HipMath, ADivisorOfARow) {
  std::mt19937 random(5);
  for (int row = 0; row < 400; ++row) {
    // Most as large as sums are, the others anything.
    const auto drawn = static_cast<uint32_t>(random());
    const uint32_t bits = row % 4 == 0 ? drawn : (drawn & 0x807fffffu) | ((110u + drawn % 40u) << 23);
    const gpu::Vec<float> divisor{{std::bit_cast<float>(bits)}};
    for (int i = 0; i < 20'000; ++i) {
      const float x = i < 16 ? (i % 2 == 0 ? 1.0f : -1.0f) *
                                   std::array{0.0f,
                                              0x1p-149f,
                                              0x1p-127f,
                                              0x1.fffffep127f,
                                              1.0f,
                                              3.0f,
                                              std::numeric_limits<float>::infinity(),
                                              std::numeric_limits<float>::quiet_NaN()}[static_cast<size_t>(i / 2)]
                             : std::bit_cast<float>(static_cast<uint32_t>(random()));
      const float got = gpu::ct_div_by(gpu::Vec<float>{{x}}, divisor).e[0], wanted = x / divisor.e[0];
      if (std::isnan(wanted) && std::isnan(got)) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(wanted)) << x << " / " << divisor.e[0];
    }
  }
}

TEST(HipMath, FunctionsOfF32AreAsExactAsStated) {
  std::vector<float> arguments;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 33331)
    arguments.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (float x = -110; x < 110; x += 0.0037f) arguments.push_back(x);
  measure<float>(arguments);
}

TEST(HipMath, FunctionsOfF64AreAsExactAsStated) {
  std::mt19937_64 random(7);
  std::vector<double> arguments{0.0, -0.0, INFINITY, -INFINITY, NAN};
  for (int i = 0; i < 60000; ++i) arguments.push_back(std::bit_cast<double>(random()));
  std::uniform_real_distribution<double> near(-40, 40), one(-1.5, 1.5);
  for (int i = 0; i < 60000; ++i) arguments.push_back(i % 2 == 0 ? near(random) : one(random));
  measure<double>(arguments);
}

TEST(HipMath, PowersAreAsExactAsStated) {
  auto table = stated_accuracy();
  std::mt19937_64 random(11);
  double worst_f32 = 0, worst_f64 = 0;
  for (int i = 0; i < 200000; ++i) {
    std::uniform_real_distribution<double> base(-4, 12), exponent(-30, 30);
    const double x = base(random), y = i % 3 == 0 ? std::rint(exponent(random)) : exponent(random);
    const auto a = static_cast<float>(x), b = static_cast<float>(y);
    worst_f64 = std::max(worst_f64, test::error_in_ulps(gpu::one::pow(x, y), std::pow<long double>(x, y), 0));
    worst_f32 = std::max(worst_f32, test::error_in_ulps(gpu::one::pow(a, b), std::pow<long double>(a, b), 0));
  }
  EXPECT_LE(worst_f32, table[Op::pow].f32_ulp);
  EXPECT_LE(worst_f64, table[Op::pow].f64_ulp);
  const double inf = INFINITY;
  for (const double x : {0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, inf, -inf}) {
    for (const double y : {0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 0.5, inf, -inf}) {
      const double got = gpu::one::pow(x, y), wanted = std::pow(x, y);
      EXPECT_LE(test::error_in_ulps<double>(got, wanted, 0), 1) << x << " to " << y << " gives " << got;
      if (!std::isnan(wanted)) {
        EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << x << " to " << y;
      }
    }
  }
}

TEST(HipMath, RemaindersAreExact) {
  std::mt19937_64 random(13);
  for (int i = 0; i < 100000; ++i) {
    double x = std::bit_cast<double>(random()), y = std::bit_cast<double>(random());
    if (i % 2 == 0)
      x = std::ldexp(1 + static_cast<double>(random() % 1000) / 7, static_cast<int>(random() % 60)), y = 0.37;
    const double got = gpu::one::remainder_of(x, y), wanted = std::fmod(x, y);
    ASSERT_TRUE(std::bit_cast<uint64_t>(got) == std::bit_cast<uint64_t>(wanted) ||
                (std::isnan(got) && std::isnan(wanted)))
        << x << " mod " << y << " gives " << got << ", exact " << wanted;
  }
}

}  // namespace
}  // namespace codetta
