// SPDX-License-Identifier: Apache-2.0
#include "driver/build_constants.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/digest.hpp"
#include "codetta/io.hpp"
#include "diag/diagnostic.hpp"
#include "emit/host/signature.hpp"
#include "ir/devices.hpp"
#include "plan/units.hpp"
#include "runtime/cpu/fused.hpp"
#include "runtime/cpu/gemm.hpp"
#include "runtime/forms.hpp"
#include "runtime/io/source.hpp"
#include "runtime/operands.hpp"
#include "types/symbol_source.hpp"

namespace codetta::driver {

using package::Buffer;

namespace {

Error misfit(const std::string& name, const TensorView& value, const std::string& declared, std::string help) {
  return diag::error(diag::Code::symbol_conflict, fmt::format("the constant {} does not fit its declared shape", name))
      .reason(fmt::format("it is {}, and the program declares {}", value.describe(), declared))
      .help(std::move(help));
}

std::string declared_text(DType dtype, const types::Shape& shape) {
  return std::string(dtype_name(dtype)) + types::to_string(shape);
}

types::Dim::Lookup lookup_in(const std::map<std::string, int64_t>& fixed) {
  return [&fixed](std::string_view symbol) -> std::optional<int64_t> {
    const auto at = fixed.find(std::string(symbol));
    return at == fixed.end() ? std::nullopt : std::optional(at->second);
  };
}

// Sizes that constants fix.
struct FixedSizes {
  std::map<std::string, int64_t> values;
  std::map<std::string, std::string> places;  // "dim 0 of w"

