// SPDX-License-Identifier: Apache-2.0
#include "emit/cuda_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
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
  RowsPrinter(const package::EpilogueProgram& program, const package::GpuMapConfig& config,
              const plan::PieceLayout& layout, int threads, bool comments, bool few_forms,
              std::set<PartLibrary::Request>& needs)
      : program_(program),
        config_(config),
        layout_(layout),
        threads_(threads),
        comments_(comments),
        few_forms_(few_forms),
        needs_(needs),
        width_(layout.across * layout.lanes) {}
  // Gives the blocks that share a multiprocessor at least.
  Result<int> print(CodeWriter& out);

 private:
  // How the pieces of a row follow each other: `at_once` of them, until there are `count`; all of them unrolled where
  // that is a constant. What is kept of them lies in arrays; in RegisterArrays where they are `indexed`: these are
  // loaded side by side, but worked on in turn.
  struct Kept {
    std::string load, array;
    bool first = false;  // it is loaded here
  };
  struct Pieces {
    std::string_view count;
    int at_once = 1;
    bool unrolled = false, indexed = false;
    std::vector<Kept> kept{};
  };
  Result<void> print_short(CodeWriter& out, const KeptValues& kept, int pieces);
  // `rare`: only rows that are no whole vectors come here, so that one piece at a time is enough.
  Result<void> print_long(CodeWriter& out, bool asks, bool rare);
  // What a phase loads at once beside what is kept by then, `registers` for each piece: all of a row while that is
  // nothing else.
  [[nodiscard]] static int pieces_at_once(uint32_t phase, int registers, int pieces) {
    const int most = phase == 0 ? 32 : 16;
    while (pieces > 1 && pieces * registers > most) pieces = (pieces + 1) / 2;
    return pieces;
  }
  void print_states(CodeWriter& out, uint32_t phase) const;
  static void print_row_phase(CodeWriter& out, const PhaseText& phase, const Pieces& pieces);
  // Arrays, or RegisterArrays.
  template <class Count>
  static void print_array(CodeWriter& out, std::string_view type, std::string_view name, Count count, bool indexed) {
    if (indexed)
      out.line("RegisterArray<", type, ", ", count, "> ", name, ";");
    else
      out.line(type, " ", name, "[", count, "];");
  }
  static std::string put_in(std::string_view array, std::string_view at, std::string_view value, bool indexed) {
    return indexed ? CodeWriter::text_of(array, ".put(", at, ", ", value, ");")
                   : CodeWriter::text_of(array, "[", at, "] = ", value, ";");
  }
  static std::string taken_from(std::string_view array, std::string_view at, bool indexed) {
    return CodeWriter::text_of(array, indexed ? ".get(" : "[", at, indexed ? ")" : "]");
  }
  void print_finish(CodeWriter& out, uint32_t phase) const;
  [[nodiscard]] std::string row_fragment(std::string_view whole, std::string_view more,
                                         std::string_view wide = "") const {
    return CodeWriter::text_of("RowFragment<", whole, ", ", layout_.across, ", ", program_.reductions.size(), ", P",
                               more, "> f(params, tile", wide, ");");
  }
  [[nodiscard]] int registers_of(const Held& load) const;
  [[nodiscard]] bool have_index(const KeptValues& kept, int pieces) const;
  [[nodiscard]] bool is_loaded(uint32_t phase, uint32_t value) const {
    return program_.phases[phase].insts[value].kind == package::Inst::Kind::Load;
  }
  [[nodiscard]] std::vector<uint32_t> shared_places(const KeptValues& kept) const;
  [[nodiscard]] int most_pieces(const KeptValues& kept) const;
  [[nodiscard]] int blocks_of(const KeptValues& kept, int pieces) const;

  const package::EpilogueProgram& program_;
  const package::GpuMapConfig& config_;
  const plan::PieceLayout& layout_;
  int threads_;
  bool comments_, few_forms_;
  std::set<PartLibrary::Request>& needs_;
  int width_;  // columns of a piece
};

// Pieces whose values a thread keeps.
int RowsPrinter::most_pieces(const KeptValues& kept) const {
  return config_.kept_cols / layout_.lanes / static_cast<int>(std::ceil(std::max(kept.most_live, 1.0)));
}

// What a phase takes and what it makes, both of them in registers: 80 of a thread, for three blocks, have room for 48,
// and 48 of one, for five, for 20.
int RowsPrinter::blocks_of(const KeptValues& kept, int pieces) const {
  const double held = kept.most_held * pieces * layout_.lanes;
  return std::min(config_.row_blocks, held <= 20 ? 5 : held <= 48 ? 3 : 2);
}

