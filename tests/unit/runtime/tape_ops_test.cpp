// SPDX-License-Identifier: Apache-2.0
// Every op of the tape in every compute dtype against long double and 64-bit references, and its special values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/cpu/tape_kernels.hpp"
#include "support/real_ops.hpp"
#include "support/scalar_ops.hpp"

namespace codetta::runtime::cpu::tape {
namespace {

using codetta::test::Element;
using types::Op;
using types::OpRule;

template <class T>
std::vector<T> run(Op op, DType dtype, const std::vector<std::vector<T>>& in) {
  const Kernel kernel = op_kernel(op, dtype);
  EXPECT_NE(kernel, nullptr) << types::op_info(op).name;
  std::vector<T> out(in[0].size());
  const std::byte* sources[4] = {};
  for (size_t i = 0; i < in.size(); ++i) sources[i] = reinterpret_cast<const std::byte*>(in[i].data());
  kernel(reinterpret_cast<std::byte*>(out.data()), sources, static_cast<int64_t>(out.size()));
  return out;
}
template <class T>
T one(Op op, DType dtype, std::vector<T> in) {
  std::vector<std::vector<T>> lanes;
  for (T x : in) lanes.push_back({x});
  return run<T>(op, dtype, lanes)[0];
}
float f(Op op, std::vector<float> in) { return one<float>(op, DType::f32, std::move(in)); }

template <class T>
void check_real(DType dtype, T ulps) {
  std::mt19937 gen(1);
  std::normal_distribution<T> normal(0, 3);
  for (const types::OpInfo& info : types::all_ops()) {
    if ((info.rule != OpRule::arith && info.rule != OpRule::real) || !info.elementwise()) continue;
    if (info.op == Op::dropout || info.op == Op::floordiv || info.op == Op::mod) continue;  // below
    const bool positive = info.op == Op::log || info.op == Op::log2 || info.op == Op::log1p || info.op == Op::sqrt ||
                          info.op == Op::rsqrt || info.op == Op::pow;
    std::vector<std::vector<T>> in(static_cast<size_t>(info.arity), std::vector<T>(257));
    for (auto& lanes : in) {
      for (T& x : lanes) x = positive ? std::fabs(normal(gen)) : normal(gen);
    }
    if (info.op == Op::softplus) {
      for (T& x : in[1]) x = std::fabs(x) + T(0.5);
    }
    const std::vector<T> out = run<T>(info.op, dtype, in);
    for (size_t i = 0; i < out.size(); ++i) {
      long double v[3] = {};
      for (size_t k = 0; k < in.size(); ++k) v[k] = static_cast<long double>(in[k][i]);
      const long double want = codetta::test::real_op(info.op, v[0], v[1], v[2]);
      ASSERT_FALSE(std::isnan(want)) << info.name << " has no reference";
      // Sums may cancel: their error is that of the terms.
      long double scale = std::fabs(want);
      if (info.op == Op::multiply_add) scale += std::fabs(v[0] * v[1]);
      if (info.op == Op::hardswish || info.op == Op::hardsigmoid || info.op == Op::dsilu || info.op == Op::dgelu_erf ||
          info.op == Op::dgelu_tanh) {
        scale += 1 + std::fabs(v[0]);
      }
      // In double, rounding of an exponent's argument shows, times the argument's magnitude.
      long double condition = 1;
      if (sizeof(T) == 8 && (info.op == Op::gelu_erf || info.op == Op::gelu_tanh)) condition += v[0] * v[0];
      if (sizeof(T) == 8 && info.op == Op::softplus) condition += std::fabs(v[0] * v[1]);
      const long double allowed =
          condition * static_cast<long double>(ulps) * scale * std::numeric_limits<T>::epsilon() +
          std::numeric_limits<T>::denorm_min();
      EXPECT_LE(std::fabs(static_cast<long double>(out[i]) - want), allowed)
          << info.name << " of " << in[0][i] << ": " << out[i];
    }
  }
}

// Elementary functions of float are those of double, rounded once.
TEST(TapeOps, RealFunctionsOfFloat) { check_real<float>(DType::f32, 1.6f); }
TEST(TapeOps, RealFunctionsOfDouble) { check_real<double>(DType::f64, 8.0); }

TEST(TapeOps, IntegersOfEveryWidth) {
  const auto check = [](auto zero, DType dtype) {
    using T = decltype(zero);
    std::mt19937_64 gen(2);
    for (const types::OpInfo& info : types::all_ops()) {
      if (info.rule != OpRule::arith || !info.elementwise()) continue;
      for (int round = 0; round < 400; ++round) {
        std::vector<T> in;
        std::vector<Element> elements;
        for (int i = 0; i < info.arity; ++i) {
          T x = static_cast<T>(gen());
          if (gen() % 3 == 0) x = static_cast<T>(static_cast<int64_t>(gen() % 5) - 2);
          if (gen() % 9 == 0) x = gen() % 2 == 0 ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
          if (info.op == Op::pow && i == 1) x = static_cast<T>(gen() % 65);
          in.push_back(x);
          elements.push_back(codetta::test::integer_element(static_cast<int64_t>(x), dtype));
        }
        const T want = static_cast<T>(codetta::test::apply(info.op, dtype, elements).i);
        EXPECT_EQ(one<T>(info.op, dtype, in), want) << info.name << " " << dtype_name(dtype) << " " << +in[0];
      }
    }
  };
  check(int8_t{}, DType::i8);
  check(int16_t{}, DType::i16);
  check(int32_t{}, DType::i32);
  check(int64_t{}, DType::i64);
  check(uint8_t{}, DType::u8);
  check(uint16_t{}, DType::u16);
  check(uint32_t{}, DType::u32);
  check(uint64_t{}, DType::u64);
}

TEST(TapeOps, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const Op op : {Op::minimum, Op::maximum}) {
    EXPECT_TRUE(std::isnan(f(op, {nan, 1})));
    EXPECT_TRUE(std::isnan(f(op, {1, nan})));
  }
  for (int i = 0; i < 3; ++i) {
    std::vector<float> in{1, 0, 2};
    in[static_cast<size_t>(i)] = nan;
    EXPECT_TRUE(std::isnan(f(Op::clamp, in)));
  }
  EXPECT_EQ(f(Op::clamp, {5, 3, 1}), 1);  // the upper bound wins
  EXPECT_FALSE(std::signbit(f(Op::relu, {-0.0f})));
  EXPECT_TRUE(std::isnan(f(Op::relu, {nan})));
  EXPECT_EQ(f(Op::drelu, {nan}), 0);
  EXPECT_TRUE(std::isnan(f(Op::sign, {nan})));
  EXPECT_FALSE(std::signbit(f(Op::sign, {-0.0f})));
  EXPECT_EQ(f(Op::div, {1, 0}), inf);
  EXPECT_TRUE(std::isnan(f(Op::mul, {0, inf})));
  EXPECT_TRUE(std::isnan(f(Op::log, {-1})));
  EXPECT_EQ(f(Op::log, {0}), -inf);
  EXPECT_TRUE(std::signbit(f(Op::sqrt, {-0.0f})));
  EXPECT_EQ(f(Op::rsqrt, {0}), inf);
  for (const Op op : {Op::silu, Op::gelu_erf, Op::gelu_tanh, Op::mish}) {
    EXPECT_TRUE(std::isnan(f(op, {-inf}))) << types::op_info(op).name;
    EXPECT_EQ(f(op, {inf}), inf) << types::op_info(op).name;
    EXPECT_TRUE(std::isnan(f(op, {nan})));
    EXPECT_EQ(f(op, {-3e38f}), 0) << types::op_info(op).name;
  }
  EXPECT_EQ(one<double>(Op::dgelu_tanh, DType::f64, {1e200}), 1);
  EXPECT_EQ(one<double>(Op::dgelu_tanh, DType::f64, {-1e200}), 0);
  // Subnormal results, and no overflow on the way.
  EXPECT_NEAR(one<double>(Op::sigmoid, DType::f64, {-716}) / 1e-311, 1.10956, 1e-4);
  EXPECT_NEAR(one<double>(Op::silu, DType::f64, {-716}) / -1e-309, 7.94445, 1e-4);
  EXPECT_EQ(f(Op::hardswish, {1e38f}), 1e38f);
  EXPECT_EQ(f(Op::softplus, {1000, 1, 20}), 1000);
  EXPECT_EQ(f(Op::softplus, {1000, 1, 2000}), 1000);  // without overflow
  const float halves[] = {0.5f, 1.5f, 2.5f, -0.5f, -2.5f, 8388608.5f};
  const float whole[] = {0, 2, 2, -0.0f, -2, 8388608.0f};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(f(Op::round, {halves[i]}), whole[i]);
  EXPECT_TRUE(std::signbit(f(Op::round, {-0.25f})));
  EXPECT_EQ(one<double>(Op::round, DType::f64, {4503599627370495.5}), 4503599627370496.0);
  EXPECT_EQ(f(Op::round, {inf}), inf);
}

TEST(TapeOps, DivisionAndRemainderArePythons) {
  EXPECT_EQ(f(Op::floordiv, {-7, 2}), -4);
  EXPECT_EQ(f(Op::mod, {-7, 2}), 1);
  EXPECT_EQ(f(Op::mod, {7, -2}), -1);
  EXPECT_TRUE(std::signbit(f(Op::mod, {6, -2})));  // a zero of the divisor's sign
  EXPECT_FALSE(std::signbit(f(Op::mod, {-6, 2})));
  EXPECT_EQ(f(Op::floordiv, {1, 0}), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(f(Op::mod, {1, 0})));
  EXPECT_EQ(f(Op::mod, {-1, std::numeric_limits<float>::infinity()}), std::numeric_limits<float>::infinity());
  EXPECT_EQ(one<int32_t>(Op::floordiv, DType::i32, {INT32_MIN, -1}), INT32_MIN);
  EXPECT_EQ(one<int32_t>(Op::mod, DType::i32, {INT32_MIN, -1}), 0);
  EXPECT_EQ(one<int8_t>(Op::mod, DType::i8, {-7, 0}), 0);
}

// Words of the published test vectors of Random123 (kat_vectors, philox4x32 10): counter and key zero, and counter and
// key with every bit that this use can set.
TEST(TapeOps, DropoutFollowsPhilox) {
  const auto kept = [](float p, int64_t seed, int64_t index) {
    const float x = 3, out_of_range = -1;
    float out = out_of_range;
    const std::byte* in[] = {reinterpret_cast<const std::byte*>(&x), reinterpret_cast<const std::byte*>(&p),
                             reinterpret_cast<const std::byte*>(&seed), reinterpret_cast<const std::byte*>(&index)};
    op_kernel(Op::dropout, DType::f32)(reinterpret_cast<std::byte*>(&out), in, 1);
    return out;
  };
  const float u = static_cast<float>(0x6627e8d5u >> 8) * 0x1p-24f;  // word 0 for zero counter and key
  EXPECT_EQ(kept(u, 0, 0), 3 / (1 - u));
  EXPECT_EQ(kept(std::nextafter(u, 1.0f), 0, 0), 0);
  const uint32_t words[] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};  // of elements 0 to 3
  for (int64_t i = 0; i < 4; ++i) {
    const float own = static_cast<float>(words[i] >> 8) * 0x1p-24f;
    EXPECT_NE(kept(own, 0, i), 0) << i;
    EXPECT_EQ(kept(std::nextafter(own, 1.0f), 0, i), 0) << i;
  }
  EXPECT_EQ(kept(0, 5, 9), 3);
  EXPECT_EQ(kept(1, 5, 9), 0);
  int count = 0;
  for (int64_t i = 0; i < 100000; ++i) count += kept(0.25f, -7, i << 31) != 0 ? 1 : 0;
  EXPECT_NEAR(count, 75000, 700);
}

