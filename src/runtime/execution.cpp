// SPDX-License-Identifier: Apache-2.0
// Execution: steps resolved to engine calls once, then run.
#include "runtime/execution.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "diag/diagnostic.hpp"
#include "runtime/checks.hpp"
#include "runtime/cpu/module.hpp"
#include "runtime/launch.hpp"

namespace codetta::runtime {

using package::Buffer;
using package::Package;

struct Execution::State {
  package::PackageRef package;
  std::vector<KernelEntry> kernels;
  Bindings bindings;
  ExecutionOptions options;
  Symbols symbols;
  std::vector<Launch> launches;
  std::vector<std::optional<int64_t>> temporary_offset;  // by buffer
  std::vector<std::pair<int64_t, int64_t>> pools;        // offset and bytes
  int64_t temporary_bytes = 0;
  int64_t engine_bytes = 0;
  Tensor own_workspace;
  std::byte* workspace = nullptr;

  struct Preparing;
  [[nodiscard]] int64_t bytes() const { return temporary_bytes + engine_bytes; }
  Result<void> prepare();
  Result<void> bind_constants();
  Result<void> add_pools();
  Result<void> add_temporary(const package::AllocateFromPool& step);
  void place(std::byte* memory);
};

namespace {

// Temporaries seem to lie here until place(): never read, but distinct, aligned and not null.
std::byte* unplaced(int64_t offset) { return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(offset) + 4096); }

Error overflow(const std::string& what) {
  return diag::error(diag::Code::tensor_overflow, fmt::format("the size of {} overflows", what))
      .reason("the product of its sizes exceeds 2^63 bytes")
      .help("use smaller sizes");
}

}  // namespace

Result<void> Execution::State::add_pools() {
  for (const package::Pool& pool : package->pools) {
    const auto bytes = pool.bytes.evaluate(symbols);
    const auto end = bytes ? base::checked_add(temporary_bytes, *bytes) : std::nullopt;
    const auto rounded = end ? base::checked_round_up(*end, 64) : std::nullopt;
    if (!rounded || *bytes < 0 || *rounded > INT64_MAX - 8192) return overflow("a pool");
    pools.emplace_back(temporary_bytes, *bytes);
    temporary_bytes = *rounded;
  }
  return {};
}

Result<void> Execution::State::add_temporary(const package::AllocateFromPool& step) {
  if (pools.empty()) CODETTA_CHECK_OK(add_pools());
  const Buffer& buffer = package->buffers[step.buffer];
  const auto offset = step.offset.evaluate(symbols);
  Dims shape;
  for (const types::Dim& dim : buffer.shape) {
    const auto size = dim.evaluate(symbols);
    if (!size) return overflow("temporary " + buffer.name);
    shape.push_back(*size);
  }
  int64_t bytes = dtype_size(buffer.dtype);
  for (int i = 0; i < shape.rank(); ++i) {
    const auto product = base::checked_mul(bytes, shape[i]);
    if (!product) return overflow("temporary " + buffer.name);
    bytes = *product;
  }
  const auto end = offset ? base::checked_add(*offset, bytes) : std::nullopt;
  if (!end || *offset < 0) return overflow("temporary " + buffer.name);
  const auto [begin, size] = pools[step.pool];
  if (*end > size) {
    return diag::error(diag::Code::package_damaged, "package is damaged")
        .reason(
            fmt::format("temporary {} ends at byte {} of pool {}, which has {}", buffer.name, *end, step.pool, size))
        .help("build the package again");
  }
  temporary_offset[step.buffer] = begin + *offset;
  CODETTA_TRY(bindings.tensors[step.buffer],
              TensorView::make(static_cast<void*>(unplaced(begin + *offset)), buffer.dtype, shape));
  return {};
}

