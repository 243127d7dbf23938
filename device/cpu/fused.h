// SPDX-License-Identifier: Apache-2.0
// A whole kernel with the epilogue in registers: a block of rows x vectors of accumulators, one named variable each
// (nested structs; an array with an unrolled loop would stay on the stack), multiplied over all of k from packed panels
// of B and handed to the epilogue without touching memory. Row tails repeat the last row's A and are not finished;
// columns beyond the tile are padding of the panel and are not finished either.
#pragma once

#include "device/cpu/fragment.h"

namespace codetta::cpu {

//% RegisterFragment
// A Fragment whose accumulators are handed over by the kernel: `held` is the vector at the position.
template <class V>
struct RegisterFragment : TileFragment {
  V held = {};
  CODETTA_MEMBER RegisterFragment(const EpilogueArgs& a, const Tile& t) : TileFragment(a, t) {}
};

//% multiply_f32
// One step of k: acc += a * b. The instruction is named where the target has it, so that strict programs get it too.
struct multiply_f32 {
  using Accumulator = f32v;
  using Element = f32;
  static constexpr int group = 1;
  CODETTA_FN f32v broadcast(const f32* p, i64) { return splat<f32v>(*p); }
  CODETTA_FN f32v load_b(const f32* p) { return load_all<f32v>(p); }
  CODETTA_FN f32v step(f32v acc, f32v a, f32v b) {
#if defined(__FMA__)
    asm("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
#else
    return acc + a * b;
#endif
  }
};

//% group_of
// Up to four bytes of A at p: a group of `n` elements, zeros behind them.
template <class E>
CODETTA_FN i32v group_of(const E* p, i64 n) {
  constexpr int whole = 4 / sizeof(E);
  i32 word = 0;
  if (__builtin_expect(n >= whole, 1)) {
    __builtin_memcpy(&word, p, 4);
  } else {
    for (i64 i = 0; i < n; ++i) word |= (i32)((u32)p[i] << (8 * sizeof(E) * i));
  }
  return splat<i32v>(word);
}

//% multiply_bf16
struct multiply_bf16 {
  using Accumulator = f32v;
  using Element = u16;
  static constexpr int group = 2;
  CODETTA_FN i32v broadcast(const u16* p, i64 n) { return group_of(p, n); }
  CODETTA_FN i32v load_b(const u16* p) { return load_all<i32v>(p); }
  CODETTA_FN f32v step(f32v acc, i32v a, i32v b) {
#if defined(__AVX512BF16__)
    asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
#else
    const i32v top = splat<i32v>((i32)0xffff0000);
    acc = acc + (f32v)(a << 16) * (f32v)(b << 16);
    return acc + (f32v)(a & top) * (f32v)(b & top);
#endif
  }
};

//% multiply_u8s8
struct multiply_u8s8 {
  using Accumulator = i32v;
  using Element = u8;
  static constexpr int group = 4;
  CODETTA_FN i32v broadcast(const u8* p, i64 n) { return group_of(p, n); }
  CODETTA_FN i32v load_b(const u8* p) { return load_all<i32v>(p); }
  CODETTA_FN i32v step(i32v acc, i32v a, i32v b) {
#if defined(__AVX512VNNI__)
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
#else
    for (int byte = 0; byte < 32; byte += 8) acc += (i32v)((u32v)a >> byte & 255u) * ((b << (24 - byte)) >> 24);
    return acc;
#endif
  }
};

//% RegisterBlock
// `vectors` vectors of one row, and `rows` of them.
template <class M, int vectors>
struct BlockRow {
  typename M::Accumulator v = {};
  BlockRow<M, vectors - 1> rest;
  template <class A, class B>
  CODETTA_MEMBER void step(A a, const B& b) {
    v = M::step(v, a, b.v);
    rest.step(a, b.rest);
  }
  template <class F>
  CODETTA_MEMBER void finish(i64 c, const F& f) const {
    f(c, v);
    rest.finish(c + lanes, f);
  }
};
template <class M>
struct BlockRow<M, 0> {
  template <class A, class B>
  CODETTA_MEMBER void step(A, const B&) {}
  template <class F>
  CODETTA_MEMBER void finish(i64, const F&) const {}
};
// The vectors of B of one step.
template <class M, int vectors>
struct BlockB {
  decltype(M::load_b(nullptr)) v;
  BlockB<M, vectors - 1> rest;
  CODETTA_MEMBER explicit BlockB(const typename M::Element* p) : v(M::load_b(p)), rest(p + lanes * M::group) {}
};
template <class M>
struct BlockB<M, 0> {
  CODETTA_MEMBER explicit BlockB(const typename M::Element*) {}
};
template <class M, int rows, int vectors>
struct RegisterBlock {
  BlockRow<M, vectors> row;
  RegisterBlock<M, rows - 1, vectors> rest;
  template <class B>
  CODETTA_MEMBER void step(const typename M::Element* const* a, i64 k, i64 left, const B& b) {
    row.step(M::broadcast(*a + k, left), b);
    rest.step(a + 1, k, left, b);
  }
  template <class F>
  CODETTA_MEMBER void finish(i64 r, const F& f) const {
    f(r, row);
    rest.finish(r + 1, f);
  }
};
template <class M, int vectors>
struct RegisterBlock<M, 0, vectors> {
  template <class B>
  CODETTA_MEMBER void step(const typename M::Element* const*, i64, i64, const B&) {}
  template <class F>
  CODETTA_MEMBER void finish(i64, const F&) const {}
};

//% run_fused
// finish_row(r, c, row) is called once for every row of the tile and panel, with the row's accumulators.
template <class M, int rows, int vectors, class F>
CODETTA_FN void run_fused(const FusedArgs& task, const F& finish_row) {
  using E = typename M::Element;
  const E* panel = (const E*)task.b;
  for (i64 c = 0; c < task.tile.cols; c += vectors * lanes, panel += task.b_panel_stride) {
    for (i64 r0 = 0; r0 < task.tile.rows; r0 += rows) {
      const E* a[rows];
      for (int i = 0; i < rows; ++i) {
        const i64 r = r0 + i < task.tile.rows ? r0 + i : task.tile.rows - 1;
        a[i] = (const E*)task.a + r * task.a_row_stride;
      }
      RegisterBlock<M, rows, vectors> block;
      const E* b = panel;
      const i64 whole = task.k - task.k % M::group;
      for (i64 k = 0; k < whole; k += M::group, b += vectors * lanes * M::group) {
        block.step(a, k, M::group, BlockB<M, vectors>(b));
      }
      if (M::group > 1 && whole < task.k) block.step(a, whole, task.k - whole, BlockB<M, vectors>(b));
      block.finish(
          r0, [&](i64 r, const BlockRow<M, vectors>& row) __attribute__((always_inline)) {
            if (r < task.tile.rows) finish_row(r, c, row);
          });
    }
  }
}

//% .
}  // namespace codetta::cpu
