// SPDX-License-Identifier: Apache-2.0
// Running the resolved steps of a CUDA package, and what only a run knows: sizes in device memory, tensors that
// functions of the caller's allocate.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "diag/diagnostic.hpp"
#include "package/written.hpp"
#include "runtime/caller_tensors.hpp"
#include "runtime/cuda/execution_state.hpp"
#include "runtime/cuda/stream.hpp"
#include "types/convert.hpp"

namespace codetta::runtime::cuda {

using package::Buffer;

namespace {

// Of several devices the one that steps run on is the thread's current one; between lists that is the first.
class Current {
 public:
  [[nodiscard]] uint32_t which() const { return which_; }
  Result<void> go(const Device& device, uint32_t which) {
    entered_.reset();
    which_ = 0;
    if (which == 0) return {};
    CODETTA_TRY(ContextGuard guard, device.enter());
    entered_.emplace(std::move(guard));
    which_ = which;
    return {};
  }

 private:
  uint32_t which_ = 0;
  std::optional<ContextGuard> entered_;
};

}  // namespace

Result<void> Execution::State::run_list(size_t list, StreamHandle stream) const {
  Current current;
  for (const Active& active : lists[list]) {
    const int64_t begin = watch != nullptr ? watch->now() : 0;
    if (active.device != current.which()) CODETTA_CHECK_OK(current.go(device(active.device), active.device));
    CODETTA_CHECK_OK(run_active(active, stream));
    wrote = wrote || package::writes(*active.step);
    if (watch != nullptr) CODETTA_CHECK_OK(tell(*active.step, begin, active.device, stream));
  }
  if (current.which() != 0) CODETTA_CHECK_OK(current.go(device(), 0));
  const auto part = late.find(list);
  return part != late.end() ? run_late(*part->second, stream) : Result<void>();
}

Result<void> Execution::State::run_active(const Active& active, StreamHandle callers) const {
  const StreamHandle stream = stream_of(active.device, callers);
  if (active.vendor >= 0) {
    const VendorLaunch& launch = vendor_launches[static_cast<size_t>(active.vendor)];
    const NvtxRange range(ranges.get(), launch.name());
    wrote = true;  // several kernels of its own, of which some may be enqueued when it fails
    return launch.run(stream);
  }
  if (active.user >= 0) {
    const UserLaunch& launch = user_launches[static_cast<size_t>(active.user)];
    const NvtxRange range(ranges.get(), launch.name());
    const Status status = launch.run(stream);
    if (status == Status::Success) return {};
    return device().driver().failure(
        status, fmt::format("Failed to launch kernel {}: cuLaunchKernelEx", launch.name()),
        fmt::format("{}, stream = {}{}", launch.describe(), static_cast<void*>(stream), on_device(active.device)));
  }
  if (active.on_elements >= 0) return run_on_elements(active.on_elements, stream);
  if (active.between >= 0) return copy_between(between[static_cast<size_t>(active.between)], callers);
  if (active.launch < 0) return run_step(active, callers);
  const Launch& launch = launches[static_cast<size_t>(active.launch)];
  if (launch.gathers_nothing) return *launch.gathers_nothing;
  const NvtxRange range(ranges.get(), launch.name());
  const Status status = launch.run(stream, wrote);
  if (status == Status::Success) return {};
  return device().driver().failure(
      status, "cuLaunchKernelEx",
      fmt::format("{}, stream = {}{}", launch.name(), static_cast<void*>(stream), on_device(active.device)));
}

// What only the wait tells, such as an address that a kernel may not use, is told of the step: the first that is
// waited for behind it.
Result<void> Execution::State::tell(const package::Step& step, int64_t begin, uint32_t on, StreamHandle callers) const {
  const StreamHandle stream = stream_of(on, callers);
  Result<void> over = device(on).synchronize(stream);
  if (over) over = check_faults(FoundIn::ThisRun);
  if (over) return watch->observer({&step, begin, watch->now(), bindings.tensors, &symbols}, device(on), stream);
  std::vector<Diagnostic> told = over.error().diagnostics();
  const auto* launch = std::get_if<package::LaunchKernel>(&step);
  told.front().notes.push_back(
      {fmt::format("seen behind {}{}", package::place_of(*package, step),
                   launch != nullptr ? ", kernel " + package->kernels[launch->kernel].name : std::string()),
       {}});
  return Error(std::move(told));
}

Result<void> Execution::State::run_on_elements(int32_t which, StreamHandle stream) const {
  const StepLaunch& launch = step_launches[static_cast<size_t>(which)];
  const NvtxRange range(ranges.get(), launch.name());
  const Status status = launch.run(device().driver(), stream);
  if (status == Status::Success) return {};
  return device().driver().failure(
      status, "cuLaunchKernelEx",
      fmt::format("{}, stream = {}{}", launch.name(), static_cast<void*>(stream), on_device(launch.on_device)));
}

Result<void> Execution::State::check_faults(FoundIn run) const {
  if (found) return *std::exchange(found, std::nullopt);
  for (const Memory& on : memory) {
    codetta::gpu::Fault taken{};
    if (codetta::gpu::host::take_fault(on.fault.get(), taken) && taken.step < step_launches.size())
      return step_launches[taken.step].error_of(taken, bindings, run);
  }
  for (const auto& [list, part] : late) {
    if (part->rest != nullptr) CODETTA_CHECK_OK(part->rest->check_faults(run));
  }
  return {};
}

// What prepare lets through beside launches.
Result<void> Execution::State::run_step(const Active& active, StreamHandle callers) const {
  const package::Step& step = *active.step;
  const StreamHandle stream = stream_of(active.device, callers);
  if (const auto* filled = std::get_if<package::Fill>(&step)) return fill(*filled, stream);
  if (const auto* copied = std::get_if<package::Copy>(&step)) {
    const TensorView &source = bindings.tensors[copied->source], &target = bindings.tensors[copied->target];
    if (source.data() == target.data()) return {};  // an output in place of what it begins as
    const auto bytes = static_cast<size_t>(source.element_count() * dtype_size(source.dtype()));
    return device(active.device)
        .copy(reinterpret_cast<DeviceAddress>(target.data()), reinterpret_cast<DeviceAddress>(source.data()), bytes,
              stream);
  }
  if (const auto* check = std::get_if<package::Check>(&step))
    return check_guard(*package, check->guard, bindings.tensors, symbols);
  if (const auto* function = std::get_if<package::CallExtern>(&step)) return call(*function, stream);
  if (const auto* freed = std::get_if<package::Free>(&step)) {
    const auto& [result, output] = selected.at(freed->buffer);
    release((*results)[result][output]);
    return {};
  }
  if (const auto* branch = std::get_if<package::If>(&step)) {
    CODETTA_TRY(const bool taken, holds(branch->predicate, callers));
    return run_list(size_t{1} + (taken ? branch->then_list : branch->else_list), callers);
  }
  if (const auto* loop = std::get_if<package::While>(&step)) {
    for (int64_t pass = 0;; ++pass) {
      CODETTA_CHECK_OK(run_list(size_t{1} + loop->condition, callers));
      CODETTA_TRY(const bool more, holds(loop->predicate, callers));
      if (!more) return {};
      if (loop->limit != 0 && pass >= loop->limit)
        return endless_loop(pass, {}, package->buffers[loop->predicate].name);
      CODETTA_CHECK_OK(run_list(size_t{1} + loop->body, callers));
    }
  }
  return {};
}

Result<void> Execution::State::fill(const package::Fill& step, StreamHandle stream) const {
  const TensorView& view = bindings.tensors[step.buffer];
  if (view.empty()) return {};
  return device(package->buffers[step.buffer].device)
      .fill(reinterpret_cast<DeviceAddress>(view.data()), static_cast<unsigned char>(step.bits & 0xFF),
            static_cast<size_t>(view.element_count() * dtype_size(view.dtype())), stream);
}

void Execution::State::release_results() const {
  for (std::vector<CodettaTensor>& outputs : *results) release_results(outputs);
}

void Execution::State::release_results(std::vector<CodettaTensor>& outputs) {
  for (CodettaTensor& output : outputs) release(output);
  outputs.clear();
}

Result<void> Execution::State::run_late(Late& part, StreamHandle callers) const {
  CODETTA_TRY(const bool capturing, device().capturing(callers));
  const auto* define = std::get_if<package::DefineSymbol>(part.cause);
  if (capturing) {
    const std::string what = define != nullptr ? "the size " + define->symbol + " is read from device memory"
                                               : std::get_if<package::CallExtern>(part.cause)->name +
                                                     " allocates what the steps behind it use";
    return diag::error(diag::Code::capture_active, "a run whose sizes are found in it can not be captured")
        .reason(what)
        .help("run the program outside of the capture, or pass sizes as scalars");
  }
  const uint32_t on = define != nullptr ? package->buffers[define->buffer].device : part.scope.back();
  const StreamHandle stream = stream_of(on, callers);
  Symbols known = symbols;
  std::vector<int64_t> made_for;
  const int64_t begin = watch != nullptr ? watch->now() : 0;
  Current current;
  CODETTA_CHECK_OK(current.go(device(on), on));
  if (define != nullptr && package->buffers[define->buffer].is_scalar) {
    const int64_t number = bindings.scalars[define->buffer].i;
    CODETTA_CHECK_OK(define_symbol(*package, *define, TensorView(), number, known));
    made_for = {number};
  } else if (define != nullptr) {
    const TensorView& view = bindings.tensors[define->buffer];
    std::array<std::byte, 8> value{};
    CODETTA_CHECK_OK(device(on).download(value.data(), reinterpret_cast<DeviceAddress>(view.data()),
                                         static_cast<size_t>(dtype_size(view.dtype())), stream));
    CODETTA_CHECK_OK(device(on).synchronize(stream));
    const int64_t number = types::load_i64(value.data(), view.dtype());
    CODETTA_CHECK_OK(define_symbol(*package, *define, view, number, known));
    made_for = {number};
  } else {
    const auto& step = *std::get_if<package::CallExtern>(part.cause);
    CODETTA_CHECK_OK(call(step, stream));
    for (const CodettaTensor& output : (*results)[step.result]) {
      made_for.push_back(reinterpret_cast<int64_t>(output.data));
      made_for.insert(made_for.end(), {output.rank, output.dtype});
      for (int i = 0; i < std::clamp(output.rank, 0, static_cast<int>(CODETTA_MAX_RANK)); ++i)
        made_for.insert(made_for.end(), {output.shape[i], output.strides[i]});
    }
  }
  if (watch != nullptr) CODETTA_CHECK_OK(tell(*part.cause, begin, on, callers));
  CODETTA_CHECK_OK(current.go(device(), 0));
  if (part.rest == nullptr || part.made_for != made_for) {
    CODETTA_CHECK_OK(end_late(part));
    if (found) return *std::exchange(found, std::nullopt);
    CODETTA_CHECK_OK(make_rest(part, std::move(known)));
    part.made_for = std::move(made_for);
  }
  for (size_t which = part.ran.size(); which < places->size(); ++which) {
    CODETTA_TRY(OwnedEvent made, OwnedEvent::make((*places)[which].device));
    part.ran.push_back(std::move(made));
  }
  part.rest->wrote = false;
  Result<void> ran = part.rest->run_list(0, callers);
  wrote = wrote || part.rest->wrote;
  // A turn of a loop has results of its own: the next call returns others.
  if (const auto* call = std::get_if<package::CallExtern>(part.cause)) release_results((*results)[call->result]);
  Result<void> recorded;  // also behind a part that fails
  for (uint32_t which = 0; recorded && which < part.ran.size(); ++which)
    recorded = part.ran[which].record(stream_of(which, callers));
  return ran ? std::move(recorded) : ran;
}

Result<void> Execution::State::end_late(Late& part) const {
  if (part.rest == nullptr) return {};
  for (const OwnedEvent& ran : part.ran) CODETTA_CHECK_OK(ran.synchronize());
  const Result<void> fine = part.rest->check_faults();
  if (!fine && !found) found = fine.error();
  part.workspaces.clear();
  part.faults.clear();
  for (Memory& on : part.rest->memory) {
    part.workspaces.push_back(std::move(on.workspace));
    part.faults.push_back(std::move(on.fault));
  }
  part.rest.reset();
  return {};
}

Result<void> Execution::State::make_rest(Late& part, Symbols known) const {
  auto rest = std::make_unique<State>();
  rest->package = package;
  rest->places = places;
  rest->ranges = ranges;
  rest->bindings = bindings;
  rest->checked = checked;
  rest->contents = contents;
  rest->outside = outside;
  rest->allocator = allocator;
  rest->symbols = std::move(known);
  rest->root = part.list == 0 ? root : part.list;
  rest->first = part.first;
  rest->scope = part.scope;
  rest->results = results;
  rest->watch = watch;
  rest->selected = selected;
  rest->pool_bytes = pool_bytes;
  rest->pool_address = pool_address;
  for (size_t i = 0; i < pool_offset.size(); ++i) {
    if (pool_offset[i])
      rest->pool_address[i] = memory[package->pools[i].device].placed_at + static_cast<uint64_t>(*pool_offset[i]);
  }
  rest->memory.resize(places->size());
  for (size_t which = 0; which < part.workspaces.size(); ++which) {
    rest->memory[which].workspace = std::move(part.workspaces[which]);
    rest->memory[which].fault = std::move(part.faults[which]);
  }
  CODETTA_CHECK_OK(rest->prepare());
  CODETTA_CHECK_OK(rest->settle());
  part.rest = std::move(rest);
  return {};
}

// The function enqueues; numbers are passed in host memory.
Result<void> Execution::State::call(const package::CallExtern& step, StreamHandle stream) const {
  std::vector<std::array<std::byte, 8>> numbers(step.inputs.size());
  std::vector<CodettaTensor> inputs, outputs;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const Buffer& buffer = package->buffers[step.inputs[i]];
    if (buffer.is_scalar) {
      store_scalar(bindings.scalars[step.inputs[i]], buffer.dtype, numbers[i].data());
      inputs.push_back({});
      inputs.back().data = numbers[i].data();
      inputs.back().dtype = static_cast<int32_t>(buffer.dtype);
    } else {
      inputs.push_back(tensor_of(bindings.tensors[step.inputs[i]], buffer.device));
    }
    inputs.back().owner = stream;
  }
  const bool allocates = step.form == package::CallExtern::Form::Alloc;
  for (uint32_t i = 0; allocates && i < step.output_count; ++i) {
    outputs.push_back({});
    outputs.back().owner = stream;
  }
  for (const uint32_t output : step.outputs) {
    outputs.push_back(tensor_of(bindings.tensors[output], package->buffers[output].device));
    outputs.back().owner = stream;
  }
  wrote = true;  // whatever it returns
  const ExternFunction& function = externs.at(&step);
  const int code = function.function(function.context, inputs.data(), static_cast<int>(inputs.size()), outputs.data(),
                                     static_cast<int>(outputs.size()));
  if (allocates) (*results)[step.result] = std::move(outputs);  // given back at the end of the run at the latest
  if (code == 0) return {};
  return diag::error(diag::Code::extern_failed, fmt::format("external function {} failed", step.name))
      .reason(fmt::format("it returned {}", code))
      .help("the code is the function's own");
}

// Waits for the stream of the device that has it.
Result<bool> Execution::State::holds(uint32_t predicate, StreamHandle callers) const {
  if (package->buffers[predicate].is_scalar) return bindings.scalars[predicate].i != 0;
  CODETTA_TRY(const bool capturing, device().capturing(callers));
  if (capturing) {
    return diag::error(diag::Code::capture_active, "a branch can not be captured")
        .reason(fmt::format("{} is read on the host to decide what runs", package->buffers[predicate].name))
        .help("run the program outside of the capture, or decide by a scalar argument");
  }
  const Device& on = device(package->buffers[predicate].device);
  const StreamHandle stream = stream_of(package->buffers[predicate].device, callers);
  unsigned char value = 0;
  CODETTA_CHECK_OK(on.download(&value, reinterpret_cast<DeviceAddress>(bindings.tensors[predicate].data()), 1, stream));
  CODETTA_CHECK_OK(on.synchronize(stream));
  return value != 0;
}

}  // namespace codetta::runtime::cuda