Result<void> Execution::State::bind_constants() {
  for (size_t i = 0; i < package->buffers.size(); ++i) {
    const Buffer& buffer = package->buffers[i];
    if (buffer.role != Buffer::Role::Constant || buffer.is_scalar) continue;
    Dims shape;
    for (const types::Dim& dim : buffer.shape) shape.push_back(dim.as_constant().value_or(-1));
    CODETTA_TRY(const TensorView view,
                TensorView::make(static_cast<const void*>(buffer.constant.data()), buffer.dtype, shape));
    if (static_cast<uint64_t>(view.element_count() * dtype_size(buffer.dtype)) != buffer.constant.size()) {
      return diag::error(diag::Code::package_damaged, "package is damaged")
          .reason(
              fmt::format("constant {} is {} and has {} bytes", buffer.name, view.describe(), buffer.constant.size()))
          .help("build the package again");
    }
    bindings.tensors[i] = view;
  }
  return {};
}

// What each step means before the first run.
struct Execution::State::Preparing {
  State& state;
  size_t position;

  Result<void> operator()(const package::DefineSymbol& step) const {
    using From = package::DefineSymbol::From;
    if (step.from != From::Size || !(step.divisor == types::Dim::constant(1))) return refused();
    return define_symbol(*state.package, step, state.bindings.tensors[step.buffer], state.symbols);
  }
  Result<void> operator()(const package::Check& step) const {
    if (std::holds_alternative<package::NanGuard>(step.guard) || std::holds_alternative<package::IndexGuard>(step.guard))
      return refused();
    if (!state.options.checked) return {};
    return check_guard(*state.package, step.guard, state.bindings.tensors, state.symbols);
  }
  Result<void> operator()(const package::AllocateFromPool& step) const { return state.add_temporary(step); }
  Result<void> operator()(const package::LaunchKernel& step) const {
    if (!(step.options == package::LaunchOptions{})) return refused();
    CODETTA_TRY(Launch made, Launch::make(*state.package, step, state.bindings, state.kernels[step.kernel],
                                          state.symbols, state.options.pool->size()));
    state.engine_bytes = std::max(state.engine_bytes, static_cast<int64_t>(made.workspace_bytes));
    state.launches.push_back(std::move(made));
    return {};
  }
  // Offsets were planned, constants are bound before, kernels loaded; the others are for readers.
  Result<void> operator()(const package::Free&) const { return {}; }
  Result<void> operator()(const package::LoadConstant&) const { return {}; }
  Result<void> operator()(const package::DefineKernel&) const { return {}; }
  Result<void> operator()(const package::Comment&) const { return {}; }
  Result<void> operator()(const package::Return&) const { return {}; }
  Result<void> operator()(const package::EnterSubgraph&) const { return {}; }
  Result<void> operator()(const package::ExitSubgraph&) const { return {}; }

  Result<void> operator()(const package::Allocate&) const { return refused(); }
  Result<void> operator()(const package::Reuse&) const { return refused(); }
  Result<void> operator()(const package::Reinterpret&) const { return refused(); }
  Result<void> operator()(const package::Copy&) const { return refused(); }
  Result<void> operator()(const package::Fill&) const { return refused(); }
  Result<void> operator()(const package::CallExtern&) const { return refused(); }
  Result<void> operator()(const package::SelectOutput&) const { return refused(); }
  Result<void> operator()(const package::IndexPut&) const { return refused(); }
  Result<void> operator()(const package::Scatter&) const { return refused(); }
  Result<void> operator()(const package::EnterDevice&) const { return refused(); }
  Result<void> operator()(const package::ExitDevice&) const { return refused(); }
  Result<void> operator()(const package::EnterStream&) const { return refused(); }
  Result<void> operator()(const package::ExitStream&) const { return refused(); }
  Result<void> operator()(const package::RecordEvent&) const { return refused(); }
  Result<void> operator()(const package::WaitEvent&) const { return refused(); }
  Result<void> operator()(const package::If&) const { return refused(); }
  Result<void> operator()(const package::While&) const { return refused(); }

  Result<void> refused() const {
    return diag::error(diag::Code::step_unsupported,
                       fmt::format("step {} ({}) can not run on {}", position, name_of(state.package->steps[position]),
                                   state.package->target.to_string()))
        .reason("the executor of this backend does not have it")
        .help("docs/features.md lists what runs where");
  }
};

