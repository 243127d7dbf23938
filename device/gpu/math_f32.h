// SPDX-License-Identifier: Apache-2.0
// Functions of f32. Accuracy: ulp.def, measured on the device. The library's functions where they are good
// (library_f32.h), our own where an instruction of approximation does (activations). Polynomials: interval and order
// are named beside them.
#pragma once

#ifdef __METAL_VERSION__
#include "device/metal/library_f32.h"
#else
#include "device/gpu/library_f32.h"
#endif

namespace codetta::gpu {
namespace one {

CODETTA_CONSTANT f32 log2_e = 0x1.715476p+0f;

// x rounded to a value that adds to 1 without loss is not needed here: 1 + 2^t is inf from t = 128 on, its reciprocal
// 0, which is what a sigmoid there is within its absolute bound.
CODETTA_FN f32 sigmoid(f32 x) { return rcp_approx(1.0f + ex2_approx(x * -log2_e)); }
CODETTA_FN f32 silu(f32 x) { return x * sigmoid(x); }

// x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3); -2 u log2(e) = x (c0 + c1 x^2).
CODETTA_FN f32 gelu_tanh(f32 x) {
  const f32 t = x * (-0x1.26aec2p+1f + -0x1.a5a7dp-4f * (x * x));
  return x * rcp_approx(1.0f + ex2_approx(t));
}

// x (1 - Q(x)) above 0, x Q(-x) below, Q(a) = erfc(a / sqrt 2) / 2. log2 Q(a) on [0, 6], order 8, weighted by what it
// does to the result; it falls for all a >= 0, to -inf.
CODETTA_FN f32 gelu_erf(f32 x) {
  const f32 a = abs(x);
  f32 t = -0x1.7d1556p-20f * a + 0x1.696a7p-16f;
  t = t * a - 0x1.9302a4p-14f;
  t = t * a - 0x1.85be9cp-12f;
  t = t * a + 0x1.e510fcp-8f;
  t = t * a - 0x1.b03daep-5f;
  t = t * a - 0x1.d61e32p-2f;
  t = t * a - 0x1.26b016p+0f;
  t = t * a - 0x1.ffffep-1f;
  const f32 q = ex2_approx(t);
  return x * (x < 0.0f ? q : 1.0f - q);
}

// Phi(x) + x phi(x). Q e^(a^2/2) (a + 3) in (a - 3) / (a + 3) on [0, 14], order 8; phi(x) = exp(-x^2 / 2) / sqrt(2 pi).
CODETTA_FN f32 dgelu_erf(f32 x) {
  const f32 a = abs(x);
  const f32 d = rcp_approx(a + 3.0f);
  const f32 u = 1.0f - 6.0f * d;
  f32 p = -0x1.33f752p-12f * u - 0x1.eb393p-11f;
  p = p * u + 0x1.1eb2aep-10f;
  p = p * u + 0x1.c78f6ep-8f;
  p = p * u - 0x1.5784e6p-7f;
  p = p * u - 0x1.832cd4p-5f;
  p = p * u + 0x1.d71486p-3f;
  p = p * u - 0x1.04c726p-1f;
  p = p * u + 0x1.754a74p-1f;
  const f32 e = ex2_approx(a * a * -0x1.715476p-1f);
  const f32 q = e * (p * d);
  return (x > 0.0f ? 1.0f - q : q) + x * (e * 0x1.988454p-2f);
}

// s + x s (1 - s) 2 u', s = sigmoid(2 u) = 1 / (1 + e), s (1 - s) = e s^2; NaN at infinity.
CODETTA_FN f32 dgelu_tanh(f32 x) {
#ifdef CODETTA_SATURATES
  // Where e or x^2 is infinite e s and s (1 - s) 2 u' are 0, and below 1 everywhere: saturation makes that of inf * 0.
  const f32 x2 = x * x;
  const f32 e = ex2_approx(x * (-0x1.26aec2p+1f + -0x1.a5a7dp-4f * x2));
  const f32 s = rcp_approx(1.0f + e);
  return s + x * mul_sat(0x1.988454p+0f + 0x1.b6676cp-3f * x2, mul_sat(e, s) * s);
#else  // beyond |x| = 10 nothing is left of it
  const f32 c = minimum(maximum(x, -10.0f), 10.0f);
  const f32 c2 = c * c;
  const f32 e = ex2_approx(c * (-0x1.26aec2p+1f + -0x1.a5a7dp-4f * c2));
  const f32 s = rcp_approx(1.0f + e);
  return s + c * (e * s * s) * (0x1.988454p+0f + 0x1.b6676cp-3f * c2) + (x - x);
#endif
}

CODETTA_FN f32 divided(f32 x, f32 y) { return x * rcp_approx(y); }  // 1 <= y < 2^126
CODETTA_FN f32 sixth(f32 x) { return x * 0x1.555556p-3f; }

#ifndef __METAL_VERSION__
// x / d, from x / d within 1 ulp and r = 1 / d rounded to nearest. What is left of x has the sign that keeps a zero's.
CODETTA_FN f32 quotient(f32 x, f32 d, f32 r) {
  const f32 near = x * r;
  return fma(fma(d, near, -x), -r, near);
}
// exp(x (1 + z)) of results from 2^-100 to 2^100, |z| < 2^-28.4, which f32's ln 2 is off by, within half a unit of what
// ex2_approx is: 2^y, and what rounding y has cost; ulp.def has the bound. Four instructions, where exp has eight. Of
// other x what it returns is NaN or out of these bounds.
CODETTA_FN f32 exp_near(f32 x) {
  const f32 y = x * 0x1.715476p+0f, e = ex2_approx(y);
  return fma(e, fma(y, -0x1.62e43p-1f, x), e);
}
#endif

}  // namespace one

// x / y where all lanes of y are the same, and the same for many x, so that its reciprocal is computed once. With r = 1
// / y rounded to nearest, one correction makes a quotient that is within 1 ulp the one that is rounded to nearest
// (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990), far from the limits
// of the format. All lanes are looked at together: smallest and largest magnitude leave NaN out, which the correction
// hands on as it should. Zeros are what a masked row mostly has: of y > 0 their quotients have the sign that they need.
#ifndef __METAL_VERSION__
CODETTA_FN bool divides(f32 d) {
  return (float_to_bits(d) & 0x7fffffffu) - 0x34000000u < 0x16800000u;
}  // 2^-23 to 2^22
// Each as the first of all lanes, in little code for what hardly ever happens.
CODETTA_FN Vec<f32> divided_in_turn(Vec<f32> x, f32 d) {
#pragma unroll 1
  for (int turn = 0; turn < lanes; ++turn) {
    const f32 q = x.e[0] / d;
#pragma unroll
    for (int i = 1; i < lanes; ++i) x.e[i - 1] = x.e[i];
    x.e[lanes - 1] = q;
  }
  return x;
}
CODETTA_FN Vec<f32> each_divided(Vec<f32> x, f32 d) {
#ifdef CODETTA_OWN_MATH
  return divided_in_turn(x, d);
#else
  CODETTA_EACH_LANE(x.e[i] = x.e[i] / d);
  return x;
#endif
}
CODETTA_FN Vec<f32> ct_div_by(Vec<f32> x, Vec<f32> y) {
  const f32 d = y.e[0], r = 1.0f / d;
  f32 small = one::abs(x.e[0]), big = small;
#pragma unroll
  for (int i = 1; i < lanes; ++i) {
    small = one::smaller(small, one::abs(x.e[i]));
    big = one::larger(big, one::abs(x.e[i]));
  }
  const bool plain = divides(d) && big < 0x1p100f && (small >= 0x1p-100f || (big == 0.0f && d > 0.0f));
  Vec<f32> q;
  if (plain) {
    CODETTA_EACH_LANE(q.e[i] = one::quotient(x.e[i], d, r));
  } else {
    q = each_divided(x, d);
  }
  return q;
}
// Of several vectors whether all quotients are right; where they are not, each vector is divided Ordinarily.
struct Quotients {
  u32 most = 0;  // magnitudes less 2^-100, as bits: of what is less or 0, very much
  bool divided = true;
  CODETTA_MEMBER bool right() const { return divided && most < 0x71800000u - 0x0d800000u; }  // 2^100
};
CODETTA_FN Vec<f32> ct_div_by(Quotients& all, Vec<f32> x, Vec<f32> y) {
  const f32 d = y.e[0], r = 1.0f / d;
  all.divided = all.divided && divides(d);
  CODETTA_EACH_LANE({
    const u32 above = (float_to_bits(x.e[i]) & 0x7fffffffu) - 0x0d800000u;
    all.most = all.most > above ? all.most : above;
    x.e[i] = one::quotient(x.e[i], d, r);
  });
  return x;
}
// An exponential and its quotient by a number of the row, for which alone it is there: no sign has to be left out, and
// what is out of bounds is as a quotient that is not right.
CODETTA_FN Vec<f32> ct_exp_of(Quotients& all, Vec<f32> x) {
  CODETTA_EACH_LANE({
    x.e[i] = one::exp_near(x.e[i]);
    const u32 above = float_to_bits(x.e[i]) - 0x0d800000u;
    all.most = all.most > above ? all.most : above;
  });
  return x;
}
CODETTA_FN Vec<f32> ct_quotient_of(Quotients& all, Vec<f32> e, Vec<f32> y) {
  const f32 d = y.e[0], r = 1.0f / d;
  all.divided = all.divided && divides(d);
  CODETTA_EACH_LANE(e.e[i] = one::quotient(e.e[i], d, r));
  return e;
}
// Where many of the exponentials are 0, because a mask has left their elements out: below -105 that is what they are,
// and so are their quotients; ex2_approx makes 0 of -105. What decides is x, in two instructions beside the one that
// bounds it: as bits less those of -105 the numbers from -105 to -69 are the largest, and those above 69 have a maximum
// of their own, which NaN is, too.
struct MaskedQuotients : Quotients {
  u32 between = 0;
  f32 highest = 0.0f;
  CODETTA_MEMBER bool right() const {
    return Quotients::right() && between <= 0xc28a0000u - 0xc2d20000u && highest <= 69.0f;
  }
};
CODETTA_FN Vec<f32> ct_exp_of(MaskedQuotients& all, Vec<f32> x) {
  CODETTA_EACH_LANE({
    x.e[i] = one::maximum(x.e[i], -105.0f);
    const u32 above = float_to_bits(x.e[i]) - 0xc2d20000u;
    all.between = all.between > above ? all.between : above;
    all.highest = one::maximum(all.highest, x.e[i]);
    x.e[i] = one::exp_near(x.e[i]);
  });
  return x;
}
struct Ordinarily {};
CODETTA_FN Vec<f32> ct_exp_of(const Ordinarily&, Vec<f32> x) {
  CODETTA_EACH_LANE(x.e[i] = one::exp(x.e[i]));
  return x;
}
CODETTA_FN Vec<f32> ct_div_by(const Ordinarily&, Vec<f32> x, Vec<f32> y) { return ct_div_by(x, y); }
CODETTA_FN Vec<f32> ct_quotient_of(const Ordinarily&, Vec<f32> e, Vec<f32> y) { return ct_div_by(e, y); }
#endif
template <class T>
CODETTA_FN Vec<T> ct_div_by(Vec<T> x, Vec<T> y) {
  return ct_div(x, y);
}

}  // namespace codetta::gpu
