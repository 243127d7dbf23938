// SPDX-License-Identifier: Apache-2.0
// The CPU's translation unit: configuration, device parts, one function a phase, entry point.
#include <algorithm>

#include "base/code_writer.hpp"
#include "device/embedded.hpp"
#include "diag/diagnostic.hpp"
#include "emit/cpu_parts.hpp"
#include "emit/emit.hpp"
#include "emit/phase_printer.hpp"
#include "plan/fused.hpp"

namespace codetta::emit {

using base::CodeWriter;

namespace {

struct IsaFacts {
  int vector_bytes;
  std::vector<std::string> flags;
};

IsaFacts facts_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::generic:
    case CpuIsa::neon:
      return {16, {}};
    case CpuIsa::avx2:
      return {32, {"-mavx2", "-mfma", "-mf16c"}};
    default:
      return {64, {"-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512cd"}};
  }
}

void add_flags(const CpuEmitOptions& options, EmittedSource& out) {
  // Each single flag is named: -ffast-math would also set FTZ/DAZ in whoever loads the object. Unwind tables, RTTI and
  // stack protectors cost compile time and serve nobody; start-up files and libraries cost linking time.
  std::vector<std::string> flags = {"-std=c++17",
                                    "-O2",
                                    options.strict ? "-ffp-contract=off" : "-ffp-contract=fast",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-strict-aliasing",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-asynchronous-unwind-tables",
                                    "-fno-stack-protector",
                                    "-fvisibility=hidden",
                                    "-nostdlib",
                                    "-Wno-psabi"};
  for (const std::string& flag : facts_of(options.isa).flags) flags.push_back(flag);
  if (options.isa >= CpuIsa::avx512_bf16) flags.emplace_back("-mavx512bf16");
  out.gcc_flags = flags;
  out.clang_flags = std::move(flags);
  for (const char* flag : {"-fno-tree-vectorize", "-fno-tree-loop-distribute-patterns"})
    out.gcc_flags.emplace_back(flag);
  for (const char* flag : {"-fno-vectorize", "-fno-slp-vectorize"}) out.clang_flags.emplace_back(flag);
}

void add_flag(EmittedSource& out, const char* flag) {
  out.gcc_flags.emplace_back(flag);
  out.clang_flags.emplace_back(flag);
}

std::vector<PartFile> cpu_files() {
  return {{"cpu/vec.h", Domain::Common},       {"cpu/convert.h", Domain::Common}, {"cpu/math_basic.h", Domain::Common},
          {"cpu/math_int.h", Domain::Int},     {"cpu/math_f64.h", Domain::F64},   {"cpu/math_f32.h", Domain::F32},
          {"cpu/math_more.h", Domain::Common}, {"cpu/reduce.h", Domain::Common},  {"cpu/fragment.h", Domain::Common},
          {"cpu/fused.h", Domain::Common}};
}

// Uniform values and scalar stores, then the row-class stores in a pass of their own.
void print_setup(CodeWriter& out, const PhaseText& phase) {
  put_setup(out, phase);
  if (phase.column.empty()) return;
  const auto guard = out.block("if (", phase.column_guard, ")");
  const auto columns = out.block("for (i64 c = 0; c < f.tile.cols; c += lanes)");
  out.line("f.at_column(c);");
  put_lines(out, phase.column);
}

// Positions of a row from column c on: whole vectors, or pairs of them, without masks, then the tail.
void print_columns(CodeWriter& out, const PhaseText& phase) {
  if (!phase.pair.empty()) {
    {
      const auto columns = out.block("for (; c + 2 * lanes <= f.tile.cols; c += 2 * lanes)");
      put_lines(out, phase.pair_held);
      {
        const auto position =
            out.block_with("};", "const auto position = [&](bool right) __attribute__((always_inline))");
        out.line("f.c = right ? c + lanes : c;");
        out.line("f.n = lanes;");
        put_lines(out, phase.pair);
      }
      out.line("position(false);");
      out.line("position(true);");
    }
    const auto rest = out.block("for (; c < f.tile.cols; c += lanes)");
    out.line("f.at_column(c);");
    put_lines(out, phase.full);
    return;
  }
  {
    const auto columns = out.block("for (; c + lanes <= f.tile.cols; c += lanes)");
    out.line("f.c = c;");
    out.line("f.n = lanes;");
    put_lines(out, phase.full);
  }
  const auto tail = out.block("if (c < f.tile.cols)");
  out.line("f.at_column(c);");
  put_lines(out, phase.full);
}

