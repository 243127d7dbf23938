// SPDX-License-Identifier: Apache-2.0
// The sm_90a epilogue whose matrices come and go by the copy engine. A warp finishes the 16 rows of a band that it has
// multiplied, Config::piece_cols root columns at a time, and waits for no other: its first lane asks for the operands
// of the next pieces, hands finished pieces to the engine and goes on. 16-bit elements pass between registers and
// shared memory as the matrix instruction has them (ldmatrix, stmatrix), so that lanes exchange nothing.
//
// Every copy has slots, used in turn, two for stores and load_slots for loads: while one is read (written), others are
// on their way. Epilogue::Copies says which copies there are, loads first, or none where rows are reduced only: copy i
// is Params::map[first_map + i], of operand(i), whose elements have size(i) bytes. Products with root spaces of their
// own have Copies each; those of the Epilogue say then how many of each kind there are slots for, and of which sizes.
// A slot holds boxes of 16 rows and at most 128 bytes, swizzled by the engine; of what is column_major(i), one box of
// as many columns as a piece has, 16 rows of a column side by side. Of what has run(i) > 0 so many root columns lie
// side by side, step(i) elements from one such run to the next, and there is no batch; pieces lie within runs. Of
// reductions of columns, Copies::column_sums of them, each warp leaves its 16 rows' share in scratch, as wide as the
// tile; for these alone the warps of a band meet.
#pragma once

#include "device/cuda/kernels/sm90.h"
#include "device/cuda/kernels/vectors.h"

namespace codetta::gpu {

// Copies whose columns all lie side by side are these, and more. column_sums: reductions of columns.
struct PlainCopies {
  static constexpr int first_map = 2, column_sums = 0;
  static constexpr int run(int) { return 0; }
  static constexpr int step(int) { return 0; }
};

// Stands for a Ref in emitted text: the operand is the i-th copy.
template <class E, int i>
struct Copied {};

template <class Copies, int cols>
struct CopyLayout {
  static constexpr int columns = cols;
  static constexpr int load_slots = Copies::load_slots, store_slots = 2, count = Copies::loads + Copies::stores;
  static constexpr int held = count > 0 ? count : 1;  // of arrays
  static constexpr int slots(int i) { return i < Copies::loads ? load_slots : store_slots; }
  // Bytes side by side: of a row, or of a column.
  static constexpr int pitch(int i) {
    const int bytes = (Copies::column_major(i) ? 16 : cols) * Copies::size(i);
    return bytes < 128 ? bytes : 128;
  }
  static constexpr int box_cols(int i) { return Copies::column_major(i) ? cols : pitch(i) / Copies::size(i); }
  static constexpr int boxes(int i) { return cols / box_cols(i); }
  static constexpr int slot_bytes(int i) { return 16 * cols * Copies::size(i); }
  static constexpr int begin(int i) {
    int at = 0;
    for (int j = 0; j < i; ++j) at += slots(j) * slot_bytes(j);
    return at;
  }
  static constexpr int load_bytes() { return begin(Copies::loads) / load_slots; }
  // Byte of column `col` of row `row`, from the slot's begin.
  template <int i>
  static CODETTA_MEMBER u32 at(int row, int col) {
    constexpr int wide = box_cols(i), bytes = pitch(i);
    static_assert(bytes == 32 || bytes == 64 || bytes == 128, "the engine's swizzles");
    const int box = col / wide, line = Copies::column_major(i) ? col : row;
    const u32 byte = (u32)((Copies::column_major(i) ? row : col % wide) * Copies::size(i));
    const u32 swizzle = (u32)(line * bytes >> 7) & (bytes / 16 - 1);
    return (u32)(box * 16 * bytes + line * bytes) + (byte ^ swizzle << 4);
  }
};

// A TileFragment over 16 * steps columns of a piece. Lane l has rows l / 4 and l / 4 + 8 of its warp's, and columns
// 2 * (l % 4) and the next of every 8. Every position is computed, also beyond the edges of the matrix: the engine
// brings zeros there and stores nothing, and rows and columns of vectors are the nearest that exist. So one text does
// for all tiles.
template <class Strip_, class P>
struct CopiedFragment : TileFragment<false, 1, P> {
  using S = Strip_;
  using T = typename S::Element;
  using Copies = typename S::Copies;
  using Layout = typename S::Layout;
  const S& strip;
  int place = 0, step = 0;                   // which 8 columns times 2, which of the two rows; which 16 columns
  u32 word[S::steps][Layout::held][4] = {};  // 16-bit copies of each 16 columns, by place

