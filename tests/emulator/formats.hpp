// SPDX-License-Identifier: Apache-2.0
// Small floats as machines convert them: written from the definition of the formats, with f64 in between, and by none
// of the ways that the kernels or the library take.
#pragma once

#include "emulator/machine.hpp"

namespace codetta::emulator {

// A float of `exponent` and `fraction` bits beside its sign. Infinities: the largest exponent with fraction 0 is one,
// as in IEEE 754; otherwise only all ones is no number.
template <int exponent, int fraction, bool infinities>
struct Format {
  static constexpr int bias = (1 << (exponent - 1)) - 1;
  static constexpr Word fractions = (1u << fraction) - 1, exponents = (1u << exponent) - 1;
  static constexpr Word sign = 1u << (exponent + fraction);

  static double power(int e) { return __builtin_bit_cast(double, (Bits)(e + 1023) << 52); }

  static double widened(Word code) {
    const Word e = code >> fraction & exponents, f = code & fractions;
    double magnitude = 0;
    if (e == exponents && (infinities || f == fractions)) {
      magnitude = infinities && f == 0 ? __builtin_inf() : __builtin_nan("");
    } else {
      magnitude =
          e == 0 ? (double)f * power(1 - bias - fraction) : (1.0 + (double)f * power(-fraction)) * power((int)e - bias);
    }
    return (code & sign) != 0 ? -magnitude : magnitude;
  }

  // To nearest, ties to even. Beyond the largest number: that one when `saturating`, else infinity.
  static Word narrowed(double x, bool saturating) {
    const Word s = __builtin_signbit(x) ? sign : 0;
    if (x != x) return s | exponents << fraction | fractions;
    const double magnitude = __builtin_fabs(x);
    const Word top = infinities ? (exponents - 1) << fraction | fractions : exponents << fraction | (fractions - 1);
    const Word beyond = saturating ? top : infinities ? exponents << fraction : exponents << fraction | fractions;
    int e = 1 - bias;  // of the spacing that x meets
    if (magnitude >= power(1 - bias)) e = (int)(__builtin_bit_cast(Bits, magnitude) >> 52) - 1023;
    if (e > (int)exponents) return s | beyond;
    const double steps = __builtin_rint(magnitude * power(fraction - e));  // exact, then one rounding
    // Steps of the binade's spacing; a carry into the next binade is the next code, too.
    const Word code = (Word)((double)((Word)(e + bias - 1) << fraction) + steps);
    return s | (code > top ? beyond : code);
  }
};

using Half = Format<5, 10, true>;
using Brain = Format<8, 7, true>;
using E4m3 = Format<4, 3, false>;
using E5m2 = Format<5, 2, true>;

}  // namespace codetta::emulator
