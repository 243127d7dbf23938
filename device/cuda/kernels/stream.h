// SPDX-License-Identifier: Apache-2.0
// The product for few rows (decode): B streams through registers once, 16 bytes a load and many loads in flight, while
// chunks of A's rows come to shared memory. The tensor cores see it turned: columns of B are their 16 rows, rows of A
// their 8 columns. A thread keeps what it loads: the order of K inside a step is a permutation, the same one for A.
// Warps share a tile along K and add up at the end; slices of K go through the workspace. Strict f32: fma.
//
// Config: tile_m rows of A (padded to 8); consumers: warps along K, of threads / 32; stages: steps in flight; tile_k:
// K of a chunk of A. piece_rows is tile_m, piece_cols the root columns. Addresses and rows of B are 16-byte aligned.
#pragma once

#include "device/cuda/kernels/make_stream.h"
#include "device/cuda/kernels/stream_sums.h"
#include "device/cuda/mma.h"
#include "device/gpu/split_k.h"
#include "device/gpu/tile.h"

namespace codetta::gpu::stream {

// What follows from a configuration; src/plan computes the same numbers.
template <class Config, class Epilogue>
struct Shape {
  using T = typename Config::Accumulator;
  static constexpr int size = (int)sizeof(typename Config::B);
  static constexpr bool along_k = Config::b_k_major;
  static constexpr bool fmas = size == 4 && Config::math == MathMode::Strict;
  static constexpr int width = Config::tile_n / Config::ways;  // root columns
  static constexpr int warps_k = Config::consumers, warps_n = Config::threads / 32 / warps_k;
  static constexpr int warp_n = Config::tile_n / warps_n;  // columns of a warp
  // A step of a warp. Along K: 64 bytes of K of each column, in 4 threads; a load is 8 columns. Else: 8 or 16 rows of
  // K, in which 8 threads hold `block` columns.
  static constexpr int block = along_k ? 8 : 128 / size, depth = along_k ? 1 : size == 2 ? 4 : 2;
  static constexpr int loads = warp_n / block * depth;
  static constexpr int step_k = along_k ? 64 / size : 4 * depth;
  static constexpr int chunk_steps = Config::tile_k / (warps_k * step_k);
  static constexpr int tokens = Config::tile_m / 8;                          // groups of 8 rows
  static constexpr int blocks = warp_n / 16;                                 // of 16 columns
  static constexpr int pitch = Config::tile_k * size + (along_k ? 64 : 32);  // no bank twice
  static constexpr int chunk_bytes = Config::tile_m * pitch;
  static constexpr int sum_ld = Config::tile_n + 4;
  static constexpr int sum_bytes = warps_k * 8 * sum_ld * (int)sizeof(T);
  static constexpr int share = 8 * Config::tile_n / Config::threads;  // of the sums of 8 rows, a thread
  static constexpr int piece_ld = width + 4, part_stride = Config::tile_m * piece_ld;
  static constexpr int piece_bytes = part_stride * Config::ways * (int)sizeof(T);
  static constexpr int after_bytes = piece_bytes + (Epilogue::scratch_bytes(Config::threads) + 15) / 16 * 16;
  static constexpr int larger = 2 * chunk_bytes > sum_bytes ? 2 * chunk_bytes : sum_bytes;
  static constexpr int flag_at = larger > after_bytes ? larger : after_bytes;
  static constexpr int shared_bytes = flag_at + 16;

