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
  int64_t temporary_bytes = 0;
  int64_t scratch_bytes = 0;  // of all launches: each keeps counters of its own
  DeviceBuffer own_workspace;

  [[nodiscard]] int64_t bytes() const { return temporary_bytes + scratch_bytes; }
  Result<void> prepare();
  Result<void> check_places() const;
  Result<void> bind_constants();
  Result<void> add_temporary(const package::Allocate& step);
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

Result<void> Execution::State::add_temporary(const package::Allocate& step) {
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
  const auto rounded = end ? base::checked_round_up(*end, workspace_alignment) : std::nullopt;
  if (!rounded || *offset < 0 || *rounded > INT64_MAX / 2) return overflow("temporary " + buffer.name);
  temporaries.emplace_back(step.buffer, *offset);
  temporary_bytes = std::max(temporary_bytes, *rounded);
  // Until place(): never read, but distinct, aligned and not null.
  auto* seems = reinterpret_cast<void*>(static_cast<uintptr_t>(*offset) + 4096);
  CODETTA_TRY(bindings.tensors[step.buffer], TensorView::make(seems, buffer.dtype, shape));
  return {};
}

Result<void> Execution::State::prepare() {
  bindings.tensors.resize(package->buffers.size());
  bindings.scalars.resize(package->buffers.size());
  if (checked) CODETTA_CHECK_OK(check_places());
  CODETTA_CHECK_OK(bind_constants());
  if (checked) CODETTA_CHECK_OK(check_outputs(*package, bindings.tensors));
  for (const package::Step& step : package->steps) {
    if (const auto* define = std::get_if<package::DefineSymbol>(&step)) {
      CODETTA_CHECK_OK(define_symbol(*package, *define, bindings.tensors[define->buffer], symbols));
    } else if (const auto* check = std::get_if<package::Check>(&step)) {
      if (checked) CODETTA_CHECK_OK(check_guard(*package, check->guard, bindings.tensors, symbols));
    } else if (const auto* allocate = std::get_if<package::Allocate>(&step)) {
      CODETTA_CHECK_OK(add_temporary(*allocate));
    } else if (const auto* launch = std::get_if<package::LaunchKernel>(&step)) {
      CODETTA_TRY(Launch made, Launch::make(*package, *launch, bindings, modules[launch->kernel], symbols));
      const auto sum = base::checked_add(scratch_bytes, made.workspace_bytes);
      if (!sum || *sum > INT64_MAX / 2) return overflow("the workspace");
      scratch_bytes = *sum;
      launches.push_back(std::move(made));
    }
    // Free needs nothing: offsets were planned. Comment and Return are for the other consumers of steps.
  }
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
