// SPDX-License-Identifier: Apache-2.0
// GPUs, their memory and streams: what is needed to run kernels on one without the vendor's runtime. Whoever has device
// memory and streams already (of cudaMalloc, of hipMalloc, of a framework) needs none of this: TensorView and Stream
// take their pointers as they are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "codetta/kernel.hpp"

namespace codetta {

namespace driver {  // implementation, not for users
struct DeviceMemory;
struct DeviceAccess;
struct StreamState;
}  // namespace driver

// A device as its driver describes it.
struct DeviceInfo {
  int ordinal = 0;          // among those that this process sees (CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES)
  std::string name;         // "NVIDIA H100 80GB HBM3"
  std::string uuid;         // "GPU-8f1b...", as nvidia-smi prints it
  std::string arch;         // "sm_90a", "gfx942": what kernels for it are compiled for
  int driver = 0;           // version of the driver or runtime: 13000 = CUDA 13.0, 60300000 = HIP 6.3
  int multiprocessors = 0;  // AMD: compute units, on RDNA work-group processors of two
  int64_t memory_bytes = 0, l2_bytes = 0;
  double memory_bandwidth = 0;  // bytes a second, the datasheet's figure
};

// How many devices this process sees: NVIDIA's, or those of `backend`, cuda or hip. Errors: E0640 (no driver), E0641
// (too old), E0654 (no HIP runtime, or too old), E0642 (it finds none); E0403 for a backend without devices.
CODETTA_API Result<int> device_count(Context& context = Context::process_default());
CODETTA_API Result<int> device_count(Backend backend, Context& context = Context::process_default());

// For the `codetta` command alone, in which a tuning lets kernels run on a GPU for the first time
// (ContextOptions::command): runs what comes over `socket` until the other side closes it. 0, or 1 where it ended
// early.
CODETTA_API int serve_trials(int socket);

// A device with its primary context, which is what the vendor's runtime uses too. Cheap to copy (shared); thread safe.
// The context of the calling thread is left as it was by every function. A default-made one holds nothing: its info is
// empty, everything else, with what is made on it, is E0608.
class CODETTA_API Device {
 public:
  // The device that the context's kernels run on (ContextOptions::device): NVIDIA's, or that of `backend`, cuda or hip.
  // Errors: E0640 to E0642, E0654 (hip), E0647; E0403 for a backend without devices.
  static Result<Device> open(Context& context = Context::process_default());
  static Result<Device> open(Backend backend, Context& context = Context::process_default());
  // The one that a program over several has in this place, from 0 (ContextOptions::devices): where tensors of its
  // parameters with ProgramParameter::device `place` lie. Errors: likewise.
  static Result<Device> open(Backend backend, uint32_t place, Context& context);
  [[nodiscard]] const DeviceInfo& info() const;
  // Free bytes of its memory now. Errors: E0644, E0647.
  [[nodiscard]] Result<int64_t> free_bytes() const;
  // Waits for all work of this process on the device, or on one stream. Errors: E0644 (a kernel has failed), E0645,
  // E0646 (the stream is being captured), E0647. Nothing that waits for a whole device may run while another thread
  // captures a stream of it: this without a stream, verify(), tuning, and what measures kernels. NVIDIA's driver
  // 580.159 has crashed in cuCtxSynchronize then. Wait for a stream, or an event, meanwhile.
  Result<void> synchronize() const;
  Result<void> synchronize(Stream stream) const;

 private:
  friend struct driver::DeviceAccess;
  friend class DeviceTensor;
  friend class DeviceStream;
  std::shared_ptr<const driver::DeviceMemory> state_;
};

// A tensor in device memory that it owns. Move-only; freed when it goes, which must be after all work that uses it.
// Functions with a stream enqueue on it; different objects may be used from different threads.
class CODETTA_API DeviceTensor {
 public:
  DeviceTensor() = default;
  // Row-major, 256-byte aligned, of any content. Errors: E0602, E0603, E0643 (out of device memory).
  static Result<DeviceTensor> make(const Device& device, DType dtype, const Dims& shape);
  // A copy of host memory with the same shape and the same strides: the bytes from the first to the last element of the
  // view, as they lie. The host memory may be changed when it returns. Errors: E0643, E0644, E0647.
  static Result<DeviceTensor> copy_of(const Device& device, const TensorView& host);
  DeviceTensor(DeviceTensor&&) noexcept;
  DeviceTensor& operator=(DeviceTensor&&) noexcept;
  ~DeviceTensor();

  [[nodiscard]] const TensorView& view() const { return view_; }  // its pointer is of the device
  operator const TensorView&() const { return view_; }            // NOLINT(google-explicit-constructor)
  [[nodiscard]] void* data() const { return view_.data(); }
  [[nodiscard]] int64_t byte_size() const { return bytes_; }

  // Copies between this tensor and host memory of the same dtype, shape and strides. They are ordered on the stream,
  // and return when the host memory may be changed or read. Errors: E0212 (another shape or strides), E0213 (dtype),
  // E0644 to E0647; a download into read-only memory is E0213.
  Result<void> upload(const TensorView& host, Stream stream = {}) const;
  Result<void> download(const TensorView& host, Stream stream = {}) const;
  // Sets every byte; enqueues only. Errors: E0644, E0645, E0647.
  Result<void> fill_bytes(uint8_t value, Stream stream = {}) const;

 private:
  TensorView view_{};
  std::shared_ptr<const driver::DeviceMemory> device_;
  void* memory_ = nullptr;
  int64_t bytes_ = 0;
};

// A stream of a device, with an owner; it does not wait for the default stream. Cheap to copy (shared); gone with the
// last copy, when what was enqueued still runs. A default-made one is the default stream; to wait for it is E0608.
class CODETTA_API DeviceStream {
 public:
  // Errors: E0644, E0647.
  static Result<DeviceStream> make(const Device& device);
  [[nodiscard]] Stream get() const;
  operator Stream() const { return get(); }  // NOLINT(google-explicit-constructor)
  // Errors: as Device::synchronize.
  Result<void> synchronize() const;

 private:
  std::shared_ptr<const driver::StreamState> state_;
};

}  // namespace codetta
