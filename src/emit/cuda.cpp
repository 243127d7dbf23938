// SPDX-License-Identifier: Apache-2.0
// The translation unit of CUDA and HIP kernels: configuration, one function a phase, and the kernels around them.
#include <algorithm>
#include <array>
#include <optional>

#include "base/code_writer.hpp"
#include "diag/diagnostic.hpp"
#include "emit/cuda_factors.hpp"
#include "emit/cuda_registers.hpp"
#include "emit/cuda_rows.hpp"
#include "emit/cuda_sources.hpp"
#include "emit/emit.hpp"
#include "emit/gpu_phases.hpp"
#include "emit/phase_printer.hpp"
#include "plan/copy_engine.hpp"
#include "plan/families.hpp"
#include "plan/families_cuda.hpp"

namespace codetta::emit {

using base::CodeWriter;
using package::GpuEntry;
using package::GpuFamily;
using package::GpuGemmConfig;

namespace {

constexpr int phase_threads = 256, pack_threads = 256, results_per_block = 32;

Error broken(std::string headline, std::string reason) {
  return diag::error(diag::Code::internal, std::move(headline))
      .reason(std::move(reason))
      .help("this is a bug in Codetta; please report it with the epilogue");
}

bool is_hip(std::string_view arch) { return arch.starts_with("gfx"); }

class CudaPrinter {
 public:
  // `map`: the configuration is that of its pieces, and there is no product.
  CudaPrinter(const package::EpilogueProgram& program, const GpuGemmConfig& config, const FamilySource& family,
              const CudaEmitOptions& options, const package::GpuMapConfig* map = nullptr)
      : program_(program), config_(config), family_(family), options_(options), map_(map) {
    reduces_ = !program.reductions.empty();
    layout_ = plan::piece_layout(program, config);
    if (by_warpgroups() && 32 % layout_.across == 0) warp_rows_ = config.piece_rows / 4;
    if (rows_at_a_time()) layout_.lanes = config.lanes, layout_.across = config.piece_cols / config.lanes;
    if (config.copied && map == nullptr) {
      copies_ = plan::copies_of(program);
      load_slots_ = plan::sm90_shape(program, config).load_slots;
    }
  }
  Result<CudaSource> print();

