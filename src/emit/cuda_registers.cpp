// SPDX-License-Identifier: Apache-2.0
#include "emit/cuda_registers.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "emit/cuda_rows.hpp"
#include "plan/copy_engine.hpp"
#include "plan/families.hpp"
#include "plan/families_cuda.hpp"
#include "types/dtype.hpp"

namespace codetta::emit {

using base::CodeWriter;

// Phase 0 over accumulators in registers (device/cuda/strip.h); `complete` strips need no bounds, and others ask (see
// CudaPrinter::asks_for_whole).
void print_strip(CodeWriter& out, const package::EpilogueProgram& program, const PhaseText& phase, bool asks) {
  out.line("template <bool whole, bool complete, class P, class S>");
  const auto function =
      out.block("static __device__ __forceinline__ void strip_0(const P& params, const Tile& tile, const S& strip",
                asks ? ", bool wide)" : ")");
  out.line("StripFragment<whole, S::parts, ", cuda_dialect().type(program.accumulator).element,
           asks ? ", P, !whole> f(params, tile, wide);" : ", P> f(params, tile);");
  put_setup(out, phase);
  out.line("#pragma unroll");
  const auto steps = out.block("for (int step = 0; step < S::steps; ++step)");
  out.line("f.at_column(strip.column(step));");
  out.line("if (complete) f.n = lanes;");
  const auto columns = out.block("if (complete || f.n > 0)");
  put_lines(out, phase.by_column);
  {
    // Not as a loop, which NVVM would ask for conditions to take out of it before it unrolls it.
    const auto row = out.block_with("};", "const auto finish = [&](int half)");
    out.line("f.r = strip.row(half);");
    const auto rows = out.block("if (complete || f.r < tile.rows)");
    out.line("strip.give(f, step, half);");
    put_lines(out, phase.row);
    for (const Held& load : phase.loads) out.line("const ", load.type, " ", load.name, " = ", load.text, ";");
    put_lines(out, phase.full);
  }
  out.line("finish(0), finish(1);");
}

namespace {

// A line of the phase as copies have it: the columns of a row are compared with its label where they are known.
std::string in_copies(const package::EpilogueProgram& program, const std::string& line) {
  using Kind = package::Inst::Kind;
  const std::vector<package::Inst>& insts = program.phases[0].insts;
  for (size_t i = 0; i < insts.size(); ++i) {
    if (insts[i].kind != Kind::Op || insts[i].op != types::Op::eq || insts[i].aux != DType::i64) continue;
    for (const size_t side : {0, 1}) {
      const uint32_t column = insts[i].in[side], label = insts[i].in[1 - side];
      if (insts[column].kind != Kind::ColIndex || insts[label].kind != Kind::Load ||
          program.operands[insts[label].index].access != package::Access::Column)
        continue;
      const std::string known =
          CodeWriter::text_of("const boolv v", i, " = ct_eq(v", insts[i].in[0], ", v", insts[i].in[1], ");");
      if (line.starts_with(known))
        return CodeWriter::text_of("const boolv v", i, " = f.is_column(v", label, ");", line.substr(known.size()));
    }
  }
  return line;
}

}  // namespace

// Phase 0 over accumulators in registers whose matrices come and go by the copy engine (device/cuda/kernels/copies.h).
int print_copies(CodeWriter& out, const package::EpilogueProgram& program, const package::GpuGemmConfig& config,
                 const plan::Copies& wanted, int load_slots, size_t first_map, const PhaseText& phase) {
  std::vector<uint32_t> all = wanted.loads;
  all.insert(all.end(), wanted.stores.begin(), wanted.stores.end());
  {
    const auto copies = out.block_with("};", "struct Copies : PlainCopies");
    out.line("static constexpr int loads = ", wanted.loads.size(), ", stores = ", wanted.stores.size(),
             ", load_slots = ", load_slots, ";");
    if (first_map != 2) out.line("static constexpr int first_map = ", first_map, ";");
    std::string operands, sizes, column_major, run, step;
    bool any_runs = false;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto choice = [&](std::string& text, auto value) {
        text += i + 1 < all.size() ? CodeWriter::text_of("i == ", i, " ? ", value, " : ") : CodeWriter::text_of(value);
      };
      choice(operands, all[i]);
      choice(sizes, types::byte_size(program.operands[all[i]].dtype));
      choice(column_major, program.operands[all[i]].column_major);
      const auto runs = plan::column_runs(program.operands[all[i]]);
      any_runs = any_runs || runs;
      choice(run, runs ? runs->run : 0);
      choice(step, runs ? runs->step : 0);
    }
    const auto print = [&](std::string_view name, const std::string& of_copy) {
      out.line("static constexpr ", name, "(int", all.size() > 1 ? " i" : "", ") { return ",
               of_copy.empty() ? "0" : of_copy, "; }");
    };
    print("int operand", operands);
    print("int size", sizes);
    print("bool column_major", column_major);
    if (any_runs) print("int run", run), print("int step", step);
    if (wanted.column_sums > 0) out.line("static constexpr int column_sums = ", wanted.column_sums, ";");
  }
  // Of a piece, brought once. What an output may take the place of is loaded where it is read.
  std::vector<uint32_t> vectors;
  for (const package::Inst& inst : program.phases[0].insts) {
    if (inst.kind != package::Inst::Kind::Load || is_written(program, inst.index)) continue;
    const package::Access access = program.operands[inst.index].access;
    const bool known = std::find(vectors.begin(), vectors.end(), inst.index) != vectors.end();
    if (!known && (access == package::Access::Row || access == package::Access::Column)) vectors.push_back(inst.index);
  }
  {
    const auto held = out.block_with("};", "struct Vectors");
    for (const uint32_t k : vectors) {
      const package::Operand& operand = program.operands[k];
      const std::string_view element = cuda_dialect().type(operand.dtype).element;
      if (operand.access == package::Access::Row) {
        out.line("AlongRows<", element, ", Config::piece_cols> o", k, ";");
      } else {
        out.line("DownColumns<", element, "> o", k, ";");
      }
    }
    out.line("template <class P>");
    // What is along the columns stays for all pieces of a row of them.
    const auto bring =
        out.block("__device__ __forceinline__ void bring(const P& params, const Tile& tile, bool is_first)");
    if (!vectors.empty()) out.line("const TileFragment<false, 1, P> f(params, tile);");
    for (const uint32_t k : vectors) {
      const bool stays = program.operands[k].access == package::Access::Column;
      out.line(stays ? "if (is_first) o" : "o", k, ".bring(f, ", k, ");");
    }
  }
  {
    const auto rows = out.block_with("};", "struct Rows");
    for (const Held& state : phase.row_states) out.line(state.type, " ", state.name, "[2];");
  }
  // What takes all of a row's values at once.
  const auto gathers = [&](const Held& state) {
    return package::values_of(program.reductions[std::stoul(state.text)].kind) == 2;
  };
  const bool any = std::any_of(phase.row_states.begin(), phase.row_states.end(), gathers);
  const int width = config.tile_n / program.split.ways;
  double clocks = plan::phase_clocks(program, 0);
  for (const package::Inst& inst : program.phases[0].insts) {
    const bool wide = inst.kind == package::Inst::Kind::Load && types::byte_size(inst.type) == 8;
    if (plan::is_position(inst) || wide) clocks -= 4;  // in 32 bits here, or once for a row
    if (plan::is_position(inst) && inst.kind == package::Inst::Kind::Op)
      clocks -= plan::vector_clocks(inst.op, inst.type) - 1;  // by numbers that are known, once for both rows
  }
  for (const Held& state : phase.row_states) {  // taken all at once
    if (program.reductions[std::stoul(state.text)].kind == package::ReduceKind::LogSumExp)
      clocks -= plan::log_sum_exp_clocks - plan::sum_exp_clocks;
  }
  const bool light = clocks <= 24 && plan::sm90_shape(program, config).accumulators <= 128 && width % 32 == 0;
  const bool whole = light && any && wanted.loads.empty() && config.piece_cols == 64 && width % 64 == 0;
  const int strip_steps = whole ? 4 : light ? 2 : 1;
  out.line("static constexpr int strip_steps = ", strip_steps, ";");
  out.blank();
  {
    out.line("template <class P, class S>");
    const auto function = out.block(
        "static __device__ __forceinline__ void phase_0(const P& params, const Tile& tile, const S& strip, Rows& "
        "rows)");
    out.line("CopiedFragment<S, P> f(params, tile, strip);");
    for (const std::string& line : phase.setup) {
      const auto refers = [&](uint32_t k) {
        return line.starts_with(
            CodeWriter::text_of("const Ref<", cuda_dialect().type(program.operands[k].dtype).element, "> o", k, " = "));
      };
      const auto copy = std::find_if(all.begin(), all.end(), refers);
      const auto vector = std::find_if(vectors.begin(), vectors.end(), refers);
      if (vector != vectors.end()) {
        out.line("const auto& o", *vector, " = strip.vectors.o", *vector, ";");
      } else if (copy == all.end()) {
        out.line(line);
      } else {
        out.line("const Copied<", cuda_dialect().type(program.operands[*copy].dtype).element, ", ", copy - all.begin(),
                 "> o", *copy, "{};");
      }
    }
    for (const Held& state : phase.row_states) {
      if (!gathers(state)) continue;
      const DType type = program.reductions[std::stoul(state.text)].type;
      out.line("Gathered<", cuda_dialect().type(type).value, ", 2 * S::steps> g", state.text, "[2];");
    }
    for (const Held& sum : phase.reducers) out.line(sum.type, " columns_", sum.name, "[2 * S::steps];");
    out.line("f.bring();");
    out.line("#pragma unroll");
    {
      const auto steps = out.block("for (int step = 0; step < S::steps; ++step)");
      {
        out.line("#pragma unroll");
        const auto groups = out.block("for (int group = 0; group < 2; ++group)");
        out.line("f.to(step, 2 * group);");
        put_lines(out, phase.by_column);
        out.line("#pragma unroll");
        const auto halves = out.block("for (int half = 0; half < 2; ++half)");
        out.line("f.to(step, 2 * group + half);");
        for (const Held& state : phase.row_states) {
          if (gathers(state)) {
            out.line("const auto ", state.name, " = g", state.text, "[half].at(2 * step + group);");
          } else if (state.setup.empty()) {
            out.line(state.type, "& ", state.name, " = rows.", state.name, "[half];");
          }
        }
        for (const Held& sum : phase.reducers)
          out.line(sum.type, "& ", sum.name, " = columns_", sum.name, "[2 * step + group];");
        put_lines(out, phase.row);
        for (const Held& load : phase.loads) out.line("const ", load.type, " ", load.name, " = ", load.text, ";");
        for (const std::string& line : phase.full) {
          if (!phase.reducers.empty() && line == "const boolv valid = f.valid_here();") {
            out.line("const boolv valid = f.row_exists(", phase.row_states.empty() ? "" : "f.valid_here()", ");");
          } else {
            out.line(in_copies(program, line));
          }
        }
      }
      out.line("f.send();");
    }
    for (size_t i = 0; i < phase.reducers.size(); ++i)
      out.line("f.fold_columns(columns_", phase.reducers[i].name, ", ", 8 * width * i, ");");
    if (any) {
      for (const Held& state : phase.row_states) {
        if (gathers(state)) out.line("f.keep_valid(g", state.text, ");");
      }
      out.line("#pragma unroll");
      const auto halves = out.block("for (int half = 0; half < 2; ++half)");
      for (const Held& state : phase.row_states) {
        if (gathers(state)) out.line("rows.", state.name, "[half].add_all(g", state.text, "[half].x);");
      }
      take_largest(out, phase, "rows.", "[half]");
    }
  }
  out.blank();
  out.line("template <class P, class S>");
  const auto end = out.block(
      "static __device__ __forceinline__ void end_0(const P& params, const Tile& tile, const S& strip, const Rows& "
      "rows)");
  if (!phase.row_states.empty()) out.line("const CopiedFragment<S, P> f(params, tile, strip);");
  for (const Held& state : phase.row_states) {
    const package::Reduction& reduction = program.reductions[std::stoul(state.text)];
    out.line("f.template reduce<", cuda_dialect().type(reduction.type).value, ">(", state.text, ", rows.", state.name,
             ");");
  }
  return strip_steps;
}

