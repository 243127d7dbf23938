// SPDX-License-Identifier: Apache-2.0
// The cost model of CUDA kernels. Multiplying and bringing operands happen at once, so that operands count only beyond
// the multiplication; the epilogue counts as far as the schedule leaves it exposed. Constants are calibrated by the
// figures of bench/NOTES.md, section sm_90a; only the order of candidates is meant to be right.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/beyond_h100.hpp"
#include "plan/families.hpp"
#include "plan/families_cuda.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {
namespace {

constexpr double sm_rate = 95;                            // bytes per nanosecond that one multiprocessor takes in
constexpr double load_rate = 20, store_rate = 40;         // of the epilogue, per multiprocessor: loads are waited for
constexpr double slice_rate = 30;                         // of the last block, which reads all slices one by one
constexpr double lanes_per_clock = 128;                   // f32 operations of a multiprocessor
constexpr double piece_clocks = 0.05;                     // an element's way through shared memory
constexpr double direct_clocks = 0.02, direct_rate = 20;  // the exchange between lanes, and stores in short runs
constexpr double copied_clocks = 0.03, copied_load_rate = 45, copied_rate = 60;  // by the copy engine
constexpr double pass_us = 0.45;   // a piece with rows beyond the edge loads its rows pass by pass, and waits each time
constexpr double copied_us = 0.6;  // until its last store has arrived
constexpr double entry_us = 2;     // each further kernel of the same run
constexpr double later_us_each = 3;  // of later phases: they wait for all before
constexpr double idle_share = 0.03;  // of L2's time, where something else decides: what reads less comes first
constexpr double atomic_us = 1.2, barrier_clocks = 60;  // the last block's wait for slices; a piece's two barriers

double bytes_of(DType dtype, double elements) { return static_cast<double>(types::byte_size(dtype)) * elements; }

struct EpilogueCost {
  double clocks = 0;             // of one element of the root space
  double loads = 0, stores = 0;  // its bytes
};

void add_access(const package::Operand& operand, bool copied, EpilogueCost& cost) {
  const bool full = operand.access == package::Access::Full || operand.access == package::Access::Indexed;
  double& bytes = operand.is_store ? cost.stores : cost.loads;
  const bool adjacent =
      operand.unit_stride || (copied && (operand.column_major || operand.access == package::Access::Indexed));
  if (full) bytes += static_cast<double>(types::byte_size(operand.dtype)) * (adjacent ? 1 : 4);
  // Addresses and conversion, a vector of four at a time; element by element where columns are not adjacent, unless the
  // copy engine takes adjacent rows.
  cost.clocks += (full && adjacent ? 1 : operand.access == package::Access::Column ? 0.3 : 4) / lanes_per_clock;
}

EpilogueCost epilogue_cost(const GpuProblem& p, const package::Phase& phase, double way = piece_clocks,
                           bool copied = false) {
  EpilogueCost cost;
  if (!p.epilogue.spaces.empty()) {  // an element's is that of its product
    double all = 0;
    for (const int64_t columns : p.shape.widths) all += static_cast<double>(columns);
    for (size_t i = 0; i < p.epilogue.spaces.size(); ++i) {
      const package::EpilogueProgram program = package::program_of(p.epilogue, i);
      const GpuProblem own{program, p.shape, p.gpu};
      const EpilogueCost one = epilogue_cost(own, program.phases[0], way, copied);
      const double share = static_cast<double>(p.shape.widths[i]) / std::max(all, 1.0);
      cost.clocks += share * one.clocks, cost.loads += share * one.loads, cost.stores += share * one.stores;
    }
    return cost;
  }
  if (phase.reads_accumulator) cost.clocks += way * static_cast<double>(p.ways());
  for (const package::Inst& inst : phase.insts) {
    // Positions of columns are computed for two rows, in 32 bits and by numbers that are known.
    const bool place = copied && is_position(inst);
    if (inst.kind == package::Inst::Kind::Op)
      cost.clocks += (place ? 1 : vector_clocks(inst.op, inst.type)) / lanes_per_clock;
    if (inst.kind == package::Inst::Kind::Load) add_access(p.epilogue.operands[inst.index], copied, cost);
  }
  for (const package::Store& store : phase.stores) add_access(p.epilogue.operands[store.operand], copied, cost);
  for (const package::Reduction& reduction : p.epilogue.reductions) {
    if (package::values_of(reduction.kind) == 1) {
      cost.clocks += 4.0 / lanes_per_clock;
    } else if (&p.epilogue.phases[reduction.phase] == &phase) {
      const bool at_once = copied || reduction.kind == package::ReduceKind::SumExp;
      cost.clocks += (at_once ? sum_exp_clocks : log_sum_exp_clocks) / lanes_per_clock;
    }
  }
  return cost;
}

struct Model {
  const GpuProblem& p;
  const GpuGemmConfig& c;
  Mainloop loop;
  double batch, m, n, k, cols, sms;
  double tiles, units;    // tiles of all batch items; with their slices
  double active, rounds;  // multiprocessors that have work; units that the busiest of them does
  double root_elements;   // of a tile

