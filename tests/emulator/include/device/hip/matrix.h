// SPDX-License-Identifier: Apache-2.0
// AMD's matrix instructions, emulated: d += a b of 16 x 16 by a whole wave. Who holds which element is written down
// from the register layouts of AMD's instruction set references ("CDNA3", "RDNA3", "RDNA4", sections on matrix
// arithmetic), not from the layouts that the kernels use.
#pragma once

#include "device/gpu/builtins.h"

namespace codetta::gpu {

template <class T, int n>
struct Registers {
  T all[n];
  T& operator[](int i) { return all[i]; }
  const T& operator[](int i) const { return all[i]; }
};

}  // namespace codetta::gpu

namespace codetta::emulator::amd {

// Lane and element that hold A (row, k); B (k, column) lies likewise. `held`: elements of a lane.
struct Holder {
  Word lane, element;
};
// CDNA, and RDNA 4: k goes on from group to group of 16 lanes.
inline Holder spread(Word row, Word k, Word held) { return {row + 16 * (k / held), k % held}; }
// RDNA 3: both halves of the wave hold everything.
inline Holder repeated(Word row, Word k) { return {row, k}; }

// The row that register r of a lane has of D; its column is the lane modulo 16 everywhere.
inline Word row_cdna(Word lane, Word r) { return 4 * (lane / 16) + r; }
inline Word row_cdna_f64(Word lane, Word r) { return lane / 16 + 4 * r; }
inline Word row_rdna3(Word lane, Word r) { return 2 * r + lane / 16; }
inline Word row_rdna4(Word lane, Word r) { return 8 * (lane / 16) + r; }

struct Half16 {
  unsigned short bits;
};
struct Brain16 {
  unsigned short bits;
};
template <bool is_signed>
struct Byte {
  using type = signed char;
};
template <>
struct Byte<false> {
  using type = unsigned char;
};
inline double value_of(Half16 x) { return Half::widened(x.bits); }
inline double value_of(Brain16 x) { return Brain::widened(x.bits); }
inline double value_of(float x) { return x; }
inline double value_of(double x) { return x; }
inline int value_of(signed char x) { return x; }
inline int value_of(unsigned char x) { return x; }
inline float added(float d, double sum) { return (float)((double)d + sum); }
inline double added(double d, double sum) { return d + sum; }
inline int added(int d, int sum) { return (int)((unsigned)d + (unsigned)sum); }

// `depth` of K; A and B as the bytes of a lane's registers.
template <class X, class Y, bool repeats, Word depth, class T, int results, int bytes>
inline void product(gpu::Registers<T, results>& d, const char (&a)[bytes], const char (&b)[bytes],
                    Word (*row_of)(Word, Word), Word kind, Site site) {
  static_assert(bytes % 4 == 0);
  constexpr Word words = 2 * bytes / 8, held = bytes / (int)sizeof(X);
  Bits own[words];
  memcpy(own, a, bytes);
  memcpy((char*)own + bytes, b, bytes);
  const Word in_wave = results == 4 ? 64 : 32;
  if (machine->current->lanes != in_wave) machine->fail("an instruction of waves of lanes:", in_wave, site);
  const Bits* const all = machine->exchange(in_wave == 64 ? ~0ull : 0xffffffffull, kind, own, words, site);
  if constexpr (repeats) {
    for (Word lane = 0; lane < 16; ++lane) {
      for (Word w = 0; w < words; ++w) {
        if (all[lane * words + w] != all[(lane + 16) * words + w])
          machine->fail("halves of a wave that don't hold the same, in lane", lane, site);
      }
    }
  }
  // The first lane of a wave to come here converts for all: A and B's columns, from the registers that are kept beside
  // them.
  using V = decltype(value_of(X()));
  static thread_local struct {
    Word known;  // 1: the registers are there
    Bits registers[max_lanes * words];
    V a[16][depth], b[16][depth];
  } wave;
  const Word wave_bytes = in_wave * words * (Word)sizeof(Bits);
  if (wave.known != 1 || memcmp(wave.registers, all, wave_bytes) != 0) {
    wave.known = 1;
    memcpy(wave.registers, all, wave_bytes);
    for (Word row = 0; row < 16; ++row) {
      for (Word k = 0; k < depth; ++k) {
        const Holder at = repeats ? repeated(row, k) : spread(row, k, held);
        X x;
        Y y;
        memcpy(&x, (const char*)(all + at.lane * words) + at.element * sizeof x, sizeof x);
        memcpy(&y, (const char*)(all + at.lane * words) + bytes + at.element * sizeof y, sizeof y);
        wave.a[row][k] = value_of(x);
        wave.b[row][k] = value_of(y);
      }
    }
  }
  const Word me = machine->current->lane;
  for (Word r = 0; r < (Word)results; ++r) {
    const V *const x = wave.a[row_of(me, r)], *const y = wave.b[me % 16];
    V sum = 0;
    for (Word k = 0; k < depth; ++k) sum += x[k] * y[k];
    d[(int)r] = added(d[(int)r], sum);
  }
}

}  // namespace codetta::emulator::amd

