// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/execution.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/checked.hpp"
#include "diag/diagnostic.hpp"
#include "runtime/checks.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/cuda/stream.hpp"

namespace codetta::runtime::cuda {

using package::Buffer;

struct Execution::State {
  package::PackageRef package;
  DeviceRef device;
  std::vector<ModuleRef> modules;
  Bindings bindings;
  bool checked = true;
  Symbols symbols;
  std::vector<Launch> launches;
  std::vector<std::pair<uint32_t, int64_t>> temporaries;  // buffer, offset
  std::vector<DeviceBuffer> constants;
  std::vector<std::pair<int64_t, int64_t>> pools;  // offset and bytes
  int64_t temporary_bytes = 0;
  int64_t scratch_bytes = 0;  // of all launches: each keeps counters of its own
  DeviceBuffer own_workspace;

  [[nodiscard]] int64_t bytes() const { return temporary_bytes + scratch_bytes; }
  Result<void> prepare();
  Result<void> check_places() const;
  Result<void> bind_constants();
  struct Preparing;
  Result<void> add_pools();
  Result<void> add_temporary(const package::AllocateFromPool& step);
  Result<void> place(DeviceAddress memory);
};

namespace {

Error overflow(const std::string& what) {
  return diag::error(diag::Code::tensor_overflow, fmt::format("the size of {} overflows", what))
      .reason("the product of its sizes exceeds 2^63 bytes")
      .help("use smaller sizes");
}

Result<void> check_place(const Device& device, const std::string& name, const void* pointer) {
  CODETTA_TRY(const PointerPlace place, device.place_of(pointer));
  const int ordinal = device.facts().ordinal;
  using Kind = PointerPlace::Kind;
  if (place.kind == Kind::Managed || place.kind == Kind::Host) return {};
  if (place.kind == Kind::Device && place.device == ordinal) return {};
  return diag::error(diag::Code::pointer_place, fmt::format("{} does not lie on device {}", name, ordinal))
      .reason(place.kind == Kind::Device
                  ? fmt::format("its address {} is memory of device {}", pointer, place.device)
                  : fmt::format("its address {} is host memory that the device can not read", pointer))
      .help(fmt::format("copy it to memory of device {}, such as that of cudaMalloc, and pass that pointer", ordinal));
}

}  // namespace

Result<void> Execution::State::check_places() const {
  for (size_t i = 0; i < package->buffers.size(); ++i) {
    const Buffer& buffer = package->buffers[i];
    const TensorView& view = bindings.tensors[i];
    if (buffer.is_scalar || view.empty() || view.data() == nullptr) continue;
    if (buffer.role != Buffer::Role::Argument && buffer.role != Buffer::Role::Output) continue;
    CODETTA_CHECK_OK(check_place(*device, buffer.name, view.data()));
  }
  return {};
}

// Work of prepare() is enqueued on a stream of its own, and calls are relaxed: the default stream would become part of
// a capture that another stream is under.
Result<void> Execution::State::bind_constants() {
  const RelaxedCapture relaxed(device->driver());
  std::optional<OwnedStream> setup;
  for (size_t i = 0; i < package->buffers.size(); ++i) {
    const Buffer& buffer = package->buffers[i];
    if (buffer.role != Buffer::Role::Constant || buffer.is_scalar) continue;
    Dims shape;
    for (const types::Dim& dim : buffer.shape) shape.push_back(dim.as_constant().value_or(-1));
    if (!setup) {
      CODETTA_TRY(setup, OwnedStream::make(device));
    }
    CODETTA_TRY(DeviceBuffer memory, DeviceBuffer::make(device, buffer.constant.size()));
    CODETTA_CHECK_OK(device->upload(memory.address(), buffer.constant.data(), buffer.constant.size(), setup->get()));
    CODETTA_TRY(bindings.tensors[i], TensorView::make(reinterpret_cast<void*>(memory.address()), buffer.dtype, shape));
    if (static_cast<uint64_t>(bindings.tensors[i].element_count() * dtype_size(buffer.dtype)) != memory.bytes()) {
      return diag::error(diag::Code::package_damaged, "package is damaged")
          .reason(fmt::format("constant {} is {} and has {} bytes", buffer.name, bindings.tensors[i].describe(),
                              memory.bytes()))
          .help("build the package again");
    }
    constants.push_back(std::move(memory));
  }
  return setup ? device->synchronize(setup->get()) : Result<void>();
}

Result<void> Execution::State::add_pools() {
  for (const package::Pool& pool : package->pools) {
    const auto bytes = pool.bytes.evaluate(symbols);
    const auto end = bytes ? base::checked_add(temporary_bytes, *bytes) : std::nullopt;
    const auto rounded = end ? base::checked_round_up(*end, workspace_alignment) : std::nullopt;
    if (!rounded || *bytes < 0 || *rounded > INT64_MAX / 2) return overflow("a pool");
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
  int64_t bytes = dtype_size(buffer.dtype);
  for (const types::Dim& dim : buffer.shape) {
    const auto size = dim.evaluate(symbols);
    const auto product = size ? base::checked_mul(bytes, *size) : std::nullopt;
    if (!product) return overflow("temporary " + buffer.name);
    shape.push_back(*size);
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
  temporaries.emplace_back(step.buffer, begin + *offset);
  // Until place(): never read, but distinct, aligned and not null.
  auto* seems = reinterpret_cast<void*>(static_cast<uintptr_t>(begin + *offset) + 4096);
  CODETTA_TRY(bindings.tensors[step.buffer], TensorView::make(seems, buffer.dtype, shape));
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
    if (std::holds_alternative<package::NanGuard>(step.guard) ||
        std::holds_alternative<package::IndexGuard>(step.guard))
      return refused();
    if (!state.checked) return {};
    return check_guard(*state.package, step.guard, state.bindings.tensors, state.symbols);
  }
  Result<void> operator()(const package::AllocateFromPool& step) const { return state.add_temporary(step); }
  Result<void> operator()(const package::LaunchKernel& step) const {
    if (!(step.options == package::LaunchOptions{})) return refused();
    CODETTA_TRY(Launch made,
                Launch::make(*state.package, step, state.bindings, state.modules[step.kernel], state.symbols));
    const auto sum = base::checked_add(state.scratch_bytes, made.workspace_bytes);
    if (!sum || *sum > INT64_MAX / 2) return overflow("the workspace");
    state.scratch_bytes = *sum;
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
  bindings.tensors.resize(package->buffers.size());
  bindings.scalars.resize(package->buffers.size());
  if (checked) CODETTA_CHECK_OK(check_places());
  CODETTA_CHECK_OK(bind_constants());
  if (checked) CODETTA_CHECK_OK(check_outputs(*package, bindings.tensors));
  for (size_t i = 0; i < package->steps.size(); ++i)
    CODETTA_CHECK_OK(std::visit(Preparing{*this, i}, package->steps[i]));
  return {};
}

// Points temporaries and scratch into `memory`, zeroes the counters and writes every launch's parameters.
Result<void> Execution::State::place(DeviceAddress memory) {
  for (const auto& [buffer, offset] : temporaries) {
    TensorView& view = bindings.tensors[buffer];
    auto* at = reinterpret_cast<void*>(memory + static_cast<uint64_t>(offset));
    CODETTA_TRY(view, TensorView::make(at, view.dtype(), view.shape()));
  }
  DeviceAddress scratch = memory + static_cast<uint64_t>(temporary_bytes);
  const RelaxedCapture relaxed(device->driver());
  std::optional<OwnedStream> setup;
  for (Launch& launch : launches) {
    if (launch.counter_bytes() != 0) {
      if (!setup) {
        CODETTA_TRY(setup, OwnedStream::make(device));
      }
      CODETTA_CHECK_OK(device->fill(scratch, 0, static_cast<size_t>(launch.counter_bytes()), setup->get()));
    }
    CODETTA_CHECK_OK(launch.resolve(bindings, scratch));
    scratch += static_cast<uint64_t>(launch.workspace_bytes);
  }
  return setup ? device->synchronize(setup->get()) : Result<void>();
}

Execution::Execution(std::unique_ptr<State> state) : state_(std::move(state)) {}
Execution::Execution(Execution&&) noexcept = default;
Execution& Execution::operator=(Execution&&) noexcept = default;
Execution::~Execution() = default;

Result<Execution> Execution::make(package::PackageRef package, std::vector<ModuleRef> modules, Bindings bindings,
                                  bool checked, Allocator* allocator) {
  auto state = std::make_unique<State>();
  state->package = std::move(package);
  state->device = modules.at(0)->device();
  state->modules = std::move(modules);
  state->bindings = std::move(bindings);
  state->checked = checked;
  CODETTA_CHECK_OK(package::check(*state->package));
  CODETTA_CHECK_OK(state->prepare());
  CODETTA_TRY(state->own_workspace, DeviceBuffer::make(state->device, static_cast<size_t>(state->bytes()), allocator));
  CODETTA_CHECK_OK(state->place(state->own_workspace.address()));
  return Execution(std::move(state));
}

Result<void> Execution::run(StreamHandle stream) {
  const State& state = *state_;
  CODETTA_TRY(const ContextGuard guard, state.device->enter());
  for (const Launch& launch : state.launches) {
    const Status status = launch.run(stream);
    if (status == Status::Success) continue;
    return state.device->driver().failure(status, "cuLaunchKernelEx",
                                          fmt::format("{}, stream = {}", launch.name(), static_cast<void*>(stream)));
  }
  return {};
}

const DeviceRef& Execution::device() const { return state_->device; }

int64_t Execution::workspace_size() const { return state_->bytes(); }

Result<void> Execution::set_workspace(void* memory, int64_t bytes) {
  const int64_t needed = state_->bytes();
  if (memory == nullptr && needed != 0) {
    return diag::error(diag::Code::tensor_null, "the workspace is null")
        .reason(fmt::format("{} bytes are needed", needed))
        .help("pass device memory of workspace_size() bytes");
  }
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (address % workspace_alignment != 0) {
    return diag::error(diag::Code::tensor_misaligned, "the workspace is not aligned to 256 bytes")
        .reason(fmt::format("its address is {} modulo 256", address % workspace_alignment))
        .help("memory of cudaMalloc is aligned so");
  }
  if (bytes < needed) {
    return diag::error(diag::Code::workspace_small, "the workspace is too small")
        .reason(fmt::format("{} bytes are given, {} are needed", bytes, needed))
        .help("pass at least workspace_size() bytes");
  }
  if (needed != 0 && state_->checked) CODETTA_CHECK_OK(check_place(*state_->device, "the workspace", memory));
  CODETTA_CHECK_OK(state_->place(address));
  state_->own_workspace = DeviceBuffer();
  return {};
}

}  // namespace codetta::runtime::cuda