  void add(const std::string& symbol, int64_t value, const std::string& name, size_t dim) {
    if (values.emplace(symbol, value).second) places.emplace(symbol, fmt::format("dim {} of {}", dim, name));
  }
  // "n is 16 by dim 0 of w", of each symbol of the size; all of them are known.
  [[nodiscard]] std::string told(const types::Dim& size) const {
    std::vector<std::string> texts;
    for (const std::string& symbol : size.symbols())
      texts.push_back(fmt::format("{} is {} by {}", symbol, values.at(symbol), places.at(symbol)));
    return fmt::format("{}", fmt::join(texts, ", "));
  }
};

// What constants of these names and shapes fix, where a dim of one may rest on what another one says.
FixedSizes fixed_sizes(const std::vector<std::string>& names, const std::vector<types::Shape>& shapes,
                       const std::vector<TensorView>& values) {
  FixedSizes fixed;
  for (const types::SymbolSource& source : types::symbol_sources(shapes)) {
    const TensorView& value = values[source.shape];
    if (value.rank() != static_cast<int>(shapes[source.shape].size())) continue;  // which check_value() says
    const auto fits = types::value_from(source, value.size(static_cast<int>(source.dim)), lookup_in(fixed.values));
    if (fits) fixed.add(source.symbol, *fits, names[source.shape], source.dim);
  }
  return fixed;
}

// Checks a value against a declaration; symbols that it fixes join `fixed`.
Result<void> check_value(const std::string& name, DType dtype, const types::Shape& shape, const TensorView& value,
                         FixedSizes& fixed) {
  const std::string declared = declared_text(dtype, shape);
  if (value.dtype() != dtype) return misfit(name, value, declared, "convert it, or change the declaration");
  if (value.rank() != static_cast<int>(shape.size())) return misfit(name, value, declared, "reshape it");
  const auto is_known = [&](std::string_view symbol) { return fixed.values.contains(std::string(symbol)); };
  for (int d = 0; d < value.rank(); ++d) {
    const types::Dim& dim = shape[static_cast<size_t>(d)];
    if (const auto source = types::as_source(dim, is_known)) {
      std::string why;
      const auto fits = types::value_from(*source, value.size(d), lookup_in(fixed.values), &why);
      if (!fits) return misfit(name, value, declared, fmt::format("dim {} has to be {}: {}", d, dim.to_string(), why));
      fixed.add(source->symbol, *fits, name, static_cast<size_t>(d));
    }
    const auto known = dim.evaluate(fixed.values);
    if (known && *known == value.size(d)) continue;
    if (!known) {
      return misfit(name, value, declared,
                    fmt::format("the size {} of dim {} is known at run time only; declare plain sizes for constants",
                                dim.to_string(), d));
    }
    return misfit(name, value, declared,
                  dim.is_constant()
                      ? fmt::format("dim {} has to be {}", d, *known)
                      : fmt::format("dim {} has to be {}: {}; give constants that agree", d, *known, fixed.told(dim)));
  }
  return {};
}

// What several devices read has a name of its own on each (ir/devices.hpp).
std::string name_of_value(const std::string& name) { return std::string(ir::input_of_own_name(name)); }

const TensorView* value_of(const ConstantValues& values, const std::string& name) {
  for (const auto* map : {&values.embedded, &values.external}) {
    if (const auto found = map->find(name_of_value(name)); found != map->end()) return &found->second;
  }
  return nullptr;
}

// B of a launch as the engine's packer takes it; nullopt where its sizes are not known now.
std::optional<runtime::cpu::GemmProblem> factor_to_pack(const emit::host::Program& program,
                                                        const package::LaunchKernel& launch,
                                                        const std::vector<const TensorView*>& factors) {
  const TensorView& b = *factors[0];
  std::map<std::string, int64_t> fixed;
  for (const auto& [symbol, value] : emit::host::signature_of(program).fixed) fixed.emplace(symbol, value);
  const package::EpilogueProgram& epilogue = program.package->kernels[launch.kernel].epilogue;
  const auto n = launch.n.evaluate(fixed), k = launch.product->k.evaluate(fixed),
             chunk = epilogue.split.chunk.evaluate(fixed);
  if (!n || !k || !chunk || b.rank() < 2 || b.rank() > 3 || b.empty()) return std::nullopt;
  // One matrix for all items is packed once, and is bound as one an item.
  for (const TensorView* factor : factors) {
    if (factor->rank() > 2 && factor->size(0) > 1 && factor->stride(0) == 0) return std::nullopt;
  }
  runtime::cpu::GemmProblem problem;
  problem.batch = b.rank() > 2 ? b.size(0) : 1;
  problem.m = 1;
  problem.n = *n;
  problem.k = *k;
  problem.b = b.data();
  problem.b_batch = b.rank() > 2 && b.size(0) > 1 ? b.stride(0) : 0;
  problem.b_k = b.stride(b.rank() - (launch.product->b_transposed ? 1 : 2));
  problem.b_col = b.stride(b.rank() - (launch.product->b_transposed ? 2 : 1));
  problem.split = {epilogue.split.ways, *chunk};
  problem.products = static_cast<int32_t>(factors.size());
  for (size_t i = 1; i < factors.size(); ++i) {
    const TensorView& further = *factors[i];
    if (further.shape() != b.shape()) return std::nullopt;
    problem.more_b[i - 1] = {further.data(), problem.b_batch == 0 ? 0 : further.stride(0),
                             further.stride(b.rank() - (launch.product->b_transposed ? 1 : 2)),
                             further.stride(b.rank() - (launch.product->b_transposed ? 2 : 1))};
  }
  if (epilogue.split.ways > 1 &&
      (*n % epilogue.split.ways != 0 || *chunk < 1 || *n / epilogue.split.ways % *chunk != 0))
    return std::nullopt;
  return problem;
}

// Whether a step may read elements of the buffers that it names; sizes and addresses are known without them.
bool looks_at_contents(const package::Step& step) {
  if (const auto* define = std::get_if<package::DefineSymbol>(&step))
    return define->from == package::DefineSymbol::From::Value;
  const auto* check = std::get_if<package::Check>(&step);
  return check == nullptr || std::holds_alternative<package::IndexGuard>(check->guard) ||
         std::holds_alternative<package::NanGuard>(check->guard);
}

// Whether something but packed products reads the buffer: any step of any list may. Only launches of the main list read
// packed factors.
bool read_as_it_lies(const emit::host::Program& program, uint32_t buffer) {
  const auto named = [buffer](package::Step step) {
    bool found = false;
    plan::each_buffer(step, [&](uint32_t& b) { found = found || b == buffer; });
    return found;
  };
  const package::StepList& main = program.package->steps;
  for (size_t s = 0; s < main.size(); ++s) {
    const auto* view = std::get_if<package::Reinterpret>(&main[s]);
    if (view != nullptr && view->source == buffer && emit::host::slice_step(*program.package, view->buffer) == view) {
      if (read_as_it_lies(program, view->buffer)) return true;
      continue;
    }
    if (view != nullptr && view->buffer == buffer) continue;  // which makes it
    const bool packed = std::any_of(program.packed.begin(), program.packed.end(),
                                    [&](const emit::host::PackedFactor& factor) { return factor.step == s; });
    const auto* launch = std::get_if<package::LaunchKernel>(&main[s]);
    if (!packed || launch == nullptr || !launch->product) {
      if (looks_at_contents(main[s]) && named(main[s])) return true;
    } else if (launch->product->a == buffer ||
               std::find(launch->arguments.begin(), launch->arguments.end(), buffer) != launch->arguments.end()) {
      return true;
    }
  }
  const auto& lists = program.package->step_lists;
  return std::any_of(lists.begin(), lists.end(), [&](const package::StepList& list) {
    return std::any_of(list.begin(), list.end(),
                       [&](const package::Step& step) { return looks_at_contents(step) && named(step); });
  });
}

// Parameters that have a value, by buffer.
using BoundParameters = std::vector<std::pair<uint32_t, TensorView>>;

// Those become constants of the program, whose bytes lie nowhere yet. `fixed`: sizes that they fix.
Result<BoundParameters> bind_parameters(emit::host::Program& program, const ConstantValues& values, FixedSizes& fixed) {
  const auto& buffers = program.package->buffers;
  BoundParameters bound;
  const auto given = [&](uint32_t b) {
    return buffers[b].role == Buffer::Role::Argument && !buffers[b].is_scalar ? value_of(values, buffers[b].name)
                                                                              : nullptr;
  };
  std::vector<std::string> names;
  std::vector<types::Shape> shapes;
  std::vector<TensorView> views;
  for (uint32_t b = 0; b < buffers.size(); ++b) {
    const TensorView* value = given(b);
    if (value == nullptr) continue;
    names.push_back(buffers[b].name), shapes.push_back(buffers[b].shape), views.push_back(*value);
  }
  fixed = fixed_sizes(names, shapes, views);
  for (uint32_t b = 0; b < buffers.size(); ++b) {
    const TensorView* value = given(b);
    if (value == nullptr) continue;
    CODETTA_CHECK_OK(check_value(buffers[b].name, buffers[b].dtype, buffers[b].shape, *value, fixed));
    program.constants.push_back({b, value->shape(), {}, name_of_value(buffers[b].name)});
    bound.emplace_back(b, *value);
  }
  return bound;
}

// A launch whose B are constants, which its kernel reads best in packed form.
struct PackedLaunch {
  size_t step = 0;
  std::vector<size_t> factors;  // of the bound parameters, of which these or slices are read
  runtime::cpu::GemmProblem problem;
  package::CpuGemmConfig config;
  size_t bytes = 0;
};

// What a product sees of a parameter that has a value, or of a slice of one; nullopt where that is not known now.
std::optional<TensorView> seen_value(const package::Package& package, const package::Product& product, uint32_t buffer,
                                     const TensorView& value, const package::Reinterpret* slice,
                                     const runtime::Symbols& fixed) {
  TensorView lies = value;
  if (slice != nullptr) {
    const auto form = runtime::slice_of(package, value, *slice, fixed);
    auto sliced = form ? runtime::slice_into(package, value, *form) : Result<TensorView>(form.error());
    if (!sliced) return std::nullopt;
    lies = *std::move(sliced);
  }
  runtime::FactorPlan plan;
  if (!runtime::plan_factor(package.buffers[buffer], product.b_view, lies, fixed, plan)) return std::nullopt;
  return runtime::factor_of(lies, plan);
}

std::vector<PackedLaunch> launches_to_pack(const emit::host::Program& program, const BoundParameters& bound) {
  std::vector<PackedLaunch> found;
  runtime::Symbols fixed;
  for (const auto& [symbol, value] : emit::host::signature_of(program).fixed) fixed.emplace(symbol, value);
  for (size_t s = 0; s < program.package->steps.size(); ++s) {
    const auto* launch = std::get_if<package::LaunchKernel>(&program.package->steps[s]);
    if (launch == nullptr || !launch->product || !launch->product->b_made.empty()) continue;
    if (!std::holds_alternative<package::CpuGemmConfig>(program.package->kernels[launch->kernel].config)) continue;
    PackedLaunch one{.step = s, .factors = {}, .problem = {}, .config = {}};
    std::vector<TensorView> seen;
    for (size_t p = 0; p < launch->product->products(); ++p) {
      const uint32_t b = launch->product->factor_b(p);
      const package::Reinterpret* const slice = emit::host::slice_step(*program.package, b);
      const uint32_t source = slice != nullptr ? slice->source : b;
      const auto at =
          std::find_if(bound.begin(), bound.end(), [&](const auto& other) { return other.first == source; });
      if (at == bound.end()) break;
      auto view = seen_value(*program.package, *launch->product, b, at->second, slice, fixed);
      if (!view) break;
      one.factors.push_back(static_cast<size_t>(at - bound.begin()));
      seen.push_back(*std::move(view));
    }
    if (seen.size() != launch->product->products()) continue;
    std::vector<const TensorView*> factors;
    for (const TensorView& view : seen) factors.push_back(&view);
    const auto problem = factor_to_pack(program, *launch, factors);
    if (!problem) continue;
    one.problem = *problem;
    one.config = runtime::cpu::packing_of(package::cpu(program.package->kernels[launch->kernel].config));
    if (one.config.family == package::CpuFamily::InPlace) continue;
    one.bytes = runtime::cpu::packed_size(one.config, one.problem);
    if (one.bytes != 0) found.push_back(std::move(one));
  }
  return found;
}

}  // namespace

bool is_constant(const ConstantValues& values, const std::string& name) { return value_of(values, name) != nullptr; }

Result<ConstantValues> constant_values(const BuildOptions& options) {
  ConstantValues values;
  for (const NamedArgument& constant : options.constants) {
    const TensorView* tensor = constant.value.tensor();
    if (tensor == nullptr) {
      return diag::error(diag::Code::argument_kind, fmt::format("the constant {} is a number", constant.name))
          .reason("tensors can be constants of a library")
          .help("write the number into the program's text, or pass it at run time");
    }
    if (!values.embedded.emplace(constant.name, *tensor).second) {
      return diag::error(diag::Code::argument_duplicate, fmt::format("the constant {} is given twice", constant.name))
          .about(constant.name)
          .reason("constants are bound by name")
          .help("give each name once");
    }
  }
  if (options.weights.empty()) return values;
  CODETTA_TRY(values.owned, read_safetensors(options.weights));
  for (const auto& [name, tensor] : values.owned) {
    if (values.embedded.count(name) != 0) continue;  // the single constant wins
    (options.embed_weights ? values.embedded : values.external).emplace(name, tensor.view());
  }
  return values;
}

Result<void> check_used(const ConstantValues& values, const BuildOptions& options,
                        const std::vector<emit::host::Program>& programs) {
  std::vector<std::string> parameters;
  bool any_weight = options.weights.empty();
  for (const emit::host::Program& program : programs) {
    for (const Buffer& buffer : program.package->buffers) {
      if (buffer.role == Buffer::Role::Argument && !buffer.is_scalar) parameters.push_back(buffer.name);
    }
  }
  const auto is_parameter = [&](const std::string& name) {
    return std::find(parameters.begin(), parameters.end(), name) != parameters.end();
  };
  for (const auto& [name, tensor] : values.owned) any_weight = any_weight || is_parameter(name);
  for (const NamedArgument& constant : options.constants) {
    if (is_parameter(constant.name)) continue;
    const std::string near = diag::nearest(constant.name, parameters);
    return diag::error(diag::Code::argument_unexpected, fmt::format("no program has a tensor {}", constant.name))
        .reason("it is given as a constant")
        .help(near.empty() ? "leave it out" : "did you mean " + near + "?");
  }
  if (!any_weight) {
    return diag::error(diag::Code::argument_unexpected,
                       fmt::format("no tensor of {} is a parameter of a program", options.weights))
        .reason(values.owned.empty() ? "the file holds no tensor" : "its first one is " + values.owned.front().first)
        .help("name the tensors of the file as the program names its parameters");
  }
  return {};
}

std::string EmbeddedBytes::add(std::string bytes) {
  const auto [at, fresh] = by_digest_.emplace(base::digest_of(bytes).hex(), contents_.size());
  if (fresh) {
    bytes_ += static_cast<int64_t>(bytes.size());
    contents_.push_back(std::move(bytes));
  }
  return symbol(at->second);
}

std::string EmbeddedBytes::symbol(size_t content) { return fmt::format("codetta_constant_{}", content); }

const std::string& EmbeddedBytes::content_of(std::string_view name) const {
  size_t i = 0;
  while (symbol(i) != name) ++i;
  return contents_[i];
}

void EmbeddedBytes::add_to(toolchain::LibraryJob& job) const {
  if (contents_.empty()) return;
  std::string text = "// Generated by Codetta: bytes that the library carries.\n";
  for (size_t i = 0; i < contents_.size(); ++i) {
    const std::string file = fmt::format("constant_{}.bin", i), name = symbol(i);
    job.files.push_back({file, contents_[i].empty() ? std::string(1, '\0') : contents_[i]});
    text += fmt::format(
        "__asm__(\".pushsection .rodata.codetta,\\\"a\\\"\\n.balign 64\\n.globl {0}\\n.hidden {0}\\n.type {0}, "
        "%object\\n{0}:\\n.incbin \\\"{1}\\\"\\n.size {0}, .-{0}\\n.popsection\\n\");\n",
        name, file);
  }
  job.units.push_back({std::move(text), {"-std=c++20"}, "constants"});
}

void rank_for_constants(plan::Plan& plan, const plan::MachineFacts& machine, const ConstantValues& values) {
  if (plan.target.backend != Backend::cpu) return;
  const auto names_constant = [&](uint32_t b) {
    const Buffer& buffer = plan.buffers[b];
    return buffer.role == Buffer::Role::Argument && !buffer.is_scalar && value_of(values, buffer.name) != nullptr;
  };
  const auto is_constant = [&](uint32_t b) {
    for (const package::Step& step : plan.steps) {  // of a slice what it is one of
      const auto* view = std::get_if<package::Reinterpret>(&step);
      if (view != nullptr && view->buffer == b && !plan.buffers[b].begin.empty()) return names_constant(view->source);
    }
    return names_constant(b);
  };
  for (const package::Step& step : plan.steps) {
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch == nullptr || !launch->product || !launch->product->b_made.empty()) continue;
    bool all = true;
    for (size_t p = 0; p < launch->product->products(); ++p) all = all && is_constant(launch->product->factor_b(p));
    // As many dims as what is packed has.
    const size_t dims = launch->product->b_view.empty() ? plan.buffers[launch->product->b].shape.size()
                                                        : launch->product->b_view.size();
    if (!all || dims < 2 || dims > 3) continue;
    plan::PlannedKernel& kernel = plan.kernels[launch->kernel];
    plan::GemmShape shape = kernel.shape;
    // One that stays in the first-level cache is read as well where it lies.
    if (shape.n * shape.k * dtype_size(shape.b) <= machine.l1) continue;
    shape.b_packed = true;
    std::vector<plan::Candidate> ranked =
        plan::discover(kernel.lowered.program, shape, plan.target, machine).candidates;
    for (const plan::Candidate& known : kernel.discovery.candidates) {
      const auto* config = std::get_if<package::CpuGemmConfig>(&known.config);
      if (config != nullptr && config->family == package::CpuFamily::InPlace) ranked.push_back(known);
    }
    if (ranked.empty()) continue;
    std::stable_sort(ranked.begin(), ranked.end(), [](const plan::Candidate& a, const plan::Candidate& b) {
      return a.microseconds < b.microseconds;
    });
    kernel.discovery.candidates = std::move(ranked);
    kernel.chosen = 0;
  }
}

