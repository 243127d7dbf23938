// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/detached.hpp"

#include <algorithm>
#include <cstring>

#include "package/bytes.hpp"
#include "runtime/cuda/execution_state.hpp"

namespace codetta::runtime::cuda {

namespace {

using package::Buffer;

constexpr uint64_t largest = uint64_t{1} << 46;  // bytes of device memory, or of a binary

bool is_bound(const Buffer& buffer) {
  return buffer.role == Buffer::Role::Argument || buffer.role == Buffer::Role::Output;
}

// Memory that tensors share. Its address keeps what kernels may rely on.
struct Range {
  DeviceAddress begin = 0, end = 0;
  [[nodiscard]] uint64_t bytes() const { return end - begin; }
  [[nodiscard]] uint64_t before() const { return begin % Execution::workspace_alignment; }
};

std::pair<DeviceAddress, DeviceAddress> bytes_of(const TensorView& view) {
  const auto [first, last] = view.byte_range();
  return {reinterpret_cast<DeviceAddress>(first), reinterpret_cast<DeviceAddress>(last)};
}

std::vector<Range> ranges_of(const package::Package& package, const Bindings& bindings) {
  std::vector<Range> ranges;
  for (size_t b = 0; b < package.buffers.size(); ++b) {
    const TensorView& view = bindings.tensors[b];
    if (!is_bound(package.buffers[b]) || package.buffers[b].is_scalar || view.empty()) continue;
    const auto [begin, end] = bytes_of(view);
    ranges.push_back({begin, end});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& range : ranges) {
    if (!joined.empty() && range.begin < joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace

Result<std::optional<std::string>> to_bytes(const Execution& execution, bool contents) {
  const Execution::State& state = execution.state();
  const package::Package& package = *state.package;
  const bool weights = std::any_of(package.buffers.begin(), package.buffers.end(),
                                   [](const Buffer& buffer) { return !buffer.external.empty(); });
  const Execution::State::Place& place = state.places->front();
  if (weights || !state.externs.empty() || !state.vendor_launches.empty() || place.vendor != nullptr || state.several())
    return std::optional<std::string>();
  package::ByteWriter to;
  to.text(package.encode());
  to.flag(state.checked);
  to.flag(state.contents);
  to.number(place.modules.size());
  for (const ModuleRef& module : place.modules) to.text(module != nullptr ? module->image() : std::string_view());
  const std::vector<Range> ranges = ranges_of(package, state.bindings);
  constexpr size_t besides = 1 << 16;  // what is said of ranges and tensors, and room to spare
  uint64_t all = besides;
  for (const Range& range : ranges) all += contents ? range.bytes() : 0;
  to.expect(all);
  to.number(ranges.size());
  for (const Range& range : ranges) {
    to.number(range.bytes());
    to.number(range.before());
    to.flag(contents);
    if (!contents) continue;
    CODETTA_CHECK_OK(place.device->synchronize());
    CODETTA_TRY(const ContextGuard guard, place.device->enter());
    CODETTA_CHECK_OK(place.device->download(to.room(range.bytes()), range.begin, range.bytes(), nullptr));
    CODETTA_CHECK_OK(place.device->synchronize(nullptr));
  }
  for (size_t b = 0; b < package.buffers.size(); ++b) {
    if (!is_bound(package.buffers[b])) continue;
    if (package.buffers[b].is_scalar) {
      std::string value(sizeof(codetta::cpu::ScalarValue), '\0');
      std::memcpy(value.data(), &state.bindings.scalars[b], value.size());
      to.raw(value);
      continue;
    }
    const TensorView& view = state.bindings.tensors[b];
    to.choice(view.dtype());
    to.flag(view.read_only());
    to.number(static_cast<uint64_t>(view.rank()));
    for (int d = 0; d < view.rank(); ++d) to.integer(view.size(d));
    for (int d = 0; d < view.rank(); ++d) to.integer(view.stride(d));
    if (view.empty()) continue;
    const DeviceAddress begin = bytes_of(view).first;
    const auto within = std::find_if(ranges.begin(), ranges.end(),
                                     [&](const Range& range) { return range.begin <= begin && begin < range.end; });
    to.number(static_cast<uint64_t>(within - ranges.begin()));
    to.number(reinterpret_cast<DeviceAddress>(view.data()) - within->begin);
  }
  return std::optional(std::move(to).take());
}

Result<DetachedExecution> DetachedExecution::make(const DeviceRef& device, std::string_view bytes) {
  DetachedExecution made;
  package::ByteReader from(bytes);
  const auto damaged = [&] {
    return diag::error(diag::Code::package_damaged, "package is damaged")
        .reason(from.ok() ? std::string("what is bound to it is not whole") : from.reason())
        .help("report this");
  };
  CODETTA_TRY(package::Package read, package::Package::decode(from.text(largest, "package")));
  const auto package = std::make_shared<const package::Package>(std::move(read));
  GpuOptions options;
  options.device = device;
  options.checked = from.flag();
  options.contents = from.flag();
  std::vector<ModuleRef> modules;
  for (size_t left = from.count(bytes.size(), "binaries"); left > 0 && from.ok(); --left) {
    const std::string image = from.text(largest, "binary");
    ModuleRef& module = modules.emplace_back();
    if (image.empty()) continue;
    CODETTA_TRY(module, Module::load(device, image, package->name));
  }
  std::vector<DeviceAddress> begins;
  std::vector<uint64_t> sizes;
  const size_t count = from.count(package->buffers.size(), "ranges");
  for (size_t r = 0; r < count && from.ok(); ++r) {
    const uint64_t size = from.number_up_to(largest, "bytes"),
                   before = from.number_up_to(Execution::workspace_alignment, "offset");
    const bool contents = from.flag();
    if (!from.ok()) break;
    CODETTA_TRY(DeviceBuffer memory, DeviceBuffer::make(device, before + size));
    CODETTA_TRY(const ContextGuard guard, device->enter());
    if (contents) {
      const std::string_view held = from.raw(size);
      if (!from.ok()) break;
      CODETTA_CHECK_OK(device->upload(memory.address() + before, held.data(), held.size(), nullptr));
    } else {
      CODETTA_CHECK_OK(device->fill(memory.address(), 0, before + size, nullptr));
    }
    CODETTA_CHECK_OK(device->synchronize(nullptr));
    begins.push_back(memory.address() + before);
    sizes.push_back(size);
    made.memory.push_back(std::move(memory));
  }
  Bindings bindings;
  bindings.tensors.resize(package->buffers.size());
  bindings.scalars.resize(package->buffers.size());
  for (size_t b = 0; b < package->buffers.size() && from.ok(); ++b) {
    if (!is_bound(package->buffers[b])) continue;
    if (package->buffers[b].is_scalar) {
      const std::string_view value = from.raw(sizeof(codetta::cpu::ScalarValue));
      if (from.ok()) std::memcpy(&bindings.scalars[b], value.data(), value.size());
      continue;
    }
    const DType dtype = from.dtype();
    const bool read_only = from.flag();
    const auto rank = static_cast<int>(from.number_up_to(max_rank, "rank"));
    Dims shape, strides;
    for (int d = 0; d < rank; ++d) shape.push_back(from.integer());
    for (int d = 0; d < rank; ++d) strides.push_back(from.integer());
    if (!from.ok()) break;
    void* data = nullptr;
    if (std::find(shape.begin(), shape.end(), 0) == shape.end()) {
      const uint64_t range = from.number(), offset = from.number();
      if (range >= begins.size() || offset >= sizes[range]) return damaged();
      data = reinterpret_cast<void*>(begins[range] + offset);
      CODETTA_TRY(const TensorView placed, TensorView::make(data, dtype, shape, strides));
      const auto [first, last] = bytes_of(placed);
      if (first < begins[range] || last > begins[range] + sizes[range]) return damaged();
    }
    CODETTA_TRY(bindings.tensors[b], TensorView::make(data, dtype, shape, strides));
    if (read_only) bindings.tensors[b] = bindings.tensors[b].as_read_only();
  }
  if (!from.ok() || from.left() != 0) return damaged();
  CODETTA_TRY(made.execution, Execution::make(package, std::move(modules), std::move(bindings), std::move(options)));
  return made;
}

}  // namespace codetta::runtime::cuda
