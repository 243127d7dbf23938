// SPDX-License-Identifier: Apache-2.0
#include "emit/host/metal.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <type_traits>

#include "base/code_writer.hpp"
#include "base/kept.hpp"
#include "diag/diagnostic.hpp"
#include "emit/host/signature.hpp"
#include "emit/host/step_base.hpp"
#include "emit/host/steps.hpp"
#include "emit/metal.hpp"
#include "package/gpu_call.hpp"
#include "types/dtype.hpp"

namespace codetta::emit::host {

using base::CodeWriter;
using package::Buffer;
using types::Dim;

namespace {

// The number of MTLGPUFamily in Metal's headers.
int family_number(std::string_view name) {
  static const auto& numbers = base::kept(std::map<std::string_view, int>{{"apple7", 1007},
                                                                          {"apple8", 1008},
                                                                          {"apple9", 1009},
                                                                          {"apple10", 1010},
                                                                          {"mac2", 2002},
                                                                          {"metal3", 5001},
                                                                          {"metal4", 5002}});
  const auto found = numbers.find(name);
  return found == numbers.end() ? 1007 : found->second;
}

// Constants of all programs, each once: "{"w1", 11, 2, {64, 128}, 1}", by their place in the library.
class MetalConstants {
 public:
  explicit MetalConstants(const Library& library) {
    for (const Program& program : library.programs) {
      for (const Constant& constant : program.constants) (void)at(program, constant);
    }
  }
  size_t at(const Program& program, const Constant& constant) {
    const Buffer& buffer = program.package->buffers[constant.buffer];
    std::string text;
    if (constant.symbol.empty()) {
      std::string sizes;
      for (const int64_t size : constant.shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
      text = CodeWriter::text_of("{", literal_text(constant.weight), ", ", static_cast<int>(buffer.dtype), ", ",
                                 constant.shape.rank(), ", {", sizes, "}, 1}");
    } else {  // bytes, which several may share
      int64_t bytes = dtype_size(buffer.dtype);
      for (const int64_t size : constant.shape) bytes *= size;
      text = CodeWriter::text_of("{", literal_text(constant.symbol), ", ", static_cast<int>(DType::u8), ", 1, {", bytes,
                                 "}, 0}");
    }
    const auto [found, fresh] = places_.emplace(text, rows_.size());
    if (fresh) rows_.push_back(text);
    return found->second;
  }
  [[nodiscard]] const std::vector<std::string>& rows() const { return rows_; }

 private:
  std::map<std::string, size_t> places_;
  std::vector<std::string> rows_;
};

class MetalProgramPrinter : public StepBase {
 public:
  MetalProgramPrinter(CodeWriter& out, const Library& library, const Program& program, size_t index,
                      MetalConstants& constants)
      : StepBase(out, *program.package, INT64_MAX),
        constants_(constants),
        library_(library),
        program_(program),
        index_(index),
        signature_(signature_of(program)) {}
  using StepBase::operator();

  void print() {
    for (const package::Step& step : package_.steps) {
      if (const auto* define = std::get_if<package::DefineSymbol>(&step))
        variables_.emplace(define->symbol, CodeWriter::text_of("n", variables_.size()));
    }
    for (size_t k = 0; k < package_.kernels.size(); ++k) print_kernel(k);
    {
      const auto function = out_.block("Status steps_", index_, "(MetalFrame& frame)");
      out_.line("View* const v = frame.views;");
      out_.line("frame.placed = 0;");
      for (const auto& [symbol, variable] : variables_)
        out_.line("Number ", variable, " = ", first_number(program_, symbol), ";  // ", comment_text(symbol));
      for (const package::Step& step : package_.steps) std::visit(*this, step);
      if (package_.steps.empty() || !std::holds_alternative<package::Return>(package_.steps.back()))
        out_.line("return ok;");
    }
    out_.blank();
  }

