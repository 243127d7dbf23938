// SPDX-License-Identifier: Apache-2.0
// Parts of C++ host text that stand outside of the steps: configurations, types of numbers, functions of the caller's.
#include <algorithm>
#include <set>

#include "emit/host/signature.hpp"
#include "emit/host/steps.hpp"
#include "package/cpu_call.hpp"

namespace codetta::emit::host {

using base::CodeWriter;
using package::Buffer;

void print_configuration(CodeWriter& out, size_t index, const package::Kernel& kernel) {
  if (const auto* map = std::get_if<package::CpuMapConfig>(&kernel.config)) {
    out.line("// ", kernel.name, ": no product, tiles of ", map->tile_rows, "x", map->tile_cols, ", ",
             isa_name(map->isa));
    out.line("constexpr MapConfig config_", index, " = {.isa = ", static_cast<int>(map->isa),
             ", .tile_rows = ", map->tile_rows, ", .tile_cols = ", map->tile_cols, "};");
    return;
  }
  if (package::is_user(kernel.config)) return;
  const package::CpuGemmConfig& c = package::cpu(kernel.config);
  out.line("// ", kernel.name, ": ", package::name_of(c.family), " ", c.mr, "x", c.nr, " ", isa_name(c.isa), ", ",
           dtype_name(c.a_dtype), " x ", dtype_name(c.b_dtype), " in ", dtype_name(c.accumulator));
  const auto number = [](auto value) { return static_cast<int>(value); };
  out.line("constexpr GemmConfig config_", index, " = {.family = ", number(c.family), ", .isa = ", number(c.isa),
           ", .a_dtype = ", number(c.a_dtype), ", .b_dtype = ", number(c.b_dtype),
           ", .accumulator = ", number(c.accumulator), ", .pack_a = ", c.pack_a, ", .mr = ", c.mr, ", .nr = ", c.nr,
           ", .tile_rows = ", c.tile_rows, ", .tile_cols = ", c.tile_cols, ", .kc = ", c.kc, ", .mc = ", c.mc,
           ", .nc = ", c.nc, ", .k_split = ", c.k_split, "};");
}

bool loads_constants(const Program& program) {
  for (const Constant& constant : program.constants) {
    if (constant.symbol.empty()) return true;
  }
  for (const PackedFactor& packed : program.packed) {
    if (packed.symbol.empty()) return true;
  }
  return false;
}

bool is_number(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
}

bool is_unsigned(DType dtype) {
  return dtype == DType::boolean || dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 ||
         dtype == DType::u64;
}

DType scalar_dtype(DType dtype) { return is_number(dtype) && dtype != DType::f64 ? DType::f32 : dtype; }

std::string_view scalar_type(DType dtype) { return c_type(scalar_dtype(dtype)); }

std::vector<const package::CallExtern*> extern_calls(const Library& library) {
  std::vector<const package::CallExtern*> calls;
  const auto look = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      const auto* call = std::get_if<package::CallExtern>(&step);
      if (call == nullptr) continue;
      const auto same = [&](const package::CallExtern* known) { return known->name == call->name; };
      if (std::none_of(calls.begin(), calls.end(), same)) calls.push_back(call);
    }
  };
  for (const Program& program : library.programs) {
    look(program.package->steps);
    for (const package::StepList& list : program.package->step_lists) look(list);
  }
  return calls;
}

bool calls_out(const Library& library) {
  const auto user = [](const KernelFunctions& functions) { return !functions.user.empty(); };
  return !extern_calls(library).empty() ||
         std::any_of(library.programs.begin(), library.programs.end(), [&](const Program& program) {
           return std::any_of(program.functions.begin(), program.functions.end(), user);
         });
}

// Stride and size of each dim that an index of the program picks from lie behind the terms.
bool takes_numbers(const package::EpilogueProgram& program) {
  return !program.sizes.empty() || std::any_of(program.arguments.begin(), program.arguments.end(),
                                               [](const package::Argument& argument) { return argument.is_scalar; });
}

void print_numbers(CodeWriter& out, const std::string& table, const package::EpilogueProgram& program,
                   const std::vector<uint32_t>& arguments, bool gpu,
                   const std::function<std::string(const types::Dim&)>& number) {
  const bool sized = !program.sizes.empty();
  std::string values;
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const std::string value = CodeWriter::text_of("frame.scalars[", arguments[i], "]");
    values += i == 0 ? "" : ", ";
    values += !program.arguments[i].is_scalar ? "{}" : gpu ? "gpu_scalar(" + value + ")" : value;
  }
  out.line(sized ? "" : "const ", "codetta::", gpu ? "gpu" : "cpu", "::ScalarValue ", table, "[",
           sized ? std::to_string(program.scalar_count()) : "", "] = {", values.empty() ? "{}" : values, "};");
  for (size_t i = 0; i < program.sizes.size(); ++i) {
    const std::string size = CodeWriter::text_of(table, "_", i);
    out.line("const Number ", size, " = ", number(program.sizes[i]), ";");
    out.line("if (", size, ".bad) return fail(bad_sizes, \"E0610: a position has no value: %s\", \"",
             program.sizes[i].to_string(), "\");");
    out.line(table, "[", program.arguments.size() + i, "].i = ", size, ".value;");
  }
}