TEST(TapeOps, StoresRoundAndCastsTruncate) {
  const float in[] = {2.7f, -2.7f, 2.5f, 3.5f, 300, -300, NAN, INFINITY};
  int8_t out[8];
  std::byte scratch[64];
  const auto* src = reinterpret_cast<const std::byte*>(in);
  convert_cast(src, DType::f32, reinterpret_cast<std::byte*>(out), DType::i8, 8);
  EXPECT_EQ(std::vector<int>(out, out + 8), (std::vector<int>{2, -2, 2, 3, 127, -128, 0, 127}));
  convert_store(src, DType::f32, reinterpret_cast<std::byte*>(out), DType::i8, 8, scratch);
  EXPECT_EQ(std::vector<int>(out, out + 8), (std::vector<int>{3, -3, 2, 4, 127, -128, 0, 127}));
}

// The fast loops must give the bits of the definition.
TEST(TapeOps, FastConversionsAreExact) {
  std::vector<uint32_t> patterns;
  std::mt19937 gen(4);
  for (int i = 0; i < 200000; ++i) patterns.push_back(static_cast<uint32_t>(gen()));
  for (const float limit : {127.0f, 128.0f, 255.0f, 256.0f, 32767.0f, 65535.0f, 2147483648.0f}) {
    for (const float x :
         {limit, -limit, limit - 0.5f, 0.5f - limit, limit + 1, -limit - 1, std::nextafter(limit, 0.0f), 0.5f, -0.5f}) {
      patterns.push_back(std::bit_cast<uint32_t>(x));
    }
  }
  for (uint32_t x :
       {0x7f800000u, 0xff800000u, 0x7f7fffffu, 0x7f7f8000u, 0x00008000u, 0x00018000u, 0x80000000u, 0x7fc00001u})
    patterns.push_back(x);
  const DType pairs[][2] = {{DType::f32, DType::bf16}, {DType::bf16, DType::f32}, {DType::f32, DType::f64},
                            {DType::f64, DType::f32},  {DType::i32, DType::f32},  {DType::i32, DType::f64},
                            {DType::i8, DType::f32},   {DType::u8, DType::f32},   {DType::f32, DType::i8},
                            {DType::f32, DType::u8},   {DType::f32, DType::i16},  {DType::f32, DType::u16},
                            {DType::f32, DType::i32}};
  for (const auto& [from, to] : pairs) {
    const int64_t count = static_cast<int64_t>(patterns.size()) * 4 / dtype_size(from);
    std::vector<std::byte> fast(static_cast<size_t>(count) * 8), slow(fast.size());
    convert_cast(reinterpret_cast<const std::byte*>(patterns.data()), from, fast.data(), to, count);
    types::convert(patterns.data(), from, slow.data(), to, count);
    for (int64_t i = 0; i < count; ++i) {
      const double a = types::load_f64(fast.data() + i * dtype_size(to), to),
                   b = types::load_f64(slow.data() + i * dtype_size(to), to);
      ASSERT_TRUE((std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)))
          << dtype_name(from) << dtype_name(to) << i;
    }
  }
}

TEST(TapeOps, EveryFormExists) {
  for (const types::OpInfo& info : types::all_ops()) {
    if (!info.elementwise() || info.rule == OpRule::index || info.rule == OpRule::cast) continue;
    for (int d = 0; d < dtype_count; ++d) {
      const auto dtype = static_cast<DType>(d);
      if (types::compute_dtype(dtype) != dtype) continue;
      const bool boolean = types::is_bool(dtype);
      const bool expected = info.rule == OpRule::compare || info.rule == OpRule::select ||
                            (info.rule == OpRule::logical && boolean) || (info.rule == OpRule::arith && !boolean) ||
                            (info.rule == OpRule::real && types::is_float(dtype));
      EXPECT_EQ(op_kernel(info.op, dtype) != nullptr, expected) << info.name << " " << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace codetta::runtime::cpu::tape