 private:
  Result<void> print_phase_function(CodeWriter& out, uint32_t index);
  // Phase 0 of products with root spaces of their own: a function each, of which a tile takes its product's.
  Result<void> print_spaces(CodeWriter& out);
  void print_piece(CodeWriter& out, uint32_t index, const PhaseText& phase) const;
  void print_rows(CodeWriter& out, uint32_t index, const PhaseText& phase) const;
  [[nodiscard]] int rows_at_once(uint32_t index, const PhaseText& phase) const;
  // Whether complete pieces have code of their own. With one row under way at a time they gain next to nothing by it,
  // and Clang takes long for HIP's. Nor do logarithms of sums of exponentials, of which a row keeps a thread busy, and
  // the few rows of a streaming product, of which a thread has one.
  [[nodiscard]] bool knows_complete(uint32_t index, const PhaseText& phase) const {
    if (is_hip(options_.arch)) return rows_at_once(index, phase) > 1;
    const bool one_row = config_.family == GpuFamily::Stream && map_ == nullptr && in_product(index) &&
                         passes_of(index) == 1 && rows_at_once(index, phase) == 1;
    return !sums_logarithms(index) && !one_row && !has_few_rows(index);
  }
  // Whether no piece is complete, because the product has fewer rows.
  [[nodiscard]] bool has_few_rows(uint32_t index) const {
    return map_ == nullptr && in_product(index) && config_.a_rows > 0 && config_.a_rows < config_.piece_rows;
  }
  [[nodiscard]] bool sums_logarithms(uint32_t index) const {
    const auto& insts = program_.phases[0].insts;
    return index == 0 && config_.family == GpuFamily::Sm90 && !config_.pingpong && map_ == nullptr &&
           std::none_of(insts.begin(), insts.end(),
                        [](const package::Inst& inst) { return inst.kind == package::Inst::Kind::Load; }) &&
           std::any_of(program_.reductions.begin(), program_.reductions.end(), [](const package::Reduction& r) {
             return r.phase == 0 && r.kind == package::ReduceKind::LogSumExp;
           });
  }
  // Whether whole vectors have code of their own: behind so much work they would save less than a tenth of the time.
  [[nodiscard]] bool knows_whole(uint32_t index) const {
    return !is_hip(options_.arch) || plan::phase_clocks(program_, index) <= 80;
  }
  // Whether pieces that are not complete ask at run time, with each access, if it is one of whole vectors: code for
  // both is a third of what Clang would compile for HIP, and so is its time.
  [[nodiscard]] bool asks_for_whole(uint32_t index) const {
    return is_hip(options_.arch) ? knows_whole(index)
                                 : is_even() || whole_rows() || sums_logarithms(index) || has_few_rows(index);
  }
  // The same of strips; where a thread holds more accumulators, the others got 2 % slower (int8, 128x256).
  [[nodiscard]] bool strips_ask() const {
    const int rows = config_.pingpong ? config_.tile_m : config_.tile_m / config_.consumers;
    return asks_for_whole(0) && (rows * config_.tile_n / 128 <= 64 || has_few_rows(0));
  }
  // Whether pieces that are not complete are few. For NVRTC they ask then, too, which costs them a few percent.
  [[nodiscard]] bool is_even() const { return map_ == nullptr && config_.even; }
  // Whether each row finds its places anew: Clang would step a pointer to each element of each operand from row to row,
  // for which it looks long, and which take more registers.
  [[nodiscard]] bool steps_apart() const { return is_hip(options_.arch); }
  // Whether reductions of everything end behind all forms of a piece, by one text, of which there were one a form.
  [[nodiscard]] bool ends_apart(const PhaseText& phase) const { return !is_hip(options_.arch) && !phase.end.empty(); }
  // Of row reductions those that have states of their own. On HIP the largest of values whose exponents are summed,
  // too, is written from the state of that sum, which has it: half of what threads exchange.
  [[nodiscard]] std::vector<Held> states_of(const PhaseText& phase) const {
    std::vector<Held> own = phase.row_states;
    if (is_hip(options_.arch)) std::erase_if(own, [](const Held& state) { return !state.setup.empty(); });
    return own;
  }
  // Whether what a piece loads is asked for before its accumulators are there.
  [[nodiscard]] bool loads_ahead(uint32_t index, const PhaseText& phase) const {
    const bool direct =
        std::none_of(phase.loads.begin(), phase.loads.end(), [](const Held& load) { return load.setup.empty(); });
    return index == 0 && by_warpgroups() && !phase.loads.empty() && direct && even_rows(index) &&
           knows_complete(index, phase) && rows_at_once(index, phase) == passes_of(index);
  }
  void print_prefetch(CodeWriter& out) const;
  [[nodiscard]] bool loads_full(const package::Operand& o) const {
    return !o.is_store && o.access == package::Access::Full && o.unit_stride;
  }
  // Whether a warpgroup finishes a piece, whose loads are asked for before the piece is there.
  [[nodiscard]] bool by_warpgroups() const { return plan::feeds_on_copies(config_.family); }
  // Whether all phases run over a piece that holds whole rows, one behind the other.
  [[nodiscard]] bool whole_rows() const { return config_.whole_rows && map_ == nullptr; }
  [[nodiscard]] bool in_product(uint32_t phase) const { return phase == 0 || whole_rows(); }
  // Threads among which the rows of a piece are dealt out, and how many these are: of one warp, where each finishes the
  // rows that it has multiplied.
  [[nodiscard]] int warp_rows(uint32_t phase) const { return in_product(phase) ? warp_rows_ : 0; }
  [[nodiscard]] int group_threads(uint32_t phase) const {
    if (warp_rows(phase) != 0) return 32;
    return !in_product(phase) ? phase_threads : by_warpgroups() ? 128 : config_.threads;
  }
  [[nodiscard]] int group_rows(uint32_t phase) const {
    return warp_rows(phase) != 0 ? warp_rows(phase) : config_.piece_rows;
  }
  // Whether the rows come out even among them.
  [[nodiscard]] bool even_rows(uint32_t phase) const {
    const int threads = group_threads(phase);
    return threads % layout_.across == 0 && group_rows(phase) % (threads / layout_.across) == 0;
  }
  [[nodiscard]] std::string fragment_name() const {
    return whole_rows() ? CodeWriter::text_of("RowFragment<Config::piece_rows, ", plan::result_bytes(program_), ", ")
                        : "TileFragment<";
  }
  [[nodiscard]] int passes_of(uint32_t phase) const {
    const int step = std::max(group_threads(phase) / layout_.across, 1);
    return (group_rows(phase) + step - 1) / step;
  }
  [[nodiscard]] bool every_thread_has_columns() const { return layout_.across * layout_.lanes == config_.piece_cols; }
  // One launch of whole rows finishes reductions and stores them.
  // Of a tile whose matrices go by the copy engine, reductions of rows have one partial result.
  [[nodiscard]] int pieces_of_partial() const {
    return copies_ ? config_.tile_n / program_.split.ways / config_.piece_cols : 1;
  }
  [[nodiscard]] bool stored_by_combining(uint32_t index) const {
    return !rows_at_a_time() && !whole_rows() && only_stores_results(program_, index);
  }
  void print_panel(CodeWriter& out) const;
  void print_last_block(CodeWriter& out) const;
  void print_entries(CodeWriter& out, CudaSource& result) const;
  // A map in which threads finish whole rows (device/gpu/kernels/map.h).
  [[nodiscard]] bool rows_at_a_time() const { return map_ != nullptr && map_->panels; }