  CODETTA_MEMBER CopiedFragment(const P& p, const Tile& t, const S& s) : TileFragment<false, 1, P>(p, t), strip(s) {}
  CODETTA_MEMBER int column() const { return strip.first + step * 16 + place / 2 * 8 + 2 * (this->tile.thread & 3); }
  CODETTA_MEMBER int row() const { return (this->tile.thread & 31) / 4 + 8 * (place & 1); }
  CODETTA_MEMBER void to(int step_, int place_) {
    step = step_, place = place_;
    this->at_column(column());
    this->r = this->tile.thread / 32 * 16 + row();
    if (this->r >= this->tile.rows) this->r = this->tile.rows - 1;
  }
  // The engine counts both in 32 bits, without a sign: quotients and remainders of them are shifts and masks.
  CODETTA_MEMBER i64v row_index() const { return splat<i64v>((i64)((u32)this->tile.row + (u32)this->r)); }
  CODETTA_MEMBER i64v col_index() const {
    i64v v;
    CODETTA_EACH_LANE(v.e[i] = (i64)((u32)this->tile.col + (u32)(this->c + i)));
    return v;
  }
  template <class V>
  CODETTA_MEMBER V accum(int part) const {
    V v;
    CODETTA_EACH_LANE(v.e[i] = strip.raw[part][step * 8 + place * 2 + i]);
    return v;
  }
  // Where this lane's part of four 8 x 8 matrices lies: rows of the lower half, of the upper, then 8 columns further.
  template <int i>
  CODETTA_MEMBER u32 matrices() const {
    const int lane = this->tile.thread & 31, first = strip.first + step * 16 + lane / 16 * 8;
    return strip.slot[i] + (Copies::column_major(i) ? Layout::template at<i>(lane & 8, first + (lane & 7))
                                                    : Layout::template at<i>(lane & 15, first));
  }
  // All that the strip reads, before any of it is used: what leaves it is ordered behind.
  CODETTA_MEMBER void bring() {
#pragma unroll
    for (int s = 0; s < S::steps; ++s) {
      to(s, 0);
      bring_step();
    }
  }
  template <int i = 0>
  CODETTA_MEMBER void bring_step() {
    if constexpr (i < Copies::loads) {
      if constexpr (Copies::size(i) == 2 && Copies::column_major(i)) {
        ptx::ldmatrix_x4_transposed(word[step][i], matrices<i>());
      } else if constexpr (Copies::size(i) == 2) {
        ptx::ldmatrix_x4(word[step][i], matrices<i>());
      }
      bring_step<i + 1>();
    }
  }
  template <int i = Copies::loads>
  CODETTA_MEMBER void send() const {
    if constexpr (i < Layout::count) {
      if constexpr (Copies::size(i) == 2 && Copies::column_major(i)) {
        const u32(&w)[4] = word[step][i];
        ptx::stmatrix_x4_transposed(matrices<i>(), w[0], w[1], w[2], w[3]);
      } else if constexpr (Copies::size(i) == 2) {
        const u32(&w)[4] = word[step][i];
        ptx::stmatrix_x4(matrices<i>(), w[0], w[1], w[2], w[3]);
      }
      send<i + 1>();
    }
  }
  // From the piece's copy in shared memory, whether the operand is written later or not.
  template <class V, bool written = false, class E, int i>
  CODETTA_MEMBER V load_full(Copied<E, i>) const {
    static_assert(lanes == 2 && sizeof(element<V>) == Copies::size(i));
    V v;
    if constexpr (sizeof(E) == 2) {
      const u32 two[1] = {word[step][i][place]};
      memcpy(&v, two, sizeof v);
    } else if constexpr (Copies::column_major(i)) {
      const int turn = turn_of_lane();
      u32 first, second;
      ptx::load_one(first, strip.slot[i] + Layout::template at<i>(row(), column() + turn));
      ptx::load_one(second, strip.slot[i] + Layout::template at<i>(row(), column() + 1 - turn));
      const u32 two[2] = {turn != 0 ? second : first, turn != 0 ? first : second};
      memcpy(&v, two, 8);
    } else {
      u32 two[2];
      ptx::load_two(two, strip.slot[i] + Layout::template at<i>(row(), column()));
      memcpy(&v, two, 8);
    }
    return v;
  }
  template <class V, class E, int i>
  CODETTA_MEMBER void put_full(Copied<E, i>, V v) {
    static_assert(lanes == 2 && sizeof(element<V>) == Copies::size(i));
    if constexpr (sizeof(E) == 2) {
      word[step][i][place] = word_of_lanes(v, 0);
    } else if constexpr (Copies::column_major(i)) {
      const int turn = turn_of_lane();
      const u32 left = word_of_lanes(v, 0), right = word_of_lanes(v, 1);
      ptx::store_one(strip.slot[i] + Layout::template at<i>(row(), column() + turn), turn != 0 ? right : left);
      ptx::store_one(strip.slot[i] + Layout::template at<i>(row(), column() + 1 - turn), turn != 0 ? left : right);
    } else {
      ptx::store_two(strip.slot[i] + Layout::template at<i>(row(), column()), word_of_lanes(v, 0), word_of_lanes(v, 1));
    }
  }
  using TileFragment<false, 1, P>::load_row;
  using TileFragment<false, 1, P>::load_row_strided;
  using TileFragment<false, 1, P>::load_column;
  template <class V, class E, int cols>
  CODETTA_MEMBER V load_row(const AlongRows<E, cols>& o) const {
    static_assert(lanes == 2);
    return o.template at<V>(column());
  }
  template <class V, class E>
  CODETTA_MEMBER V load_column(const DownColumns<E>& o) const {
    return splat<V>(o.of_row[place & 1]);
  }
  // Of what repeats along the columns, side by side in blocks that pieces lie within, and whose rows are whole vectors,
  // as a tensor map of it has been found to be possible. Columns beyond the edge are its, too.
  template <class V, i64 block, bool written = false, class E, class F>
  CODETTA_MEMBER V load_indexed(const E* row, i64, F) const {
    static_assert(block % Layout::columns == 0);
    return load_whole<V, written>(row + (u32)this->tile.col % (u32)block + (u32)this->c);
  }
  // As emitted text calls them where columns are not adjacent.
  template <class V, class E, int cols>
  CODETTA_MEMBER V load_row_strided(const AlongRows<E, cols>& o) const {
    return load_row<V>(o);
  }
  template <class V, bool written = false, class E, int i>
  CODETTA_MEMBER V load_full_strided(Copied<E, i> o) const {
    return load_full<V, written>(o);
  }
  template <class V, class E, int i>
  CODETTA_MEMBER void put_full_strided(Copied<E, i> o, V v) {
    put_full(o, v);
  }
  // One comparison of 32 bits an element, with a number that is known: compilers keep to 64 for a label of a row.
  CODETTA_MEMBER boolv is_column(const i64v& label) const {
    const u64 ahead = (u64)(label.e[0] - ((i64)(i32)this->tile.col + strip.first));
    const i32 at = ahead < (1u << 30) ? (i32)ahead - 2 * (this->tile.thread & 3) : -1;
    boolv v;
    CODETTA_EACH_LANE(v.e[i] = at == step * 16 + place / 2 * 8 + i);
    return v;
  }
  CODETTA_MEMBER boolv valid_here() const {
    const i32 left = this->tile.cols - strip.first - 2 * (this->tile.thread & 3);
    boolv v;
    CODETTA_EACH_LANE(v.e[i] = step * 16 + place / 2 * 8 + i < left);
    return v;
  }
  // Which of its two columns a lane takes first where these are 64 bytes apart: then no bank is met twice.
  CODETTA_MEMBER int turn_of_lane() const { return this->tile.thread & 1; }
  // Of values of both rows, gathered in the order of the strip's columns, those beyond the edge count nothing.
  template <class V, int n>
  CODETTA_MEMBER void keep_valid(Gathered<V, n> (&g)[2]) const {
    if (strip.first + 16 * S::steps <= this->tile.cols) return;
#pragma unroll
    for (int i = 0; i < 2 * n; ++i) {
      if (strip.first + i / 2 * 8 + 2 * (this->tile.thread & 3) + i % 2 < this->tile.cols) continue;
      g[0].x[i] = g[1].x[i] = lowest<element<V>>();
    }
  }
  // Whether the row exists: beyond the edge positions count in no column.
  CODETTA_MEMBER boolv row_exists() const {
    const bool exists = this->tile.thread / 32 * 16 + row() < this->tile.rows;
    boolv v;
    CODETTA_EACH_LANE(v.e[i] = exists);
    return v;
  }
  CODETTA_MEMBER boolv row_exists(boolv valid) const {
    CODETTA_EACH_LANE(valid.e[i] = valid.e[i] && row_exists().e[i]);
    return valid;
  }
  // The warp's share of reductions of the strip's columns, from states of the first 8, the next, ..., to its place in
  // scratch, `skipped` elements on. Lanes with the same columns exchange halves of these, until each has one: of 32
  // columns at once, as what a lane waits for is the exchanges' turns, not their number.
  template <template <class> class R, class V>
  CODETTA_MEMBER void fold_columns(const R<V> (&q)[2 * S::steps], int skipped) const {
    using State = typename R<V>::State;
    constexpr int wide = S::steps % 2 == 0 ? 2 : 1, count = 4 * wide;  // steps at once, states
    static_assert(lanes == 2 && State::width == 1);
    const int lane = this->tile.thread & 31;
#pragma unroll
    for (int begin = 0; begin < S::steps; begin += wide) {
      State s[count];
#pragma unroll
      for (int i = 0; i < count; ++i) s[i] = q[2 * begin + i / 2].lane[i % 2];
      int at = 0;
#pragma unroll
      for (int n = count / 2; n >= 1; n /= 2) {
        const int distance = count / 2 / n * 4;
        const bool upper = (lane & distance) != 0;
        if (upper) at += n == 1 ? 1 : 4 * n;
#pragma unroll
        for (int i = 0; i < n; ++i) {
          const auto low = s[i].v[0], high = s[i + n].v[0];
          State other;
          s[i].v[0] = upper ? high : low;
          other.v[0] = exchanged(~0u, upper ? low : high, distance);
          s[i].merge(other);
        }
      }
      if constexpr (wide == 1) merge_threads(~0u, s[0], 16, 32);
      at += strip.first + begin * 16 + 2 * (lane & 3);
      if (lane < 16 * wide) ((element<V>*)this->tile.scratch)[skipped + at] = s[0].v[0];
    }
  }
  // The tile's share of row reduction k, of both rows.
  template <class V, class R>
  CODETTA_MEMBER void reduce(int k, const R (&q)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto s = q[half].folded();
      merge_threads(~0u, s, 1, 4);
      const i32 at = this->tile.thread / 32 * 16 + (this->tile.thread & 31) / 4 + 8 * half;
      if ((this->tile.thread & 3) != 0 || at >= this->tile.rows) continue;
      this->write(s, (element<V>*)this->params.reduction[k].partials,
                  (this->tile.batch * this->params.problem.pieces_n + this->tile.piece_n) * this->params.problem.rows +
                      this->tile.row + at);
    }
  }
};