void print_gathered(CodeWriter& out, const std::string& table, size_t i, const package::Operand& operand, uint32_t b) {
  for (size_t g = 0; g < operand.gathered.size(); ++g) {
    const int dim = operand.gathered[g];
    const size_t slot = operand.terms.size() + 2 * g;
    out.line(table, "[", i, "].stride[", slot, "] = v[", b, "].step(", dim, ");");
    out.line(table, "[", i, "].stride[", slot + 1, "] = v[", b, "].size_from_last(", dim, ");");
  }
}

void print_extern_tensors(CodeWriter& out, const package::Package& package, const std::string& table,
                          const std::vector<uint32_t>& buffers) {
  // On a GPU the stream is written to all of them.
  const char* constant = table == "outputs" || package.target.backend != Backend::cpu ? "" : "const ";
  if (buffers.empty()) return out.line(constant, "ExternTensor ", table, "[1] = {};");
  size_t numbers = 0;
  std::string list;
  for (const uint32_t b : buffers) {
    list += list.empty() ? "" : ", ";
    list += package.buffers[b].is_scalar
                ? CodeWriter::text_of("extern_number(frame.scalars[", b, "], ",
                                      static_cast<int>(package.buffers[b].dtype), ", &numbers[", numbers++, "])")
                : CodeWriter::text_of("extern_tensor(v[", b, "])");
  }
  if (numbers > 0) out.line("u64 numbers[", numbers, "];");
  out.line(constant, "ExternTensor ", table, "[] = {", list, "};");
}

size_t extern_index(const Library& library, const std::string& name) {
  size_t index = 0;
  for (const package::CallExtern* call : extern_calls(library)) {
    if (call->name == name) break;
    ++index;
  }
  return index;
}

int written_axes(const package::Operand& operand) {
  int axes = operand.is_store ? 1 : 0;
  for (const package::IndexTerm& term : operand.terms) {
    if (operand.is_store) axes |= term.axis == package::Axis::Batch ? 2 : term.axis == package::Axis::Row ? 4 : 8;
  }
  return axes;
}

std::string extern_setter(const Library& library, const std::string& name) {
  return library.name + "_set_extern_" + name;
}

void print_phases(CodeWriter& out, const package::EpilogueProgram& program) {
  size_t p = 0;
  out.line("static constexpr Phase phases[] = {",
           comma_list(program.phases,
                      [&](const package::Phase& phase) {
                        const auto space = static_cast<int>(package::space_of(program, p++));
                        return CodeWriter::text_of("{", static_cast<int>(phase.scope), ", ", space, ", ",
                                                   phase.reads_accumulator, "}");
                      }),
           "};  // scope, space, reads accumulators");
  out.line("set_phases(work, phases);");
  if (!program.reductions.empty()) {
    out.line("static constexpr Reduction reductions[] = {",
             comma_list(program.reductions,
                        [](const package::Reduction& r) {
                          return CodeWriter::text_of("{", static_cast<int>(r.kind), ", ", static_cast<int>(r.axis),
                                                     ", ", static_cast<int>(r.type), ", ", r.mean, ", ", r.phase, ", ",
                                                     r.parts, ", false}");
                        }),
             "};  // kind, axis, dtype, mean, phase, parts");
    out.line("set_reductions(work, reductions);");
  }
}

CodeWriter::Block begin_combined(CodeWriter& out, uint32_t target, package::ScatterReduce how) {
  auto scope = out.block("");
  out.line("const Combine how = Combine(", static_cast<int>(how), ");");
  out.line("i64 wide = 0;");
  out.line("const i64 mark = frame.placed;");
  out.line("CODETTA_OK(place(frame, wide, Combined::wide_bytes(v[", target, "], how)));");
  out.line("frame.placed = mark;");
  return scope;
}

size_t slot_of(const Program& program, uint32_t buffer) {
  size_t slot = 0;
  while (program.constants[slot].buffer != buffer) ++slot;
  return slot;
}

std::string apart_text(const Program& program, const package::EpilogueProgram& epilogue,
                       const std::vector<uint32_t>& arguments) {
  std::set<uint32_t> buffers;
  for (const package::Operand& operand : epilogue.operands) {
    if (!operand.unit_stride || operand.argument >= arguments.size()) continue;
    const uint32_t b = arguments[operand.argument];
    const Buffer::Role role = program.package->buffers[b].role;
    if ((role == Buffer::Role::Argument || role == Buffer::Role::Output) && constant_of(program, b) == nullptr)
      buffers.insert(b);
  }
  std::string text;
  for (const uint32_t b : buffers) text += CodeWriter::text_of(text.empty() ? "" : " || ", "lies_apart(v[", b, "])");
  return text;
}

}  // namespace codetta::emit::host