Result<std::vector<std::pair<std::string, int64_t>>> constant_hints(const ir::Graph& graph,
                                                                    const ConstantValues& values) {
  std::vector<std::string> names;
  std::vector<types::Shape> shapes;
  std::vector<TensorView> views;
  for (const ir::GraphInput& input : graph.inputs()) {
    const TensorView* value = input.is_scalar ? nullptr : value_of(values, input.name);
    if (value == nullptr) continue;
    names.push_back(input.name), shapes.push_back(graph.type(input.node).shape), views.push_back(*value);
  }
  FixedSizes fixed = fixed_sizes(names, shapes, views);
  for (const ir::GraphInput& input : graph.inputs()) {
    if (input.is_scalar) continue;
    const TensorView* value = value_of(values, input.name);
    if (value == nullptr) continue;
    if (input.donated) {
      return diag::error(diag::Code::argument_kind, fmt::format("donated {} cannot be a constant", input.name))
          .at(graph.source(), graph.span(input.node))
          .reason("each call would write to the library's own copy")
          .help("leave it out of the constants and weights, or declare it without donated[...]");
    }
    const ir::TensorType& type = graph.type(input.node);
    CODETTA_CHECK_OK(check_value(input.name, type.dtype, type.shape, *value, fixed));
  }
  return std::vector<std::pair<std::string, int64_t>>(fixed.values.begin(), fixed.values.end());
}