// The part of a row that is the tile.
void RowsPrinter::print_row_phase(CodeWriter& out, const PhaseText& phase, const Pieces& pieces) {
  put_setup(out, phase);
  if (!phase.column.empty()) {
    out.line("#pragma unroll 1");
    const auto loop = out.block("for (i32 piece = 0; piece < f.pieces(); ++piece)");
    const auto guard = out.block("if (f.at_piece(piece) && (", phase.column_guard, "))");
    put_lines(out, phase.column);
  }
  for (const Held& state : phase.row_states) out.line(state.type, " ", state.name, ";");
  if (phase.has_full_work || !phase.row.empty()) {
    const auto row = out.block("if (f.has_row())");
    put_lines(out, phase.row);
    if (phase.has_full_work) {
      // What is loaded to stay goes to places that are known, or it would be waited for.
      const bool stays = std::any_of(pieces.kept.begin(), pieces.kept.end(), [](const Kept& k) { return k.first; });
      out.line("#pragma unroll", pieces.unrolled && (!pieces.indexed || stays) ? "" : " 1");
      const auto loop = out.block("for (i32 piece = 0; piece < ", pieces.count, "; piece += ", pieces.at_once, ")");
      const auto each = [&](bool unrolled, bool chooses = false) {
        out.line("#pragma unroll", unrolled ? "" : " 1");
        auto block = out.block("for (i32 j = 0; j < ", pieces.at_once, "; ++j)");
        std::string left_out =
            pieces.unrolled && pieces.at_once > 1 ? CodeWriter::text_of("piece + j >= ", pieces.count) : "";
        if (!chooses) left_out += left_out.empty() ? "!f.at_piece(piece + j)" : " || !f.at_piece(piece + j)";
        if (!left_out.empty()) out.line("if (", left_out, ") continue;");
        if (chooses) out.line("const bool is_here = f.at_piece(piece + j);");
        return block;
      };
      const auto kept_of = [&](const Held& load) -> const Kept* {
        for (const Kept& kept : pieces.kept) {
          if (load.name == kept.load) return &kept;
        }
        return nullptr;
      };
      // Where a load goes to, and whether it is done here.
      const auto array = [&](const Held& load) {
        return kept_of(load) != nullptr ? kept_of(load)->array : load.name + "s";
      };
      const auto number = [&](const Held& load) { return kept_of(load) != nullptr ? "piece + j" : "j"; };
      const auto is_here = [&](const Held& load) { return kept_of(load) == nullptr || kept_of(load)->first; };
      if (std::any_of(phase.loads.begin(), phase.loads.end(), is_here)) {
        for (const Held& load : phase.loads) {
          if (kept_of(load) == nullptr) print_array(out, load.type, load.name + "s", pieces.at_once, pieces.indexed);
        }
        // What has an index is put there either way: Clang takes long to merge whole arrays where ways meet.
        const auto fetch = each(true, pieces.indexed);
        for (const Held& load : phase.loads) {
          if (!is_here(load)) continue;
          const std::string value =
              pieces.indexed ? CodeWriter::text_of("is_here ? ", load.text, " : splat<", load.type, ">(0)") : load.text;
          out.line(put_in(array(load), number(load), value, pieces.indexed));
        }
      }
      const auto work = each(!pieces.indexed);
      for (const Held& load : phase.loads)
        out.line("const ", load.type, " ", load.name, " = ", taken_from(array(load), number(load), pieces.indexed),
                 ";");
      put_lines(out, phase.by_column);
      put_lines(out, phase.full);
    }
  }
  take_largest(out, phase, {}, {});
  for (const Held& state : phase.row_states) out.line("s", state.text, ".take(", state.name, ");");
}

void RowsPrinter::print_states(CodeWriter& out, uint32_t phase) const {
  for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
    const package::Reduction& r = program_.reductions[k];
    if (r.phase == phase)
      out.line("RowState<", state_name(r.kind), ", ", cuda_dialect().type(r.type).element, "> s", k, ";");
  }
}

void RowsPrinter::print_finish(CodeWriter& out, uint32_t phase) const {
  for (uint32_t k = 0; k < program_.reductions.size(); ++k) {
    const package::Reduction& r = program_.reductions[k];
    if (r.phase == phase) out.line("f.template finish<", r.mean, ", ", r.parts, ">(", k, ", s", k, ");");
  }
}

// Of a thread, for a piece.
int RowsPrinter::registers_of(const Held& load) const {
  for (int d = 0; d < dtype_count; ++d) {
    if (cuda_dialect().type(static_cast<DType>(d)).raw == load.type)
      return std::max(layout_.lanes * static_cast<int>(types::byte_size(static_cast<DType>(d))) / 4, 1);
  }
  return layout_.lanes;
}