  // "int NAME_PROGRAM(MetalTensor p0, float p1, i64 q0, void* command_buffer)": parameters, sizes, command buffer.
  [[nodiscard]] std::string parameters(std::string_view tensor, std::string_view integer) const {
    std::string text;
    for (size_t i = 0; i < signature_.arguments.size(); ++i) {
      const Buffer& buffer = package_.buffers[signature_.arguments[i]];
      text += CodeWriter::text_of(buffer.is_scalar ? scalar_type(buffer.dtype) : tensor, " p", i, ", ");
    }
    for (size_t i = 0; i < signature_.symbols.size(); ++i) text += CodeWriter::text_of(integer, " q", i, ", ");
    return text + "void* command_buffer";
  }

  // The function of the header; of a program of a SizeTable the one that it calls.
  void print_call() {
    const bool alone = table_of(library_, index_) == nullptr;
    const auto function = out_.block(alone ? exported_head : "static ", "int ",
                                     alone ? function_name(library_, program_) : program_function("call", index_), "(",
                                     parameters("MetalTensor", "i64"), ")");
    out_.line("if (const int bad = ", library_.name, "_init()) return bad;");
    const auto pool = out_.block("@autoreleasepool");
    out_.line("View v[", std::max<size_t>(package_.buffers.size(), 1), "];");
    out_.line("codetta::cpu::ScalarValue scalars[", std::max<size_t>(package_.buffers.size(), 1), "] = {};");
    for (size_t i = 0; i < signature_.symbols.size(); ++i)
      out_.line("const Number n", i, "(q", i, ");  // ", comment_text(signature_.symbols[i]));
    std::string tensors;
    for (const Constant& constant : program_.constants) {
      const std::string tensor = CodeWriter::text_of("constants[", constants_.at(program_, constant), "]");
      const auto scope = out_.block("");
      std::string sizes;
      for (const int64_t size : constant.shape)
        sizes += CodeWriter::text_of(sizes.empty() ? "" : ", ", "Number(", size, ")");
      out_.line("const Number sizes[] = {", sizes.empty() ? "Number(1)" : sizes, "};");
      out_.line("CODETTA_OK(bind_buffer(v[", constant.buffer, "], ", tensor, ", ", dtype_of(constant.buffer),
                ", sizes, ", constant.shape.rank(), ", ", name_of(constant.buffer), "));");
      tensors += CodeWriter::text_of(tensors.empty() ? "&" : ", &", tensor);
    }
    for (size_t i = 0; i < signature_.arguments.size(); ++i) {
      const uint32_t b = signature_.arguments[i];
      const Buffer& buffer = package_.buffers[b];
      if (buffer.is_scalar) {
        const std::string_view field = buffer.dtype == DType::f64  ? "d"
                                       : is_number(buffer.dtype)   ? "f"
                                       : is_unsigned(buffer.dtype) ? "u"
                                                                   : "i";
        out_.line("scalars[", b, "].", field, " = p", i, ";");
        continue;
      }
      const auto scope = out_.block("");
      const std::string sizes = comma_list(buffer.shape, [&](const Dim& dim) {
        return number_text(dim, [&](std::string_view symbol) { return caller_symbol(symbol); });
      });
      out_.line("const Number sizes[] = {", sizes.empty() ? "Number(1)" : sizes, "};");
      out_.line("CODETTA_OK(bind_buffer(v[", b, "], p", i, ", ", static_cast<int>(buffer.dtype), ", sizes, ",
                buffer.shape.size(), ", ", literal_text(buffer.name), "));");
      tensors += CodeWriter::text_of(tensors.empty() ? "" : ", ", "&p", i);
    }
    const auto count = static_cast<std::ptrdiff_t>(program_.constants.size()) +
                       std::count_if(signature_.arguments.begin(), signature_.arguments.end(),
                                     [&](uint32_t b) { return !package_.buffers[b].is_scalar; });
    out_.line("const MetalTensor* const tensors[] = {", tensors.empty() ? "nullptr" : tensors, "};");
    out_.line("return run_metal(steps_", index_, ", v, scalars, tensors, ", count, ", command_buffer, ",
              literal_text(program_.function), ");");
  }

