// SPDX-License-Identifier: Apache-2.0
// wgmma.mma_async of one width. An instruction of width N names N / 2 registers, so each width is its own text; a
// kernel needs one, which the including file chooses (the compiler never sees the other 31):
//   CODETTA_WGMMA_N         8 to 256 in steps of 8 (integers: not every multiple of 8, see the PTX ISA)
//   CODETTA_WGMMA_TYPES     "k16.f32.bf16.bf16", "k8.f32.tf32.tf32", "k32.f32.e4m3.e5m2", "k32.s32.s8.u8" ...
//   CODETTA_WGMMA_FLAGS     what follows the scale-d predicate: ", 1, 1, 0, 0" (negate A, B; A, B MN-major) for 16-bit
//                           types, ", 1, 1" for tf32 and fp8, "" for integers
//   CODETTA_WGMMA_REGISTER  "+f", or "+r" for s32 accumulators
//   CODETTA_WGMMA_MADE      the flags where the rows of A are in registers (16-bit types): ", 1, 1, 0"; else undefined
// The operands a, b and keep come first, as read and written, so that their numbers do not depend on the width.
#pragma once

#include "device/gpu/abi.h"

#ifndef CODETTA_WGMMA_N  // compiled on its own: the commonest one
#define CODETTA_WGMMA_N 128
#define CODETTA_WGMMA_TYPES "k16.f32.bf16.bf16"
#define CODETTA_WGMMA_FLAGS ", 1, 1, 0, 0"
#define CODETTA_WGMMA_REGISTER "+f"
#endif

