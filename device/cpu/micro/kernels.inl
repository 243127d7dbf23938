// SPDX-License-Identifier: Apache-2.0
// The register-block kernels, written once over a Product policy (P) that each instruction-set file provides. Everything
// lives in the namespace CODETTA_MICRO_ISA: the same template compiled with other flags must be another entity.
//
// A policy has: types A, Acc, Vec, BVec, AVec; constants lanes, group, b_step (bytes of one B vector), and
//   zero(), load_c(p), load_c_partial(p, n), store_c(p, v), store_c_partial(p, v, n), load_b(p), load_b_partial(p, n),
//   broadcast(p), broadcast_tail(p, n) (n < group valid elements, the rest zero), madd(acc, a, b); madd_onto(acc, a, b)
//   may be there, an instruction that overwrites acc.
#pragma once

#include "device/cpu/micro/micro.hpp"

#ifndef CODETTA_MICRO_ISA
#error "define CODETTA_MICRO_ISA before including kernels.inl"
#endif
#define CODETTA_INLINE inline __attribute__((always_inline))

namespace codetta::cpu::CODETTA_MICRO_ISA {

template <int... I>
struct Seq {};
#if defined(__clang__)
template <class T, T... I>
using SeqOf = Seq<I...>;
template <int N>
using Range = __make_integer_seq<SeqOf, int, N>;
#else
template <int N>
using Range = Seq<__integer_pack(N)...>;
#endif

CODETTA_INLINE const char* at(const void* p, i64 bytes) { return static_cast<const char*>(p) + bytes; }
CODETTA_INLINE char* at(void* p, i64 bytes) { return static_cast<char*>(p) + bytes; }

// Makes values opaque to the compiler, which would otherwise keep every sum of a stride and a constant in a register of
// its own, and spill them.
template <class... T>
CODETTA_INLINE void hide(T&... value) {
  (([](T& v) __attribute__((always_inline)) { asm("" : "+r"(v)); }(value)), ...);
}

// One accumulator per (row, vector), indexed by constants only so that it stays in registers.
template <class P, int R, int V, bool Partial>
struct Block {
  using Vec = typename P::Vec;
  Vec acc[R * V];

