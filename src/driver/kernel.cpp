// SPDX-License-Identifier: Apache-2.0
// Kernel, Execution and PackedTensor.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/default_floats.hpp"
#include "base/files.hpp"
#include "base/kept.hpp"
#include "driver/build_id.hpp"
#include "driver/kernel_state.hpp"
#include "driver/one_run.hpp"
#include "driver/package_entry.hpp"
#include "driver/same_program.hpp"
#include "emit/package.hpp"
#include "runtime/cpu/fused.hpp"

namespace codetta {
namespace driver {

Result<package::PackageRef> KernelState::package() const {
  const std::lock_guard lock(mutex_);
  if (package_) return package_;
  const std::optional<size_t> which = ranking ? std::nullopt : std::optional(candidate);
  if (which) {  // find_kernels has looked for the first one already
    if (auto kept = find_package(*found, which)) {
      package_ = std::make_shared<const package::Package>(std::move(kept->package));
      return package_;
    }
  }
  CODETTA_TRY(const Planned* planned, found->planned());
  plan::Plan plan = planned->plan;
  plan.kernels[0].chosen = candidate;
  CODETTA_TRY(
      package::Package made,
      emit::emit_package(plan, {.strict = found->problem.strict, .name = metadata.name, .build_id = build_id()}));
  KeptPackage kept{std::move(made), ranking ? *ranking : Ranking{}, candidate};
  keep_package(*found, which, kept);
  package_ = std::make_shared<const package::Package>(std::move(kept.package));
  if (found->context->debug.dump_source) found->context->log(package_->kernels[0].source);
  return package_;
}

Error nothing_held(const std::string& what, const std::string& source) {
  return diag::error(diag::Code::empty_handle, fmt::format("the {} holds nothing", what))
      .reason("it was made by its default constructor, or moved from, or lies beyond the end of a list")
      .help("take it from " + source);
}

Error none_left(const std::vector<Rejection>& rejections) {
  Diagnostic diagnostic;
  diagnostic.code = rejections.empty() ? static_cast<uint16_t>(diag::Code::ranked_out) : rejections.front().code;
  diagnostic.headline = "no kernel can do this";
  diagnostic.help = "change the types, the sizes or the target; rejections() tells all reasons";
  for (const Rejection& rejection : rejections) {
    diagnostic.reason += (diagnostic.reason.empty() ? "" : "; ") +
                         (rejection.kernel.empty() ? "" : rejection.kernel + ": ") + rejection.text;
  }
  if (rejections.empty()) {
    diagnostic.reason = "the list is empty, and nothing was rejected: it was made empty, or moved from";
    diagnostic.help = "take a list from find_kernels";
  }
  if (diagnostic.code == static_cast<uint16_t>(diag::Code::filtered_out))
    diagnostic.help = "let the filter keep one of them";
  if (diagnostic.code == static_cast<uint16_t>(diag::Code::epilogue_large))
    diagnostic.help = "compute some of the outputs by a second kernel, or simplify what is computed";
  return Error(std::move(diagnostic));
}

namespace {

Error no_kernel() { return nothing_held("kernel", "find_kernels"); }

Error nothing_to_pack(const std::string& kernel) {
  return diag::error(diag::Code::not_packable, "this kernel reads B where it lies")
      .reason(kernel + " has no packed form of B")
      .help("pack with a kernel of the packed family; metadata().family says which it is");
}

// Bindings for a package that has been found or made, after the checks.
struct Prepared {
  package::PackageRef package;
  runtime::Bindings bindings;
};
Result<Prepared> bind_kernel(const KernelState& state, const GemmArguments& arguments) {
  CODETTA_CHECK_OK(state.found->context->check_runs(state.found->target));
  CODETTA_TRY(Problem problem, gather_problem(arguments));
  CODETTA_CHECK_OK(check_same_program(*state.found, problem));
  Prepared prepared;
  CODETTA_TRY(prepared.package, state.package());
  CODETTA_TRY(prepared.bindings, make_bindings(*prepared.package, problem));
  if (arguments.packed_B != nullptr) prepared.bindings.packed_b[0] = arguments.packed_B->state().packed;
  return prepared;
}

Result<Execution> prepare_on_gpu(const std::shared_ptr<const KernelState>& state, const GemmArguments& arguments,
                                 bool capturing) {
  if (arguments.packed_B != nullptr) return nothing_to_pack(state->metadata.name);
  CODETTA_TRY(Prepared prepared, bind_kernel(*state, arguments));
  const FoundState& found = *state->found;
  double seconds = 0;
  bool unfit = false;
  auto execution = prepare_gpu(*found.context, prepared.package, found.target, std::move(prepared.bindings), seconds,
                               {.capturing = capturing, .unaligned = &unfit});
  // Where a size is 0 the kernel may have no element to compute an output with that has some: others compute it.
  if (!execution && unfit && (arguments.A.empty() || arguments.B.empty())) {
    CODETTA_TRY(const package::PackageRef others, found.when_empty());
    CODETTA_TRY(const Problem problem, gather_problem(arguments));
    CODETTA_TRY(runtime::Bindings bindings, make_bindings(*others, problem));
    auto made =
        prepare_gpu(*found.context, others, found.target, std::move(bindings), seconds, {.capturing = capturing});
    const bool switched_off = !made && made.error().code() == static_cast<uint16_t>(diag::Code::jit_disabled);
    if (!switched_off) execution = std::move(made), prepared.package = others;
  }
  if (!execution) return placed(execution.error(), *found.problem.function);
  return ExecutionState::make(*std::move(execution), state, std::move(prepared.package), seconds);
}

// Of a kernel that was to be compiled, and would be interpreted.
Error no_compiler_for(ContextState& context, const std::string& kernel) {
  if (!context.options.no_compiler) {
    if (const auto& compiler = context.compiler(); !compiler) return compiler.error();
  }
  return diag::error(diag::Code::compiler_missing, "no C++ compiler may be used")
      .reason(kernel + " is to be compiled, and the option no_compiler forbids it")
      .help("leave out the option; without it a compiler is looked for");
}

Result<runtime::cpu::GemmProblem> packing_problem(const package::Kernel& kernel, const TensorView& b) {
  if (b.rank() != 2 && b.rank() != 3) {
    return diag::error(diag::Code::gemm_size, fmt::format("B must have 2 or 3 dimensions, not {}", b.rank()))
        .reason("B is " + b.describe())
        .help("pass [K, N], or [batch, K, N]");
  }
  if (b.dtype() != package::b_dtype(kernel.config)) {
    return diag::error(diag::Code::kernel_mismatch, "B has another dtype than the kernel's")
        .reason(fmt::format("the kernel takes {}, B is {}", dtype_name(package::b_dtype(kernel.config)), b.describe()))
        .help("find a kernel for this dtype");
  }
  runtime::cpu::GemmProblem problem;
  const int rank = b.rank();
  problem.batch = rank == 3 ? b.size(0) : 1;
  problem.k = b.size(rank - 2);
  problem.n = b.size(rank - 1);
  problem.b = b.data();
  problem.b_batch = rank == 3 && b.size(0) != 1 ? b.stride(0) : 0;
  problem.b_k = b.stride(rank - 2);
  problem.b_col = b.stride(rank - 1);
  problem.split.ways = kernel.epilogue.split.ways;
  problem.split.chunk = kernel.epilogue.split.chunk.as_constant().value_or(0);
  return problem;
}

}  // namespace
}  // namespace driver

const KernelMetadata& Kernel::metadata() const {
  static const auto& none = base::kept(KernelMetadata{});
  return state_ ? state_->metadata : none;
}

Result<Execution> Kernel::prepare(const GemmArguments& arguments) const {
  const base::DefaultFloats floats;
  if (!state_) return driver::no_kernel();
  const driver::FoundState& found = *state_->found;
  if (driver::runs_on_gpu(found.target)) return driver::prepare_on_gpu(state_, arguments, false);
  if (found.target.backend != Backend::cpu) CODETTA_CHECK_OK(device_supports(found.target));
  CODETTA_TRY(driver::Prepared prepared, driver::bind_kernel(*state_, arguments));
  std::vector<runtime::KernelEntry> entries;
  double compile_seconds = 0;
  for (const package::Kernel& kernel : prepared.package->kernels) {
    CODETTA_TRY(driver::LoadedKernel loaded, found.context->load(kernel, found.target.isa));
    compile_seconds += loaded.compile_seconds;
    entries.push_back(std::move(loaded.entry));
  }
  runtime::ExecutionOptions options;
  options.pool = found.context->pool;
  options.allocator = found.context->allocator;
  auto execution =
      runtime::Execution::make(prepared.package, std::move(entries), std::move(prepared.bindings), options);
  if (!execution) return driver::placed(execution.error(), *found.problem.function);
  return driver::ExecutionState::make(*std::move(execution), state_, std::move(prepared.package), compile_seconds);
}

Result<double> Kernel::compile() const {
  const base::DefaultFloats floats;
  if (!state_) return driver::no_kernel();
  driver::ContextState& context = *state_->found->context;
  if (state_->found->target.backend == Backend::metal) CODETTA_CHECK_OK(device_supports(state_->found->target));
  CODETTA_TRY(const package::PackageRef package, state_->package());
  double seconds = 0;
  for (const package::Kernel& kernel : package->kernels) {
    if (package::is_vendor(kernel.config)) continue;
    if (state_->found->target.backend == Backend::cuda) {
      CODETTA_TRY(const double spent, context.cuda.compile(kernel));
      seconds += spent;
    } else if (state_->found->target.backend == Backend::hip) {
      CODETTA_TRY(const double spent, context.hip.compile(kernel));
      seconds += spent;
    } else {
      CODETTA_TRY(const driver::LoadedKernel loaded, context.load(kernel, state_->found->target.isa));
      if (loaded.interpreted) return driver::no_compiler_for(context, kernel.name);
      seconds += loaded.compile_seconds;
    }
  }
  return seconds;
}

Result<void> Kernel::run(const GemmArguments& arguments, Stream stream) const {
  const base::DefaultFloats floats;
  if (!state_) return driver::no_kernel();
  if (!driver::runs_on_gpu(state_->found->target)) {
    CODETTA_TRY(Execution execution, prepare(arguments));
    return execution.run(stream);
  }
  CODETTA_TRY(const driver::OneRun once, driver::OneRun::make(*state_->found->context, state_->found->target, stream));
  CODETTA_TRY(Execution execution, driver::prepare_on_gpu(state_, arguments, once.capturing));
  return once.run(execution);
}

const Kernel& KernelList::none() {
  static const auto& nothing = base::kept(Kernel());
  return nothing;
}

Result<Execution> KernelList::prepare(const GemmArguments& arguments, size_t* chosen) const {
  std::optional<Error> passed_over;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    auto execution = kernels_[i].prepare(arguments);
    const bool unfit = !execution && execution.error().code() == static_cast<uint16_t>(diag::Code::kernel_resources);
    if (!unfit) {
      if (chosen != nullptr) *chosen = i;
      return execution;
    }
    const std::string& name = kernels_[i].metadata().name;
    driver::KernelState::of(kernels_[i])
        .found->context->log_once("unfit " + name, name + " is passed over: " + execution.error().message() + "; " +
                                                       execution.error().diagnostics().front().reason);
    passed_over = std::move(execution).error();
  }
  return passed_over ? *std::move(passed_over) : driver::none_left(rejections_);
}

