// SPDX-License-Identifier: Apache-2.0
#include "emit/host/steps.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "emit/host/devices.hpp"
#include "emit/host/late_parts.hpp"
#include "emit/host/signature.hpp"
#include "emit/host/step_base.hpp"
#include "emit/host/step_functions.hpp"
#include "package/cpu_call.hpp"
#include "package/cpu_limits.hpp"
#include "package/factors.hpp"
#include "package/gpu_call.hpp"
#include "package/gpu_steps.hpp"

namespace codetta::emit::host {

using base::CodeWriter;
using package::Buffer;
using types::Dim;

namespace {

constexpr const char* views_line = "View* const v = frame.views;";
constexpr const char* launches_line = "Launches& launches = *static_cast<Launches*>(frame.launches);";

class StepPrinter : public StepBase {
 public:
  // `divided`: as several functions, by print_divided().
  StepPrinter(CodeWriter& out, const Library& library, const Program& program, size_t program_index,
              bool divided = false)
      : StepBase(out, *program.package, most_alignment(on_gpu(program))),
        library_(library),
        program_(program),
        program_index_(program_index),
        gpu_(on_gpu(program)),
        devices_(out, *program.package),
        parts_(out, *program.package, on_gpu(program) ? devices_.frame_type() : "Frame", divided) {
    if (divided) shared_ = "s.";
  }
  using StepBase::operator();

  void print() {
    name_symbols();
    if (devices_of(package_) > most_devices) return lacks("it uses more than 64 devices");
    const auto function = out_.block("Status steps(", frame_type(), "& frame)");
    out_.line(views_line);
    if (gpu_ && has_launches(package_)) out_.line(launches_line);
    out_.line(devices_.several() ? "begin_devices(frame);" : "frame.placed = 0;");
    for (const auto& [symbol, variable] : variables_)
      out_.line("Number ", variable, " = ", first_number(program_, symbol), ";  // ", comment_text(symbol));
    main_ = &package_.steps;
    print_list(package_.steps);
    parts_.close_all();
  }

  [[nodiscard]] const char* frame_type() const { return gpu_ ? devices_.frame_type() : "Frame"; }
  // The first function, which calls the others, in the current section; struct Shared in the section "shared".
  void print_divided() {
    std::vector<std::string> head{CodeWriter::text_of("[[maybe_unused]] ", views_line)};
    if (gpu_ && has_launches(package_)) head.push_back(CodeWriter::text_of("[[maybe_unused]] ", launches_line));
    functions_.emplace(out_, package_, frame_type(), std::move(head));
    name_symbols();
    {
      const auto function = out_.block("Status steps(", frame_type(), "& frame)");
      out_.line("Shared s;");
      out_.line(devices_.several() ? "begin_devices(frame);" : "frame.placed = 0;");
      out_.line("return ", functions_->next_call(), ";");
    }
    main_ = &package_.steps;
    functions_->begin(package_.steps, 0);
    print_list(package_.steps);
    const size_t parts = parts_.most();
    parts_.close_all();
    functions_->end();
    const auto shared = out_.section("shared");
    begin_text(out_, "shared");
    print_shared_steps(out_, program_, variables_, parts, frame_type());
  }

  void operator()(const package::DefineSymbol& step) {
    using From = package::DefineSymbol::From;
    const std::string head = CodeWriter::text_of(variables_.at(step.symbol), ", ", literal_text(step.symbol), ", ");
    std::string value;
    switch (step.from) {
      case From::Size:
        return define_size(step, head);
      case From::Stride:
        if (!package_.buffers[step.buffer].filled.empty()) print_fits(step.buffer);  // no step in front of all asks it
        value = CodeWriter::text_of("v[", step.buffer, "].stride_from_last(", from_last(step), ")");
        print_ascends(out_, step.dim, name_of(step.buffer), value, package::ascends(package_, step));
        break;
      case From::Expression:
        value = number(step.value);
        break;
      case From::Value: {
        const Buffer& buffer = package_.buffers[step.buffer];
        // In a branch or a loop all are read when that runs: what is not run may be out of range.
        const bool given = list_ == main_ && (buffer.is_scalar || buffer.role == Buffer::Role::Argument);
        if (given && (buffer.is_scalar || !gpu_)) {
          out_.line("if (frame.sizes_only) return fail(bad_sizes, \"E0610: how large the workspace is depends on ",
                    buffer.is_scalar ? "the number " : "", "%s; pass no workspace, and the library takes its own\", ",
                    name_of(step.buffer), ");");
          value = buffer.is_scalar ? CodeWriter::text_of("frame.scalars[", step.buffer, "].i")
                                   : CodeWriter::text_of("integer_in(v[", step.buffer, "])");
          if (buffer.dtype == DType::u64) out_.line("CODETTA_OK(check_size(", value, ", ", name_of(step.buffer), "));");
          break;
        }
        if (given) {
          print_fits(step.buffer);
          return elements(false).size(step, head, number(step.divisor));
        }
        return define_computed(step, head);
      }
      case From::OutputSize:
      case From::OutputStride:
        return define_computed(step, head);
    }
    out_.line("CODETTA_OK(define_value(", head, "Number(", value, "), ", number(step.divisor), "));");
  }

