// SPDX-License-Identifier: Apache-2.0
// One GPU: its facts, its primary context, and what lives in it: memory, streams, events, modules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "codetta/tensor.hpp"
#include "runtime/cuda/driver.hpp"

namespace codetta::runtime::cuda {

struct DeviceFacts {
  int ordinal = 0;
  std::string name;  // "NVIDIA H100 80GB HBM3"
  std::string uuid;  // "GPU-8f1b...": as nvidia-smi prints it
  int major = 0, minor = 0;
  std::string arch;  // "sm_90a", "gfx942": what kernels for this device are compiled for
  int multiprocessors = 0;
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
  double memory_bandwidth = 0;  // bytes a second: 2 x memory clock x bus width / 8, the datasheet's figure
  int64_t memory_bytes = 0, l2_bytes = 0;
  int shared_per_block = 0, shared_per_block_optin = 0, shared_per_multiprocessor = 0, reserved_shared_per_block = 0;
  int registers_per_multiprocessor = 0, threads_per_multiprocessor = 0, threads_per_block = 0;
  int64_t max_grid[3] = {}, max_block[3] = {};
  int64_t most_grid_threads = 0;  // in a grid's first dim; 0: what its blocks and their threads allow
  int64_t max_window_bytes = 0;   // of L2, for one launch
  bool clusters = false, tensor_maps = false, cooperative = false;
  int driver_version = 0;
};

// The architecture that kernels for a compute capability are compiled for: the exact one where the
// architecture-specific instructions need it (9.0 -> sm_90a), else the plain one (8.9 -> sm_89).
std::string arch_of(int major, int minor);

// Makes a context (HIP: a device) current on this thread and puts the former one back, on every path.
class ContextGuard {
 public:
  ContextGuard(ContextGuard&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)) {}
  ContextGuard& operator=(ContextGuard&&) = delete;
  ~ContextGuard();

 private:
  friend class Device;
  explicit ContextGuard(const Driver* pushed) : driver_(pushed) {}
  const Driver* driver_;  // nullptr: it was current already
};

// While it lives, this thread may load modules and allocate although some stream of the process is being captured, and
// the capture stays valid (it must not use what is allocated here before the capture ends).
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture();

 private:
  const Driver& driver_;
  int mode_ = capture_mode_relaxed;
  bool exchanged_ = false;
};

// Where a pointer lies. `device` is -1 for memory that the driver does not know (ordinary host memory).
struct PointerPlace {
  enum class Kind : uint8_t { Unknown, Host, Device, Managed } kind = Kind::Unknown;
  int device = -1;
};

// Thread safe; shared. Holds the primary context, which is what the CUDA runtime uses too.
class Device {
 public:
  // Errors: E0642 no such ordinal, E0647 and its kin.
  static Result<std::shared_ptr<const Device>> open(DriverRef driver, int ordinal);
  static Result<int> count(const Driver& driver);
  // DeviceFacts::arch of the device, without opening it. Errors: E0647 and its kin.
  static Result<std::string> architecture(const Driver& driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const Driver& driver() const { return *driver_; }
  [[nodiscard]] const DeviceFacts& facts() const { return facts_; }
  [[nodiscard]] ContextHandle context() const { return context_; }
  // Errors: E0645.
  [[nodiscard]] Result<ContextGuard> enter() const;

  // Device memory, 256-byte aligned by the driver. Errors: E0643. Freeing ignores failures (a lost context has none).
  [[nodiscard]] Result<DeviceAddress> allocate(size_t bytes) const;
  void free(DeviceAddress address) const;
  // Host memory that every device reads and writes at the same address, and what gives it back.
  [[nodiscard]] Result<void*> allocate_host(size_t bytes) const;
  void free_host(void* memory) const;
  // Enqueue only. Host memory that is not pinned makes the copy wait for its turn on the host.
  Result<void> upload(DeviceAddress to, const void* from, size_t bytes, StreamHandle stream) const;
  Result<void> download(void* to, DeviceAddress from, size_t bytes, StreamHandle stream) const;
  Result<void> copy(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream) const;
  // Into memory of this device on its stream, from that of another one (or of this), whether they reach each other or
  // not.
  Result<void> copy_from(const Device& other, DeviceAddress to, DeviceAddress from, size_t bytes,
                         StreamHandle stream) const;
  // What is enqueued on the stream from now on begins behind what the event of any device has recorded.
  Result<void> wait(StreamHandle stream, EventHandle event) const;
  // Lets this device read memory of the other one directly, where the driver can: copies are right without, and slower.
  // Captures of streams stay valid; done once for each other device.
  void reach(const Device& other) const;
  Result<void> fill(DeviceAddress to, unsigned char value, size_t bytes, StreamHandle stream) const;
  [[nodiscard]] Result<PointerPlace> place_of(const void* pointer) const;
  [[nodiscard]] Result<std::pair<int64_t, int64_t>> memory() const;  // free and total bytes

  // Errors: E0645 for a stream of another context.
  Result<void> check_stream(StreamHandle stream) const;
  Result<void> synchronize(StreamHandle stream) const;
  Result<void> synchronize() const;
  // Whether this stream is being captured; for the default stream, whether any blocking stream of the context is.
  [[nodiscard]] Result<bool> capturing(StreamHandle stream) const;

 private:
  Device() = default;
  Result<void> read_facts();
  DriverRef driver_;
  DeviceId id_ = 0;
  ContextHandle context_ = nullptr;
  DeviceFacts facts_;
  mutable std::mutex mutex_;
  mutable std::set<DeviceId> reached_;  // or asked for
};
using DeviceRef = std::shared_ptr<const Device>;

// What the driver says about a loaded kernel.
struct FunctionFacts {
  int registers = 0;
  int local_bytes = 0;    // stack and spills, per thread
  int static_shared = 0;  // bytes
  int max_threads = 0;    // per block
};

// A kernel of a loaded module. Lives as long as its module.
struct Function {
  FunctionHandle handle = nullptr;
  FunctionFacts facts;
};

// A cubin loaded into one device's context. Thread safe. Loading and unloading leave captures of other streams valid.
class Module {
 public:
  // Errors: E0430 other architecture, E0508 damaged, E0641 driver too old.
  static Result<std::shared_ptr<const Module>> load(DeviceRef device, std::string_view image, const std::string& label);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  [[nodiscard]] const DeviceRef& device() const { return device_; }
  [[nodiscard]] std::string_view image() const { return image_; }
  // Looks the kernel up, allows it `dynamic_shared` bytes and (with `clusters` above 8) large clusters, reads its facts
  // back. Errors: E0509 no such kernel, E0650 more shared memory than the device allows.
  [[nodiscard]] Result<Function> function(const std::string& name, int dynamic_shared, int cluster_size) const;

 private:
  Module() = default;
  DeviceRef device_;
  std::vector<ModuleHandle> handles_;  // of the image's files, in turn
  std::string label_, image_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, int> allowed_shared_;  // by kernel; only ever raised, since kernels may be running
};
using ModuleRef = std::shared_ptr<const Module>;

// Device memory with an owner. The device outlives it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // From `allocator` (called with the context current) where one is given; it outlives the buffer. Errors: E0643. A
  // capture of a stream stays valid.
  static Result<DeviceBuffer> make(DeviceRef device, size_t bytes, Allocator* allocator = nullptr);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();
  [[nodiscard]] DeviceAddress address() const { return address_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    std::swap(allocator_, other.allocator_);
  }
  Allocator* allocator_ = nullptr;
  DeviceRef device_;
  DeviceAddress address_ = 0;
  size_t bytes_ = 0;
};

}  // namespace codetta::runtime::cuda
