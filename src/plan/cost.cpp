// SPDX-License-Identifier: Apache-2.0
// The cost model. Each term is a time of its own; streaming B counts only where it takes longer than computing, because
// both happen at once. Constants without a unit in their name are clocks or bytes per nanosecond.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/cpu/abi.h"
#include "package/cpu_call.hpp"
#include "plan/families.hpp"
#include "plan/fused.hpp"
#include "types/dtype.hpp"
#include "types/machine.hpp"

namespace codetta::plan {

using types::Op;

double vector_clocks(Op op, DType type) {
  const bool integer = !types::is_float(type) && !types::is_bool(type);
  const auto base = [&]() -> double {
    switch (op) {
      case Op::div:
      case Op::sqrt:
      case Op::rsqrt:
      case Op::reciprocal:
      case Op::leaky_relu:
        return 5;
      case Op::floordiv:
      case Op::mod:
        return integer ? 40 : 8;  // integers divide one lane at a time
      case Op::sign:
      case Op::clamp:
      case Op::drelu:
      case Op::cast:
      case Op::hardswish:
      case Op::hardsigmoid:
        return 2;
      case Op::exp:
      case Op::exp2:
      case Op::log:
      case Op::log2:
        return 7;
      case Op::expm1:
      case Op::log1p:
      case Op::sin:
      case Op::cos:
      case Op::erf:
      case Op::tanh:
      case Op::sigmoid:
      case Op::silu:
      case Op::elu:
        return 10;
      case Op::gelu_tanh:
      case Op::gelu_erf:
      case Op::dsigmoid:
      case Op::dtanh:
      case Op::dsilu:
        return 12;
      case Op::pow:
        return integer ? 8 : 20;
      case Op::softplus:
      case Op::mish:
      case Op::dgelu_erf:
      case Op::dgelu_tanh:
        return 20;
      case Op::dropout:
        return 60;  // ten rounds of Philox in integer arithmetic
      default:
        return 1;
    }
  };
  return base() * (types::bits(type) == 64 ? 2 : 1);
}

bool sums_exponents(const package::EpilogueProgram& program) {
  return std::any_of(program.reductions.begin(), program.reductions.end(),
                     [](const package::Reduction& reduction) { return reduction.kind == package::ReduceKind::SumExp; });
}

double phase_clocks(const package::EpilogueProgram& program, uint32_t index) {
  double clocks = 0;
  for (const package::Inst& inst : program.phases[index].insts) {
    if (inst.kind == package::Inst::Kind::Op) clocks += vector_clocks(inst.op, inst.type);
    if (types::byte_size(inst.type) == 8) clocks += 4;
  }
  for (const package::Reduction& reduction : program.reductions) {
    if (reduction.phase != index) continue;
    clocks += reduction.kind == package::ReduceKind::LogSumExp ? log_sum_exp_clocks
              : reduction.kind == package::ReduceKind::SumExp  ? sum_exp_clocks
                                                               : 1;
  }
  return clocks;
}

namespace {

constexpr double issue_clocks = 0.1;  // lost for each load or broadcast beside the multiply-adds, measured
constexpr double run_bytes = 256;     // a stream in pieces of so many bytes reaches half of its rate, measured
constexpr double waiting_share =
    0.5;  // of memory's rate, where each block of columns comes back to all rows of B, measured
constexpr double hidden_share = 0.125;  // of multiplying, for as long as which A comes unnoticed, measured
constexpr double fma_latency = 4, loads_per_clock = 2;
constexpr double dot_clocks = 14;  // of each sum across a vector, measured
constexpr double tile_us = 0.05, launch_us = 0.15, fan_out_us = 3, slice_us = 0.5;
constexpr double pack_rate = 12, transpose_rate = 5;  // bytes per nanosecond, read and written
constexpr double least_parallel_work = 0.15e6;        // multiplications below which the pool is left alone

double level_rate(const MachineFacts& machine, double bytes) {
  if (bytes <= static_cast<double>(machine.l2) / 2) return machine.l2_rate;
  return bytes <= static_cast<double>(machine.l3) / 2 ? machine.l3_rate : machine.memory_rate;
}

double bytes_of(DType dtype, double elements) { return static_cast<double>(types::byte_size(dtype)) * elements; }
double ceil_div(double a, double b) { return std::ceil(a / b); }
double in_runs(double bytes) { return bytes / (bytes + run_bytes); }

// Clocks of one k step of a block of r rows and v vectors: multiply-adds, loads, or the latency of too few
// accumulators.
double step_clocks(const FamilyProblem& p, double r, double v) {
  if (p.set->padded)
    return 16 * ceil_div(r, 16) * v / (p.set->k_unit / p.set->group);  // tile registers: 16 clocks a tile product
  return std::max({r * v / p.machine.fma_vectors_per_clock, (r + v) / loads_per_clock, fma_latency}) +
         issue_clocks * (r + v);
}

struct Model {
  const FamilyProblem& p;
  const CpuGemmConfig& c;
  double batch, m, n, k, root_cols, tiles, threads, balance;

