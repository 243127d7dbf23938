// SPDX-License-Identifier: Apache-2.0
#include "emit/host/devices.hpp"

#include <algorithm>

#include "package/gpu_steps.hpp"

namespace codetta::emit::host {

using package::Package;

namespace {

template <class F>
void each_step(const Package& package, F&& f) {
  for (const package::Step& step : package.steps) f(step);
  for (const package::StepList& list : package.step_lists) {
    for (const package::Step& step : list) f(step);
  }
}

// Of the first tensor among these.
std::optional<uint32_t> device_of_first(const Package& package, const std::vector<uint32_t>& buffers) {
  for (const uint32_t b : buffers) {
    if (!package.buffers[b].is_scalar) return package.buffers[b].device;
  }
  return std::nullopt;
}

struct DeviceOf {
  const Package& package;
  using Answer = std::optional<uint32_t>;

  [[nodiscard]] Answer of(uint32_t buffer) const { return device_of_first(package, {buffer}); }
  Answer operator()(const package::DefineSymbol& step) const {
    return step.from == package::DefineSymbol::From::Value ? of(step.buffer) : std::nullopt;
  }
  Answer operator()(const package::Check& step) const {
    if (const auto* nan = std::get_if<package::NanGuard>(&step.guard)) return of(nan->buffer);
    if (const auto* index = std::get_if<package::IndexGuard>(&step.guard)) return of(index->buffer);
    return std::nullopt;
  }
  Answer operator()(const package::Allocate& step) const { return of(step.buffer); }
  Answer operator()(const package::AllocateFromPool& step) const { return package.pools[step.pool].device; }
  Answer operator()(const package::LaunchKernel& step) const {
    const Answer argument = device_of_first(package, step.arguments);
    return !argument && step.product ? of(step.product->a) : argument;
  }
  Answer operator()(const package::Copy& step) const {
    return is_between_devices(package, step) ? std::nullopt : of(step.target);
  }
  Answer operator()(const package::Fill& step) const { return of(step.buffer); }
  Answer operator()(const package::CallExtern& step) const {
    const Answer output = device_of_first(package, step.outputs);
    return output ? output : device_of_first(package, step.inputs);
  }
  Answer operator()(const package::IndexPut& step) const { return of(step.target); }
  Answer operator()(const package::Scatter& step) const { return of(step.target); }
  Answer operator()(const package::If& step) const { return of(step.predicate); }
  template <class Other>
  Answer operator()(const Other&) const {
    return std::nullopt;
  }
};

bool works(const package::Step& step) {
  return std::holds_alternative<package::LaunchKernel>(step) || std::holds_alternative<package::CallExtern>(step);
}

}  // namespace

uint32_t devices_of(const Package& package) {
  return package.target.backend == Backend::cpu ? 1 : package.device_count;
}

uint32_t devices_of(const Library& library) {
  uint32_t most = 1;
  for (const Program& program : library.programs) most = std::max(most, devices_of(*program.package));
  return most;
}

std::optional<uint32_t> device_of(const Package& package, const package::Step& step) {
  return std::visit(DeviceOf{package}, step);
}

bool is_between_devices(const Package& package, const package::Copy& copy) {
  return package.target.backend != Backend::cpu &&
         package.buffers[copy.source].device != package.buffers[copy.target].device;
}

uint64_t devices_of_kernel(const Package& package, uint32_t kernel) {
  const uint32_t count = devices_of(package);
  if (package::is_steps_kernel(package.kernels[kernel]))
    return count >= most_devices ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  uint64_t used = 0;
  each_step(package, [&](const package::Step& step) {
    const auto* launch = std::get_if<package::LaunchKernel>(&step);
    if (launch != nullptr && launch->kernel == kernel) used |= uint64_t{1} << device_of(package, step).value_or(0);
  });
  return used;
}

bool DeviceTrack::moves_to(uint32_t device) {
  if (!several() || at_ == device) return false;
  at_ = device;
  return true;
}

std::optional<uint32_t> DeviceTrack::moves_for(const package::Step& step) {
  std::optional<uint32_t> device = device_of(package_, step);
  if (!device && works(step)) device = scope();
  return device && moves_to(*device) ? device : std::nullopt;
}

void DeviceLines::mark() {
  out_.line(several() ? "const DeviceMarks mark = marks_of(frame);" : "const i64 mark = frame.placed;");
}
void DeviceLines::restore() { out_.line(several() ? "restore(frame, mark);" : "frame.placed = mark;"); }

void DeviceLines::tell_tensors(const package::CallExtern& call, const std::string& shared) {
  const uint32_t device = device_of(package_, call).value_or(scope());
  if (device == 0) return;
  const auto tell = [&](const std::string& tensors, size_t count) {
    if (count > 0) out_.line("lie_on(", tensors, ", ", count, ", ", device, ");");
  };
  tell("inputs", call.inputs.size());
  if (call.form == package::CallExtern::Form::Alloc) {
    tell(base::CodeWriter::text_of(shared, "result_", call.result, ".tensors"), call.output_count);
  } else {
    tell("outputs", call.outputs.size());
  }
}

void DeviceLines::print(uint32_t device) { out_.line("CODETTA_OK(at_device(frame, ", device, "));"); }

}  // namespace codetta::emit::host