// Groups of four registers: their numbers in the text (t) and the operands (r); none beyond the width.
#if CODETTA_WGMMA_N >= 8
#define CODETTA_WGMMA_T0 "%3, %4, %5, %6"
#define CODETTA_WGMMA_R0 , CODETTA_WGMMA_G(0)
#else
#define CODETTA_WGMMA_T0
#define CODETTA_WGMMA_R0
#endif
#if CODETTA_WGMMA_N >= 16
#define CODETTA_WGMMA_T1 ", %7, %8, %9, %10"
#define CODETTA_WGMMA_R1 , CODETTA_WGMMA_G(4)
#else
#define CODETTA_WGMMA_T1
#define CODETTA_WGMMA_R1
#endif
#if CODETTA_WGMMA_N >= 24
#define CODETTA_WGMMA_T2 ", %11, %12, %13, %14"
#define CODETTA_WGMMA_R2 , CODETTA_WGMMA_G(8)
#else
#define CODETTA_WGMMA_T2
#define CODETTA_WGMMA_R2
#endif
#if CODETTA_WGMMA_N >= 32
#define CODETTA_WGMMA_T3 ", %15, %16, %17, %18"
#define CODETTA_WGMMA_R3 , CODETTA_WGMMA_G(12)
#else
#define CODETTA_WGMMA_T3
#define CODETTA_WGMMA_R3
#endif
#if CODETTA_WGMMA_N >= 40
#define CODETTA_WGMMA_T4 ", %19, %20, %21, %22"
#define CODETTA_WGMMA_R4 , CODETTA_WGMMA_G(16)
#else
#define CODETTA_WGMMA_T4
#define CODETTA_WGMMA_R4
#endif
#if CODETTA_WGMMA_N >= 48
#define CODETTA_WGMMA_T5 ", %23, %24, %25, %26"
#define CODETTA_WGMMA_R5 , CODETTA_WGMMA_G(20)
#else
#define CODETTA_WGMMA_T5
#define CODETTA_WGMMA_R5
#endif
#if CODETTA_WGMMA_N >= 56
#define CODETTA_WGMMA_T6 ", %27, %28, %29, %30"
#define CODETTA_WGMMA_R6 , CODETTA_WGMMA_G(24)
#else
#define CODETTA_WGMMA_T6
#define CODETTA_WGMMA_R6
#endif
#if CODETTA_WGMMA_N >= 64
#define CODETTA_WGMMA_T7 ", %31, %32, %33, %34"
#define CODETTA_WGMMA_R7 , CODETTA_WGMMA_G(28)
#else
#define CODETTA_WGMMA_T7
#define CODETTA_WGMMA_R7
#endif
#if CODETTA_WGMMA_N >= 72
#define CODETTA_WGMMA_T8 ", %35, %36, %37, %38"
#define CODETTA_WGMMA_R8 , CODETTA_WGMMA_G(32)
#else
#define CODETTA_WGMMA_T8
#define CODETTA_WGMMA_R8
#endif
#if CODETTA_WGMMA_N >= 80
#define CODETTA_WGMMA_T9 ", %39, %40, %41, %42"
#define CODETTA_WGMMA_R9 , CODETTA_WGMMA_G(36)
#else
#define CODETTA_WGMMA_T9
#define CODETTA_WGMMA_R9
#endif
#if CODETTA_WGMMA_N >= 88
#define CODETTA_WGMMA_T10 ", %43, %44, %45, %46"
#define CODETTA_WGMMA_R10 , CODETTA_WGMMA_G(40)
#else
#define CODETTA_WGMMA_T10
#define CODETTA_WGMMA_R10
#endif
#if CODETTA_WGMMA_N >= 96
#define CODETTA_WGMMA_T11 ", %47, %48, %49, %50"
#define CODETTA_WGMMA_R11 , CODETTA_WGMMA_G(44)
#else
#define CODETTA_WGMMA_T11
#define CODETTA_WGMMA_R11
#endif
#if CODETTA_WGMMA_N >= 104
#define CODETTA_WGMMA_T12 ", %51, %52, %53, %54"
#define CODETTA_WGMMA_R12 , CODETTA_WGMMA_G(48)
#else
#define CODETTA_WGMMA_T12
#define CODETTA_WGMMA_R12
#endif
#if CODETTA_WGMMA_N >= 112
#define CODETTA_WGMMA_T13 ", %55, %56, %57, %58"
#define CODETTA_WGMMA_R13 , CODETTA_WGMMA_G(52)
#else
#define CODETTA_WGMMA_T13
#define CODETTA_WGMMA_R13
#endif
#if CODETTA_WGMMA_N >= 120
#define CODETTA_WGMMA_T14 ", %59, %60, %61, %62"
#define CODETTA_WGMMA_R14 , CODETTA_WGMMA_G(56)
#else
#define CODETTA_WGMMA_T14
#define CODETTA_WGMMA_R14
#endif
#if CODETTA_WGMMA_N >= 128
#define CODETTA_WGMMA_T15 ", %63, %64, %65, %66"
#define CODETTA_WGMMA_R15 , CODETTA_WGMMA_G(60)
#else
#define CODETTA_WGMMA_T15
#define CODETTA_WGMMA_R15
#endif
#if CODETTA_WGMMA_N >= 136
#define CODETTA_WGMMA_T16 ", %67, %68, %69, %70"
#define CODETTA_WGMMA_R16 , CODETTA_WGMMA_G(64)
#else
#define CODETTA_WGMMA_T16
#define CODETTA_WGMMA_R16
#endif
#if CODETTA_WGMMA_N >= 144
#define CODETTA_WGMMA_T17 ", %71, %72, %73, %74"
#define CODETTA_WGMMA_R17 , CODETTA_WGMMA_G(68)
#else
#define CODETTA_WGMMA_T17
#define CODETTA_WGMMA_R17
#endif
#if CODETTA_WGMMA_N >= 152
#define CODETTA_WGMMA_T18 ", %75, %76, %77, %78"
#define CODETTA_WGMMA_R18 , CODETTA_WGMMA_G(72)
#else
#define CODETTA_WGMMA_T18
#define CODETTA_WGMMA_R18
#endif
#if CODETTA_WGMMA_N >= 160
#define CODETTA_WGMMA_T19 ", %79, %80, %81, %82"
#define CODETTA_WGMMA_R19 , CODETTA_WGMMA_G(76)
#else
#define CODETTA_WGMMA_T19
#define CODETTA_WGMMA_R19
#endif
#if CODETTA_WGMMA_N >= 168
#define CODETTA_WGMMA_T20 ", %83, %84, %85, %86"
#define CODETTA_WGMMA_R20 , CODETTA_WGMMA_G(80)
#else
#define CODETTA_WGMMA_T20
#define CODETTA_WGMMA_R20
#endif
#if CODETTA_WGMMA_N >= 176
#define CODETTA_WGMMA_T21 ", %87, %88, %89, %90"
#define CODETTA_WGMMA_R21 , CODETTA_WGMMA_G(84)
#else
#define CODETTA_WGMMA_T21
#define CODETTA_WGMMA_R21
#endif
#if CODETTA_WGMMA_N >= 184
#define CODETTA_WGMMA_T22 ", %91, %92, %93, %94"
#define CODETTA_WGMMA_R22 , CODETTA_WGMMA_G(88)
#else
#define CODETTA_WGMMA_T22
#define CODETTA_WGMMA_R22
#endif
#if CODETTA_WGMMA_N >= 192
#define CODETTA_WGMMA_T23 ", %95, %96, %97, %98"
#define CODETTA_WGMMA_R23 , CODETTA_WGMMA_G(92)
#else
#define CODETTA_WGMMA_T23
#define CODETTA_WGMMA_R23
#endif
#if CODETTA_WGMMA_N >= 200
#define CODETTA_WGMMA_T24 ", %99, %100, %101, %102"
#define CODETTA_WGMMA_R24 , CODETTA_WGMMA_G(96)
#else
#define CODETTA_WGMMA_T24
#define CODETTA_WGMMA_R24
#endif
#if CODETTA_WGMMA_N >= 208
#define CODETTA_WGMMA_T25 ", %103, %104, %105, %106"
#define CODETTA_WGMMA_R25 , CODETTA_WGMMA_G(100)
#else
#define CODETTA_WGMMA_T25
#define CODETTA_WGMMA_R25
#endif
#if CODETTA_WGMMA_N >= 216
#define CODETTA_WGMMA_T26 ", %107, %108, %109, %110"
#define CODETTA_WGMMA_R26 , CODETTA_WGMMA_G(104)
#else
#define CODETTA_WGMMA_T26
#define CODETTA_WGMMA_R26
#endif
#if CODETTA_WGMMA_N >= 224
#define CODETTA_WGMMA_T27 ", %111, %112, %113, %114"
#define CODETTA_WGMMA_R27 , CODETTA_WGMMA_G(108)
#else
#define CODETTA_WGMMA_T27
#define CODETTA_WGMMA_R27
#endif
#if CODETTA_WGMMA_N >= 232
#define CODETTA_WGMMA_T28 ", %115, %116, %117, %118"
#define CODETTA_WGMMA_R28 , CODETTA_WGMMA_G(112)
#else
#define CODETTA_WGMMA_T28
#define CODETTA_WGMMA_R28
#endif
#if CODETTA_WGMMA_N >= 240
#define CODETTA_WGMMA_T29 ", %119, %120, %121, %122"
#define CODETTA_WGMMA_R29 , CODETTA_WGMMA_G(116)
#else
#define CODETTA_WGMMA_T29
#define CODETTA_WGMMA_R29
#endif
#if CODETTA_WGMMA_N >= 248
#define CODETTA_WGMMA_T30 ", %123, %124, %125, %126"
#define CODETTA_WGMMA_R30 , CODETTA_WGMMA_G(120)
#else
#define CODETTA_WGMMA_T30
#define CODETTA_WGMMA_R30
#endif
#if CODETTA_WGMMA_N >= 256
#define CODETTA_WGMMA_T31 ", %127, %128, %129, %130"
#define CODETTA_WGMMA_R31 , CODETTA_WGMMA_G(124)
#else
#define CODETTA_WGMMA_T31
#define CODETTA_WGMMA_R31
#endif
#define CODETTA_WGMMA_G(i)                                                                          \
  CODETTA_WGMMA_REGISTER(d[i]), CODETTA_WGMMA_REGISTER(d[i + 1]), CODETTA_WGMMA_REGISTER(d[i + 2]), \
      CODETTA_WGMMA_REGISTER(d[i + 3])