  // What a call computes is known when all in front of it has run.
  void define_computed(const package::DefineSymbol& step, const std::string& head) {
    using From = package::DefineSymbol::From;
    const bool inside = list_ != main_, known = parts_.joins_last();
    const bool scalar = step.from == From::Value && package_.buffers[step.buffer].is_scalar;
    const bool value = step.from == From::Value && !scalar;
    if (value) print_fits(step.buffer);
    if (!known) {
      if (gpu_ && value)
        out_.line(
            "if (!frame.running && !frame.sizes_only) CODETTA_OK(not_captured(frame, \"is a size that is read from "
            "device memory\", ",
            name_of(step.buffer), "));");
      parts_.wait(inside, fitted_);
    }
    const std::string number_of = CodeWriter::text_of("computed_", computed_++);
    out_.line("i64 ", number_of, " = 0;");
    if (value && gpu_) {
      out_.line("CODETTA_OK(read_computed(frame, v[", step.buffer, "], ", number_of, "));");
    } else if (value) {
      out_.line(number_of, " = integer_in(v[", step.buffer, "]);");
    } else if (scalar) {
      out_.line(number_of, " = frame.scalars[", step.buffer, "].i;");
    } else {
      out_.line("CODETTA_OK(size_of_output(", shared_, "result_", step.buffer, ".tensors[", step.output, "], ",
                step.output, ", ", step.dim, ", ", step.from == From::OutputStride, ", ", number_of, "));");
    }
    if ((value || scalar) && package_.buffers[step.buffer].dtype == DType::u64)
      out_.line("CODETTA_OK(check_size(", number_of, ", ", name_of(step.buffer), "));");
    out_.line("CODETTA_OK(define_value(", head, "Number(", number_of, "), ", number(step.divisor), "));");
    if (!known) parts_.open(), devices_.unknown();
  }
  void operator()(const package::AllocateFromPool& step) { allocate_in(parts_.frame_of(step.pool), step); }

  void operator()(const package::Check& step) {
    if (std::holds_alternative<package::UnitStrideGuard>(step.guard)) {  // unchecked, too: it says who takes the tensor
      if (program_.apart.empty()) std::visit(*this, step.guard);
    } else if (library_.checked || package::written_by_user(package_, step.guard)) {
      std::visit(*this, step.guard);
    }
  }
  void operator()(const package::NanGuard& guard) {
    print_fits(guard.buffer);
    if (gpu_) return elements().look(guard.buffer, guard.infinity ? "finite" : "nan", "Number(0)");
    out_.line("if (frame.running) CODETTA_OK(check_numbers(v[", guard.buffer, "], ", guard.infinity, ", ",
              told(guard.buffer), ", ", literal_text(guard.why), "));");
  }
  [[nodiscard]] std::string told(uint32_t buffer) const { return literal_text(told_name(program_, buffer)); }
  void operator()(const package::IndexGuard& guard) {  // contents: known when the work in front is done
    print_fits(guard.buffer);
    if (gpu_) return elements().look(guard.buffer, "index", number(guard.size));
    out_.line("if (frame.running) CODETTA_OK(check_indices(v[", guard.buffer, "], ", number(guard.size), ", ",
              told(guard.buffer), "));");
  }