// What an emitted strip sees: accumulators of 16 * steps columns, and the vectors and slots of the piece.
template <class Epilogue, int cols, int parts, class T>
struct CopiedStrip {
  using Element = T;
  using Copies = typename Epilogue::Copies;
  using Layout = CopyLayout<Copies, cols>;
  static constexpr int steps = Epilogue::strip_steps;
  T raw[parts][steps * 8];
  typename Epilogue::Vectors vectors;
  u32 slot[Layout::held];
  int first;  // column of the piece
};

// Of what the four warps of a band have left in scratch, `width` columns each: the band's share of column reduction k.
template <class R, class T, int width, class P>
__device__ __forceinline__ void finish_columns(const P& params, const Tile& tile, int k, int skipped) {
  using State = typename R::State;
  const T* const from = (const T*)tile.scratch + skipped;
#pragma unroll 1
  for (int c = tile.thread; c < tile.cols; c += 128) {
    State s;
    s.v[0] = from[c];
#pragma unroll
    for (int warp = 1; warp < 4; ++warp) {
      State other;
      other.v[0] = from[warp * width + c];
      s.merge(other);
    }
    ((T*)params.reduction[k]
         .partials)[(tile.batch * params.problem.pieces_m + tile.piece_m) * params.problem.cols + tile.col + c] =
        s.v[0];
  }
}