  template <int v>
  CODETTA_INLINE static typename P::BVec load_b(const char* b, [[maybe_unused]] i64 lanes) {
    if constexpr (Partial && v == V - 1) {
      return P::load_b_partial(b + v * P::b_step, lanes);
    } else {
      return P::load_b(b + v * P::b_step);
    }
  }
  template <int r, int... v>
  CODETTA_INLINE void row(typename P::AVec a, const typename P::BVec* b, Seq<v...>) {
    // Where many registers are in use the compiler may not choose which of the three a multiply-add overwrites: it spills.
    if constexpr (R * V > 16 && requires { P::madd_onto(acc[0], a, b[0]); }) {
      ((acc[r * V + v] = P::madd_onto(acc[r * V + v], a, b[v])), ...);
    } else {
      ((acc[r * V + v] = P::madd(acc[r * V + v], a, b[v])), ...);
    }
  }
  template <int... r, int... v>
  CODETTA_INLINE void step(const char* a0, const char* a1, const char* a2, const char* a3, i64 lda, i64 lda3, i64 offset,
                           const char* b, i64 lanes, Seq<r...>, Seq<v...>) {
    const typename P::BVec bv[V] = {load_b<v>(b, lanes)...};
    // Four row pointers with scaled lda keep the address registers few even for 16 rows.
    (row<r>(P::broadcast((r < 4 ? a0 : r < 8 ? a1 : r < 12 ? a2 : a3) + ((r & 3) == 3 ? lda3 : (r & 3) * lda) + offset), bv,
            Seq<v...>{}),
     ...);
  }
  template <int... v>
  CODETTA_INLINE void row_step(typename P::AVec a, const char* b, i64 lanes, Seq<v...>) {
    const typename P::BVec bv[V] = {load_b<v>(b, lanes)...};
    row<0>(a, bv, Seq<v...>{});
  }
  template <int... r, int... v>
  CODETTA_INLINE void tail(const char* a, i64 lda, const char* b, i64 count, i64 lanes, Seq<r...>, Seq<v...>) {
    const typename P::BVec bv[V] = {load_b<v>(b, lanes)...};
    (row<r>(P::broadcast_tail(a + r * lda, count), bv, Seq<v...>{}), ...);
  }
  // Row after row: c moves on after the last vector of each.
  template <int i>
  CODETTA_INLINE void load_one(const char*& c, i64 ldc, i64 lanes) {
    constexpr int v = i % V;
    constexpr i64 offset = v * P::lanes * static_cast<i64>(sizeof(typename P::Acc));
    if constexpr (Partial && v == V - 1) {
      acc[i] = P::load_c_partial(c + offset, lanes);
    } else {
      acc[i] = P::load_c(c + offset);
    }
    if constexpr (v == V - 1) {
      c += ldc;
      hide(c);
    }
  }
  template <int i>
  CODETTA_INLINE void store_one(char*& c, i64 ldc, i64 lanes) const {
    constexpr int v = i % V;
    constexpr i64 offset = v * P::lanes * static_cast<i64>(sizeof(typename P::Acc));
    if constexpr (Partial && v == V - 1) {
      P::store_c_partial(c + offset, acc[i], lanes);
    } else {
      P::store_c(c + offset, acc[i]);
    }
    if constexpr (v == V - 1) {
      c += ldc;
      hide(c);
    }
  }
  template <int... i>
  CODETTA_INLINE void zero(Seq<i...>) {
    ((acc[i] = P::zero()), ...);
  }
  template <int... i>
  CODETTA_INLINE void load(const char* c, i64 ldc, i64 lanes, Seq<i...>) {
    (load_one<i>(c, ldc, lanes), ...);
  }
  template <int... i>
  CODETTA_INLINE void store(char* c, i64 ldc, i64 lanes, Seq<i...>) const {
    (store_one<i>(c, ldc, lanes), ...);
  }
};

// Asks for the next lines of a walk, several of one row: they are faster to get than as many of different rows. Into
// the first-level cache.
template <int lines>
CODETTA_INLINE void fetch_lines(Ahead& next) {
  const char* p = at(next.data, next.column);
  [&]<int... i>(Seq<i...>) __attribute__((always_inline)) { (__builtin_prefetch(p + 64 * i, 0, 3), ...); }(Range<lines>{});
  next.column += 64 * lines;
  if (next.column < next.width) return;
  next.column = 0;
  next.data = at(next.data, next.stride);
}

// The same for what a kernel asks for in four steps; the walk stays in registers meanwhile.
CODETTA_INLINE void fetch_share(Ahead& next) {
  if (--next.waits >= 0) return;
  next.waits = next.pause;
  const char* run = at(next.data, 0);
  i64 column = next.column;
  for (i64 i = next.lines; i > 0; i -= 4) {
    [&]<int... line>(Seq<line...>) __attribute__((always_inline)) {
      (__builtin_prefetch(run + column + 64 * line, 0, 2), ...);
    }(Range<4>{});
    column += 256;
    if (column < next.width) continue;
    column = 0;
    run += next.stride;
  }
  next.data = run;
  next.column = column;
}

// A FetchingKernel where `Fetch` is Ahead, a Kernel where it is nothing: one function, because GCC spills where the one
// is a function around the other.
template <class P, int R, int V, bool Partial, class... Fetch>
void block_kernel(const void* a_start, i64 lda, const void* b_start, i64 ldb, void* c, i64 ldc, i64 k, i64 lanes,
                  const void* init, Fetch*... next) {
  constexpr bool fetches = sizeof...(Fetch) > 0;
  constexpr Range<R> rows{};
  constexpr Range<V> vectors{};
  constexpr Range<R * V> all{};
  constexpr i64 a_step = P::group * static_cast<i64>(sizeof(typename P::A));
  Block<P, R, V, Partial> block;
  if (init == nullptr) {
    block.zero(all);
  } else {
    block.load(at(init, 0), init == c ? ldc : 0, lanes, all);
  }
  const char* a0 = at(a_start, 0);
  const char* b = at(b_start, 0);
  i64 steps = k / P::group, lda3 = 3 * lda;
  {
    const char* a1 = a0 + 4 * lda;
    const char* a2 = a0 + 8 * lda;
    const char* a3 = a0 + 12 * lda;
    // Blocks of one vector are 1 to 2 % slower with it.
    const auto hide_strides = [&]() __attribute__((always_inline)) {
      if constexpr (V > 1) hide(lda, lda3);
    };
    // Blocks of five rows and more of one vector read a line of each row of B. Those to the right of it are asked for
    // four at a time, in every fourth row: four blocks ask for all rows. Lines of one row are faster to get than as many
    // of different rows.
    [[maybe_unused]] constexpr u64 ahead = 256;
    [[maybe_unused]] const char* right = nullptr;
    if constexpr (V == 1 && R >= 5 && !fetches) {
      const i64 row = static_cast<i64>(reinterpret_cast<u64>(b) / 64 % 4);
      right = reinterpret_cast<const char*>(reinterpret_cast<u64>(b + row * ldb) / ahead * ahead + ahead);
    }
    for (; steps >= 4; steps -= 4) {
      (fetch_share(*next), ...);
      if constexpr (V == 1 && R >= 5 && !fetches) {
        for (u64 i = 0; i < ahead; i += 64) __builtin_prefetch(right + i, 0, 2);
        right += 4 * ldb;
      }
      // Opaque to the compiler: it would otherwise keep one induction pointer per row and step, and spill them.
      hide(a0, b);
      hide_strides();
      if constexpr (R > 4) hide(a1);
      if constexpr (R > 8) hide(a2);
      if constexpr (R > 12) hide(a3);
      block.step(a0, a1, a2, a3, lda, lda3, 0 * a_step, b, lanes, rows, vectors);
      b += ldb;
      hide(b);
      hide_strides();
      block.step(a0, a1, a2, a3, lda, lda3, 1 * a_step, b, lanes, rows, vectors);
      b += ldb;
      hide(b);
      hide_strides();
      block.step(a0, a1, a2, a3, lda, lda3, 2 * a_step, b, lanes, rows, vectors);
      b += ldb;
      hide(b);
      hide_strides();
      block.step(a0, a1, a2, a3, lda, lda3, 3 * a_step, b, lanes, rows, vectors);
      b += ldb;
      a0 += 4 * a_step;
      if constexpr (R > 4) a1 += 4 * a_step;
      if constexpr (R > 8) a2 += 4 * a_step;
      if constexpr (R > 12) a3 += 4 * a_step;
    }
    for (; steps > 0; --steps) {
      hide(a0, b);
      hide_strides();
      block.step(a0, a1, a2, a3, lda, lda3, 0, b, lanes, rows, vectors);
      a0 += a_step;
      if constexpr (R > 4) a1 += a_step;
      if constexpr (R > 8) a2 += a_step;
      if constexpr (R > 12) a3 += a_step;
      b += ldb;
    }
  }
  if constexpr (P::group > 1) {
    if (k % P::group != 0) block.tail(a0, lda, b, k % P::group, lanes, rows, vectors);
  }
  block.store(at(c, 0), ldc, lanes, all);
}

// K steps of one row over V vectors of columns.
template <class P, int K, int V, bool Partial>
CODETTA_INLINE void row_block(const typename P::AVec* a, const char* b, i64 ldb, char* c, i64 lanes, const char* init) {
  constexpr Range<V> vectors{};
  Block<P, 1, V, Partial> block;
  if (init == nullptr) {
    block.zero(vectors);
  } else {
    block.load(init, 0, lanes, vectors);
  }
  [&]<int... k>(Seq<k...>) __attribute__((always_inline)) {
    (block.row_step(a[k], b + k * ldb, lanes, vectors), ...);
  }(Range<K>{});
  block.store(c, 0, lanes, vectors);
}

// K rows of B. What lies below is asked for meanwhile: K rows into the second-level cache with `Below`, or else a single
// row, by a walk, into the first-level one.
template <class P, int K, int V, bool Below>
CODETTA_INLINE void row_pass(const char* a, const char* b, i64 ldb, char* c, i64 columns, const char* init, Ahead& next) {
  typename P::AVec av[K];
  [&]<int... k>(Seq<k...>) __attribute__((always_inline)) {
    ((av[k] = P::broadcast(a + k * static_cast<i64>(sizeof(typename P::A)))), ...);
  }(Range<K>{});
  const auto move = [&](i64 vectors) __attribute__((always_inline)) {
    const i64 bytes = vectors * P::lanes * static_cast<i64>(sizeof(typename P::Acc));
    b += vectors * P::b_step;
    c += bytes;
    if (init != nullptr) init += bytes;
    columns -= vectors * P::lanes;
  };
  for (; columns >= V * P::lanes; move(V)) {
    if constexpr (Below) {
      for (int row = K; row < 2 * K; ++row) {
        for (int byte = 0; byte < V * P::b_step; byte += 64) __builtin_prefetch(at(b, row * ldb + byte), 0, 2);
      }
    } else if constexpr (K == 1) {
      fetch_lines<(V * P::b_step + 63) / 64>(next);
    }
    row_block<P, K, V, false>(av, b, ldb, c, 0, init);
  }
  if constexpr (V > 1) {
    for (; columns >= P::lanes; move(1)) row_block<P, K, 1, false>(av, b, ldb, c, 0, init);
  }
  if (columns > 0) row_block<P, K, 1, true>(av, b, ldb, c, columns, init);
}

template <class P, int K, int V, bool Below>
CODETTA_INLINE void row_passes(const void* a_start, const void* b_start, i64 ldb, void* c_start, i64 k, i64 columns,
                               const void* init_start) {
  const char* a = at(a_start, 0);
  const char* b = at(b_start, 0);
  char* const c = at(c_start, 0);
  const char* init = init_start == nullptr ? nullptr : at(init_start, 0);
  const auto pass = [&]<int rows, int vectors, bool below>() __attribute__((always_inline)) {
    Ahead next{b + rows * ldb, ldb, columns * P::b_step / P::lanes, 0, 0, 0, 0};
    row_pass<P, rows, vectors, below>(a, b, ldb, c, columns, init, next);
    a += rows * static_cast<i64>(sizeof(typename P::A));
    b += rows * ldb;
    init = c;
    k -= rows;
  };
  while (k >= K) pass.template operator()<K, V, Below>();
  if constexpr (K > 1) {  // the rows that are left: by single vectors, which is less code
    while (k > 0) pass.template operator()<1, 1, false>();
  }
}

// Four rows of B at a time: more lie in the same sets of the first-level cache where a row is a multiple of a page. Where
// B is widened on the way, one: memory that is read in one stream comes faster, and the accumulators, which pass through
// the cache more often, are not what it waits for; the row below is fetched meanwhile (four rows: slower with than
// without). A call for each block of columns would take as long as its loads.
template <class P>
void row_kernel(const void* a, i64, const void* b, i64 ldb, void* c, i64, i64 k, i64 columns, const void* init) {
  constexpr int together = P::lanes * sizeof(typename P::Acc) == 64 && P::b_step < 64 ? 1 : 4;
  row_passes<P, together, 4, false>(a, b, ldb, c, k, columns, init);
}

// The same for processors that take a vector of 64 bytes in halves: there the accumulators, read and written for every
// row of B, are what one row at a time waits for (fetches_row). Eight rows, a line of each or two at a time.
template <class P>
void fetching_row_kernel(const void* a, i64, const void* b, i64 ldb, void* c, i64, i64 k, i64 columns, const void* init) {
  row_passes<P, 8, P::b_step < 32 ? 4 : 2, true>(a, b, ldb, c, k, columns, init);
}

// K steps of R rows over V vectors of columns.
template <class P, int R, int K, int V, bool Partial>
CODETTA_INLINE void rows_block(const char* a, i64 lda, const char* b, i64 ldb, char* c, i64 ldc, i64 lanes, bool first) {
  constexpr Range<R> rows{};
  constexpr Range<V> vectors{};
  constexpr Range<R * V> all{};
  Block<P, R, V, Partial> block;
  if (first) {
    block.zero(all);
  } else {
    block.load(c, ldc, lanes, all);
  }
  [&]<int... k>(Seq<k...>) __attribute__((always_inline)) {
    ([&]() __attribute__((always_inline)) {
      // Opaque to the compiler: it would otherwise keep one pointer per row and step, and spill them.
      hide(a, lda, b);
      block.step(a + k * static_cast<i64>(sizeof(typename P::A)), a, a, a, lda, 3 * lda, 0, b, lanes, rows, vectors);
      b += ldb;
    }(), ...);
  }(Range<K>{});
  block.store(c, ldc, lanes, all);
}

// Two to four rows: four rows of B at a time, as for one, so that memory is read in runs as long as the tile is wide. The
// accumulators pass through the caches for every four rows of B; the four below are fetched into the second-level cache.
template <class P, int R>
void long_rows_kernel(const void* a_start, i64 lda, const void* b_start, i64 ldb, void* c_start, i64 ldc, i64 k,
                      i64 columns, const void* init) {
  constexpr int together = 4, wide = P::lanes * sizeof(typename P::Acc) == 64 ? 4 : 2;
  constexpr i64 vector = P::lanes * static_cast<i64>(sizeof(typename P::Acc));
  constexpr int lines = (wide * P::b_step + 63) / 64;
  const char* a = at(a_start, 0);
  const char* b_rows = at(b_start, 0);
  bool first = init == nullptr;
  const auto pass = [&]<int K>() __attribute__((always_inline)) {
    const char* b = b_rows;
    const char* below = b_rows + K * ldb;
    char* c = at(c_start, 0);
    i64 left = columns;
    const auto move = [&](int vectors) __attribute__((always_inline)) {
      b += vectors * P::b_step;
      below += vectors * P::b_step;
      c += vectors * vector;
      left -= vectors * P::lanes;
    };
    for (; K > 1 && left >= wide * P::lanes; move(wide)) {
      if constexpr (K > 1) {
        [&]<int... i>(Seq<i...>) __attribute__((always_inline)) {
          (__builtin_prefetch(below + i / lines * ldb + 64 * (i % lines), 0, 2), ...);
        }(Range<K * lines>{});
      }
      rows_block<P, R, K, wide, false>(a, lda, b, ldb, c, ldc, 0, first);
    }
    for (; left >= P::lanes; move(1)) rows_block<P, R, K, 1, false>(a, lda, b, ldb, c, ldc, 0, first);
    if (left > 0) rows_block<P, R, K, 1, true>(a, lda, b, ldb, c, ldc, left, first);
    a += K * static_cast<i64>(sizeof(typename P::A));
    b_rows += K * ldb;
    k -= K;
    first = false;
  };
  while (k >= together) pass.template operator()<together>();
  while (k > 0) pass.template operator()<1>();
}

template <class P, int V, bool Partial, class Rows>
struct BlockTable;
template <class P, int V, bool Partial, int... r>
struct BlockTable<P, V, Partial, Seq<r...>> {
  static constexpr Kernel table[] = {&block_kernel<P, r + 1, V, Partial>...};
};

template <class P, int V, class Rows>
struct FetchingTable;
template <class P, int V, int... r>
struct FetchingTable<P, V, Seq<r...>> {
  static constexpr FetchingKernel table[] = {&block_kernel<P, r + 1, V, false, Ahead>...};
};

// Adds the blocks of V vectors and 1..R rows to a set.
template <class P, int V, int R, bool InPlace>
constexpr void add_blocks(KernelSet& set) {
  set.lanes = P::lanes;
  set.group = P::group;
  set.max_rows[V - 1] = R;
  set.full[V - 1] = BlockTable<P, V, false, Range<R>>::table;
  if constexpr (InPlace) {
    set.partial[V - 1] = BlockTable<P, V, true, Range<R>>::table;
    set.long_row = &row_kernel<P>;
    // For other vectors and integers they would be 150 kB of a library.
    if constexpr (P::lanes * sizeof(typename P::Acc) >= 32 && static_cast<typename P::Acc>(0.5) != 0) {
      set.long_rows[0] = &long_rows_kernel<P, 2>;
      set.long_rows[1] = &long_rows_kernel<P, 3>;
      set.long_rows[2] = &long_rows_kernel<P, 4>;
    }
    if constexpr (P::lanes * sizeof(typename P::Acc) == 64) set.fetching_row = &fetching_row_kernel<P>;
  }
}

// Of a set with 32 registers: short blocks have about 16 accumulators.
constexpr void shorten_blocks(KernelSet& set) {
  for (int v = 1; v <= max_vectors; ++v) {
    const int rows = (16 + v - 1) / v;
    if (rows < set.max_rows[v - 1]) set.short_rows[v - 1] = rows;
  }
}

// Gives a set's blocks of V vectors and 1..R rows their form that fetches.
template <class P, int V, int R>
constexpr void add_fetching(KernelSet& set) {
  set.fetching[V - 1] = FetchingTable<P, V, Range<R>>::table;
}

// Dot-product kernels: vectors along k, two accumulators per (row, column) against the latency of the multiply-add.
template <class P, int R, int C>
void dot_kernel(const void* a_start, i64 lda, const void* b_start, i64 ldb, void* c, i64 ldc, i64 k, i64,
                const void* init) {
  using Acc = typename P::Acc;
  using Vec = typename P::Vec;
  constexpr i64 a_step = P::lanes * static_cast<i64>(sizeof(Acc));
  constexpr int unroll = R * C <= 8 ? 2 : 1;
  const char* a = at(a_start, 0);
  const char* b = at(b_start, 0);
  Vec acc[unroll * R * C];
  const auto each = [&]<int... i>(Seq<i...>, auto&& f) __attribute__((always_inline)) { (f.template operator()<i>(), ...); };
  each(Range<unroll * R * C>{}, [&]<int i>() __attribute__((always_inline)) { acc[i] = P::zero(); });
  const auto madd = [&]<int u>(i64 count) __attribute__((always_inline)) {
    Vec av[R];
    each(Range<R>{}, [&]<int r>() __attribute__((always_inline)) {
      av[r] = count < 0 ? P::load_c(a + r * lda + u * a_step) : P::load_c_partial(a + r * lda + u * a_step, count);
    });
    each(Range<C>{}, [&]<int j>() __attribute__((always_inline)) {
      const Vec bv = count < 0 ? P::load_b(b + j * ldb + u * P::b_step) : P::load_b_partial(b + j * ldb + u * P::b_step, count);
      each(Range<R>{}, [&]<int r>() __attribute__((always_inline)) {
        acc[u * R * C + r * C + j] = P::madd(acc[u * R * C + r * C + j], av[r], bv);
      });
    });
  };
  for (; k >= unroll * P::lanes; k -= unroll * P::lanes) {
    each(Range<unroll>{}, [&]<int u>() __attribute__((always_inline)) { madd.template operator()<u>(-1); });
    a += unroll * a_step;
    b += unroll * P::b_step;
  }
  for (; k >= P::lanes; k -= P::lanes) {
    madd.template operator()<0>(-1);
    a += a_step;
    b += P::b_step;
  }
  if (k > 0) madd.template operator()<0>(k);
  each(Range<R * C>{}, [&]<int i>() __attribute__((always_inline)) {
    Vec sum = acc[i];
    if constexpr (unroll == 2) sum = P::add(sum, acc[R * C + i]);
    Acc lanes_sum[P::lanes];
    P::store_c(lanes_sum, sum);
    for (int width = P::lanes / 2; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) lanes_sum[l] = P::add_scalar(lanes_sum[l], lanes_sum[l + width]);
    }
    Acc* out = reinterpret_cast<Acc*>(at(c, (i / C) * ldc)) + i % C;
    *out = init == nullptr ? lanes_sum[0] : P::add_scalar(*out, lanes_sum[0]);
  });
}

template <class P, int C, class Cells>
struct DotTable;
template <class P, int C, int... i>
struct DotTable<P, C, Seq<i...>> {
  static constexpr Kernel table[] = {&dot_kernel<P, i / C + 1, i % C + 1>...};
};
template <class P, int R, int C>
constexpr DotSet dot_set() {
  return {R, C, DotTable<P, C, Range<R * C>>::table};
}

}  // namespace codetta::cpu::CODETTA_MICRO_ISA