  void operator()(const package::Free& step) {  // the offsets were planned
    const auto at = selected_.find(step.buffer);
    if (at != selected_.end()) out_.line(parts_.open_parts() ? "if (frame.running) " : "", at->second);
  }
  void operator()(const package::LoadConstant&) {}  // when the library starts
  void operator()(const package::Reinterpret& step) {
    if (!package_.buffers[step.buffer].begin.empty()) print_fits(step.source);  // no launch sees but the slice
    StepBase::operator()(step);
  }
  void operator()(const package::Copy& step) {
    bool strided = false;
    for (const uint32_t buffer : {step.source, step.target}) {
      print_fits(buffer);
      strided = strided || !package_.buffers[buffer].strides.empty();
    }
    if (gpu_) return elements(strided && !is_between_devices(package_, step)).copy(step);
    out_.line("CODETTA_OK(copy(frame, v[", step.target, "], v[", step.source, "], ", name_of(step.target), "));");
  }
  void operator()(const package::Fill& step) {
    // What is filled once in process is filled in every call: a workspace may be another one each time.
    if (step.mode == package::ZeroMode::None) return;
    if (gpu_) {
      const Buffer& buffer = package_.buffers[step.buffer];
      print_fits(step.buffer);
      return elements(!buffer.strides.empty() || !package::one_byte(buffer.dtype, step.bits)).fill(step);
    }
    out_.line("if (frame.running) fill(v[", step.buffer, "], ", step.bits, "ull);");
  }
  void operator()(const package::DefineKernel&) {}  // the linker did
  void operator()(const package::CallExtern& step) {
    const size_t at = extern_index(library_, step.name);
    const std::string entry = CodeWriter::text_of("externs[", at, "]");
    const auto count = [](const std::vector<uint32_t>& list) { return list.size(); };
    if (!behind_comment()) out_.blank();
    out_.line("// extern ", comment_text(step.name));
    const bool allocates = step.form == package::CallExtern::Form::Alloc;
    const std::string result = CodeWriter::text_of(shared_, "result_", step.result);
    if (allocates && functions_) out_.line(result, ".release_all();");
    if (allocates && !functions_) out_.line("ExternResults<", step.output_count, "> ", result, ";");
    for (const uint32_t buffer : step.inputs) print_fits(buffer);
    for (const uint32_t buffer : step.outputs) print_fits(buffer);
    out_.line("if (!frame.running && !frame.sizes_only) CODETTA_OK(check_extern(", entry, ", ",
              literal_text(extern_setter(library_, step.name)), "));");
    const auto scope = out_.block("if (frame.running)");
    print_extern_tensors(out_, package_, "inputs", step.inputs);
    if (!allocates) print_extern_tensors(out_, package_, "outputs", step.outputs);
    devices_.tell_tensors(step, shared_);
    out_.line("CODETTA_OK(call_extern(", gpu_ ? "frame, " : "", entry, ", inputs, ", count(step.inputs), ", ",
              allocates ? CodeWriter::text_of(result, ".tensors, ", step.output_count)
                        : CodeWriter::text_of("outputs, ", count(step.outputs)),
              !gpu_       ? "));"
              : allocates ? ", true));"
                          : ", false));");
  }
  void operator()(const package::SelectOutput& step) {
    const Buffer& buffer = package_.buffers[step.buffer];
    const std::string result = CodeWriter::text_of(shared_, "result_", step.result);
    selected_[step.buffer] = CodeWriter::text_of(result, ".release(", step.output, ");");
    const auto scope = begin_buffer(buffer);
    out_.line("CODETTA_OK(select_output(frame, v[", step.buffer, "], ", result, ".tensors[", step.output, "], ",
              dtype_of(step.buffer), ", sizes, ", buffer.shape.size(), ", ", name_of(step.buffer), "));");
  }
  void operator()(const package::IndexPut& step) {
    const auto how = step.accumulate ? package::ScatterReduce::Sum : package::ScatterReduce::None;
    for (const uint32_t buffer : {step.target, step.values}) print_fits(buffer);
    for (const uint32_t buffer : step.indices) print_fits(buffer);
    if (gpu_) return elements().index_put(step);
    const auto scope = begin_combined(out_, step.target, how);
    out_.line(
        "const Index indices[] = {",
        comma_list(step.indices, [this](uint32_t b) { return CodeWriter::text_of("{&v[", b, "], ", told(b), "}"); }),
        "};");
    out_.line("if (frame.running) CODETTA_OK(index_put(v[", step.target, "], indices, ", step.indices.size(), ", v[",
              step.values, "], how, ", library_.checked, ", frame.memory + wide));");
  }
  void operator()(const package::Scatter& step) {
    for (const uint32_t buffer : {step.target, step.index, step.source}) print_fits(buffer);
    if (gpu_) return elements().scatter(step);
    const auto scope = begin_combined(out_, step.target, step.reduce);
    out_.line("if (frame.running) CODETTA_OK(scatter(v[", step.target, "], {&v[", step.index, "], ", told(step.index),
              "}, v[", step.source, "], ", step.dim, ", how, ", library_.checked, ", frame.memory + wide));");
  }

  // The order of the list is that of a device's work; lines between steps say whose it is.
  void operator()(const package::EnterDevice& step) { devices_.enter(step.device); }
  void operator()(const package::ExitDevice&) { devices_.leave(); }
  void operator()(const package::EnterStream&) {}
  void operator()(const package::ExitStream&) {}
  void operator()(const package::RecordEvent&) {}
  void operator()(const package::WaitEvent&) {}
  void operator()(const package::EnterSubgraph& step) { out_.line("// ", comment_text(step.name), " {"); }
  void operator()(const package::ExitSubgraph&) { out_.line("// }"); }

  // While sizes are measured both branches are gone through; they use the same memory.
  void operator()(const package::If& step) {
    const auto scope = out_.block("");
    devices_.mark();
    // Read once: what a branch makes may lie where the predicate lay.
    print_predicate("taken", step.predicate);
    {
      const auto then = out_.block("if (!frame.running || taken)");
      forget_symbols(package_.step_lists[step.then_list]);
      print_list(package_.step_lists[step.then_list]);
    }
    devices_.restore();
    {
      const auto other = out_.block("if (!frame.running || !taken)");
      forget_symbols(package_.step_lists[step.else_list]);
      print_list(package_.step_lists[step.else_list]);
    }
    devices_.restore();
  }
  void operator()(const package::While& step) {
    const auto scope = out_.block("");
    devices_.mark();
    const auto loop = out_.block("for (i64 pass = 0;; ++pass)");
    devices_.restore();
    forget_symbols(package_.step_lists[step.condition]);
    print_list(package_.step_lists[step.condition]);
    if (gpu_) {
      if (!package_.buffers[step.predicate].is_scalar) devices_.at(package_.buffers[step.predicate].device);
      print_predicate("more", step.predicate);
      out_.line("if (frame.running && !more) break;");
    } else {
      out_.line("if (frame.running && !", predicate(step.predicate), ") break;");
    }
    if (step.limit > 0) {
      out_.line("if (pass == ", step.limit, ") return fail(bad_sizes, \"E0651: the loop still runs after ", step.limit,
                " iterations\");");
    }
    forget_symbols(package_.step_lists[step.body]);
    print_list(package_.step_lists[step.body]);
    out_.line("if (!frame.running) break;");
  }

