// SPDX-License-Identifier: Apache-2.0
// Metal's translation unit: configuration, one function a phase, and the kernels around them. What differs from CUDA's
// (cuda.cpp): no lambdas, so that a phase is a struct with a static function and rows are a plain loop; no waiting
// between threadgroups of one dispatch, so that slices of K are summed by a kernel of their own; threadgroup memory is
// an argument of the kernel, whose length the host sets.
#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/code_writer.hpp"
#include "device/embedded.hpp"
#include "diag/diagnostic.hpp"
#include "emit/gpu_phases.hpp"
#include "emit/metal.hpp"
#include "emit/metal_factors.hpp"
#include "emit/phase_printer.hpp"
#include "plan/families_metal.hpp"

namespace codetta::emit {

using base::CodeWriter;
using package::GpuEntry;
using package::GpuFamily;
using package::GpuGemmConfig;

namespace {

struct MetalFamilySource {
  GpuFamily family;
  std::string_view header, function;
};
constexpr std::array metal_family_sources{
    MetalFamilySource{GpuFamily::Simt, "device/metal/kernels/simt.h", "gemm_simt"},
    MetalFamilySource{GpuFamily::Simdgroup, "device/metal/kernels/simdgroup.h", "gemm_simdgroup"},
};
constexpr MetalFamilySource metal_map_source{GpuFamily::Simt, "device/metal/kernels/map.h", {}};

constexpr int metal_phase_threads = 256, metal_results_per_group = 32;
constexpr std::array<std::string_view, 5> metal_states{"SumState", "MaxState", "MinState", "LogSumExpState",
                                                       "SumExpState"};

Error cannot_emit_metal(std::string headline, std::string reason) {
  return diag::error(diag::Code::internal, std::move(headline))
      .reason(std::move(reason))
      .help("this is a bug in Codetta; please report it with the epilogue");
}

std::string_view metal_storage_name(DType d) {
  switch (d) {
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::f8e4m3:
      return "f8e4m3";
    case DType::f8e5m2:
      return "f8e5m2";
    default:
      return metal_dialect().type(d).element;
  }
}

int in_sixteens(int bytes) { return (std::max(bytes, 1) + 15) / 16 * 16; }

class MetalPrinter {
 public:
  // `map`: the configuration is that of its pieces, and there is no product.
  MetalPrinter(const package::EpilogueProgram& program, const GpuGemmConfig& config, const MetalFamilySource& family,
               const MetalEmitOptions& options, const package::GpuMapConfig* map = nullptr)
      : program_(program),
        config_(config),
        family_(family),
        options_(options),
        map_(map),
        layout_(plan::piece_layout(program, config)) {}
  Result<MetalSource> print();

 private:
  void print_config(CodeWriter& out) const;
  Result<void> print_phase_function(CodeWriter& out, uint32_t index);
  void print_piece(CodeWriter& out, uint32_t index, const PhaseText& phase) const;
  void print_entries(CodeWriter& out, MetalSource& result) const;
  void print_combine(CodeWriter& out, uint32_t phase) const;
  void print_panels(CodeWriter& out) const;
  // A panel finishes reductions and stores them in one launch.
  [[nodiscard]] bool stored_by_combining(uint32_t index) const {
    return !(map_ != nullptr && map_->panels) && only_stores_results(program_, index);
  }
  [[nodiscard]] bool reduces_in(uint32_t phase) const {
    return std::any_of(program_.reductions.begin(), program_.reductions.end(),
                       [&](const package::Reduction& r) { return r.phase == phase; });
  }
  // K is cut, and phase 0 is a kernel of its own that sums the slices.
  [[nodiscard]] bool splits() const { return map_ == nullptr && config_.k_split > 1; }