Result<void> bind_constants(emit::host::Program& program, const ConstantValues& values, EmbeddedBytes& bytes,
                            ThreadPool& pool) {
  const auto& buffers = program.package->buffers;
  FixedSizes fixed;
  CODETTA_TRY(const BoundParameters bound, bind_parameters(program, values, fixed));
  std::vector<std::string> packed_symbol(bound.size());  // stands in for bytes that only packed products read
  for (const PackedLaunch& one : launches_to_pack(program, bound)) {
    bool embedded = true;
    for (const size_t b : one.factors) embedded = embedded && values.embedded.count(buffers[bound[b].first].name) != 0;
    emit::host::PackedFactor factor{one.step, {}, static_cast<int64_t>(one.bytes), one.problem.batch};
    // The packers are code of the instruction set: without it here, the library packs when it starts.
    if (embedded && cpu_supports(one.config.isa)) {
      CODETTA_TRY(const Tensor out, Tensor::make(DType::u8, {factor.bytes}));
      runtime::cpu::pack_b(one.config, one.problem, &pool, out.data());
      factor.symbol = bytes.add(std::string(static_cast<const char*>(out.data()), one.bytes));
      for (const size_t b : one.factors) packed_symbol[b] = factor.symbol;
    }
    program.packed.push_back(std::move(factor));
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    const auto& [b, value] = bound[i];
    if (values.embedded.count(name_of_value(buffers[b].name)) == 0) continue;
    const bool needed = packed_symbol[i].empty() || read_as_it_lies(program, b);
    program.constants[i].symbol = needed ? bytes.add(runtime::io::row_major_bytes(value)) : packed_symbol[i];
  }
  for (uint32_t b = 0; b < buffers.size(); ++b) {  // those of the program's own
    if (buffers[b].role != Buffer::Role::Constant || buffers[b].is_scalar) continue;
    Dims shape;
    for (const types::Dim& dim : buffers[b].shape) shape.push_back(dim.as_constant().value_or(0));
    if (buffers[b].external.empty()) {
      program.constants.push_back({b, shape, bytes.add(buffers[b].constant), {}});
      continue;
    }
    const TensorView* value = value_of(values, buffers[b].external);
    if (value == nullptr) {
      return diag::error(diag::Code::argument_missing, "the weights lack " + buffers[b].external)
          .reason("the program reads it as a constant")
          .help("pass a safetensors file that holds it: --weights");
    }
    CODETTA_CHECK_OK(check_value(buffers[b].external, buffers[b].dtype, buffers[b].shape, *value, fixed));
    const bool embedded = values.embedded.count(buffers[b].external) != 0;
    program.constants.push_back(
        {b, shape, embedded ? bytes.add(runtime::io::row_major_bytes(*value)) : std::string(), buffers[b].external});
  }
  return {};
}

