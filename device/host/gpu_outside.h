// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text for a GPU includes where a program calls functions of the caller's, which enqueue on its
// stream, or takes a size from device memory.
#pragma once

#include "device/host/externs.h"
#include "device/host/gpu.h"

namespace codetta::host {

inline Status not_captured(const GpuFrame& frame, const char* why, const char* name) {
  if (!is_captured(frame.here->stream)) return ok;
  return fail(bad_argument, "E0646: a call whose sizes are found in it can not be captured: %s %s", name, why);
}

// Every tensor says the stream as its owner (codetta/extern.h). What a function allocates lives for the call only.
inline Status call_extern(const GpuFrame& frame, const Extern& one, ExternTensor* inputs, int input_count,
                          ExternTensor* outputs, int output_count, bool allocates) {
  if (allocates) CODETTA_OK(not_captured(frame, "allocates what the steps behind it use", one.name));
  for (int i = 0; i < input_count; ++i) inputs[i].owner = frame.here->stream;
  for (int i = 0; i < output_count; ++i) outputs[i].owner = frame.here->stream;
  return call_extern(one, inputs, input_count, outputs, output_count);
}

// The integer that a tensor of one element holds when all work in front of it is done. Waits for the stream.
inline Status read_computed(const GpuFrame& frame, const View& view, i64& value) {
  char bytes[8] = {};
  CODETTA_GPU("reading a size",
              gpu_library.calls.copy_out(bytes, reinterpret_cast<DeviceAddress>(view.data),
                                         static_cast<size_t>(dtype_bytes(view.dtype)), frame.here->stream));
  CODETTA_GPU("waiting for the stream", gpu_library.calls.stream_wait(frame.here->stream));
  View here;
  here.data = bytes;
  here.dtype = view.dtype;
  value = integer_in(here);
  return ok;
}

// The steps behind a size that the call has computed: measured now, and enqueued over memory of the library's own.
template <class Steps>
Status run_rest(const GpuFrame& before, const Steps& steps) {
  GpuFrame frame;
  frame.views = before.views;
  frame.scalars = before.scalars;
  frame.unit = gpu_alignment;
  frame.here = before.here;
  frame.launches = before.launches;
  frame.fault = before.fault;
  if (const Status bad = steps(frame)) return bad;
  const i64 bytes = frame.bytes();
  GpuBlock own;
  if (bytes != 0) CODETTA_OK(take_block(*frame.here, bytes, own));
  frame.memory = own.memory;
  frame.running = true;
  Status status = clear_counters(frame);
  if (status == ok) status = steps(frame);
  put_block(*frame.here, own);
  return status;
}

// Of a call whose first part has run. spent: that has written over what it reads, or called functions of the caller's,
// so that no other kernels may begin the call anew, however tensors lie.
inline Status begun(Status status, bool spent) {
  if (spent) unaligned = false;
  return status;
}

// The integer that a tensor of one element of the caller's holds. Waits for the stream while sizes are measured; what
// they are is kept, whoever writes there meanwhile.
inline Status read_integer(const GpuFrame& frame, const View& view, const char* name, i64& value) {
  if (frame.running) return ok;
  if (frame.sizes_only)
    return fail(bad_sizes,
                "E0610: how large the workspace is depends on %s, which lies in device memory; pass no workspace, and "
                "the library takes its own",
                name);
  CODETTA_OK(not_captured(frame, "is a size that is read from device memory", name));
  return read_computed(frame, view, value);
}

}  // namespace codetta::host
