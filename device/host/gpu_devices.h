// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text for a GPU includes where a program uses several devices (devices_here.h): their frames,
// copies between them, and what a library does when it begins and ends. Libraries of one device include nothing of
// this.
#pragma once

#include "device/host/devices_here.h"

namespace codetta::host {

// ---- calls ----
struct DevicePart {
  GpuFrame frame;
  GpuBlock own;
};
// The frame of the device that steps are at; those of the others wait in `parts`.
struct DevicesFrame : GpuFrame {
  DevicesHere* devices = nullptr;
  DevicePart* parts = nullptr;
  i32 device = 0;

  DevicesFrame() = default;
  DevicesFrame(const DevicesFrame&) = delete;
  DevicesFrame& operator=(const DevicesFrame&) = delete;
  ~DevicesFrame() { free(parts); }

  Status make(DevicesHere& of) {
    devices = &of;
    parts = static_cast<DevicePart*>(calloc(static_cast<size_t>(of.count), sizeof(DevicePart)));
    if (parts == nullptr) return fail(no_memory, "E0606: no memory for the devices of a call");
    for (i32 d = 0; d < of.count; ++d) {
      parts[d].frame = GpuFrame();
      parts[d].own = GpuBlock();
      parts[d].frame.unit = gpu_alignment;
      parts[d].frame.here = &of.at[d];
    }
    return ok;
  }
  GpuFrame& of(i32 d) { return d == device ? *this : parts[d].frame; }
};

// Steps are those of this device from here on.
inline Status at_device(DevicesFrame& frame, i32 device) {
  if (frame.device != device) {
    frame.parts[frame.device].frame = frame;
    static_cast<GpuFrame&>(frame) = frame.parts[device].frame;
    frame.device = device;
  }
  return frame.devices->to(device);
}
inline void begin_devices(DevicesFrame& frame) {
  for (i32 d = 0; d < frame.devices->count; ++d) frame.of(d).placed = 0;
}
struct DeviceMarks {
  i64 placed[most_devices];
};
inline DeviceMarks marks_of(DevicesFrame& frame) {
  DeviceMarks marks;
  for (i32 d = 0; d < frame.devices->count; ++d) marks.placed[d] = frame.of(d).placed;
  return marks;
}
inline void restore(DevicesFrame& frame, const DeviceMarks& marks) {
  for (i32 d = 0; d < frame.devices->count; ++d) frame.of(d).placed = marks.placed[d];
}

// Of a call that failed: on which device.
inline Status named(Status status, DevicesHere& here) {
  if (here.told || (status != gpu_failed && status != no_memory && status != wrong_machine)) return status;
  here.told = true;
  const size_t length = strlen(error_text);
  const GpuDevice& device = *here.at[here.current].device;
  snprintf(error_text + length, sizeof error_text - length, "; on device %d of the program, which is %s, device %d",
           here.current, device.name, device.id);
  return status;
}

// Memory for each device: the caller's for the first, if there is any. Then the steps, with all of it.
template <class Steps>
Status run_measured(DevicesFrame& frame, const Steps& steps, void* workspace) {
  DevicesHere& here = *frame.devices;
  Status status = ok;
  for (i32 d = 0; d < here.count && status == ok; ++d) {
    GpuFrame& one = frame.of(d);
    one.memory = d == 0 ? static_cast<char*>(workspace) : nullptr;
    one.running = true;
    if (one.memory != nullptr || one.bytes() == 0) continue;
    status = here.to(d);
    if (status == ok) status = take_block(here.at[d], one.bytes(), frame.parts[d].own);
    one.memory = frame.parts[d].own.memory;
  }
  for (i32 d = 0; d < here.count && status == ok; ++d) {
    status = here.to(d);
    if (status == ok) status = clear_counters(frame.of(d));
  }
  if (status == ok) status = at_device(frame, frame.device);
  if (status == ok) status = steps(frame);
  if (status != ok) {
    status = named(status, here);
    here.hold();
  }
  for (i32 d = 0; d < here.count; ++d) {
    if (frame.parts[d].own.memory == nullptr) continue;
    (void)here.to(d);
    put_block(here.at[d], frame.parts[d].own);
  }
  return status;
}

struct DevicesProgram {
  Status (*steps)(DevicesFrame& frame);
  u64 launch_bytes;
  i32 index, programs;                  // of the program in its library, and how many there are
  const char* const* looked = nullptr;  // names of what its kernels look at; null: nothing
  i32 looked_count = 0;
};

// What kernels of any device have found wrong in earlier calls.
inline Status tell_faults(DevicesHere& here, i32 index, i32 programs, const char* const* looked, i32 count,
                          DevicesFrame* frame = nullptr) {
  for (i32 d = 0; d < here.count; ++d) {
    codetta::gpu::Fault* word = nullptr;
    CODETTA_OK(here.to(d));
    CODETTA_OK(fault_of(here.at[d], index + d * programs, &word));
    CODETTA_OK(tell_fault(word, looked, count));
    if (frame != nullptr) frame->of(d).fault = word;
  }
  return here.to(0);
}

// As run() of gpu.h. `measured`: bytes by device.
inline Status run(const DevicesProgram& program, DevicesHere& here, View* views, const cpu::ScalarValue* scalars,
                  void* workspace, i64 workspace_bytes, i64* measured = nullptr) {
  DevicesFrame frame;
  CODETTA_OK(frame.make(here));
  static_cast<GpuFrame&>(frame) = frame.parts[0].frame;
  struct Launches {
    void* memory;
    ~Launches() { free(memory); }
  } const launches{calloc(1, program.launch_bytes)};
  if (launches.memory == nullptr) return fail(no_memory, "E0606: no memory for the launches of a call");
  for (i32 d = 0; d < here.count; ++d) {
    GpuFrame& one = frame.of(d);
    one.views = views;
    one.scalars = scalars;
    one.sizes_only = measured != nullptr;
    one.launches = launches.memory;
  }
  if (program.looked != nullptr && measured == nullptr)
    CODETTA_OK(tell_faults(here, program.index, program.programs, program.looked, program.looked_count, &frame));
  // In front of everything: sizes may be read from any device.
  if (measured == nullptr) CODETTA_OK(here.fork());
  if (const Status bad = program.steps(frame)) return named(bad, here);
  CODETTA_OK(at_device(frame, 0));
  if (measured != nullptr) {
    for (i32 d = 0; d < here.count; ++d) measured[d] = frame.of(d).bytes();
    return ok;
  }
  if (workspace != nullptr && reinterpret_cast<u64>(workspace) % gpu_alignment != 0)
    return fail(bad_workspace, "E0605: the workspace is not aligned to 256 bytes");
  if (workspace != nullptr && workspace_bytes < frame.bytes())
    return fail(bad_workspace, "E0611: the workspace is too small: %lld bytes are given, %lld are needed on device 0",
                static_cast<long long>(workspace_bytes), static_cast<long long>(frame.bytes()));
  CODETTA_OK(run_measured(frame, program.steps, workspace));  // joined by what it leaves where it fails
  return here.join();
}

// As run_rest() of gpu_outside.h.
template <class Steps>
Status run_rest(DevicesFrame& before, const Steps& steps) {
  DevicesFrame frame;
  CODETTA_OK(frame.make(*before.devices));
  for (i32 d = 0; d < before.devices->count; ++d) {
    GpuFrame& one = frame.parts[d].frame;
    one.views = before.views;
    one.scalars = before.scalars;
    one.launches = before.launches;
    one.fault = before.of(d).fault;
  }
  frame.device = before.device;
  static_cast<GpuFrame&>(frame) = frame.parts[frame.device].frame;
  if (const Status bad = steps(frame)) return bad;
  CODETTA_OK(at_device(frame, before.device));
  const Status status = run_measured(frame, steps, nullptr);
  CODETTA_OK(before.devices->to(before.device));
  return status;
}

// ---- copies between devices ----
// Where a copy's source and target lie in one piece, where they do not by themselves: offsets behind what kernels need.
struct DeviceCopy {
  i64 source, target;
};
// Devices of a copy, and what orders them: `to` waits for `from` in front of it, `from` for `to` behind it. `follows`:
// `from` does not wait yet for a copy in front, and does where it has to gather elements.
struct CopyOrder {
  i32 from, to;
  bool waits, waited_for, follows;
};
inline Status find_piece(GpuFrame& frame, const View& view, View& piece, i64& offset) {
  Number sizes[max_rank];
  for (i32 i = 0; i < view.rank; ++i) sizes[i] = Number(view.size[i]);
  const Number bytes = round_up(Number(elements_of(view)) * Number(dtype_bytes(view.dtype)), gpu_alignment);
  char* memory = static_cast<char*>(unplaced());
  if (!frame.running) {
    const Number end = Number(frame.piece_bytes) + bytes;
    if (end.bad || end.value > int64_max / 8) return fail(bad_sizes, "E0603: the size of the workspace overflows");
    offset = frame.piece_bytes;
    frame.piece_bytes = end.value;
  } else {
    memory = frame.memory + frame.pieces_at() + offset;
  }
  return bind(piece, memory, view.dtype, sizes, view.rank, "a piece of a copy");
}

// `kernel`: of steps on elements; null: there is none, and both lie in one piece. On the target's stream.
inline Status copy_between(DevicesFrame& frame, const GpuKernel* kernel, const View& target, const View& source,
                           const CopyOrder& order, DeviceCopy& pieces, const char* name) {
  if (target.dtype != source.dtype || elements_of(target) != elements_of(source))
    return fail(bad_sizes, "E0610: %s is copied from a tensor of another form: %s from %s", name, describe(target),
                describe(source));
  DevicesHere& here = *frame.devices;
  const i32 before = frame.device, from = order.from, to = order.to;
  View read = source, written = target;
  const bool gathers = !target.empty() && !is_row_major(source), scatters = !target.empty() && !is_row_major(target);
  if ((gathers || scatters) && kernel == nullptr)
    return fail(bad_sizes, "E0614: %s is copied: only contiguous tensors are copied between GPUs", name);
  if (gathers) {
    if (frame.running && order.follows) CODETTA_OK(here.order(to, from));
    CODETTA_OK(at_device(frame, from));
    CODETTA_OK(find_piece(frame, source, read, pieces.source));
    CODETTA_OK(copy(frame, *kernel, read, source, name));
  }
  if (scatters) {
    CODETTA_OK(at_device(frame, to));
    CODETTA_OK(find_piece(frame, target, written, pieces.target));
  }
  if (frame.running) {
    if (order.waits || gathers) CODETTA_OK(here.order(from, to));
    CODETTA_OK(here.to(to));
    if (!target.empty())
      CODETTA_GPU("copying a tensor to another device",
                  further_devices.calls.copy_between(
                      reinterpret_cast<DeviceAddress>(written.data), reinterpret_cast<DeviceAddress>(read.data),
                      static_cast<size_t>(elements_of(source) * dtype_bytes(source.dtype)), here.at[to].stream));
  }
  if (scatters) {
    CODETTA_OK(at_device(frame, to));
    CODETTA_OK(copy(frame, *kernel, target, written, name));
  }
  if (frame.running && order.waited_for) CODETTA_OK(here.order(to, from));
  return at_device(frame, before);
}

inline Status check_device(i32 device, i32 count) {
  if (device >= 0 && device < count) return ok;
  return fail(bad_argument, "E0701: %d is no device of the program, which uses %d", device, count);
}

// Tensors that a function of the caller's gets say on which device of the program they lie.
template <class Tensor>
void lie_on(Tensor* tensors, i32 count, i32 device) {
  for (i32 i = 0; i < count; ++i) tensors[i].device = device;
}

// ---- the library ----
// `used`: by kernel, on which devices, a bit each.
inline Status prepare_devices(i32 count, const u64* used, const char* library) {
  DevicesHere here;
  CODETTA_OK(here.enter(nullptr, count, library));
  DevicesAlike kinds[most_devices];
  i32 found = 0;
  for (i32 d = 0; d < count; ++d) {
    const GpuDevice& device = *here.at[d].device;
    i32 kind = 0;
    while (kind < found && (kinds[kind].one->major != device.major || kinds[kind].one->minor != device.minor)) ++kind;
    if (kind == found) kinds[found++] = {&device, 0};
    kinds[kind].devices |= u64{1} << d;
  }
  if (gpu_facts.compile_all != nullptr) CODETTA_OK(gpu_facts.compile_all(kinds, found, used));
  for (i32 d = 0; d < count; ++d) {
    CODETTA_OK(here.to(d));
    for (i32 k = 0; k < gpu_facts.kernel_count; ++k) {
      GpuLoaded* loaded = nullptr;
      if ((used[k] >> d & 1) == 0) continue;
      if (const Status bad = load_kernel(*here.at[d].device, *gpu_facts.kernels[k], nullptr, &loaded))
        return named(bad, here);
    }
  }
  return here.to(0);
}

// When the library is unloaded. What is behind release_all() is what that still needs, whichever of the two is called
// first.
[[gnu::destructor]] inline void release_devices() {
  if (process_ends != 0) return;
  release_all();
  FurtherDevices& all = further_devices;
  const GpuCalls& calls = gpu_library.calls;
  while (all.sets != nullptr) {
    DeviceSet* set = all.sets;
    all.sets = set->next;
    release_set(set);
  }
  while (all.primaries != nullptr) {
    PrimaryContext* kept = all.primaries;
    all.primaries = kept->next;
    (void)calls.primary_release(kept->device);
    free(kept);
  }
}

}  // namespace codetta::host