Result<bool> wants_other_forms(const package::Package& more, const package::Package& before,
                               const ConstantValues& values) {
  struct Form {
    std::string names;                              // of the constants
    std::optional<package::CpuGemmConfig> packing;  // none: as they lie
    int64_t bytes = 0;
    [[nodiscard]] bool is(const Form& other) const { return names == other.names && packing == other.packing; }
  };
  const auto among = [](const std::vector<Form>& forms, const Form& one) {
    return std::any_of(forms.begin(), forms.end(), [&](const Form& other) { return other.is(one); });
  };
  const auto forms_of = [&](const package::Package& package) -> Result<std::vector<Form>> {
    emit::host::Program program{.function = {}, .package = std::make_shared<const package::Package>(package)};
    FixedSizes fixed;
    CODETTA_TRY(const BoundParameters bound, bind_parameters(program, values, fixed));
    std::vector<Form> forms;
    std::vector<bool> is_packed(bound.size());
    for (const PackedLaunch& one : launches_to_pack(program, bound)) {
      Form form{{}, one.config, static_cast<int64_t>(one.bytes)};
      for (const size_t b : one.factors) {
        form.names += package.buffers[bound[b].first].name + " ";
        is_packed[b] = true;
      }
      if (!among(forms, form)) forms.push_back(std::move(form));
      program.packed.push_back({one.step, {}, static_cast<int64_t>(one.bytes)});
    }
    for (size_t i = 0; i < bound.size(); ++i) {
      const auto& [b, value] = bound[i];
      if (!is_packed[i] || read_as_it_lies(program, b))
        forms.push_back({package.buffers[b].name, std::nullopt, value.element_count() * dtype_size(value.dtype())});
    }
    return forms;
  };
  CODETTA_TRY(const std::vector<Form> there, forms_of(before));
  CODETTA_TRY(const std::vector<Form> wanted, forms_of(more));
  int64_t all = 0, further = 0;
  for (const Form& form : there) all += form.bytes;
  for (const Form& form : wanted) further += among(there, form) ? 0 : form.bytes;
  return further > std::max<int64_t>(all / 4, int64_t{1} << 20);
}