  const package::EpilogueProgram& program_;
  const GpuGemmConfig& config_;
  const FamilySource& family_;
  const CudaEmitOptions& options_;
  const package::GpuMapConfig* map_;
  bool reduces_ = false, one_of_several_ = false;
  int load_slots_ = 1, strip_steps_ = 2;      // of copies
  size_t first_map_ = 2;                      // of what is copied
  std::vector<package::CudaTensorMap> maps_;  // of a product's kernel
  int warp_rows_ = 0;
  int row_blocks_ = 1;                  // that share a multiprocessor at least, of rows_at_a_time
  std::optional<plan::Copies> copies_;  // where the configuration has them
  plan::PieceLayout layout_;
  std::set<PartLibrary::Request> needs_;
};

// `complete` pieces have all of their rows (and columns, where no thread is idle), so that the number of passes over
// them is known and several rows are under way at once; otherwise calls between threads keep the loop from being
// unrolled.
void CudaPrinter::print_piece(CodeWriter& out, uint32_t index, const PhaseText& phase) const {
  const bool asks = asks_for_whole(index);
  const std::string fragment =
      CodeWriter::text_of(fragment_name(), "whole, ", layout_.across,
                          asks ? ", P, !whole> f(params, tile, wide);" : ", P> f(params, tile);");
  const auto structure = [&](std::string_view name, const std::vector<Held>& members, std::string_view suffix) {
    const auto block = out.block_with("};", "struct ", name, index);
    for (const Held& member : members) out.line(member.type, suffix, " ", member.name, ";");
  };
  structure("Loads", phase.loads, "");
  structure("States", states_of(phase), "::State");
  const bool apart = ends_apart(phase);
  if (apart) structure("Sums", phase.reducers, "");
  out.blank();
  out.line("template <bool whole, bool complete, class P, class Held>");
  const auto function = out.block("static __device__ __forceinline__ void piece_", index,
                                  "(const P& params, const Tile& tile, const Held& ahead", asks ? ", bool wide" : "",
                                  apart ? CodeWriter::text_of(", Sums", index, "& sums)") : ")");
  out.line(fragment);
  if (apart) {
    put_lines(out, phase.setup);
    for (const Held& sum : phase.reducers) out.line(sum.type, "& ", sum.name, " = sums.", sum.name, ";");
  } else {
    put_setup(out, phase);
  }
  if (!phase.column.empty()) {
    const auto guard = out.block("if (f.n > 0 && (", phase.column_guard, "))");
    put_lines(out, phase.column);
  }
  if (phase.has_full_work || !phase.row.empty()) print_rows(out, index, phase);
  if (!apart) put_lines(out, phase.end);
}

void CudaPrinter::print_rows(CodeWriter& out, uint32_t index, const PhaseText& phase) const {
  const bool even = even_rows(index), per_row = !phase.row_states.empty();
  const bool all_columns = every_thread_has_columns();
  const std::string_view here = all_columns || (!per_row && !phase.stores_rows) ? "complete || " : "";
  const int at_once = rows_at_once(index, phase), passes = passes_of(index);
  // Threads without columns of their own take part in reductions of rows all the same, and where there are no columns
  // the first of a row still stores what rows have one of.
  const std::string_view needed = per_row || all_columns ? ""
                                  : phase.stores_rows    ? " && (f.n > 0 || f.leads_row() || !complete)"
                                                         : " && (f.n > 0 || !complete)";
  const auto held = out.block("if (f.takes_rows()", needed, ")");
  put_lines(out, phase.by_column);
  if (!phase.loads.empty()) {
    const auto fetch = out.block_with("};", "const auto fetch = [&](i32 r, Loads", index, "& held)");
    out.line("f.r = r;");
    const auto columns = out.block("if (", here, "f.n > 0)");
    for (const Held& load : phase.loads) out.line("held.", load.name, " = ", load.text, ";");
  }
  {
    const auto row =
        out.block_with("};", "const auto row = [&](i32 r, const Loads", index, "& held, States", index, "& states)");
    out.line("f.r = r;");
    put_lines(out, phase.row);
    for (const Held& state : states_of(phase)) out.line(state.type, " ", state.name, ";");
    if (phase.has_full_work) {
      const auto columns = out.block("if (", here, "f.n > 0)");
      for (const Held& load : phase.loads) out.line("const ", load.type, " ", load.name, " = held.", load.name, ";");
      put_lines(out, phase.full);
    }
    if (!is_hip(options_.arch)) take_largest(out, phase, {}, {});
    for (const Held& state : states_of(phase)) out.line("states.", state.name, " = ", state.name, ".folded();");
  }
  const auto reduce = [&](bool together) {
    for (const Held& state : states_of(phase)) {
      const package::Reduction& reduction = program_.reductions[std::stoul(state.text)];
      std::string largest;
      for (const Held& other : phase.row_states) {
        if (is_hip(options_.arch) && other.setup == state.name) largest += ", " + other.text;
      }
      const std::string_view type = cuda_dialect().type(reduction.type).value;
      const std::string how = whole_rows() ? CodeWriter::text_of("end_rows<", together, ", ", type, ", ",
                                                                 reduction.mean, ", ", reduction.parts)
                                           : CodeWriter::text_of("reduce_rows<", together, ", ", type);
      out.line("f.template ", how, ">(", state.text, ", states, &States", index, "::", state.name, ", r", largest,
               ");");
    }
  };
  if (knows_complete(index, phase)) {
    const auto known = out.block("if constexpr (complete)");
    if (passes > at_once) out.line("#pragma unroll 1");
    const auto loop = out.block("for (i32 i = 0; i < ", passes, "; i += ", at_once, ")");
    out.line("const i32 r = f.first_row() + i * f.row_step();");
    if (!loads_ahead(index, phase)) out.line("Loads", index, " held[", at_once, "];");
    out.line("States", index, " states[", at_once, "];");
    const auto each = [&](std::string_view what) {
      out.line("#pragma unroll");
      const auto several = out.block("for (i32 j = 0; j < ", at_once, "; ++j)");
      out.line(even ? "" : "if (r + j * f.row_step() < Config::piece_rows) ", what, ";");
    };
    if (!phase.loads.empty() && !loads_ahead(index, phase)) each("fetch(r + j * f.row_step(), held[j])");
    each(loads_ahead(index, phase) ? "row(r + j * f.row_step(), ahead.rows[j], states[j])"
                                   : "row(r + j * f.row_step(), held[j], states[j])");
    if (per_row && !even) out.line("if (r < Config::piece_rows)");
    if (per_row) {
      const auto all = out.block("");
      reduce(even);
    }
  }
  const auto otherwise = out.block("if constexpr (!complete)");
  out.line("#pragma unroll 1");
  const std::string_view counter = steps_apart() ? "at" : "r";
  const auto loop =
      out.block("for (i32 ", counter, " = f.first_row(); ", counter, " < f.end_row(); ", counter, " += f.row_step())");
  if (steps_apart()) out.line("const i32 r = reread_own(at);");
  out.line("Loads", index, " held;");
  out.line("States", index, " states[1];");
  if (!phase.loads.empty()) out.line("fetch(r, held);");
  out.line("row(r, held, states[0]);");
  reduce(false);
}

// Rows of a piece that a thread has under way at once: many hide the latency of loads, shuffles and long functions.
int CudaPrinter::rows_at_once(uint32_t index, const PhaseText& phase) const {
  const double clocks = plan::phase_clocks(program_, index);
  const bool warpgroup = in_product(index) && by_warpgroups();
  int rows = layout_.lanes > 4 ? 1 : clocks <= 20 ? 8 : clocks <= 64 ? 4 : clocks <= 100 ? 2 : 1;
  if (!warpgroup) rows = std::min(rows, clocks <= 20 ? 4 : clocks <= 48 ? 2 : 1);
  // Accumulators that wait for their own pieces leave few registers.
  const int waiting =
      warpgroup && config_.family == GpuFamily::Sm90 ? plan::sm90_shape(program_, config_).accumulators : 0;
  if (waiting > 128) rows = std::min(rows, phase.row_states.empty() && clocks <= 20 ? 4 : 2);
  if (waiting == 128 && index > 0) rows = std::min(rows, 4);
  // Where nothing but accumulators is awaited, work of this length hides the wait for the next row's by itself.
  if (is_hip(options_.arch) && phase.loads.empty() && phase.row_states.empty() && clocks > 20) rows = 1;
  if (is_hip(options_.arch)) rows = std::min(rows, passes_of(index));
  if (!even_rows(index)) return phase.row_states.empty() ? std::min({rows, 4, passes_of(index)}) : 1;
  while (rows > 1 && (rows > passes_of(index) || passes_of(index) % rows != 0)) rows /= 2;
  return rows;
}

// What phase 0 loads at each element, asked for while the product is still at work.
void CudaPrinter::print_prefetch(CodeWriter& out) const {
  out.line("template <class P>");
  const auto function = out.block("static __device__ __forceinline__ void prefetch(const P& params, const Tile& tile)");
  for (uint32_t k = 0; k < program_.operands.size(); ++k) {
    const package::Operand& o = program_.operands[k];
    const auto loads = [&](const package::Phase& phase) {
      return std::any_of(phase.insts.begin(), phase.insts.end(), [&](const package::Inst& inst) {
        return inst.kind == package::Inst::Kind::Load && inst.index == k;
      });
    };
    const auto last = whole_rows() ? program_.phases.end() : program_.phases.begin() + 1;
    if (loads_full(o) && std::any_of(program_.phases.begin(), last, loads))
      out.line("prefetch_full<", cuda_dialect().type(o.dtype).element, ">(params.operand[", k, "], tile);");
  }
}

Result<void> CudaPrinter::print_phase_function(CodeWriter& out, uint32_t index) {
  const auto accumulator = [&](uint32_t part) {
    return CodeWriter::text_of("f.template accum<", cuda_dialect().type(program_.accumulator).value, ">(", part, ")");
  };
  // What the copy engine takes is stored where its copy is, wherever columns lie in memory.
  package::EpilogueProgram stored;
  const bool runs = index == 0 && copies_ && plan::run_of_copies(program_);
  if (runs) {
    stored = program_;
    for (const uint32_t k : copies_->stores) {
      package::Operand& operand = stored.operands[k];
      if (operand.access == package::Access::Indexed)
        operand.access = package::Access::Full, operand.unit_stride = true;
    }
  }
  CODETTA_TRY(PhaseText phase,
              print_phase(runs ? stored : program_, index, cuda_dialect(), options_.comments, accumulator, needs_));
  if (index == 0 && keeps_accumulators(program_) && !whole_rows()) keep_accumulators(program_, accumulator, phase);
  const bool strips = index == 0 && config_.from_registers && map_ == nullptr;
  const bool copies = index == 0 && copies_;
  if (copies) {
    strip_steps_ = print_copies(out, program_, config_, *copies_, load_slots_, first_map_, phase);
    print_columns(out, program_, config_, phase);
  } else if (strips) {
    print_strip(out, program_, phase, strips_ask());
  } else {
    print_piece(out, index, phase);
  }
  out.blank();
  std::string whole = CodeWriter::text_of("tile.cols % ", layout_.lanes, " == 0");
  if (!in_product(index) && program_.phases[index].reads_accumulator) {
    whole += CodeWriter::text_of(" && tile.acc_ld % ", 16 / types::byte_size(program_.accumulator), " == 0");
  }
  whole += aligned_text(program_, [&](uint32_t k) {  // of several products each looks at its own
    return !is_of_factor(program_, k) && (!one_of_several_ || touches(program_.phases[0], k));
  });
  const bool pieces = index == 0 && !strips && by_warpgroups(), ahead = loads_ahead(index, phase);
  const auto begin = [&](std::string_view name, std::string_view parameters, std::string_view more) {
    out.line("template <class P", more, ">");
    return out.block("static __device__ __forceinline__ void ", name, index, "(const P& params, const Tile& tile",
                     parameters, ")");
  };
  const auto choose = [&] {
    out.line("const bool whole = ", whole, ";");
    out.line("const bool complete = tile.rows == Config::piece_rows",
             every_thread_has_columns() ? " && tile.cols == Config::piece_cols;" : ";");
  };
  if (copies) return {};
  if (strips) {
    const auto function = begin("phase_", ", const S& strip", ", class S");
    const std::string_view complete = "tile.rows == 64 && tile.cols == S::cols";
    if (strips_ask()) {
      out.line("const bool whole = ", whole, ";");
      if (has_few_rows(index)) {
        out.line("strip_0<false, false>(params, tile, strip, whole);");
        return {};
      }
      out.line("if (whole && ", complete, ") {");
      out.line("  strip_0<true, true>(params, tile, strip, whole);");
      out.line("} else {");
      out.line("  strip_0<false, false>(params, tile, strip, whole);");
      out.line("}");
      return {};
    }
    out.line("if (", whole, ") {");
    out.line("  if (", complete, ") {");
    out.line("    strip_0<true, true>(params, tile, strip);");
    out.line("  } else {");
    out.line("    strip_0<true, false>(params, tile, strip);");
    out.line("  }");
    out.line("} else {");
    out.line("  strip_0<false, false>(params, tile, strip);");
    out.line("}");
    return {};
  }
  if (pieces) {
    const int rows = rows_at_once(index, phase);
    {
      const auto block = out.block_with("};", "struct Ahead");
      if (ahead) out.line("Loads", index, " rows[", rows, "];");
    }
    const auto function = begin("ahead_", ", Ahead& held", "");
    if (ahead) {
      choose();
      out.line("if (!whole || !complete) return;");
      out.line(fragment_name(), "true, ", layout_.across, ", P> f(params, tile);");
      std::set<std::string> references;
      for (const Held& load : phase.loads) references.insert(load.setup);
      for (const std::string& line : references) out.line(line);
      out.line("#pragma unroll");
      const auto loop = out.block("for (i32 j = 0; j < ", rows, "; ++j)");
      out.line("f.r = f.first_row() + j * f.row_step();");
      const std::string guard = every_thread_has_columns() ? "" : "if (f.n > 0) ";
      for (const Held& load : phase.loads) out.line(guard, "held.rows[j].", load.name, " = ", load.text, ";");
    }
  }
  const auto function = begin(whole_rows() ? "panel_" : "phase_", pieces ? ", const Ahead& held" : "", "");
  const bool by_itself = knows_complete(index, phase);
  if (by_itself)
    choose();
  else if (knows_whole(index))
    out.line("const bool whole = ", whole, ";");
  if (!pieces) out.line("constexpr int held = 0;");
  const bool apart = ends_apart(phase);
  if (apart) out.line("Sums", index, " sums;");
  const std::string_view first = "(params, tile, held", more = asks_for_whole(index) ? ", whole" : "",
                         end = apart ? ", sums);" : ");";
  const bool one_form = asks_for_whole(index) || is_hip(options_.arch);  // of pieces that are not complete
  const auto form = [&](std::string_view indent, std::string_view which) {
    out.line(indent, "piece_", index, which, first, more, end);
  };
  if (by_itself) {
    out.line("if (whole && complete) {");
    form("  ", "<true, true>");
  }
  if (!one_form) {
    out.line(by_itself ? "} else if (whole) {" : "if (whole) {");
    form("  ", "<true, false>");
  }
  if (by_itself || !one_form) out.line("} else {");
  form(by_itself || !one_form ? "  " : "", "<false, false>");
  if (by_itself || !one_form) out.line("}");
  if (apart) {
    out.line("TileFragment<false, ", layout_.across, ", P> f(params, tile);");
    for (const Held& sum : phase.reducers) out.line("auto& ", sum.name, " = sums.", sum.name, ";");
    put_lines(out, phase.end);
  }
  return {};
}

Result<void> CudaPrinter::print_spaces(CodeWriter& out) {
  const size_t count = program_.spaces.size();
  int steps = 1;
  for (size_t p = 0; p < count; ++p) {
    const package::EpilogueProgram program = package::program_of(program_, p);
    CudaPrinter own(program, config_, family_, options_);
    own.layout_ = layout_, own.warp_rows_ = warp_rows_, own.one_of_several_ = true;
    own.load_slots_ = load_slots_, own.first_map_ = 2;
    for (size_t i = 2, of = 0; i < maps_.size() && of < p; ++i) {  // behind the product's B
      of += maps_[i].source == package::CudaTensorMap::Source::MoreB ? 1 : 0;
      own.first_map_ = i + 1;
    }
    {
      const auto body = out.block_with("};", "struct Product", p);
      if (by_warpgroups()) out.line("static constexpr int product = ", p, ";");
      if (by_warpgroups() && !copies_) own.print_prefetch(out);
      if (by_warpgroups()) out.blank();
      CODETTA_CHECK_OK(own.print_phase_function(out, 0));
    }
    steps = std::max(steps, own.strip_steps_);
    needs_.merge(own.needs_);
    out.blank();
  }
  if (by_warpgroups()) {
    if (copies_) {
      print_slots(out, plan::copy_slots(program_), load_slots_);
      out.line("static constexpr int strip_steps = ", steps, ";");
      out.blank();
    }
    out.line("template <class F>");
    const auto function = out.block("static __device__ __forceinline__ void of_product(int product, const F& f)");
    for (size_t p = 0; p + 1 < count; ++p) out.line("if (product == ", p, ") return f(Product", p, "());");
    out.line("f(Product", count - 1, "());");
    return {};
  }
  out.line("template <class P>");
  const auto function = out.block("static __device__ __forceinline__ void phase_0(const P& params, const Tile& tile)");
  for (size_t p = 0; p + 1 < count; ++p)
    out.line("if (tile.product == ", p, ") return Product", p, "::template phase_0<P>(params, tile);");
  out.line("Product", count - 1, "::template phase_0<P>(params, tile);");
  return {};
}

// All phases over a piece of whole rows.
void CudaPrinter::print_panel(CodeWriter& out) const {
  const bool ahead = by_warpgroups();
  out.line("template <class P>");
  const auto function = out.block("static __device__ __forceinline__ void phase_0(const P& params, const Tile& tile",
                                  ahead ? ", const Ahead& held)" : ")");
  for (uint32_t p = 0; p < program_.phases.size(); ++p) {
    if (p > 0) out.line("warp_barrier();");
    out.line("panel_", p, "<P>(params, tile", ahead && p == 0 ? ", held);" : ");");
  }
}

// Behind the product: the block that arrives last combines.
void CudaPrinter::print_last_block(CodeWriter& out) const {
  const std::vector<std::optional<uint32_t>> outputs = combined_outputs(program_);
  const int pieces = pieces_of_partial();
  out.line("if (!is_last_block(params.problem)) return;");
  for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
    const package::Reduction& r = program_.reductions[k];
    if (r.phase != 0) continue;
    out.line("combine_rows<", reduction_text(r), ", ", config_.threads,
             pieces > 1 ? CodeWriter::text_of(", ", pieces) : "", ">(params.problem, params.reduction[", k, "]",
             outputs[k] ? CodeWriter::text_of(", &params.operand[", *outputs[k], "]") : "", ");");
  }
}

void CudaPrinter::print_entries(CodeWriter& out, CudaSource& result) const {
  // Of the many rows of which a tile each has one partial result a thread finishes one.
  const bool alone = copies_ && plan::sums_exponents(program_);
  const auto entry = [&](GpuEntry::Kind kind, uint32_t index, std::string symbol, int threads) {
    result.entries.push_back({kind, index, std::move(symbol), threads,
                              kind == GpuEntry::Kind::Gemm && !is_hip(options_.arch) ? config_.shared_bytes : 0,
                              kind != GpuEntry::Kind::Combine ? 1
                              : alone                         ? phase_threads
                                                              : results_per_block});
    // Rows wait for memory: several blocks share a multiprocessor.
    return out.block("extern \"C\" __global__ void __launch_bounds__(", threads, ", ",
                     kind == GpuEntry::Kind::Panel ? row_blocks_
                     : kind == GpuEntry::Kind::Gemm && config_.family == GpuFamily::Stream
                         ? plan::stream_blocks(program_, config_)
                         : 1,
                     ") ", result.entries.back().symbol, "(const __grid_constant__ Parameters params)");
  };
  if (rows_at_a_time()) {
    const auto body =
        entry(GpuEntry::Kind::Panel, static_cast<uint32_t>(program_.phases.size() - 1), "codetta_rows", phase_threads);
    out.line("begin_dependent();");
    out.line("clear_counters<", phase_threads, ">(params.problem);");
    out.line("Epilogue::rows<Parameters>(params);");
    return;
  }
  if (map_ == nullptr && (config_.pack_a || config_.pack_b)) {
    result.entries.push_back({GpuEntry::Kind::Pack, 0, "codetta_pack", pack_threads, 0, 1});
    const auto body = out.block("extern \"C\" __global__ void __launch_bounds__(", pack_threads,
                                ", 4) codetta_pack(const __grid_constant__ PackParams params)");
    out.line("begin_dependent();");
    out.line("pack_factor<u", 8 * types::byte_size(config_.a_dtype), ">(params);");
  }
  if (map_ == nullptr) {
    const auto body = entry(GpuEntry::Kind::Gemm, 0, "codetta_gemm", config_.threads);
    if (!family_.waits_itself) out.line("begin_dependent();");
    out.line(family_.function, "<Config, Epilogue>(params);");
    if (config_.combines) print_last_block(out);
  }
  if (whole_rows()) return;
  static constexpr std::array<std::string_view, 4> axes{"Row", "Column", "All", "Item"};
  const int pieces = pieces_of_partial();
  const std::vector<std::optional<uint32_t>> outputs =
      rows_at_a_time() ? std::vector<std::optional<uint32_t>>(program_.reductions.size()) : combined_outputs(program_);
  for (uint32_t p = 0; p < program_.phases.size(); ++p) {
    if ((p > 0 || map_ != nullptr) && !stored_by_combining(p)) {
      out.blank();
      const auto body = entry(GpuEntry::Kind::Phase, p, CodeWriter::text_of("codetta_phase_", p), phase_threads);
      out.line("begin_dependent();");
      if (p == 0) out.line("clear_counters<", phase_threads, ">(params.problem);");  // of a map
      out.line("run_phase<Config, ", phase_threads, ", Epilogue::scratch_bytes(", phase_threads,
               ")>(params, [](const Parameters& q, const Tile& t) { Epilogue::phase_", p, "<Parameters>(q, t); });");
    }
    uint32_t place = 0;
    for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
      if (program_.reductions[k].phase == p) ++place;
    }
    if (place == 0) continue;
    out.blank();
    const auto body = entry(GpuEntry::Kind::Combine, p, CodeWriter::text_of("codetta_combine_", p), phase_threads);
    out.line("begin_dependent();");
    // Reductions that are combined by the same function, one behind the other, are one text: `reduction` and `operand`
    // say which of them the block's row of the grid is.
    struct Combined {
      std::string function, reduction, operand;
      uint32_t first, last;
    };
    std::vector<Combined> calls;
    place = 0;
    for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
      const package::Reduction& r = program_.reductions[k];
      if (r.phase != p) continue;
      const std::string function =
          CodeWriter::text_of("combine<Axis::", axes[static_cast<size_t>(r.axis)], ", ", reduction_text(r),
                              r.axis != package::ReduceAxis::Row ? ""
                              : alone                            ? CodeWriter::text_of(", ", pieces, ", 1")
                              : pieces > 1                       ? CodeWriter::text_of(", ", pieces)
                                                                 : "",
                              ">");
      const std::string reduction = CodeWriter::text_of(k);
      const std::string operand = outputs[k] ? CodeWriter::text_of(*outputs[k]) : "";
      // Clang would put a kernel's parameters into scratch memory for HIP where their place is not constant.
      if (!calls.empty() && calls.back().function == function && calls.back().operand.empty() == operand.empty() &&
          !is_hip(options_.arch)) {
        Combined& before = calls.back();
        const std::string is = CodeWriter::text_of("blockIdx.y == ", place, " ? ");
        before.reduction = is + reduction + " : " + before.reduction;
        if (!operand.empty()) before.operand = is + operand + " : " + before.operand;
        before.last = place++;
      } else {
        calls.push_back({function, reduction, operand, place, place});
        ++place;
      }
    }
    for (const Combined& call : calls) {
      const std::string here = call.first == call.last ? CodeWriter::text_of("blockIdx.y == ", call.first)
                               : call.first == 0
                                   ? CodeWriter::text_of("blockIdx.y <= ", call.last)
                                   : CodeWriter::text_of("blockIdx.y >= ", call.first, " && blockIdx.y <= ", call.last);
      out.line("if (", here, ") ", call.function, "(params.problem, params.reduction[", call.reduction, "]",
               call.operand.empty() ? std::string() : CodeWriter::text_of(", &params.operand[", call.operand, "]"),
               ");");
    }
  }
}