namespace sm90 {

// A warp's copies. Own, below: what has phase 0 of the product that a tile is of, and its Copies (tile.h).
template <class Config, class Epilogue>
struct Copier {
  using Slots = typename Epilogue::Copies;
  using L = CopyLayout<Slots, Config::piece_cols>;  // of slots
  template <class Own>
  using OwnLayout = CopyLayout<typename Own::Copies, Config::piece_cols>;
  u32 slots, barriers;  // shared addresses of this warp's
  // Of all tiles: where the next piece's operands go, where they are read, where its results go.
  Ring<L::load_slots> asked{}, read{};
  u32 written = 0;
  u32 columns = 0;  // which half of the scratch the band's columns go to, while others may still read the other

  // Of the product's copy i.
  template <class Own>
  CODETTA_MEMBER u32 slot(int i) const {
    const bool load = i < Own::Copies::loads;
    if (!load) i += Slots::loads - Own::Copies::loads;
    return slots + L::begin(i) + (load ? read.stage : written) * L::slot_bytes(i);
  }
  template <class Own, class P>
  static CODETTA_MEMBER i32 batch_of(const P& params, int i, u32 batch) {
    using Copies = typename Own::Copies;
    return Copies::run(i) == 0 && params.operand[Copies::operand(i)].stride[0] != 0 ? (i32)batch : 0;
  }
  // Of box b of copy i, as its map counts.
  template <class Own>
  struct Place {
    using Copies = typename Own::Copies;
    i32 fast, slow;
    CODETTA_MEMBER Place(int i, int b, i64 row, i64 col) {
      const u32 run = Copies::run(i) > 0 ? (u32)Copies::run(i) : 1u,
                step = Copies::run(i) > 0 ? (u32)Copies::step(i) : 1u;
      const i32 column = (i32)((u32)col / run * step + (u32)col % run) + b * OwnLayout<Own>::box_cols(i);
      fast = Copies::column_major(i) ? (i32)row : column;
      slow = Copies::column_major(i) ? column : (i32)row;
    }
  };
  // The operands of the piece whose rows and columns begin here; nobody reads what lay in its slot.
  template <class Own, class P>
  CODETTA_MEMBER void ask(const P& params, i64 row, i64 col, u32 batch) {
    using Copies = typename Own::Copies;
    using O = OwnLayout<Own>;
    if constexpr (Copies::loads > 0) {
      if (threadIdx.x % 32 == 0) {
        const u32 bar = barriers + 8 * asked.stage;
        ptx::barrier_expect(bar, O::load_bytes());
#pragma unroll
        for (int i = 0; i < Copies::loads; ++i) {
#pragma unroll
          for (int b = 0; b < O::boxes(i); ++b) {
            const Place<Own> at(i, b, row, col);
            ptx::tma_load(slots + L::begin(i) + asked.stage * L::slot_bytes(i) + b * 16 * O::pitch(i),
                          &params.map[Copies::first_map + i], bar, at.fast, at.slow, batch_of<Own>(params, i, batch),
                          ptx::evict_normal);
          }
        }
      }
      asked.advance();
    }
  }
  // Towards L2 only.
  template <class Own, class P>
  CODETTA_MEMBER void announce(const P& params, i64 row, i64 col, u32 batch) const {
    using Copies = typename Own::Copies;
    if (threadIdx.x % 32 != 0) return;
#pragma unroll
    for (int i = 0; i < Copies::loads; ++i) {
#pragma unroll
      for (int b = 0; b < OwnLayout<Own>::boxes(i); ++b) {
        const Place<Own> at(i, b, row, col);
        ptx::tma_prefetch(&params.map[Copies::first_map + i], at.fast, at.slow, batch_of<Own>(params, i, batch));
      }
    }
  }
  template <class Own>
  CODETTA_MEMBER void wait_loads() const {
    if constexpr (Own::Copies::loads > 0) ptx::barrier_wait(barriers + 8 * read.stage, read.turn);
  }
  // Until the slots that this piece's results go to have been read.
  CODETTA_MEMBER void wait_slots() const {
    if constexpr (Slots::stores > 0) {
      if (threadIdx.x % 32 == 0) ptx::bulk_wait_read<L::store_slots - 1>();
      __syncwarp();
    }
  }
  // Hands over what all lanes have written; what they have read may be overwritten. A piece that does not exist is a
  // group of no stores, so that groups and slots keep in step.
  template <class Own, class P>
  CODETTA_MEMBER void hand_over(const P& params, bool exists, i64 row, i64 col, u32 batch) {
    using Copies = typename Own::Copies;
    using O = OwnLayout<Own>;
    ptx::async_fence();
    __syncwarp();
    if constexpr (Slots::stores > 0) {
      if (threadIdx.x % 32 == 0) {
        if (exists) {
#pragma unroll
          for (int i = Copies::loads; i < O::count; ++i) {
#pragma unroll
            for (int b = 0; b < O::boxes(i); ++b) {
              const Place<Own> at(i, b, row, col);
              ptx::tma_store(&params.map[Copies::first_map + i], slot<Own>(i) + b * 16 * O::pitch(i), at.fast, at.slow,
                             batch_of<Own>(params, i, batch));
            }
          }
        }
        ptx::bulk_commit();
      }
    }
    written ^= 1;
    if constexpr (Copies::loads > 0) read.advance();
  }
  CODETTA_MEMBER void leave() const {
    if (Slots::stores > 0 && threadIdx.x % 32 == 0) ptx::bulk_wait<0>();
  }
};

// Where piece n of a consumer's part of a tile begins, for this warp.
template <class Config, class S>
struct PiecePlace {
  static constexpr int across = (S::width + Config::piece_cols - 1) / Config::piece_cols, count = S::bands * across;
  i64 band, row, col;  // first row of the band and of the warp
  int column;          // of the tile. The last piece may begin inside the one before: then it stores the same again
  CODETTA_MEMBER PiecePlace(const Unit& u, u32 band0, int n) {
    band = (i64)u.tile_m * Config::tile_m + (band0 + n / across) * 64;
    row = band + threadIdx.x % 128 / 32 * 16;
    column = n % across * Config::piece_cols;
    if (S::width % Config::piece_cols != 0 && column > S::width - Config::piece_cols)
      column = S::width - Config::piece_cols;
    col = (i64)u.tile_n * S::width + column;
  }
};

// Before the tile is multiplied: its first pieces' operands, and the others' towards L2.
template <class Config, class Epilogue, class Own, class S, class P, class C>
__device__ __forceinline__ void ask_first(const P& params, const Unit& u, u32 band0, C& copier) {
  if constexpr (Own::Copies::loads > 0) {
    using Place = PiecePlace<Config, S>;
#pragma unroll 1
    for (int n = 0; n < Place::count; ++n) {
      const Place at(u, band0, n);
      if (n < C::L::load_slots) {
        copier.template ask<Own>(params, at.row, at.col, u.batch);
      } else if (at.row < params.problem.rows && at.col < columns_of<Epilogue, Own>(params)) {
        copier.template announce<Own>(params, at.row, at.col, u.batch);
      }
    }
  }
}

template <int done = 0, class T, int parts, int size>
__device__ __forceinline__ void read_strip(T (&raw)[parts][size]) {
  if constexpr (done < parts * size) {
    ptx::read_eight<done>(raw[done / size] + done % size);
    read_strip<done + 8>(raw);
  }
}

template <class Config, class Epilogue, class Own, class S, class P, class C>
__device__ __forceinline__ void finish_copied(const P& params, const Unit& u, u32 band0, u32 thread,
                                              unsigned char* scratch, C& copier) {
  using Place = PiecePlace<Config, S>;
  using Copies = typename Own::Copies;
  constexpr int steps = Own::strip_steps, cols = 16 * steps, strips = Config::piece_cols / cols;
  using Strips = ptx::Strips<S::width, Config::ways, steps>;
  static_assert(S::width % cols == 0 && Config::piece_cols % cols == 0, "pieces are of whole strips");
  static_assert(S::width % Config::piece_cols == 0 || Copies::loads == 0, "what is stored twice is not read");
  const Problem& p = params.problem;
  CopiedStrip<Own, Config::piece_cols, Config::ways, typename Config::Accumulator> strip;
  Tile tile;
  tile.batch = u.batch;
  tile.thread = (i32)thread;
  tile.threads = 128;
  // Of a row of the tile there is one partial result, which stands for its first piece's: combine() reads no other.
  typename Own::Rows sums;
  // Where rows wait for long chains of work, all of a tile is one piece of text: accumulators stay where they are.
  constexpr int at_once = steps == 4 ? Place::count : 1;
#pragma unroll(at_once)
  for (int n = 0; n < Place::count; ++n) {
    const Place at(u, band0, n);
    if (n % Place::across == 0) sums = {};
    tile.row = at.band;
    tile.col = at.col;
    const i64 rows = p.rows - tile.row, left = columns_of<Epilogue, Own>(params) - tile.col;
    const bool exists = rows > 0 && left > 0;  // the same in the whole group
    tile.rows = rows < 64 ? (i32)rows : 64;
    tile.cols = left < Config::piece_cols ? (i32)left : Config::piece_cols;
    tile.piece_m = tile.row / 64;
    tile.piece_n = tile.col / Config::piece_cols;
    unsigned char* const columns = scratch + copier.columns * 4 * S::width * 4;
    if constexpr (Copies::column_sums > 0) tile.scratch = columns + (thread / 32 * S::width + at.column) * 4;
    if (exists) strip.vectors.bring(params, tile, n % Place::across == 0);
    copier.template wait_loads<Own>();
    if (exists) {
      copier.wait_slots();
#pragma unroll
      for (int i = 0; i < Copies::loads + Copies::stores; ++i) strip.slot[i] = copier.template slot<Own>(i);
#pragma unroll 1
      for (int s = 0; s < strips; ++s) {
        strip.first = s * cols;
        Strips::template hold<0, S::bands * Strips::across>(n / Place::across * Strips::across + at.column / cols + s);
        read_strip(strip.raw);
        Own::template phase_0<P>(params, tile, strip, sums);
      }
    }
    if (n % Place::across == Place::across - 1 && rows > 0 &&
        u.tile_n * (i64)S::width < columns_of<Epilogue, Own>(params)) {
      tile.piece_n = u.tile_n * (i64)(S::width / Config::piece_cols);
      Own::template end_0<P>(params, tile, strip, sums);
    }
    copier.template hand_over<Own>(params, exists, at.row, at.col, u.batch);
    if constexpr (Copies::column_sums > 0) {
      tile.col = (i64)u.tile_n * S::width;
      const i64 all = columns_of<Epilogue, Own>(params) - tile.col;
      if (n % Place::across == Place::across - 1 && rows > 0 && all > 0) {
        ptx::named_sync(threadIdx.x / 128, 128);
        tile.cols = all < S::width ? (i32)all : S::width;
        tile.scratch = columns;
        Own::template columns_0<P>(params, tile);
        copier.columns ^= 1;
      }
    }
    if (n + C::L::load_slots < Place::count) {
      const Place next(u, band0, n + C::L::load_slots);
      copier.template ask<Own>(params, next.row, next.col, u.batch);
    }
  }
}

}  // namespace sm90
}  // namespace codetta::gpu