  Model(const GpuProblem& problem, const GpuFamilyInfo& family, const GpuGemmConfig& config)
      : p(problem), c(config), loop(family.mainloop(problem, config)) {
    batch = static_cast<double>(p.shape.batch);
    m = static_cast<double>(p.shape.m);
    n = static_cast<double>(p.shape.n);
    k = static_cast<double>(p.shape.k);
    cols = static_cast<double>(p.root_cols());
    sms = std::max(p.gpu.sms, 1);
    const double width = c.tile_n / static_cast<double>(p.ways());
    const auto whole = [](double tiles_along, int cluster) { return std::ceil(tiles_along / cluster) * cluster; };
    tiles = batch * whole(std::ceil(m / c.tile_m), c.cluster_m) *
            whole(static_cast<double>(p.column_tiles(c.tile_n / p.ways())), c.cluster_n);
    units = tiles * c.k_split;
    const double cluster = c.cluster_m * c.cluster_n;
    const double places = std::floor(sms / cluster) * cluster;
    active = std::clamp(units, 1.0, places);
    rounds = std::ceil(units / places);
    if (c.stream_k) active = places, rounds = units / places;
    root_elements = c.tile_m * width;
  }
  [[nodiscard]] double us(double clocks) const { return clocks / (p.gpu.ghz * 1000); }

  [[nodiscard]] double product_us(std::string& note) const {
    note = fmt::format("{:.0f} tiles on {:.0f} of {:.0f} {}, {:.0f} each at most ({:.2f} on average); {}", units,
                       active, sms, p.gpu.arch.starts_with("gfx") ? "compute units" : "multiprocessors", rounds,
                       units / active, loop.note);
    return us(loop.clocks * rounds);
  }

  // Of elements of a factor; of what they are computed from where it is made.
  [[nodiscard]] double a_bytes(double elements) const {
    return p.shape.a_made ? elements * p.shape.a_read_bytes : bytes_of(c.a_dtype, elements);
  }
  [[nodiscard]] double b_bytes(double elements) const {
    return p.shape.b_made ? elements * p.shape.b_read_bytes : bytes_of(c.b_dtype, elements);
  }
  // Bytes from device memory: each operand once, or, where they do not fit into L2 together, what the tiles of one
  // raster group have in common once for each round.
  [[nodiscard]] double memory_bytes() const {
    const double a = a_bytes(m * k) * (p.shape.one_a() ? 1 : batch);
    const double b = b_bytes(n * k) * (p.shape.one_b() ? 1 : batch);
    if (a + b <= 0.8 * static_cast<double>(p.gpu.l2) || p.shape.m <= c.tile_m) return a + b;
    const double group = std::min<double>(c.group, std::ceil(m / c.tile_m));
    const double along = std::min(std::ceil(active / group), std::ceil(n / c.tile_n));
    const double round = a_bytes(group * c.tile_m * k) + b_bytes(along * c.tile_n * k);
    return std::max(a + b, round * rounds / c.k_split);
  }
  [[nodiscard]] double operands_us(std::string& note) const {
    const double memory = memory_bytes() / (p.gpu.memory_rate * loop.memory_share);
    const double l2 = loop.bytes * units / p.gpu.l2_rate;
    const double own = loop.bytes * rounds / sm_rate;
    const double most = std::max({memory, l2, own}), ns = most + (most == l2 ? 0 : idle_share * l2);
    note =
        fmt::format("{:.1f} MB of memory, {:.1f} MB of L2; {} decides", memory_bytes() / 1e6, loop.bytes * units / 1e6,
                    most == memory ? "memory"
                    : most == l2   ? "L2"
                                   : "a multiprocessor's share");
    return ns / 1000;
  }