  Model(const FamilyProblem& problem, const CpuGemmConfig& config) : p(problem), c(config) {
    const GemmShape& s = p.shape;
    batch = static_cast<double>(s.batch);
    m = static_cast<double>(s.m);
    n = static_cast<double>(s.n);
    k = static_cast<double>(s.k);
    root_cols = n / p.epilogue.split.ways;
    tiles = batch * ceil_div(m, c.tile_rows) * ceil_div(root_cols, c.tile_cols) * c.k_split;
    const bool parallel = p.machine.cores > 1 && tiles > 1 && batch * m * n * k > least_parallel_work;
    threads = parallel ? std::min<double>(p.machine.cores, tiles) : 1;
    balance = tiles > 0 ? ceil_div(tiles, threads) * threads / tiles : 1;  // > 1: some threads wait for the last tiles
  }
  [[nodiscard]] double clocks_to_us(double clocks) const { return clocks / (p.machine.ghz * 1000); }

  [[nodiscard]] double steps_k() const { return ceil_div(k, p.set->group); }
  [[nodiscard]] double compute_us(std::string& note) const {
    const double v = static_cast<double>(c.nr) / p.set->lanes;
    const double panels = ceil_div(n, c.nr);
    const double blocks = std::floor(m / c.mr), tail = m - blocks * c.mr;
    const auto per_step = [&](double vectors) {
      return blocks * step_clocks(p, c.mr, vectors) +
             (tail > 0 ? step_clocks(p, p.set->padded ? c.mr : tail, vectors) : 0);
    };
    const double whole = std::floor(n / c.nr),
                 rest = ceil_div(n - whole * c.nr, p.set->lanes);  // the last panel has fewer vectors
    double clocks = batch * steps_k() * (whole * per_step(v) + (rest > 0 ? per_step(rest) : 0));
    if (p.dots) {  // vectors along k and a horizontal sum for each element
      const double step = std::max(0.5, 5.0 / 8);
      clocks = batch * m * n * (ceil_div(k, p.set->lanes) * step + dot_clocks);
    }
    note = fmt::format("{:.0f} vector steps of {} x {} at {} a clock",
                       batch * panels * steps_k() * ceil_div(std::max(m, 1.0), c.mr), c.mr, c.nr,
                       p.machine.fma_vectors_per_clock);
    return clocks_to_us(clocks);
  }
  // B flows through the cores once per group of rows.
  [[nodiscard]] double stream_b_us(std::string& note) const {
    const bool one_b = p.shape.one_b();
    const double matrix =
        c.family == CpuFamily::Convert ? bytes_of(p.shape.accumulator, k * n) : bytes_of(p.shape.b, k * n);
    const double passes =
        c.family == CpuFamily::InPlace ? ceil_div(m, c.tile_rows) : ceil_div(m, std::max(c.mc, c.tile_rows));
    const double total = matrix * batch * std::max(1.0, passes);
    double rate = level_rate(p.machine, (one_b ? matrix : matrix * batch) + p.shape.beside);
    if (c.family == CpuFamily::InPlace && !p.dots && matrix > static_cast<double>(p.machine.l2) &&
        !fetches_b(p, c, c.kc)) {
      rate *= in_runs(bytes_of(p.shape.b, std::min<double>(c.tile_cols, n)));
      // Kernels of one vector ask for the lines to the right.
      const bool waits = m > 1 && c.nr > p.set->lanes && !reads_long_rows(p, c.tile_cols);
      if (waits) rate *= waiting_share;
    }
    note = fmt::format("{:.0f} bytes of B, {:.0f} times, at {} bytes/ns", matrix * batch, std::max(1.0, passes), rate);
    return total / rate / 1000;
  }
  // In place, every further block of rows of a tile reads B again from beyond L1, which multiplying does not hide.
  [[nodiscard]] double reread_b_us(std::string& note) const {
    const double blocks = ceil_div(std::min<double>(m, c.tile_rows), c.mr);
    if (c.family != CpuFamily::InPlace || blocks <= 1 || fetches_b(p, c, c.kc) ||
        bytes_of(p.shape.b, k * n) < static_cast<double>(p.machine.l2))
      return 0;
    note = fmt::format("{} blocks of rows a tile", blocks);
    return bytes_of(p.shape.b, k * n) * batch * (blocks - 1) * ceil_div(m, c.tile_rows) / p.machine.l3_rate / 1000;
  }
  [[nodiscard]] double pack_b_us(std::string& note) const {
    if ((c.family == CpuFamily::InPlace && !p.shape.b_made) || p.shape.b_packed) return 0;
    const double items = p.shape.one_b() ? 1 : batch;
    const double in = bytes_of(p.shape.b, k * n * items);
    const double out = c.family == CpuFamily::Convert ? bytes_of(p.shape.accumulator, k * n * items) : in;
    const double rate = p.shape.b_col_stride == 1 ? pack_rate : transpose_rate;
    if (p.shape.b_made) {  // from and to the first-level cache
      const double clocks = (2 + p.shape.b_clocks) * k * n * items / std::max(1.0, static_cast<double>(p.set->lanes));
      note = fmt::format("{:.0f} elements of B are computed at {:.0f} clocks a vector", k * n * items,
                         2 + p.shape.b_clocks);
      const bool moved = rate != pack_rate && c.family != CpuFamily::InPlace;
      // In front of dot products only where one row of tiles needs them.
      const double times = c.family == CpuFamily::InPlace ? ceil_div(m, c.tile_rows) : 1;
      return times * clocks_to_us(clocks) + (moved ? in / rate / 1000 : 0);
    }
    note = fmt::format("{:.0f} bytes at {:.3g} bytes/ns, in every run", in, rate);
    return (in + out) / rate / 1000 + launch_us;
  }
  [[nodiscard]] double pack_a_us(std::string& note) const {
    const bool rows = p.shape.a_k_stride == 1 || k <= 1;
    const bool widens = types::byte_size(p.shape.a) != types::byte_size(p.shape.accumulator) &&
                        (c.family == CpuFamily::Convert || c.family == CpuFamily::InPlace);
    if (rows && !c.pack_a && !widens && !p.set->padded) return 0;
    const double in = bytes_of(p.shape.a, m * k * batch);
    const double out = widens ? bytes_of(p.shape.accumulator, m * k * batch) : in;
    const double rate = rows ? 2 * pack_rate : transpose_rate;
    note = fmt::format("{:.0f} bytes at {:.3g} bytes/ns", in, rate);
    return (in + out) / rate / 1000;
  }
  // Rows of A that share B come from beyond L2 for each tile of columns.
  [[nodiscard]] double again_a_us(std::string& note) const {
    const bool stored = c.family != CpuFamily::Convert;
    const DType read = stored ? p.shape.a : p.shape.accumulator;
    const double rows = std::min<double>(m, std::max(c.mc, c.tile_rows)), group = bytes_of(read, rows * k);
    if (c.family == CpuFamily::InPlace || p.set->padded || group <= static_cast<double>(p.machine.l2) / 2) return 0;
    const double times = ceil_div(root_cols, c.tile_cols), rate = level_rate(p.machine, group);
    note = fmt::format("{:.0f} bytes of A, {:.0f} times, at {} bytes/ns", bytes_of(read, m * k * batch), times, rate);
    return bytes_of(read, m * k * batch) * times / rate / 1000;
  }
  // Rows of A a multiple of a page apart share cache sets: what a block has beyond the eight lines of a set misses L1.
  [[nodiscard]] double alias_us(std::string& note) const {
    constexpr double ways = 8, clocks_a_step = 0.3;  // measured at 12, 14 and 16 rows
    const double beyond = std::min<double>(c.mr, m) - ways;
    if (c.pack_a || p.set->padded || beyond <= 0 || p.shape.a_row_stride % (4096 / types::byte_size(p.shape.a)) != 0)
      return 0;
    note = fmt::format("rows of A are {} bytes apart", p.shape.a_row_stride * types::byte_size(p.shape.a));
    return clocks_to_us(batch * steps_k() * ceil_div(n, c.nr) * ceil_div(m, c.mr) * clocks_a_step * beyond * beyond);
  }
  // Whether the operand is stored past the caches, as far as that is known before tensors are bound: `written` bytes go
  // to such outputs for each element (TileFragment::out of device/cpu/fragment.h). What the engine stores itself, what
  // is stored from registers, and what NEON stores does not.
  [[nodiscard]] bool stores_past(uint32_t index, double written) const {
    const package::Operand& operand = p.epilogue.operands[index];
    if (!goes_by_rows(operand) || c.family == CpuFamily::Fused || package::only_stores(p.epilogue) ||
        p.machine.isa == CpuIsa::neon)
      return false;
    const int64_t lanes = types::isa_info(p.machine.isa).vector_bytes / (has_wide_values(p.epilogue) ? 8 : 4);
    const int64_t vector = lanes * types::byte_size(operand.dtype);
    const bool known = index < p.shape.operands.size();
    const int64_t row = known ? p.shape.operands[index].row : p.shape.n / p.epilogue.split.ways;
    return vector >= 32 && row * types::byte_size(operand.dtype) % vector == 0 &&
           batch * m * root_cols * written >= static_cast<double>(codetta::cpu::past_caches);
  }
  static bool goes_by_rows(const package::Operand& operand) {
    return operand.access == package::Access::Full && operand.unit_stride;
  }
  [[nodiscard]] double epilogue_us(std::string& note) const {
    double clocks = 0, bytes = 0, past = 0, all_clocks = 0, narrowest = 8;
    const auto through_caches = [&](const package::Operand& operand) {
      if (goes_by_rows(operand)) narrowest = std::min(narrowest, bytes_of(operand.dtype, 1));
    };
    const double elements = batch * m * root_cols;
    for (const package::Phase& phase : p.epilogue.phases) {
      // B's panel flows through the other half of L1 meanwhile.
      const double beside = p.shape.products > 1 ? p.epilogue.split.ways : 1;
      const bool spills =
          bytes_of(p.shape.accumulator, beside * c.tile_rows * c.tile_cols) > 0.5 * static_cast<double>(p.machine.l1);
      double vector = phase.reads_accumulator ? (spills ? 4.0 : 2.0) * p.epilogue.split.ways
                                              : 0;  // accumulators pass through L1, or L2
      for (const package::Inst& inst : phase.insts) {
        if (inst.kind == package::Inst::Kind::Op) vector += vector_clocks(inst.op, inst.type);
        if (inst.kind == package::Inst::Kind::Load) {
          vector += access_clocks(p.epilogue.operands[inst.index], bytes, elements);
          through_caches(p.epilogue.operands[inst.index]);
        }
      }
      double written = 0;
      for (const package::Store& store : phase.stores) {
        const package::Operand& operand = p.epilogue.operands[store.operand];
        if (goes_by_rows(operand)) written += bytes_of(operand.dtype, 1);
      }
      for (const package::Store& store : phase.stores) {
        const package::Operand& operand = p.epilogue.operands[store.operand];
        double moved = 0;
        vector += access_clocks(operand, moved, elements);
        // A store in the caches reads the line first.
        if (stores_past(store.operand, written)) {
          past += moved;
        } else {
          bytes += 2 * moved;
          through_caches(operand);
        }
      }
      clocks += vector;
    }
    clocks += 2.0 * static_cast<double>(p.epilogue.reductions.size());
    const double lanes = std::max(1.0, static_cast<double>(p.set->lanes));
    all_clocks = clocks * elements / lanes;
    double rate = level_rate(p.machine, bytes);
    if (bytes > static_cast<double>(p.machine.l2))
      rate *= in_runs(narrowest * std::min<double>(c.tile_cols, root_cols));
    // Stores past the caches wait for nothing to come: their rate is the same in pieces of any length from 128 bytes on
    // (cpu_probe runs, bench/NOTES.md).
    const double past_rate = p.machine.memory_rate;
    note = fmt::format("{:.0f} clocks a vector of {} elements, {:.0f} bytes at {:.3g} bytes/ns", clocks, lanes, bytes,
                       rate);
    if (past > 0) note += fmt::format(", {:.0f} past the caches at {:.3g}", past, past_rate);
    return clocks_to_us(all_clocks) + (bytes / rate + past / past_rate) / 1000;
  }
  static double access_clocks(const package::Operand& operand, double& bytes, double elements) {
    const bool full = operand.access == package::Access::Full || operand.access == package::Access::Indexed;
    if (full) bytes += bytes_of(operand.dtype, elements);
    if (operand.access == package::Access::Indexed || (full && !operand.unit_stride)) return 16;  // element by element
    if (operand.access == package::Access::Column || operand.access == package::Access::Scalar)
      return operand.is_store ? 0 : 0.2;
    return types::byte_size(operand.dtype) < 4 ? 2 : 1;
  }
  // Phases that come back to accumulators make the engine keep them.
  [[nodiscard]] double kept_us(std::string& note) const {
    double bytes = 0, moved = 0;
    for (size_t i = 1; i < p.epilogue.phases.size(); ++i) {
      const package::Phase& phase = p.epilogue.phases[i];
      if (!phase.reads_accumulator) continue;
      const double rows = phase.scope == package::Scope::Whole ? m * batch : std::min<double>(c.tile_rows, m);
      bytes = std::max(bytes, bytes_of(p.shape.accumulator, rows * n));
      moved += 2 * bytes_of(p.shape.accumulator, m * n * batch);
    }
    if (moved == 0) return 0;
    note = fmt::format("{:.0f} bytes of accumulators are kept for later phases", bytes);
    return moved / level_rate(p.machine, bytes) / 1000;
  }
  [[nodiscard]] double overhead_us(std::string& note) const {
    note = fmt::format("{:.0f} tiles of {} x {} on {} thread{}", tiles, c.tile_rows, c.tile_cols, threads,
                       threads == 1 ? "" : "s");
    double us = launch_us + tiles * tile_us / threads;
    if (c.family == CpuFamily::InPlace && !p.dots)
      us += clocks_to_us(batch * ceil_div(n, c.nr) * ceil_div(m, c.mr) * 4);
    if (threads > 1) us += fan_out_us;
    if (c.k_split > 1)
      us += slice_us * c.k_split +
            bytes_of(p.shape.accumulator, 2 * m * n * batch * c.k_split) / p.machine.l3_rate / threads / 1000;
    return us;
  }
};

}  // namespace

std::vector<CostTerm> cost_terms(const FamilyProblem& problem, const CpuGemmConfig& config) {
  const Model model(problem, config);
  std::vector<CostTerm> terms;
  const auto add = [&](std::string name, double us, std::string note) {
    if (us > 0) terms.push_back({std::move(name), us, std::move(note)});
  };
  // The value first: it fills the note, and arguments have no order of evaluation.
  std::string note;
  const double compute = model.compute_us(note) * model.balance / model.threads;
  add("compute", compute, note);
  // Two cores read memory about 1.9 times as fast as one, more cores hardly faster.
  const double readers = std::min(model.threads, 2.0);
  const double stream = model.stream_b_us(note) / readers;
  double us = 0;
  // Fetching takes some of the slots that the multiply-adds leave: blocks with fewer of them win.
  add("B beyond compute", stream - (fetches_b(problem, config, config.kc) ? 0.95 : 1.0) * compute, note);
  us = model.reread_b_us(note) / readers;
  add("B again", us, note);
  us = model.pack_b_us(note) / readers;
  add("pack B", us, note);
  us = model.pack_a_us(note) / model.threads;
  add("pack A", us, note);
  us = model.again_a_us(note) / readers;
  add("A beyond compute", us - hidden_share * compute, note);
  us = model.alias_us(note) / model.threads;
  add("A aliasing", us, note);
  us = model.epilogue_us(note) * model.balance / model.threads;
  add("epilogue", us, note);
  us = model.kept_us(note) / model.threads;
  add("kept accumulators", us, note);
  us = model.overhead_us(note);
  add("tiles and threads", us, note);
  if (config.family == CpuFamily::Fused) {
    add("whole kernel", 0.15 * compute, "compiles in 0.15 to 0.55 s instead of 0.05: it must win by measurement");
  }
  return terms;
}

}  // namespace codetta::plan