Result<void> RowsPrinter::print_short(CodeWriter& out, const KeptValues& kept, int pieces) {
  out.line("template <int columns, int pieces, class P>");
  const auto function = out.block("static __device__ __forceinline__ void short_rows(const P& params, Tile tile)");
  out.line("tile.cols = columns > 0 ? columns : (i32)params.problem.cols;");
  out.line(row_fragment("true", ", columns"));
  const bool indexed = few_forms_ && have_index(kept, pieces);
  for (size_t slot = 0; slot < kept.load_slots.size(); ++slot)
    print_array(out, cuda_dialect().type(kept.load_slots[slot]).raw, CodeWriter::text_of("k", slot), "pieces", indexed);
  std::vector<uint32_t> places(kept.slots);  // by slot: its array
  std::iota(places.begin(), places.end(), 0);
  if (indexed) places = shared_places(kept);
  for (const uint32_t array : std::set<uint32_t>(places.begin(), places.end()))
    print_array(out, "f32v", CodeWriter::text_of("h", array), "pieces", indexed);
  for (uint32_t p = 0; p < program_.phases.size(); ++p) {
    const auto phase_block = out.block("");
    const auto accumulator = [&](uint32_t slot) {
      return taken_from(CodeWriter::text_of("h", places[slot]), "piece + j", indexed);
    };
    CODETTA_TRY(PhaseText phase, print_phase(kept.program, p, cuda_dialect(), comments_, accumulator, needs_));
    // What is kept is an accumulator to the printer.
    for (std::string& line : phase.full) {
      if (const size_t at = line.find(" = accum "); at != std::string::npos)
        line.replace(at, std::string::npos, " = kept");
    }
    std::vector<Kept> stay;
    for (const KeptLoad& k : kept.loads[p])
      stay.push_back({CodeWriter::text_of("l", k.value), CodeWriter::text_of("k", k.slot), k.first});
    for (const auto& [value, slot] : kept.saved[p]) {
      const std::string array = CodeWriter::text_of("h", places[slot]), load = CodeWriter::text_of("l", value);
      const auto is_it = [&](const Held& held) { return held.name == load && held.type == "f32v"; };
      // A value that is loaded as it is stays where it is loaded, or there would be registers for two of it.
      if (indexed && is_loaded(p, value) && std::any_of(phase.loads.begin(), phase.loads.end(), is_it))
        stay.push_back({load, array, true});
      else
        phase.full.push_back(put_in(array, "piece + j", CodeWriter::text_of("v", value), indexed));
    }
    int registers = 0;
    for (const Held& load : phase.loads) {
      const bool is_kept = std::any_of(stay.begin(), stay.end(), [&](const Kept& k) { return load.name == k.load; });
      registers += is_kept ? 0 : registers_of(load);
    }
    print_states(out, p);
    print_row_phase(out, phase, {"pieces", pieces_at_once(p, registers, pieces), true, indexed, stay});
    print_finish(out, p);
  }
  return {};
}

Result<void> RowsPrinter::print_long(CodeWriter& out, bool asks, bool rare) {
  out.line(asks ? "template <class P>" : "template <bool whole, class P>");
  const auto function = out.block("static __device__ __forceinline__ void long_rows(const P& params, Tile tile",
                                  asks ? ", bool wide)" : ")");
  out.line(asks ? row_fragment("false", ", 0, true", ", wide") : row_fragment("whole", ""));
  const auto no_accumulator = [](uint32_t) { return std::string(); };
  for (uint32_t p = 0; p < program_.phases.size(); ++p) {
    const auto phase_block = out.block("");
    CODETTA_TRY(const PhaseText phase, print_phase(program_, p, cuda_dialect(), comments_, no_accumulator, needs_));
    print_states(out, p);
    {
      const auto segment = out.block_with("});", "each_segment<decltype(f)::segment>(params, tile, [&]");
      print_row_phase(out, phase, {"f.pieces()", plan::phase_clocks(program_, p) <= 12 && !rare ? 2 : 1});
    }
    print_finish(out, p);
  }
  return {};
}

// Whether all that a thread loads and keeps of so many pieces has room in RegisterArrays (device/hip/builtins.h).
bool RowsPrinter::have_index(const KeptValues& kept, int pieces) const {
  const auto fits = [&](DType type) {
    const int bytes = layout_.lanes * static_cast<int>(types::byte_size(type));
    return bytes % 4 == 0 && bytes / 4 * pieces <= 32;
  };
  const auto operand_fits = [&](const package::Operand& operand) { return operand.is_store || fits(operand.dtype); };
  return std::all_of(program_.operands.begin(), program_.operands.end(), operand_fits) &&
         (kept.slots == 0 || fits(DType::f32));
}

