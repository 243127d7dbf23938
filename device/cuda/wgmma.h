// SPDX-License-Identifier: Apache-2.0
// wgmma.mma_async of one width, and its accumulators. An instruction of width N names N / 2 registers, so each width is
// its own text; a kernel needs one, which the including file chooses (the compiler never sees the other 31):
//   CODETTA_WGMMA_N         8 to 256 in steps of 8 (integers: not every multiple of 8, see the PTX ISA)
//   CODETTA_WGMMA_TYPES     "k16.f32.bf16.bf16", "k8.f32.tf32.tf32", "k32.f32.e4m3.e5m2", "k32.s32.s8.u8" ...
//   CODETTA_WGMMA_FLAGS     what follows the scale-d predicate: ", 1, 1, 0, 0" (negate A, B; A, B MN-major) for 16-bit
//                           types, ", 1, 1" for tf32 and fp8, "" for integers
//   CODETTA_WGMMA_MADE      the flags where the rows of A are in registers (16-bit types): ", 1, 1, 0"; else undefined
//
// Only the text of instructions names accumulators: register i of a band of 64 rows is c<band>r<i>, which
// declare_accumulators puts into the kernel's own scope. Were they variables, every statement would have a hundred
// operands, which takes the optimizer a third of its time. It keeps statements that are volatile in order, which is why
// all of these are; the assembler sees registers like any other.
#pragma once

#include "device/gpu/vec.h"

#ifndef CODETTA_WGMMA_N  // compiled on its own: the commonest one
#define CODETTA_WGMMA_N 128
#define CODETTA_WGMMA_TYPES "k16.f32.bf16.bf16"
#define CODETTA_WGMMA_FLAGS ", 1, 1, 0, 0"
#endif