  void operator()(const package::LaunchKernel& step) {
    const package::Kernel& kernel = package_.kernels[step.kernel];
    const package::EpilogueProgram& program = kernel.epilogue;
    if (gpu_) return print_gpu_launch(step, kernel, program);
    if (package::is_user(kernel.config)) return print_user(step, kernel);
    const bool product = std::holds_alternative<package::CpuGemmConfig>(kernel.config) && step.product.has_value();
    const bool map = std::holds_alternative<package::CpuMapConfig>(kernel.config) && !step.product;
    if (!product && !map) return lacks(kernel.name + " is no kernel for a CPU");
    if (program.phases.size() > package::max_cpu_phases || program.reductions.size() > package::max_cpu_reductions)
      return lacks(kernel.name + " has more phases or reductions than an engine takes");
    if (!has_plain_options(step)) return;
    print_launch_heading(step);
    const auto scope = out_.block("");
    out_.line("// ", kernel.name);
    if (product) {
      step.product->each_buffer([this](uint32_t buffer) { print_fits(buffer); });
    }
    for (const uint32_t argument : step.arguments) print_fits(argument);
    out_.line("Gemm gemm{};");
    if (product) {
      print_product(step, *step.product, program);
    } else {
      out_.line("CODETTA_OK(set_sizes(gemm, ", number(step.batch), ", ", number(step.m), ", ", number(step.n),
                ", Number(0)));");
    }
    out_.line("Work work;");
    const KernelFunctions functions = functions_of(program_.functions, step.kernel);
    KernelFunctions apart = functions_of(program_.apart, step.kernel);
    const bool plain = functions.tiles.empty() && functions.fused.empty();
    // A kernel that is launched several times may read nothing of the caller's here.
    if (!apart.tiles.empty() && !print_apart(step, kernel)) apart = KernelFunctions{};
    if (!plain || !apart.tiles.empty()) print_epilogue(step, program, functions, apart);
    if (plain) {
      const uint32_t out = step.arguments[program.operands[program.phases[0].stores[0].operand].argument];
      const auto branch = apart.tiles.empty() ? std::optional<CodeWriter::Block>() : out_.block("if (!apart)");
      out_.line("work.epilogue.out = v[", out, "].data;");
      out_.line("work.epilogue.out_batch = v[", out, "].step(2);");
      out_.line("work.epilogue.out_row = v[", out, "].step(1);");
    }
    out_.line("CODETTA_OK(launch(frame, config_", step.kernel, ", gemm, work));");
  }

  // `ahead`: whether it takes its tensors and sizes, and nothing else.
  void print_gpu_launch(const package::LaunchKernel& step, const package::Kernel& kernel,
                        const package::EpilogueProgram& program, bool ahead = false) {
    if (package::is_vendor(kernel.config)) return lacks(kernel.name + " is a kernel of the vendor's library");
    if (package::is_user(kernel.config)) return print_gpu_user(step, kernel);
    const bool product = std::holds_alternative<package::GpuGemmConfig>(kernel.config) && step.product.has_value();
    const bool map = std::holds_alternative<package::GpuMapConfig>(kernel.config) && !step.product;
    if (!product && !map) return lacks(kernel.name + " is no kernel for a GPU");
    if (product && !package::factors_are_inside(*step.product, program)) return lacks(package::factors_outside);
    if (!has_plain_options(step)) return;
    if (!ahead) print_launch_heading(step);
    const auto scope = out_.block("");
    const std::string symbol = kernel_symbol(program_index_, step.kernel);
    out_.line("// ", kernel.name);
    if (product) {
      step.product->each_buffer([this](uint32_t buffer) { print_fits(buffer); });
    }
    for (const uint32_t argument : step.arguments) print_fits(argument);
    const auto launches = launches_of(package_);
    const auto at = std::find(launches.begin(), launches.end(), &step) - launches.begin();
    out_.line("auto& one = launches.launch_", at, ";");
    if (!program.spaces.empty()) print_widths(program);
    out_.line("CODETTA_OK(set_sizes(frame, ", symbol, ", one, ", number(step.batch), ", ", number(step.m), ", ",
              number(step.n), ", ", product ? number(step.product->k) : "Number(0)", ", ", number(program.split.chunk),
              program.spaces.empty() ? std::string() : CodeWriter::text_of(", widths, ", program.spaces.size()), "));");
    if (product) {
      const auto factor = [&](bool is_a, uint32_t buffer, bool transposed, size_t further = 0) {
        const size_t products = is_a ? 1 : step.product->products();
        const std::string view =
            seen_factor(CodeWriter::text_of("v[", buffer, "]"), buffer,
                        is_a ? step.product->a_view : package::view_of_b(*step.product, program, further),
                        is_a ? "seen_a" : "seen_b" + (further == 0 ? std::string() : std::to_string(further)));
        out_.line("CODETTA_OK(",
                  further == 0 ? "set_factor(frame, " : CodeWriter::text_of("check_more_b(frame, ", symbol, ", "),
                  "one, ", further == 0 ? CodeWriter::text_of(is_a, ", ") : "", view, ", ", name_of(buffer), ", ",
                  transposed, products > 1 ? CodeWriter::text_of(", ", products) : std::string(),
                  program.spaces.empty() || further == 0 ? std::string() : CodeWriter::text_of(", ", further), "));");
      };
      if (!program.makes_a()) factor(true, step.product->a, step.product->a_transposed);
      for (size_t p = 0; p < step.product->products() && !program.makes_b(); ++p)
        factor(false, step.product->factor_b(p), step.product->b_transposed, p);
    }
    const size_t count = program.operands.size();
    if (count > 0) {
      out_.line("codetta::gpu::Operand operands[", count, "];");
      for (size_t i = 0; i < count; ++i)
        print_operand("operands", i, program.operands[i], step.arguments[program.operands[i].argument]);
      const auto bound = out_.block_with("};", "const GpuOperand bound[] = ");
      for (size_t i = 0; i < count; ++i) {
        const uint32_t b = step.arguments[program.operands[i].argument];
        const char* taken = list_ == main_ ? "true" : "frame.running";
        out_.line("{&v[", b, "], ", name_of(b), ", meets_nothing(v[", b, "], operands[", i, "]), ",
                  program.operands[i].gathered.empty() ? "false" : taken, "},");
      }
    }
    const char* const tensors = count > 0 ? "bound, operands" : "nullptr, nullptr";
    if (ahead) return (void)out_.line("CODETTA_OK(look(frame, ", symbol, ", one, ", tensors, "));");
    if (!program.arguments.empty()) print_scalars("scalars", program, step.arguments);
    out_.line("CODETTA_OK(launch(frame, ", symbol, ", one, ", tensors, ", ",
              program.arguments.empty() ? "nullptr" : "scalars", "));");
  }

