// SPDX-License-Identifier: Apache-2.0
// The CUDA families as data: what each refuses, the configurations it offers, and how its main loop runs; and the
// geometry that a configuration implies, which emit/ prints and device/cuda computes once more.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/candidates.hpp"

namespace codetta::plan {

using package::GpuFamily;
using package::GpuGemmConfig;

int arch_number(std::string_view arch);  // "sm_90a": 90; 0 where there is no number

// The problem as the CUDA families meet it.
struct GpuProblem {
  const package::EpilogueProgram& epilogue;
  const GemmShape& shape;
  const GpuFacts& gpu;  // gpu.arch is the target's

  [[nodiscard]] int64_t ways() const { return epilogue.split.ways; }
  // Columns of a part that lie side by side; of parts that are products of their own all do.
  [[nodiscard]] int64_t chunk() const {
    constexpr int64_t all = int64_t{1} << 40;
    return epilogue.split.own_ways() == 1 ? all : epilogue.split.chunk.as_constant().value_or(0);
  }
  [[nodiscard]] int64_t root_cols() const { return shape.n / ways(); }
  // Tiles of `width` root columns, of each product's by themselves where these have root spaces of their own.
  [[nodiscard]] int64_t column_tiles(int64_t width) const {
    const auto tiles = [&](int64_t columns) { return (columns + width - 1) / width; };
    if (shape.widths.empty()) return tiles(root_cols());
    int64_t all = 0;
    for (const int64_t columns : shape.widths) all += tiles(columns);
    return all;
  }
  // Root columns of the widest product.
  [[nodiscard]] int64_t widest_cols() const {
    int64_t widest = shape.widths.empty() ? root_cols() : 0;
    for (const int64_t columns : shape.widths) widest = columns > widest ? columns : widest;
    return widest;
  }
  // Whether all columns of a part lie side by side, however many a run has.
  [[nodiscard]] bool one_chunk() const {
    return epilogue.split.own_ways() == 1 || (!shape.any_n && chunk() >= root_cols());
  }
  [[nodiscard]] bool empty() const { return shape.batch == 0 || shape.m == 0 || root_cols() == 0; }
};

// How one unit of work (a tile of one slice of K) runs, for the cost model.
struct Mainloop {
  double clocks = 0;         // of the matrix or FMA pipes for the unit, with what the schedule loses
  double bytes = 0;          // that the unit brings from L2 into its multiprocessor
  double blocks_per_sm = 1;  // resident at once; they share the pipes
  double exposed = 1;  // of the epilogue, but for the last unit's: what no multiplication hides, and is late behind it
  double prologue_us = 1;   // from launch to the first multiplication, and clusters
  double memory_share = 1;  // of the memory's rate that its copies reach
  std::string note;         // of what the clocks are made
};

struct GpuFamilyInfo {
  GpuFamily family;
  // Whether a user of this architecture and these dtypes would expect an answer; otherwise the family stays silent.
  bool (*concerns)(const GpuProblem&);
  // Why the family does not take the problem.
  std::optional<Rejection> (*refuse)(const GpuProblem&);
  // All that are legal, in a fixed order; none if refuse() says so.
  std::vector<GpuGemmConfig> (*configurations)(const GpuProblem&);
  Mainloop (*mainloop)(const GpuProblem&, const GpuGemmConfig&);
};
// In family order, which is the order of rejections: first the one that takes any types and layouts. Families that
// have no kernels yet only refuse.
std::span<const GpuFamilyInfo> cuda_families();

// Rows of tiles of a raster group of Sm90 and Sm100, which names leave unsaid.
int32_t raster_group(const GpuGemmConfig& config);
// "cuda_sm90_128x192x64_pp_c2x1_sm_90a"
std::string cuda_kernel_name(const GpuGemmConfig& config, std::string_view arch);
std::vector<CostTerm> cuda_cost_terms(const GpuProblem& problem, const GpuFamilyInfo& family,
                                      const GpuGemmConfig& config);
Rejection cuda_rejection(GpuFamily family, diag::Code code, std::string text);
// Why a family offers none of its tiles: what a split asks for, or sizes. `padding`: it leaves out tiles of which at
// most half of the rows or columns would be used, and its smallest are 16 x 64 and 64 x 32.
std::pair<diag::Code, std::string> no_tile(const GpuProblem& p, bool padding);
// Of a problem that no configuration takes: where sizes alone are why, which of a smaller one `fits` takes some.
std::optional<std::string> beyond_a_grid(const GpuProblem& p, const std::function<bool(const GpuProblem&)>& fits);

// How the threads of a group lie over a piece of accumulators, and what their reductions need.
struct PieceLayout {
  int lanes = 4;              // columns of a row that a thread holds; more than the configuration's where rows of a
                              // reduction would not fit a warp otherwise
  int across = 16;            // threads side by side along a row
  int scratch_per_warp = 16;  // bytes
  [[nodiscard]] int scratch_bytes(int threads) const { return threads / 32 * scratch_per_warp; }
};
PieceLayout piece_layout(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config);

// Whether a piece of `piece_cols` root columns may hold whole rows (GpuGemmConfig::whole_rows): there are later phases,
// which need nothing but reductions of these rows, and no more columns than that, whatever sizes are.
bool holds_rows(const GpuProblem& problem, int32_t piece_cols);
// Of a result of such a reduction in shared memory.
int result_bytes(const package::EpilogueProgram& epilogue);

// Whether an epilogue is light enough to take its accumulators from registers: a few operations at each element, one
// matrix stored and none loaded, no reductions.
bool takes_registers(const package::EpilogueProgram& epilogue);

// The operands that the copy engine can bring and take in phase 0 (device/cuda/kernels/copies.h), all that have rows
// and columns: indices into the program's operands. None where one of them, or something else that the phase does,
// needs another path: operands with neither adjacent columns nor rows, indexed ones, elements of 1 or 8 bytes,
// reductions but of rows and columns. Both lists are empty where only these are reduced and nothing else is done.
// Of products with root spaces of their own those of one follow those of another: all of them go by the engine, or
// none.
struct Copies {
  std::vector<uint32_t> loads, stores;
  int column_sums = 0;  // reductions of columns
};
std::optional<Copies> copies_of(const package::EpilogueProgram& epilogue);
// Of 64 bits, and computed from positions, as where a mask compares them; the engine counts these in 32.
bool is_position(const package::Inst& inst);

// Whether the product's last block combines the reductions of phase 0 (GpuGemmConfig::combines): few rows, in blocks
// whose threads all come to the end with registers of their own.
bool combines_rows(const GpuProblem& problem, const GpuGemmConfig& config);

// A problem whose rows of A are dealt out to spread_a items of a batch (GpuGemmConfig), as kernels then see it.
GemmShape spread_rows(const GemmShape& shape, int32_t spread_a);

// The same numbers as codetta::gpu::sm90::Shape of device/cuda/kernels/sm90.h.
struct Sm90Shape {
  int64_t a_boxes = 1, b_boxes = 1, a_box_rows = 0, b_box_rows = 0;  // copies of a stage, and their rows along M and N
  int64_t stage_bytes = 0, piece_bytes = 0, scratch_bytes = 0;       // the latter two of one consumer
  int64_t shared_bytes = 0;
  int accumulators = 0;  // of a thread
  int multiplied = 0;    // the same and, of MathMode::Fp8TwoLevelAccumulation, those of the products that are under way
  int load_slots = 0;    // copied: pieces whose operands are on their way or there
};
Sm90Shape sm90_shape(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config);
inline constexpr int64_t sm90_shared_limit = 232448;  // bytes of a block, PTX ISA
// Beyond them the assembler spills.
inline constexpr int sm90_accumulators = 192, sm90_accumulators_busy = 160, sm90_accumulators_split = 96,
                     sm90_accumulators_streamed = 96;

// Of an Sm100 configuration tile_m is a block's rows, cluster_m = 2 a pair of blocks that work on one product,
// consumers are warpgroups that finish tiles (a further one makes A, where that is made); not persistent: the grid is
// launched whole, and blocks take over what has not begun. The same numbers as codetta::gpu::sm100::Shape of
// device/cuda/kernels/sm100.h.
struct Sm100Shape {
  int64_t a_boxes = 1, b_boxes = 1, b_box_cols = 0;             // copies of a stage, and the columns of one of B
  int64_t stage_bytes = 0, piece_bytes = 0, scratch_bytes = 0;  // the latter two of one warpgroup
  int64_t barrier_bytes = 0;                                    // of a stage
  int64_t shared_bytes = 0;
  int tensor_columns = 0;  // of tensor memory, for two sets of accumulators
};
Sm100Shape sm100_shape(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config);

// Of device/cuda/kernels/sm80.h: rows of warps in a tile (0: it cannot be split), and dynamic shared memory.
int sm80_warps_along_m(int tile_m, int tile_n, int warps);
int64_t sm80_shared_bytes(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config);

// The same numbers as codetta::gpu::stream::Shape of device/cuda/kernels/stream.h.
struct StreamShape {
  int warp_n = 0, block = 0, depth = 0, loads = 0, step_k = 0;
  int64_t shared_bytes = 0;
};
StreamShape stream_shape(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config);
// Blocks that a multiprocessor is to hold, for which registers have to be found.
int stream_blocks(const package::EpilogueProgram& epilogue, const GpuGemmConfig& config);

// Units of work that wait for memory: few rows, where little is multiplied for what is brought.
struct Waiting {
  double units = 1, slots = 1;             // all of them; those that the device holds at once
  double bytes = 0, memory_bytes = 0;      // that a unit asks for of B; its share of those that come from memory
  double read_bytes = 0;                   // that a unit brings of both factors
  double in_flight = 0, latency_ns = 1;    // a unit's bytes on their way, and how long they are
  double memory_rate = 1, l2_rate = 1e30;  // of the device, bytes per nanosecond
  double own_rate = 1e30;                  // of one multiprocessor
};
double waiting_ns(const GpuFacts& gpu, const Waiting& waiting);

// What computing factors where they are read adds to a unit of `k` steps: clocks, and other bytes than the factors'.
void add_making(const GpuProblem& problem, const GpuGemmConfig& config, double k, Mainloop& loop);

// Families, one file each.
std::optional<Rejection> refuse_simt(const GpuProblem& problem);
// What device/gpu/kernels/simt.h keeps in shared memory at most: operands, and in their place later the accumulators of
// a piece; scratch of reductions beside them.
int64_t simt_shared_bytes(const GpuProblem& problem, const GpuGemmConfig& config);
std::vector<GpuGemmConfig> simt_configurations(const GpuProblem& problem);
// The same where a grid has so many threads at most.
std::vector<GpuGemmConfig> simt_configurations_within(const GpuProblem& problem, int64_t grid_threads);
Mainloop simt_mainloop(const GpuProblem& problem, const GpuGemmConfig& config);
std::optional<Rejection> refuse_sm80(const GpuProblem& problem);
std::vector<GpuGemmConfig> sm80_configurations(const GpuProblem& problem);
Mainloop sm80_mainloop(const GpuProblem& problem, const GpuGemmConfig& config);
std::optional<Rejection> refuse_stream(const GpuProblem& problem);
std::vector<GpuGemmConfig> stream_configurations(const GpuProblem& problem);
Mainloop stream_mainloop(const GpuProblem& problem, const GpuGemmConfig& config);
std::optional<Rejection> refuse_sm100(const GpuProblem& problem);
std::vector<GpuGemmConfig> sm100_configurations(const GpuProblem& problem);
Mainloop sm100_mainloop(const GpuProblem& problem, const GpuGemmConfig& config);
std::optional<Rejection> refuse_sm90(const GpuProblem& problem);
std::vector<GpuGemmConfig> sm90_configurations(const GpuProblem& problem);
Mainloop sm90_mainloop(const GpuProblem& problem, const GpuGemmConfig& config);

}  // namespace codetta::plan
