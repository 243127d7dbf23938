// SPDX-License-Identifier: Apache-2.0
#include "emit/user_hook.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/code_writer.hpp"
#include "device/embedded.hpp"
#include "emit/cpu_parts.hpp"
#include "emit/phase_printer.hpp"
#include "plan/fused.hpp"
#include "plan/user_hook.hpp"
#include "types/dtype.hpp"

namespace codetta::emit {

using base::CodeWriter;
using package::Access;
using package::Axis;

namespace {

bool is_eight_bit_float(DType dtype) { return types::is_float(dtype) && types::bits(dtype) == 8; }

// Elements that are handed over side by side, as accumulators of the program.
std::string run_text(DType dtype, const Dialect& dialect, std::set<PartLibrary::Request>& needs) {
  needs.emplace("load", Domain::Common);
  const auto& type = dialect.type(dtype);
  return Conversions(dialect, needs)
      .widen(CodeWriter::text_of("load<", type.raw, ">((const ", type.element, "*)values + c, n)"), dtype,
             types::compute_dtype(dtype));
}

// The element that is handed over, as the accumulator of the program.
std::string held_text(DType dtype, const Dialect& dialect, std::set<PartLibrary::Request>& needs) {
  const DType held = types::compute_dtype(dtype);
  const std::string_view vector = dialect.type(held).value;
  if (types::is_bool(dtype))
    return CodeWriter::text_of("splat<", vector, ">(", dialect.registers ? "value" : "value ? -1 : 0", ")");
  if (is_eight_bit_float(dtype)) {
    Conversions convert(dialect, needs);
    const std::string_view raw = dialect.type(dtype).raw;
    return convert.widen(CodeWriter::text_of("splat<", raw, ">(value.bits)"), dtype, held);
  }
  return CodeWriter::text_of("splat<", vector, ">((", dialect.type(held).element, ")value)");
}

std::string_view scalar_field(DType compute) {
  if (compute == DType::f32) return "f";
  if (compute == DType::f64) return "d";
  return types::is_unsigned(compute) || types::is_bool(compute) ? "u" : "i";
}

}  // namespace

Result<HookText> cpu_hook(const package::EpilogueProgram& program, const plan::UserHook& hook,
                          const CpuEmitOptions& options) {
  Dialect dialect = cpu_dialect();
  dialect.streams = false;
  std::set<PartLibrary::Request> needs{{"core", Domain::Common}, {"TileFragment", Domain::Common}};
  const std::string held = held_text(hook.dtype, dialect, needs);
  CODETTA_TRY(const PhaseText phase,
              print_phase(
                  program, 0, dialect, options.comments, [](uint32_t) { return std::string("held"); }, needs));
  CodeWriter body;
  body.line("// Up to a vector of elements of the result, side by side, and what follows them.");
  {
    const auto function = body.block("static inline void hook_store(const EpilogueArgs& args, i64 batch, i64 row, i64 ",
                                     "column, ", dialect.type(program.accumulator).value, " held, i64 n)");
    body.line("TileFragment f(args, Tile{nullptr, 0, 0, 0, batch, row, column, 1, n, row, column, 0});");
    body.line("f.n = n;");
    body.line("(void)held;");
    put_lines(body, phase.setup);
    put_lines(body, phase.row);
    put_lines(body, phase.full);
  }
  {
    const auto function = body.block("static inline void hook_run(const EpilogueArgs& args, i64 batch, i64 row, i64 ",
                                     "column, const void* values, i64 count)");
    const auto loop = body.block("for (i64 c = 0; c < count; c += lanes)");
    body.line("const i64 n = count - c < lanes ? count - c : lanes;");
    body.line("hook_store(args, batch, row, column + c, ", run_text(hook.dtype, dialect, needs), ", n);");
  }
  const int lanes = cpu_vector_bytes(options.isa) / (plan::has_wide_values(program) ? 8 : 4);
  HookText text;
  // The tensors of the call as the fragment sees them.
  size_t inputs = 0;
  for (const package::Argument& argument : program.arguments) inputs += argument.is_output ? 0 : 1;
  const auto given = [&](size_t argument) {
    return argument < inputs ? fmt::format("in[{}]", argument) : fmt::format("out[{}]", argument - inputs);
  };
  std::string scalars;
  for (size_t a = hook.operands; a < program.arguments.size(); ++a) {
    const package::Argument& argument = program.arguments[a];
    if (!argument.is_scalar) continue;
    const DType type = types::compute_dtype(argument.dtype);
    const std::string_view field = scalar_field(type);
    std::string value =
        fmt::format("codetta::detail::value<const {}>({})", plan::user_element_type(argument.dtype), given(a));
    if (is_eight_bit_float(argument.dtype)) {
      body.line("static f32 scalar_", a, "(u8 bits) { return ",
                Conversions(dialect, needs).widen("splat<u8v>(bits)", argument.dtype, DType::f32), "[0]; }");
      value = fmt::format("codetta::cpu::scalar_{}({}.bits)", a, value);
    }
    scalars += fmt::format("  scalars[{}].{} = {};\n", a, field, value);
  }
  CODETTA_TRY(text.before, cpu_parts_text({}, needs, lanes, body));
  text.between = fmt::format(
      "namespace codetta::detail {{\nnamespace {{\nstruct Epilogue {{\n  const cpu::EpilogueArgs* args;\n  void "
      "store(int64_t batch, "
      "int64_t row, int64_t column, {0} value) const {{\n    using namespace cpu;\n    hook_store(*args, batch, row, "
      "column, {1}, 1);\n  }}\n  void run(int64_t batch, int64_t row, int64_t column, const {0}* values, int64_t "
      "count) "
      "const {{\n    cpu::hook_run(*args, batch, row, column, values, count);\n  }}\n}};\n}}  // namespace\n}}  // "
      "namespace codetta::detail\n",
      plan::user_element_type(hook.dtype), held);

  const auto step = [&](const package::Operand& o, uint8_t dim, int64_t times) {
    return fmt::format("{}codetta::detail::step({}, {})", times == 1 ? std::string() : fmt::format("{}ll * ", times),
                       given(o.argument), dim);
  };
  std::string operands;
  for (const package::Operand& o : program.operands) {
    std::string offset, strides;
    for (const auto& [dim, count] : o.offsets)
      offset += (offset.empty() ? "" : " + ") + step(o, dim, count.as_constant().value_or(0));
    std::string of_axis[3];
    for (size_t t = 0; t < o.terms.size(); ++t) {
      const std::string one = step(o, o.terms[t].dim, o.terms[t].scale.as_constant().value_or(0));
      std::string& slot = of_axis[static_cast<size_t>(o.terms[t].axis)];
      if (o.access == Access::Indexed) {
        strides += (strides.empty() ? "" : ", ") + one;
      } else {
        slot += (slot.empty() ? "" : " + ") + one;
      }
    }
    if (o.access != Access::Indexed) {
      for (const std::string& slot : of_axis) strides += (strides.empty() ? "" : ", ") + (slot.empty() ? "0" : slot);
    }
    operands += fmt::format("      {{codetta::detail::behind({}, {}, {}), {{{}}}}},\n", given(o.argument),
                            offset.empty() ? "0" : offset, types::byte_size(o.dtype), strides);
  }
  std::vector<std::string> sizes;
  for (const plan::UserHook::Size& size : hook.sizes)
    sizes.push_back(size.known ? fmt::format("{}", *size.known)
                               : fmt::format("{}.shape[{}]", given(size.argument), size.dim));
  std::string batches = "1";
  for (size_t d = 0; d + 2 < sizes.size(); ++d) batches += " * " + sizes[d];
  text.entry = fmt::format(
      "  const codetta::cpu::Operand operands[] = {{\n{}  }};\n  codetta::cpu::ScalarValue scalars[{}] = {{}};\n{}"
      "  const codetta::cpu::EpilogueArgs args{{operands, scalars, nullptr, nullptr, {}, {}, {}, 1, 1}};\n"
      "  const codetta::detail::Epilogue epilogue{{&args}};\n",
      operands.empty() ? std::string("      {},\n") : operands, program.arguments.size(), scalars, batches,
      sizes.size() > 1 ? sizes[sizes.size() - 2] : "1", sizes.back());
  text.argument = fmt::format("codetta::Hook<{}, {}>{{epilogue, {{{}}}}}", plan::user_element_type(hook.dtype),
                              sizes.size(), fmt::join(sizes, ", "));
  return text;
}

Result<HookText> gpu_hook(const package::EpilogueProgram& program, const plan::UserHook& hook, bool comments) {
  const Dialect& dialect = cuda_dialect();
  std::set<PartLibrary::Request> needs;  // whole headers are included
  const std::string held = held_text(hook.dtype, dialect, needs);
  CODETTA_TRY(const PhaseText phase,
              print_phase(
                  program, 0, dialect, comments, [](uint32_t) { return std::string("held"); }, needs));
  bool wide = program.accumulator == DType::f64, whole_numbers = types::is_integer(program.accumulator);
  for (const package::Inst& inst : program.phases[0].insts) {
    wide = wide || inst.type == DType::f64 || inst.aux == DType::f64;
    whole_numbers = whole_numbers || types::is_integer(inst.type);
  }
  CodeWriter out;
  out.line("#define CODETTA_LANES 1");
  if (wide) out.line("#define CODETTA_F64");
  if (whole_numbers) out.line("#define CODETTA_INT");
  out.line("#include \"device/gpu/hook.h\"");
  out.line("namespace codetta::gpu {");
  const std::string params =
      CodeWriter::text_of("HookParams<", program.operands.size(), ", ", program.arguments.size(), ">");
  out.line("// One element of the result, and what follows it.");
  {
    const auto function =
        out.block("static __device__ __forceinline__ void hook_store(const ", params,
                  "& params, i64 batch, i64 row, i64 column, ", dialect.type(program.accumulator).value, " held)");
    out.line("const Tile tile = tile_of_one(batch, row, column);");
    out.line("TileFragment<false, 1, ", params, "> f(params, tile);");
    out.line("(void)held;");
    put_lines(out, phase.setup);
    put_lines(out, phase.by_column);
    put_lines(out, phase.row);
    for (const Held& load : phase.loads) out.line("const ", load.type, " ", load.name, " = ", load.text, ";");
    put_lines(out, phase.full);
  }
  out.line("}  // namespace codetta::gpu");
  out.line("namespace codetta::user {");
  out.line("namespace {");
  {
    size_t numbers = hook.shape.size();
    const auto epilogue = out.block_with("};", "struct Epilogue");
    std::vector<std::string> body;
    for (size_t k = 0; k < program.operands.size(); ++k) {
      const package::Operand& o = program.operands[k];
      const std::string start = o.offsets.empty() ? std::string() : fmt::format(" + number[{}]", numbers++);
      body.push_back(CodeWriter::text_of("params.operand[", k, "].data = (", dialect.type(o.dtype).element, "*)given[",
                                         o.argument - hook.operands, "]", start, ";"));
      for (const plan::HookStride& stride : plan::hook_strides(o))
        body.push_back(
            CodeWriter::text_of("params.operand[", k, "].stride[", stride.place, "] = number[", numbers++, "];"));
    }
    for (size_t a = hook.operands; a < hook.operands + hook.reads; ++a) {
      const package::Argument& argument = program.arguments[a];
      if (!argument.is_scalar) continue;
      const DType type = types::compute_dtype(argument.dtype);
      const std::string field = fmt::format("params.scalar[{}].{}", a, scalar_field(type));
      const std::string word = fmt::format("given[{}]", a - hook.operands);
      const std::string_view element = dialect.type(argument.dtype).element;
      if (type != argument.dtype) {
        const std::string raw = fmt::format("splat<{}>(({}){})", dialect.type(argument.dtype).raw, element, word);
        body.push_back(
            CodeWriter::text_of(field, " = ", Conversions(dialect, needs).widen(raw, argument.dtype, type), ".e[0];"));
      } else if (types::is_float(type)) {
        body.push_back(CodeWriter::text_of("memcpy(&", field, ", &", word, ", ", types::byte_size(type), ");"));
      } else {
        body.push_back(CodeWriter::text_of(field, " = (", types::is_bool(type) ? "u8" : element, ")", word, ";"));
      }
    }
    out.line("uint64_t given[", hook.reads + hook.stores, "];");
    out.line("int64_t number[", numbers, "];");
    out.line("__device__ int64_t size(int dim) const { return number[dim]; }");
    const auto store = out.block("__device__ void store(int64_t batch, int64_t row, int64_t column, ",
                                 plan::user_element_type(hook.dtype), " value) const");
    out.line("using namespace codetta::gpu;");
    out.line(params, " params{};  // what an operand does not vary with has a stride of 0");
    const auto size = [&](size_t from_end) {
      return from_end < hook.shape.size() ? fmt::format("number[{}]", hook.shape.size() - 1 - from_end)
                                          : std::string("1");
    };
    std::string batches = "1";
    for (size_t d = 0; d + 2 < hook.shape.size(); ++d) batches += fmt::format(" * number[{}]", d);
    out.line("params.problem.batches = ", batches, ", params.problem.rows = ", size(1),
             ", params.problem.cols = ", size(0), ";");
    put_lines(out, body);
    out.line("hook_store(params, batch, row, column, ", held, ");");
  }
  out.line("}  // namespace");
  out.line("}  // namespace codetta::user");
  HookText text;
  text.between = out.str();
  return text;
}

}  // namespace codetta::emit