  void print_gpu_user(const package::LaunchKernel& step, const package::Kernel& kernel) {
    if (std::string what = lacking_in_user(package_, step, kernel); !what.empty()) return lacks(what);
    print_launch_heading(step);
    const auto scope = out_.block("");
    out_.line("// ", kernel.name);
    for (const uint32_t argument : step.arguments) print_fits(argument);
    print_user_launch(out_, package_, step, kernel_symbol(program_index_, step.kernel),
                      [this](const Dim& dim) { return number(dim); });
  }

  bool has_plain_options(const package::LaunchKernel& step) {
    package::LaunchOptions plain;
    plain.programmatic = step.options.programmatic;  // kernels follow or wait for the one in front in any case
    if (step.options == plain) return true;
    lacks("it launches with a grid, a cluster, tensor maps or an L2 window that Codetta's kernels choose themselves");
    return false;
  }
  void print_launch_heading(const package::LaunchKernel& step) {
    if (!behind_comment()) out_.blank();
    if (step.kernel < program_.origins.size() && !program_.origins[step.kernel].empty())
      out_.line("// ", comment_text(program_.origins[step.kernel]));
  }

  void print_product(const package::LaunchKernel& step, const package::Product& product,
                     const package::EpilogueProgram& program) {
    out_.line("CODETTA_OK(set_sizes(gemm, ", number(step.batch), ", ", number(step.m), ", ", number(step.n), ", ",
              number(product.k), "));");
    if (product.products() > 1) out_.line("gemm.products = ", product.products(), ";");
    const std::string a = seen_factor(CodeWriter::text_of("v[", product.a, "]"), product.a, product.a_view, "seen_a");
    out_.line("CODETTA_OK(set_a(gemm, ", a, ", ", name_of(product.a), ", ", product.a_transposed, "));");
    if (!product.b_made.empty()) print_makers(product);
    for (size_t p = 0; p < product.products() && product.b_made.empty(); ++p) {
      const uint32_t b = product.factor_b(p);
      print_set_b(p,
                  seen_factor(CodeWriter::text_of("v[", b, "]"), b, product.b_view, CodeWriter::text_of("seen_b", p)),
                  product);
    }
    if (program.split.ways > 1)
      out_.line("CODETTA_OK(set_split(gemm, ", program.split.ways, ", ", number(program.split.chunk), "));");
    for (const PackedFactor& packed : program_.packed) {
      if (list_ != main_ || packed.step != step_) continue;
      const std::string symbol = packed.symbol.empty() ? CodeWriter::text_of("packed_", step_) : packed.symbol;
      out_.line("CODETTA_OK(set_packed(gemm, config_", step.kernel, ", ", symbol, ", ", packed.bytes, ", ",
                name_of(product.b), "));");
    }
  }

  // `view`: text of B of product p.
  void print_set_b(size_t p, const std::string& view, const package::Product& product) {
    const std::string name = name_of(product.factor_b(p));
    if (p == 0) {
      out_.line("CODETTA_OK(set_b(gemm, ", view, ", ", name, ", ", product.b_transposed, "));");
    } else {
      out_.line("CODETTA_OK(set_more_b(gemm, ", p, ", ", view, ", ", name, ", ", product.b_transposed, "));");
    }
  }