  const package::EpilogueProgram& program_;
  const GpuGemmConfig& config_;
  const MetalFamilySource& family_;
  const MetalEmitOptions& options_;
  const package::GpuMapConfig* map_;
  plan::PieceLayout layout_;
  std::set<PartLibrary::Request> needs_;
};

void MetalPrinter::print_config(CodeWriter& out) const {
  const auto config = out.block_with("};", "struct Config");
  out.line("using A = ", metal_storage_name(config_.a_dtype), ";");
  out.line("using B = ", metal_storage_name(config_.b_dtype), ";");
  out.line("using Accumulator = ", metal_storage_name(config_.accumulator), ";");
  const auto number = [&](std::string_view name, int value) {
    out.line("static CODETTA_CONSTANT int ", name, " = ", value, ";");
  };
  number("tile_m", config_.tile_m);
  number("tile_n", config_.tile_n);
  number("tile_k", config_.tile_k);
  number("stages", config_.stages);
  number("consumers", config_.consumers);
  number("k_split", config_.k_split);
  number("piece_rows", config_.piece_rows);
  number("piece_cols", config_.piece_cols);
  number("threads", config_.threads);
  number("ways", program_.split.ways);
  if (config_.family == GpuFamily::Simdgroup) number("groups_m", plan::metal_groups_along_m(config_));
  out.line("static CODETTA_CONSTANT bool a_k_major = ", config_.a_k_major, ";");
  out.line("static CODETTA_CONSTANT bool b_k_major = ", config_.b_k_major, ";");
}

// All threads walk equally many rows; those without a row, or without columns, still take part in reductions.
void MetalPrinter::print_piece(CodeWriter& out, uint32_t index, const PhaseText& phase) const {
  out.line("template <bool whole, class P, class T>");
  const auto function =
      out.block("static CODETTA_MEMBER void piece_", index, "(constant P& params, const thread T& tile)");
  out.line("TileFragment<whole, ", layout_.across, ", P, T> f(params, tile);");
  put_setup(out, phase);
  if (!phase.column.empty()) {
    const auto guard = out.block("if (f.n > 0 && (", phase.column_guard, "))");
    put_lines(out, phase.column);
  }
  if (phase.has_full_work || !phase.row.empty()) {
    put_lines(out, phase.by_column);
    const auto rows = out.block("for (i32 pass = 0; pass < f.passes(); ++pass)");
    out.line("f.to_row(pass);");
    for (const Held& state : phase.row_states) out.line(state.type, " ", state.name, ";");
    {
      const auto row = out.block("if (f.has_row())");
      put_lines(out, phase.row);
      if (phase.has_full_work) {
        const auto columns = out.block("if (f.n > 0)");
        for (const Held& load : phase.loads) out.line("const ", load.type, " ", load.name, " = ", load.text, ";");
        put_lines(out, phase.full);
      }
    }
    for (const Held& state : phase.row_states) out.line("f.reduce_row(", state.text, ", ", state.name, ");");
  }
  put_lines(out, phase.end);
}

Result<void> MetalPrinter::print_phase_function(CodeWriter& out, uint32_t index) {
  const auto accumulator = [&](uint32_t part) {
    return CodeWriter::text_of("f.template accum<", metal_dialect().type(program_.accumulator).value, ">(", part, ")");
  };
  CODETTA_TRY(PhaseText phase, print_phase(program_, index, metal_dialect(), options_.comments, accumulator, needs_));
  if (index == 0 && keeps_accumulators(program_)) keep_accumulators(program_, accumulator, phase);
  print_piece(out, index, phase);
  out.blank();
  std::string whole = CodeWriter::text_of("tile.cols % ", layout_.lanes, " == 0");
  whole += metal_aligned_text(program_);
  out.line("template <class P, class T>");
  const auto function =
      out.block("static CODETTA_MEMBER void phase_", index, "(constant P& params, const thread T& tile)");
  out.line("if (", whole, ") {");
  out.line("  piece_", index, "<true>(params, tile);");
  out.line("} else {");
  out.line("  piece_", index, "<false>(params, tile);");
  out.line("}");
  return {};
}

void MetalPrinter::print_combine(CodeWriter& out, uint32_t phase) const {
  static constexpr std::array<std::string_view, 4> axes{"Row", "Column", "All", "Item"};
  const std::vector<std::optional<uint32_t>> outputs = combined_outputs(program_);
  const bool panels = map_ != nullptr && map_->panels;
  uint32_t place = 0;
  for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
    const package::Reduction& r = program_.reductions[k];
    if (r.phase != phase) continue;
    const std::optional<uint32_t> output = panels ? std::nullopt : outputs[k];
    out.line("if (group.y == ", place++, ") combine<Axis::", axes[static_cast<size_t>(r.axis)], ", ",
             metal_states[static_cast<size_t>(r.kind)], ", ", r.mean, ", ", r.parts, ", ",
             metal_dialect().type(r.type).element, ", ", output ? std::to_string(*output) : std::string("-1"),
             ">(params, ", k, ", memory, place);");
  }
}

void MetalPrinter::print_entries(CodeWriter& out, MetalSource& result) const {
  const int scratch = in_sixteens(layout_.scratch_bytes(metal_phase_threads));
  const auto entry = [&](GpuEntry::Kind kind, uint32_t index, const std::string& symbol, int threads, int shared) {
    result.entries.push_back(
        {kind, index, symbol, threads, shared, kind == GpuEntry::Kind::Combine ? metal_results_per_group : 1});
    out.blank();
    auto block = out.block("CODETTA_KERNEL(", symbol, ", ", threads, ")");
    out.line("using namespace codetta::gpu;");
    out.line("const Place place{group, groups, id};");
    return block;
  };
  if (map_ != nullptr && map_->panels) {
    const auto body = entry(GpuEntry::Kind::Panel, static_cast<uint32_t>(program_.phases.size() - 1), "codetta_panels",
                            metal_phase_threads, scratch);
    out.line("run_panels<Config, Panels>(params, memory, place, ", metal_phase_threads, ");");
    return;
  }
  if (map_ == nullptr) {
    const auto body = entry(GpuEntry::Kind::Gemm, 0, "codetta_gemm", config_.threads, config_.shared_bytes);
    out.line(family_.function, "<Config, Epilogue>(params, memory, place);");
  }
  for (uint32_t p = 0; p < program_.phases.size(); ++p) {
    if ((p > 0 || map_ != nullptr || splits()) && !stored_by_combining(p)) {
      const auto body =
          entry(GpuEntry::Kind::Phase, p, CodeWriter::text_of("codetta_phase_", p), metal_phase_threads, scratch);
      out.line("run_phase<Config, Phase", p, ", ", p == 0 && splits(), ">(params, memory, place, ", metal_phase_threads,
               ");");
    }
    if (!reduces_in(p)) continue;
    int words = 1;
    for (const package::Reduction& r : program_.reductions) {
      if (r.phase == p) words = std::max(words, package::values_of(r.kind));
    }
    const auto body = entry(GpuEntry::Kind::Combine, p, CodeWriter::text_of("codetta_combine_", p), metal_phase_threads,
                            metal_phase_threads * 8 * words);
    print_combine(out, p);
  }
}

void MetalPrinter::print_panels(CodeWriter& out) const {
  const auto panels = out.block_with("};", "struct Panels");
  out.line("template <class P>");
  const auto run = out.block("static CODETTA_MEMBER void run(constant P& params, Panel panel)");
  for (uint32_t p = 0; p < program_.phases.size(); ++p) {
    out.line("panel_phase<Config, Phase", p, ">(params, panel);");
    for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
      const package::Reduction& r = program_.reductions[k];
      if (r.phase != p) continue;
      out.line("panel_finish<Config, ", metal_states[static_cast<size_t>(r.kind)], ", ", r.mean, ", ", r.parts, ", ",
               metal_dialect().type(r.type).element, ">(params, ", k, ", panel);");
    }
  }
}