  [[nodiscard]] double epilogue_us(std::string& note) const {
    EpilogueCost cost = epilogue_cost(p, p.epilogue.phases[0],
                                      c.copied           ? copied_clocks
                                      : c.from_registers ? direct_clocks
                                                         : piece_clocks,
                                      c.copied);
    for (size_t i = 1; c.whole_rows && i < p.epilogue.phases.size(); ++i) {
      const EpilogueCost later = epilogue_cost(p, p.epilogue.phases[i]);
      cost.clocks += later.clocks, cost.loads += later.loads, cost.stores += later.stores;
    }
    const double pieces = std::ceil(root_elements / (c.piece_rows * c.piece_cols));
    // The columns of a last piece that is not whole are finished a row at a time.
    const double width = c.tile_n / static_cast<double>(p.ways());
    const bool by_pieces = !c.from_registers && !c.copied;
    const double ragged = by_pieces ? std::fmod(width, c.piece_cols) / width : 0;
    const double waits = by_pieces ? pieces * barrier_clocks : 0;
    const double rate = c.copied ? copied_rate : c.from_registers ? direct_rate : store_rate;
    const double from = c.copied ? copied_load_rate : load_rate;
    // Several strips are under way at once; lines of memory that two tiles share are written twice.
    // Two tiles under way with more than 128 accumulators a thread leave no registers for that.
    const bool crowded = c.pingpong && c.tile_m * c.tile_n > 128 * 128;
    // A last piece that is not whole begins inside of the one before it: columns are finished and stored twice.
    const double again = c.copied ? std::ceil(width / c.piece_cols) * c.piece_cols / width : 1;
    // Cooperative warps of at most 128 x 128 have two strips each: too few to be under way at once (an H200, bias +
    // GELU and i8 at 4096^3: 228 and 111 us by the copy engine, 226 and 108 by pieces).
    const bool few_strips =
        c.family == GpuFamily::Sm90 && c.consumers > 1 && !c.pingpong && c.tile_m * c.tile_n <= 128 * 128;
    const double compute = (c.copied && !few_strips ? 0.65 : 1) * (crowded ? 1.8 : 1) * again,
                 lines = c.copied && std::fmod(width, 64) != 0 ? std::max(1.3, again) : 1;
    const double tile =
        compute * (1 + 1.5 * ragged) * us(cost.clocks * root_elements + waits) +
        root_elements * (cost.loads / from + lines * cost.stores / rate) * (1 + ragged) * (crowded ? 1.8 : 1) / 1000;
    const double done = c.k_split > 1 ? std::max(1.0, rounds / c.k_split) : rounds;  // tiles that one block finishes
    const double memory = root_elements * tiles * (cost.loads + lines * cost.stores) / p.gpu.memory_rate / 1000;
    // Groups that take turns at the products hide no exponents: these keep the schedulers busy that both need (an H100,
    // scores of 128 x 2048 x 2048: 939 us in tiles of 128 x 128, 767 in cooperative ones of 128 x 256).
    const double share = sums_exponents(p.epilogue) ? 1 : loop.exposed;
    const bool waits_each_pass = c.family == GpuFamily::Sm90 && by_pieces && cost.loads > 0 && m < c.piece_rows;
    const double passes = pieces * std::min(m, 16.0) * c.piece_cols / (32.0 * c.lanes);  // a warp has 16 rows
    // With one consumer stores by the copy engine are no later than others (few rows on an H200, tiles of 64 columns on
    // an H100 too: 0.4 to 1.4 us earlier).
    const bool alone = c.family == GpuFamily::Sm90 && c.consumers == 1;
    const double until_stored = copied_us * (!alone ? 1 : c.tile_n <= 64 ? 0 : 1 - memory_beyond_h100(p.gpu));
    const double exposed = tile * (1 + share * (done - 1)) + (c.copied          ? until_stored
                                                              : waits_each_pass ? pass_us * passes
                                                                                : 0);
    note = fmt::format("{:.2f} clocks and {:.0f} bytes an element, {:.2f} us a tile, {:.0f} % of it exposed",
                       cost.clocks, cost.loads + cost.stores, tile, 100 * share);
    return std::max(exposed, 0.3 * memory);
  }

