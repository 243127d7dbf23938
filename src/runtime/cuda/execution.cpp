// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "diag/diagnostic.hpp"
#include "runtime/checks.hpp"
#include "runtime/cuda/execution_state.hpp"
#include "runtime/cuda/stream.hpp"

namespace codetta::runtime::cuda {

using package::Buffer;

namespace {

// `which`: the package's device, where it has several.
Result<void> check_place(const Device& device, const std::string& which, const std::string& name, const void* pointer) {
  CODETTA_TRY(const PointerPlace place, device.place_of(pointer));
  const int ordinal = device.facts().ordinal;
  using Kind = PointerPlace::Kind;
  if (place.kind == Kind::Managed || place.kind == Kind::Host) return {};
  if (place.kind == Kind::Device && place.device == ordinal) return {};
  return diag::error(diag::Code::pointer_place, fmt::format("{} does not lie on device {}{}", name, ordinal, which))
      .reason(place.kind == Kind::Device
                  ? fmt::format("its address {} is memory of device {}", pointer, place.device)
                  : fmt::format("its address {} is host memory that the device can not read", pointer))
      .help(fmt::format("copy it to memory of device {}, such as that of {}, and pass that pointer", ordinal,
                        device.driver().api() == Api::Hip ? "hipMalloc" : "cudaMalloc"));
}

}  // namespace

Result<void> Execution::State::check_places() const {
  for (size_t i = 0; i < package->buffers.size(); ++i) {
    const Buffer& buffer = package->buffers[i];
    const TensorView& view = bindings.tensors[i];
    if (buffer.is_scalar || view.empty() || view.data() == nullptr) continue;
    if (buffer.role != Buffer::Role::Argument && buffer.role != Buffer::Role::Output) continue;
    const std::string which =
        several() ? fmt::format(", which is device {} of the program", buffer.device) : std::string();
    CODETTA_CHECK_OK(check_place(device(buffer.device), which, buffer.name, view.data()));
  }
  return {};
}

namespace {

// Work of prepare() is enqueued on streams of its own, and calls are relaxed: the default stream would become part of a
// capture that another stream is under.
class Setup {
 public:
  explicit Setup(const std::vector<Execution::State::Place>& places)
      : places_(places), relaxed_(places.front().device->driver()), streams_(places.size()) {}
  Result<StreamHandle> on(uint32_t device) {
    std::optional<OwnedStream>& stream = streams_[device];
    if (!stream) {
      CODETTA_TRY(stream, OwnedStream::make(places_[device].device));
    }
    return stream->get();
  }
  Result<void> wait() {
    for (const std::optional<OwnedStream>& stream : streams_) {
      if (stream) CODETTA_CHECK_OK(stream->device()->synchronize(stream->get()));
    }
    return {};
  }

