// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/stream.hpp"

#include <fmt/format.h>

namespace codetta::runtime::cuda {

Result<OwnedStream> OwnedStream::make(DeviceRef device) {
  CODETTA_TRY(const ContextGuard guard, device->enter());
  const Driver& driver = device->driver();
  StreamHandle handle = nullptr;
  CODETTA_CUDA(driver, "cuStreamCreate", fmt::format("device = {}", device->facts().ordinal),
               driver.call().stream_create(&handle, stream_non_blocking));
  return OwnedStream(std::move(device), handle);
}

OwnedStream::~OwnedStream() {
  if (handle_ == nullptr) return;
  if (const auto guard = device_->enter()) (void)device_->driver().call().stream_destroy(handle_);
}

Result<OwnedGraph> OwnedGraph::capture(const OwnedStream& stream,
                                       const std::function<Result<void>(StreamHandle)>& enqueue) {
  const DeviceRef& device = stream.device();
  CODETTA_TRY(const ContextGuard guard, device->enter());
  const Driver& driver = device->driver();
  const DriverTable& call = driver.call();
  const std::string which = fmt::format("stream = {}", static_cast<const void*>(stream.get()));
  CODETTA_CUDA(driver, "cuStreamBeginCapture", which,
               call.stream_begin_capture(stream.get(), capture_mode_thread_local));
  const Result<void> enqueued = enqueue(stream.get());
  GraphHandle graph = nullptr;
  const Status ended = call.stream_end_capture(stream.get(), &graph);
  GraphExecHandle executable = nullptr;
  Status made = Status::Success;
  if (graph != nullptr) {
    if (enqueued && ended == Status::Success) made = call.graph_instantiate(&executable, graph, 0);
    (void)call.graph_destroy(graph);
  }
  if (!enqueued) return enqueued.error();
  CODETTA_CUDA(driver, "cuStreamEndCapture", which, ended);
  CODETTA_CUDA(driver, "cuGraphInstantiateWithFlags", which, made);
  return OwnedGraph(device, executable);
}

OwnedGraph::~OwnedGraph() {
  if (handle_ == nullptr) return;
  if (const auto guard = device_->enter()) (void)device_->driver().call().graph_exec_destroy(handle_);
}

Result<void> OwnedGraph::launch(StreamHandle stream) const {
  CODETTA_TRY(const ContextGuard guard, device_->enter());
  const Driver& driver = device_->driver();
  CODETTA_CUDA(driver, "cuGraphLaunch", fmt::format("stream = {}", static_cast<const void*>(stream)),
               driver.call().graph_launch(handle_, stream));
  return {};
}

Result<OwnedEvent> OwnedEvent::make(DeviceRef device, unsigned flags) {
  CODETTA_TRY(const ContextGuard guard, device->enter());
  const Driver& driver = device->driver();
  EventHandle handle = nullptr;
  CODETTA_CUDA(driver, "cuEventCreate", fmt::format("device = {}", device->facts().ordinal),
               driver.call().event_create(&handle, flags));
  return OwnedEvent(std::move(device), handle);
}

OwnedEvent::~OwnedEvent() {
  if (handle_ == nullptr) return;
  if (const auto guard = device_->enter()) (void)device_->driver().call().event_destroy(handle_);
}

Result<void> OwnedEvent::record(StreamHandle stream) const {
  CODETTA_TRY(const ContextGuard guard, device_->enter());
  const Driver& driver = device_->driver();
  CODETTA_CUDA(driver, "cuEventRecord", fmt::format("stream = {}", static_cast<const void*>(stream)),
               driver.call().event_record(handle_, stream));
  return {};
}

Result<void> OwnedEvent::synchronize() const {
  CODETTA_TRY(const ContextGuard guard, device_->enter());
  const Driver& driver = device_->driver();
  CODETTA_CUDA(driver, "cuEventSynchronize", "", driver.call().event_synchronize(handle_));
  return {};
}

Result<double> OwnedEvent::milliseconds_since(const OwnedEvent& start) const {
  CODETTA_TRY(const ContextGuard guard, device_->enter());
  const Driver& driver = device_->driver();
  float milliseconds = 0;
  CODETTA_CUDA(driver, "cuEventElapsedTime", "",
               driver.call().event_elapsed_time(&milliseconds, start.handle_, handle_));
  return static_cast<double>(milliseconds);
}

}  // namespace codetta::runtime::cuda