  // Factors that kernels make where the product reads them.
  void print_makers(const package::Product& product) {
    std::string makers;
    for (size_t p = 0; p < product.b_made.size(); ++p) {
      const package::Prologue& made = product.b_made[p];
      const package::EpilogueProgram& program = package_.kernels[made.kernel].epilogue;
      const std::string table = CodeWriter::text_of("made_", p);
      size_t output = 0;
      out_.line("// ", package_.kernels[made.kernel].name);
      out_.line("codetta::cpu::Operand ", table, "[", program.operands.size(), "]{};");
      for (size_t i = 0; i < program.operands.size(); ++i) {
        const package::Operand& operand = program.operands[i];
        if (operand.is_store) {
          output = i;
        } else {
          print_operand(table, i, operand, made.arguments[operand.argument]);
        }
      }
      std::string numbers = "nullptr";
      if (takes_numbers(program)) {
        numbers = CodeWriter::text_of("numbers_", p);
        std::vector<uint32_t> arguments = made.arguments;
        arguments.push_back(0);  // of the factor, which is no number
        print_scalars(numbers, program, arguments);
      }
      const std::string tiles = functions_of(program_.functions, made.kernel).tiles,
                        other = functions_of(program_.apart, made.kernel).tiles,
                        apart = other.empty() ? "" : apart_text(program_, program, made.arguments);
      if (tiles.empty()) return lacks(package_.kernels[made.kernel].name + " has no function");
      makers += CodeWriter::text_of(p == 0 ? "{" : ", {", apart.empty() ? tiles : apart + " ? " + other + " : " + tiles,
                                    ", ", table, ", ", numbers, ", ", program.operands.size(), ", ", output, ", ",
                                    product.b_transposed, "}");
    }
    out_.line("const Maker makers[] = {", makers, "};");
    out_.line("gemm.makers = makers;");
  }

  void operator()(const package::Comment& step) {
    if (!behind_comment()) out_.blank();
    out_.line("// ", comment_text(step.text));
  }
  void operator()(const package::Return&) {
    if (computed_dims(package_).size() > max_computed_dims) return lacks("it computes more than 64 sizes of outputs");
    print_computed_sizes(out_, library_, program_index_, package_, [this](const Dim& dim) { return number(dim); });
    out_.line("return ok;");
  }

  void print_pack(const package::LaunchKernel& step, const PackedFactor& packed) {
    const package::Product& product = *step.product;
    const package::EpilogueProgram& program = package_.kernels[step.kernel].epilogue;
    const auto scope = out_.block("");
    out_.line("Gemm gemm{};");
    out_.line("CODETTA_OK(set_sizes(gemm, Number(", packed.batch, "), Number(1), ", number(step.n), ", ",
              number(product.k), "));");
    if (product.products() > 1) out_.line("gemm.products = ", product.products(), ";");
    for (size_t p = 0; p < product.products(); ++p) {
      const uint32_t b = product.factor_b(p);
      const package::Reinterpret* const slice = slice_step(package_, b);
      std::string lies = CodeWriter::text_of("loaded[", slot_of(program_, slice != nullptr ? slice->source : b), "]");
      if (slice != nullptr) lies = new_slice(CodeWriter::text_of("sliced_b", p), lies, b);
      print_set_b(p, seen_factor(lies, b, product.b_view, CodeWriter::text_of("seen_b", p)), product);
    }
    if (program.split.ways > 1)
      out_.line("CODETTA_OK(set_split(gemm, ", program.split.ways, ", ", number(program.split.chunk), "));");
    out_.line("CODETTA_OK(pack_weight(&packed_", packed.step, ", config_", step.kernel, ", gemm));");
  }

  // Symbols that the shapes of constants fix are numbers.
  void fix_symbols() {
    for (const auto& [symbol, value] : signature_of(program_).fixed)
      variables_[symbol] = "Number(" + std::to_string(value) + ")";
  }