void print_slots(CodeWriter& out, const plan::CopySlots& slots, int load_slots) {
  const auto copies = out.block_with("};", "struct Copies : PlainCopies");
  out.line("static constexpr int loads = ", slots.loads.size(), ", stores = ", slots.stores.size(),
           ", load_slots = ", load_slots, ";");
  std::vector<int64_t> all = slots.loads;
  all.insert(all.end(), slots.stores.begin(), slots.stores.end());
  std::string sizes;
  for (size_t i = 0; i < all.size(); ++i)
    sizes += i + 1 < all.size() ? CodeWriter::text_of("i == ", i, " ? ", all[i], " : ") : CodeWriter::text_of(all[i]);
  out.line("static constexpr int size(int", all.size() > 1 ? " i" : "", ") { return ", sizes, "; }");
}

void print_columns(CodeWriter& out, const package::EpilogueProgram& program, const package::GpuGemmConfig& config,
                   const PhaseText& phase) {
  if (phase.reducers.empty()) return;
  const int width = config.tile_n / program.split.ways;
  out.blank();
  out.line("template <class P>");
  const auto function =
      out.block("static __device__ __forceinline__ void columns_0(const P& params, const Tile& tile)");
  for (size_t i = 0; i < phase.reducers.size(); ++i) {
    const std::string number = phase.reducers[i].name.substr(1);
    out.line("finish_columns<", phase.reducers[i].type, ", ",
             cuda_dialect().type(program.reductions[std::stoul(number)].type).element, ", ", width, ">(params, tile, ",
             number, ", ", 8 * width * i, ");");
  }
}

}  // namespace codetta::emit
