// SPDX-License-Identifier: Apache-2.0
// What emitted C++ host text for a GPU includes where a program uses several devices. Device 0 is that of the call, as
// ever; each further one has its context, its own stream and its memory. Events alone order them: a run begins behind
// what the caller's stream had to do, a copy between two devices holds both, and the caller's stream goes on when all
// have ended. Libraries of one device include nothing of this.
#pragma once

#include "device/host/gpu.h"
#include "device/host/gpu_elements.h"

namespace codetta::host {

using cuda_driver::EventHandle;

inline constexpr i32 most_devices = 64;

// As CODETTA_GPU_CALLS.
#define CODETTA_DEVICE_CALLS(X)                                                                                        \
  X(device_count, "cuDeviceGetCount", "hipGetDeviceCount", (int* count))                                               \
  X(event_create, "cuEventCreate", "hipEventCreateWithFlags", (EventHandle * event, unsigned flags))                   \
  X(event_destroy, "cuEventDestroy_v2", "hipEventDestroy", (EventHandle event))                                        \
  X(event_record, "cuEventRecord", "hipEventRecord", (EventHandle event, StreamHandle stream))                         \
  X(stream_waits, "cuStreamWaitEvent", "hipStreamWaitEvent", (StreamHandle stream, EventHandle event, unsigned flags)) \
  X(copy_between, "cuMemcpyAsync", "hipMemcpyDtoDAsync",                                                               \
    (DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream))                                         \
  X(can_reach, "cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer", (int* can, DeviceId device, DeviceId peer))          \
  X(reach, "cuCtxEnablePeerAccess", "", (ContextHandle peer, unsigned flags))

struct DeviceCalls {
#define CODETTA_DEVICE_MEMBER(member, cuda, hip, parameters) DriverStatus(*member) parameters;
  CODETTA_DEVICE_CALLS(CODETTA_DEVICE_MEMBER)
#undef CODETTA_DEVICE_MEMBER
};

// The streams of further devices and the events of all, which one call at a time uses. At rest they are kept for the
// stream of that call, so that what rests on further devices is found again with them.
struct DeviceSet {
  DeviceSet* next;
  StreamHandle caller;
  bool taken;
  i32 count;
  ContextHandle contexts[most_devices];
  StreamHandle streams[most_devices];  // of device 0 none: it is the caller's
  EventHandle events[most_devices];
};

struct FurtherDevices {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  DeviceCalls calls{};
  i32 ordinals[most_devices] = {};  // of devices 1, 2, ..., where the caller has set them
  i32 ordinal_count = 0;
  ContextHandle primaries[most_devices] = {};  // by ordinal: retained
  DeviceSet* sets = nullptr;
};
inline FurtherDevices further_devices;

inline void release_set(DeviceSet* set) {
  const GpuCalls& calls = gpu_library.calls;
  ContextHandle popped = nullptr;
  for (i32 d = 0; d < most_devices; ++d) {
    ContextHandle current = nullptr;
    (void)calls.context_current(&current);
    const bool is_there = set->contexts[d] != nullptr && set->contexts[d] == current;
    const bool pushed =
        set->contexts[d] != nullptr && !is_there && calls.context_push(set->contexts[d]) == DriverStatus::Success;
    if (!is_there && !pushed) continue;
    if (set->events[d] != nullptr) (void)further_devices.calls.event_destroy(set->events[d]);
    if (set->streams[d] != nullptr) (void)calls.stream_destroy(set->streams[d]);
    if (pushed) (void)calls.context_pop(&popped);
  }
  free(set);
}

// From libcuda, which load_cuda() has loaded.
inline Status load_device_calls() {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) handle = dlopen("/usr/lib/wsl/lib/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const char* missing = handle == nullptr ? "what several devices need" : nullptr;
  DeviceCalls& calls = further_devices.calls;
#define CODETTA_DEVICE_LOOK_UP(member, cuda, hip, parameters)                                          \
  if (handle != nullptr) calls.member = reinterpret_cast<decltype(calls.member)>(dlsym(handle, cuda)); \
  if (calls.member == nullptr && missing == nullptr) missing = cuda;
  CODETTA_DEVICE_CALLS(CODETTA_DEVICE_LOOK_UP)
#undef CODETTA_DEVICE_LOOK_UP
  if (handle != nullptr) dlclose(handle);  // of the count only
  if (missing == nullptr) return ok;
  return fail(wrong_machine, "E0641: the NVIDIA driver is too old: it lacks %s", missing);
}

// ---- the devices of a call ----
inline Status device_total(int& total) {
  CODETTA_GPU("counting the devices", further_devices.calls.device_count(&total));
  return ok;
}

inline Status retain_primary(i32 ordinal, ContextHandle* context) {
  const Locked locked(further_devices.lock);
  ContextHandle& kept = further_devices.primaries[ordinal];
  DeviceId id = 0;
  if (kept == nullptr) {
    CODETTA_GPU("looking for a device", gpu_library.calls.device_get(&id, ordinal));
    CODETTA_GPU("retaining the context of a device", gpu_library.calls.primary_retain(&kept, id));
  }
  *context = kept;
  return ok;
}

// `count` 0: the ordinals behind that of device 0. Calls that are under way keep theirs.
inline Status set_further_devices(const i32* ordinals, i32 count) {
  if (count < 0 || count >= most_devices)
    return fail(bad_argument, "E0701: %d is no number of further devices: 0 to %d are possible", count,
                most_devices - 1);
  if (ordinals == nullptr && count != 0) return fail(bad_argument, "E0604: the list of devices is null");
  int total = 0;
  CODETTA_OK(device_total(total));
  for (i32 i = 0; i < count; ++i) {
    if (ordinals[i] < 0 || ordinals[i] >= total || ordinals[i] >= most_devices)
      return fail(bad_argument, "E0701: %d is no ordinal of a GPU, of which there are %d", ordinals[i], total);
  }
  const Locked locked(further_devices.lock);
  for (i32 i = 0; i < count; ++i) further_devices.ordinals[i] = ordinals[i];
  further_devices.ordinal_count = count;
  return ok;
}

struct DevicesHere {
  OnDevice at[most_devices];  // 0: that of the call
  i32 count = 1, current = 0;
  bool pushed = false;  // the context of `current`, above that of device 0
  bool forked = false;  // further devices have been told to begin behind the caller's stream, which waits for none yet
  bool told = false;    // the error's text names a device: parts of a call lie within each other
  DeviceSet* set = nullptr;