  // The function of the header over the programs of its table: each refuses while it measures what the next one takes.
  void print_choice(const SizeTable& table) {
    const auto function = out_.block(exported_head, "int ", function_name(library_, program_), "(",
                                     parameters("MetalTensor", "i64"), ")");
    std::string arguments;
    for (size_t i = 0; i < signature_.arguments.size(); ++i) arguments += CodeWriter::text_of("p", i, ", ");
    for (size_t i = 0; i < signature_.symbols.size(); ++i) arguments += CodeWriter::text_of("q", i, ", ");
    const auto call = [&](size_t program) {
      return program_function("call", table.first + program) + "(" + arguments + "command_buffer)";
    };
    out_.line("unaligned = false;");
    out_.line("int status = ", call(0), ";");
    for (auto next = table.takes_over(0); next; next = table.takes_over(*next)) {
      out_.line("if (status != bad_sizes || !unaligned) return status;");
      out_.line("unaligned = false;");
      out_.line("status = ", call(*next), ";");
    }
    out_.line("return status;");
  }

  void operator()(const package::DefineSymbol& step) {
    using From = package::DefineSymbol::From;
    const std::string head = CodeWriter::text_of(variables_.at(step.symbol), ", ", literal_text(step.symbol), ", ");
    std::string value;
    if (step.from == From::Size) return define_size(step, head);
    if (step.from == From::Stride) {
      value = CodeWriter::text_of("Number(v[", step.buffer, "].stride_from_last(", from_last(step), "))");
    } else if (step.from == From::Expression) {
      value = number(step.value);
    } else if (step.from == From::Value && package_.buffers[step.buffer].is_scalar) {
      value = CodeWriter::text_of("Number(frame.scalars[", step.buffer, "].i)");
    } else {
      return lacks(step.from == From::Value ? "a size is the value of a tensor in device memory"
                                            : "a size comes from an extern operation");
    }
    out_.line("CODETTA_OK(define_value(", head, value, ", ", number(step.divisor), "));");
  }
  void operator()(const package::Check& step) {
    if (library_.checked) std::visit(*this, step.guard);
  }
  void operator()(const package::NanGuard&) { lacks("it checks a tensor for NaN and infinity"); }
  void operator()(const package::IndexGuard&) { lacks("it checks indices that lie in device memory"); }
  void operator()(const package::AllocateFromPool& step) {
    if (out_.once(CodeWriter::text_of("pools of ", index_))) {
      for (size_t i = 0; i < package_.pools.size(); ++i) {
        out_.line("i64 pool_", i, " = 0;");
        out_.line("CODETTA_OK(place(frame, pool_", i, ", ", number(package_.pools[i].bytes), "));");
      }
    }
    StepBase::operator()(step);
  }
  void operator()(const package::Free&) {}  // the offsets were planned
  void operator()(const package::Copy& step) {
    for (const uint32_t buffer : {step.source, step.target}) {
      if (!package_.buffers[buffer].strides.empty()) return lacks("it copies a tensor that is not contiguous");
    }
    out_.line("CODETTA_OK(copy(frame, v[", step.target, "], v[", step.source, "], ", name_of(step.target), "));");
  }
  // What is filled once in process is filled in every call: the workspace is another one each time.
  void operator()(const package::Fill& step) {
    if (step.mode == package::ZeroMode::None) return;
    if (!package_.buffers[step.buffer].strides.empty()) return lacks("it fills a tensor that is not contiguous");
    out_.line("CODETTA_OK(fill(frame, v[", step.buffer, "], ", step.bits, "ull));");
  }
  void operator()(const package::LoadConstant&) {}  // when the library starts
  void operator()(const package::DefineKernel&) {}
  void operator()(const package::Comment& step) { out_.line("// ", comment_text(step.text)); }
  void operator()(const package::Return&) { out_.line("return ok;"); }
  void operator()(const package::LaunchKernel& step) {
    const package::Kernel& kernel = package_.kernels[step.kernel];
    const package::EpilogueProgram& program = kernel.epilogue;
    package::LaunchOptions plain;
    plain.programmatic = step.options.programmatic;
    if (!(step.options == plain)) return lacks("it launches a kernel of the user's");
    if (step.product && !package::factors_are_inside(*step.product, program)) return lacks(package::factors_outside);
    const auto scope = out_.block("");
    out_.line("// ", kernel.name);
    out_.line("Gemm gemm{};");
    out_.line("CODETTA_OK(set_sizes(gemm, ", number(step.batch), ", ", number(step.m), ", ", number(step.n), ", ",
              step.product ? number(step.product->k) : std::string("Number(0)"), "));");
    if (step.product) {
      const package::Product& product = *step.product;
      if (product.products() > 1) out_.line("gemm.products = ", product.products(), ";");
      if (!program.makes_a()) {
        const std::string a =
            seen_factor(CodeWriter::text_of("v[", product.a, "]"), product.a, product.a_view, "seen_a");
        out_.line("CODETTA_OK(set_a(gemm, ", a, ", ", name_of(product.a), ", ", product.a_transposed, "));");
      }
      for (size_t p = 0; p < product.products() && !program.makes_b(); ++p) {
        const uint32_t b = product.factor_b(p);
        const std::string seen = p == 0 ? "seen_b" : CodeWriter::text_of("seen_b", p);
        out_.line("CODETTA_OK(", p == 0 ? "set_b(gemm, " : CodeWriter::text_of("set_more_b(gemm, ", p, ", "),
                  seen_factor(CodeWriter::text_of("v[", b, "]"), b, product.b_view, seen), ", ", name_of(b), ", ",
                  product.b_transposed, "));");
      }
    }
    if (program.split.ways > 1)
      out_.line("CODETTA_OK(set_split(gemm, ", program.split.ways, ", ", number(program.split.chunk), "));");
    out_.line("codetta::cpu::Operand operands[", std::max<size_t>(program.operands.size(), 1), "]{};");
    for (size_t i = 0; i < program.operands.size(); ++i)
      print_operand(i, program.operands[i], step.arguments[program.operands[i].argument]);
    print_numbers(out_, "scalars", program, step.arguments, false, [this](const Dim& dim) { return number(dim); });
    out_.line("CODETTA_OK(launch(frame, kernel_", index_, "_", step.kernel, ", gemm, operands, ",
              program.operands.size(), ", scalars, ", program.scalar_count(), "));");
  }
  // One encoder with a barrier behind each kernel keeps the order of the list.
  void operator()(const package::EnterDevice& step) {
    if (step.device != 0) lacks("it uses several devices");
  }
  void operator()(const package::ExitDevice&) {}
  void operator()(const package::EnterStream&) {}
  void operator()(const package::ExitStream&) {}
  void operator()(const package::RecordEvent&) {}
  void operator()(const package::WaitEvent&) {}
  void operator()(const package::EnterSubgraph& step) { out_.line("// ", comment_text(step.name), " {"); }
  void operator()(const package::ExitSubgraph&) { out_.line("// }"); }
  template <class Other>
  void operator()(const Other& step) {
    std::string name(package::name_of(package::Step(step)));
    std::replace(name.begin(), name.end(), '_', ' ');
    if constexpr (requires { step.target; }) name += ", into " + package_.buffers[step.target].name;
    if constexpr (std::is_same_v<Other, package::CallExtern>) name += " of " + step.name;
    lacks("it has a step that Metal host text has no form of: " + name);
  }

