// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's: which target takes which language, and their launches.
#include <algorithm>

#include <fmt/format.h>

#include "base/result.hpp"
#include "plan/families_cuda.hpp"
#include "plan/families_hip.hpp"
#include "plan/planner.hpp"
#include "plan/user_hook.hpp"
#include "plan/user_launch.hpp"
#include "types/dtype.hpp"

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

std::string name_of(const UserSource& source, const UserConfiguration& configuration) {
  std::string name = "user_" + source.name;
  for (const auto& [meta, value] : configuration.values) name += fmt::format("_{}_{}", meta, value);
  return name;
}

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

Result<std::map<NodeId, RegionOptions::Hook>> ProgramPlanner::hooks_of(const ir::Graph& graph) const {
  std::map<NodeId, RegionOptions::Hook> hooks;
  for (uint32_t n = 0; n < graph.size(); ++n) {
    const auto* attr = std::get_if<ir::UserKernelAttr>(&graph.attr(NodeId{n}));
    if (attr == nullptr) continue;
    const UserSource& source = *source_of(attr->name);
    const size_t operands = graph.operands(NodeId{n}).size();
    CODETTA_TRY(const std::optional<size_t> position, hooked_parameter(source, operands, attr->results));
    if (!position) continue;
    if (attr->results[*position - operands].shape.empty()) {
      return diag::error(diag::Code::kernel_launch,
                         fmt::format("a result of kernel {} cannot be handed over", attr->name))
          .at(graph.source(), graph.span(NodeId{n}))
          .reason(
              fmt::format("result {} has no dims, and a hook stores elements by their indices", *position - operands))
          .help("let the kernel write it to a tensor, or give it a dim of size 1");
    }
    hooks[NodeId{n}] = {*position - operands, source.keeps_hooked};
  }
  return hooks;
}

// Behind the operands: what the epilogue reads, then what it stores.
void ProgramPlanner::add_hook(GraphScope& scope, const KernelRegion& region, PlannedKernel& kernel,
                              package::LaunchKernel& launch) {
  package::EpilogueProgram epilogue = region.lowered.program;
  const auto shift = static_cast<uint32_t>(kernel.lowered.program.arguments.size());
  for (package::Operand& operand : epilogue.operands) operand.argument += shift;
  for (package::Phase& phase : epilogue.phases) {
    for (package::Inst& inst : phase.insts) {
      if (inst.kind == package::Inst::Kind::Scalar) inst.index += shift;
    }
  }
  const std::vector<NodeId>& leaves = region.hook->leaves;
  for (NodeId leaf : leaves) launch.arguments.push_back(read_buffer(scope, leaf));
  for (const StoredValue& store : region.stores) {
    const uint32_t buffer = stored_buffer(scope, store);
    if (store.node == region.hook->value && plan_.buffers[buffer].dtype == kernel.hook->dtype && !kernel.hook->kept)
      kernel.hook->kept = launch.arguments.size();
    launch.arguments.push_back(buffer);
  }
  std::vector<package::Argument> arguments = std::move(kernel.lowered.program.arguments);
  arguments.insert(arguments.end(), epilogue.arguments.begin(), epilogue.arguments.end());
  epilogue.arguments = std::move(arguments);
  kernel.lowered.program = std::move(epilogue);
  kernel.hook->reads = leaves.size();
  kernel.hook->stores = region.stores.size();
}

// Nothing of the program names the result. It is stored all the same, as every result that nobody reads.
void ProgramPlanner::add_unread_hook(GraphScope& scope, const ir::TensorType& type, PlannedKernel& kernel,
                                     package::LaunchKernel& launch) {
  package::EpilogueProgram& program = kernel.lowered.program;
  const std::string name = kernel.user->name + "_unused";
  program.arguments.push_back({name, type.dtype, false, true, type.shape});
  add_plain_store(program, type);
  kernel.hook->kept = launch.arguments.size();
  launch.arguments.push_back(add_temporary(name, type, scope.block));
  kernel.hook->stores = 1;
}