// The names of four registers each, of band %2; none beyond the width.
#if CODETTA_WGMMA_N >= 8
#define CODETTA_WGMMA_T0 "c%2r0, c%2r1, c%2r2, c%2r3"
#else
#define CODETTA_WGMMA_T0
#endif
#if CODETTA_WGMMA_N >= 16
#define CODETTA_WGMMA_T1 ", c%2r4, c%2r5, c%2r6, c%2r7"
#else
#define CODETTA_WGMMA_T1
#endif
#if CODETTA_WGMMA_N >= 24
#define CODETTA_WGMMA_T2 ", c%2r8, c%2r9, c%2r10, c%2r11"
#else
#define CODETTA_WGMMA_T2
#endif
#if CODETTA_WGMMA_N >= 32
#define CODETTA_WGMMA_T3 ", c%2r12, c%2r13, c%2r14, c%2r15"
#else
#define CODETTA_WGMMA_T3
#endif
#if CODETTA_WGMMA_N >= 40
#define CODETTA_WGMMA_T4 ", c%2r16, c%2r17, c%2r18, c%2r19"
#else
#define CODETTA_WGMMA_T4
#endif
#if CODETTA_WGMMA_N >= 48
#define CODETTA_WGMMA_T5 ", c%2r20, c%2r21, c%2r22, c%2r23"
#else
#define CODETTA_WGMMA_T5
#endif
#if CODETTA_WGMMA_N >= 56
#define CODETTA_WGMMA_T6 ", c%2r24, c%2r25, c%2r26, c%2r27"
#else
#define CODETTA_WGMMA_T6
#endif
#if CODETTA_WGMMA_N >= 64
#define CODETTA_WGMMA_T7 ", c%2r28, c%2r29, c%2r30, c%2r31"
#else
#define CODETTA_WGMMA_T7
#endif
#if CODETTA_WGMMA_N >= 72
#define CODETTA_WGMMA_T8 ", c%2r32, c%2r33, c%2r34, c%2r35"
#else
#define CODETTA_WGMMA_T8
#endif
#if CODETTA_WGMMA_N >= 80
#define CODETTA_WGMMA_T9 ", c%2r36, c%2r37, c%2r38, c%2r39"
#else
#define CODETTA_WGMMA_T9
#endif
#if CODETTA_WGMMA_N >= 88
#define CODETTA_WGMMA_T10 ", c%2r40, c%2r41, c%2r42, c%2r43"
#else
#define CODETTA_WGMMA_T10
#endif
#if CODETTA_WGMMA_N >= 96
#define CODETTA_WGMMA_T11 ", c%2r44, c%2r45, c%2r46, c%2r47"
#else
#define CODETTA_WGMMA_T11
#endif
#if CODETTA_WGMMA_N >= 104
#define CODETTA_WGMMA_T12 ", c%2r48, c%2r49, c%2r50, c%2r51"
#else
#define CODETTA_WGMMA_T12
#endif
#if CODETTA_WGMMA_N >= 112
#define CODETTA_WGMMA_T13 ", c%2r52, c%2r53, c%2r54, c%2r55"
#else
#define CODETTA_WGMMA_T13
#endif
#if CODETTA_WGMMA_N >= 120
#define CODETTA_WGMMA_T14 ", c%2r56, c%2r57, c%2r58, c%2r59"
#else
#define CODETTA_WGMMA_T14
#endif
#if CODETTA_WGMMA_N >= 128
#define CODETTA_WGMMA_T15 ", c%2r60, c%2r61, c%2r62, c%2r63"
#else
#define CODETTA_WGMMA_T15
#endif
#if CODETTA_WGMMA_N >= 136
#define CODETTA_WGMMA_T16 ", c%2r64, c%2r65, c%2r66, c%2r67"
#else
#define CODETTA_WGMMA_T16
#endif
#if CODETTA_WGMMA_N >= 144
#define CODETTA_WGMMA_T17 ", c%2r68, c%2r69, c%2r70, c%2r71"
#else
#define CODETTA_WGMMA_T17
#endif
#if CODETTA_WGMMA_N >= 152
#define CODETTA_WGMMA_T18 ", c%2r72, c%2r73, c%2r74, c%2r75"
#else
#define CODETTA_WGMMA_T18
#endif
#if CODETTA_WGMMA_N >= 160
#define CODETTA_WGMMA_T19 ", c%2r76, c%2r77, c%2r78, c%2r79"
#else
#define CODETTA_WGMMA_T19
#endif
#if CODETTA_WGMMA_N >= 168
#define CODETTA_WGMMA_T20 ", c%2r80, c%2r81, c%2r82, c%2r83"
#else
#define CODETTA_WGMMA_T20
#endif
#if CODETTA_WGMMA_N >= 176
#define CODETTA_WGMMA_T21 ", c%2r84, c%2r85, c%2r86, c%2r87"
#else
#define CODETTA_WGMMA_T21
#endif
#if CODETTA_WGMMA_N >= 184
#define CODETTA_WGMMA_T22 ", c%2r88, c%2r89, c%2r90, c%2r91"
#else
#define CODETTA_WGMMA_T22
#endif
#if CODETTA_WGMMA_N >= 192
#define CODETTA_WGMMA_T23 ", c%2r92, c%2r93, c%2r94, c%2r95"
#else
#define CODETTA_WGMMA_T23
#endif
#if CODETTA_WGMMA_N >= 200
#define CODETTA_WGMMA_T24 ", c%2r96, c%2r97, c%2r98, c%2r99"
#else
#define CODETTA_WGMMA_T24
#endif
#if CODETTA_WGMMA_N >= 208
#define CODETTA_WGMMA_T25 ", c%2r100, c%2r101, c%2r102, c%2r103"
#else
#define CODETTA_WGMMA_T25
#endif
#if CODETTA_WGMMA_N >= 216
#define CODETTA_WGMMA_T26 ", c%2r104, c%2r105, c%2r106, c%2r107"
#else
#define CODETTA_WGMMA_T26
#endif
#if CODETTA_WGMMA_N >= 224
#define CODETTA_WGMMA_T27 ", c%2r108, c%2r109, c%2r110, c%2r111"
#else
#define CODETTA_WGMMA_T27
#endif
#if CODETTA_WGMMA_N >= 232
#define CODETTA_WGMMA_T28 ", c%2r112, c%2r113, c%2r114, c%2r115"
#else
#define CODETTA_WGMMA_T28
#endif
#if CODETTA_WGMMA_N >= 240
#define CODETTA_WGMMA_T29 ", c%2r116, c%2r117, c%2r118, c%2r119"
#else
#define CODETTA_WGMMA_T29
#endif
#if CODETTA_WGMMA_N >= 248
#define CODETTA_WGMMA_T30 ", c%2r120, c%2r121, c%2r122, c%2r123"
#else
#define CODETTA_WGMMA_T30
#endif
#if CODETTA_WGMMA_N >= 256
#define CODETTA_WGMMA_T31 ", c%2r124, c%2r125, c%2r126, c%2r127"
#else
#define CODETTA_WGMMA_T31
#endif
#define CODETTA_WGMMA_STRING(n) #n
#define CODETTA_WGMMA_EXPANDED(n) CODETTA_WGMMA_STRING(n)
#define CODETTA_WGMMA_NUMBERS                                                                                         \
  CODETTA_WGMMA_T0 CODETTA_WGMMA_T1 CODETTA_WGMMA_T2 CODETTA_WGMMA_T3 CODETTA_WGMMA_T4 CODETTA_WGMMA_T5               \
      CODETTA_WGMMA_T6 CODETTA_WGMMA_T7 CODETTA_WGMMA_T8 CODETTA_WGMMA_T9 CODETTA_WGMMA_T10 CODETTA_WGMMA_T11         \
          CODETTA_WGMMA_T12 CODETTA_WGMMA_T13 CODETTA_WGMMA_T14 CODETTA_WGMMA_T15 CODETTA_WGMMA_T16 CODETTA_WGMMA_T17 \
              CODETTA_WGMMA_T18 CODETTA_WGMMA_T19 CODETTA_WGMMA_T20 CODETTA_WGMMA_T21 CODETTA_WGMMA_T22               \
                  CODETTA_WGMMA_T23 CODETTA_WGMMA_T24 CODETTA_WGMMA_T25 CODETTA_WGMMA_T26 CODETTA_WGMMA_T27           \
                      CODETTA_WGMMA_T28 CODETTA_WGMMA_T29 CODETTA_WGMMA_T30 CODETTA_WGMMA_T31