 private:
  void print_list(const package::StepList& list) {
    const package::StepList* outer = std::exchange(list_, &list);
    const size_t at = step_, inside = parts_.depth();
    const std::set<uint32_t> fitted = fitted_;
    std::optional<CodeWriter::Block> in_range;
    step_ = &list == main_ ? 0 : print_ranges(list, in_range);
    if (&list != main_) devices_.unknown();
    const bool apart = functions_ && &list != main_ && functions_->is_apart(list);
    if (apart) {
      out_.line("CODETTA_OK(", functions_->next_call(), ");");
      functions_->begin(list, parts_.count());
    }
    for (; step_ < list.size(); ++step_) {
      const package::Step& step = list[step_];
      if (functions_ && functions_->is_full(list, step_) && !behind_comment()) print_next_function(list);
      if (functions_) functions_->add(list, step_);
      const bool uses_pools = std::holds_alternative<package::AllocateFromPool>(step) ||
                              std::holds_alternative<package::If>(step) || std::holds_alternative<package::While>(step);
      if (&list == main_ && parts_.comes_first(step)) look_ahead();
      if (uses_pools) place_pools(step);
      if (!std::holds_alternative<package::DefineSymbol>(step) && !std::holds_alternative<package::Check>(step))
        parts_.worked();
      devices_.step(step);
      std::visit(*this, step);
      if (const auto* define = std::get_if<package::DefineSymbol>(&step)) parts_.define(define->symbol);
    }
    if (apart) {
      out_.line("return ok;");
      functions_->end();
    }
    if (&list != main_) parts_.close(inside, fitted_), devices_.unknown();
    if (in_range) fitted_ = fitted;
    step_ = at;
    list_ = outer;
  }
  // What could be refused behind sizes that the call computes, while another program can take over.
  void look_ahead() {
    parts_.look_at_factors([this](uint32_t buffer) { print_fits(buffer); });
    const SizeTable* const table = table_of(library_, program_index_);
    if (!gpu_ || (table != nullptr && !table->takes_over(program_index_ - table->first)))
      return;  // none comes behind it
    const package::LookAhead ahead = package::look_ahead(package_, step_);
    print_ahead_sizes(ahead);
    const std::set<uint32_t> fitted = fitted_;
    for (const package::LookAhead::Look& one : ahead.looks) {
      if (!one.known) continue;
      if (functions_ && functions_->add_look()) print_next_function(*main_);
      const auto scope = out_.block("if (!frame.running)");
      const auto look = out_.block_with("}())) return bad;", "if (const Status bad = if_another_may([&]() -> Status");
      print_places(one);
      const package::Kernel& kernel = package_.kernels[one.launch->kernel];
      print_gpu_launch(*one.launch, kernel, kernel.epilogue, true);
      out_.line("return ok;");
      fitted_ = fitted;
    }
    print_ahead_sizes(ahead, true);
  }
  // The list goes on in another function.
  void print_next_function(const package::StepList& list) {
    const size_t parts = functions_->parts();
    out_.line("return ", functions_->next_call(), ";");
    parts_.end_function(parts);
    functions_->end();
    functions_->begin(list, parts);
  }
  // A bool that is read before what it decides about; false while sizes are measured.
  void print_predicate(const char* name, uint32_t buffer) {
    if (!gpu_ || package_.buffers[buffer].is_scalar) {
      out_.line("const bool ", name, " = frame.running && ", predicate(buffer), ";");
      return;
    }
    out_.line("bool ", name, " = false;");
    out_.line("CODETTA_OK(read_flag(frame, v[", buffer, "], ", name_of(buffer), ", ", name, "));");
  }

  // Before their first use, all of them.
  void place_pools(const package::Step& step) {
    if (late_sizes_) return parts_.place_used(step, [this](uint32_t pool) { place_pool(pool); });
    if (!out_.once("pools")) return;
    for (size_t i = 0; i < package_.pools.size(); ++i) place_pool(i);
  }
  void place_pool(size_t i) {
    if (package_.pools[i].alignment > most_alignment(gpu_))
      lacks("a pool is aligned to more than " + std::to_string(most_alignment(gpu_)) + " bytes");
    devices_.at(package_.pools[i].device);
    if (!functions_) out_.line("i64 pool_", i, " = 0;");
    out_.line("CODETTA_OK(place(frame, ", shared_, "pool_", i, ", ", number(package_.pools[i].bytes), "));");
  }

  static int64_t most_alignment(bool gpu) { return gpu ? 256 : 64; }
  [[nodiscard]] bool behind_comment() const {
    return step_ > 0 && std::holds_alternative<package::Comment>((*list_)[step_ - 1]);
  }

  // Steps on elements of a GPU, where the printing is.
  ElementSteps elements(bool needs_kernel = true) {
    if (needs_kernel && !package::steps_kernel(package_))
      lacks("it works on elements, and the package has no kernel for that");
    return {out_, library_, program_, program_index_, &(*list_)[step_]};
  }
  void print_user(const package::LaunchKernel& step, const package::Kernel& kernel) {
    std::string function = functions_of(program_.functions, step.kernel).user;
    if (function.empty()) return lacks(kernel.name + " has no function");
    const std::string other = functions_of(program_.apart, step.kernel).user;
    const std::string apart = other.empty() ? other : apart_text(program_, kernel.epilogue, step.arguments);
    if (!apart.empty()) function = CodeWriter::text_of("(", apart, " ? ", other, " : ", function, ")");
    print_launch_heading(step);
    for (const uint32_t argument : step.arguments) print_fits(argument);
    print_cpu_user(out_, package_, step, function);
  }

  std::string predicate(uint32_t buffer) {
    if (package_.buffers[buffer].is_scalar) return CodeWriter::text_of("(frame.scalars[", buffer, "].u != 0)");
    return CodeWriter::text_of("is_true(v[", buffer, "])");
  }

  // Once a buffer, before its first use: it is what the program declares.
  void print_fits(uint32_t b) {
    const Buffer& buffer = package_.buffers[b];
    if (buffer.is_scalar || buffer.role == Buffer::Role::Temporary || !fitted_.insert(b).second) return;
    const auto scope = out_.block("if (!frame.running)");
    print_sizes(buffer);
    out_.line("CODETTA_OK(fits(v[", b, "], ", name_of(b), ", ", dtype_of(b), ", sizes, ", buffer.shape.size(), "));");
  }

  void print_operand(const std::string& table, size_t i, const package::Operand& operand, uint32_t b) {
    const std::string start = start_text(operand, b, symbols());
    out_.line(table, "[", i, "] = ", gpu_ ? "gpu_" : "", "operand(v[", b, "]", start.empty() ? "" : ", " + start, ");");
    const Dim one = Dim::constant(1);
    for (size_t t = 0; t < operand.terms.size(); ++t) {
      const package::IndexTerm& term = operand.terms[t];
      const size_t slot = operand.access == package::Access::Indexed ? t : static_cast<size_t>(term.axis);
      const std::string step = CodeWriter::text_of("v[", b, "].step(", static_cast<int>(term.dim), ")");
      if (term.scale == one) {
        out_.line(table, "[", i, "].stride[", slot, "] += ", step, ";");
      } else {
        out_.line("CODETTA_OK(add_stride(", table, "[", i, "], ", slot, ", ", number(term.scale), ", ", step, "));");
      }
    }
    print_gathered(out_, table, i, operand, b);
  }