// One launch: the operands in order, then the results; a result that is handed over is in the epilogue's place.
Result<void> ProgramPlanner::add_user_kernel(GraphScope& scope, const KernelRegion& region, KernelAccount account) {
  const auto& attr = scope.graph.attr_as<ir::UserKernelAttr>(*region.step);
  const auto operands = scope.graph.operands(*region.step);
  PlannedKernel kernel;
  kernel.account = std::move(account);
  kernel.region.kind = Region::Kind::Map;
  kernel.region.graph = scope.ref;
  kernel.region.matmul = *region.step;
  kernel.user = *source_of(attr.name);
  package::LaunchKernel launch;
  launch.kernel = static_cast<uint32_t>(plan_.kernels.size());
  launch.m = launch.n = Dim::constant(1);
  package::EpilogueProgram& program = kernel.lowered.program;
  Unit unit;
  for (const NodeId operand : operands) {
    const uint32_t buffer = read_buffer(scope, operand);
    const package::Buffer& b = plan_.buffers[buffer];
    program.arguments.push_back({b.name, b.dtype, b.is_scalar, false, b.shape});
    launch.arguments.push_back(buffer);
  }
  CODETTA_TRY(const std::optional<size_t> position, hooked_parameter(*kernel.user, operands.size(), attr.results));
  if (position) {
    UserHook& hook = kernel.hook.emplace();
    const ir::TensorType& type = attr.results[*position - operands.size()];
    hook.position = *position;
    hook.dtype = type.dtype;
    hook.shape = type.shape;
    hook.operands = operands.size();
    if (region.hook) {
      add_hook(scope, region, kernel, launch);
    } else {
      add_unread_hook(scope, type, kernel, launch);
    }
    hook.sizes = *hooked_sizes(type.shape, program.arguments);
  }
  const std::vector<uint32_t> results =
      result_buffers(scope, *region.step, region.hook ? region.hook->others : region.stores, attr.results.size());
  for (size_t r = 0; r < results.size(); ++r) {
    if (position == operands.size() + r) continue;
    const uint32_t buffer = results[r] != no_buffer
                                ? results[r]
                                : add_temporary(fmt::format("{}_{}", attr.name, r), attr.results[r], scope.block);
    const package::Buffer& b = plan_.buffers[buffer];
    program.arguments.push_back({b.name, b.dtype, false, true, b.shape});
    launch.arguments.push_back(buffer);
  }
  if (!position) program.phases.push_back(package::idle_phase());
  if (plan_.target.backend == Backend::cpu) {
    CODETTA_TRY(kernel.configurations, bind_configurations(*kernel.user));
    for (const UserConfiguration& one : kernel.configurations)
      kernel.discovery.candidates.push_back({package::CpuUserConfig{}, name_of(*kernel.user, one), {}, 0});
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
    return Dim::symbol(taken_stride(buffers[argument], dim));
  };
  const int arch = arch_number(plan_.target.arch);
  LaunchTarget target{plan_.target.arch, arch == 0 || arch >= 90, plan_.target.backend == Backend::hip};
  if (target.amd) target.shared_bytes = lds_limit;
  // The call as the source declares it: a result that is handed over in its place, without a buffer.
  const std::vector<package::Argument>& own = kernel.lowered.program.arguments;
  std::vector<package::Argument> called;
  std::vector<size_t> of_kernel;  // by argument of the call
  for (size_t a = 0; a < own.size(); ++a) {
    const UserHook* hook = kernel.hook ? &*kernel.hook : nullptr;
    if (hook != nullptr && a >= hook->operands && a < hook->operands + hook->reads + hook->stores) continue;
    called.push_back(own[a]);
    of_kernel.push_back(a);
  }
  std::optional<size_t> handed_over;
  if (kernel.hook) {
    handed_over = kernel.hook->position;
    const auto at = static_cast<std::ptrdiff_t>(kernel.hook->position);
    called.insert(called.begin() + at, {kernel.user->name, kernel.hook->dtype, false, true, kernel.hook->shape});
    of_kernel.insert(of_kernel.begin() + at, own.size());
  }
  const auto stride_of_call = [&](size_t argument, int32_t dim) { return stride(of_kernel[argument], dim); };
  CODETTA_TRY(BoundLaunch bound, bind_launch(*kernel.user, called, target, stride_of_call, handed_over));
  kernel.configurations = std::move(bound.configurations);
  for (UserConfiguration& configuration : kernel.configurations) {
    for (package::TensorMap& map : configuration.options.maps)
      map.argument = static_cast<uint32_t>(of_kernel[map.argument]);
    auto& window = configuration.options.window;
    if (window) window->argument = static_cast<uint32_t>(of_kernel[window->argument]);
  }
  package::GpuUserConfig plain{0, bound.narrow};
  if (kernel.hook) {
    const std::vector<Dim> numbers =
        hook_numbers(kernel.lowered.program, *kernel.hook, [&](size_t argument, size_t from_last) {
          const size_t rank = own[argument].shape.size();
          return from_last < rank ? stride(argument, static_cast<int32_t>(rank - 1 - from_last)) : Dim::constant(0);
        });
    for (UserConfiguration& configuration : kernel.configurations)
      configuration.options.sizes.insert(configuration.options.sizes.end(), numbers.begin(), numbers.end());
    plain.hook = static_cast<int32_t>(kernel.hook->position);
    plain.hook_first = static_cast<int32_t>(kernel.hook->operands);
    plain.hook_arguments = static_cast<int32_t>(kernel.hook->reads + kernel.hook->stores);
    plain.hook_sizes = static_cast<int32_t>(numbers.size());
  }
  for (size_t c = 0; c < kernel.configurations.size(); ++c) {
    plain.choice = static_cast<int32_t>(c);
    kernel.discovery.candidates.push_back({plain, name_of(*kernel.user, kernel.configurations[c]), {}, 0});
  }
  for (const BoundLaunch::Assumed& one : bound.assumed) {
    const uint32_t b = buffers[of_kernel[one.argument]];
    const package::Buffer& buffer = plan_.buffers[b];
    if (buffer.role != package::Buffer::Role::Argument && buffer.role != package::Buffer::Role::Output) continue;
    add_user_check(package::StrideGuard{b, one.dim, one.stride});
  }
  check_written(kernel, buffers);
  return {};
}

