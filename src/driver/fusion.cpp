// SPDX-License-Identifier: Apache-2.0
#include "driver/fusion.hpp"

#include <utility>

#include <fmt/format.h>

#include "package/epilogue_program.hpp"
#include "types/op.hpp"

namespace codetta::driver {
namespace {

using package::EpilogueProgram;
using package::Inst;

std::string_view read_as(package::Access access) {
  switch (access) {
    case package::Access::Full:
      return "element by element";
    case package::Access::Row:
      return "one value a column, shared by all rows";
    case package::Access::Column:
      return "one value a row, shared by all columns";
    case package::Access::Scalar:
      return "one value, shared by all elements";
    case package::Access::Indexed:
      return "at indices that follow from row and column: layout steps became an index";
  }
  return "";
}

std::string_view kind_of(package::ReduceKind kind) {
  switch (kind) {
    case package::ReduceKind::Sum:
      return "sum";
    case package::ReduceKind::Max:
      return "maximum";
    case package::ReduceKind::Min:
      return "minimum";
    case package::ReduceKind::LogSumExp:
      return "logsumexp";
    case package::ReduceKind::SumExp:
      return "sum of exp(x - maximum)";
  }
  return "";
}

std::string_view extent_of(package::ReduceAxis axis) {
  switch (axis) {
    case package::ReduceAxis::Row:
      return "each row";
    case package::ReduceAxis::Column:
      return "each column";
    case package::ReduceAxis::All:
      return "everything";
    case package::ReduceAxis::Item:
      return "each batch item";
  }
  return "";
}

// Names of the operations of the epilogue, in order, over all phases.
std::vector<std::string> operations(const EpilogueProgram& program) {
  std::vector<std::string> names;
  for (const package::Phase& phase : program.phases) {
    for (const Inst& inst : phase.insts) {
      if (inst.kind == Inst::Kind::Op) names.emplace_back(types::op_info(inst.op).name);
    }
  }
  return names;
}

bool whole_rows(const plan::PlannedKernel& kernel) {
  if (kernel.discovery.candidates.empty()) return false;
  const auto* gpu = std::get_if<package::GpuGemmConfig>(&kernel.discovery.candidates[kernel.chosen].config);
  return gpu != nullptr && gpu->whole_rows;
}

// Where the accumulators are when the epilogue reads them.
std::string_view accumulators_lie(const EpilogueProgram& program, const plan::PlannedKernel& kernel) {
  if (whole_rows(kernel))
    return "of which a piece holds whole rows, so that what needs their reductions follows at once";
  bool of_rows = false, whole = false;
  for (size_t i = 1; i < program.phases.size(); ++i) {
    if (!program.phases[i].reads_accumulator) continue;
    (program.phases[i].scope == package::Scope::Whole ? whole : of_rows) = true;
  }
  if (whole) return "which are kept in the workspace until the reductions are finished";
  if (of_rows) return "which are kept for a row of tiles until its reductions are finished";
  if (kernel.discovery.candidates.empty()) return "";
  const package::KernelConfig& config = kernel.discovery.candidates[kernel.chosen].config;
  const auto* cpu = std::get_if<package::CpuGemmConfig>(&config);
  if (const auto* gpu = std::get_if<package::GpuGemmConfig>(&config);
      gpu != nullptr && (gpu->k_split > 1 || gpu->stream_k))
    return "which slices of K leave in the workspace, once the block that arrives last has added them";
  if (cpu == nullptr) return "before they leave the kernel";
  if (cpu->k_split > 1) return "which are kept in the workspace until the slices of K are added";
  if (cpu->family == package::CpuFamily::Fused) return "while they are in registers, which are never written";
  return "a tile at a time, while it is in the first-level cache";
}

// How a factor lies; `k_is_last`: in the form that the product is written in, [M, K] x [K, N].
std::string layout_line(char factor, bool made, int64_t along_k, int64_t across, bool k_is_last) {
  if (made) return fmt::format("{}: computed where the product reads it, never written", factor);
  const std::string_view own = factor == 'A' ? "M" : "N";
  const auto [last, first] = k_is_last ? std::pair(along_k, across) : std::pair(across, along_k);
  const auto form = [&](bool k_last) { return k_last ? fmt::format("[{}, K]", own) : fmt::format("[K, {}]", own); };
  if (last == 1) return fmt::format("{}: lies as {}, read as it is", factor, form(k_is_last));
  if (first == 1)
    return fmt::format("{}: lies as {}; the transposition is in its strides, no transposed copy is made", factor,
                       form(!k_is_last));
  return fmt::format("{}: strides of {} along K and {} across are taken as they are", factor, along_k, across);
}

}  // namespace

std::string time_line(const opt::PassRecord& pass) {
  return fmt::format("{}: {:.1f} us{}", pass.name, pass.microseconds, pass.changed ? "" : " (unchanged)");
}

std::vector<std::string> fusion_lines(const std::vector<opt::PassRecord>& passes, const plan::PlannedKernel& kernel) {
  const EpilogueProgram& program = kernel.lowered.program;
  const plan::GemmShape& shape = kernel.shape;
  std::vector<std::string> lines;
  for (const opt::PassRecord& pass : passes) {
    if (pass.skipped) lines.push_back(fmt::format("{}: skipped, as asked", pass.name));
    for (const opt::Fired& fired : pass.fired)
      lines.push_back(fmt::format("{}: {} ({} times)", pass.name, fired.equation, fired.count));
  }
  if (lines.empty()) lines.emplace_back("rewrites: none applies");
  const std::vector<std::string> ops = operations(program);
  if (!ops.empty()) {
    lines.push_back(fmt::format("epilogue: {} operation{} ({}) on the accumulators, {}", ops.size(),
                                ops.size() == 1 ? "" : "s", fmt::join(ops, ", "), accumulators_lie(program, kernel)));
  } else {
    lines.emplace_back(program.reductions.empty() ? "epilogue: no operation; the accumulators are stored as they are"
                                                  : "epilogue: no operation but reductions of the accumulators");
  }
  for (const package::Operand& operand : program.operands) {
    const std::string& name = program.arguments[operand.argument].name;
    if (operand.is_store) {
      lines.push_back(fmt::format("output {}: written once, by the product's own kernel", name));
    } else {
      lines.push_back(fmt::format("input {}: read where it is used, {}", name, read_as(operand.access)));
    }
  }
  for (const package::Reduction& reduction : program.reductions) {
    lines.push_back(fmt::format("reduction: the {}{} of {} is collected where its values are computed",
                                reduction.mean ? "mean by " : "", kind_of(reduction.kind), extent_of(reduction.axis)));
  }
  const size_t phases = program.phases.size();
  if (phases > 1) {
    size_t again = 0;
    for (size_t i = 1; i < phases; ++i) again += program.phases[i].reads_accumulator ? 1 : 0;
    lines.push_back(whole_rows(kernel)
                        ? fmt::format("phases: {}, one behind the other in the product's own kernel", phases)
                    : again > 0 ? fmt::format("phases: {}; accumulators are kept for {} of them, which need a finished "
                                              "reduction",
                                              phases, again)
                                : fmt::format("phases: {}; the later ones only finish reductions", phases));
  }
  if (program.split.ways > 1)
    lines.push_back(fmt::format("split: {} parts of the columns are combined in registers", program.split.ways));
  lines.push_back(layout_line('A', shape.a_made, shape.a_k_stride, shape.a_row_stride, true));
  lines.push_back(layout_line('B', shape.b_made, shape.b_k_stride, shape.b_col_stride, false));
  return lines;
}

}  // namespace codetta::driver