Result<PackedTensor> Kernel::pack(const TensorView& B) const {
  const base::DefaultFloats floats;
  if (!state_) return driver::no_kernel();
  if (state_->found->target.backend != Backend::cpu) return driver::nothing_to_pack(state_->metadata.name);
  CODETTA_TRY(const package::PackageRef package, state_->package());
  const package::Kernel& kernel = package->kernels[0];
  CODETTA_TRY(const runtime::cpu::GemmProblem problem, driver::packing_problem(kernel, B));
  const package::CpuGemmConfig layout = runtime::cpu::packing_of(package::cpu(kernel.config));
  const size_t size = runtime::cpu::packed_size(layout, problem);
  if (size == 0) return driver::nothing_to_pack(state_->metadata.name);
  const driver::FoundState& found = *state_->found;
  auto packed = std::make_shared<runtime::cpu::PackedB>();
  CODETTA_TRY(packed->bytes, Tensor::make(DType::u8, {static_cast<int64_t>(size)}, *found.context->allocator));
  runtime::cpu::pack_b(layout, problem, found.context->pool, packed->bytes.data());
  auto state = std::make_shared<driver::PackedState>();
  state->packed = std::move(packed);
  state->layout = driver::packed_layout(state->packed->bytes.data());
  return driver::PackedState::make(std::move(state));
}

