// SPDX-License-Identifier: Apache-2.0
// Copies of operands on the GPU.
#include "cli/on_device.hpp"

#include <algorithm>
#include <map>

namespace codetta::cli {

Result<TensorView> OnDevice::copy(const Device& device, const std::string& name, const TensorView& host) {
  for (const Copy& known : copies_) {
    if (known.host == host && known.ordinal == device.info().ordinal) return known.tensor.view();
  }
  auto tensor = DeviceTensor::copy_of(device, host);
  if (!tensor) return std::move(tensor).error();
  copies_.push_back({name, host, *std::move(tensor), device.info().ordinal});
  return copies_.back().tensor.view();
}

Result<OnDevice> OnDevice::make_each(const std::vector<NamedArgument>& host, const DeviceOf& device_of) {
  OnDevice result;
  for (const NamedArgument& argument : host) {
    const TensorView* tensor = argument.value.tensor();
    if (tensor == nullptr) {
      result.named_.push_back(argument);
      continue;
    }
    auto device = device_of(argument.name);
    if (!device) return std::move(device).error();
    auto view = result.copy(*device, argument.name, *tensor);
    if (!view) return std::move(view).error();
    result.named_.push_back({argument.name, *view});
  }
  return result;
}

Result<OnDevice> OnDevice::make(const Device& device, const std::vector<NamedArgument>& host) {
  return make_each(host, [&](const std::string&) -> Result<Device> { return device; });
}

Result<OnDevice> OnDevice::make(const Program& program, const ProgramShapes& shapes, Backend backend, Context& context,
                                const std::vector<NamedArgument>& host) {
  std::map<std::string, uint32_t> places;
  for (const ProgramParameter& parameter : program.parameters())
    places[parameter.name] = static_cast<uint32_t>(parameter.device);
  for (const ProgramShapes::Output& output : shapes.outputs) places[output.name] = static_cast<uint32_t>(output.device);
  return make_each(host, [&](const std::string& name) { return Device::open(backend, places[name], context); });
}

Result<OnDevice> OnDevice::make(const Device& device, const GemmArguments& host) {
  auto result = make(device, host.epilogue.arguments());
  if (!result) return result;
  result->arguments_ = host;
  for (auto* factor : {&result->arguments_.A, &result->arguments_.B}) {
    auto view = result->copy(device, factor == &result->arguments_.A ? "A" : "B", *factor);
    if (!view) return std::move(view).error();
    *factor = *view;
  }
  if (host.out) {
    auto view = result->copy(device, "D", *host.out);
    if (!view) return std::move(view).error();
    result->arguments_.out = *view;
  }
  if (host.epilogue.epilogue())
    result->arguments_.epilogue = EpilogueArguments(*host.epilogue.epilogue(), result->named_);
  return result;
}

int64_t OnDevice::byte_size() const {
  int64_t bytes = 0;
  for (const Copy& copy : copies_) bytes += copy.tensor.byte_size();
  return bytes;
}

Result<void> OnDevice::download(const std::string& name) const {
  for (const Copy& copy : copies_) {
    if (copy.name == name) return copy.tensor.download(copy.host);
  }
  return {};
}

Result<std::vector<OnDevice>> rotation(const Device& device, const GemmArguments& host, double operations) {
  // Fewer operations a byte than this, and memory is slower than the matrix units of any GPU of today.
  constexpr double bound_by_memory = 200;
  constexpr int64_t most = 64;
  std::vector<OnDevice> sets;
  auto first = OnDevice::make(device, host);
  if (!first) return std::move(first).error();
  const int64_t bytes = std::max<int64_t>(first->byte_size(), 1);
  sets.push_back(*std::move(first));
  if (operations / static_cast<double>(bytes) >= bound_by_memory) return sets;
  const auto free = device.free_bytes();
  if (!free) return free.error();
  const int64_t wanted = std::min({2 * device.info().l2_bytes / bytes + 2, most, *free / 2 / bytes});
  while (static_cast<int64_t>(sets.size()) < wanted) {
    auto more = OnDevice::make(device, host);
    if (!more) return std::move(more).error();
    sets.push_back(*std::move(more));
  }
  return sets;
}

}  // namespace codetta::cli