void print_tile_phase(CodeWriter& out, uint32_t index, const PhaseText& phase) {
  const auto function = out.block("static void phase_", index, "(const EpilogueArgs& args, const Tile& tile)");
  out.line("TileFragment f(args, tile);");
  print_setup(out, phase);
  if (phase.has_full_work || !phase.row.empty()) {
    const auto rows = out.block("for (f.r = 0; f.r < f.tile.rows; ++f.r)");
    put_lines(out, phase.row);
    if (phase.has_full_work) {
      out.line("i64 c = 0;");
      print_columns(out, phase);
    }
    put_lines(out, phase.row_end);
  }
  put_lines(out, phase.end);
}

Result<std::string> embedded_abi() {
  const device::EmbeddedFile* abi = device::find_file("cpu/abi.h");
  if (abi == nullptr) {
    return diag::error(diag::Code::internal, "the device file 'cpu/abi.h' is missing")
        .reason("the device sources carried by this library do not have it")
        .help("this is a bug in Codetta; please report it");
  }
  constexpr std::string_view once = "#pragma once\n";  // warns in a main file
  const size_t at = abi->text.find(once);
  if (at == std::string_view::npos) return std::string(abi->text);
  return std::string(abi->text.substr(0, at)) + "\n" + std::string(abi->text.substr(at + once.size()));
}

// The number of the line that follows `text`.
size_t line_after(std::string_view text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1; }

std::optional<Error> defect_error(const package::EpilogueProgram& program) {
  const auto defect = package::find_defect(program);
  if (!defect) return std::nullopt;
  return Error(diag::error(diag::Code::internal, "the epilogue program is not valid")
                   .reason(*defect)
                   .help("this is a bug in Codetta; please report it with the epilogue"));
}

using Needs = std::set<PartLibrary::Request>;

// The translation unit around `body`, which ends with the entry point.
Result<EmittedSource> assemble(CodeWriter& body, const Needs& needs, int lanes, const CpuEmitOptions& options,
                               std::string entry) {
  body.blank();
  body.line("extern \"C\" __attribute__((visibility(\"default\"))) const char ", entry_digest_symbol, "[33];");
  body.line("const char ", entry_digest_symbol, "[33] = \"", entry_digest_placeholder, "\";");
  EmittedSource out;
  out.entry = std::move(entry);
  CODETTA_TRY(out.text,
              cpu_parts_text(CodeWriter::text_of("// Generated by Codetta: ", out.entry, " for ", isa_name(options.isa),
                                                 options.strict ? ", strict" : "", ".\n"),
                             needs, lanes, body));
  add_flags(options, out);
  return out;
}

std::string entry_head(std::string_view signature) {
  return CodeWriter::text_of("extern \"C\" __attribute__((visibility(\"default\"))) void ", signature);
}

}  // namespace

int cpu_vector_bytes(CpuIsa isa) { return facts_of(isa).vector_bytes; }

Result<std::string> cpu_parts_text(std::string head, const Needs& needs, int lanes, const CodeWriter& body) {
  CODETTA_TRY(const PartLibrary library, PartLibrary::make(cpu_files()));
  CODETTA_TRY(const std::string parts, library.text_for(needs));
  CODETTA_TRY(const std::string abi, embedded_abi());
  std::string text =
      CodeWriter::text_of(head, "#define CODETTA_LANES ", lanes, "\n#line 1 \"codetta/device/cpu/abi.h\"\n", abi,
                          "\nnamespace codetta::cpu {\n", parts);
  text += CodeWriter::text_of("#line ", line_after(text) + 1, " \"codetta_epilogue.cpp\"\n", body.str(),
                              "\n}  // namespace codetta::cpu\n");
  return text;
}

std::vector<std::string> cpu_flags(CpuIsa isa) { return facts_of(isa).flags; }