 private:
  void print_kernel(size_t k) {
    const package::Kernel& kernel = package_.kernels[k];
    if (package::is_user(kernel.config)) return lacks("it launches a kernel of the user's");
    const auto* map = std::get_if<package::GpuMapConfig>(&kernel.config);
    const package::GpuGemmConfig c = map != nullptr ? package::pieces_of(*map) : package::gpu(kernel.config);
    const package::EpilogueProgram& program = kernel.epilogue;
    out_.line("constexpr MetalEntry entries_", index_, "_", k, "[] = {",
              comma_list(kernel.entries,
                         [](const package::GpuEntry& e) {
                           return CodeWriter::text_of("{", literal_text(e.symbol), ", ", static_cast<int>(e.kind), ", ",
                                                      e.index, ", ", e.threads, ", ", e.shared_bytes, ", ",
                                                      e.results_per_block, "}");
                         }),
              "};");
    const std::string reductions = comma_list(program.reductions, [](const package::Reduction& r) {
      const auto bytes = package::values_of(r.kind) * types::byte_size(r.type);
      return CodeWriter::text_of("{", static_cast<int>(r.axis), ", ", r.phase, ", ", bytes, "}");
    });
    out_.line("constexpr MetalReduction reductions_", index_, "_", k, "[] = {", reductions.empty() ? "{}" : reductions,
              "};");
    const bool keeps = std::any_of(program.phases.begin() + 1, program.phases.end(),
                                   [](const package::Phase& p) { return p.reads_accumulator; });
    out_.line(
        "constexpr MetalKernel kernel_", index_, "_", k, " = {", literal_text(kernel.name), ", entries_", index_, "_",
        k, ", ", kernel.entries.size(), ", reductions_", index_, "_", k, ", ", program.reductions.size(), ", ",
        map == nullptr && c.family == package::GpuFamily::Simdgroup, ", ", map == nullptr, ", ", keeps, ", ",
        c.a_k_major, ", ", c.b_k_major, ", ", c.tile_m, ", ", c.tile_n, ", ", c.tile_k, ", ", c.k_split, ", ", c.group,
        ", ", c.piece_rows, ", ", c.piece_cols, ", ", program.split.ways, ", ", types::byte_size(c.a_dtype), ", ",
        types::byte_size(c.accumulator), ", ", int{package::missing_when(program, map == nullptr && c.k_split == 1)},
        program.factors.empty() ? std::string() : CodeWriter::text_of(", ", program.makes_a(), ", ", program.makes_b()),
        "};");
  }
  void print_operand(size_t i, const package::Operand& operand, uint32_t b) {
    const std::string start = start_text(operand, b, symbols());
    out_.line("operands[", i, "] = operand(v[", b, "]", start.empty() ? "" : ", " + start, ");");
    for (size_t t = 0; t < operand.terms.size(); ++t) {
      const package::IndexTerm& term = operand.terms[t];
      const size_t slot = operand.access == package::Access::Indexed ? t : static_cast<size_t>(term.axis);
      out_.line("CODETTA_OK(add_stride(operands[", i, "], ", slot, ", ", number(term.scale), ", v[", b, "].step(",
                static_cast<int>(term.dim), ")));");
    }
    for (size_t g = 0; g < operand.gathered.size(); ++g) {
      const int dim = operand.gathered[g];
      const size_t slot = operand.terms.size() + 2 * g;
      out_.line("operands[", i, "].stride[", slot, "] = v[", b, "].step(", dim, ");");
      out_.line("operands[", i, "].stride[", slot + 1, "] = v[", b, "].size_from_last(", dim, ");");
    }
    if (!operand.is_store && (!start.empty() || may_be_empty(package_.buffers[b]))) {
      out_.line("CODETTA_OK(read_nothing(frame, operands[", i, "], v[", b, "], ", name_of(b), ", ",
                !operand.gathered.empty(), ", gemm));");
    }
  }
  static bool may_be_empty(const Buffer& buffer) {
    return std::any_of(buffer.shape.begin(), buffer.shape.end(),
                       [](const Dim& size) { return !size.is_constant() || size.as_constant() == 0; });
  }
  std::string caller_symbol(std::string_view symbol) const {
    for (size_t i = 0; i < signature_.symbols.size(); ++i) {
      if (signature_.symbols[i] == symbol) return "n" + std::to_string(i);
    }
    for (const auto& [name, value] : signature_.fixed) {
      if (name == symbol) return CodeWriter::text_of("Number(", value, ")");
    }
    return "Number::none()";
  }

