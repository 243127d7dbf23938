// SPDX-License-Identifier: Apache-2.0
#include "emit/host/python_launches.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "emit/host/devices.hpp"
#include "emit/host/python_user.hpp"
#include "emit/host/steps.hpp"
#include "package/cpu_call.hpp"
#include "package/cpu_limits.hpp"
#include "package/factors.hpp"
#include "package/gpu_call.hpp"
#include "package/look_ahead.hpp"

namespace codetta::emit::host {

void PythonLaunches::line(std::string_view text) {
  text_.append(static_cast<size_t>(4 * indent_), ' ');
  text_ += text;
  text_ += '\n';
}

std::string PythonLaunches::expression(const Dim& dim) {
  return py_expression(dim, [this](const std::string& known) { return fmt::format("n{}", symbol(known)); });
}

std::string PythonLaunches::tuple(const std::vector<Dim>& dims) {
  std::string text = "(";
  for (const Dim& dim : dims) text += expression(dim) + ", ";
  return text + ")";
}

void PythonLaunches::shaped(uint32_t buffer) {
  const Buffer& b = p_.buffers[buffer];
  if (b.is_scalar || !bound(b) || checked_.contains(buffer)) return;
  line(fmt::format("_shaped(v{}, {}, {})", buffer, tuple(b.shape), name(buffer)));
  if (is_known(b) && !arguments_checked_) checked_.insert(buffer);
}

bool PythonLaunches::is_known(const Buffer& buffer) const {
  return std::all_of(buffer.shape.begin(), buffer.shape.end(), [&](const Dim& dim) {
    const std::vector<std::string> symbols = dim.symbols();
    return std::all_of(symbols.begin(), symbols.end(), [&](const auto& one) { return defined_.contains(one); });
  });
}

Error PythonLaunches::refused(const char* why) const {
  return diag::error(diag::Code::step_unsupported, fmt::format("{} has no form as Python text", name_of(*step_)))
      .reason(why)
      .help("docs/features.md lists what runs where");
}

PythonLaunches::Tables PythonLaunches::tables_of(const package::LaunchKernel& s,
                                                 const package::EpilogueProgram& program) {
  Tables tables;
  for (size_t i = 0; i < program.phases.size(); ++i) {
    tables.phases += fmt::format("({}, {}, {}), ", static_cast<int>(program.phases[i].scope),
                                 static_cast<int>(package::space_of(program, i)),
                                 program.phases[i].reads_accumulator ? "True" : "False");
  }
  for (const package::Reduction& r : program.reductions) {
    tables.reductions +=
        fmt::format("({}, {}, {}, {}, {}, {}, False), ", static_cast<int>(r.kind), static_cast<int>(r.axis),
                    static_cast<int>(r.type), r.mean ? "True" : "False", r.phase, r.parts);
  }
  for (const package::Operand& operand : program.operands) {
    tables.operands += fmt::format("(v{}, {}, [", s.arguments[operand.argument],
                                   operand.access == package::Access::Indexed ? "True" : "False");
    for (const package::IndexTerm& term : operand.terms)
      tables.operands += fmt::format("({}, {}, {}), ", static_cast<int>(term.axis), term.dim, expression(term.scale));
    tables.operands += "], [";
    for (const auto& [dim, count] : operand.offsets)
      tables.operands += fmt::format("({}, {}), ", dim, expression(count));
    tables.operands += "], [";
    for (const uint8_t dim : operand.gathered) tables.operands += fmt::format("{}, ", dim);
    tables.operands += fmt::format("], {}{}), ", operand.is_store ? "True" : "False",
                                   gpu_ ? ", " + name(s.arguments[operand.argument]) : "");
  }
  for (size_t i = 0; i < program.arguments.size(); ++i)
    tables.scalars += program.arguments[i].is_scalar ? fmt::format("_scalar(a{}, {}), ", s.arguments[i],
                                                                   static_cast<int>(program.arguments[i].dtype))
                                                     : "(\"i\", 0), ";
  for (const Dim& size : program.sizes) tables.scalars += fmt::format("(\"i\", {}), ", expression(size));
  return tables;
}

std::string PythonLaunches::seen(uint32_t buffer, const package::FactorView& view) {
  std::string text;
  for (const package::FactorDim& dim : view)
    text += fmt::format("({}, {}, {}), ", int{dim.dim}, expression(dim.scale), expression(dim.size));
  return text.empty() ? fmt::format("v{}", buffer) : fmt::format("_seen(v{}, ({}))", buffer, text);
}

std::string PythonLaunches::maker(const package::Prologue& made, bool transposed) {
  package::LaunchKernel as_launch;
  as_launch.arguments = made.arguments;
  as_launch.arguments.push_back(made.arguments.front());  // where the block goes: the engine's choice
  const Tables tables = tables_of(as_launch, p_.kernels[made.kernel].epilogue);
  return fmt::format("({}, [{}], [{}], {})", kernel_numbers_[made.kernel], tables.operands, tables.scalars,
                     transposed ? "True" : "False");
}

Result<void> PythonLaunches::launch(const package::LaunchKernel& s) {
  const package::Kernel& kernel = p_.kernels[s.kernel];
  package::LaunchOptions plain_options;
  plain_options.programmatic = s.options.programmatic;
  const bool own = gpu_ && package::is_user(kernel.config);
  if (!own && !(s.options == plain_options))
    return refused("grids, clusters, tensor maps and L2 windows are of kernels of the user's on GPUs");
  for (const uint32_t buffer : s.arguments) shaped(buffer);
  if (package::is_user(kernel.config)) return user_launch(s, kernel);
  const Tables tables = tables_of(s, kernel.epilogue);
  if (gpu_ && s.product) s.product->each_buffer([this](uint32_t buffer) { shaped(buffer); });
  if (gpu_) return gpu_launch(s, kernel, tables);
  std::holds_alternative<package::CpuMapConfig>(kernel.config) ? map_launch(s, kernel, tables)
                                                               : product_launch(s, kernel, tables);
  return {};
}

void PythonLaunches::map_launch(const package::LaunchKernel& s, const package::Kernel& kernel, const Tables& tables) {
  const package::CpuMapConfig& map = *std::get_if<package::CpuMapConfig>(&kernel.config);
  line(fmt::format("_launch_map(engine, {}, ({}, {}, {}),  # {}", kernel_numbers_[s.kernel], static_cast<int>(map.isa),
                   map.tile_rows, map.tile_cols, py_comment(kernel.name)));
  indent_ += 2;
  line(fmt::format("[{}], [{}], ({}, {}, {}),", tables.phases, tables.reductions, expression(s.batch), expression(s.m),
                   expression(s.n)));
  line(fmt::format("[{}], [{}])", tables.operands, tables.scalars));
  indent_ -= 2;
}

void PythonLaunches::product_launch(const package::LaunchKernel& s, const package::Kernel& kernel,
                                    const Tables& tables) {
  const package::Product& product = *s.product;
  const package::CpuGemmConfig& c = package::cpu(kernel.config);
  const package::EpilogueProgram& program = kernel.epilogue;
  product.each_buffer([this](uint32_t buffer) { shaped(buffer); });
  const std::string sizes =
      fmt::format("({}, {}, {}, {})", expression(s.batch), expression(s.m), expression(s.n), expression(product.k));
  line(fmt::format("batch, m, n, k = {}", sizes));
  line(fmt::format("_launch(engine, {}, ({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}),  # {}",
                   kernel_numbers_[s.kernel], static_cast<int>(c.family), static_cast<int>(c.isa),
                   static_cast<int>(c.a_dtype), static_cast<int>(c.b_dtype), static_cast<int>(c.accumulator),
                   c.pack_a ? "True" : "False", c.mr, c.nr, c.tile_rows, c.tile_cols, c.kc, c.mc, c.nc, c.k_split,
                   py_comment(kernel.name)));
  indent_ += 2;
  line(fmt::format("{}, [{}], [{}], {}, {},", program.split.ways, tables.phases, tables.reductions,
                   c.family == package::CpuFamily::Fused ? "True" : "False", kernel.source.empty() ? "True" : "False"));
  const auto b_of = [&](size_t p) {
    const uint32_t b = product.factor_b(p);
    return fmt::format("_factor({}, {}, batch, k, n{}, {})", seen(b, product.b_view),
                       product.b_transposed ? "True" : "False",
                       product.products() > 1 ? fmt::format(" // {}", product.products()) : "", name(b));
  };
  line(fmt::format("_factor({}, {}, batch, m, k, {}), {},", seen(product.a, product.a_view),
                   product.a_transposed ? "True" : "False", name(product.a),
                   product.b_made.empty() ? b_of(0) : "None"));
  std::string more;
  for (size_t p = 1; p < product.products() && product.b_made.empty(); ++p) more += b_of(p) + ", ";
  for (const package::Prologue& made : product.b_made) more += maker(made, product.b_transposed) + ", ";
  const bool folds = !(s.batch == Dim::constant(1)) && package::rows_fold(program);
  if (!more.empty()) more = fmt::format(", {}=[{}]", product.b_made.empty() ? "more_b" : "made", more);
  line(fmt::format("(batch, m, n, k), {}, [{}], [{}]{})", expression(program.split.chunk), tables.operands,
                   tables.scalars, more + (folds ? ", folds=True" : "")));
  indent_ -= 2;
}

Result<void> PythonLaunches::user_launch(const package::LaunchKernel& s, const package::Kernel& kernel) {
  if (gpu_) {
    if (const std::string lacks = lacking_in_user(p_, s, kernel); !lacks.empty()) return refused(lacks.c_str());
    const auto number = [this](const Dim& dim) { return expression(dim); };
    const std::vector<std::string> lines = user_launch_lines(p_, s, kernel_numbers_[s.kernel], number);
    const int outside = indent_;
    for (size_t i = 0; i < lines.size(); ++i) {
      indent_ += i == 1 || i == 3 ? 1 : 0;
      line(lines[i]);
    }
    indent_ = outside;
    return {};
  }
  std::string inputs, outputs;
  for (size_t i = 0; i < s.arguments.size(); ++i) {
    const uint32_t b = s.arguments[i];
    const int dtype = static_cast<int>(p_.buffers[b].dtype);
    const std::string array =
        p_.buffers[b].is_scalar ? fmt::format("_scalar_array(a{}, {})", b, dtype) : fmt::format("v{}", b);
    (kernel.epilogue.arguments[i].is_output ? outputs : inputs) += fmt::format("({}, {}), ", array, dtype);
  }
  line(fmt::format("_launch_user(engine, {}, {}, [{}], [{}])", kernel_numbers_[s.kernel], py_quoted(kernel.name),
                   inputs, outputs));
  return {};
}

Result<void> PythonLaunches::gpu_launch(const package::LaunchKernel& s, const package::Kernel& kernel,
                                        const Tables& tables) {
  const auto& product = s.product;
  const package::EpilogueProgram& program = kernel.epilogue;
  const size_t products = product ? product->products() : 1;
  if (product && !package::factors_are_inside(*product, program)) return refused(package::factors_outside);
  line(fmt::format("batch, m, n, k = ({}, {}, {}, {})", expression(s.batch), expression(s.m), expression(s.n),
                   product ? expression(product->k) : "0"));
  line(fmt::format("_launch_gpu(engine, {}, (batch, m, n, k), {},  # {}", kernel_numbers_[s.kernel],
                   expression(kernel.epilogue.split.chunk), py_comment(kernel.name)));
  indent_ += 2;
  const auto factor = [&](uint32_t buffer, bool is_a, const char* rows, const std::string& cols, size_t of = 0) {
    return fmt::format("(_factor({0}, {1}, batch, {2}, {3}, {4}), {4})",
                       seen(buffer, is_a ? product->a_view : package::view_of_b(*product, program, of)),
                       (is_a ? product->a_transposed : product->b_transposed) ? "True" : "False", rows, cols,
                       name(buffer));
  };
  const auto columns = [&](size_t of) -> std::string {
    if (program.spaces.empty()) return products > 1 ? fmt::format("n // {}", products) : "n";
    return expression(program.sizes[program.spaces[of].columns] * Dim::constant(program.split.ways));
  };
  line(fmt::format("{}, {},", product && !program.makes_a() ? factor(product->a, true, "m", "k") : "None",
                   product && !program.makes_b() ? factor(product->b, false, "k", columns(0)) : "None"));
  std::string more;
  for (size_t p = 1; p < products && !program.makes_b(); ++p)
    more += factor(product->factor_b(p), false, "k", columns(p), p) + ", ";
  std::string widths;
  for (const package::ProductSpace& space : program.spaces) widths += expression(program.sizes[space.columns]) + ", ";
  line(fmt::format("[{}], [{}]{}{})", tables.operands, tables.scalars, more.empty() ? "" : fmt::format(", [{}]", more),
                   widths.empty() ? "" : fmt::format(", [{}]", widths)));
  indent_ -= 2;
  return {};
}

Result<void> PythonLaunches::look_ahead(size_t step) {
  const package::LookAhead ahead = package::look_ahead(p_, step);
  for (const auto& [known, most] : ahead.sizes) line(fmt::format("n{} = {}", symbol(known), expression(most)));
  for (const package::LookAhead::Look& look : ahead.looks) {
    if (!look.known) continue;
    line("with _Looking():");
    ++indent_;
    for (const package::LookAhead::Place& place : look.places) {
      const Buffer& b = p_.buffers[place.buffer];
      const std::string source = place.source ? fmt::format("v{}", *place.source) : std::string();
      if (!place.begin.empty()) {
        line(fmt::format("v{} = _slice({}, {}, {}, {})", place.buffer, source, tuple(place.begin), tuple(b.shape),
                         name(place.buffer)));
        continue;
      }
      const std::string address = !place.source       ? "4096"
                                  : b.offset == Dim() ? source + ".data"
                                                      : source + ".data + " + expression(b.offset);
      line(fmt::format("v{} = _lies({}, {}, {}, {})", place.buffer, address, static_cast<int>(b.dtype), tuple(b.shape),
                       b.strides.empty() ? fmt::format("_row_major({})", tuple(b.shape)) : tuple(b.strides)));
    }
    const package::Kernel& kernel = p_.kernels[look.launch->kernel];
    CODETTA_CHECK_OK(gpu_launch(*look.launch, kernel, tables_of(*look.launch, kernel.epilogue)));
    --indent_;
  }
  for (const auto& size : ahead.sizes) line(fmt::format("n{} = None", symbol(size.first)));
  return {};
}

}  // namespace codetta::emit::host