void ProgramPlanner::add_user_check(package::Guard guard) {
  package::Step check = package::Check{std::move(guard)};
  if (std::find(user_checks_.begin(), user_checks_.end(), check) == user_checks_.end())
    user_checks_.push_back(std::move(check));
}

// Results that are outputs are written where these lie, as far as the kernel goes with that: what is checked of strides
// says row-major (and then an address as of a temporary), a map has rules of its own. Without either the kernel takes
// any strides. Each has a check of one of the kinds, which says that another program serves what lies otherwise
// (package::written_by_user).
void ProgramPlanner::check_written(const PlannedKernel& kernel, const std::vector<uint32_t>& buffers) {
  const std::vector<package::Argument>& own = kernel.lowered.program.arguments;
  const size_t hooked = kernel.hook ? kernel.hook->operands : 0;
  const size_t behind = kernel.hook ? hooked + kernel.hook->reads + kernel.hook->stores : 0;
  for (size_t a = 0; a < own.size(); ++a) {
    const package::Buffer& buffer = plan_.buffers[buffers[a]];
    if (!own[a].is_output || (a >= hooked && a < behind) || buffer.role != package::Buffer::Role::Output) continue;
    int64_t bytes = types::byte_size(buffer.dtype);
    bool mapped = false;
    for (const UserConfiguration& configuration : kernel.configurations) {
      for (const package::TensorMap& map : configuration.options.maps) {
        if (map.argument != a) continue;
        mapped = true;
        bytes = std::max<int64_t>(bytes, map.interleave == package::Interleave::Bytes32 ? 32 : whole_alignment);
      }
    }
    const auto last = static_cast<int32_t>(buffer.shape.size()) - 1;
    if (mapped && last >= 0) add_user_check(package::StrideGuard{buffers[a], last, Dim::constant(1)});
    for (int32_t d = 0; mapped && d < last; ++d) taken_stride(buffers[a], d);  // none is negative
    const bool strides = std::any_of(user_checks_.begin(), user_checks_.end(), [&](const package::Step& step) {
      const auto* guard = std::get_if<package::StrideGuard>(&std::get<package::Check>(step).guard);
      return guard != nullptr && guard->buffer == buffers[a];
    });
    if (mapped || !strides) add_user_check(package::AlignmentGuard{buffers[a], bytes});
  }
}

const std::string& ProgramPlanner::taken_stride(uint32_t buffer, int32_t dim) {
  std::string& symbol = user_strides_[{buffer, dim}];
  if (symbol.empty()) symbol = stride_symbol(buffer, dim);
  return symbol;
}

std::string ProgramPlanner::stride_symbol(uint32_t buffer, int32_t dim) const {
  std::string symbol = fmt::format("{}_stride_{}", plan_.buffers[buffer].name, dim);
  const auto taken = [&] {
    return names_size(graph_, symbol) || std::any_of(user_strides_.begin(), user_strides_.end(),
                                                     [&](const auto& other) { return other.second == symbol; });
  };
  while (taken()) symbol += "_";
  return symbol;
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
