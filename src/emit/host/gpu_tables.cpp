// SPDX-License-Identifier: Apache-2.0
// Kernels for a GPU as the tables of device/host/gpu_plan.h.
#include "emit/host/devices.hpp"
#include "emit/host/steps.hpp"
#include "emit/host/text.hpp"
#include "package/device_copies.hpp"
#include "package/gpu_call.hpp"

namespace codetta::emit::host {

using base::CodeWriter;

std::vector<const package::LaunchKernel*> launches_of(const package::Package& package) {
  std::vector<const package::LaunchKernel*> launches;
  const auto add = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      const auto* launch = std::get_if<package::LaunchKernel>(&step);
      if (launch != nullptr && !package::is_user(package.kernels[launch->kernel].config)) launches.push_back(launch);
    }
  };
  add(package.steps);
  for (const package::StepList& list : package.step_lists) add(list);
  return launches;
}

void print_launches(CodeWriter& out, const Program& program) {
  const auto launches = launches_of(*program.package);
  const size_t sizes = sizes_read_by(*program.package).size();
  if (!has_launches(*program.package)) return;
  const auto all = out.block_with("};", "struct Launches");
  for (size_t i = 0; i < launches.size(); ++i) {
    const package::Kernel& kernel = program.package->kernels[launches[i]->kernel];
    out.line("GpuLaunchOf<", kernel.entries.size(), ", ", kernel.epilogue.reductions.size(), "> launch_", i, ";");
  }
  if (const size_t copies = package::device_copies(*program.package).size(); copies != 0)
    out.line("DeviceCopy copies[", copies, "];  // where what they bring lies in one piece");
  if (sizes != 0) out.line("i64 sizes[", sizes, "];  // as they were when the call began");
}

std::string kernel_symbol(size_t program_index, size_t index) {
  return CodeWriter::text_of("program_", program_index, "_kernel_", index);
}

