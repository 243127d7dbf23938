// SPDX-License-Identifier: Apache-2.0
// Copies factors whose rows begin anywhere, or whose elements lie apart, to where the copy engine can read them: the
// same layout with rows that begin at multiples of 16 bytes. Runs before the product (package::GpuEntry::Kind::Pack).
#pragma once

#include "device/gpu/builtins.h"
#include "device/gpu/items.h"

namespace codetta::gpu {

inline constexpr int pack_threads = 256, pack_at_once = 8;

// Elements that lie side by side along the slow dim change places in shared memory, a square of 32 x 32 at a time.
template <class E>
CODETTA_FN void pack_transposed(const Packing& f) {
  __shared__ E square[32][33];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  constexpr int warps = pack_threads / 32;
  const i64 along = (f.fast + 31) / 32, down = (f.slow + 31) / 32, count = f.batches * along * down;
  for (i64 index = blockIdx.x; index < count; index += gridDim.x) {
    const i64 batch = index / (along * down), inner = index - batch * (along * down);
    const i64 slow0 = inner / along * 32, fast0 = inner % along * 32;
    const E* const source = (const E*)f.from + item_place(batch, f.batch_stride, f.skip, f.inner);
    E* const target = (E*)f.to + batch * f.slow * f.packed_stride;
#pragma unroll
    for (int i = 0; i < 32; i += warps) {
      const i64 fast = fast0 + i + warp, slow = slow0 + lane;
      if (fast < f.fast && slow < f.slow) square[i + warp][lane] = __ldg(source + (fast * f.fast_stride + slow));
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32; i += warps) {
      const i64 slow = slow0 + i + warp, fast = fast0 + lane;
      if (fast < f.fast && slow < f.slow) target[slow * f.packed_stride + fast] = square[lane][i + warp];
    }
    __syncthreads();
  }
}

// Whether the 20 bytes of aligned words around 16 bytes from p on all lie in the tensor, from begin to end.
CODETTA_FN bool inside(const void* p, u64 begin, u64 end) {
  const u64 first = (u64)p & ~(u64)3;
  return first >= begin && first + 20 <= end;
}
// 16 bytes from p on, which begin anywhere: the aligned words around them, turned.
CODETTA_FN uint4 load_turned(const void* p) {
  const u32* const first = (const u32*)((u64)p & ~(u64)3);
  u32 word[5];
#pragma unroll
  for (int i = 0; i < 5; ++i) word[i] = __ldg(first + i);
  const u32 bits = ((u32)(u64)p & 3) * 8;
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = (u32)(((u64)word[i + 1] << 32 | word[i]) >> bits);
  return make_uint4(word[0], word[1], word[2], word[3]);
}

// Rows of adjacent elements, 16 bytes of the copy a thread and step. Short rows share a warp. What follows a row's last
// element in the copy is anything: the copy engine does not read it. Words with bytes outside of the tensor are not
// touched: there elements are taken one by one, behind the others, by one text for all of a step.
template <class E>
CODETTA_FN void pack_rows(const Packing& f) {
  constexpr int each = 16 / (int)sizeof(E), warps = pack_threads / 32, at_once = 4;
  const i64 vectors = (f.fast + each - 1) / each, rows = f.batches * f.slow;
  int group = 1;
  while (group < 32 && group < vectors) group *= 2;
  const u64 begin = (u64)f.from;
  const u64 end = begin + (u64)(item_place(f.batches - 1, f.batch_stride, f.skip, f.inner) +
                                (f.slow - 1) * f.slow_stride + f.fast) *
                              sizeof(E);
  const int lane = threadIdx.x % 32, own = 32 / group;
#pragma unroll 1
  for (i64 row = ((i64)blockIdx.x * warps + threadIdx.x / 32) * own + lane / group; row < rows;
       row += (i64)gridDim.x * warps * own) {
    const i64 batch = f.batches > 1 ? row / f.slow : 0;
    const E* const source = (const E*)f.from + (item_place(batch, f.batch_stride, f.skip, f.inner) +
                                                (row - batch * f.slow) * f.slow_stride);
    E* const target = (E*)f.to + row * f.packed_stride;
#pragma unroll 1
    for (i64 first = lane % group; first < vectors; first += group * at_once) {
      uint4 held[at_once];
      bool turned[at_once], all = true;
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const i64 at = first + i * group;
        turned[i] = at < vectors && inside(source + at * each, begin, end);
        if (turned[i]) held[i] = load_turned(source + at * each);
        all = all && (turned[i] || at >= vectors);
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        if (turned[i]) ((uint4*)target)[first + i * group] = held[i];
      }
      if (all) continue;
#pragma unroll 1
      for (i64 at = first; at < vectors && at < first + group * at_once; at += group) {
        if (inside(source + at * each, begin, end)) continue;
#pragma unroll 1
        for (i64 i = at * each; i < f.fast && i < (at + 1) * each; ++i) target[i] = __ldg(source + i);
      }
    }
  }
}

// With all blocks of x, for the factor of the block's y. E: an integer of the elements' size.
template <class E>
CODETTA_FN void pack_factor(const PackParams& params) {
  const Packing& f = params.factor[blockIdx.y];
  if (f.slow_stride == 1 && f.fast_stride != 1) {
    pack_transposed<E>(f);
    return;
  }
  if (f.fast_stride == 1 && f.slow_stride >= 0 && f.batch_stride >= 0 && f.batch_stride * f.inner + f.skip >= 0) {
    pack_rows<E>(f);
    return;
  }
  const E* const from = (const E*)f.from;
  E* const to = (E*)f.to;
  const int lane = threadIdx.x % 32;
  constexpr int warps = pack_threads / 32;
  const i64 rows = f.batches * f.slow;
  for (i64 row = (i64)blockIdx.x * warps + threadIdx.x / 32; row < rows; row += (i64)gridDim.x * warps) {
    const i64 batch = f.batches > 1 ? row / f.slow : 0;
    const E* const source =
        from + (item_place(batch, f.batch_stride, f.skip, f.inner) + (row - batch * f.slow) * f.slow_stride);
    E* const target = to + row * f.packed_stride;
    for (i64 first = lane; first < f.fast; first += 32 * pack_at_once) {
      E held[pack_at_once];
#pragma unroll
      for (int i = 0; i < pack_at_once; ++i) {
        if (first + 32 * i < f.fast) held[i] = __ldg(source + (first + 32 * i) * f.fast_stride);
      }
#pragma unroll
      for (int i = 0; i < pack_at_once; ++i) {
        if (first + 32 * i < f.fast) target[first + 32 * i] = held[i];
      }
    }
  }
}

}  // namespace codetta::gpu