namespace codetta::gpu {

#define CODETTA_EMULATED_PRODUCT(X, Y, repeats, depth, rows, kind)                                                    \
  emulator::amd::product<X, Y, repeats, depth>(d, (const char(&)[sizeof a])a, (const char(&)[sizeof b])b, rows, kind, \
                                               CODETTA_SITE)

template <class V>
CODETTA_FN void stay_accumulators(V&) {}

CODETTA_FN void mfma_f32_16x16x16_f16(Registers<float, 4>& d, const u32 (&a)[2], const u32 (&b)[2]) {
  using E = emulator::amd::Half16;
  CODETTA_EMULATED_PRODUCT(E, E, false, 16, emulator::amd::row_cdna, 40);
}
CODETTA_FN void mfma_f32_16x16x16_bf16(Registers<float, 4>& d, const u32 (&a)[2], const u32 (&b)[2]) {
  using E = emulator::amd::Brain16;
  CODETTA_EMULATED_PRODUCT(E, E, false, 16, emulator::amd::row_cdna, 41);
}
CODETTA_FN void mfma_f32_16x16x4_f32(Registers<float, 4>& d, float a, float b) {
  CODETTA_EMULATED_PRODUCT(float, float, false, 4, emulator::amd::row_cdna, 48);
}
CODETTA_FN void mfma_f64_16x16x4_f64(Registers<double, 4>& d, double a, double b) {
  CODETTA_EMULATED_PRODUCT(double, double, false, 4, emulator::amd::row_cdna_f64, 42);
}
CODETTA_FN void mfma_i32_16x16x16_i8(Registers<i32, 4>& d, u32 a_word, u32 b_word) {
  const u32 a[1] = {a_word}, b[1] = {b_word};
  CODETTA_EMULATED_PRODUCT(i8, i8, false, 16, emulator::amd::row_cdna, 43);
}
CODETTA_FN void mfma_i32_16x16x32_i8(Registers<i32, 4>& d, const u32 (&a)[2], const u32 (&b)[2]) {
  CODETTA_EMULATED_PRODUCT(i8, i8, false, 32, emulator::amd::row_cdna, 44);
}

// 8 words on gfx11, 4 on gfx12.
template <int words>
CODETTA_FN void wmma_f32_16x16x16_f16(Registers<float, 8>& d, const u32 (&a)[words], const u32 (&b)[words]) {
  using E = emulator::amd::Half16;
  CODETTA_EMULATED_PRODUCT(E, E, words == 8, 16, words == 8 ? emulator::amd::row_rdna3 : emulator::amd::row_rdna4, 45);
}
template <int words>
CODETTA_FN void wmma_f32_16x16x16_bf16(Registers<float, 8>& d, const u32 (&a)[words], const u32 (&b)[words]) {
  using E = emulator::amd::Brain16;
  CODETTA_EMULATED_PRODUCT(E, E, words == 8, 16, words == 8 ? emulator::amd::row_rdna3 : emulator::amd::row_rdna4, 46);
}
// 4 words on gfx11, 2 on gfx12.
template <bool a_signed, bool b_signed, int words>
CODETTA_FN void wmma_i32_16x16x16_iu8(Registers<i32, 8>& d, const u32 (&a)[words], const u32 (&b)[words]) {
  using X = typename emulator::amd::Byte<a_signed>::type;
  using Y = typename emulator::amd::Byte<b_signed>::type;
  CODETTA_EMULATED_PRODUCT(X, Y, words == 4, 16, words == 4 ? emulator::amd::row_rdna3 : emulator::amd::row_rdna4, 47);
}

#undef CODETTA_EMULATED_PRODUCT

}  // namespace codetta::gpu
