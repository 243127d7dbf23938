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
    typename Maker::Held of[places][S::depth][vectors];
  };
  Making<Maker, P> making;
  i64 other[places];  // the (first) column of a load; -1: it does not exist
  i64 k, k_end;       // of this thread's part of the first step
  bool whole = true;  // all columns of its loads exist, and whole vectors can be loaded

  CODETTA_MEMBER MadeWeights(const P& params, i64 batch, i64 k_begin, i64 last, i64 col0, const TileSpace&,
                             int warp_column, int warp_k, int lane)
      : making(params, batch, S::along_k ? params.problem.n : params.problem.k), k_end(last) {
    const Problem& p = params.problem;
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < places; ++i) {
      const int column = warp_column + i * S::block + (S::along_k ? g : g * elements);
      const i64 root = col0 + column % S::width;
      other[i] = root < p.cols ? column_of_b<Config::ways>(p, root, column / S::width) : -1;
      whole = whole && making.aligned && (S::along_k ? root : root + elements - 1) < p.cols;
    }
    k = k_begin + warp_k * S::step_k + (S::along_k ? t * elements : t * S::depth);
  }
  // Where a vector of a load begins in the factor; how many of its elements exist. Of rows across K and of columns
  // along it compilers know what they are multiples of, and so what index arithmetic makes of them.
  template <class Place>
  CODETTA_MEMBER int place(int load, int step, i64& r, i64& c) const {
    const i64 from = other[load], at = k + (i64)step * (S::warps_k * S::step_k);
    if constexpr (S::along_k) {
      r = from, c = known_multiple<elements>(at) + Place::vector * lanes;
      return from < 0 ? 0 : there(c, k_end, lanes);
    } else {
      r = known_multiple<S::depth>(at) + Place::row, c = known_multiple<elements>(from) + Place::vector * lanes;
      return from < 0 || r >= k_end ? 0 : there(c, making.params.problem.cols, lanes);
    }
  }
  // Whether all of a step exists: without a question at each vector, what several are made of is computed once.
  CODETTA_MEMBER bool is_whole(int step) const {
    return whole && k + (i64)step * (S::warps_k * S::step_k) + (S::along_k ? elements : S::depth) <= k_end;
  }
  CODETTA_MEMBER void load(Held& held, int step) const {
    if (is_whole(step)) {
#pragma unroll
      for (int i = 0; i < places; ++i) {
        each_place<S::depth, 1, S::depth, vectors>([&](auto at) {
          using Place = decltype(at);
          i64 r = 0, c = 0;
          place<Place>(i, step, r, c);
          making.template load_whole<Place>(held.of[i][Place::row][Place::vector], r, c);
        });
      }
    } else {
#pragma unroll
      for (int i = 0; i < places; ++i) {
        each_place<S::depth, 1, S::depth, vectors>([&](auto at) {
          using Place = decltype(at);
          i64 r = 0, c = 0;
          const int n = place<Place>(i, step, r, c);
          making.template load_some<Place>(held.of[i][Place::row][Place::vector], r, c, n);
        });
      }
    }
  }
  CODETTA_MEMBER Words<S> finished(const Held& held, int step) const {
    Words<S> words;
    const auto take = [&](int i, const typename Maker::Vector(&made)[S::depth][vectors]) {
#pragma unroll
      for (int row = 0; row < S::depth; ++row) memcpy(&words.w[i * S::depth + row], made[row], sizeof words.w[0]);
    };
    if (is_whole(step)) {
#pragma unroll
      for (int i = 0; i < places; ++i) {
        typename Maker::Vector made[S::depth][vectors];
        each_place<S::depth, 1, S::depth, vectors>([&](auto at) {
          using Place = decltype(at);
          i64 r = 0, c = 0;
          place<Place>(i, step, r, c);
          made[Place::row][Place::vector] =
              making.template make_whole<Place>(held.of[i][Place::row][Place::vector], r, c);
        });
        take(i, made);
      }
    } else {
#pragma unroll
      for (int i = 0; i < places; ++i) {
        typename Maker::Vector made[S::depth][vectors];
        each_place<S::depth, 1, S::depth, vectors>([&](auto at) {
          using Place = decltype(at);
          i64 r = 0, c = 0;
          const int n = place<Place>(i, step, r, c);
          made[Place::row][Place::vector] =
              making.template make_some<Place>(held.of[i][Place::row][Place::vector], r, c, n);
        });
        take(i, made);
      }
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
    CODETTA_EACH_LANE({
      A value;
      memcpy(&value, &made.e[i], sizeof value);
      const int row = along_k ? s : f + i, column = along_k ? f + i : s;
      ptx::store_shared_element(to + row * S::pitch + column * S::size, value);
    });
  }
}

}  // namespace codetta::gpu::stream
