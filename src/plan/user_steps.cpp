// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's: which target takes which language, and their launches.
#include <algorithm>

#include <fmt/format.h>

#include "base/result.hpp"
#include "plan/families_cuda.hpp"
#include "plan/families_hip.hpp"
#include "plan/planner.hpp"
#include "plan/user_launch.hpp"

namespace codetta::plan {

using ir::NodeId;
using types::Dim;

namespace {

// Does a size of the program have this name?
bool names_size(const ir::Graph& graph, const std::string& name) {
  for (uint32_t n = 0; n < graph.size(); ++n) {
    for (const Dim& size : graph.type(NodeId{n}).shape) {
      const auto symbols = size.symbols();
      if (std::find(symbols.begin(), symbols.end(), name) != symbols.end()) return true;
    }
  }
  return false;
}

}  // namespace

const UserSource* ProgramPlanner::source_of(const std::string& name) const {
  for (const UserSource& source : sources_) {
    if (source.name == name) return &source;
  }
  return nullptr;
}

// Why the kernel of the user's cannot run here; empty: it can.
std::string ProgramPlanner::user_refusal(const std::string& name) const {
  constexpr std::string_view languages[] = {"C++", "CUDA C++", "HIP", "Triton", "CuTe DSL"};
  const UserSource* source = source_of(name);
  if (source == nullptr) {
    std::string known;
    for (const UserSource& one : sources_) known += (known.empty() ? "" : ", ") + one.name;
    return fmt::format("no source was given for {}; there are sources for: {}", name, known.empty() ? "none" : known);
  }
  const auto language = static_cast<size_t>(source->language);
  const struct {
    Backend backend;
    UserSource::Language language;
    std::string_view text;
  } takes[] = {{Backend::cpu, UserSource::Language::Cpp, "a CPU, which takes C++"},
               {Backend::cuda, UserSource::Language::Cuda, "an NVIDIA GPU, which takes CUDA C++"},
               {Backend::hip, UserSource::Language::Hip, "an AMD GPU, which takes HIP"}};
  for (const auto& one : takes) {
    if (plan_.target.backend != one.backend) continue;
    if (source->language == one.language) return {};
    return fmt::format("the source of {} is {}, and the target is {}", name, languages[language], one.text);
  }
  return fmt::format(
      "the source of {} is {}; kernels of the user's run on CPUs, as C++, on NVIDIA GPUs, as CUDA C++, and on AMD "
      "GPUs, "
      "as HIP",
      name, languages[language]);
}

// One launch: the operands in order, then the results.
Result<void> ProgramPlanner::add_user_kernel(GraphScope& scope, const KernelRegion& region) {
  const auto& attr = scope.graph.attr_as<ir::UserKernelAttr>(*region.step);
  const std::vector<uint32_t> results = result_buffers(scope, region, attr.results.size());
  PlannedKernel kernel;
  kernel.region.kind = Region::Kind::Map;
  kernel.region.graph = scope.ref;
  kernel.region.matmul = *region.step;
  kernel.user = *source_of(attr.name);
  package::LaunchKernel launch;
  launch.kernel = static_cast<uint32_t>(plan_.kernels.size());
  launch.m = launch.n = Dim::constant(1);
  package::EpilogueProgram& program = kernel.lowered.program;
  Unit unit;
  for (const NodeId operand : scope.graph.operands(*region.step)) {
    const uint32_t buffer = read_buffer(scope, operand);
    const package::Buffer& b = plan_.buffers[buffer];
    program.arguments.push_back({b.name, b.dtype, b.is_scalar, false, b.shape});
    launch.arguments.push_back(buffer);
  }
  for (size_t r = 0; r < results.size(); ++r) {
    const uint32_t buffer = results[r] != no_buffer
                                ? results[r]
                                : add_temporary(fmt::format("{}_{}", attr.name, r), attr.results[r], scope.block);
    const package::Buffer& b = plan_.buffers[buffer];
    program.arguments.push_back({b.name, b.dtype, false, true, b.shape});
    launch.arguments.push_back(buffer);
  }
  // Programs have a phase; this one has nothing in it.
  package::Inst nothing;
  nothing.kind = package::Inst::Kind::Literal;
  nothing.type = nothing.aux = DType::f32;
  package::Phase phase;
  phase.reads_accumulator = false;
  phase.insts.push_back(nothing);
  program.phases.push_back(std::move(phase));
  if (plan_.target.backend == Backend::cpu) {
    kernel.discovery.candidates.push_back({package::CpuUserConfig{}, "user_" + attr.name, {}, 0});
  } else {
    CODETTA_CHECK_OK(add_gpu_user(kernel, launch.arguments));
    launch.options = kernel.configurations[0].options;
  }
  plan_.kernels.push_back(std::move(kernel));
  unit.steps.emplace_back(std::move(launch));
  add_unit(scope.block, std::move(unit));
  return {};
}

// Its configurations, in the order of the source, and what they rely on. Strides of what the caller binds become
// symbols; those of temporaries are known.
Result<void> ProgramPlanner::add_gpu_user(PlannedKernel& kernel, const std::vector<uint32_t>& buffers) {
  const auto stride = [&](size_t argument, int32_t dim) {
    const package::Buffer& buffer = plan_.buffers[buffers[argument]];
    if (!buffer.strides.empty()) return buffer.strides[static_cast<size_t>(dim)];
    if (buffer.role == package::Buffer::Role::Temporary || buffer.role == package::Buffer::Role::Constant) {
      Dim step = Dim::constant(1);
      for (size_t d = static_cast<size_t>(dim) + 1; d < buffer.shape.size(); ++d) step = step * buffer.shape[d];
      return step;
    }
    auto& symbol = user_strides_[{buffers[argument], dim}];
    if (symbol.empty()) {
      symbol = fmt::format("stride_{}_of_buffer_{}", dim, buffers[argument]);
      while (names_size(graph_, symbol)) symbol += "_";
    }
    return Dim::symbol(symbol);
  };
  const int arch = arch_number(plan_.target.arch);
  LaunchTarget target{plan_.target.arch, arch == 0 || arch >= 90, plan_.target.backend == Backend::hip};
  if (target.amd) target.shared_bytes = lds_limit;
  CODETTA_TRY(BoundLaunch bound, bind_launch(*kernel.user, kernel.lowered.program.arguments, target, stride));
  kernel.configurations = std::move(bound.configurations);
  for (size_t c = 0; c < kernel.configurations.size(); ++c) {
    std::string name = "user_" + kernel.user->name;
    for (const auto& [meta, value] : kernel.configurations[c].values) name += fmt::format("_{}_{}", meta, value);
    kernel.discovery.candidates.push_back(
        {package::GpuUserConfig{static_cast<int32_t>(c), bound.narrow}, std::move(name), {}, 0});
  }
  for (const BoundLaunch::Assumed& one : bound.assumed) {
    const uint32_t b = buffers[one.argument];
    const package::Buffer& buffer = plan_.buffers[b];
    if (buffer.role != package::Buffer::Role::Argument && buffer.role != package::Buffer::Role::Output) continue;
    package::Step check = package::Check{package::StrideGuard{b, one.dim, one.stride}};
    if (std::find(user_checks_.begin(), user_checks_.end(), check) == user_checks_.end())
      user_checks_.push_back(std::move(check));
  }
  return {};
}

// Behind the guards: strides that kernels take are defined, and those that they rely on are checked.
void ProgramPlanner::add_user_strides() {
  for (const auto& [where, symbol] : user_strides_) {
    plan_.steps.emplace_back(
        package::DefineSymbol{symbol, where.first, where.second, package::DefineSymbol::From::Stride});
  }
  for (package::Step& check : user_checks_) plan_.steps.push_back(std::move(check));
}

}  // namespace codetta::plan