#define CODETTA_WGMMA_STRING(n) #n
#define CODETTA_WGMMA_EXPANDED(n) CODETTA_WGMMA_STRING(n)
#define CODETTA_WGMMA_NUMBERS                                                                                         \
  CODETTA_WGMMA_T0 CODETTA_WGMMA_T1 CODETTA_WGMMA_T2 CODETTA_WGMMA_T3 CODETTA_WGMMA_T4 CODETTA_WGMMA_T5               \
      CODETTA_WGMMA_T6 CODETTA_WGMMA_T7 CODETTA_WGMMA_T8 CODETTA_WGMMA_T9 CODETTA_WGMMA_T10 CODETTA_WGMMA_T11         \
          CODETTA_WGMMA_T12 CODETTA_WGMMA_T13 CODETTA_WGMMA_T14 CODETTA_WGMMA_T15 CODETTA_WGMMA_T16 CODETTA_WGMMA_T17 \
              CODETTA_WGMMA_T18 CODETTA_WGMMA_T19 CODETTA_WGMMA_T20 CODETTA_WGMMA_T21 CODETTA_WGMMA_T22               \
                  CODETTA_WGMMA_T23 CODETTA_WGMMA_T24 CODETTA_WGMMA_T25 CODETTA_WGMMA_T26 CODETTA_WGMMA_T27           \
                      CODETTA_WGMMA_T28 CODETTA_WGMMA_T29 CODETTA_WGMMA_T30 CODETTA_WGMMA_T31
