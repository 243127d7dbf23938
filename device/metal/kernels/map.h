// SPDX-License-Identifier: Apache-2.0
// Maps whose reductions are of rows only, in one launch: a threadgroup finishes piece_rows rows, phase by phase, so
// that they come from the caches after the first. Everything else runs as the later phases of a product do.
#pragma once

#include "device/metal/phase.h"

namespace codetta::gpu {

// The rows that a threadgroup is at.
struct Panel {
  i64 batch, piece_m;
  threadgroup char* scratch;
  i32 id, threads;
};

// `Body::run(params, tile)` for each piece of the panel's rows. What they write is visible to the threadgroup behind
// it.
template <class Config, class Body, class P>
CODETTA_FN void panel_phase(constant P& params, Panel panel) {
  constant Problem& p = params.problem;
  const i64 pieces_n = at_least_1(p.pieces_n);
  for (i64 n = 0; n < pieces_n; ++n) {
    Tile<const device typename Config::Accumulator*> t;
    t.acc = nullptr, t.acc_ld = 0, t.acc_part_stride = 0;
    t.batch = panel.batch, t.row = panel.piece_m * Config::piece_rows, t.col = n * Config::piece_cols;
    t.rows = (i32)(p.rows - t.row < Config::piece_rows ? p.rows - t.row : Config::piece_rows);
    t.cols = (i32)(p.cols - t.col < Config::piece_cols ? p.cols - t.col : Config::piece_cols);
    if (p.batches == 0) t.rows = t.cols = 0;
    t.piece_m = panel.piece_m, t.piece_n = n;
    t.id = panel.id, t.count = panel.threads, t.scratch = panel.scratch;
    Body::run(params, t);
  }
  device_barrier();
}

// A row reduction from its partials: a thread a row, in the order of the pieces.
template <class Config, template <class> class State, bool mean, int parts, class T, class P>
CODETTA_FN void panel_finish(constant P& params, int k, Panel panel) {
  constexpr int width = State<T>::width;
  constant Problem& p = params.problem;
  const i64 row0 = panel.piece_m * Config::piece_rows;
  for (i32 r = panel.id; r < Config::piece_rows && row0 + r < p.rows && p.batches != 0; r += panel.threads) {
    const device T* from =
        (const device T*)params.reduction[k].partials + (panel.batch * p.pieces_n * p.rows + row0 + r) * width;
    Folding<State, T> s;
    for (i64 n = 0; n < p.pieces_n; ++n) s.take(from, n * p.rows);
    ((device T*)params.reduction[k].results)[panel.batch * p.rows + row0 + r] = s.template result<mean>(p.cols * parts);
  }
  device_barrier();
}

// `Body::run(params, panel)` for each panel.
template <class Config, class Body, class P>
CODETTA_FN void run_panels(constant P& params, threadgroup char* scratch, Place place, int threads) {
  constant Problem& p = params.problem;
  const i64 batches = at_least_1(p.batches), pieces_m = at_least_1(p.pieces_m);
  for (i64 batch = place.group.z; batch < batches; batch += place.groups.z) {
    for (i64 m = place.group.y; m < pieces_m; m += place.groups.y)
      Body::run(params, Panel{batch, m, scratch, (i32)place.id, threads});
  }
}

}  // namespace codetta::gpu