namespace {
Error no_execution() { return driver::nothing_held("execution", "Kernel::prepare"); }
}  // namespace

Result<void> Execution::run(Stream stream) {
  if (!state_) return no_execution();
  if (state_->spent) {
    const Error spent = diag::error(diag::Code::donated_spent, fmt::format("donated {} is used again", state_->donated))
                            .about(state_->donated)
                            .reason("the run before was given its memory, and may have left anything there")
                            .help("write the tensor anew and call donate_again(), or declare it without donated[...]");
    return state_->placed ? state_->placed(spent) : spent;
  }
  auto* const cpu = std::get_if<runtime::Execution>(&state_->execution);
  state_->succeeded = false;
  auto ran = cpu != nullptr ? cpu->run()
                            : std::get_if<runtime::cuda::Execution>(&state_->execution)
                                  ->run(static_cast<runtime::cuda::StreamHandle>(stream.handle));
  state_->succeeded = static_cast<bool>(ran);
  // A run that is refused before it writes, for a fault of an earlier run or for an index, uses nothing up. What a
  // refused capture has recorded by then counts: the graph can be launched.
  if (!state_->donated.empty())
    state_->spent = ran || std::visit([](const auto& execution) { return execution.wrote(); }, state_->execution);
  if (ran || !state_->placed) return ran;
  return state_->placed(ran.error());
}
void Execution::donate_again() {
  if (state_) state_->spent = false;
}
Result<Dims> Execution::output_shape(std::string_view name) const {
  if (!state_) return no_execution();
  std::vector<std::string> outputs;
  for (uint32_t b = 0; b < state_->package->buffers.size(); ++b) {
    const package::Buffer& buffer = state_->package->buffers[b];
    if (buffer.role != package::Buffer::Role::Output) continue;
    outputs.push_back(buffer.name);
    if (buffer.name != name) continue;
    if (state_->succeeded)
      return std::visit([b](const auto& execution) { return execution.filled(b); }, state_->execution);
    return diag::error(diag::Code::empty_handle, fmt::format("the shape of output {} is not known", name))
        .reason("no run has succeeded since the execution was prepared, or the last one failed")
        .help("ask for it behind a run");
  }
  return diag::error(diag::Code::argument_unexpected, fmt::format("there is no output {}", name))
      .reason(fmt::format("outputs are {}", fmt::join(outputs, ", ")))
      .help("name an output");
}
int64_t Execution::workspace_size() const {
  if (!state_) return 0;
  return std::visit([](const auto& execution) { return execution.workspace_size(); }, state_->execution);
}
int64_t Execution::workspace_size(uint32_t device) const {
  const auto* cuda = driver::ExecutionState::cuda(*this);
  return cuda != nullptr ? cuda->workspace_size(device) : device == 0 ? workspace_size() : 0;
}
Result<void> Execution::set_workspace(void* memory, int64_t bytes) {
  if (!state_) return no_execution();
  return std::visit([&](auto& execution) { return execution.set_workspace(memory, bytes); }, state_->execution);
}
std::vector<std::string> Execution::kernels() const {
  std::vector<std::string> names;
  if (!state_) return names;
  for (const package::Kernel& kernel : state_->package->kernels) names.push_back(kernel.name);
  return names;
}
double Execution::compile_seconds() const { return state_ ? state_->compile_seconds : 0; }
bool Execution::interpreted() const {
  if (!state_) return false;
  const auto* cpu = std::get_if<runtime::Execution>(&state_->execution);
  return cpu != nullptr && cpu->interpreted();
}

