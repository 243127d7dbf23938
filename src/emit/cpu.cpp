// SPDX-License-Identifier: Apache-2.0
// The CPU's translation unit: configuration, device parts, one function a phase, entry point.
#include <algorithm>

#include "base/code_writer.hpp"
#include "device/embedded.hpp"
#include "diag/diagnostic.hpp"
#include "emit/emit.hpp"
#include "emit/phase_printer.hpp"

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
    case CpuIsa::neon: return {16, {}};
    case CpuIsa::avx2: return {32, {"-mavx2", "-mfma", "-mf16c"}};
    default:
      return {64, {"-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512cd"}};
  }
}

void add_flags(const CpuEmitOptions& options, EmittedSource& out) {
  // Each single flag is named: -ffast-math would also set FTZ/DAZ in whoever loads the object.
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
  out.gcc_flags = flags;
  out.clang_flags = std::move(flags);
  for (const char* flag : {"-fno-tree-vectorize", "-fno-tree-loop-distribute-patterns"}) out.gcc_flags.emplace_back(flag);
  for (const char* flag : {"-fno-vectorize", "-fno-slp-vectorize"}) out.clang_flags.emplace_back(flag);
}

std::vector<PartFile> cpu_files() {
  return {{"cpu/vec.h", Domain::Common},        {"cpu/convert.h", Domain::Common}, {"cpu/math_basic.h", Domain::Common},
          {"cpu/math_int.h", Domain::Int},      {"cpu/math_f64.h", Domain::F64},   {"cpu/math_f32.h", Domain::F32},
          {"cpu/math_more.h", Domain::Common},  {"cpu/reduce.h", Domain::Common},  {"cpu/fragment.h", Domain::Common}};
}

void put_lines(CodeWriter& out, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) out.line(line);
}

void print_tile_phase(CodeWriter& out, uint32_t index, const PhaseText& phase) {
  const auto function = out.block("static void phase_", index, "(const EpilogueArgs& args, const Tile& tile)");
  out.line("TileFragment f(args, tile);");
  put_lines(out, phase.setup);
  if (!phase.column.empty()) {
    const auto guard = out.block("if (", phase.column_guard, ")");
    const auto columns = out.block("for (i64 c = 0; c < f.tile.cols; c += lanes)");
    out.line("f.at_column(c);");
    put_lines(out, phase.column);
  }
  if (phase.has_full_work || !phase.row.empty()) {
    const auto rows = out.block("for (f.r = 0; f.r < f.tile.rows; ++f.r)");
    put_lines(out, phase.row);
    if (phase.has_full_work) {
      const auto columns = out.block("for (i64 c = 0; c < f.tile.cols; c += lanes)");
      out.line("f.at_column(c);");
      put_lines(out, phase.full);
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

}  // namespace

Result<EmittedSource> emit_cpu_epilogue(const package::EpilogueProgram& program, const CpuEmitOptions& options) {
  if (const auto defect = package::find_defect(program)) {
    return diag::error(diag::Code::internal, "the epilogue program is not valid")
        .reason(*defect)
        .help("this is a bug in Codetta; please report it with the epilogue");
  }
  std::set<PartLibrary::Request> needs{{"core", Domain::Common}, {"TileFragment", Domain::Common}};
  const auto accumulator = [&](uint32_t part) {
    const std::string_view method = program.split.ways == 1 ? "accum" : "accum_strided";
    needs.emplace(method, Domain::Common);
    return CodeWriter::text_of("f.", method, "<", cpu_dialect().type(program.accumulator).value, ">(", part, ")");
  };
  CodeWriter body;
  for (uint32_t p = 0; p < program.phases.size(); ++p) {
    CODETTA_TRY(const PhaseText phase, print_phase(program, p, cpu_dialect(), options.comments, accumulator, needs));
    print_tile_phase(body, p, phase);
    body.blank();
  }
  {
    const auto entry = body.block(
        "extern \"C\" __attribute__((visibility(\"default\"))) void codetta_epilogue(const EpilogueArgs* args, const Tile* tile)");
    for (uint32_t p = 0; p < program.phases.size(); ++p) {
      body.line("if (tile->phase == ", p, ") return phase_", p, "(*args, *tile);");
    }
  }
  body.blank();
  body.line("extern \"C\" __attribute__((visibility(\"default\"))) const char ", entry_digest_symbol, "[33];");
  body.line("const char ", entry_digest_symbol, "[33] = \"", entry_digest_placeholder, "\";");

  CODETTA_TRY(const PartLibrary library, PartLibrary::make(cpu_files()));
  CODETTA_TRY(const std::string parts, library.text_for(needs));
  CODETTA_TRY(const std::string abi, embedded_abi());
  const int lanes = facts_of(options.isa).vector_bytes / (has_wide_values(program) ? 8 : 4);
  EmittedSource out;
  out.entry = "codetta_epilogue";
  out.text = CodeWriter::text_of("// Generated by Codetta: an epilogue for ", isa_name(options.isa), options.strict ? ", strict" : "",
                                 ".\n#define CODETTA_LANES ", lanes, "\n#line 1 \"codetta/device/cpu/abi.h\"\n", abi,
                                 "\nnamespace codetta::cpu {\n", parts);
  out.text += CodeWriter::text_of("#line ", line_after(out.text) + 1, " \"codetta_epilogue.cpp\"\n", body.str(),
                                  "\n}  // namespace codetta::cpu\n");
  add_flags(options, out);
  return out;
}

}  // namespace codetta::emit