Result<void> Execution::State::prepare() {
  temporary_offset.resize(package->buffers.size());
  bindings.tensors.resize(package->buffers.size());
  bindings.scalars.resize(package->buffers.size());
  kernels.resize(package->kernels.size());
  CODETTA_CHECK_OK(bind_constants());
  if (options.checked) CODETTA_CHECK_OK(check_outputs(*package, bindings.tensors));
  for (size_t i = 0; i < package->steps.size(); ++i) {
    const package::Step& step = package->steps[i];
    CODETTA_CHECK_OK(std::visit(Preparing{*this, i}, step));
  }
  return {};
}

// Points temporaries into `memory` and lets every launch recompute the addresses that depend on them.
void Execution::State::place(std::byte* memory) {
  workspace = memory;
  for (size_t i = 0; i < temporary_offset.size(); ++i) {
    if (!temporary_offset[i]) continue;
    TensorView& view = bindings.tensors[i];
    auto moved = TensorView::make(static_cast<void*>(memory + *temporary_offset[i]), view.dtype(), view.shape());
    if (moved) view = *moved;
  }
  for (Launch& launch : launches) launch.resolve(bindings);
}

Execution::Execution(std::unique_ptr<State> state) : state_(std::move(state)) {}
Execution::Execution(Execution&&) noexcept = default;
Execution& Execution::operator=(Execution&&) noexcept = default;
Execution::~Execution() = default;

Result<Execution> Execution::make(package::PackageRef package, std::vector<KernelEntry> kernels, Bindings bindings,
                                  const ExecutionOptions& options) {
  auto state = std::make_unique<State>();
  state->package = std::move(package);
  state->kernels = std::move(kernels);
  state->bindings = std::move(bindings);
  state->options = options;
  CODETTA_CHECK_OK(package::check(*state->package));
  CODETTA_CHECK_OK(state->prepare());
  if (state->bytes() != 0) {
    CODETTA_TRY(state->own_workspace, Tensor::make(DType::u8, {state->bytes()}, *options.allocator));
  }
  state->kernels.clear();  // launches hold what they need of it
  state->place(static_cast<std::byte*>(state->own_workspace.data()));
  return Execution(std::move(state));
}

void Execution::run() { run(*state_->options.pool); }

void Execution::run(ThreadPool& pool) {
  State& state = *state_;
  std::byte* scratch = state.workspace == nullptr ? nullptr : state.workspace + state.temporary_bytes;
  for (Launch& launch : state.launches) launch.run(&pool, scratch);
}

int64_t Execution::workspace_size() const { return state_->bytes(); }

Result<void> Execution::set_workspace(void* memory, int64_t bytes) {
  if (memory == nullptr && state_->bytes() != 0) {
    return diag::error(diag::Code::tensor_null, "the workspace is null")
        .reason(fmt::format("{} bytes are needed", state_->bytes()))
        .help("pass memory of workspace_size() bytes");
  }
  if (reinterpret_cast<uintptr_t>(memory) % 64 != 0) {
    return diag::error(diag::Code::tensor_misaligned, "the workspace is not aligned to 64 bytes")
        .reason(fmt::format("its address is {} modulo 64", reinterpret_cast<uintptr_t>(memory) % 64))
        .help("allocate it with an alignment of 64");
  }
  if (bytes < state_->bytes()) {
    return diag::error(diag::Code::workspace_small, "the workspace is too small")
        .reason(fmt::format("{} bytes are given, {} are needed", bytes, state_->bytes()))
        .help("pass at least workspace_size() bytes");
  }
  state_->own_workspace = Tensor();
  state_->place(static_cast<std::byte*>(memory));
  return {};
}

bool Execution::interpreted() const {
  return std::any_of(state_->launches.begin(), state_->launches.end(),
                     [](const Launch& launch) { return launch.interpreted(); });
}

}  // namespace codetta::runtime