  DevicesHere() = default;
  DevicesHere(const DevicesHere&) = delete;
  DevicesHere& operator=(const DevicesHere&) = delete;
  ~DevicesHere() {
    (void)join();
    (void)to(0);
    const Locked locked(further_devices.lock);
    if (set != nullptr) set->taken = false;
  }

  // `library`: the prefix of its functions.
  Status enter(void* stream, i32 wanted, const char* library) {
    CODETTA_OK(at[0].enter(stream));
    count = wanted;
    i32 given = 0, ordinals[most_devices];
    {
      const Locked locked(further_devices.lock);
      given = further_devices.ordinal_count;
      for (i32 i = 0; i < given; ++i) ordinals[i] = further_devices.ordinals[i];
    }
    const i32 first = at[0].device->id;
    int total = 0;
    CODETTA_OK(device_total(total));
    if (given != 0 && given < count - 1)
      return fail(wrong_machine,
                  "E0642: too few GPUs: the program uses %d devices, and %s_set_further_devices() has named %d beside "
                  "the first",
                  count, library, given);
    if (given == 0 && first + count > total)
      return fail(wrong_machine,
                  "E0642: too few GPUs: the program uses %d devices, and from device %d on there are %d; name others, "
                  "or one several times, with %s_set_further_devices()",
                  count, first, total - first, library);
    // Its events lie there, also behind what the library itself keeps of that context.
    ContextHandle kept = nullptr;
    if (at[0].device->context == gpu_library.primary) CODETTA_OK(retain_primary(first, &kept));
    for (i32 d = 1; d < count; ++d) {
      const i32 ordinal = given != 0 ? ordinals[d - 1] : first + d;
      ContextHandle context = at[0].device->context;
      if (ordinal != first) CODETTA_OK(retain_primary(ordinal, &context));
      CODETTA_OK(find_device(context, &at[d].device));
    }
    return take_set();
  }
  // What is kept of a context, which is current while it is looked at.
  static Status find_device(ContextHandle context, GpuDevice** found) {
    for (GpuDevice* d = __atomic_load_n(&gpu_library.devices, __ATOMIC_ACQUIRE); d != nullptr; d = d->next) {
      if (d->context == context) return *found = d, ok;
    }
    CODETTA_GPU("making the context of a further device current", gpu_library.calls.context_push(context));
    const Status status = device_of(context, found);
    ContextHandle popped = nullptr;
    (void)gpu_library.calls.context_pop(&popped);
    return status;
  }

