// SPDX-License-Identifier: Apache-2.0
// Devices and their memory.
#include "runtime/cuda/device.hpp"

#include <fmt/format.h>

#include <array>

#include "device/host/peers.h"

namespace codetta::runtime::cuda {

namespace {

std::string uuid_text(const Uuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

}  // namespace

std::string arch_of(int major, int minor) { return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : ""); }

ContextGuard::~ContextGuard() {
  if (driver_ == nullptr) return;
  ContextHandle popped = nullptr;
  (void)driver_->call().context_pop(&popped);
}

RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(driver) {
  exchanged_ = driver_.call().exchange_capture_mode(&mode_) == Status::Success;
}
RelaxedCapture::~RelaxedCapture() {
  if (exchanged_) (void)driver_.call().exchange_capture_mode(&mode_);
}

Result<int> Device::count(const Driver& driver) {
  int count = 0;
  CODETTA_CUDA(driver, "cuDeviceGetCount", "", driver.call().device_get_count(&count));
  return count;
}

Result<std::string> Device::architecture(const Driver& driver, int ordinal) {
  const DriverTable& call = driver.call();
  const std::string which = fmt::format("device = {}", ordinal);
  DeviceId id = 0;
  CODETTA_CUDA(driver, "cuDeviceGet", which, call.device_get(&id, ordinal));
  if (driver.api() == Api::Hip) {
    std::array<char, 256> name{};
    CODETTA_CUDA(driver, "hipGetDeviceProperties", which, call.device_architecture(name.data(), name.size(), id));
    const std::string_view text = name.data();
    return std::string(text.substr(0, text.find(':')));  // without the modes it runs in: code objects serve either
  }
  int major = 0, minor = 0;
  CODETTA_CUDA(driver, "cuDeviceGetAttribute", which, call.device_get_attribute(&major, device_capability_major, id));
  CODETTA_CUDA(driver, "cuDeviceGetAttribute", which, call.device_get_attribute(&minor, device_capability_minor, id));
  return arch_of(major, minor);
}

Result<std::shared_ptr<const Device>> Device::open(DriverRef driver, int ordinal) {
  CODETTA_TRY(const int devices, count(*driver));
  if (ordinal < 0 || ordinal >= devices) {
    const bool hip = driver->api() == Api::Hip;
    return diag::error(diag::Code::device_missing,
                       fmt::format("there is no {} device {}", hip ? "HIP" : "CUDA", ordinal))
        .reason(devices == 0   ? std::string("the driver sees no device")
                : devices == 1 ? std::string("the driver sees one device, which is 0")
                               : fmt::format("the driver sees the devices 0 to {}", devices - 1))
        .help(hip ? "check `rocminfo` and HIP_VISIBLE_DEVICES, which hides and renumbers devices"
                  : "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, which hides and renumbers devices");
  }
  std::shared_ptr<Device> device(new Device);
  device->driver_ = std::move(driver);
  device->facts_.ordinal = ordinal;
  const Driver& d = *device->driver_;
  CODETTA_CUDA(d, "cuDeviceGet", fmt::format("ordinal = {}", ordinal), d.call().device_get(&device->id_, ordinal));
  CODETTA_CHECK_OK(device->read_facts());
  CODETTA_CUDA(d, "cuDevicePrimaryCtxRetain", fmt::format("device = {}", ordinal),
               d.call().primary_retain(&device->context_, device->id_));
  return std::shared_ptr<const Device>(std::move(device));
}

Device::~Device() {
  if (context_ != nullptr) (void)driver_->call().primary_release(id_);
}

Result<void> Device::read_facts() {
  const DriverTable& call = driver_->call();
  const std::string which = fmt::format("device = {}", facts_.ordinal);
  std::array<char, 256> name{};
  CODETTA_CUDA(*driver_, "cuDeviceGetName", which,
               call.device_get_name(name.data(), static_cast<int>(name.size()) - 1, id_));
  facts_.name = name.data();
  Uuid uuid{};
  CODETTA_CUDA(*driver_, "cuDeviceGetUuid", which, call.device_get_uuid(&uuid, id_));
  facts_.uuid = uuid_text(uuid);
  size_t memory = 0;
  CODETTA_CUDA(*driver_, "cuDeviceTotalMem", which, call.device_total_mem(&memory, id_));
  facts_.memory_bytes = static_cast<int64_t>(memory);
  int grid[3] = {}, block[3] = {}, cooperative = 0, window = 0, l2 = 0, clusters = 0, tensor_maps = 0;
  const std::pair<int, int*> wanted[] = {
      {device_capability_major, &facts_.major},
      {device_capability_minor, &facts_.minor},
      {device_multiprocessors, &facts_.multiprocessors},
      {device_clock_khz, &facts_.clock_khz},
      {device_memory_clock_khz, &facts_.memory_clock_khz},
      {device_memory_bus_bits, &facts_.memory_bus_bits},
      {device_l2_bytes, &l2},
      {device_shared_per_block, &facts_.shared_per_block},
      {device_shared_per_block_optin, &facts_.shared_per_block_optin},
      {device_shared_per_multiprocessor, &facts_.shared_per_multiprocessor},
      {device_reserved_shared_per_block, &facts_.reserved_shared_per_block},
      {device_registers_per_multiprocessor, &facts_.registers_per_multiprocessor},
      {device_max_threads_per_multiprocessor, &facts_.threads_per_multiprocessor},
      {device_max_threads_per_block, &facts_.threads_per_block},
      {device_max_grid_x, &grid[0]},
      {device_max_grid_y, &grid[1]},
      {device_max_grid_z, &grid[2]},
      {device_max_block_x, &block[0]},
      {device_max_block_y, &block[1]},
      {device_max_block_z, &block[2]},
      {device_cooperative_launch, &cooperative},
      {device_max_window_bytes, &window},
      {device_cluster_launch, &clusters},
      {device_tensor_maps, &tensor_maps},
  };
  for (const auto& [attribute, value] : wanted) {
    CODETTA_CUDA(*driver_, "cuDeviceGetAttribute", fmt::format("attribute = {}, {}", attribute, which),
                 call.device_get_attribute(value, attribute, id_));
  }
  for (int i = 0; i < 3; ++i) {
    facts_.max_grid[i] = grid[i];
    facts_.max_block[i] = block[i];
  }
  facts_.cooperative = cooperative != 0;
  facts_.max_window_bytes = window;
  facts_.l2_bytes = l2;
  facts_.clusters = clusters != 0;
  facts_.tensor_maps = tensor_maps != 0;
  facts_.arch = arch_of(facts_.major, facts_.minor);
  if (driver_->api() == Api::Hip) {
    CODETTA_TRY(facts_.arch, architecture(*driver_, facts_.ordinal));
    facts_.most_grid_threads = UINT32_MAX;
  }
  facts_.memory_bandwidth = 2.0 * 1000.0 * facts_.memory_clock_khz * facts_.memory_bus_bits / 8.0;
  facts_.driver_version = driver_->version();
  return {};
}

Result<ContextGuard> Device::enter() const {
  ContextHandle current = nullptr;
  CODETTA_CUDA(*driver_, "cuCtxGetCurrent", "", driver_->call().context_get_current(&current));
  if (current == context_) return ContextGuard(nullptr);
  CODETTA_CUDA(*driver_, "cuCtxPushCurrent", fmt::format("context of device {}", facts_.ordinal),
               driver_->call().context_push(context_));
  return ContextGuard(driver_.get());
}

Result<DeviceAddress> Device::allocate(size_t bytes) const {
  CODETTA_TRY(const ContextGuard guard, enter());
  DeviceAddress address = 0;
  CODETTA_CUDA(*driver_, "cuMemAlloc", fmt::format("bytes = {}, device = {}", bytes, facts_.ordinal),
               driver_->call().mem_alloc(&address, bytes));
  return address;
}

void Device::free(DeviceAddress address) const {
  if (address == 0) return;
  const auto guard = enter();
  if (!guard) return;
  const RelaxedCapture relaxed(*driver_);
  (void)driver_->call().mem_free(address);
}

Result<void*> Device::allocate_host(size_t bytes) const {
  constexpr unsigned portable_mapped = 1 | 2;  // CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
  CODETTA_TRY(const ContextGuard guard, enter());
  void* memory = nullptr;
  CODETTA_CUDA(*driver_, "cuMemHostAlloc", fmt::format("bytes = {}", bytes),
               driver_->call().mem_host_alloc(&memory, bytes, portable_mapped));
  return memory;
}

void Device::free_host(void* memory) const {
  const auto guard = enter();
  if (!guard) return;
  const RelaxedCapture relaxed(*driver_);
  (void)driver_->call().mem_host_free(memory);
}

Result<void> Device::upload(DeviceAddress to, const void* from, size_t bytes, StreamHandle stream) const {
  if (bytes == 0) return {};
  CODETTA_TRY(const ContextGuard guard, enter());
  CODETTA_CUDA(*driver_, "cuMemcpyHtoDAsync", fmt::format("to = {:#x}, bytes = {}", to, bytes),
               driver_->call().copy_to_device(to, from, bytes, stream));
  return {};
}

Result<void> Device::download(void* to, DeviceAddress from, size_t bytes, StreamHandle stream) const {
  if (bytes == 0) return {};
  CODETTA_TRY(const ContextGuard guard, enter());
  CODETTA_CUDA(*driver_, "cuMemcpyDtoHAsync", fmt::format("from = {:#x}, bytes = {}", from, bytes),
               driver_->call().copy_to_host(to, from, bytes, stream));
  return {};
}

Result<void> Device::copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream) const {
  if (bytes == 0) return {};
  CODETTA_TRY(const ContextGuard guard, enter());
  CODETTA_CUDA(*driver_, "cuMemcpyDtoDAsync", fmt::format("to = {:#x}, from = {:#x}, bytes = {}", to, from, bytes),
               driver_->call().copy_on_device(to, from, bytes, stream));
  return {};
}