  MetalConstants& constants_;
  const Library& library_;
  const Program& program_;
  size_t index_;
  Signature signature_;
};

std::string metal_header(const Library& library) {
  CodeWriter out, unused;
  MetalConstants constants(library);
  out.line("/* Generated by Codetta ", library.version, ": ", library.name, " for ", library.target.to_string(), ".");
  out.line(" * 0: fine; below 0: ", library.name, "_get_last_error() of the same thread says why.");
  out.line(
      " * Tensors are row-major in an id<MTLBuffer> (storage of any mode), `offset` bytes behind its begin. "
      "command_buffer:");
  out.line(
      " * an id<MTLCommandBuffer> that takes the work, which then is only encoded, or NULL: committed and waited for. "
      "*/");
  out.line("#pragma once");
  out.line("#include <stdint.h>");
  out.line("#ifdef __cplusplus");
  out.line("extern \"C\" {");
  out.line("#endif");
  out.line("typedef struct {");
  out.line("  void* buffer;");
  out.line("  uint64_t offset;");
  out.line("} ", library.name, "_tensor;");
  out.line("int ", library.name, "_init(void);");
  if (!library.weights_file.empty()) {
    out.line("/* Loads the weights from this safetensors file instead of ", comment_text(library.weights_file),
             " beside the library. Before any other call. */");
    out.line("int ", library.name, "_load_weights(const char* path);");
  }
  out.line("const char* ", library.name, "_get_last_error(void);");
  out.line("/* What a command buffer that has ended says of the work in it. */");
  out.line("int ", library.name, "_check(void* command_buffer);");
  for (const size_t i : functions_of(library)) {
    const Program& program = library.programs[i];
    const Signature signature = signature_of(program);
    std::string line;
    for (size_t a = 0; a < signature.arguments.size(); ++a) {
      const Buffer& buffer = program.package->buffers[signature.arguments[a]];
      line += CodeWriter::text_of(a == 0 ? "" : "; ", "p", a, " ", comment_text(buffer.name), ": ", type_text(buffer),
                                  buffer.donated ? ", donated: overwritten" : "");
    }
    for (size_t q = 0; q < signature.symbols.size(); ++q)
      line += CodeWriter::text_of("; q", q, " ", comment_text(signature.symbols[q]));
    out.line("/* ", line, " */");
    out.line(
        "int ", function_name(library, program), "(",
        MetalProgramPrinter(unused, library, program, i, constants).parameters(library.name + "_tensor", "int64_t"),
        ");");
  }
  out.line("#ifdef __cplusplus");
  out.line("}");
  out.line("#endif");
  return out.str();
}

std::string metal_host(const Library& library, std::string* missing = nullptr) {
  CodeWriter out;
  out.line("// Generated by Codetta ", library.version, ": the library ", library.name, " for ",
           library.target.to_string(), ".");
  MetalConstants constants(library);
  const bool loads = !constants.rows().empty();
  out.line("#include \"device/host/", loads ? "metal_constants.h" : "metal.h", "\"");
  out.blank();
  out.line("namespace codetta::host {");
  out.line("namespace {");
  out.blank();
  if (loads) {
    out.line("constexpr MetalConstant constant_rows[] = {");
    for (const std::string& row : constants.rows()) out.line("    ", row, ",");
    out.line("};");
    const auto file = [](const std::string& name) {
      return name.empty() ? std::string("nullptr") : literal_text(name);
    };
    out.line("constexpr MetalFiles constant_files = {{", file(library.carried_file), ", ", file(library.weights_file),
             "}};");
    out.line("MetalTensor constants[", constants.rows().size(), "];");
    out.blank();
  }
  std::vector<std::unique_ptr<MetalProgramPrinter>> printers;
  for (size_t i = 0; i < library.programs.size(); ++i) {
    printers.push_back(std::make_unique<MetalProgramPrinter>(out, library, library.programs[i], i, constants));
    printers.back()->print();
    if (missing != nullptr && missing->empty()) *missing = printers.back()->missing();
  }
  out.line("}  // namespace");
  out.line("}  // namespace codetta::host");
  out.blank();
  out.line("using namespace codetta::host;");
  out.blank();
  out.line("extern \"C\" {");
  const auto exported = [&](const auto&... pieces) { return out.block(exported_head, pieces...); };
  const std::string start = CodeWriter::text_of("start_metal(", family_number(library.target.arch), ", ",
                                                literal_text(library.target.arch), ")");
  const auto start_with = [&](std::string_view path) {
    if (!loads) return out.line("return ", start, ";");
    out.line("CODETTA_OK(", start, ");");
    out.line("return load_constants(constants, constant_rows, ", constants.rows().size(), ", constant_files, ", path,
             ");");
  };
  {
    const auto function = exported("int ", library.name, "_init(void)");
    start_with("nullptr");
  }
  if (!library.weights_file.empty()) {
    const auto function = exported("int ", library.name, "_load_weights(const char* path)");
    out.line("if (path == nullptr) return fail(bad_argument, \"E0604: the path of the weights is null\");");
    out.line("if (constants_loaded()) return fail(bad_weights, \"E0620: the weights are loaded already\");");
    start_with("path");
  }
  {
    const auto function = exported("const char* ", library.name, "_get_last_error(void)");
    out.line("return error_text;");
  }
  {
    const auto function = exported("int ", library.name, "_check(void* command_buffer)");
    out.line("if (command_buffer == nullptr) return fail(bad_argument, \"E0604: the command buffer is null\");");
    out.line("return status_of((__bridge id<MTLCommandBuffer>)command_buffer, ", literal_text(library.name), ");");
  }
  for (const auto& printer : printers) {
    out.blank();
    printer->print_call();
  }
  for (const SizeTable& table : library.by_size) {
    out.blank();
    printers[table.first]->print_choice(table);
  }
  out.line("}");
  return out.str();
}

}  // namespace

Result<void> check_metal_library(const Library& library) {
  const auto refuse = [](const std::string& name, const std::string& why) {
    return diag::error(diag::Code::public_name, "'" + name + "' cannot be public in a C header")
        .reason(why)
        .help("give it another name");
  };
  if (const std::string why = public_name_defect(library.name); !why.empty()) return refuse(library.name, why);
  std::set<std::string> seen{library.name + "_init", library.name + "_check", library.name + "_get_last_error",
                             library.name + "_tensor"};
  if (!library.weights_file.empty()) seen.insert(library.name + "_load_weights");
  for (const size_t first : functions_of(library)) {
    const std::string name = function_name(library, library.programs[first]);
    if (const std::string why = public_name_defect(name); !why.empty()) return refuse(name, why);
    if (!seen.insert(name).second) return refuse(name, "the library has another function of that name");
  }
  std::string missing;
  (void)metal_host(library, &missing);
  if (missing.empty()) return {};
  return diag::error(diag::Code::host_feature, "the program has no form as Metal host text")
      .reason(missing)
      .help(missing.find("several devices") != std::string::npos
                ? "take that part out of the program, or build for a CPU"
                : "take that part out of the program, or build for a CPU, or for a cuda or hip target, which has it");
}

std::vector<File> print_metal(const Library& library) {
  std::vector<File> files;
  files.push_back({library.name + ".h", metal_header(library)});
  files.push_back({library.name + ".mm", whole_metal_text(metal_host(library))});
  std::string build = "#!/bin/sh\n# Compiles the library on a Mac with Xcode; run it in this folder.\nset -e\n";
  std::set<std::string> kernels;
  const auto add = [&](const std::string& name, std::string_view source, const std::vector<std::string>& flags) {
    if (!kernels.insert(name).second) return;
    files.push_back({name + ".metal", whole_metal_text(source)});
    build += "xcrun -sdk macosx metal";
    for (const std::string& flag : flags) build += " " + flag;
    build += " -c " + name + ".metal -o " + name + ".air\n";
    build += "xcrun -sdk macosx metallib " + name + ".air -o " + name + ".metallib\n";
  };
  for (const Program& program : library.programs) {
    for (const package::Kernel& kernel : program.package->kernels) add(kernel.name, kernel.source, kernel.nvrtc_flags);
    const auto moves = [](const package::Step& step) {
      return std::holds_alternative<package::Copy>(step) || std::holds_alternative<package::Fill>(step);
    };
    if (std::any_of(program.package->steps.begin(), program.package->steps.end(), moves))
      add("codetta_bytes", "#include \"device/metal/kernels/bytes.h\"\n", metal_flags(false));
  }
  build += "clang++ -x objective-c++ -std=c++20 -fobjc-arc -O2 -fvisibility=hidden -dynamiclib " + library.name +
           ".mm -framework Foundation -framework Metal -o lib" + library.name + ".dylib\n";
  files.push_back({"build.sh", build});
  return files;
}

}  // namespace codetta::emit::host