  // Makes the context of a device current.
  Status to(i32 device) {
    if (device == current) return ok;
    ContextHandle popped = nullptr;
    if (pushed) (void)gpu_library.calls.context_pop(&popped);
    pushed = false;
    current = 0;
    if (at[device].device != at[0].device) {
      CODETTA_GPU("making the context of a device current", gpu_library.calls.context_push(at[device].device->context));
      pushed = true;
    }
    current = device;
    return ok;
  }

  // What `later` does next begins when all that `earlier` has so far has ended.
  Status order(i32 earlier, i32 later) {
    CODETTA_OK(record(earlier));
    return wait(later, earlier);
  }
  Status record(i32 device) {
    CODETTA_OK(to(device));
    CODETTA_GPU("recording an event", further_devices.calls.event_record(set->events[device], at[device].stream));
    return ok;
  }
  Status wait(i32 device, i32 recorded) {
    CODETTA_OK(to(device));
    CODETTA_GPU("waiting for another device",
                further_devices.calls.stream_waits(at[device].stream, set->events[recorded], 0));
    return ok;
  }
  Status fork() {
    CODETTA_OK(record(0));
    forked = true;
    for (i32 d = 1; d < count; ++d) CODETTA_OK(wait(d, 0));
    return to(0);
  }
  // All are tried: what is enqueued is waited for, whatever has failed.
  Status join() {
    if (!forked) return ok;
    forked = false;
    Status status = ok;
    for (i32 d = 1; d < count; ++d) {
      const Status bad = order(d, 0);
      if (bad == ok) continue;
      if (status == ok) status = bad;
      // Without events the host waits: what comes next may use the same memory.
      if (to(d) == ok) (void)gpu_library.calls.stream_wait(at[d].stream);
    }
    return status;
  }