Result<CudaSource> CudaPrinter::print() {
  CodeWriter body;
  if (map_ == nullptr) maps_ = maps_of(family_, program_, config_);
  {
    const auto epilogue = body.block_with("};", "struct Epilogue");
    body.line("static constexpr int scratch_bytes(int threads) { return threads / 32 * ", layout_.scratch_per_warp,
              "; }");
    if (!program_.more_b.empty() && map_ == nullptr) print_products(body, program_, maps_);
    if (by_warpgroups() && map_ == nullptr && !copies_) {
      if (config_.family == GpuFamily::Sm90) body.line("static constexpr int strip_steps = 2;");
      if (program_.spaces.empty()) {
        body.blank();
        print_prefetch(body);
      }
    }
    if (rows_at_a_time()) {
      body.blank();
      CODETTA_TRY(row_blocks_, print_rows_of_map(body, program_, *map_, layout_, phase_threads, options_.comments,
                                                 is_hip(options_.arch), needs_));
    }
    for (uint32_t p = 0; p < program_.phases.size() && !rows_at_a_time(); ++p) {
      if (p > 0 && stored_by_combining(p)) continue;
      body.blank();
      CODETTA_CHECK_OK(program_.spaces.empty() ? print_phase_function(body, p) : print_spaces(body));
    }
    if (whole_rows()) {
      body.blank();
      print_panel(body);
    }
    for (const package::FactorProgram& factor : program_.factors) {
      body.blank();
      const auto brought = by_warpgroups() ? plan::brought_for_a(program_) : std::nullopt;
      CODETTA_CHECK_OK(print_maker(body, program_, factor, brought, options_.comments));
    }
  }
  CudaSource result;
  CodeWriter out;
  out.line("// Generated by Codetta: ", map_ != nullptr ? "map" : package::name_of(config_.family), " kernel for ",
           options_.arch, options_.strict ? ", strict" : "", ".");
  out.line("#define CODETTA_LANES ", layout_.lanes);
  // Reductions fold f32 sums in f64.
  bool wide = reduces_ || config_.accumulator == DType::f64, whole_numbers = false;
  const auto look_at = [&](const std::vector<package::Inst>& insts) {
    for (const package::Inst& inst : insts) {
      wide = wide || inst.type == DType::f64 || inst.aux == DType::f64;
      whole_numbers = whole_numbers || types::is_integer(inst.type);
    }
  };
  for (const package::Phase& phase : program_.phases) look_at(phase.insts);
  for (const package::FactorProgram& factor : program_.factors) look_at(factor.insts);
  if (wide) out.line("#define CODETTA_F64");
  if (whole_numbers) out.line("#define CODETTA_INT");
  family_.defines(out, config_);
  const bool sm90 = config_.family == GpuFamily::Sm90, makes_a = program_.makes_a();
  if (sm90 && makes_a) out.line("#define CODETTA_WGMMA_MADE \", 1, 1, ", config_.b_k_major ? 0 : 1, "\"");
  result.maps = maps_;
  out.line("#include \"device/gpu/phase.h\"");
  out.line("#include \"", family_.header, "\"");
  if (copies_) out.line("#include \"device/cuda/kernels/copies.h\"");
  if (config_.combines && map_ == nullptr) out.line("#include \"device/cuda/combine.h\"");
  if (whole_rows()) out.line("#include \"device/cuda/whole_rows.h\"");
  if (makes_a && by_warpgroups()) out.line("#include \"device/cuda/kernels/make_", sm90 ? "wgmma" : "tcgen05", ".h\"");
  if (sm90 && config_.math == MathMode::Fp8TwoLevelAccumulation)
    out.line("#include \"device/cuda/kernels/two_level.h\"");
  if (config_.pack_a || config_.pack_b) out.line("#include \"device/cuda/pack.h\"");
  out.blank();
  out.line("namespace codetta::gpu {");
  out.blank();
  print_cuda_config(out, program_, config_, family_, options_.arch, warp_rows_);
  out.line("using Parameters = Params<", result.maps.size(), ", ", program_.operands.size(), ", ",
           program_.scalar_count(), ", ", program_.reductions.size(), ">;");
  out.blank();
  out.raw(body.str());
  out.blank();
  print_entries(out, result);
  out.blank();
  out.line("}  // namespace codetta::gpu");
  result.text = out.str();
  result.flags = gpu_compiler_flags(options_);
  return result;
}

}  // namespace