  static_assert(sizeof(typename Config::A) == sizeof(typename Config::B));
  static_assert(along_k || size == 2 || size == 4, "bytes of one column come along K only");
  static_assert(Config::threads % (32 * warps_k) == 0 && Config::tile_n % warps_n == 0);
  static_assert(warp_n % 16 == 0 && warp_n % block == 0 && width % block == 0 && width % 4 == 0);
  static_assert(Config::tile_k == chunk_steps * warps_k * step_k && chunk_steps % Config::stages == 0);
  static_assert(Config::tile_m % 8 == 0 && Config::piece_rows == Config::tile_m && Config::piece_cols == width);
  static_assert(share >= 1 && 8 * Config::tile_n == share * Config::threads);
  static_assert(shared_bytes <= Config::shared_bytes);
};

// The first `valid` bytes at p, then zeros.
CODETTA_FN uint4 load_some(const char* p, int valid) {
  u64 lo = 0, hi = 0;
#pragma unroll 1
  for (int i = 0; i < valid; ++i) {
    const u64 b = (u64)__ldg((const u8*)p + i) << (8 * (i % 8));
    if (i < 8)
      lo |= b;
    else
      hi |= b;
  }
  return {(u32)lo, (u32)(lo >> 32), (u32)hi, (u32)(hi >> 32)};
}

// This thread's loads of B. Columns that do not exist are read from column 0: no other column meets them.
template <class Config, class S, class Epilogue>
struct Weights {
  static constexpr int places = S::loads / S::depth, products = ProductsOf<Epilogue>::count;
  static constexpr int strides = products > 1 ? places : 1;  // each has a B of its own
  using Held = Words<S>;
  const char* at[places];   // of K = 0 of the slice
  i64 ld[strides];          // bytes from k to k
  i64 step_bytes[strides];  // from a step of the warp to its next
  u64 policy;               // of L2