 private:
  [[nodiscard]] bool serves(const DeviceSet& one) const {
    if (one.taken || one.count < count) return false;
    for (i32 d = 0; d < count; ++d) {
      if (one.contexts[d] != at[d].device->context) return false;
    }
    return true;
  }
  // A stream that is part of another one's capture stays so until that ends.
  static bool in_capture(const DeviceSet& one) {
    int capture = cuda_driver::capture_status_none;
    const DriverStatus asked = gpu_library.calls.stream_capturing(one.streams[1], &capture);
    return asked != DriverStatus::Success || capture != cuda_driver::capture_status_none;
  }
  Status take_set() {
    static constexpr i32 most_sets = 16;  // beyond, those of other streams are taken
    {
      const Locked locked(further_devices.lock);
      DeviceSet* other = nullptr;
      i32 sets = 0;
      for (DeviceSet* one = further_devices.sets; one != nullptr; one = one->next) {
        ++sets;
        if (!serves(*one)) continue;
        other = one;
        if (one->caller == at[0].stream) break;
      }
      if (other != nullptr && (other->caller == at[0].stream || (sets >= most_sets && !in_capture(*other)))) {
        set = other;
        set->taken = true;
        set->caller = at[0].stream;
      }
    }
    if (set == nullptr) CODETTA_OK(make_set());
    for (i32 d = 1; d < count; ++d) at[d].stream = set->streams[d];
    return ok;
  }
  Status make_set() {
    auto* made = static_cast<DeviceSet*>(calloc(1, sizeof(DeviceSet)));
    if (made == nullptr) return fail(no_memory, "E0606: no memory for the streams of further devices");
    made->caller = at[0].stream;
    made->count = count;
    made->taken = true;
    if (const Status bad = fill_set(*made)) {
      release_set(made);
      return bad;
    }
    const Locked locked(further_devices.lock);
    made->next = further_devices.sets;
    further_devices.sets = set = made;
    return ok;
  }
  Status fill_set(DeviceSet& made) {
    const GpuRelaxed relaxed;
    for (i32 d = 0; d < count; ++d) {
      CODETTA_OK(to(d));
      made.contexts[d] = at[d].device->context;
      CODETTA_GPU("making an event",
                  further_devices.calls.event_create(&made.events[d], cuda_driver::event_disable_timing));
      if (d != 0)
        CODETTA_GPU("making a stream",
                    gpu_library.calls.stream_create(&made.streams[d], cuda_driver::stream_non_blocking));
      for (i32 other = 0; other < count; ++other) reach(*at[d].device, *at[other].device);
    }
    return to(0);
  }
  // Copies are right without it, and slower. The first device is current; it may reach the other one already.
  static void reach(const GpuDevice& device, const GpuDevice& other) {
    int can = 0;
    if (device.id == other.id) return;
    const DriverStatus asked = further_devices.calls.can_reach(&can, device.id, other.id);
    if (asked == DriverStatus::Success && can != 0) (void)further_devices.calls.reach(other.context, 0);
  }
};

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
  if (status != ok) status = named(status, here);
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
  const Status status = run_measured(frame, program.steps, workspace);
  const Status joined = here.join();
  return status != ok ? status : joined;
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
inline Status find_piece(GpuFrame& frame, const View& view, View& piece, i64& offset) {
  Number sizes[max_rank];
  for (i32 i = 0; i < view.rank; ++i) sizes[i] = Number(view.size[i]);
  const Number bytes = round_up(Number(elements_of(view)) * Number(dtype_bytes(view.dtype)), gpu_alignment);
  char* memory = static_cast<char*>(unplaced());
  if (!frame.running) {
    const Number at = round_up(Number(frame.engine_bytes), gpu_alignment), end = at + bytes;
    if (end.bad || end.value > int64_max / 4) return fail(bad_sizes, "E0603: the size of the workspace overflows");
    offset = at.value;
    frame.engine_bytes = end.value;
  } else {
    memory = frame.memory + frame.temporary_bytes + frame.counter_bytes + offset;
  }
  return bind(piece, memory, view.dtype, sizes, view.rank, "a piece of a copy");
}

// `kernel`: of steps on elements; null: there is none, and both lie in one piece. Both devices are held: it begins when
// they have ended what is in front, and they go on behind it.
inline Status copy_between(DevicesFrame& frame, const GpuKernel* kernel, const View& target, i32 to, const View& source,
                           i32 from, DeviceCopy& pieces, const char* name) {
  if (target.dtype != source.dtype || elements_of(target) != elements_of(source))
    return fail(bad_sizes, "E0610: %s is copied from a tensor of another form: %s from %s", name, describe(target),
                describe(source));
  DevicesHere& here = *frame.devices;
  const i32 before = frame.device;
  View read = source, written = target;
  const bool gathers = !target.empty() && !is_row_major(source), scatters = !target.empty() && !is_row_major(target);
  if ((gathers || scatters) && kernel == nullptr)
    return fail(bad_sizes, "E0614: %s is copied: only contiguous tensors are copied between GPUs", name);
  if (gathers) {
    CODETTA_OK(at_device(frame, from));
    CODETTA_OK(find_piece(frame, source, read, pieces.source));
    CODETTA_OK(copy(frame, *kernel, read, source, name));
  }
  if (scatters) {
    CODETTA_OK(at_device(frame, to));
    CODETTA_OK(find_piece(frame, target, written, pieces.target));
  }
  if (frame.running) {
    CODETTA_OK(here.order(to, from));
    CODETTA_OK(here.to(from));
    if (!target.empty())
      CODETTA_GPU("copying a tensor to another device",
                  further_devices.calls.copy_between(
                      reinterpret_cast<DeviceAddress>(written.data), reinterpret_cast<DeviceAddress>(read.data),
                      static_cast<size_t>(elements_of(source) * dtype_bytes(source.dtype)), here.at[from].stream));
    CODETTA_OK(here.order(from, to));
  }
  if (scatters) {
    CODETTA_OK(at_device(frame, to));
    CODETTA_OK(copy(frame, *kernel, target, written, name));
  }
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
  for (i32 d = 0; d < count; ++d) {
    CODETTA_OK(here.to(d));
    for (i32 k = 0; k < gpu_facts.kernel_count; ++k) {
      GpuLoaded* loaded = nullptr;
      if ((used[k] >> d & 1) == 0) continue;
      if (const Status bad = load_kernel(*here.at[d].device, *gpu_facts.kernels[k], &loaded)) return named(bad, here);
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
  for (i32 ordinal = 0; ordinal < most_devices; ++ordinal) {
    DeviceId id = 0;
    if (all.primaries[ordinal] == nullptr) continue;
    all.primaries[ordinal] = nullptr;
    if (calls.device_get(&id, ordinal) == DriverStatus::Success) (void)calls.primary_release(id);
  }
}

}  // namespace codetta::host