 private:
  const std::vector<Execution::State::Place>& places_;
  RelaxedCapture relaxed_;
  std::vector<std::optional<OwnedStream>> streams_;
};

}  // namespace

Result<void> Execution::State::bind_constants() {
  Setup setup(*places);
  for (size_t i = 0; i < package->buffers.size(); ++i) {
    const Buffer& buffer = package->buffers[i];
    if (buffer.role != Buffer::Role::Constant) continue;
    Dims shape;
    for (const types::Dim& dim : buffer.shape) shape.push_back(dim.as_constant().value_or(-1));
    std::string_view bytes = buffer.constant;
    if (!buffer.external.empty()) {
      const auto given = outside.weights ? outside.weights(buffer.external) : std::nullopt;
      if (!given) {
        return diag::error(diag::Code::weights_missing, fmt::format("constant {} is not provided", buffer.external))
            .reason(fmt::format("the program takes {}{} of that name from outside", dtype_name(buffer.dtype),
                                types::to_string(buffer.shape)))
            .help("pass the weights file that the program was built with");
      }
      CODETTA_CHECK_OK(check_view(buffer, *given, {}));
      if (!given->is_row_major()) {
        return diag::error(diag::Code::guard_failed, fmt::format("constant {} lies in pieces", buffer.external))
            .reason(fmt::format("its strides are {}", to_string(given->strides())))
            .help("pass weights that lie in one piece, row-major");
      }
      bytes = {given->as<char>(), static_cast<size_t>(given->element_count() * dtype_size(buffer.dtype))};
    }
    const DeviceRef& on = (*places)[buffer.device].device;
    CODETTA_TRY(const StreamHandle stream, setup.on(buffer.device));
    CODETTA_TRY(DeviceBuffer held, DeviceBuffer::make(on, bytes.size()));
    CODETTA_CHECK_OK(on->upload(held.address(), bytes.data(), bytes.size(), stream));
    CODETTA_TRY(bindings.tensors[i], TensorView::make(reinterpret_cast<void*>(held.address()), buffer.dtype, shape));
    if (static_cast<uint64_t>(bindings.tensors[i].element_count() * dtype_size(buffer.dtype)) != held.bytes()) {
      return diag::error(diag::Code::package_damaged, "package is damaged")
          .reason(fmt::format("constant {} is {} and has {} bytes", buffer.name, bindings.tensors[i].describe(),
                              held.bytes()))
          .help("build the package again");
    }
    constants.push_back(std::move(held));
  }
  return setup.wait();
}

// Points temporaries and scratch into the workspaces, zeroes the counters and writes every launch's parameters.
Result<void> Execution::State::place() {
  for (const auto& [list, part] : late) CODETTA_CHECK_OK(end_late(*part));  // they know where temporaries were
  for (const StaticView& view : views) {
    const Memory& on = memory[package->buffers[view.buffer].device];
    DeviceAddress at = on.placed_at + static_cast<uint64_t>(view.offset);
    if (view.base == StaticView::Base::Own) at += static_cast<uint64_t>(on.pools_end);
    if (view.base == StaticView::Base::Buffer)
      at = reinterpret_cast<DeviceAddress>(bindings.tensors[view.source].data()) + static_cast<uint64_t>(view.offset);
    TensorView& placed = bindings.tensors[view.buffer];
    CODETTA_TRY(placed, TensorView::make(reinterpret_cast<void*>(at), placed.dtype(), view.shape, view.strides));
  }
  const auto counters_of = [&](uint32_t which) {
    return memory[which].placed_at + static_cast<uint64_t>(memory[which].temporary_bytes());
  };
  const auto scratch_of = [&](const auto& launch) {
    const Memory& on = memory[launch.on_device];
    int64_t at = on.counter_bytes;
    if constexpr (requires { launch.piece_at; }) at += launch.has_piece() ? on.scratch_bytes + launch.piece_at : 0;
    return counters_of(launch.on_device) + static_cast<uint64_t>(at);
  };
  Setup setup(*places);
  for (uint32_t which = 0; which < memory.size(); ++which) {
    if (memory[which].counter_bytes == 0) continue;
    CODETTA_TRY(const StreamHandle stream, setup.on(which));
    CODETTA_CHECK_OK(
        device(which).fill(counters_of(which), 0, static_cast<size_t>(memory[which].counter_bytes), stream));
  }
  for (Launch& launch : launches) {
    const DeviceAddress counted = counters_of(launch.on_device) + static_cast<uint64_t>(launch.counters_at);
    CODETTA_CHECK_OK(launch.resolve(bindings, counted, scratch_of(launch), unaligned));
  }
  for (VendorLaunch& launch : vendor_launches) {
    CODETTA_CHECK_OK(launch.resolve(bindings, scratch_of(launch)));
  }
  for (size_t i = 0; i < step_launches.size(); ++i) {
    StepLaunch& launch = step_launches[i];
    CODETTA_CHECK_OK(
        launch.resolve(bindings, scratch_of(launch), memory[launch.on_device].fault.get(), static_cast<uint32_t>(i)));
  }
  for (const Once& fill : once) {
    const uint32_t on = package->buffers[fill.step->buffer].device;
    CODETTA_TRY(const StreamHandle stream, setup.on(on));
    CODETTA_TRY(const ContextGuard guard, device(on).enter());
    CODETTA_CHECK_OK(fill.on_elements >= 0 ? run_on_elements(fill.on_elements, stream)
                                           : this->fill(*fill.step, stream));
  }
  for (UserLaunch& launch : user_launches) CODETTA_CHECK_OK(launch.resolve(bindings));
  return setup.wait();
}

Result<void> Execution::State::settle() {
  for (uint32_t which = 0; which < memory.size(); ++which) {
    Memory& on = memory[which];
    const auto wanted = static_cast<size_t>(on.bytes());
    if (on.workspace.bytes() < wanted) {
      on.workspace = DeviceBuffer();  // both together would be a higher peak
      CODETTA_TRY(on.workspace, DeviceBuffer::make((*places)[which].device, wanted, allocator));
    }
    on.placed_at = on.workspace.address();
  }
  return place();
}

namespace {

Error not_one_graph(std::string reason, const char* help) {
  return diag::error(diag::Code::capture_active, "the program can not be one graph")
      .reason(std::move(reason))
      .help(help);
}

}  // namespace

const Execution::State::Late* Execution::State::late_in(size_t list) const {
  for (const Active& active : lists[list]) {
    const Late* part = nullptr;
    if (const auto* branch = std::get_if<package::If>(active.step)) {
      const bool known = package->buffers[branch->predicate].is_scalar;
      const bool taken = known && bindings.scalars[branch->predicate].i != 0;
      if (!known || taken) part = late_in(branch->then_list + size_t{1});
      if (part == nullptr && (!known || !taken)) part = late_in(branch->else_list + size_t{1});
    } else if (const auto* loop = std::get_if<package::While>(active.step)) {
      part = late_in(loop->condition + size_t{1});
      if (part == nullptr) part = late_in(loop->body + size_t{1});
    }
    if (part != nullptr) return part;
  }
  const auto end = late.find(list);
  return end == late.end() ? nullptr : end->second.get();
}

Result<void> Execution::State::capture() {
  graph.reset();
  if (!wants_graph) return {};
  if (watch != nullptr)
    return not_one_graph("it is observed: each step is waited for",
                         "prepare it with an observer or as a graph, not both");
  if (const Late* part = late_in(0)) {
    const package::Step* cause = part->cause;
    const auto* define = std::get_if<package::DefineSymbol>(cause);
    return not_one_graph(define != nullptr ? fmt::format("the size {} is read from device memory", define->symbol)
                                           : fmt::format("{} allocates what the steps behind it use",
                                                         std::get_if<package::CallExtern>(cause)->name),
                         "prepare it without a graph, or pass sizes as scalars");
  }
  const RelaxedCapture relaxed(device().driver());  // of this thread: captures of other streams stay valid
  CODETTA_TRY(const OwnedStream recorded, OwnedStream::make(places->front().device));
  CODETTA_TRY(graph, OwnedGraph::capture(recorded, [this](StreamHandle stream) { return run_all(stream); }));
  wrote = false;
  return {};
}

Execution::Execution(std::unique_ptr<State> state) : state_(std::move(state)) {}
Execution::Execution(Execution&&) noexcept = default;
Execution& Execution::operator=(Execution&&) noexcept = default;
Execution::~Execution() = default;

Result<Execution> Execution::make(package::PackageRef package, std::vector<ModuleRef> modules, Bindings bindings,
                                  GpuOptions options) {
  auto state = std::make_unique<State>();
  state->package = std::move(package);
  const auto loaded = std::find_if(modules.begin(), modules.end(), [](const ModuleRef& m) { return m != nullptr; });
  State::Place first;
  first.device = options.device != nullptr ? std::move(options.device)
                 : loaded != modules.end() ? (*loaded)->device()
                                           : options.vendor->device();
  first.vendor = std::move(options.vendor);
  first.modules = std::move(modules);
  state->bindings = std::move(bindings);
  state->checked = options.checked;
  state->contents = options.checked && options.contents;
  state->outside = std::move(options.outside);
  state->allocator = options.allocator;
  state->wants_graph = options.graph;
  if (options.observer) state->watch = std::make_shared<State::Watch>(State::Watch{std::move(options.observer), {}});
  CODETTA_CHECK_OK(package::check(*state->package));
  CODETTA_TRY(auto places, State::make_places(*state->package, std::move(first), std::move(options.further)));
  state->places = std::make_shared<const std::vector<State::Place>>(std::move(places));
  state->results = std::make_shared<State::Results>(state->package->result_count);
  Result<void> ready = state->prepare();
  if (ready) ready = state->settle();
  if (ready) ready = state->capture();
  if (options.unaligned != nullptr) *options.unaligned = state->unaligned;
  CODETTA_CHECK_OK(std::move(ready));
  return Execution(std::move(state));
}

Result<void> Execution::run(StreamHandle stream) {
  const State& state = *state_;
  state.wrote = false;
  CODETTA_CHECK_OK(state.check_faults());
  CODETTA_TRY(const ContextGuard guard, state.device().enter());
  std::optional<RelaxedCapture> relaxed;
  if (state.watch != nullptr) {
    CODETTA_TRY(const bool capturing, state.device().capturing(stream));
    if (capturing) {
      return diag::error(diag::Code::capture_active, "a run that is observed can not be captured")
          .reason(
              "each step is waited for, so that the observer sees what it wrote; a stream under capture only "
              "records, and nobody is told when the graph is launched")
          .help("run the program with the observer outside of the capture, and capture one that is prepared without");
    }
    relaxed.emplace(state.device().driver());  // waiting for this stream leaves captures of others as they are
    state.watch->began = std::chrono::steady_clock::now();
  }
  if (state.graph) {
    CODETTA_TRY(const bool capturing, state.device().capturing(stream));
    if (!capturing) {
      CODETTA_CHECK_OK(state.graph->launch(stream));
      state.wrote = true;
      return {};
    }
  }
  const Result<void> ran = state.run_all(stream);
  state.release_results();
  return ran;
}

bool Execution::wrote() const { return state_->wrote; }

Dims Execution::filled(uint32_t buffer) const {
  const std::vector<types::Dim>& sizes = state_->package->buffers[buffer].filled;
  if (sizes.empty()) return state_->bindings.tensors[buffer].shape();
  const State* last = state_.get();
  while (last->own_late() != nullptr && last->own_late()->rest != nullptr) last = last->own_late()->rest.get();
  Dims filled;
  for (const types::Dim& size : sizes) filled.push_back(size.evaluate(last->symbols).value_or(0));
  return filled;
}

Result<void> Execution::check() const { return state_->check_faults(); }

// What a late part looks at is known when there is one.
bool Execution::looks() const {
  return std::any_of(state_->memory.begin(), state_->memory.end(),
                     [](const State::Memory& memory) { return memory.fault.get() != nullptr; });
}
bool Execution::sizes_in_run() const { return !state_->late.empty(); }
bool Execution::observed() const { return state_->watch != nullptr; }

void Execution::set_ranges(NvtxRef ranges) { state_->ranges = std::move(ranges); }

const DeviceRef& Execution::device() const { return state_->places->front().device; }

int64_t Execution::workspace_size(uint32_t device) const {
  return device < state_->memory.size() ? state_->memory[device].bytes() : 0;
}

Result<void> Execution::set_workspace(void* memory, int64_t bytes) {
  State::Memory& first = state_->memory.front();
  const int64_t needed = first.bytes();
  if (memory == nullptr && needed != 0) {
    return diag::error(diag::Code::tensor_null, "the workspace is null")
        .about("workspace")
        .reason(fmt::format("{} bytes are needed", needed))
        .help("pass device memory of workspace_size() bytes");
  }
  const auto address = reinterpret_cast<uintptr_t>(memory);
  if (address % workspace_alignment != 0) {
    return diag::error(diag::Code::tensor_misaligned, "the workspace is not aligned to 256 bytes")
        .about("workspace")
        .reason(fmt::format("its address is {} modulo 256", address % workspace_alignment))
        .help(state_->device().driver().api() == Api::Hip ? "memory of hipMalloc is aligned so"
                                                          : "memory of cudaMalloc is aligned so");
  }
  if (bytes < needed) {
    return diag::error(diag::Code::workspace_small, "the workspace is too small")
        .about("workspace")
        .reason(fmt::format("{} bytes are given, {} are needed", bytes, needed))
        .help("pass at least workspace_size() bytes");
  }
  if (needed != 0 && state_->checked) CODETTA_CHECK_OK(check_place(state_->device(), {}, "the workspace", memory));
  first.placed_at = address;
  CODETTA_CHECK_OK(state_->place());
  first.workspace = DeviceBuffer();
  return state_->capture();
}

}  // namespace codetta::runtime::cuda