Result<PackedFactors> packed_constants(const package::PackageRef& package, const ConstantValues& values,
                                       ThreadPool& pool) {
  PackedFactors packed(package->kernels.size());
  emit::host::Program program{.function = {}, .package = package};
  FixedSizes fixed;
  CODETTA_TRY(const BoundParameters bound, bind_parameters(program, values, fixed));
  std::vector<int> launches(package->kernels.size());
  const auto count = [&](const package::StepList& list) {
    for (const package::Step& step : list) {
      if (const auto* launch = std::get_if<package::LaunchKernel>(&step)) ++launches[launch->kernel];
    }
  };
  count(package->steps);
  for (const package::StepList& list : package->step_lists) count(list);
  for (const PackedLaunch& one : launches_to_pack(program, bound)) {
    const uint32_t kernel = std::get_if<package::LaunchKernel>(&package->steps[one.step])->kernel;
    if (launches[kernel] != 1) continue;
    auto made = std::make_shared<runtime::cpu::PackedB>();
    CODETTA_TRY(made->bytes, Tensor::make(DType::u8, {static_cast<int64_t>(one.bytes)}));
    runtime::cpu::pack_b(one.config, one.problem, &pool, made->bytes.data());
    packed[kernel] = std::move(made);
  }
  return packed;
}

}  // namespace codetta::driver
