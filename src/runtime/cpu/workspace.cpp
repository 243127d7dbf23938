// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/workspace.hpp"

#include <algorithm>

namespace codetta::runtime::cpu {
namespace {

bool starts_segment(const Phase& phase) {
  return phase.scope == Scope::Whole || phase.space == Space::Columns || phase.space == Space::Once;
}

void cut_segments(WorkspaceMap& map, std::span<const Phase> phases) {
  const int count = static_cast<int>(phases.size());
  for (int i = 0; i < count; ++i) {
    const Phase& phase = phases[static_cast<size_t>(i)];
    const bool after_reduced = i > 0 && (phases[static_cast<size_t>(i) - 1].space == Space::Columns ||
                                         phases[static_cast<size_t>(i) - 1].space == Space::Once);
    if (i == 0 || starts_segment(phase) || after_reduced) map.segment[map.segments++].begin = i;
    map.segment[map.segments - 1].end = i + 1;
  }
}

// Packed B of a run with unpacked weights is bounded: at most this, or one tile column (one row of tiles with
// RowPanel).
constexpr int64_t packed_b_limit = int64_t{32} << 20;

}  // namespace

WorkspaceMap map_workspace(const Layout& l, const GemmProblem& p, const EpilogueCall* epilogue, int threads) {
  WorkspaceMap map;
  map.threads = std::max(1, threads);
  map.grid = {l.batch, l.m, l.root_cols, l.tiles_r, l.tiles_c};
  const std::span<const Phase> phases = epilogue != nullptr ? epilogue->phases : std::span<const Phase>{};
  const std::span<const Reduction> reductions =
      epilogue != nullptr ? epilogue->reductions : std::span<const Reduction>{};
  cut_segments(map, phases);
  if (l.slices > 1) map.retain = Retain::Whole;
  for (int s = 0; s < map.segments && map.retain != Retain::Whole; ++s) {
    for (int i = map.segment[s].begin; i < map.segment[s].end; ++i) {
      const Phase& phase = phases[static_cast<size_t>(i)];
      if (s > 0 && phase.accumulators && phase.space == Space::Tiles) map.retain = Retain::Whole;
      if (s == 0 && phase.scope == Scope::RowPanel && map.retain == Retain::None) map.retain = Retain::RowPanel;
    }
  }

  size_t at = 0;
  const auto take = [&](int64_t bytes) {
    const size_t offset = at;
    at += static_cast<size_t>(round_up(std::max<int64_t>(bytes, 0), line));
    at = std::min(at, static_cast<size_t>(too_many_bytes));
    return offset;
  };
  const int64_t tiles_kept = map.retain == Retain::RowPanel ? std::max<int64_t>(l.tiles_c, 1) : 1;
  map.thread_a = static_cast<size_t>(times(tiles_kept, l.tile_bytes));
  map.thread_b = map.thread_a + static_cast<size_t>(round_up(l.a_pack_bytes, line));
  map.thread_area = map.thread_b;
  if (l.makes_in_tile) {
    const int64_t elements =
        l.form == Form::Dots ? columns_made * std::min(l.kc, std::max<int64_t>(l.k, 1)) : block_made * l.nr;
    map.thread_area += static_cast<size_t>(round_up(elements * l.b_size, line));
  }
  take(times(static_cast<int64_t>(map.thread_area), map.threads));

  map.chunk_batches = std::max<int64_t>(l.batch, 1);
  map.chunk_tiles = std::max<int64_t>(l.tiles_c, 1);
  map.b_area = at;
  if (l.form == Form::Panels && p.packed_b == nullptr && !l.makes_in_tile) {
    const int64_t items = p.one_b() ? 1 : l.batch;
    if (times(l.packed_bytes, items) > packed_b_limit) {
      map.chunk_batches = std::clamp<int64_t>(packed_b_limit / std::max<int64_t>(l.packed_bytes, 1), 1, l.batch);
      if (map.chunk_batches == 1 && map.retain != Retain::RowPanel) {
        const int64_t tile_bytes = times(l.tile_cols / l.nr, l.ways, l.panel_bytes);
        map.chunk_tiles = std::clamp<int64_t>(packed_b_limit / std::max<int64_t>(tile_bytes, 1), 1, map.chunk_tiles);
      }
    }
    const int64_t panels = std::min(l.panels, map.chunk_tiles * (l.tile_cols / l.nr));
    take(times(panels, l.ways, l.panel_bytes, p.one_b() ? 1 : map.chunk_batches));
    if (p.one_b()) map.chunk_batches = std::max<int64_t>(l.batch, 1);  // a shared panel is packed once for all items
  }
  map.accumulators = at;
  if (map.retain == Retain::Whole) take(times(l.slices, l.batch, l.tiles_r, l.tiles_c, l.tile_bytes));
  for (size_t i = 0; i < reductions.size() && i < max_reductions; ++i) {
    const int64_t size = dtype_bytes(reductions[i].dtype);
    map.partials[i] = take(times(partial_count(reductions[i], map.grid), size));
    map.results[i] = take(times(result_count(reductions[i], map.grid), size));
  }
  map.total = std::max<size_t>(at, 64);
  return map;
}

}  // namespace codetta::runtime::cpu