const std::string& PackedTensor::layout() const {
  static const auto& none = base::kept(std::string());
  return state_ ? state_->layout : none;
}
int64_t PackedTensor::byte_size() const { return state_ ? static_cast<int64_t>(state_->packed->bytes.byte_size()) : 0; }

std::string PackedTensor::serialize() const {
  if (!state_) return {};
  const Tensor& bytes = state_->packed->bytes;
  return {static_cast<const char*>(bytes.data()), bytes.byte_size()};
}

namespace {
Error damaged(std::string reason) {
  return diag::error(diag::Code::packed_damaged, "packed weights are damaged")
      .reason(std::move(reason))
      .help("pack the weights again with Kernel::pack");
}
}  // namespace

Result<PackedTensor> PackedTensor::deserialize(std::string_view bytes) {
  if (bytes.size() < sizeof(runtime::cpu::PackedHeader))
    return damaged(fmt::format("{} bytes are too few for a header", bytes.size()));
  auto packed = std::make_shared<runtime::cpu::PackedB>();
  CODETTA_TRY(packed->bytes, Tensor::make(DType::u8, {static_cast<int64_t>(bytes.size())}));
  std::memcpy(packed->bytes.data(), bytes.data(), bytes.size());
  if (!runtime::cpu::packed_intact(packed->bytes.data(), bytes.size()))
    return damaged("size, header or digest do not agree");
  auto state = std::make_shared<driver::PackedState>();
  state->layout = driver::packed_layout(packed->bytes.data());
  state->packed = std::move(packed);
  return driver::PackedState::make(std::move(state));
}

}  // namespace codetta