Result<void> Device::copy_from(const Device& other, DeviceAddress to, DeviceAddress from, size_t bytes,
                               StreamHandle stream) const {
  if (bytes == 0) return {};
  CODETTA_TRY(const ContextGuard guard, enter());
  CODETTA_CUDA(*driver_, "cuMemcpyAsync",
               fmt::format("to = {:#x} of device {}, from = {:#x} of device {}, bytes = {}", to, facts_.ordinal, from,
                           other.facts_.ordinal, bytes),
               driver_->call().copy_between(to, from, bytes, stream));
  return {};
}

Result<void> Device::wait(StreamHandle stream, EventHandle event) const {
  CODETTA_TRY(const ContextGuard guard, enter());
  CODETTA_CUDA(*driver_, "cuStreamWaitEvent",
               fmt::format("stream = {}, device = {}", static_cast<const void*>(stream), facts_.ordinal),
               driver_->call().stream_wait_event(stream, event, 0));
  return {};
}

void Device::reach(const Device& other) const {
  if (other.id_ == id_) return;
  const std::lock_guard lock(mutex_);
  if (reached_.contains(other.id_)) return;
  const auto guard = enter();
  if (!guard) return;
  const RelaxedCapture relaxed(*driver_);
  int can = 0;
  if (driver_->call().can_access_peer(&can, id_, other.id_) != Status::Success) return;
  // What has failed may succeed the next time; who can not reach the other one never will.
  if (can == 0 || cuda_driver::is_reached(driver_->call().enable_peer(other.context_, 0))) reached_.insert(other.id_);
}

