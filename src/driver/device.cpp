// SPDX-License-Identifier: Apache-2.0
// Devices, device tensors and streams of the public interface.
#include "codetta/device.hpp"

#include <fmt/format.h>

#include "base/kept.hpp"
#include "diag/diagnostic.hpp"
#include "driver/context.hpp"
#include "driver/device_access.hpp"
#include "driver/problem.hpp"

namespace codetta {

using runtime::cuda::DeviceRef;

namespace driver {

const DeviceRef& DeviceAccess::of(const Device& device) { return device.state_->device; }

runtime::cuda::StreamHandle handle(Stream stream) { return static_cast<runtime::cuda::StreamHandle>(stream.handle); }

namespace {
Error no_device() { return nothing_held("device", "Device::open"); }
}  // namespace

}  // namespace driver

namespace {

using driver::handle;

runtime::cuda::DeviceAddress address(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

DeviceInfo info_of(const runtime::cuda::DeviceFacts& facts) {
  DeviceInfo info;
  info.ordinal = facts.ordinal;
  info.name = facts.name;
  info.uuid = facts.uuid;
  info.arch = facts.arch;
  info.driver = facts.driver_version;
  info.multiprocessors = facts.multiprocessors;
  info.memory_bytes = facts.memory_bytes;
  info.l2_bytes = facts.l2_bytes;
  info.memory_bandwidth = facts.memory_bandwidth;
  return info;
}

Result<void> check_same(const TensorView& device, const TensorView& host) {
  if (device.dtype() != host.dtype()) {
    return diag::error(diag::Code::output_binding, "host and device tensor have different types")
        .reason(fmt::format("the device tensor is {}, the host's is {}", device.describe(), host.describe()))
        .help("pass a host tensor of the same type");
  }
  if (device.shape() == host.shape() && device.strides() == host.strides()) return {};
  return diag::error(diag::Code::output_shape, "host and device tensor have different shapes or strides")
      .reason(fmt::format("the device tensor is {} with strides {}, the host's is {} with strides {}",
                          device.describe(), to_string(device.strides()), host.describe(), to_string(host.strides())))
      .help("pass a host tensor that lies as the device tensor does");
}

}  // namespace

namespace {
Result<driver::GpuDevice*> gpu_of(Backend backend, Context& context) {
  const Target target{backend, {}, ""};
  if (driver::runs_on_gpu(target)) return &context.shared_state()->gpu(target);
  return diag::error(diag::Code::target_unavailable, fmt::format("'{}' has no devices here", target.to_string()))
      .reason("devices and their memory are those of the backends cuda and hip")
      .help("pass Backend::cuda or Backend::hip; kernels for a CPU take host memory");
}
}  // namespace

Result<int> device_count(Context& context) { return device_count(Backend::cuda, context); }
Result<int> device_count(Backend backend, Context& context) {
  CODETTA_TRY(driver::GpuDevice* const gpu, gpu_of(backend, context));
  CODETTA_TRY(const runtime::cuda::DriverRef driver, gpu->driver());
  return runtime::cuda::Device::count(*driver);
}

Result<Device> Device::open(Context& context) { return open(Backend::cuda, context); }
Result<Device> Device::open(Backend backend, Context& context) { return open(backend, 0, context); }
Result<Device> Device::open(Backend backend, uint32_t place, Context& context) {
  CODETTA_TRY(driver::GpuDevice* const gpu, gpu_of(backend, context));
  CODETTA_TRY(DeviceRef found, gpu->device(place));
  Device device;
  const DeviceInfo info = info_of(found->facts());
  device.state_ = std::make_shared<const driver::DeviceMemory>(driver::DeviceMemory{std::move(found), info});
  return device;
}

const DeviceInfo& Device::info() const {
  static const auto& none = base::kept(DeviceInfo{});
  return state_ ? state_->info : none;
}

Result<int64_t> Device::free_bytes() const {
  if (!state_) return driver::no_device();
  CODETTA_TRY(const auto memory, state_->device->memory());
  return memory.first;
}

Result<void> Device::synchronize() const {
  if (!state_) return driver::no_device();
  return state_->device->synchronize();
}
Result<void> Device::synchronize(Stream stream) const {
  if (!state_) return driver::no_device();
  return state_->device->synchronize(handle(stream));
}

Result<DeviceTensor> DeviceTensor::make(const Device& device, DType dtype, const Dims& shape) {
  if (!device.state_) return driver::no_device();
  // Any address will do for the checks of shape and size.
  alignas(16) static const char anywhere[16] = {};
  CODETTA_TRY(const TensorView wanted, TensorView::make(static_cast<const void*>(anywhere), dtype, shape));
  DeviceTensor tensor;
  tensor.bytes_ = wanted.element_count() * dtype_size(dtype);
  tensor.device_ = device.state_;
  if (tensor.bytes_ != 0) {
    CODETTA_TRY(const auto memory, device.state_->device->allocate(static_cast<size_t>(tensor.bytes_)));
    tensor.memory_ = reinterpret_cast<void*>(memory);
  }
  CODETTA_TRY(tensor.view_, TensorView::make(tensor.memory_, dtype, shape));
  return tensor;
}

Result<DeviceTensor> DeviceTensor::copy_of(const Device& device, const TensorView& host) {
  if (!device.state_) return driver::no_device();
  const auto [first, last] = host.byte_range();
  DeviceTensor tensor;
  tensor.bytes_ = last - first;
  tensor.device_ = device.state_;
  std::byte* data = nullptr;
  if (tensor.bytes_ != 0) {
    CODETTA_TRY(const auto memory, device.state_->device->allocate(static_cast<size_t>(tensor.bytes_)));
    tensor.memory_ = reinterpret_cast<void*>(memory);
    data = static_cast<std::byte*>(tensor.memory_) + (host.as<const std::byte>() - first);
  }
  CODETTA_TRY(tensor.view_, TensorView::make(static_cast<void*>(data), host.dtype(), host.shape(), host.strides()));
  CODETTA_CHECK_OK(tensor.upload(host));
  return tensor;
}

DeviceTensor::DeviceTensor(DeviceTensor&& other) noexcept
    : view_(std::exchange(other.view_, {})),
      device_(std::move(other.device_)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceTensor& DeviceTensor::operator=(DeviceTensor&& other) noexcept {
  std::swap(view_, other.view_);
  std::swap(device_, other.device_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceTensor::~DeviceTensor() {
  if (memory_ != nullptr) device_->device->free(address(memory_));
}

Result<void> DeviceTensor::upload(const TensorView& host, Stream stream) const {
  CODETTA_CHECK_OK(check_same(view_, host));
  if (bytes_ == 0) return {};
  const auto& device = *device_->device;
  CODETTA_CHECK_OK(
      device.upload(address(memory_), host.byte_range().first, static_cast<size_t>(bytes_), handle(stream)));
  return device.synchronize(handle(stream));
}

Result<void> DeviceTensor::download(const TensorView& host, Stream stream) const {
  CODETTA_CHECK_OK(check_same(view_, host));
  if (host.read_only()) {
    return diag::error(diag::Code::output_binding, "the copy's destination is read-only memory")
        .reason(host.describe() + " comes from const data, or from a library that does not let it be written")
        .help("copy into memory that may be written");
  }
  if (bytes_ == 0) return {};
  const auto& device = *device_->device;
  CODETTA_CHECK_OK(device.download(const_cast<std::byte*>(host.byte_range().first), address(memory_),
                                   static_cast<size_t>(bytes_), handle(stream)));
  return device.synchronize(handle(stream));
}

Result<void> DeviceTensor::fill_bytes(uint8_t value, Stream stream) const {
  if (bytes_ == 0) return {};
  return device_->device->fill(address(memory_), value, static_cast<size_t>(bytes_), handle(stream));
}

Result<DeviceStream> DeviceStream::make(const Device& device) {
  if (!device.state_) return driver::no_device();
  CODETTA_TRY(runtime::cuda::OwnedStream made, runtime::cuda::OwnedStream::make(driver::DeviceAccess::of(device)));
  DeviceStream stream;
  stream.state_ = std::make_shared<const driver::StreamState>(driver::StreamState{std::move(made)});
  return stream;
}

Stream DeviceStream::get() const { return state_ ? Stream::from_cuda(state_->stream.get()) : Stream(); }
Result<void> DeviceStream::synchronize() const {
  if (!state_) return driver::nothing_held("stream", "DeviceStream::make");
  return state_->stream.device()->synchronize(state_->stream.get());
}

}  // namespace codetta