Result<MetalSource> MetalPrinter::print() {
  CodeWriter body;
  {
    const auto epilogue = body.block_with("};", "struct Epilogue");
    body.line("static constexpr int scratch_bytes(int threads) { return threads / 32 * ", layout_.scratch_per_warp,
              "; }");
    if (!program_.more_b.empty() && map_ == nullptr) print_metal_products(body, program_);
    for (uint32_t p = 0; p < program_.phases.size(); ++p) {
      if (p > 0 && stored_by_combining(p)) continue;
      body.blank();
      CODETTA_CHECK_OK(print_phase_function(body, p));
    }
    for (const package::FactorProgram& factor : program_.factors) {
      body.blank();
      CODETTA_CHECK_OK(print_metal_maker(body, program_, factor, options_.comments));
    }
  }
  for (uint32_t p = map_ != nullptr || splits() ? 0 : 1; p < program_.phases.size(); ++p) {
    if (p > 0 && stored_by_combining(p)) continue;
    body.blank();
    const auto phase = body.block_with("};", "struct Phase", p);
    body.line("template <class P, class T>");
    const auto run = body.block("static CODETTA_MEMBER void run(constant P& params, const thread T& tile)");
    body.line("Epilogue::phase_", p, "(params, tile);");
  }
  if (map_ != nullptr && map_->panels) {
    body.blank();
    print_panels(body);
  }
  MetalSource result;
  CodeWriter out;
  out.line("// Generated by Codetta: ", map_ != nullptr ? "map" : package::name_of(config_.family), " kernel for ",
           options_.family, options_.strict ? ", strict" : "", ".");
  out.line("#include <metal_stdlib>");
  out.line("#define CODETTA_LANES ", layout_.lanes);
  bool whole_numbers = false;
  const auto look_at = [&](const std::vector<package::Inst>& insts) {
    for (const package::Inst& inst : insts) whole_numbers = whole_numbers || types::is_integer(inst.type);
  };
  for (const package::Phase& phase : program_.phases) look_at(phase.insts);
  for (const package::FactorProgram& factor : program_.factors) look_at(factor.insts);
  if (whole_numbers) out.line("#define CODETTA_INT");
  out.line("#include \"device/metal/phase.h\"");
  out.line("#include \"", family_.header, "\"");
  out.blank();
  out.line("namespace codetta::gpu {");
  out.blank();
  print_config(out);
  out.line("using Parameters = Params<0, ", program_.operands.size(), ", ", program_.scalar_count(), ", ",
           program_.reductions.size(), ">;");
  out.blank();
  out.raw(body.str());
  out.blank();
  out.line("}  // namespace codetta::gpu");
  print_entries(out, result);
  result.text = out.str();
  result.flags = metal_flags(options_.strict);
  return result;
}