// One instruction over all registers; a, b: texts of its factors.
#define CODETTA_WGMMA_TEXT(a, b, flags)                                                           \
  "wgmma.mma_async.sync.aligned.m64n" CODETTA_WGMMA_EXPANDED(CODETTA_WGMMA_N) CODETTA_WGMMA_TYPES \
      " {" CODETTA_WGMMA_NUMBERS "}, " a ", " b ", p" flags ";\n"

namespace codetta::gpu::ptx {

// Once in a kernel, before all others.
template <class T, int band>
__device__ __forceinline__ void declare_accumulators() {
  static_assert(sizeof(T) == 4);
  if constexpr (is_float<T>) {
    asm volatile(".reg .f32 c%0r<%1>;" ::"n"(band), "n"(CODETTA_WGMMA_N / 2));
  } else {
    asm volatile(".reg .s32 c%0r<%1>;" ::"n"(band), "n"(CODETTA_WGMMA_N / 2));
  }
}

// The band's accumulators += A * B (`first`: = A * B) for 64 rows and CODETTA_WGMMA_N columns; a and b are matrix
// descriptors. Lane l of warp w holds in register 4 * j + i row 16 * w + l / 4 + 8 * (i / 2), column 8 * j + 2 * (l %
// 4) + i % 2.
template <int band, bool first = false>
__device__ __forceinline__ void wgmma(u64 a, u64 b) {
  asm volatile(
      "{ .reg .pred p; setp.eq.b32 p, %3, 0;\n" CODETTA_WGMMA_TEXT("%0", "%1", CODETTA_WGMMA_FLAGS) "}" ::"l"(a),
      "l"(b), "n"(band), "n"(first ? 1 : 0));
}

#ifdef CODETTA_WGMMA_MADE
// The same, where lane l of warp w holds of A's 64 rows and 16 columns in word[i] those of row 16 * w + l / 4 + 8 *
// (i % 2), columns 2 * (l % 4) + 8 * (i / 2) and the next.
template <int band>
__device__ __forceinline__ void wgmma_made(const u32 (&word)[4], u64 b) {
  asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0;\n" CODETTA_WGMMA_TEXT("{%0, %1, %4, %5}", "%3",
                                                                           CODETTA_WGMMA_MADE) "}" ::"r"(word[0]),
               "r"(word[1]), "n"(band), "l"(b), "r"(word[2]), "r"(word[3]));
}
#endif