Result<EmittedSource> emit_cpu_epilogue(const package::EpilogueProgram& program, const CpuEmitOptions& options) {
  if (auto defect = defect_error(program)) return *std::move(defect);
  Needs needs{{"core", Domain::Common}, {"TileFragment", Domain::Common}};
  const auto accumulator = [&](uint32_t part) {
    const std::string_view method = program.split.own_ways() == 1 ? "accum" : "accum_strided";
    needs.emplace(method, Domain::Common);
    return CodeWriter::text_of("f.", method, "<", cpu_dialect().type(program.accumulator).value, ">(", part, ")");
  };
  const int lanes = facts_of(options.isa).vector_bytes / (plan::has_wide_values(program) ? 8 : 4);
  Dialect dialect = cpu_dialect();
  dialect.pairs = options.isa >= CpuIsa::avx512_bf16 && lanes == 16;
  CodeWriter body;
  for (uint32_t p = 0; p < program.phases.size(); ++p) {
    CODETTA_TRY(const PhaseText phase, print_phase(program, p, dialect, options.comments, accumulator, needs));
    print_tile_phase(body, p, phase);
    body.blank();
  }
  {
    const auto entry = body.block(entry_head("codetta_epilogue(const EpilogueArgs* args, const Tile* tile)"));
    for (uint32_t p = 0; p < program.phases.size(); ++p) {
      body.line("if (tile->phase == ", p, ") return phase_", p, "(*args, *tile);");
    }
  }
  return assemble(body, needs, lanes, options, "codetta_epilogue");
}

Result<FusedSource> emit_cpu_fused(const package::EpilogueProgram& program, DType a, DType b,
                                   const CpuEmitOptions& options) {
  if (auto defect = defect_error(program)) return *std::move(defect);
  if (std::string obstacle = plan::fused_obstacle(program, options.isa, a, b); !obstacle.empty()) {
    return diag::error(diag::Code::internal, "this epilogue has no fully fused form")
        .reason(std::move(obstacle))
        .help("this is a bug in Codetta (fused_obstacle was not asked); please report it with the epilogue");
  }
  const plan::FusedBlock kernel = *plan::fused_block(options.isa, a, b);
  const int lanes = facts_of(options.isa).vector_bytes / 4, rows = kernel.mr, vectors = kernel.nr / lanes;
  Needs needs{{"core", Domain::Common},
              {"RegisterFragment", Domain::Common},
              {"run_fused", Domain::Common},
              {std::string(kernel.multiply), Domain::Common}};
  CODETTA_TRY(const PhaseText phase,
              print_phase(
                  program, 0, cpu_dialect(), options.comments, [](uint32_t) { return std::string("f.held"); }, needs));
  const std::string_view vector = cpu_dialect().type(program.accumulator).value;
  CodeWriter body;
  {
    const auto entry = body.block(entry_head("codetta_fused(const FusedArgs* task)"));
    body.line("const EpilogueArgs& args = *task->args;");
    body.line("RegisterFragment<", vector, "> f(args, task->tile);");
    print_setup(body, phase);
    {
      const auto row =
          body.block_with("});", "run_fused<", kernel.multiply, ", ", rows, ", ", vectors,
                          ">(*task, [&](i64 r, i64 c0, const auto& block_row) __attribute__((always_inline))");
      body.line("f.r = r;");
      body.line("f.tile.tile_col = task->tile.tile_col | c0;  // column-class stores happen once, at the first panel");
      for (const std::string& line : phase.row) body.line(line);
      if (phase.has_full_work) {
        const auto vectors_of_row =
            body.block_with("});", "block_row.finish(c0, [&](i64 c, ", vector, " held) __attribute__((always_inline))");
        body.line("if (c >= f.tile.cols) return;");
        body.line("f.at_column(c);");
        body.line("f.held = held;");
        for (const std::string& line : phase.full) body.line(line);
      }
    }
    put_lines(body, phase.end);
  }
  CODETTA_TRY(EmittedSource source, assemble(body, needs, lanes, options, "codetta_fused"));
  FusedSource out;
  static_cast<EmittedSource&>(out) = std::move(source);
  out.block = kernel;
  if (kernel.multiply == "multiply_u8s8") add_flag(out, "-mavx512vnni");
  return out;
}

}  // namespace codetta::emit