void print_gpu_kernel(CodeWriter& out, const Program& program, size_t program_index, size_t index,
                      size_t library_index) {
  const package::Kernel& kernel = program.package->kernels[index];
  const package::EpilogueProgram& epilogue = kernel.epilogue;
  const std::string symbol = kernel_symbol(program_index, index);
  const std::string image = index < program.images.size() ? program.images[index] : "nullptr";
  const std::string function = index < program.registered.size() ? ", " + program.registered[index] : "";
  if (package::is_user(kernel.config)) {
    out.line("// ", kernel.name, ": of the user's");
    out.line("constexpr plan::Entry ", symbol, "_entries[] = {{plan::entry_phase, 0, ",
             literal_text(kernel.entries[0].symbol), ", 1, 0, 1}};");
    out.line("extern const GpuKernel ", symbol, ";");
    out.line("const GpuKernel ", symbol, " = {user_kernel(", literal_text(kernel.name), ", ", symbol, "_entries), ",
             image, ", ", library_index, function, "};");
    return;
  }
  const auto* map = std::get_if<package::GpuMapConfig>(&kernel.config);
  const package::GpuGemmConfig c = map != nullptr ? package::pieces_of(*map) : package::gpu(kernel.config);
  const auto number = [](auto value) { return static_cast<int>(value); };
  const auto table = [&](const char* type, const char* name, const auto& range, const auto& row) {
    if (range.empty()) return std::string("nullptr");
    const auto rows = out.block_with("};", "constexpr plan::", type, " ", symbol, "_", name, "[] = ");
    for (const auto& one : range) row(one);
    return symbol + "_" + name;
  };
  if (map != nullptr) {
    out.line("// ", kernel.name, ": no product, pieces of ", c.piece_rows, "x", c.piece_cols);
  } else {
    out.line("// ", kernel.name, ": ", package::name_of(c.family), " ", c.tile_m, "x", c.tile_n, "x", c.tile_k, ", ",
             dtype_name(c.a_dtype), " x ", dtype_name(c.b_dtype), " in ", dtype_name(c.accumulator));
  }
  const std::string entries = table("Entry", "entries", kernel.entries, [&](const package::GpuEntry& e) {
    out.line("{", number(e.kind), ", ", e.index, ", ", literal_text(e.symbol), ", ", e.threads, ", ", e.shared_bytes,
             ", ", e.results_per_block, "},  // kind, index, symbol, threads, shared bytes, results of a block");
  });
  const std::string maps = table("Map", "maps", kernel.maps, [&](const package::CudaTensorMap& m) {
    out.line("{", number(m.source), ", ", m.column_major, ", ", m.operand, ", ", m.box_fast, ", ", m.box_slow, ", ",
             m.swizzle_bytes, "},  // source, column-major, operand, box, swizzle");
  });
  const std::string reductions =
      table("Reduction", "reductions", epilogue.reductions, [&](const package::Reduction& r) {
        out.line("{", number(r.axis), ", ", r.phase, ", ", dtype_size(r.type), ", ", package::values_of(r.kind),
                 "},  // axis, phase, bytes, values of a partial");
      });
  const std::string operands = table("OperandFacts", "operands", epilogue.operands, [&](const package::Operand& o) {
    const auto at = static_cast<size_t>(&o - epilogue.operands.data());
    const package::FoldSlots slots = package::fold_slots_of(epilogue, at);
    out.line("{", number(o.dtype), ", ", o.is_store, ", ", number(slots.batch), ", ", number(slots.row),
             "},  // dtype, stored, strides of the batch and of rows");
  });
  bool keeps = false;
  for (size_t p = 1; p < epilogue.phases.size(); ++p) keeps |= epilogue.phases[p].reads_accumulator && !c.whole_rows;
  out.line("extern const GpuKernel ", symbol, ";");
  out.line("const GpuKernel ", symbol, " = {");
  out.line("    {.name = ", literal_text(kernel.name), ", .family = ", number(c.family),
           ", .a_dtype = ", number(c.a_dtype), ", .b_dtype = ", number(c.b_dtype), ", .has_product = ", map == nullptr,
           ",");
  out.line("     .a_k_major = ", c.a_k_major, ", .b_k_major = ", c.b_k_major,
           ", .pack_a = ", map == nullptr && c.pack_a, ", .pack_b = ", map == nullptr && c.pack_b,
           ", .persistent = ", c.persistent, ", .stream_k = ", c.stream_k, ", .keeps_accumulators = ", keeps,
           ", .folds = ", map == nullptr && package::rows_fold_by_slots(epilogue), ",");
  if (const uint8_t missing = package::missing_when(epilogue, map == nullptr))
    out.line("     .missing_when = ", int{missing}, ",");
  out.line("     .accumulator_bytes = ", dtype_size(c.accumulator), ", .tile_m = ", c.tile_m, ", .tile_n = ", c.tile_n,
           ", .tile_k = ", c.tile_k, ", .cluster_m = ", c.cluster_m, ", .cluster_n = ", c.cluster_n, ",");
  out.line("     .k_split = ", c.k_split, ", .group = ", c.group, ", .alignment = ", c.alignment,
           ", .piece_rows = ", c.piece_rows, ", .piece_cols = ", c.piece_cols, ", .ways = ", epilogue.split.ways,
           ", .loaded_bytes = ", package::bytes_of_loads(epilogue), ",");
  if (c.spread_a > 1) out.line("     .spread_a = ", c.spread_a, ",");
  if (c.a_rows > 0) out.line("     .a_rows = ", c.a_rows, ",");
  if (c.combines) out.line("     .combines = true,");
  if (c.whole_rows) out.line("     .whole_rows = true,");
  out.line("     .entries = ", entries, ", .maps = ", maps, ", .reductions = ", reductions, ", .operands = ", operands,
           ",");
  out.line("     .entry_count = ", kernel.entries.size(), ", .map_count = ", kernel.maps.size(),
           ", .reduction_count = ", epilogue.reductions.size(), ", .operand_count = ", epilogue.operands.size(),
           ", .argument_count = ", epilogue.scalar_count(), "},");
  out.line("    ", image, ", ", library_index, function, "};");
}

}  // namespace codetta::emit::host