  [[nodiscard]] double slices_us(std::string& note) const {
    if (c.k_split == 1 && !c.stream_k) return 0;
    const double part = bytes_of(c.accumulator, static_cast<double>(c.tile_m) * c.tile_n);
    const double rate = p.gpu.arch.starts_with("gfx") ? sm_rate : slice_rate;  // not measured on AMD's
    if (c.stream_k) {
      note = fmt::format("tiles cut into equal shares of K, in parts of {:.0f} bytes", part);
      return 3 * atomic_us + part * 5 / rate / 1000;  // two or three parts left and taken by each block
    }
    note = fmt::format("{} slices of {:.0f} bytes, summed by the last block", c.k_split, part);
    return atomic_us + part * (rounds + c.k_split) / rate / 1000;
  }

  // Reads a factor that lies badly, and writes it as the product reads it.
  [[nodiscard]] double packing_us(std::string& note) const {
    double bytes = 0;
    if (c.pack_a) bytes += 2 * bytes_of(c.a_dtype, m * k) * (p.shape.one_a() ? 1 : batch);
    if (c.pack_b) bytes += 2 * bytes_of(c.b_dtype, n * k) * (p.shape.one_b() ? 1 : batch);
    if (bytes == 0) return 0;
    note = fmt::format("{}{} copied to rows of whole 16 bytes, {:.1f} MB", c.pack_a ? "A" : "", c.pack_b ? "B" : "",
                       bytes / 1e6);
    return entry_us + bytes / p.gpu.memory_rate / 1000;
  }

  [[nodiscard]] double later_us(std::string& note) const {
    if (c.whole_rows) return 0;
    double result = 0, kept = 0;
    int entries = 0;
    const double elements = batch * m * cols;
    for (size_t i = 0; i < p.epilogue.phases.size(); ++i) {
      const package::Phase& phase = p.epilogue.phases[i];
      if (std::any_of(p.epilogue.reductions.begin(), p.epilogue.reductions.end(),
                      [&](const package::Reduction& r) { return r.phase == i; }))
        ++entries;
      if (i == 0) continue;
      ++entries;
      const EpilogueCost cost = epilogue_cost(p, phase);
      double bytes = cost.loads + cost.stores;
      if (phase.reads_accumulator) {
        bytes += bytes_of(c.accumulator, static_cast<double>(p.ways()));
        kept = bytes_of(c.accumulator, elements * static_cast<double>(p.ways()));
      }
      // What only stores results of rows or columns is at one element of each.
      const double visited = phase.reads_accumulator || bytes > 0 ? elements : batch * std::max(m, cols);
      result += std::max(us(cost.clocks * visited / sms), elements * bytes / p.gpu.memory_rate / 1000);
    }
    if (entries == 0) return 0;
    note = fmt::format("{} further kernels, {:.1f} MB of accumulators kept", entries, kept / 1e6);
    return result + entries * later_us_each + kept / p.gpu.memory_rate / 1000;
  }
};

}  // namespace

std::vector<CostTerm> cuda_cost_terms(const GpuProblem& problem, const GpuFamilyInfo& family,
                                      const GpuGemmConfig& config) {
  const GemmShape shape = spread_rows(problem.shape, config.spread_a);
  const GpuProblem spread{problem.epilogue, shape, problem.gpu};
  const Model model(spread, family, config);
  std::vector<CostTerm> terms;
  std::string note;
  const auto add = [&](std::string name, double us) {
    if (us > 0) terms.push_back({std::move(name), us, note});
  };
  const double product = model.product_us(note);
  add("multiply", product);
  add("operands beyond", model.operands_us(note) - product);
  double us = model.epilogue_us(note);
  add("epilogue", us);
  us = model.slices_us(note);
  add("slices of K", us);
  us = model.packing_us(note);
  add("packing", us);
  us = model.later_us(note);
  add("later phases", us);
  note = "launch, first copies, last stores";
  add("prologue", model.loop.prologue_us);
  return terms;
}

}  // namespace codetta::plan
