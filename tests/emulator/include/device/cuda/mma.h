// SPDX-License-Identifier: Apache-2.0
// The instructions of device/cuda/mma.h, emulated: who holds which element is written down from the tables of the PTX
// ISA ("Matrix Fragments for mma.m16n8k..."), one function a matrix, in which `i` counts a lane's elements.
#pragma once

#include "device/cuda/ptx.h"
#include "device/gpu/vec.h"

namespace codetta::emulator::mma {

struct Place {
  Word row, col;
};
// A of 16 rows: 16-bit elements (K = 16), 8-bit ones (K = 32), tf32 (K = 8). All of them: 4 bytes a register.
inline Place a16(Word lane, Word i) {
  return {lane / 4 + (i < 2 || (i >= 4 && i < 6) ? 0 : 8), lane % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
inline Place a8(Word lane, Word i) {
  return {lane / 4 + (i < 4 || (i >= 8 && i < 12) ? 0 : 8), lane % 4 * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
}
inline Place a32(Word lane, Word i) { return {lane / 4 + (i == 0 || i == 2 ? 0 : 8), lane % 4 + (i >= 2 ? 4 : 0)}; }
// B of 8 columns.
inline Place b16(Word lane, Word i) { return {lane % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane / 4}; }
inline Place b8(Word lane, Word i) { return {lane % 4 * 4 + (i & 3) + (i >= 4 ? 16 : 0), lane / 4}; }
inline Place b32(Word lane, Word i) { return {lane % 4 + (i == 0 ? 0 : 4), lane / 4}; }
// C and D.
inline Place c(Word lane, Word i) { return {lane / 4 + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)}; }
// f64 of m8n8k4.
inline Place a64(Word lane) { return {lane / 4, lane % 4}; }
inline Place b64(Word lane) { return {lane % 4, lane / 4}; }
inline Place c64(Word lane, Word i) { return {lane / 4, lane % 4 * 2 + i}; }

// Element `i` of a lane's words.
template <class E>
inline E element_of(const Bits* words, Word i) {
  E e;
  memcpy(&e, (const char*)words + i * sizeof(E), sizeof(E));
  return e;
}

inline double value_of(gpu::bf16 x) { return Brain::widened(x.bits); }
inline double value_of(gpu::f16 x) { return Half::widened(x.bits); }
inline double value_of(gpu::f8e4m3 x) { return E4m3::widened(x.bits); }
inline double value_of(gpu::f8e5m2 x) { return E5m2::widened(x.bits); }
// The low 13 bits of tf32 are not looked at.
inline double value_of(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }
inline int value_of(signed char x) { return x; }
inline int value_of(unsigned char x) { return x; }

// Sums of f32 in one rounding towards zero, as tensor cores do at least; integers wrap.
inline float added(float c, double sum) { return __double2float_rz((double)c + sum); }
inline int added(int c, int sum) { return (int)((unsigned)c + (unsigned)sum); }

// Which lane holds which element, the tables turned around.
template <int size>
struct Holders {
  static constexpr Word elements = 4 / size, depth = 32 / size;
  struct Holder {
    unsigned char lane, element;
  };
  Holder a[16][depth], b[8][depth];
  Holders() {
    for (Word lane = 0; lane < 32; ++lane) {
      for (Word i = 0; i < 4 * elements; ++i) {
        const Place p = size == 2 ? a16(lane, i) : size == 1 ? a8(lane, i) : a32(lane, i);
        a[p.row][p.col] = {(unsigned char)lane, (unsigned char)i};
      }
      for (Word i = 0; i < 2 * elements; ++i) {
        const Place p = size == 2 ? b16(lane, i) : size == 1 ? b8(lane, i) : b32(lane, i);
        b[p.col][p.row] = {(unsigned char)lane, (unsigned char)i};
      }
    }
  }
};

// d += a b of 16 x 8, by all lanes of a warp.
template <class X, class Y, class D>
inline void product(D (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  static const Holders<sizeof(X)> holders;
  constexpr Word depth = 32 / (Word)sizeof(X);
  const unsigned own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  Bits words[3];
  memcpy(words, own, sizeof own);
  const Bits* const all = machine->exchange(0xffffffffu, 16, words, 3, CODETTA_SITE);
  const Word me = machine->current->lane;
  using V = decltype(value_of(X()));
  for (Word i = 0; i < 4; ++i) {
    const Place at = c(me, i);
    V sum = 0;
    for (Word k = 0; k < depth; ++k) {
      const auto x = holders.a[at.row][k], y = holders.b[at.col][k];
      sum += value_of(element_of<X>(all + 3 * x.lane, x.element)) *
             value_of(element_of<Y>(all + 3 * y.lane + 2, y.element));
    }
    d[i] = added(d[i], sum);
  }
}

// d += a b of 8 x 8, K = 4.
inline void product_f64(double& d0, double& d1, double a, double b) {
  Bits words[2];
  memcpy(words, &a, 8);
  memcpy(words + 1, &b, 8);
  const Bits* const all = machine->exchange(0xffffffffu, 17, words, 2, CODETTA_SITE);
  const Word me = machine->current->lane;
  double* const d[2] = {&d0, &d1};
  for (Word i = 0; i < 2; ++i) {
    const Place at = c64(me, i);
    for (Word k = 0; k < 4; ++k) {
      double x = 0, y = 0;
      for (Word lane = 0; lane < 32; ++lane) {
        const Place p = a64(lane), q = b64(lane);
        if (p.row == at.row && p.col == k) memcpy(&x, all + 2 * lane, 8);
        if (q.col == at.col && q.row == k) memcpy(&y, all + 2 * lane + 1, 8);
      }
      *d[i] = __builtin_fma(x, y, *d[i]);
    }
  }
}

// Rows of 16 bytes that the lanes give, eight a matrix: what each gets of the four.
inline void matrices(unsigned (&r)[4], const void* row, bool transposed) {
  Bits words[2];
  memcpy(words, row, 16);
  const Bits* const all = machine->exchange(0xffffffffu, transposed ? 19 : 18, words, 2, CODETTA_SITE);
  const Word me = machine->current->lane, g = me / 4, t = me % 4;
  for (Word i = 0; i < 4; ++i) {
    const auto at = [&](Word its_row, Word its_col) {
      return (unsigned)element_of<unsigned short>(all + 2 * (8 * i + its_row), its_col);
    };
    r[i] = transposed ? at(2 * t, g) | at(2 * t + 1, g) << 16 : at(g, 2 * t) | at(g, 2 * t + 1) << 16;
  }
}

}  // namespace codetta::emulator::mma

namespace codetta::gpu::ptx {

template <int unit>
CODETTA_PTX void copy_async(u32 dst, const void* src, u32 valid) {
  void* const to = shared_memory(dst, unit, CODETTA_SITE);
  if ((u64)src % unit != 0) emulator::machine->fail("a copy from what is not aligned:", (u64)src, CODETTA_SITE);
  if (valid > unit) emulator::machine->fail("a copy of more than a unit:", valid, CODETTA_SITE);
  emulator::machine->copy_async(to, src, unit, valid);
}
CODETTA_PTX void copy_commit() { emulator::machine->copy_commit(); }
template <int groups>
CODETTA_PTX void copy_wait() {
  emulator::machine->copy_wait(groups);
}
CODETTA_PTX uint4 load_once(const void* p, u64) { return emulator::load<uint4>(p, CODETTA_SITE); }
CODETTA_PTX void prefetch_l2(const void*) {}

template <bool transposed>
CODETTA_PTX void load_matrices(u32 (&r)[4], u32 src) {
  emulator::mma::matrices(r, shared_memory(src, 16, CODETTA_SITE), transposed);
}
template <class T>
CODETTA_PTX T loaded(u32 src, emulator::Site site) {
  return emulator::load<T>(shared_memory(src, sizeof(T), site), site);
}
CODETTA_PTX u32 load_shared(u32 src) { return loaded<u32>(src, CODETTA_SITE); }
CODETTA_PTX double load_shared_f64(u32 src) { return loaded<double>(src, CODETTA_SITE); }
CODETTA_PTX uint2 load_shared_two(u32 src) { return loaded<uint2>(src, CODETTA_SITE); }
CODETTA_PTX uint4 load_shared_four(u32 src) { return loaded<uint4>(src, CODETTA_SITE); }
CODETTA_PTX void store_shared_four(u32 dst, uint4 v) {
  emulator::store(shared_memory(dst, 16, CODETTA_SITE), v, CODETTA_SITE);
}
template <class E>
CODETTA_PTX void store_shared_element(u32 dst, const E& value) {
  emulator::store(shared_memory(dst, sizeof(E), CODETTA_SITE), value, CODETTA_SITE);
}
template <u32 choice>
CODETTA_PTX u32 permute(u32 lo, u32 hi) {
  return __byte_perm(lo, hi, choice);
}

// To nearest, ties away from zero: the magnitude's bits are a number that grows with it.
CODETTA_PTX u32 to_tf32(u32 x) {
  const bool finite = (x & 0x7f800000u) != 0x7f800000u;
  return finite ? (x + 0x1000u) & 0xffffe000u : x;
}

CODETTA_PTX void mma_f64(double (&d)[4], double a0, double a1, double b) {
  emulator::mma::product_f64(d[0], d[1], a0, b);
  emulator::mma::product_f64(d[2], d[3], a1, b);
}

}  // namespace codetta::gpu::ptx

namespace codetta::gpu {

template <class X, class Y>
struct Mma {
  template <class D>
  static CODETTA_MEMBER void add(D (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    emulator::mma::product<X, Y>(d, a, b0, b1);
  }
};

struct Split {
  u32 rest, cross;
  CODETTA_MEMBER explicit Split(u32 x) {
    const bool infinite = (x & 0x7fffffffu) == 0x7f800000u;
    rest = infinite ? 0u : __float_as_uint(__uint_as_float(x) - __uint_as_float(x & 0xffffe000u));
    cross = infinite ? 0u : x;
  }
};

}  // namespace codetta::gpu
