// SPDX-License-Identifier: Apache-2.0
#include "differential/program_case.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include <fmt/format.h>

#include "codetta/fill.hpp"
#include "driver/context.hpp"
#include "driver/program_state.hpp"
#include "emit/emit.hpp"
#include "emit/package.hpp"
#include "opt/passes.hpp"
#include "oracle/oracle.hpp"
#include "plan/plan.hpp"
#include "runtime/cpu/module.hpp"
#include "types/convert.hpp"

namespace codetta::test {
namespace {

constexpr int64_t ProgramCounts::*fields[] = {
    &ProgramCounts::programs, &ProgramCounts::kernels,    &ProgramCounts::maps,   &ProgramCounts::runs,
    &ProgramCounts::elements, &ProgramCounts::mistrusted, &ProgramCounts::failed, &ProgramCounts::unfinished};

RandomProgramOptions options_of(std::mt19937_64& random, const std::string& name) {
  RandomProgramOptions options = drawn_options(random());
  options.operations = 3 + static_cast<int>(random() % 10);
  options.puts = false;  // libraries add no narrow floats at indices
  options.name = name;
  return options;
}

void fill(const Tensor& tensor, const RandomParameter& parameter, uint64_t seed) {
  fill_random(tensor.view(), seed);
  if (parameter.index_limit <= 0) return;
  auto* element = tensor.view().as<std::byte>();
  for (int64_t i = 0; i < tensor.view().element_count(); ++i, element += dtype_size(parameter.dtype)) {
    const int64_t value = types::load_i64(element, parameter.dtype) + 1000;
    types::store_i64(element, parameter.dtype, value % parameter.index_limit);
  }
}

std::string verdict_text(const oracle::CheckReport& report) {
  std::string text;
  for (const oracle::OutputReport& output : report.outputs) {
    text += fmt::format("{}: {} of {} wrong, {} ambiguous, worst {}; {} {}\n", output.name, output.wrong,
                        output.elements, output.ambiguous, output.worst_text, output.note, output.mistrust);
  }
  return text;
}

}  // namespace

void ProgramCounts::add(const ProgramCounts& other) {
  for (const auto field : fields) this->*field += other.*field;
  for (const auto& [reason, count] : other.refused) refused[reason] += count;
}

std::string ProgramCounts::encode() const {
  std::string text;
  for (const auto field : fields) text += fmt::format("{}\n", this->*field);
  for (const auto& [reason, count] : refused) text += fmt::format("{} {}\n", count, reason);
  return text;
}

ProgramCounts ProgramCounts::decode(const std::string& text) {
  ProgramCounts counts;
  std::istringstream in(text);
  for (const auto field : fields) in >> counts.*field;
  int64_t count = 0;
  std::string reason;
  while (in >> count && in.get() == ' ' && std::getline(in, reason)) counts.refused[reason] += count;
  return counts;
}

int64_t ProgramCounts::refusals() const {
  int64_t sum = 0;
  for (const auto& [reason, count] : refused) sum += count;
  return sum;
}

std::string ProgramCounts::summary(double seconds) const {
  return fmt::format(
      "{} programs, {} kernels ({} without a product), {} runs, each in process, as a library, as a Python module and "
      "by the oracle: {} elements, {} runs mistrusted, {} MISMATCHES, {} UNFINISHED; {} refused; {:.0f} s\n",
      programs, kernels, maps, runs, elements, mistrusted, failed, unfinished, refusals(), seconds);
}

std::vector<std::pair<std::string, int64_t>> hints_of_programs() { return {{"n", 5}, {"m", 7}}; }

std::string ProgramRunData::describe() const {
  std::string text;
  for (const auto& [name, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, size);
  return text.empty() ? "fixed sizes" : text;
}

std::vector<Tensor> ProgramRunData::poisoned_outputs() const {
  std::vector<Tensor> fresh;
  for (const Tensor& output : outputs) {
    fresh.push_back(Tensor::make(output.view().dtype(), output.view().shape()).value());
    fill_poison(fresh.back().view());
  }
  return fresh;
}

std::vector<Tensor> ProgramRunData::parameter_copies() const {
  std::vector<Tensor> copies;
  for (const Tensor& parameter : parameters) {
    copies.push_back(Tensor::make(parameter.view().dtype(), parameter.view().shape()).value());
    if (parameter.byte_size() > 0) std::memcpy(copies.back().data(), parameter.data(), parameter.byte_size());
  }
  return copies;
}

std::string ProgramCase::make(uint64_t seed, const std::string& name, const Target& target, Context& context,
                              ProgramCounts& counts) {
  name_ = name;
  target_ = target;
  random_.seed(seed);
  made_ = random_program(seed, options_of(random_, name));
  ++counts.programs;
  auto program = Program::parse(made_.text, name + ".py");
  if (!program) return "it does not parse: " + program.error().render();
  const ir::Graph& graph = Program::Access::state(*program)->graph;
  const auto optimized = opt::optimize(graph);
  if (!optimized) return "the passes fail: " + optimized.error().render();
  driver::ContextState& state = *context.shared_state();
  const auto plan = plan::plan_program(optimized->graph, target, state.machine(target), hints_of_programs());
  if (!plan) {
    const Diagnostic& why = plan.error().diagnostics().front();
    const bool internal = plan.error().code() >= 900;
    if (internal) return "planning fails: " + plan.error().render();
    ++counts.refused[fmt::format("E{:04} {}; {}", why.code, why.headline, why.reason)];
    return {};
  }
  auto package = emit::emit_package(*plan, {.name = name, .build_id = "differential"});
  if (!package) return "it has no package: " + package.error().render();
  package_ = *std::move(package);
  for (const package::Kernel& kernel : package_.kernels) {
    ++counts.kernels;
    counts.maps += package::is_map(kernel.config) ? 1 : 0;
  }
  program_ = *std::move(program);
  return {};
}

std::vector<toolchain::CompileJob> ProgramCase::jobs(const toolchain::HostCompiler& compiler) const {
  std::vector<toolchain::CompileJob> jobs;
  for (const package::Kernel& kernel : package_.kernels) {
    if (kernel.source.empty()) continue;
    const bool clang = compiler.kind == toolchain::CompilerKind::Clang;
    jobs.push_back({kernel.source, clang ? kernel.clang_flags : kernel.gcc_flags, kernel.name});
  }
  return jobs;
}

namespace {

// Takes the kernel's function from the module. Empty: fine.
std::string take_function(const package::Kernel& kernel, std::shared_ptr<const runtime::cpu::Module> module,
                          runtime::KernelEntry& entry) {
  entry.module = std::move(module);
  void* symbol = entry.module->symbol(kernel.symbol);
  if (symbol == nullptr) return "a kernel lacks " + kernel.symbol;
  const auto* product = std::get_if<package::CpuGemmConfig>(&kernel.config);
  if (product != nullptr && product->family == package::CpuFamily::Fused) {
    entry.fused = reinterpret_cast<cpu::FusedFunction>(symbol);
  } else {
    entry.function = reinterpret_cast<cpu::EpilogueFunction>(symbol);
  }
  return {};
}

}  // namespace

std::string ProgramCase::load(std::span<const Result<toolchain::CompileOutput>> outputs) {
  size_t at = 0;
  for (package::Kernel& kernel : package_.kernels) {
    runtime::KernelEntry& entry = entries_.emplace_back();
    if (kernel.source.empty()) continue;
    const auto& output = outputs[at++];
    if (!output) return "a kernel does not compile: " + output.error().render();
    kernel.binary = output->object;
    auto module = runtime::cpu::Module::load(kernel.binary, std::string(emit::entry_digest_symbol),
                                             std::string(emit::entry_digest_placeholder));
    if (!module) return "a kernel does not load: " + module.error().render();
    if (std::string failure = take_function(kernel, *std::move(module), entry); !failure.empty()) return failure;
  }
  return {};
}

std::string ProgramCase::load(const SharedKernels& kernels) {
  for (package::Kernel& kernel : package_.kernels) {
    runtime::KernelEntry& entry = entries_.emplace_back();
    kernel_paths_.emplace_back();
    if (kernel.source.empty()) continue;
    const SharedKernel* shared = kernels.find(kernel.source, kernel.gcc_flags);
    if (shared == nullptr) return "a library has another text than a run in process for " + kernel.name;
    kernel.symbol = shared->function;
    kernel_paths_.back() = shared->path;
    if (std::string failure = take_function(kernel, shared->module, entry); !failure.empty()) return failure;
  }
  return {};
}

std::optional<ProgramRunData> ProgramCase::draw(bool other_sizes) {
  ProgramRunData data;
  data.sizes = made_.sizes;
  if (other_sizes) {
    // Limits of indices hold for the first choice of sizes only.
    const bool indexed =
        std::any_of(made_.parameters.begin(), made_.parameters.end(),
                    [](const RandomParameter& parameter) { return parameter.index_limit > 0 && !parameter.weights; });
    if (made_.sizes.empty() || indexed) return std::nullopt;
    static constexpr int64_t sizes[] = {1, 2, 3, 8, 12, 0};
    for (auto& [name, size] : data.sizes) size = sizes[random_() % std::size(sizes)];
  }
  const ir::Graph& graph = Program::Access::state(*program_)->graph;
  for (size_t i = 0; i < made_.parameters.size(); ++i) {
    Dims shape;
    for (const types::Dim& dim : graph.type(graph.inputs()[i].node).shape) {
      const auto size = dim.evaluate(data.sizes);
      if (!size || *size < 0) return std::nullopt;  // such as n - 2 for n = 1
      shape.push_back(*size);
    }
    data.parameters.push_back(Tensor::make(made_.parameters[i].dtype, shape).value());
    fill(data.parameters.back(), made_.parameters[i], random_());
  }
  return data;
}

std::string ProgramCase::run(Context& context, ProgramCounts& counts) {
  for (const bool other_sizes : {false, true}) {
    auto data = draw(other_sizes);
    if (!data && !other_sizes) return "its own sizes do not fit it";
    if (!data) continue;
    const std::string sizes = data->describe();
    if (std::string failure = run_with(*std::move(data), context, counts); !failure.empty())
      return "with " + sizes + ": " + failure;
  }
  return {};
}

std::vector<TensorView> ProgramRunData::filled_of(const std::vector<Tensor>& made) const {
  std::vector<TensorView> parts;
  for (size_t o = 0; o < made.size(); ++o) {
    const TensorView& whole = made[o].view();
    parts.push_back(TensorView::make(whole.data(), whole.dtype(), filled[o], whole.strides()).value());
  }
  return parts;
}

std::string ProgramCase::judged(const std::vector<Tensor>& parameters, const std::vector<TensorView>& actual) const {
  std::vector<oracle::OracleInput> inputs;
  for (const Tensor& parameter : parameters) inputs.emplace_back(parameter.view());
  oracle::OracleOptions how;
  how.isa = target_.isa;
  const auto expected = oracle::evaluate(Program::Access::state(*program_)->graph, inputs, how);
  if (!expected) return "the oracle: " + expected.error().render();
  oracle::CheckOptions compare;
  compare.max_zeros = 1;
  const auto report = oracle::check(actual, *expected, compare);
  if (!report) return "the comparison: " + report.error().render();
  return report->verdict == oracle::Verdict::Fail ? verdict_text(*report) : "";
}

std::string ProgramCase::run_with(ProgramRunData data, Context& context, ProgramCounts& counts) {
  std::vector<NamedArgument> arguments;
  for (size_t i = 0; i < data.parameters.size(); ++i)
    arguments.push_back({made_.parameters[i].name, data.parameters[i].view()});
  const auto shapes = program_->shapes(arguments);
  if (!shapes) return "its shapes: " + shapes.error().render();
  for (const ProgramShapes::Output& output : shapes->outputs)
    data.outputs.push_back(Tensor::make(output.dtype, output.shape).value());
  std::vector<Tensor> interpreted = data.poisoned_outputs();
  for (const Tensor& output : data.outputs) fill_poison(output.view());

  std::vector<oracle::OracleInput> inputs;
  for (const Tensor& parameter : data.parameters) inputs.emplace_back(parameter.view());
  oracle::OracleOptions how;
  how.isa = target_.isa;
  const auto expected = oracle::evaluate(Program::Access::state(*program_)->graph, inputs, how);
  if (!expected) return "the oracle: " + expected.error().render();

  const driver::ContextState& state = *context.shared_state();
  const auto package = std::make_shared<const package::Package>(package_);
  for (const bool compiled : {true, false}) {
    runtime::Bindings bindings;
    bindings.tensors.resize(package->buffers.size());
    bindings.scalars.resize(package->buffers.size());
    bindings.packed_b.resize(package->kernels.size());
    const std::vector<Tensor>& outputs = compiled ? data.outputs : interpreted;
    const std::vector<Tensor> given = data.parameter_copies();  // a run leaves anything in donated ones
    for (size_t i = 0; i < given.size(); ++i) bindings.tensors[i] = given[i].view();
    for (size_t i = 0; i < outputs.size(); ++i) bindings.tensors[data.parameters.size() + i] = outputs[i].view();
    auto execution =
        runtime::Execution::make(package, compiled ? entries_ : std::vector<runtime::KernelEntry>(entries_.size()),
                                 std::move(bindings), {state.pool, state.allocator});
    const char* way = compiled ? "compiled" : "interpreted";
    if (!execution) return fmt::format("{}, not prepared: {}", way, execution.error().render());
    if (const auto ran = execution->run(); !ran) return fmt::format("{}, not run: {}", way, ran.error().render());
    data.filled.clear();
    for (size_t o = 0; o < outputs.size(); ++o)
      data.filled.push_back(execution->filled(static_cast<uint32_t>(data.parameters.size() + o)));
    const std::vector<TensorView> actual = data.filled_of(outputs);
    oracle::CheckOptions compare;
    compare.max_zeros = 1;
    const auto report = oracle::check(actual, *expected, compare);
    if (!report) return "the comparison: " + report.error().render();
    if (report->verdict == oracle::Verdict::Fail)
      return fmt::format("{}, against the oracle:\n{}", way, verdict_text(*report));
    if (!compiled) continue;
    if (report->verdict == oracle::Verdict::Mistrusted) ++counts.mistrusted;
    for (const oracle::OutputReport& output : report->outputs) counts.elements += output.elements;
  }
  ++counts.runs;
  runs_.push_back(std::move(data));
  return {};
}

}  // namespace codetta::test
