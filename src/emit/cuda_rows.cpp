// SPDX-License-Identifier: Apache-2.0
#include "emit/cuda_rows.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "emit/cuda_factors.hpp"
#include "emit/kept.hpp"
#include "emit/phase_printer.hpp"
#include "plan/families.hpp"

namespace codetta::emit {

using base::CodeWriter;

namespace {

class RowsPrinter {
 public:
  RowsPrinter(const package::EpilogueProgram& program, const plan::PieceLayout& layout, int threads, bool comments,
              std::set<PartLibrary::Request>& needs)
      : program_(program), layout_(layout), threads_(threads), comments_(comments), needs_(needs) {}
  Result<void> print(CodeWriter& out);

 private:
  static void print_row_phase(CodeWriter& out, const PhaseText& phase, std::string_view pieces, int at_once);
  void print_finish(CodeWriter& out, uint32_t phase) const;
  [[nodiscard]] std::string row_fragment(std::string_view whole) const {
    return CodeWriter::text_of("RowFragment<", whole, ", ", layout_.across, ", ", program_.reductions.size(),
                               ", P> f(params, tile);");
  }

  const package::EpilogueProgram& program_;
  const plan::PieceLayout& layout_;
  int threads_;
  bool comments_;
  std::set<PartLibrary::Request>& needs_;
};

// The part of a row that is the tile, in so many pieces, `at_once` of them at a time; without `pieces`, in no more than
// these.
void RowsPrinter::print_row_phase(CodeWriter& out, const PhaseText& phase, std::string_view pieces, int at_once) {
  put_lines(out, phase.setup);
  if (!phase.column.empty()) {
    out.line("#pragma unroll 1");
    const auto loop = out.block("for (i32 piece = 0; piece < f.pieces(); ++piece)");
    out.line("f.at_piece(piece);");
    const auto guard = out.block("if (f.n > 0 && (", phase.column_guard, "))");
    put_lines(out, phase.column);
  }
  for (const Held& state : phase.row_states) out.line(state.type, " ", state.name, ";");
  if (phase.has_full_work || !phase.row.empty()) {
    const auto row = out.block("if (f.has_row())");
    put_lines(out, phase.row);
    if (phase.has_full_work) {
      const bool all = pieces.empty();
      if (!all) out.line("#pragma unroll 1");
      const auto loop =
          all ? out.block("") : out.block("for (i32 piece = 0; piece < ", pieces, "; piece += ", at_once, ")");
      const auto each = [&] {
        out.line("#pragma unroll");
        auto block = out.block("for (i32 j = 0; j < ", at_once, "; ++j)");
        out.line("f.at_piece(", all ? "" : "piece + ", "j);");
        out.line("if (f.n <= 0) continue;");
        return block;
      };
      if (!phase.loads.empty()) {
        for (const Held& load : phase.loads) out.line(load.type, " ", load.name, "s[", at_once, "];");
        const auto fetch = each();
        for (const Held& load : phase.loads) out.line(load.name, "s[j] = ", load.text, ";");
      }
      const auto work = each();
      for (const Held& load : phase.loads) out.line("const ", load.type, " ", load.name, " = ", load.name, "s[j];");
      put_lines(out, phase.by_column);
      put_lines(out, phase.full);
    }
  }
  for (const Held& state : phase.row_states) out.line("s", state.text, ".take(", state.name, ");");
}

void RowsPrinter::print_finish(CodeWriter& out, uint32_t phase) const {
  for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
    const package::Reduction& r = program_.reductions[k];
    if (r.phase == phase) out.line("f.template finish<", r.mean, ", ", r.parts, ">(", k, ", s", k, ");");
  }
}

Result<void> RowsPrinter::print(CodeWriter& out) {
  constexpr int held = 32;  // f32 values that a thread keeps for later phases
  const auto begin = [&](std::string_view name, std::string_view more) {
    out.line("template <", more, "class P>");
    return out.block("static __device__ __forceinline__ void ", name, "(const P& params, Tile tile)");
  };
  const auto states_of = [&](uint32_t phase) {
    for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
      const package::Reduction& r = program_.reductions[k];
      if (r.phase == phase)
        out.line("RowState<", state_name(r.kind), ", ", cuda_dialect().type(r.type).element, "> s", k, ";");
    }
  };
  const auto no_accumulator = [](uint32_t) { return std::string(); };
  CODETTA_TRY(const KeptValues kept, keep_values(program_));
  const int pieces = kept.slots == 0 ? 0 : held / (layout_.lanes * std::max(kept.most_live, 1));
  if (pieces > 0) {
    const auto function = begin("short_rows", "");
    out.line("tile.cols = (i32)params.problem.cols;");
    out.line(row_fragment("true"));
    for (uint32_t slot = 0; slot < kept.slots; ++slot) out.line("f32v h", slot, "[", pieces, "];");
    for (uint32_t p = 0; p < program_.phases.size(); ++p) {
      const auto phase_block = out.block("");
      const auto accumulator = [](uint32_t slot) { return CodeWriter::text_of("h", slot, "[j]"); };
      CODETTA_TRY(PhaseText phase, print_phase(kept.program, p, cuda_dialect(), comments_, accumulator, needs_));
      // What is kept is an accumulator to the printer.
      for (std::string& line : phase.full) {
        if (const size_t at = line.find(" = accum "); at != std::string::npos)
          line.replace(at, std::string::npos, " = kept");
      }
      for (const auto& [value, slot] : kept.saved[p])
        phase.full.push_back(CodeWriter::text_of("h", slot, "[j] = v", value, ";"));
      states_of(p);
      print_row_phase(out, phase, "", pieces);
      print_finish(out, p);
    }
  }
  {
    out.blank();
    const auto function = begin("long_rows", "bool whole, ");
    out.line(row_fragment("whole"));
    for (uint32_t p = 0; p < program_.phases.size(); ++p) {
      const auto phase_block = out.block("");
      CODETTA_TRY(const PhaseText phase, print_phase(program_, p, cuda_dialect(), comments_, no_accumulator, needs_));
      states_of(p);
      {
        const auto segment = out.block_with("});", "each_segment<decltype(f)::segment>(params, tile, [&]");
        print_row_phase(out, phase, "f.pieces()", phase_clocks(program_, p) <= 12 ? 2 : 1);
      }
      print_finish(out, p);
    }
  }
  // Each form has its own loop over rows: what the compiler takes out of them would add up otherwise.
  out.blank();
  out.line("template <class P>");
  const auto function = out.block("static __device__ __forceinline__ void rows(const P& params)");
  out.line("const bool whole = params.problem.cols % ", layout_.lanes, " == 0",
           aligned_text(program_, [&](uint32_t k) { return !is_of_factor(program_, k); }), ";");
  const auto run = [&](std::string_view form) {
    return CodeWriter::text_of("run_rows<Config, ", threads_, ", ",
                               layout_.across > 32 ? program_.reductions.size() : 0,
                               " * row_scratch>(params, [](const P& q, const Tile& t) { ", form, "(q, t); });");
  };
  if (pieces > 0) {
    out.line("if (whole && params.problem.batches != 0 && params.problem.cols <= ",
             pieces * layout_.across * layout_.lanes, ") {");
    out.line("  ", run("short_rows"));
    out.line("} else if (whole) {");
  } else {
    out.line("if (whole) {");
  }
  out.line("  ", run("long_rows<true>"));
  out.line("} else {");
  out.line("  ", run("long_rows<false>"));
  out.line("}");
  return {};
}

}  // namespace

double phase_clocks(const package::EpilogueProgram& program, uint32_t index) {
  double clocks = 0;
  for (const package::Inst& inst : program.phases[index].insts) {
    if (inst.kind == package::Inst::Kind::Op) clocks += plan::vector_clocks(inst.op, inst.type);
    if (types::byte_size(inst.type) == 8) clocks += 4;
  }
  for (const package::Reduction& reduction : program.reductions) {
    if (reduction.phase == index) clocks += reduction.kind == package::ReduceKind::LogSumExp ? 60 : 1;
  }
  return clocks;
}

std::string_view state_name(package::ReduceKind kind) {
  static constexpr std::array<std::string_view, 4> names{"SumState", "MaxState", "MinState", "LogSumExpState"};
  return names[static_cast<size_t>(kind)];
}

Result<void> print_rows_of_map(CodeWriter& out, const package::EpilogueProgram& program,
                               const plan::PieceLayout& layout, int threads, bool comments,
                               std::set<PartLibrary::Request>& needs) {
  return RowsPrinter(program, layout, threads, comments, needs).print(out);
}

}  // namespace codetta::emit