std::vector<std::string> gpu_compiler_flags(const CudaEmitOptions& options) {
  if (is_hip(options.arch)) {
    // A number may be read as one type and written as another: vectors as words.
    return {"--offload-arch=" + options.arch, "-std=c++17", "-O3", "-fno-strict-aliasing",
            options.strict ? "-ffp-contract=off" : "-ffp-contract=fast"};
  }
  return {"--gpu-architecture=" + options.arch, "--std=c++17", "--device-as-default-execution-space",
          options.strict ? "--fmad=false" : "--fmad=true"};
}

Result<CudaSource> emit_cuda_kernel(const package::EpilogueProgram& program, const GpuGemmConfig& config,
                                    const CudaEmitOptions& options) {
  if (auto defect = package::find_defect(program)) return broken("the epilogue program is not valid", *defect);
  const FamilySource* const family = find_source(config.family);
  if (family == nullptr) {
    return broken("this CUDA family has no kernel body", std::string(package::name_of(config.family)));
  }
  if (!makes_factors(program, config))
    return broken("this family makes no such factors", std::string(package::name_of(config.family)));
  if (!program.spaces.empty() && !package::has_spaces(config.family))
    return broken("this family has one root space for all products", std::string(package::name_of(config.family)));
  return CudaPrinter(program, config, *family, options).print();
}

Result<CudaSource> emit_cuda_map(const package::EpilogueProgram& program, const package::GpuMapConfig& config,
                                 const CudaEmitOptions& options) {
  if (auto defect = package::find_defect(program)) return broken("the program is not valid", *defect);
  return CudaPrinter(program, package::pieces_of(config), source_of_maps(), options, &config).print();
}

}  // namespace codetta::emit
