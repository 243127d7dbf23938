// SPDX-License-Identifier: Apache-2.0
// Factors of the streaming product that are made (stream.h): B in the registers that its loads would have filled, A in
// shared memory. What B is computed from is under way as its loads would be.
#pragma once

#include "device/cuda/mma.h"
#include "device/gpu/make.h"

namespace codetta::gpu::stream {

// This thread's loads of B for one step, as the matrix instructions take them.
template <class S>
struct Words {
  uint4 w[S::loads];
};

template <class Config, class S, class Maker, class P>
struct MadeWeights {
  static constexpr int places = S::loads / S::depth, elements = 16 / S::size, vectors = elements / lanes;
  static_assert(elements % lanes == 0, "vectors fill a load");
  static_assert(Config::ways == 1 || S::along_k, "columns of a split tile are rows of what is made");
  struct Held {
    typename Maker::Held of[S::loads][vectors];
  };
  Making<Maker, P> making;
  i64 other[places];  // the (first) column of a load; -1: it does not exist
  i64 k, k_end;       // of this thread's part of the first step

  CODETTA_MEMBER MadeWeights(const P& params, i64 batch, i64 k_begin, i64 last, i64 col0, int warp_column, int warp_k,
                             int lane)
      : making(params, batch, S::along_k ? params.problem.n : params.problem.k), k_end(last) {
    const Problem& p = params.problem;
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < places; ++i) {
      const int column = warp_column + i * S::block + (S::along_k ? g : g * elements);
      const i64 root = col0 + column % S::width;
      other[i] = root < p.cols ? column_of_b<Config::ways>(p, root, column / S::width) : -1;
    }
    k = k_begin + warp_k * S::step_k + (S::along_k ? t * elements : t * S::depth);
  }
  // Where vector `v` of a load begins in the factor; how many of its elements exist.
  CODETTA_MEMBER int place(int load, int v, int step, i64& r, i64& c) const {
    const i64 from = other[load / S::depth], at = k + (i64)step * (S::warps_k * S::step_k);
    if constexpr (S::along_k) {
      r = from, c = at + v * lanes;
      return from < 0 ? 0 : there(c, k_end, lanes);
    } else {
      r = at + load % S::depth, c = from + v * lanes;
      return from < 0 || r >= k_end ? 0 : there(c, making.params.problem.cols, lanes);
    }
  }
  CODETTA_MEMBER void load(Held& held, int step) const {
#pragma unroll
    for (int i = 0; i < S::loads; ++i) {
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        i64 r = 0, c = 0;
        const int n = place(i, v, step, r, c);
        making.load(held.of[i][v], r, c, n);
      }
    }
  }
  CODETTA_MEMBER Words<S> finished(const Held& held, int step) const {
    Words<S> words;
#pragma unroll
    for (int i = 0; i < S::loads; ++i) {
      typename Maker::Vector made[vectors];
#pragma unroll
      for (int v = 0; v < vectors; ++v) {
        i64 r = 0, c = 0;
        const int n = place(i, v, step, r, c);
        made[v] = making.make(held.of[i][v], r, c, n);
      }
      memcpy(&words.w[i], made, sizeof words.w[i]);
    }
    return words;
  }
};

// A chunk of A's rows to shared memory; what does not exist becomes 0.
template <class Config, class S, class Maker, class P>
CODETTA_FN void make_rows(const P& params, i64 batch, i64 row0, i64 k, i64 k_end, u32 to, int thread) {
  using A = typename Config::A;
  constexpr bool along_k = Config::a_k_major;
  constexpr int fast = along_k ? Config::tile_k : Config::tile_m, slow = along_k ? Config::tile_m : Config::tile_k;
  constexpr int along = fast / lanes;
  static_assert(fast % lanes == 0);
  const Problem& p = params.problem;
  const Making<Maker, P> making(params, batch, along_k ? p.m : p.k);
#pragma unroll 1
  for (int e = thread; e < slow * along; e += Config::threads) {
    const int s = e / along, f = e % along * lanes;
    const i64 r = along_k ? row0 + s : k + s, c = along_k ? k + f : row0 + f;
    const int n = r >= (along_k ? p.rows : k_end) ? 0 : there(c, along_k ? k_end : p.rows, lanes);
    typename Maker::Held held;
    making.load(held, r, c, n);
    const auto made = making.make(held, r, c, n);
    CODETTA_EACH_LANE {
      A value;
      memcpy(&value, &made.e[i], sizeof value);
      const int row = along_k ? s : f + i, column = along_k ? f + i : s;
      ptx::store_shared_element(to + row * S::pitch + column * S::size, value);
    }
  }
}

}  // namespace codetta::gpu::stream
