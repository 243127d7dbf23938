// SPDX-License-Identifier: Apache-2.0
// Streams and events with an owner.
#pragma once

#include <functional>

#include "runtime/cuda/device.hpp"

namespace codetta::runtime::cuda {

// A stream of a device's primary context that does not wait for the legacy default stream. Move-only.
class OwnedStream {
 public:
  static Result<OwnedStream> make(DeviceRef device);
  OwnedStream(OwnedStream&& other) noexcept
      : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}
  OwnedStream& operator=(OwnedStream&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~OwnedStream();  // what was enqueued still runs
  [[nodiscard]] StreamHandle get() const { return handle_; }
  [[nodiscard]] const DeviceRef& device() const { return device_; }

 private:
  OwnedStream(DeviceRef device, StreamHandle handle) : device_(std::move(device)), handle_(handle) {}
  DeviceRef device_;
  StreamHandle handle_;
};

// What was captured from a stream, to be launched again and again. Move-only. The tensors, workspaces and modules of
// what was captured must live as long.
class OwnedGraph {
 public:
  // Captures what `enqueue` enqueues on the stream; ends the capture on every path. Errors: those of `enqueue`, E0646.
  static Result<OwnedGraph> capture(const OwnedStream& stream,
                                    const std::function<Result<void>(StreamHandle)>& enqueue);
  OwnedGraph(OwnedGraph&& other) noexcept
      : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}
  OwnedGraph& operator=(OwnedGraph&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~OwnedGraph();
  Result<void> launch(StreamHandle stream) const;

 private:
  OwnedGraph(DeviceRef device, GraphExecHandle handle) : device_(std::move(device)), handle_(handle) {}
  DeviceRef device_;
  GraphExecHandle handle_;
};

// An event that takes times, or one that only orders streams, which costs them less. Move-only.
class OwnedEvent {
 public:
  static Result<OwnedEvent> make(DeviceRef device, unsigned flags = 0);
  static Result<OwnedEvent> ordering(DeviceRef device) { return make(std::move(device), event_disable_timing); }
  OwnedEvent(OwnedEvent&& other) noexcept
      : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}
  OwnedEvent& operator=(OwnedEvent&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~OwnedEvent();
  [[nodiscard]] EventHandle get() const { return handle_; }
  Result<void> record(StreamHandle stream) const;
  Result<void> synchronize() const;
  // Milliseconds from `start` to this one; both must have happened. Resolution about 0.5 us.
  [[nodiscard]] Result<double> milliseconds_since(const OwnedEvent& start) const;

 private:
  OwnedEvent(DeviceRef device, EventHandle handle) : device_(std::move(device)), handle_(handle) {}
  DeviceRef device_;
  EventHandle handle_;
};

}  // namespace codetta::runtime::cuda