Result<void> Device::fill(DeviceAddress to, unsigned char value, size_t bytes, StreamHandle stream) const {
  if (bytes == 0) return {};
  CODETTA_TRY(const ContextGuard guard, enter());
  CODETTA_CUDA(*driver_, "cuMemsetD8Async", fmt::format("to = {:#x}, bytes = {}", to, bytes),
               driver_->call().memset_8(to, value, bytes, stream));
  return {};
}

Result<PointerPlace> Device::place_of(const void* pointer) const {
  CODETTA_TRY(const ContextGuard guard, enter());
  unsigned type = 0, managed = 0;  // the driver writes a byte for a boolean
  int ordinal = -1;
  int attributes[] = {pointer_memory_type, pointer_is_managed, pointer_device_ordinal};
  void* values[] = {&type, &managed, &ordinal};
  // This form of the query succeeds for memory that the driver does not know, and writes zeros then.
  CODETTA_CUDA(*driver_, "cuPointerGetAttributes", fmt::format("address = {}", pointer),
               driver_->call().pointer_get_attributes(3, attributes, values, reinterpret_cast<uintptr_t>(pointer)));
  PointerPlace place;
  if (type == 0) return place;
  place.device = ordinal;
  place.kind = managed != 0               ? PointerPlace::Kind::Managed
               : type == memory_type_host ? PointerPlace::Kind::Host
                                          : PointerPlace::Kind::Device;
  return place;
}