// --- registers of a band, from `first` on ----------------------------------------------------------------------------
#define CODETTA_EIGHT(i) "n"(i), "n"(i + 1), "n"(i + 2), "n"(i + 3), "n"(i + 4), "n"(i + 5), "n"(i + 6), "n"(i + 7)
// All of them.
template <int band, int first = 0>
__device__ __forceinline__ void clear() {
  if constexpr (first + 16 <= CODETTA_WGMMA_N / 2) {
    asm volatile(
        "mov.b32 c%0r%1, 0; mov.b32 c%0r%2, 0; mov.b32 c%0r%3, 0; mov.b32 c%0r%4, 0; mov.b32 c%0r%5, 0;"
        " mov.b32 c%0r%6, 0; mov.b32 c%0r%7, 0; mov.b32 c%0r%8, 0; mov.b32 c%0r%9, 0; mov.b32 c%0r%10, 0;"
        " mov.b32 c%0r%11, 0; mov.b32 c%0r%12, 0; mov.b32 c%0r%13, 0; mov.b32 c%0r%14, 0; mov.b32 c%0r%15, 0;"
        " mov.b32 c%0r%16, 0;" ::"n"(band),
        CODETTA_EIGHT(first), CODETTA_EIGHT(first + 8));
    clear<band, first + 16>();
  } else if constexpr (first < CODETTA_WGMMA_N / 2) {
    asm volatile("mov.b32 c%0r%1, 0; mov.b32 c%0r%2, 0; mov.b32 c%0r%3, 0; mov.b32 c%0r%4, 0;" ::"n"(band), "n"(first),
                 "n"(first + 1), "n"(first + 2), "n"(first + 3));
    clear<band, first + 4>();
  }
}
// Adds all of band `other`, of f32.
template <int band, int other, int first = 0>
__device__ __forceinline__ void add_band() {
  if constexpr (first < CODETTA_WGMMA_N / 2) {
    asm volatile(
        "add.f32 c%0r%2, c%0r%2, c%1r%2; add.f32 c%0r%3, c%0r%3, c%1r%3; add.f32 c%0r%4, c%0r%4, c%1r%4;"
        " add.f32 c%0r%5, c%0r%5, c%1r%5;" ::"n"(band),
        "n"(other), "n"(first), "n"(first + 1), "n"(first + 2), "n"(first + 3));
    add_band<band, other, first + 4>();
  }
}
// Registers held<i>, in which accumulators lie that a branch has chosen, so that they become variables only where all
// branches have met; once in a kernel, too.
template <class T, int count>
__device__ __forceinline__ void declare_held() {
  if constexpr (is_float<T>) {
    asm volatile(".reg .f32 held<%0>;" ::"n"(count));
  } else {
    asm volatile(".reg .s32 held<%0>;" ::"n"(count));
  }
}
// Eight, to held<to> and on.
template <int band, int first, int to>
__device__ __forceinline__ void hold_eight() {
  asm volatile(
      "mov.b32 held%9, c%0r%1; mov.b32 held%10, c%0r%2; mov.b32 held%11, c%0r%3; mov.b32 held%12, c%0r%4;"
      " mov.b32 held%13, c%0r%5; mov.b32 held%14, c%0r%6; mov.b32 held%15, c%0r%7; mov.b32 held%16, c%0r%8;"
      :
      : "n"(band), CODETTA_EIGHT(first), CODETTA_EIGHT(to));
}
// The same of two eights: the first where x is `wanted`.
template <int wanted, int band, int first, int other_band, int other_first, int to>
__device__ __forceinline__ void hold_eight_of(i32 x) {
  asm volatile(
      "{ .reg .pred p; setp.eq.s32 p, %0, %27;"
      " selp.b32 held%19, c%1r%2, c%10r%11, p; selp.b32 held%20, c%1r%3, c%10r%12, p;"
      " selp.b32 held%21, c%1r%4, c%10r%13, p; selp.b32 held%22, c%1r%5, c%10r%14, p;"
      " selp.b32 held%23, c%1r%6, c%10r%15, p; selp.b32 held%24, c%1r%7, c%10r%16, p;"
      " selp.b32 held%25, c%1r%8, c%10r%17, p; selp.b32 held%26, c%1r%9, c%10r%18, p; }"
      :
      : "r"(x), "n"(band), CODETTA_EIGHT(first), "n"(other_band), CODETTA_EIGHT(other_first), CODETTA_EIGHT(to),
        "n"(wanted));
}
// held<from> and on, as variables.
#define CODETTA_HELD_EIGHT                                                            \
  "mov.b32 %0, held%8; mov.b32 %1, held%9; mov.b32 %2, held%10; mov.b32 %3, held%11;" \
  " mov.b32 %4, held%12; mov.b32 %5, held%13; mov.b32 %6, held%14; mov.b32 %7, held%15;"