// By slot: the first slot whose array it has. What a phase keeps of a piece takes the place of what it was the last to
// take, unless that is still to be taken when all pieces are loaded.
std::vector<uint32_t> RowsPrinter::shared_places(const KeptValues& kept) const {
  std::vector<uint32_t> places(kept.slots);
  std::vector<std::pair<uint32_t, uint32_t>> arrays;  // their first slot, and the one that they hold
  for (uint32_t p = 0; p < program_.phases.size(); ++p) {
    for (const auto& [value, slot] : kept.saved[p]) {
      const uint32_t end = is_loaded(p, value) ? p : p + 1;
      const auto is_free = [&](const auto& array) { return kept.last[array.second] < end; };
      auto array = std::find_if(arrays.begin(), arrays.end(), is_free);
      if (array == arrays.end()) array = arrays.insert(array, {slot, slot});
      array->second = slot;
      places[slot] = array->first;
    }
  }
  return places;
}

Result<int> RowsPrinter::print(CodeWriter& out) {
  CODETTA_TRY(const KeptValues kept, keep_values(program_));
  const bool vectors = config_.row_cols % layout_.lanes == 0;
  // Pieces of a row that a thread keeps, and those of a row of the columns that are known.
  const int most = kept.any() ? most_pieces(kept) : 0;
  const int known = config_.row_cols > 0 && vectors ? (config_.row_cols + width_ - 1) / width_ : 0;
  const bool has_known = known > 0 && known <= most && (config_.fixed_cols || !few_forms_);
  const bool has_short = most > 0 && !config_.fixed_cols;
  const bool has_long = config_.fixed_cols ? vectors && !has_known : true;
  // Of rows that are expected to have a quarter of what is kept at most, long ones are rare. With 8 columns at a time a
  // form for both spills.
  const bool asks = has_long && (few_forms_ || (has_known && 4 * known <= most && layout_.lanes <= 4));
  if (has_known || has_short) {
    CODETTA_CHECK_OK(print_short(out, kept, has_short ? most : known));
    out.blank();
  }
  CODETTA_CHECK_OK(print_long(out, asks, config_.fixed_cols && has_known && !few_forms_));
  // Each form has its own loop over rows: what the compiler takes out of them would add up otherwise.
  out.blank();
  out.line("template <class P>");
  const auto function = out.block("static __device__ __forceinline__ void rows(const P& params)");
  const auto run = [&](const std::string& form, std::string_view wide = "") {
    return CodeWriter::text_of("run_rows<Config, ", threads_, ", ",
                               layout_.across > 32 ? program_.reductions.size() : 0, " * row_scratch>(params, [",
                               wide.empty() ? "" : "=", "](const P& q, const Tile& t) { ", form, "(q, t", wide,
                               "); });");
  };
  std::string_view otherwise;
  const auto branch = [&](std::string_view condition, const std::string& form) {
    out.line(otherwise, "if (", condition, ") {");
    out.line("  ", run(form));
    otherwise = "} else ";
  };
  if (has_known || has_short || has_long) {
    out.line("const bool whole = params.problem.cols % ", layout_.lanes, " == 0",
             aligned_text(program_, [&](uint32_t k) { return !is_of_factor(program_, k); }), ";");
  }
  const std::string is_short = "whole && params.problem.batches != 0 && params.problem.cols ";
  if (has_known)
    branch(is_short + CodeWriter::text_of("== ", config_.row_cols),
           CodeWriter::text_of("short_rows<", config_.row_cols, ", ", known, ">"));
  if (has_short)
    branch(is_short + CodeWriter::text_of("<= ", most * width_), CodeWriter::text_of("short_rows<0, ", most, ">"));
  if (has_long && !asks) branch("whole", "long_rows<true>");
  const std::string last = asks ? run("long_rows", ", whole") : run("long_rows<false>");
  if (otherwise.empty()) {
    out.line(last);
  } else {
    out.line("} else {");
    out.line("  ", last);
    out.line("}");
  }
  return blocks_of(kept, has_short ? most : has_known ? known : 0);
}

}  // namespace

std::string_view state_name(package::ReduceKind kind) {
  static constexpr std::array<std::string_view, 5> names{"SumState", "MaxState", "MinState", "LogSumExpState",
                                                         "SumExpState"};
  return names[static_cast<size_t>(kind)];
}

std::string reduction_text(const package::Reduction& r) {
  return CodeWriter::text_of(state_name(r.kind), ", ", r.mean, ", ", r.parts, ", ",
                             cuda_dialect().type(r.type).element);
}

Result<int> print_rows_of_map(CodeWriter& out, const package::EpilogueProgram& program,
                              const package::GpuMapConfig& config, const plan::PieceLayout& layout, int threads,
                              bool comments, bool few_forms, std::set<PartLibrary::Request>& needs) {
  return RowsPrinter(program, config, layout, threads, comments, few_forms, needs).print(out);
}

}  // namespace codetta::emit