// Metal has no f64: plan/ refuses such epilogues with their place in the text; nothing else gets here.
std::optional<std::string> f64_of(const package::EpilogueProgram& program, const GpuGemmConfig& config) {
  if (config.accumulator == DType::f64 || program.accumulator == DType::f64) return "the accumulator";
  for (const package::Operand& operand : program.operands) {
    if (operand.dtype == DType::f64) return program.arguments[operand.argument].name;
  }
  const auto has = [](const std::vector<package::Inst>& insts) {
    return std::any_of(insts.begin(), insts.end(),
                       [](const package::Inst& inst) { return inst.type == DType::f64 || inst.aux == DType::f64; });
  };
  for (const package::Phase& phase : program.phases) {
    if (has(phase.insts)) return "a value of the epilogue";
  }
  for (const package::FactorProgram& factor : program.factors) {
    if (has(factor.insts)) return "a value of a factor";
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> metal_flags(bool strict) {
  return {"-std=metal3.1", "-fno-fast-math", "-Wno-c++17-extensions",
          strict ? "-ffp-contract=off" : "-ffp-contract=fast"};
}

Result<MetalSource> emit_metal_kernel(const package::EpilogueProgram& program, const GpuGemmConfig& config,
                                      const MetalEmitOptions& options) {
  if (auto defect = package::find_defect(program))
    return cannot_emit_metal("the epilogue program is not valid", *defect);
  if (auto wide = f64_of(program, config)) return cannot_emit_metal("Metal has no f64", *wide + " is f64");
  const auto* family = std::find_if(metal_family_sources.begin(), metal_family_sources.end(),
                                    [&](const MetalFamilySource& f) { return f.family == config.family; });
  if (family == metal_family_sources.end())
    return cannot_emit_metal("this family has no Metal kernel", std::string(package::name_of(config.family)));
  return MetalPrinter(program, config, *family, options).print();
}

Result<MetalSource> emit_metal_map(const package::EpilogueProgram& program, const package::GpuMapConfig& config,
                                   const MetalEmitOptions& options) {
  if (auto defect = package::find_defect(program)) return cannot_emit_metal("the program is not valid", *defect);
  const GpuGemmConfig pieces = package::pieces_of(config);
  if (auto wide = f64_of(program, pieces)) return cannot_emit_metal("Metal has no f64", *wide + " is f64");
  return MetalPrinter(program, pieces, metal_map_source, options, &config).print();
}

}  // namespace codetta::emit
