// SPDX-License-Identifier: Apache-2.0
// The devices of a call of a program that uses several. Device 0 is that of the call, as ever; each further one has its
// context, its own stream and its memory. Events alone order them: a run begins behind what the caller's stream had to
// do, a copy between two devices waits and is waited for as the compiler says, and the caller's stream goes on when all
// have ended.
#pragma once

#include "device/host/gpu.h"
#include "device/host/gpu_elements.h"
#include "device/host/peers.h"

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
  bool reached;  // each has been let reach the others, as far as they can
  bool loose;    // the caller's stream may not be behind a call that has failed
  i32 count;
  ContextHandle contexts[most_devices];
  StreamHandle streams[most_devices];  // of device 0 none: it is the caller's
  EventHandle events[most_devices];
};

struct PrimaryContext {
  PrimaryContext* next;
  DeviceId device;
  i32 ordinal;
  ContextHandle context;
};

struct FurtherDevices {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  DeviceCalls calls{};
  i32 ordinals[most_devices] = {};  // of devices 1, 2, ..., where the caller has set them
  i32 ordinal_count = 0;
  PrimaryContext* primaries = nullptr;  // retained
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
  for (const PrimaryContext* kept = further_devices.primaries; kept != nullptr; kept = kept->next) {
    if (kept->ordinal == ordinal) return *context = kept->context, ok;
  }
  DeviceId id = 0;
  CODETTA_GPU("looking for a device", gpu_library.calls.device_get(&id, ordinal));
  auto* made = static_cast<PrimaryContext*>(calloc(1, sizeof(PrimaryContext)));
  if (made == nullptr) return fail(no_memory, "E0606: no memory for what is kept of a device");
  const DriverStatus status = gpu_library.calls.primary_retain(&made->context, id);
  if (status != DriverStatus::Success) {
    free(made);
    return fail(gpu_library.calls, status, "retaining the context of a device");
  }
  made->device = id;
  made->ordinal = ordinal;
  made->next = further_devices.primaries;
  further_devices.primaries = made;
  *context = made->context;
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
    if (ordinals[i] < 0 || ordinals[i] >= total)
      return fail(bad_argument, "E0701: %d is no ordinal of a GPU, of which there are %d", ordinals[i], total);
  }
  const Locked locked(further_devices.lock);
  for (i32 i = 0; i < count; ++i) further_devices.ordinals[i] = ordinals[i];
  further_devices.ordinal_count = count;
  return ok;
}

// The text of an error stays what it is while it lives, whatever fails meanwhile.
struct ErrorKept {
  ErrorKept() { memcpy(text, error_text, sizeof text); }
  ~ErrorKept() { memcpy(error_text, text, sizeof text); }
  ErrorKept(const ErrorKept&) = delete;
  ErrorKept& operator=(const ErrorKept&) = delete;
  char text[sizeof error_text];
};

struct DevicesHere {
  OnDevice at[most_devices];  // 0: that of the call
  i32 count = 1, current = 0;
  bool pushed = false;  // the context of `current`, above that of device 0
  i32 forked = 1;       // of devices that begin behind the caller's stream, which waits for none of them yet
  bool told = false;    // the error's text names a device: parts of a call lie within each other
  DeviceSet* set = nullptr;

  DevicesHere() = default;
  DevicesHere(const DevicesHere&) = delete;
  DevicesHere& operator=(const DevicesHere&) = delete;
  ~DevicesHere() {
    const ErrorKept kept;
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
      return fail(
          wrong_machine,
          "E0642: too few GPUs: the program uses %d devices, and %s_set_further_devices() has named %d beside "
          "the first; name %d, of which one may be there several times, or none for those that follow the first",
          count, library, given, count - 1);
    if (given == 0 && first + count > total)
      return fail(wrong_machine,
                  "E0642: too few GPUs: the program uses %d devices, and from device %d on there are %d; name others, "
                  "or one several times, with %s_set_further_devices()",
                  count, first, total - first, library);
    // Its events lie there, also behind what the library itself keeps of that context.
    ContextHandle kept = nullptr;
    if (is_primary(at[0].device->context)) CODETTA_OK(retain_primary(first, &kept));
    for (i32 d = 1; d < count; ++d) {
      const i32 ordinal = given != 0 ? ordinals[d - 1] : first + d;
      ContextHandle context = at[0].device->context;
      if (ordinal != first) CODETTA_OK(retain_primary(ordinal, &context));
      CODETTA_OK(find_device(context, &at[d].device));
    }
    return take_set();
  }
  static bool is_primary(ContextHandle context) {
    const Locked locked(gpu_library.starting);
    return context == gpu_library.primary;
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
    for (i32 d = 1; d < count && set->loose; ++d) CODETTA_OK(order(d, 0));
    set->loose = false;
    CODETTA_OK(record(0));
    for (forked = 1; forked < count; ++forked) CODETTA_OK(wait(forked, 0));
    return to(0);
  }
  // All are tried: what is enqueued is waited for, whatever has failed. A stream that has not begun is no part of the
  // caller's capture.
  Status join() {
    const i32 begun = forked;
    forked = 1;
    Status status = ok;
    for (i32 d = 1; d < begun; ++d) {
      const Status bad = settle(d, 0);
      if (status == ok) status = bad;
    }
    return status;
  }
  // Behind a failure: memory that is given back now may be read by a copy that its device would have waited for later.
  void hold() {
    const ErrorKept kept;
    for (i32 d = 1; d < count; ++d) settle(d, 0);
    for (i32 d = 1; d < count; ++d) settle(0, d);
  }

 private:
  // Without events the host waits: what comes next may use the same memory.
  Status settle(i32 earlier, i32 later) {
    const Status bad = order(earlier, later);
    if (bad == ok) return ok;
    const bool waited = to(earlier) == ok && gpu_library.calls.stream_wait(at[earlier].stream) == DriverStatus::Success;
    if (!waited) set->loose = true;
    return bad;
  }
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
    return reach_all();
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
    }
    return to(0);
  }
  // Copies are right without it, and slower. What fails is tried again by the next call.
  Status reach_all() {
    if (set->reached) return ok;
    const GpuRelaxed relaxed;
    bool all = true;
    for (i32 d = 0; d < count; ++d) {
      CODETTA_OK(to(d));
      for (i32 other = 0; other < count; ++other) all = reach(*at[d].device, *at[other].device) && all;
    }
    set->reached = all;
    return to(0);
  }
  // The first device is current; it may reach the other one already.
  static bool reach(const GpuDevice& device, const GpuDevice& other) {
    int can = 0;
    if (device.id == other.id) return true;
    if (further_devices.calls.can_reach(&can, device.id, other.id) != DriverStatus::Success) return false;
    return can == 0 || cuda_driver::is_reached(further_devices.calls.reach(other.context, 0));
  }
};

}  // namespace codetta::host