#define CODETTA_WGMMA_REGISTERS                                                                                       \
  CODETTA_WGMMA_R0 CODETTA_WGMMA_R1 CODETTA_WGMMA_R2 CODETTA_WGMMA_R3 CODETTA_WGMMA_R4 CODETTA_WGMMA_R5               \
      CODETTA_WGMMA_R6 CODETTA_WGMMA_R7 CODETTA_WGMMA_R8 CODETTA_WGMMA_R9 CODETTA_WGMMA_R10 CODETTA_WGMMA_R11         \
          CODETTA_WGMMA_R12 CODETTA_WGMMA_R13 CODETTA_WGMMA_R14 CODETTA_WGMMA_R15 CODETTA_WGMMA_R16 CODETTA_WGMMA_R17 \
              CODETTA_WGMMA_R18 CODETTA_WGMMA_R19 CODETTA_WGMMA_R20 CODETTA_WGMMA_R21 CODETTA_WGMMA_R22               \
                  CODETTA_WGMMA_R23 CODETTA_WGMMA_R24 CODETTA_WGMMA_R25 CODETTA_WGMMA_R26 CODETTA_WGMMA_R27           \
                      CODETTA_WGMMA_R28 CODETTA_WGMMA_R29 CODETTA_WGMMA_R30 CODETTA_WGMMA_R31
// One instruction over all registers; a, b: texts of its factors.
#define CODETTA_WGMMA_TEXT(a, b, flags)                                                           \
  "wgmma.mma_async.sync.aligned.m64n" CODETTA_WGMMA_EXPANDED(CODETTA_WGMMA_N) CODETTA_WGMMA_TYPES \
      " {" CODETTA_WGMMA_NUMBERS "}, " a ", " b ", p" flags ";\n"

namespace codetta::gpu::ptx {

// d (+)= A * B for 64 rows and CODETTA_WGMMA_N columns; a and b are matrix descriptors; keep = 0 starts from zero.
// Lane l of warp w holds in d[4 * j + i] row 16 * w + l / 4 + 8 * (i / 2), column 8 * j + 2 * (l % 4) + i % 2.
template <class T>
__device__ __forceinline__ void wgmma(T (&d)[CODETTA_WGMMA_N / 2], u64 a, u64 b, u32 keep) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0;\n" CODETTA_WGMMA_TEXT("%0", "%1", CODETTA_WGMMA_FLAGS) "}"
               : "+l"(a), "+l"(b), "+r"(keep)CODETTA_WGMMA_REGISTERS);
}

// d += A * B for four steps of K, a_step and b_step apart in the descriptors. In one statement, because compilers take
// long for each one with so many operands.
template <class T>
__device__ __forceinline__ void wgmma_of_four(T (&d)[CODETTA_WGMMA_N / 2], u64 a, u64 b, u32 a_step, u32 b_step) {
  u64 steps = (u64)b_step << 32 | a_step;
  asm volatile(
      "{ .reg .pred p; .reg .b32 s, t; .reg .b64 sa, sb, a1, b1, a2, b2, a3, b3; setp.eq.b32 p, 0, 0;\n"
      "mov.b64 {s, t}, %2; cvt.u64.u32 sa, s; cvt.u64.u32 sb, t;\n"
      "add.s64 a1, %0, sa; add.s64 a2, a1, sa; add.s64 a3, a2, sa;\n"
      "add.s64 b1, %1, sb; add.s64 b2, b1, sb; add.s64 b3, b2, sb;\n"  //
      CODETTA_WGMMA_TEXT("%0", "%1", CODETTA_WGMMA_FLAGS) CODETTA_WGMMA_TEXT("a1", "b1", CODETTA_WGMMA_FLAGS)
          CODETTA_WGMMA_TEXT("a2", "b2", CODETTA_WGMMA_FLAGS) CODETTA_WGMMA_TEXT("a3", "b3", CODETTA_WGMMA_FLAGS) "}"
      : "+l"(a), "+l"(b), "+l"(steps)CODETTA_WGMMA_REGISTERS);
}

#ifdef CODETTA_WGMMA_MADE
// d += A * B, where lane l of warp w holds of A's 64 rows and 16 columns in word[i] those of row 16 * w + l / 4 + 8 *
// (i % 2), columns 2 * (l % 4) + 8 * (i / 2) and the next.
template <class T>
__device__ __forceinline__ void wgmma_made(T (&d)[CODETTA_WGMMA_N / 2], const u32 (&word)[4], u64 b) {
  u64 low = (u64)word[1] << 32 | word[0], high = (u64)word[3] << 32 | word[2];
  asm volatile(
      "{ .reg .pred p; .reg .b32 a0, a1, a2, a3; setp.eq.b32 p, 0, 0;\n"
      "mov.b64 {a0, a1}, %0; mov.b64 {a2, a3}, %1;\n"  //
      CODETTA_WGMMA_TEXT("{a0, a1, a2, a3}", "%2", CODETTA_WGMMA_MADE) "}"
      : "+l"(low), "+l"(high), "+l"(b)CODETTA_WGMMA_REGISTERS);
}
#endif

}  // namespace codetta::gpu::ptx