template <int from>
__device__ __forceinline__ void read_eight(float* x) {
  asm volatile(CODETTA_HELD_EIGHT
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7])
               : CODETTA_EIGHT(from));
}
template <int from>
__device__ __forceinline__ void read_eight(i32* x) {
  asm volatile(CODETTA_HELD_EIGHT
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7])
               : CODETTA_EIGHT(from));
}
// Two to shared memory, and the two behind them.
template <int band, int first>
__device__ __forceinline__ void store_pairs(u32 at, u32 at_next) {
  asm volatile("st.shared.v2.b32 [%0], {c%2r%3, c%2r%4}; st.shared.v2.b32 [%1], {c%2r%5, c%2r%6};" ::"r"(at),
               "r"(at_next), "n"(band), "n"(first), "n"(first + 1), "n"(first + 2), "n"(first + 3)
               : "memory");
}
// Four to global memory, a multiple of 16 bytes.
template <int band, int first, class T>
__device__ __forceinline__ void store_four(T* at) {
  asm volatile("st.global.v4.b32 [%0], {c%1r%2, c%1r%3, c%1r%4, c%1r%5};" ::"l"(at), "n"(band), "n"(first),
               "n"(first + 1), "n"(first + 2), "n"(first + 3)
               : "memory");
}
// Adds four of global memory.
template <int band, int first>
__device__ __forceinline__ void add_four(const float* at) {
  asm volatile(
      "{ .reg .f32 x<4>; ld.global.v4.f32 {x0, x1, x2, x3}, [%0]; add.f32 c%1r%2, c%1r%2, x0;"
      " add.f32 c%1r%3, c%1r%3, x1; add.f32 c%1r%4, c%1r%4, x2; add.f32 c%1r%5, c%1r%5, x3; }" ::"l"(at),
      "n"(band), "n"(first), "n"(first + 1), "n"(first + 2), "n"(first + 3)
      : "memory");
}
template <int band, int first>
__device__ __forceinline__ void add_four(const i32* at) {
  asm volatile(
      "{ .reg .s32 x<4>; ld.global.v4.s32 {x0, x1, x2, x3}, [%0]; add.s32 c%1r%2, c%1r%2, x0;"
      " add.s32 c%1r%3, c%1r%3, x1; add.s32 c%1r%4, c%1r%4, x2; add.s32 c%1r%5, c%1r%5, x3; }" ::"l"(at),
      "n"(band), "n"(first), "n"(first + 1), "n"(first + 2), "n"(first + 3)
      : "memory");
}

// --- strips: 16 * steps columns of each part of a band, whose parts are `width` columns wide -------------------------
template <int width, int parts, int steps>
struct Strips {
  static constexpr int across = (width + 16 * steps - 1) / (16 * steps);  // in a band, the last may be narrower
  // The register of the i-th eight of strip `which`; of columns behind the band's it is any.
  static constexpr int register_of(int which, int i) {
    const int column = which % across * 16 * steps + i % steps * 16;
    return (i / steps * width + (column < width ? column : width - 16)) / 2;
  }
  // Strip `which` of those from first to last of all bands to held<0> and on: registers have no run-time index, so that
  // it is looked for by halves. The last two are told apart by selections, which are fewer than moves under a
  // predicate and its opposite.
  template <int first, int last, int i = 0>
  static __device__ __forceinline__ void hold(int which) {
    constexpr int middle = (first + last) / 2;
    if constexpr (last - first > 2) {
      if (which < middle) {
        hold<first, middle>(which);
      } else {
        hold<middle, last>(which);
      }
    } else if constexpr (i < parts * steps) {
      if constexpr (last - first == 1) {
        hold_eight<first / across, register_of(first, i), 8 * i>();
      } else {
        hold_eight_of<first, first / across, register_of(first, i), middle / across, register_of(middle, i), 8 * i>(
            which);
      }
      hold<first, last, i + 1>(which);
    }
  }
};

}  // namespace codetta::gpu::ptx