  template <class P>
  CODETTA_MEMBER Weights(const P& params, i64 batch, i64 k_begin, i64, i64 col0, const TileSpace& space,
                         int warp_column, int warp_k, int lane) {
    const Problem& p = params.problem;
    const int g = lane / 4, t = lane % 4;
    // B passes once where there is one row of tiles, and A and what follows is to stay.
    const bool once = p.tiles_m == 1 && (p.batches == 1 || p.b_batch != 0);
    policy = once ? ptx::evict_first : ptx::evict_normal;
#pragma unroll
    for (int i = 0; i < places; ++i) {
      const int column = warp_column + i * S::block + (S::along_k ? g : g * (16 / S::size));
      const i64 root = col0 + column % S::width;
      const i64 from = root < space.cols ? column_of_b<Config::ways, products>(p, root, column / S::width) : 0;
      const FactorB b =
          factor_b<Epilogue, Config::ways, typename Config::B>(params, batch, column / S::width, space.product);
      const i64 k = k_begin + warp_k * S::step_k + (S::along_k ? t * (16 / S::size) : t * S::depth);
      at[i] = (const char*)b.data + (from * b.col + k * b.k) * S::size;
      ld[i % strides] = b.k * S::size;
      step_bytes[i % strides] = S::warps_k * S::step_k * ld[i % strides];
    }
  }
  CODETTA_MEMBER const char* place(int load, int step) const {
    const int i = load / S::depth;
    return at[i] + step * step_bytes[i % strides] + load % S::depth * ld[i % strides];
  }
  // The warp's next step, all of which exists.
  CODETTA_MEMBER void load(Words<S>& held, int) {
#pragma unroll
    for (int i = 0; i < S::loads; ++i) held.w[i] = ptx::load_once(place(i, 0), policy);
#pragma unroll
    for (int i = 0; i < places; ++i) at[i] += step_bytes[i % strides];
  }
  CODETTA_MEMBER const Words<S>& finished(const Words<S>& held, int) const { return held; }
  // The same, where only `left` more k of this thread exist, and of the columns from col0 on those below `cols`.
  CODETTA_MEMBER void load_some(uint4 (&w)[S::loads], i64 left, i64 col0, i64 cols, int warp_column, int lane) {
#pragma unroll
    for (int i = 0; i < S::loads; ++i) {
      i64 valid = left * S::size;
      if constexpr (!S::along_k) {
        const i64 root = col0 + (warp_column + i / S::depth * S::block + lane / 4 * (16 / S::size)) % S::width;
        valid = i % S::depth < left && root < cols ? (cols - root) * S::size : 0;
      }
      w[i] = stream::load_some(place(i, 0), valid < 0 ? 0 : valid < 16 ? (int)valid : 16);
    }
#pragma unroll
    for (int i = 0; i < places; ++i) at[i] += step_bytes[i % strides];
  }
};

// A chunk of A's rows to shared memory; what does not exist becomes 0.
template <class Config, class S>
CODETTA_FN void bring_rows(const Problem& p, i64 batch, i64 row0, i64 k, i64 k_end, u32 to, int thread) {
  using A = typename Config::A;
  const A* const from = (const A*)p.a + item_of_a(p, batch);
  if constexpr (Config::a_k_major && Config::alignment >= 16) {
    constexpr int along = Config::tile_k * S::size / 16, units = Config::tile_m * along;
#pragma unroll 1
    for (int e = thread; e < units; e += Config::threads) {
      const int row = e / along, column = e % along * (16 / S::size);
      const i64 left = (k_end - k - column) * S::size;
      const bool there = row0 + row < p.rows && left > 0;
      ptx::copy_async<16>(to + row * S::pitch + column * S::size,
                          there ? from + ((row0 + row) * p.a_row + k + column) : from,
                          !there      ? 0u
                          : left < 16 ? (u32)left
                                      : 16u);
    }
  } else {
    constexpr int units = Config::tile_m * Config::tile_k;
#pragma unroll 1
    for (int e = thread; e < units; e += Config::threads) {
      const int row = e / Config::tile_k, column = e % Config::tile_k;
      A value{};
      if (row0 + row < p.rows && k + column < k_end) value = from[(row0 + row) * p.a_row + (k + column) * p.a_k];
      ptx::store_shared_element(to + row * S::pitch + column * S::size, value);
    }
  }
  ptx::copy_commit();
}

CODETTA_FN u32 word_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

template <class Config, class T>
CODETTA_FN void product(T (&d)[4], u32 (&a)[4], u32 b0, u32 b1) {
  using X = typename Config::B;
  using Y = typename Config::A;
  if constexpr (sizeof(X) == 4 && Config::math == MathMode::Tf32x3) {
    const Split s0(a[0]), s1(a[1]), s2(a[2]), s3(a[3]), t0(b0), t1(b1);
    const u32 rest[4] = {s0.rest, s1.rest, s2.rest, s3.rest}, cross[4] = {s0.cross, s1.cross, s2.cross, s3.cross};
    Mma<X, Y>::add(d, rest, t0.cross, t1.cross);
    Mma<X, Y>::add(d, cross, t0.rest, t1.rest);
  } else if constexpr (sizeof(X) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = ptx::to_tf32(a[i]);
    b0 = ptx::to_tf32(b0), b1 = ptx::to_tf32(b1);
  }
  Mma<X, Y>::add(d, a, b0, b1);
}

// One step on the tensor cores. `rows`: the address of this step's K in the chunk.
template <class Config, class S, class T>
CODETTA_FN void multiply(T (&acc)[S::blocks * S::tokens * 4], const uint4 (&w)[S::loads], u32 rows, int lane) {
  const int g = lane / 4, t = lane % 4;
  if constexpr (S::along_k) {
#pragma unroll
    for (int q = 0; q < S::tokens; ++q) {
      const uint4 x = ptx::load_shared_four(rows + (q * 8 + g) * S::pitch + t * 16);
#pragma unroll
      for (int b = 0; b < S::blocks; ++b) {
        T(&d)[4] = *(T(*)[4])(acc + (b * S::tokens + q) * 4);
        const uint4 lo = w[2 * b], hi = w[2 * b + 1];
        u32 first[4] = {lo.x, hi.x, lo.y, hi.y}, second[4] = {lo.z, hi.z, lo.w, hi.w};
        product<Config>(d, first, x.x, x.y);
        product<Config>(d, second, x.z, x.w);
      }
    }
  } else {
    uint2 x[S::tokens];
#pragma unroll
    for (int q = 0; q < S::tokens; ++q) x[q] = ptx::load_shared_two(rows + (q * 8 + g) * S::pitch + t * 8);
#pragma unroll
    for (int b = 0; b < S::blocks; ++b) {
      // Rows g and g + 8 are two adjacent columns of the thread's.
      constexpr int pairs = S::block / 16;
      u32 a[4];
      if constexpr (S::size == 2) {
        const uint4* const r = w + b / pairs * 4;
        const u32 k0 = word_of(r[0], b % pairs), k1 = word_of(r[1], b % pairs);
        const u32 k2 = word_of(r[2], b % pairs), k3 = word_of(r[3], b % pairs);
        a[0] = ptx::permute<0x5410>(k0, k1), a[1] = ptx::permute<0x7632>(k0, k1);
        a[2] = ptx::permute<0x5410>(k2, k3), a[3] = ptx::permute<0x7632>(k2, k3);
      } else {
        const uint4* const r = w + b / pairs * 2;
        a[0] = word_of(r[0], b % pairs * 2), a[1] = word_of(r[0], b % pairs * 2 + 1);
        a[2] = word_of(r[1], b % pairs * 2), a[3] = word_of(r[1], b % pairs * 2 + 1);
      }
#pragma unroll
      for (int q = 0; q < S::tokens; ++q) {
        T(&d)[4] = *(T(*)[4])(acc + (b * S::tokens + q) * 4);
        u32 copy[4] = {a[0], a[1], a[2], a[3]};
        product<Config>(d, copy, x[q].x, x[q].y);
      }
    }
  }
}

// One step without them: a thread's share of K, its columns 2b and 2b + 1 being rows g and g + 8 of block b.
template <class S>
CODETTA_FN void multiply_add(float (&acc)[S::blocks * 2][S::tokens * 8], const uint4 (&w)[S::loads], u32 rows,
                             int lane) {
  const int t = lane % 4;
#pragma unroll
  for (int m = 0; m < S::tokens * 8; ++m) {
    float x[4];
    if constexpr (S::along_k) {
      const uint4 v = ptx::load_shared_four(rows + m * S::pitch + t * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = __uint_as_float(word_of(v, i));
    } else {
      const uint2 v = ptx::load_shared_two(rows + m * S::pitch + t * 8);
      x[0] = __uint_as_float(v.x), x[1] = __uint_as_float(v.y);
    }
#pragma unroll
    for (int c = 0; c < S::blocks * 2; ++c) {
      if constexpr (S::along_k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[c][m] = fmaf(__uint_as_float(word_of(w[c], i)), x[i], acc[c][m]);
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          acc[c][m] = fmaf(__uint_as_float(word_of(w[c / 4 * 2 + i], c % 4)), x[i], acc[c][m]);
      }
    }
  }
}

}  // namespace codetta::gpu::stream

namespace codetta::gpu {

// The body of the kernel. Launch: a block a tile and slice, Config::threads threads, Config::shared_bytes of dynamic
// shared memory; may be a programmatic dependent of the kernel before it.
template <class Config, class Epilogue, class P>
CODETTA_FN void gemm_stream(const P& params) {
  using S = stream::Shape<Config, Epilogue>;
  using T = typename Config::Accumulator;
  extern __shared__ __align__(128) unsigned char shared[];
  const Problem& p = params.problem;
  const int thread = threadIdx.x, lane = thread % 32;
  const int warp = (int)ptx::uniform(thread / 32), warp_k = warp % S::warps_k;
  const int warp_column = warp / S::warps_k * S::warp_n;
  const u32 tiles = (u32)p.tiles_m * (u32)p.tiles_n;
  const u32 outer = blockIdx.x / tiles, index = blockIdx.x - outer * tiles;
  const u32 batch = outer / (u32)p.k_split, slice = outer - batch * (u32)p.k_split;
  const u32 tile_m = index / (u32)p.tiles_n, tile_n = index - tile_m * (u32)p.tiles_n;
  const TileSpace space = space_of_tile<Config, Epilogue>(params, tile_n);
  const i64 row0 = (i64)tile_m * Config::tile_m, col0 = (i64)space.tile_n * S::width;
  const i64 k_begin = slice * p.k_slice, k_end = slice + 1 == (u32)p.k_split ? p.k : k_begin + p.k_slice;
  const int chunks = (int)((k_end - k_begin + Config::tile_k - 1) / Config::tile_k);

  // Steps of this warp: of all, those whose 16 bytes all exist; the others come one by one.
  constexpr int stride = S::warps_k * S::step_k;
  const i64 length = k_end - k_begin - warp_k * S::step_k;
  const bool ragged =
      !S::along_k && space.cols % (16 / S::size) != 0 && k_end == p.k;  // the last row ends inside a load
  const i64 safe = length - (ragged ? 1 : 0);
  const int steps = length <= 0 ? 0 : (int)((length - 1) / stride) + 1;
  const int whole = Makes<typename MakerOfB<Epilogue>::type>::value ? steps
                    : safe < S::step_k                              ? 0
                                                                    : (int)((safe - S::step_k) / stride) + 1;
  using MakerA = typename MakerOfA<Epilogue>::type;
  using MakerB = typename MakerOfB<Epilogue>::type;
  constexpr bool makes_a = Makes<MakerA>::value, makes_b = Makes<MakerB>::value;
  using Weights =
      typename Choose<makes_b, stream::MadeWeights<Config, S, MakerB, P>, stream::Weights<Config, S, Epilogue>>::type;
  Weights weights(params, batch, k_begin, k_end, col0, space, warp_column, warp_k, lane);
#if __CUDA_ARCH__ >= 900
  // Toward L2, where it does not matter who may still write B; a thread asks for 64 bytes, where loads have 16.
  const bool asks = S::along_k ? lane % 4 == 0 : lane / 4 % 4 == 0;
#pragma unroll
  for (int i = 0; i < Config::stages && !makes_b; ++i) {
    if (i >= whole || !asks) continue;
#pragma unroll
    for (int j = 0; j < S::loads; ++j) {
      if constexpr (!makes_b) ptx::prefetch_l2(weights.place(j, i));
    }
  }
  ptx::dependency_wait();
  // With so many loads in flight three blocks fit, all of this kernel's, as src/plan sees to. Those of the kernel
  // behind may come at once, since they cannot crowd: each takes the place of one that has ended.
  constexpr bool early = Config::stages >= 8;
  if constexpr (early) ptx::dependents_launch();
#endif
  const u32 base = ptx::shared_address(shared);
  const auto bring_rows = [&](i64 k, u32 to) {
    if constexpr (makes_a)
      stream::make_rows<Config, S, MakerA>(params, batch, row0, k, k_end, to, thread);
    else
      stream::bring_rows<Config, S>(p, batch, row0, k, k_end, to, thread);
  };
  // The first rows of A are waited for first, so that they do not queue behind B; what is made is waited for at once.
  if constexpr (!makes_a) bring_rows(k_begin, base);
  typename Weights::Held held[Config::stages];
#pragma unroll
  for (int i = 0; i < Config::stages; ++i) {
    if (i < whole) weights.load(held[i], i);
  }
  if constexpr (makes_a) bring_rows(k_begin, base);

  T acc[S::blocks * S::tokens * 4];
#pragma unroll
  for (int i = 0; i < S::blocks * S::tokens * 4; ++i) acc[i] = (T)0;
  float sums[S::fmas ? S::blocks * 2 : 1][S::fmas ? S::tokens * 8 : 1];
  if constexpr (S::fmas) {
#pragma unroll
    for (int c = 0; c < S::blocks * 2; ++c) {
#pragma unroll
      for (int m = 0; m < S::tokens * 8; ++m) sums[c][m] = 0;
    }
  }
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    ptx::copy_wait<0>();
    __syncthreads();
#if __CUDA_ARCH__ >= 900
    if (!early && chunk + 1 == chunks) ptx::dependents_launch();  // the kernel behind asks for its B meanwhile
#endif
    if (chunk + 1 < chunks) {
      const i64 k = k_begin + (i64)(chunk + 1) * Config::tile_k;
      bring_rows(k, base + (chunk + 1) % 2 * S::chunk_bytes);
    }
    const u32 rows = base + chunk % 2 * S::chunk_bytes + warp_k * (S::step_k * S::size);
    const int first = chunk * S::chunk_steps;
    const auto add = [&](const uint4(&w)[S::loads], int step) {
      const u32 at = rows + (step - first) * (stride * S::size);
      if constexpr (S::fmas)
        stream::multiply_add<S>(sums, w, at, lane);
      else
        stream::multiply<Config, S>(acc, w, at, lane);
    };
#pragma unroll 1
    for (int step = first; step < first + S::chunk_steps; step += Config::stages) {
#pragma unroll
      for (int i = 0; i < Config::stages; ++i) {
        if (step + i < whole) add(weights.finished(held[i], step + i).w, step + i);
        if (step + i + Config::stages < whole) weights.load(held[i], step + i + Config::stages);
      }
    }
    if constexpr (!makes_b) {  // of what is made only elements that exist are loaded: all steps are whole
#pragma unroll 1
      for (int step = whole > first ? whole : first; step < steps && step < first + S::chunk_steps; ++step) {
        const i64 left = length - (i64)step * stride - (S::along_k ? lane % 4 * (16 / S::size) : lane % 4 * S::depth);
        weights.load_some(held[0].w, left, col0, space.cols, warp_column, lane);
        add(held[0].w, step);
      }
    }
  }
  if constexpr (S::fmas) {  // add up along K, and let each thread keep what the tensor cores would give it
#pragma unroll
    for (int c = 0; c < S::blocks * 2; ++c) {
#pragma unroll
      for (int m = 0; m < S::tokens * 8; ++m) {
        float v = sums[c][m];
        v += __shfl_xor_sync(0xffffffffu, v, 1);
        v += __shfl_xor_sync(0xffffffffu, v, 2);
        if (m % 8 / 2 == lane % 4) acc[(c / 2 * S::tokens + m / 8) * 4 + c % 2 * 2 + m % 2] = v;
      }
    }
  }
  ptx::copy_wait<0>();  // without any K the first rows, of zeros, may still be on their way
  // The warps along K: each leaves 8 rows, all threads add.
  T* const scratch = (T*)shared;
  T total[S::tokens * S::share];
#pragma unroll
  for (int q = 0; q < S::tokens; ++q) {
    __syncthreads();
    stream::leave_sums<S>(scratch + warp_k * 8 * S::sum_ld + warp_column, acc, q, lane);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < S::share; ++i) {
      const int e = thread + i * Config::threads, row = e / Config::tile_n, column = e % Config::tile_n;
      T v = scratch[row * S::sum_ld + column];
#pragma unroll
      for (int w = 1; w < S::warps_k; ++w) v += scratch[(w * 8 + row) * S::sum_ld + column];
      total[q * S::share + i] = v;
    }
  }
  __syncthreads();
  if constexpr (Config::k_split > 1) {
    u32* const flag = (u32*)(shared + S::flag_at);
    const i64 tile = (i64)batch * tiles + index;
    if (p.k_split > 1 && !sum_slices<S::tokens * S::share, Config::threads>(p, tile, slice, thread, flag, total))
      return;
  }
#pragma unroll
  for (int q = 0; q < S::tokens; ++q) {
#pragma unroll
    for (int i = 0; i < S::share; ++i) {
      const int e = thread + i * Config::threads, row = q * 8 + e / Config::tile_n, column = e % Config::tile_n;
      scratch[column / S::width * S::part_stride + row * S::piece_ld + column % S::width] = total[q * S::share + i];
    }
  }
  __syncthreads();
  Tile tile;
  tile.acc = scratch, tile.acc_ld = S::piece_ld, tile.acc_part_stride = S::part_stride;
  tile.batch = batch, tile.row = row0, tile.col = col0;
  tile.rows = (i32)(p.rows - row0 < Config::tile_m ? p.rows - row0 : Config::tile_m);
  tile.cols = (i32)(space.cols - col0 < S::width ? space.cols - col0 : S::width);
  tile.piece_m = tile_m, tile.piece_n = space.tile_n, tile.product = space.product;
  tile.thread = thread, tile.threads = Config::threads, tile.barrier = 0;
  tile.scratch = shared + S::piece_bytes;
  Epilogue::template phase_0<P>(params, tile);
}

}  // namespace codetta::gpu
