// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>
#include <sstream>

#include "cases.hpp"
#include "diag/diagnostic.hpp"
#include "emit/emit.hpp"
#include "emit/metal.hpp"
#include "frontend/lower.hpp"
#include "ir/bind.hpp"
#include "ir/print.hpp"
#include "opt/passes.hpp"
#include "plan/families_cuda.hpp"
#include "plan/families_hip.hpp"
#include "plan/families_metal.hpp"
#include "plan/plan.hpp"

namespace codetta::golden {
namespace {

std::vector<std::string> words(std::string_view text, char separator = ' ') {
  std::vector<std::string> result;
  std::stringstream stream{std::string(text)};
  for (std::string word; std::getline(stream, word, separator);) {
    if (!word.empty()) result.push_back(word);
  }
  return result;
}

struct Problem {
  std::map<std::string, int64_t> sizes{{"M", 64}, {"N", 48}, {"K", 32}};
  ir::GemmFacts facts;
  bool strict = false, fused = false, b_columns = false, sums_exponents = false;
  MathMode math = MathMode::Strict;
  std::string kernel;
  std::vector<ir::BoundArgument> arguments;
  std::map<std::string, std::string> form;  // "", ":strided" or ":columns"
};

Problem read(const Case& c) {
  Problem p;
  p.facts.a = p.facts.b = DType::f32;
  for (const std::string& word : words(c.problem)) {
    const size_t equal = word.find('=');
    const std::string name = word.substr(0, equal), value = equal == std::string::npos ? "" : word.substr(equal + 1);
    if (name == "A" || name == "B") {
      (name == "A" ? p.facts.a : p.facts.b) = dtype_from_name(value).value();
    } else if (name == "strict") {
      p.strict = true;
    } else if (name == "as_unfused") {
      p.facts.round_as_unfused = true;
    } else if (name == "fused") {
      p.fused = true;
    } else if (name == "b_columns") {
      p.b_columns = true;
    } else if (name == "sums_exponents") {
      p.sums_exponents = true;
    } else if (name == "math") {
      p.math = math_mode_from_name(value).value();
    } else if (name == "kernel") {
      p.kernel = value;
    } else {
      p.sizes[name] = std::stoll(value);
    }
  }
  p.facts.accumulator = ir::default_accumulator(p.facts.a, p.facts.b).value();
  p.facts.m = p.sizes.at("M");
  p.facts.n = p.sizes.at("N");
  p.facts.k = p.sizes.at("K");
  p.facts.batched = p.sizes.contains("batch");
  if (p.facts.batched) p.facts.batch = p.sizes.at("batch");
  for (const std::string& word : words(c.arguments)) {
    const size_t equal = word.find('='), bracket = word.find('['), close = word.find(']');
    ir::BoundArgument argument;
    argument.name = word.substr(0, equal);
    if (bracket == std::string::npos) {
      argument.is_scalar = true;
      argument.dtype = dtype_from_name(word.substr(word.find(':') + 1)).value();
    } else {
      argument.dtype = dtype_from_name(word.substr(equal + 1, bracket - equal - 1)).value();
      for (const std::string& size : words(word.substr(bracket + 1, close - bracket - 1), ','))
        argument.shape.push_back(p.sizes.contains(size) ? p.sizes.at(size) : std::stoll(size));
      p.form[argument.name] = word.substr(close + 1);
    }
    p.arguments.push_back(std::move(argument));
  }
  return p;
}

plan::GemmShape shape_of(const ir::GemmFacts& facts, bool b_columns, MathMode math = MathMode::Strict) {
  plan::GemmShape shape;
  shape.math = math;
  shape.batch = facts.batch;
  shape.m = facts.m;
  shape.n = facts.n;
  shape.k = facts.k;
  shape.a = facts.a;
  shape.b = facts.b;
  shape.accumulator = facts.accumulator;
  shape.a_batch_stride = facts.batched ? facts.m * facts.k : 0;
  shape.b_batch_stride = facts.batched ? facts.k * facts.n : 0;
  shape.a_row_stride = facts.k;
  shape.b_k_stride = b_columns ? 1 : facts.n;
  shape.b_col_stride = b_columns ? facts.k : 1;
  return shape;
}

// The configuration of that name among all that the families have for the problem, whatever its rank.
std::optional<package::GpuGemmConfig> find_config(const plan::GpuProblem& problem, const std::string& name,
                                                  Backend backend) {
  const bool hip = backend == Backend::hip;
  for (const plan::GpuFamilyInfo& family : hip ? plan::hip_families() : plan::cuda_families()) {
    if (hip && (!family.concerns(problem) || family.refuse(problem))) continue;
    for (const package::GpuGemmConfig& config : family.configurations(problem)) {
      const std::string known =
          hip ? plan::hip_kernel_name(config, problem.gpu.arch) : plan::cuda_kernel_name(config, problem.gpu.arch);
      if (known == name + "_" + problem.gpu.arch) return config;
    }
  }
  return std::nullopt;
}

Result<void> emit_cuda(const Problem& p, const Target& target, const package::EpilogueProgram& program,
                       const plan::GemmShape& shape, Emitted& result) {
  const plan::GpuFacts gpu =
      target.backend == Backend::hip ? plan::find_hip(target.arch)->facts : plan::gpu_facts(target.arch);
  const auto config = find_config({program, shape, gpu}, p.kernel, target.backend);
  if (!config) {
    return diag::error(diag::Code::internal, "no family has the case's kernel")
        .reason(p.kernel)
        .help("name one that `codetta explain` lists");
  }
  CODETTA_TRY(const emit::CudaSource source,
              emit::emit_cuda_kernel(program, *config, {.arch = target.arch, .strict = p.strict}));
  result.golden += "\n== entries\n";
  for (const package::GpuEntry& entry : source.entries) {
    result.golden += entry.symbol + ": " + std::to_string(entry.threads) + " threads, " +
                     std::to_string(entry.shared_bytes) + " bytes of dynamic shared memory\n";
  }
  for (const package::CudaTensorMap& map : source.maps) {
    using Source = package::CudaTensorMap::Source;
    const std::string of = map.source == Source::A   ? "A"
                           : map.source == Source::B ? "B"
                                                     : program.arguments[program.operands[map.operand].argument].name;
    result.golden += "map of " + of + ": " + std::to_string(map.box_fast) + " x " + std::to_string(map.box_slow) +
                     (map.column_major ? ", column-major" : "") + "\n";
  }
  result.golden += "\n== source\n//";
  for (const std::string& flag : source.flags) result.golden += " " + flag;
  result.golden += "\n" + source.text;
  result.sources.push_back({source.text, source.flags, true});
  return {};
}

Result<void> emit_metal(const Problem& p, const Target& target, const package::EpilogueProgram& program,
                        const plan::GemmShape& shape, Emitted& result) {
  const plan::GpuFacts gpu = plan::metal_facts(target.arch);
  for (const plan::GpuFamilyInfo& family : plan::metal_families()) {
    const plan::GpuProblem problem{program, shape, gpu};
    if (family.refuse(problem)) continue;
    for (const package::GpuGemmConfig& config : family.configurations(problem)) {
      if (plan::metal_kernel_name(config, gpu.arch) != p.kernel + "_" + gpu.arch) continue;
      CODETTA_TRY(const emit::MetalSource source,
                  emit::emit_metal_kernel(program, config, {.family = gpu.arch, .strict = p.strict}));
      result.golden += "\n== entries\n";
      for (const package::GpuEntry& entry : source.entries) {
        result.golden += entry.symbol + ": " + std::to_string(entry.threads) + " threads, " +
                         std::to_string(entry.shared_bytes) + " bytes of threadgroup memory\n";
      }
      result.golden += "\n== source\n//";
      for (const std::string& flag : source.flags) result.golden += " " + flag;
      result.golden += "\n" + source.text;
      result.sources.push_back({source.text, source.flags, true});
      return {};
    }
  }
  return diag::error(diag::Code::internal, "no family has the case's kernel")
      .reason(p.kernel)
      .help("name one that `codetta explain` lists");
}

// What is generated, behind the device parts; those are named by file only, since their text is not the emitter's.
std::string generated(const emit::EmittedSource& source) {
  std::string result, flags;
  std::set<std::string> parts;
  std::stringstream lines(source.text);
  bool mine = true;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#line")) {
      const size_t begin = line.find('"') + 1;
      const std::string file = line.substr(begin, line.rfind('"') - begin);
      mine = file == "codetta_epilogue.cpp";
      if (!mine) parts.insert(file.substr(file.rfind('/') + 1));
    } else if (mine) {
      result += line + "\n";
    }
  }
  for (const std::string& flag : source.gcc_flags) flags += " " + flag;
  std::string head = "// g++" + flags + "\n// parts of";
  for (const std::string& part : parts) head += " " + part;
  return head + "\n" + result;
}

}  // namespace