  void print_scalars(const std::string& table, const package::EpilogueProgram& program,
                     const std::vector<uint32_t>& arguments) {
    print_numbers(out_, table, program, arguments, gpu_, [this](const Dim& dim) { return number(dim); });
  }

  static KernelFunctions functions_of(const std::vector<KernelFunctions>& functions, uint32_t kernel) {
    return kernel < functions.size() ? functions[kernel] : KernelFunctions{};
  }
  // `apart`: whether the kernel's other functions are called. False: they never are.
  bool print_apart(const package::LaunchKernel& step, const package::Kernel& kernel) {
    std::string text = apart_text(program_, kernel.epilogue, step.arguments);
    const auto* config = std::get_if<package::CpuGemmConfig>(&kernel.config);
    const bool fused = config != nullptr && config->family == package::CpuFamily::Fused;
    if (text.empty() && !fused) return false;
    if (fused) text += CodeWriter::text_of(text.empty() ? "" : " || ", "(gemm.k > 1 && gemm.a_k != 1)");
    out_.line("const bool apart = ", text, ";");
    return true;
  }

  void print_epilogue(const package::LaunchKernel& step, const package::EpilogueProgram& program,
                      const KernelFunctions& functions, const KernelFunctions& apart) {
    const size_t count = program.operands.size();
    if (count > 0) {
      out_.line("codetta::cpu::Operand operands[", count, "];");
      for (size_t i = 0; i < count; ++i)
        print_operand("operands", i, program.operands[i], step.arguments[program.operands[i].argument]);
      out_.line("const View* const views[] = {",
                comma_list(program.operands,
                           [&](const package::Operand& o) {
                             return CodeWriter::text_of("&v[", step.arguments[o.argument], "]");
                           }),
                "};");
      out_.line("static constexpr u8 stores[] = {",
                comma_list(program.operands, [](const package::Operand& o) { return std::to_string(written_axes(o)); }),
                "};  // written: 1, by batch 2, row 4, column 8");
      out_.line("set_operands(work, operands, views, stores);");
    }
    if (takes_numbers(program)) {
      print_scalars("scalars", program, step.arguments);
      out_.line("work.epilogue.scalars = scalars;");
    }
    if (step.product && !(step.batch == Dim::constant(1)) && package::rows_fold(program))
      out_.line("set_folding(work);");
    print_phases(out_, program);
    const auto or_apart = [&](const std::string& function, const std::string& other) {
      const std::string usual = function.empty() ? "nullptr" : function;
      return apart.tiles.empty() ? usual : "apart ? " + other + " : " + usual;
    };
    if (functions.fused.empty()) {
      out_.line("work.epilogue.tiles = ", or_apart(functions.tiles, apart.tiles), ";");
      return;
    }
    if (!apart.tiles.empty()) out_.line("work.epilogue.tiles = ", or_apart("", apart.tiles), ";");
    out_.line("work.epilogue.fused = ", or_apart(functions.fused, "nullptr"), ";");
    if (!functions.tiles.empty()) out_.line("work.tiles = ", or_apart(functions.tiles, apart.tiles), ";");
  }

  const Library& library_;
  const Program& program_;
  std::set<uint32_t> fitted_;
  std::map<uint32_t, std::string> selected_;  // by buffer: what gives the result of an extern back
  const package::StepList* main_ = nullptr;
  const package::StepList* list_ = nullptr;
  size_t step_ = 0;
  size_t program_index_ = 0;
  bool gpu_ = false;
  const bool late_sizes_ = has_late_sizes(package_);
  DeviceLines devices_;
  LateParts parts_;
  std::optional<StepFunctions> functions_;  // where there are several
  size_t computed_ = 0;
};

}  // namespace

void print_steps(CodeWriter& out, const Library& library, const Program& program, size_t program_index) {
  StepPrinter(out, library, program, program_index).print();
}

std::optional<DividedSteps> divided_steps(const Library& library, const Program& program, size_t program_index) {
  if (weight_of(*program.package) <= most_step_weight) return std::nullopt;
  CodeWriter out;
  StepPrinter printer(out, library, program, program_index, true);
  printer.print_divided();
  return steps_in(out, printer.frame_type());
}

void print_packing(CodeWriter& out, const Program& program, const PackedFactor& packed) {
  const Library library{};
  StepPrinter printer(out, library, program, 0);
  printer.fix_symbols();
  printer.print_pack(*std::get_if<package::LaunchKernel>(&program.package->steps[packed.step]), packed);
}

std::optional<std::string> missing_feature(const Program& program) {
  CodeWriter nowhere;
  const Library library{};
  StepPrinter printer(nowhere, library, program, 0);
  printer.print();
  if (printer.missing().empty()) return std::nullopt;
  return printer.missing();
}

}  // namespace codetta::emit::host
