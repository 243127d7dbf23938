// SPDX-License-Identifier: Apache-2.0
#include "plan/family_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>

#include <fmt/format.h>

#include "plan/families.hpp"
#include "plan/families_cuda.hpp"
#include "plan/families_hip.hpp"
#include "plan/families_metal.hpp"
#include "types/dtype.hpp"

namespace codetta::plan {

using package::Access;
using package::Axis;
using package::ReduceAxis;

namespace {

bool reduces(const package::EpilogueProgram& program, std::initializer_list<ReduceAxis> axes) {
  return std::any_of(program.reductions.begin(), program.reductions.end(), [&](const package::Reduction& r) {
    return std::find(axes.begin(), axes.end(), r.axis) != axes.end();
  });
}

// Rows of tiles stay in L1 or L2 from phase to phase; partials of columns are few where tiles are high.
package::CpuMapConfig cpu_config(const package::EpilogueProgram& program, CpuIsa isa) {
  package::CpuMapConfig config;
  config.isa = isa;
  const bool rows = reduces(program, {ReduceAxis::Row}), columns = reduces(program, {ReduceAxis::Column});
  if (columns && !rows) {
    config.tile_rows = 256;
    config.tile_cols = 256;
  } else if (rows) {
    config.tile_rows = columns ? 8 : 2;
    config.tile_cols = 1 << 14;
  } else {
    config.tile_rows = 16;
    config.tile_cols = 1024;
  }
  return config;
}

// Where one launch would leave most of a GPU without work, phase by phase takes less time: `piece_us` is about what a
// thread takes to load its part of a row and to reduce it, `behind_us` what a launch takes behind another.
constexpr double piece_us = 0.7, behind_us = 2;
constexpr int32_t row_threads = 256;                         // of a block that finishes rows
constexpr int32_t metal_panel_rows = 8, panels_at_once = 8;  // rows of a block; blocks on a multiprocessor

// What threads that finish rows keep, in the order in which it is tried: a kernel whose registers spill is passed over.
// Softmax of bf16[128, 2048, 2048] on an H100: 3 blocks with 32 columns a thread 770 us, 2 blocks 910.
struct Keeping {
  int32_t columns;  // of a row, that a thread has in registers until the last phase
  int32_t blocks;   // that share a multiprocessor
  double slower;    // than the first; what keeps less is not measured
  std::string_view suffix;
};
constexpr std::array<Keeping, 4> keepings{
    {{32, 3, 1, ""}, {32, 2, 1.1, "_b2"}, {16, 2, 1.2, "_r16"}, {0, 2, 1.5, "_r0"}}};
// Of maps that store no matrix, and load 16-bit elements, more blocks have room: the largest scaled element and the sum
// of exponents of the same rows with 5 blocks 432 us, 4 478, 3 518.
constexpr std::array<Keeping, 6> reducing_keepings{{{32, 5, 1.2, "_b5"},
                                                    {32, 4, 1.3, "_b4"},
                                                    {32, 3, 1.4, ""},
                                                    {32, 2, 1.5, "_b2"},
                                                    {16, 2, 1.6, "_r16"},
                                                    {0, 2, 2, "_r0"}}};

bool only_reduces_halves(const package::EpilogueProgram& program) {
  return std::all_of(program.operands.begin(), program.operands.end(), [](const package::Operand& operand) {
    const bool matrix = operand.access == package::Access::Full || operand.access == package::Access::Indexed;
    return !matrix || (!operand.is_store && types::byte_size(operand.dtype) <= 2);
  });
}

struct MapCost {
  package::GpuMapConfig config;
  double launches_us = 0;  // beyond the first
};

// Threads side by side on a row: as few as can keep it, more where rows alone leave multiprocessors without work.
int32_t threads_of_row(const MapShape& shape, int32_t lanes, int sms, int32_t columns_kept) {
  const double rows = static_cast<double>(shape.batch) * static_cast<double>(shape.rows);
  int32_t across = 16;
  const auto shares = [&] {
    const bool keeps = int64_t{across} * columns_kept >= shape.cols;
    return !keeps || (rows * across < 2.0 * sms * row_threads && int64_t{across} * lanes < shape.cols);
  };
  while (across < row_threads && shares()) across *= 2;
  return across;
}

// Behind so much work an element, vectors of 8 bytes come as fast as elements are finished, and Clang compiles half of
// the code.
bool is_long_work(const package::EpilogueProgram& program) {
  double clocks = 0;
  for (uint32_t phase = 0; phase < program.phases.size(); ++phase) clocks += phase_clocks(program, phase);
  return clocks > 24;
}

// As many columns of a block as there are, up to its threads; rows until there is work for all threads. `sms`:
// multiprocessors.
MapCost gpu_config(const package::EpilogueProgram& program, const MapShape& shape, int sms, Backend backend,
                   const Keeping& keeping = keepings[0]) {
  const bool metal = backend == Backend::metal;
  MapCost cost;
  package::GpuMapConfig& config = cost.config;
  int64_t widest = 1;
  for (const package::Operand& operand : program.operands) {
    if (operand.access == Access::Full) widest = std::max<int64_t>(widest, types::byte_size(operand.dtype));
  }
  config.lanes = widest >= 8 ? 2 : widest >= 4 ? 4 : 8;
  // Only row reductions, and every phase with them: one launch, in which a block keeps to its rows.
  config.panels = !program.reductions.empty() && program.phases.size() > 1 && reduces(program, {ReduceAxis::Row}) &&
                  std::all_of(program.reductions.begin(), program.reductions.end(),
                              [](const package::Reduction& r) { return r.axis == ReduceAxis::Row; }) &&
                  std::all_of(program.phases.begin(), program.phases.end(),
                              [](const package::Phase& p) { return p.scope != package::Scope::Whole; });
  if (backend == Backend::hip && config.panels && is_long_work(program)) config.lanes = std::min(config.lanes, 4);
  int32_t across = 16;  // threads side by side
  while (across < 32 && int64_t{across} * config.lanes < shape.cols) across *= 2;
  size_t entries = program.phases.size();
  for (size_t phase = 0; phase < program.phases.size(); ++phase) {
    entries += std::any_of(program.reductions.begin(), program.reductions.end(),
                           [&](const package::Reduction& r) { return r.phase == phase; });
  }
  cost.launches_us = static_cast<double>(entries - 1) * behind_us;
  config.piece_rows = 32;
  if (config.panels) {
    const int32_t row_across = metal ? across : threads_of_row(shape, config.lanes, sms, keeping.columns);
    const int32_t rows = metal ? metal_panel_rows : row_threads / row_across;
    const double blocks = static_cast<double>(shape.batch) * std::ceil(static_cast<double>(shape.rows) / rows);
    const double pieces = std::ceil(static_cast<double>(shape.cols) / (row_across * config.lanes));
    const double rounds = std::max(1.0, blocks / (sms * panels_at_once));
    // What is kept is loaded once, all of its pieces at the same time.
    const double passes = metal || row_across * keeping.columns < shape.cols
                              ? static_cast<double>(program.phases.size()) * pieces
                              : static_cast<double>(program.phases.size());
    const double panels = passes * piece_us * rounds;
    // With enough rows both are a matter of bytes.
    config.panels = blocks >= 2 * sms || panels <= cost.launches_us;
    if (config.panels) {
      cost.launches_us = blocks >= 2 * sms ? 0 : panels;
      across = row_across;
      config.piece_rows = rows;
      if (!metal) {
        config.kept_cols = keeping.columns;
        config.row_blocks = keeping.blocks;
        if (shape.cols_known && shape.cols <= package::max_map_cols) {
          config.row_cols = static_cast<int32_t>(shape.cols);
          config.fixed_cols = shape.cols_fixed;
        }
      }
    }
  }
  config.piece_cols = across * config.lanes;
  return cost;
}

}  // namespace

double map_bytes(const package::EpilogueProgram& program, const MapShape& shape) {
  double bytes = 0;
  std::set<uint32_t> seen;
  for (const package::Operand& operand : program.operands) {
    bool batch = false, row = false, col = false;
    for (const package::IndexTerm& term : operand.terms) {
      batch |= term.axis == Axis::Batch;
      row |= term.axis == Axis::Row;
      col |= term.axis == Axis::Col;
    }
    const double elements = (batch ? static_cast<double>(shape.batch) : 1) *
                            (row ? static_cast<double>(shape.rows) : 1) * (col ? static_cast<double>(shape.cols) : 1);
    if (!operand.is_store && !seen.insert(operand.argument).second) continue;
    bytes += elements * static_cast<double>(types::byte_size(operand.dtype));
  }
  return bytes;
}

static constexpr double first_launch_us = 3;

double map_launch_us(const package::EpilogueProgram& program, const MapShape& shape, int sms) {
  return first_launch_us + gpu_config(program, shape, sms, Backend::cuda).launches_us;
}

Discovery discover_map(const package::EpilogueProgram& program, const MapShape& shape, const Target& target,
                       const MachineFacts& machine) {
  Discovery discovery;
  const double bytes = map_bytes(program, shape);
  const double elements =
      static_cast<double>(shape.batch) * static_cast<double>(shape.rows) * static_cast<double>(shape.cols);
  const auto add = [&](std::string name, package::KernelConfig config, std::vector<CostTerm> terms) {
    Candidate& candidate = discovery.candidates.emplace_back();
    candidate.name = std::move(name);
    candidate.config = config;
    candidate.terms = std::move(terms);
    for (const CostTerm& term : candidate.terms) candidate.microseconds += term.microseconds;
  };
  const std::string moved = fmt::format("{:.0f} bytes", bytes);
  // One where no thread keeps a row; else what keeps less, too.
  const auto add_gpu = [&](const GpuFacts& gpu, double first_us) {
    const bool reduces = target.backend == Backend::cuda && only_reduces_halves(program);
    for (const Keeping& keeping :
         reduces ? std::span<const Keeping>(reducing_keepings) : std::span<const Keeping>(keepings)) {
      const auto [config, launches] = gpu_config(program, shape, gpu.sms, target.backend, keeping);
      // Rows of any length have forms of their own beside those of the expected one, which leave too few registers for
      // five.
      if (config.panels && keeping.blocks > 4 && !config.fixed_cols) continue;
      add(fmt::format("{}_map_{}x{}{}{}_{}", target.backend == Backend::cuda ? "cuda" : "hip", config.piece_rows,
                      config.piece_cols, config.panels ? "_panels" : "", config.panels ? keeping.suffix : "",
                      target.arch),
          config,
          {{"memory", bytes / gpu.memory_rate * 1e-3 * (config.panels ? keeping.slower : 1), moved},
           {"launch", first_us + launches, "one or more kernels"}});
      if (!config.panels) return;
    }
  };
  if (target.backend == Backend::cpu) {
    const package::CpuMapConfig config = cpu_config(program, target.isa);
    double clocks = 0;
    for (const package::Phase& phase : program.phases) {
      for (const package::Inst& inst : phase.insts) {
        if (inst.kind == package::Inst::Kind::Op) clocks += vector_clocks(inst.op, inst.type);
      }
    }
    const double lanes = target.isa >= CpuIsa::avx512 ? 16 : target.isa == CpuIsa::avx2 ? 8 : 4;
    const double cores = std::max(machine.cores, 1);
    add(fmt::format("cpu_map_{}x{}_{}", config.tile_rows, config.tile_cols, isa_name(target.isa)), config,
        {{"memory", bytes / (machine.memory_rate * cores) * 1e-3, moved},
         {"operations", elements / lanes * clocks / (machine.ghz * cores) * 1e-3,
          fmt::format("{:.1f} clocks a vector", clocks)}});
  } else if (target.backend == Backend::cuda && arch_number(target.arch) != 0) {
    add_gpu(machine.gpu.arch == target.arch ? machine.gpu : gpu_facts(target.arch), first_launch_us);
  } else if (target.backend == Backend::metal) {
    const GpuFacts gpu = metal_facts(target.arch);
    const auto [config, launches] = gpu_config(program, shape, gpu.sms, target.backend);
    add(fmt::format("metal_map_{}x{}{}_{}", config.piece_rows, config.piece_cols, config.panels ? "_panels" : "",
                    gpu.arch),
        config, {{"memory", bytes / gpu.memory_rate * 1e-3, moved}, {"dispatch", 8 + launches, "one or more kernels"}});
  } else if (const HipArchitecture* arch = target.backend == Backend::hip ? find_hip(target.arch) : nullptr) {
    add_gpu(arch->facts, 5);
  } else {
    discovery.rejections.push_back(
        {static_cast<uint16_t>(diag::Code::target_without_families),
         {},
         fmt::format("{} has no kernel families in this version; cpu, cuda, hip and metal have", target.to_string()),
         {}});
  }
  return discovery;
}

}  // namespace codetta::plan