std::span<const Case> all_cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> result = elementwise_cases();
    for (const auto* more : {&type_cases(), &reduction_cases(), &cuda_cases(), &hip_cases(), &metal_cases()})
      result.insert(result.end(), more->begin(), more->end());
    return result;
  }();
  return all;
}

Result<Emitted> emit_case(const Case& c) {
  const Problem p = read(c);
  CODETTA_TRY(const Target target, Target::parse(c.target));
  CODETTA_TRY(const ir::EpilogueFunction function,
              frontend::parse_epilogue(std::make_shared<const diag::SourceText>("epilogue.py", std::string(c.text))));
  CODETTA_TRY(const ir::Graph bound, ir::bind_epilogue(function, p.arguments, p.facts));
  CODETTA_TRY(const opt::Optimized optimized, opt::optimize(bound));
  const ir::Graph& graph = optimized.graph;

  std::vector<plan::ArgumentLayout> layouts;
  const auto layout = [&](const std::string& name) {
    const auto form = p.form.find(name);
    plan::ArgumentLayout& added = layouts.emplace_back();
    added.unit_stride = form == p.form.end() || form->second.empty();
    added.column_major = !added.unit_stride && form->second == ":columns";
  };
  for (size_t i = 2; i < graph.inputs().size(); ++i) layout(graph.inputs()[i].name);
  for (const ir::GraphOutput& output : graph.outputs()) layout(output.name);
  CODETTA_TRY(plan::Plan plan,
              plan::plan_gemm(graph, shape_of(p.facts, p.b_columns, p.math), layouts, target, {.isa = target.isa}));
  if (p.sums_exponents) {  // as a program's planner asks for it; nothing but the accumulator is read
    plan::LoweringScope scope;
    scope.sums_exponents = true;
    for (const ir::GraphOutput& output : graph.outputs())
      scope.outputs.push_back({output.node, output.name, output.dtype});
    const auto is_product = [&](size_t i) { return graph.node(ir::NodeId(i)).op == types::Op::matmul; };
    size_t product = 0;
    while (!is_product(product)) ++product;
    CODETTA_TRY(plan.kernels.at(0).lowered, plan::lower_region(graph, ir::NodeId(product), scope));
  }
  const package::EpilogueProgram program = plan.kernels.at(0).lowered.program;
  // Ranking has tests of its own; here it would change with every figure of the cost model.
  plan.kernels[0].discovery.candidates.clear();
  if (target.backend != Backend::cpu) plan.kernels[0].discovery.rejections.clear();

  Emitted result;
  result.golden = "target " + std::string(c.target) + ", " + std::string(c.problem) + "\n" + std::string(c.arguments) +
                  "\n\n== text\n" + std::string(c.text) + "\n== graph as bound\n" + ir::print(bound) +
                  "\n== graph after the passes\n";
  const std::string after = ir::print(graph);
  result.golden += (after == ir::print(bound) ? "(the same)\n" : after) + "\n== plan\n" + plan::to_string(plan);
  if (target.backend == Backend::cuda || target.backend == Backend::hip) {
    CODETTA_CHECK_OK(emit_cuda(p, target, program, plan.kernels[0].shape, result));
    return result;
  }
  if (target.backend == Backend::metal) {
    CODETTA_CHECK_OK(emit_metal(p, target, program, plan.kernels[0].shape, result));
    return result;
  }
  const emit::CpuEmitOptions options{.isa = target.isa, .strict = p.strict};
  CODETTA_TRY(const emit::EmittedSource source, emit::emit_cpu_epilogue(program, options));
  result.golden += "\n== source\n" + generated(source);
  result.sources.push_back({source.text, source.gcc_flags, false});
  if (p.fused) {
    CODETTA_TRY(const emit::FusedSource fused, emit::emit_cpu_fused(program, p.facts.a, p.facts.b, options));
    result.golden += "\n== fused source\n" + generated(fused);
    result.sources.push_back({fused.text, fused.gcc_flags, false});
  }
  return result;
}

}  // namespace codetta::golden