Result<std::pair<int64_t, int64_t>> Device::memory() const {
  CODETTA_TRY(const ContextGuard guard, enter());
  size_t free_bytes = 0, total = 0;
  CODETTA_CUDA(*driver_, "cuMemGetInfo", "", driver_->call().mem_get_info(&free_bytes, &total));
  return std::pair{static_cast<int64_t>(free_bytes), static_cast<int64_t>(total)};
}

Result<void> Device::check_stream(StreamHandle stream) const {
  if (stream == nullptr) return {};
  ContextHandle owner = nullptr;
  CODETTA_CUDA(*driver_, "cuStreamGetCtx", fmt::format("stream = {}", static_cast<const void*>(stream)),
               driver_->call().stream_get_context(stream, &owner));
  if (owner == context_) return {};
  return diag::error(diag::Code::context_wrong, "the stream or memory belongs to another context")
      .reason(fmt::format("the stream {} is not of {}device {}", static_cast<const void*>(stream),
                          driver_->api() == Api::Hip ? "" : "the primary context of ", facts_.ordinal))
      .help(driver_->api() == Api::Hip
                ? "pass streams and tensors that are alive and of the same device"
                : "pass streams and tensors of the device's primary context (what the CUDA runtime uses), alive and of "
                  "the same device");
}

Result<void> Device::synchronize(StreamHandle stream) const {
  CODETTA_TRY(const ContextGuard guard, enter());
  CODETTA_CUDA(*driver_, "cuStreamSynchronize", fmt::format("stream = {}", static_cast<const void*>(stream)),
               driver_->call().stream_synchronize(stream));
  return {};
}

Result<void> Device::synchronize() const {
  CODETTA_TRY(const ContextGuard guard, enter());
  CODETTA_CUDA(*driver_, "cuCtxSynchronize", "", driver_->call().context_synchronize());
  return {};
}

Result<bool> Device::capturing(StreamHandle stream) const {
  CODETTA_TRY(const ContextGuard guard, enter());
  int capture = capture_status_none;
  const Status status = driver_->call().stream_is_capturing(stream, &capture);
  if (stream == nullptr && status == Status::CaptureImplicit) return true;
  CODETTA_CUDA(*driver_, "cuStreamIsCapturing", fmt::format("stream = {}", static_cast<const void*>(stream)), status);
  return capture != capture_status_none;
}

namespace {
constexpr size_t memory_alignment = 256;  // what the driver's own allocations have
}

Result<DeviceBuffer> DeviceBuffer::make(DeviceRef device, size_t bytes, Allocator* allocator) {
  DeviceBuffer buffer;
  if (bytes != 0 && allocator == nullptr) {
    const RelaxedCapture relaxed(device->driver());
    CODETTA_TRY(buffer.address_, device->allocate(bytes));
  } else if (bytes != 0) {
    CODETTA_TRY(const ContextGuard guard, device->enter());
    const RelaxedCapture relaxed(device->driver());
    void* memory = allocator->allocate(bytes, memory_alignment);
    if (memory == nullptr) {
      return diag::error(diag::Code::device_memory, "the device has not enough memory")
          .reason(fmt::format("the allocator of the context gave none: bytes = {}, device = {}", bytes,
                              device->facts().ordinal))
          .help("free tensors, use smaller ones, or pass a workspace of your own");
    }
    buffer.address_ = reinterpret_cast<uintptr_t>(memory);
    buffer.allocator_ = allocator;
  }
  buffer.bytes_ = bytes;
  buffer.device_ = std::move(device);
  return buffer;
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ == 0) return;
  if (allocator_ == nullptr) {
    device_->free(address_);
  } else if (const auto guard = device_->enter()) {
    const RelaxedCapture relaxed(device_->driver());
    allocator_->free(reinterpret_cast<void*>(address_), bytes_, memory_alignment);
  }
}

}  // namespace codetta::runtime::cuda
