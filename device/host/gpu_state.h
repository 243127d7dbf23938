// SPDX-License-Identifier: Apache-2.0
// What an emitted library for a GPU keeps while it is loaded: driver, one state a context with its modules and
// constants, workspaces at rest. All of it goes when the library is unloaded. Where the process ends instead, the
// driver is not called, and an allocator of the caller's neither: what they need may have been torn down before, and
// the process's end gives all of it back.
#pragma once

#include <stdlib.h>

#include "device/host/gpu_calls.h"
#include "device/host/gpu_plan.h"
#include "device/host/gpu_steps.h"
#include "device/host/image_parts.h"
#include "device/host/lock.h"
#include "device/host/support.h"

namespace codetta::host {

namespace plan = codetta::gpu::host;

// A kernel of the library with its compiled code, which the library loads; or, compiled by nvcc, has the CUDA runtime
// load: the handle of an entry in the current context, and a status of the runtime's.
struct GpuKernel {
  plan::Kernel table;
  const unsigned char* image;
  i32 index;  // within the library
  int (*function)(int entry, void** handle) = nullptr;
};
struct GpuDevice;
// Devices, a bit each, of one compute capability: that of `one`.
struct DevicesAlike {
  const GpuDevice* one;
  u64 devices;
};
// What the text of the library says about all of it.
struct GpuLibraryFacts {
  const GpuKernel* const* kernels;
  i32 kernel_count, program_count;
  i32 major, minor;  // that the kernels are compiled for
  bool exact;        // no other compute capability
  const char* architecture;
  Status (*load_driver)(GpuCalls& calls);
  i64 most_threads;  // of a grid's first dim; 0: what blocks of it and threads of them allow
  // A stream's device is that of the call; otherwise only where the thread has no context, which some drivers always
  // give it.
  bool stream_decides;
  // Where the kernels are sources (gpu_nvrtc.h), `major` and `minor` being the least that they are for: the code of one
  // for a device, and that of all, which is kept; and the headers. `stream`: as load_kernel() has it.
  Status (*compile)(const GpuDevice& device, const GpuKernel& kernel, const StreamHandle* stream,
                    const void** code) = nullptr;
  // `used`: by kernel, which devices launch it; null: all do.
  Status (*compile_all)(const DevicesAlike* kinds, i32 count, const u64* used) = nullptr;
  const unsigned char* headers = nullptr;
  bool for_later = false;      // the sources compile for all later devices, not those of this major version alone
  const char* init = nullptr;  // the call of the library's that compiles all of them
};
extern const GpuLibraryFacts gpu_facts;

// Device memory for workspaces: the caller's, or the driver's.
struct GpuAllocator {
  void* (*allocate)(void* self, size_t bytes, size_t alignment) = nullptr;
  void (*release)(void* self, void* memory, size_t bytes, size_t alignment) = nullptr;
  void* self = nullptr;
};
// Work that uses it is on its stream, so that later work of that stream may use it again.
struct GpuBlock {
  char* memory = nullptr;
  i64 bytes = 0;
  StreamHandle stream = nullptr;
  GpuAllocator from;
};
inline constexpr i64 gpu_alignment = 256;

// What the launches of a kernel of the user's rest on, asked for once.
struct GpuUserFacts {
  int ready;  // the rest is there; under GpuLibrary::starting
  int max_block[3], cooperative, window, static_shared, tensor_maps;
};
struct GpuFunction {
  FunctionHandle handle;
  int most_threads;
  i32 fit;      // clusters or blocks that the device holds at once; 0: not asked yet
  i32 allowed;  // dynamic shared memory of a kernel of the user's; under GpuLibrary::starting
  GpuUserFacts user;
};
struct GpuLoaded {
  ModuleHandle modules[plan::most_image_parts];  // of the image's files; null: not loaded, or there is none
  GpuFunction* functions;                        // by entry
  int ready;
};
// A context of the driver's that calls were made in.
struct GpuDevice {
  GpuDevice* next;
  ContextHandle context;
  DeviceId id;
  int major, minor, shared_bytes;
  char name[96];
  plan::DeviceLimits limits;
  GpuLoaded* loaded;            // by kernel
  char** constants;             // by program: one piece of memory for all of them; null: not there yet
  codetta::gpu::Fault* faults;  // by program, in host memory that kernels write to; null: not there yet
  static constexpr i32 kept_blocks = 16;
  GpuBlock blocks[kept_blocks];  // workspaces at rest
};

struct GpuLibrary {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;      // of blocks and the list of devices
  pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;  // held while anything is loaded
  int ready = 0;
  GpuCalls calls{};
  GpuAllocator allocator;
  GpuDevice* devices = nullptr;
  ContextHandle primary = nullptr;  // of device 0, where the caller has none
};
inline GpuLibrary gpu_library;

// Set at the end of the process. No member of what is destroyed: a compiler leaves out what is stored into an object
// whose life ends.
inline int process_ends = 0;
// A static of a function that is called while the process runs: exit() destroys it before it calls the libraries' own
// functions for their end. dlclose calls these first, so that release_all() finds nothing set.
struct NoticeOfEnd {
  ~NoticeOfEnd() { process_ends = 1; }
};

#define CODETTA_GPU(what, call)                                                                                        \
  do {                                                                                                                 \
    if (const ::codetta::host::DriverStatus gpu_status = (call); gpu_status != ::codetta::host::DriverStatus::Success) \
      return ::codetta::host::fail(::codetta::host::gpu_library.calls, gpu_status, what);                              \
  } while (false)

inline Status fail(const plan::Trouble& trouble) {
  if (trouble.code == plan::trouble_map)
    return fail(bad_sizes, "E0649: Failed to initialize the TMA descriptor: %s: %s", trouble.headline, trouble.reason);
  return fail(trouble.code == plan::trouble_limits ? wrong_machine : bad_sizes, "E0%d: %s: %s", trouble.code,
              trouble.headline, trouble.reason);
}
// The same while sizes are measured.
inline Status fail_measured(const plan::Trouble& trouble) {
  unaligned = trouble.unaligned;
  return fail(trouble);
}

// ---- contexts ----
// While it lives, modules may be loaded and memory allocated although a stream of the process is being captured.
struct GpuRelaxed {
  GpuRelaxed() { (void)gpu_library.calls.exchange_capture(&mode); }
  ~GpuRelaxed() { (void)gpu_library.calls.exchange_capture(&mode); }
  GpuRelaxed(const GpuRelaxed&) = delete;
  GpuRelaxed& operator=(const GpuRelaxed&) = delete;
  int mode = cuda_driver::capture_mode_relaxed;
};

inline Status describe_device(GpuDevice& device) {
  const GpuCalls& calls = gpu_library.calls;
  CODETTA_GPU("asking for the context's device", calls.context_device(&device.id));
  CODETTA_GPU("asking for the device's name", calls.device_name(device.name, sizeof device.name - 1, device.id));
  int grid[3] = {};
  const struct {
    int attribute;
    int* value;
  } wanted[] = {{cuda_driver::device_capability_major, &device.major},
                {cuda_driver::device_capability_minor, &device.minor},
                {cuda_driver::device_multiprocessors, &device.limits.multiprocessors},
                {cuda_driver::device_shared_per_block_optin, &device.shared_bytes},
                {cuda_driver::device_max_grid_x, &grid[0]},
                {cuda_driver::device_max_grid_y, &grid[1]},
                {cuda_driver::device_max_grid_z, &grid[2]}};
  for (const auto& one : wanted)
    CODETTA_GPU("asking for a fact of the device", calls.device_attribute(one.value, one.attribute, device.id));
  for (int i = 0; i < 3; ++i) device.limits.max_grid[i] = grid[i];
  device.limits.name = device.name;
  const GpuLibraryFacts& facts = gpu_facts;
  const bool fits =
      device.major == facts.major && (facts.exact ? device.minor == facts.minor : device.minor >= facts.minor);
  // Sources of one architecture are those of all that follow it, but for what ends with a letter.
  const bool newer = facts.for_later && device.major > facts.major;
  if (fits || newer) return ok;
  return fail(
      wrong_machine,
      "E0430: the kernels are compiled for another architecture than the device's: this library is made for %s, "
      "and %s has compute capability %d.%d",
      facts.architecture, device.name, device.major, device.minor);
}

// The state of a context, made when it is first seen.
inline Status device_of(ContextHandle context, GpuDevice** found) {
  for (GpuDevice* d = __atomic_load_n(&gpu_library.devices, __ATOMIC_ACQUIRE); d != nullptr; d = d->next) {
    if (d->context == context) return *found = d, ok;
  }
  const Locked locked(gpu_library.starting);
  for (GpuDevice* d = gpu_library.devices; d != nullptr; d = d->next) {
    if (d->context == context) return *found = d, ok;
  }
  GpuDevice seen{};
  seen.context = context;
  CODETTA_OK(describe_device(seen));
  auto* device = static_cast<GpuDevice*>(calloc(1, sizeof(GpuDevice)));
  if (device != nullptr) {
    memcpy(static_cast<void*>(device), &seen, sizeof seen);
    device->limits.name = device->name;
    device->loaded =
        static_cast<GpuLoaded*>(calloc(static_cast<size_t>(gpu_facts.kernel_count) + 1, sizeof(GpuLoaded)));
    device->constants = static_cast<char**>(calloc(static_cast<size_t>(gpu_facts.program_count) + 1, sizeof(char*)));
  }
  if (device == nullptr || device->loaded == nullptr || device->constants == nullptr) {
    if (device != nullptr) free(device->loaded), free(device->constants);
    free(device);
    return fail(no_memory, "E0606: no memory for the state of a device");
  }
  device->next = gpu_library.devices;
  __atomic_store_n(&gpu_library.devices, device, __ATOMIC_RELEASE);
  return *found = device, ok;
}

// The context of a call: the thread's own; else that of the stream; else the primary one of device 0. With
// stream_decides that of the stream, else the thread's own. What was made current is undone on every path.
struct OnDevice {
  GpuDevice* device = nullptr;
  StreamHandle stream = nullptr;
  bool pushed = false;

  OnDevice() = default;
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    ContextHandle popped = nullptr;
    if (pushed) (void)gpu_library.calls.context_pop(&popped);
  }
  Status enter(void* on) {
    const GpuCalls& calls = gpu_library.calls;
    stream = static_cast<StreamHandle>(on);
    ContextHandle context = nullptr;
    CODETTA_GPU("asking for the thread's context", calls.context_current(&context));
    const ContextHandle current = context;
    if (stream != nullptr && (context == nullptr || gpu_facts.stream_decides))
      CODETTA_GPU("asking for the stream's context", calls.stream_context(stream, &context));
    if (context == nullptr) CODETTA_OK(primary(&context));
    if (context != current) {
      CODETTA_GPU("making the context current", calls.context_push(context));
      pushed = true;
    }
    return device_of(context, &device);
  }
  static Status primary(ContextHandle* context) {
    const Locked locked(gpu_library.starting);
    if (gpu_library.primary == nullptr) {
      DeviceId id = 0;
      CODETTA_GPU("looking for device 0", gpu_library.calls.device_get(&id, 0));
      CODETTA_GPU("retaining the context of device 0", gpu_library.calls.primary_retain(&gpu_library.primary, id));
    }
    *context = gpu_library.primary;
    return ok;
  }
};

// ---- kernels ----
// The runtime's statuses are the driver's where both have one.
inline Status find_registered(const GpuKernel& kernel, i32 entry, FunctionHandle* handle) {
  void* found = nullptr;
  const int status = kernel.function(entry, &found);
  *handle = static_cast<FunctionHandle>(found);
  const GpuCalls& calls = gpu_library.calls;
  switch (status) {
    case 0:
      return ok;
    case cuda_driver::runtime_invalid_function:
      return fail(wrong_machine,
                  "E0430: the kernels are compiled for another architecture than the device's: the CUDA runtime has no "
                  "code of %s for it",
                  kernel.table.name);
    case cuda_driver::runtime_insufficient_driver:
      return fail(wrong_machine, "E0641: the GPU's driver is too old: it is older than the CUDA runtime");
    default:
      return fail(calls, static_cast<DriverStatus>(status), "asking the CUDA runtime for a kernel");
  }
}

inline Status find_function(const GpuDevice& device, const GpuKernel& kernel, i32 index, const GpuLoaded& loaded,
                            GpuFunction& function) {
  const GpuCalls& calls = gpu_library.calls;
  const plan::Entry& entry = kernel.table.entries[index];
  DriverStatus status = DriverStatus::Success;
  if (kernel.function != nullptr) {
    CODETTA_OK(find_registered(kernel, index, &function.handle));
  } else {
    status = DriverStatus::NotFound;
    for (i32 m = 0; m < plan::most_image_parts && status == DriverStatus::NotFound; ++m) {
      if (loaded.modules[m] != nullptr) status = calls.function_find(&function.handle, loaded.modules[m], entry.symbol);
    }
  }
  if (status == DriverStatus::NotFound)
    return fail(gpu_failed, "E0509: the compiled object lacks its entry point: no kernel %s in %s", entry.symbol,
                kernel.table.name);
  CODETTA_GPU("looking up a kernel", status);
  int fixed = 0;
  CODETTA_GPU("asking for a kernel's threads",
              calls.function_attribute(&function.most_threads, cuda_driver::function_max_threads, function.handle));
  CODETTA_GPU("asking for a kernel's shared memory",
              calls.function_attribute(&fixed, cuda_driver::function_static_shared, function.handle));
  if (entry.shared_bytes > device.shared_bytes - fixed)
    return fail(wrong_machine,
                "E0650: Failed to set the allowed dynamic shared memory size to %d with error: %s needs it beside %d "
                "static bytes, and a block of %s has %d",
                entry.shared_bytes, kernel.table.name, fixed, device.name, device.shared_bytes);
  if (entry.shared_bytes > 0) {
    const DriverStatus allowed =
        calls.function_allow(function.handle, cuda_driver::function_max_dynamic_shared, entry.shared_bytes);
    if (allowed != DriverStatus::Success)
      return fail(gpu_failed,
                  "E0647: Failed to set the allowed dynamic shared memory size to %d with error: %s; kernel %s",
                  entry.shared_bytes, driver_text(calls, allowed), kernel.table.name);
  }
  if (plan::cluster_of(kernel.table, entry) > 8)  // what every device with clusters can launch
    CODETTA_GPU("allowing large clusters",
                calls.function_allow(function.handle, cuda_driver::function_non_portable_cluster, 1));
  if (entry.threads <= function.most_threads) return ok;
  return fail(wrong_machine,
              "E0650: the launch exceeds a limit of the device: %s has blocks of %d threads and registers for %d",
              kernel.table.name, entry.threads, function.most_threads);
}

// Whether work of the stream becomes part of a graph: it is being captured, or is the default stream of a context of
// which another stream is.
inline bool is_captured(StreamHandle stream) {
  int capture = cuda_driver::capture_status_none;
  const DriverStatus asked = gpu_library.calls.stream_capturing(stream, &capture);
  return asked == DriverStatus::CaptureImplicit || capture != cuda_driver::capture_status_none;
}

// The kernel in this context; its module is loaded, and its attributes are set, when it is first needed there.
// `stream`: that of the call, while which is captured nothing is compiled; null: nothing is enqueued.
inline Status load_kernel(GpuDevice& device, const GpuKernel& kernel, const StreamHandle* stream, GpuLoaded** found) {
  GpuLoaded& loaded = device.loaded[kernel.index];
  *found = &loaded;
  if (__atomic_load_n(&loaded.ready, __ATOMIC_ACQUIRE) != 0) return ok;
  const Locked locked(gpu_library.starting);
  if (loaded.ready != 0) return ok;
  const GpuRelaxed relaxed;
  const GpuCalls& calls = gpu_library.calls;
  if (loaded.functions == nullptr)
    loaded.functions =
        static_cast<GpuFunction*>(calloc(static_cast<size_t>(kernel.table.entry_count) + 1, sizeof(GpuFunction)));
  if (loaded.functions == nullptr)
    return fail(no_memory, "E0606: no memory for the functions of %s", kernel.table.name);
  const void* files[plan::most_image_parts] = {};
  const void* image = kernel.image;
  if (gpu_facts.compile != nullptr) CODETTA_OK(gpu_facts.compile(device, kernel, stream, &image));
  const i32 count = kernel.function == nullptr ? plan::image_parts(image, files) : 0;
  for (i32 m = 0; m < count; ++m) {
    if (loaded.modules[m] != nullptr) continue;  // by a call that failed behind it
    char what[160];
    snprintf(what, sizeof what, "loading %.120s", kernel.table.name);
    CODETTA_GPU(what, calls.module_load(&loaded.modules[m], files[m]));
  }
  for (i32 i = 0; i < kernel.table.entry_count; ++i)
    CODETTA_OK(find_function(device, kernel, i, loaded, loaded.functions[i]));
  __atomic_store_n(&loaded.ready, 1, __ATOMIC_RELEASE);
  return ok;
}

// ---- constants ----
// Moves the views `indices` of `v`, which lie in host memory, to where this context has them: uploaded when they are
// first needed there, for good.
inline Status to_device(OnDevice& here, i32 program, View* v, const i32* indices, i32 count) {
  const auto bytes_of = [&](i32 i) {
    i64 bytes = dtype_bytes(v[indices[i]].dtype);
    for (i32 d = 0; d < v[indices[i]].rank; ++d) bytes *= v[indices[i]].size[d];
    return bytes;
  };
  char** place = &here.device->constants[program];
  if (__atomic_load_n(place, __ATOMIC_ACQUIRE) == nullptr) {
    const Locked locked(gpu_library.starting);
    if (*place == nullptr) {
      const GpuRelaxed relaxed;
      const GpuCalls& calls = gpu_library.calls;
      i64 all = 0;
      for (i32 i = 0; i < count; ++i) all += round_up(bytes_of(i), gpu_alignment).value;
      DeviceAddress memory = 0;
      CODETTA_GPU("allocating the constants",
                  calls.allocate(&memory, static_cast<size_t>(all == 0 ? gpu_alignment : all)));
      // On a stream of its own: the default stream would become part of a capture that another stream is under.
      StreamHandle setup = nullptr;
      DriverStatus status = calls.stream_create(&setup, cuda_driver::stream_non_blocking);
      DeviceAddress at = memory;
      for (i32 i = 0; i < count && status == DriverStatus::Success; ++i) {
        if (bytes_of(i) != 0) status = calls.copy_in(at, v[indices[i]].data, static_cast<size_t>(bytes_of(i)), setup);
        at += static_cast<u64>(round_up(bytes_of(i), gpu_alignment).value);
      }
      if (setup != nullptr) {
        const DriverStatus waited = calls.stream_wait(setup);
        if (status == DriverStatus::Success) status = waited;
        (void)calls.stream_destroy(setup);
      }
      if (status != DriverStatus::Success) {
        (void)calls.release(memory);
        return fail(calls, status, "uploading the constants");
      }
      __atomic_store_n(place, reinterpret_cast<char*>(memory), __ATOMIC_RELEASE);
    }
  }
  char* at = *place;
  for (i32 i = 0; i < count; ++i) {
    const i64 bytes = round_up(bytes_of(i), gpu_alignment).value;
    v[indices[i]].data = at;
    at += bytes;
  }
  return ok;
}

// ---- what kernels find wrong ----
// The word of a program in this context, made when it is first needed there.
inline Status fault_of(OnDevice& here, i32 program, codetta::gpu::Fault** word) {
  codetta::gpu::Fault** const place = &here.device->faults;
  if (__atomic_load_n(place, __ATOMIC_ACQUIRE) == nullptr) {
    const Locked locked(gpu_library.starting);
    if (*place == nullptr) {
      constexpr unsigned portable_mapped = 1 | 2;
      const GpuRelaxed relaxed;
      const size_t bytes = static_cast<size_t>(gpu_facts.program_count) * sizeof(codetta::gpu::Fault);
      void* memory = nullptr;
      CODETTA_GPU("allocating host memory", gpu_library.calls.allocate_host(&memory, bytes, portable_mapped));
      memset(memory, 0, bytes);
      __atomic_store_n(place, static_cast<codetta::gpu::Fault*>(memory), __ATOMIC_RELEASE);
    }
  }
  *word = *place + program;
  return ok;
}
// `looked`: what the program's kernels look at, by the number of a fault.
inline Status tell_fault(codetta::gpu::Fault* word, const char* const* looked, i32 count) {
  codetta::gpu::Fault found;
  if (!plan::take_fault(word, found)) return ok;
  const u64 at = static_cast<u64>(found.step) + found.which;
  const char* name = at < static_cast<u64>(count) ? looked[at] : "a tensor";
  if (found.size < 0)
    return fail(bad_argument, "E0619: %s holds %s; it stands %lld elements behind the first, in an earlier call", name,
                found.value == 1 ? "NaN" : "an infinity", found.offset);
  char index[24];
  return fail(
      bad_argument,
      "E0618: index %s is out of range for the size %lld; it stands %lld elements behind the first of %s, in an "
      "earlier call",
      plan::index_text(found, index), found.size, found.offset, name);
}

// ---- workspaces ----
inline void give_back(const GpuBlock& block) {
  if (block.memory == nullptr) return;
  const GpuCalls& calls = gpu_library.calls;
  const GpuRelaxed relaxed;
  if (block.from.release == nullptr) {
    (void)calls.release(reinterpret_cast<DeviceAddress>(block.memory));
    return;
  }
  (void)calls.stream_wait(block.stream);  // an allocator of the caller's may hand it out at once
  block.from.release(block.from.self, block.memory, static_cast<size_t>(block.bytes), gpu_alignment);
}

inline Status take_block(OnDevice& here, i64 bytes, GpuBlock& taken) {
  GpuDevice& device = *here.device;
  const GpuCalls& calls = gpu_library.calls;
  if (is_captured(here.stream))
    return fail(
        bad_argument,
        "E0646: this can not be done while a stream is being captured: the call takes a workspace of %lld bytes, "
        "which would not live as long as the graph; pass one of the caller's",
        static_cast<long long>(bytes));
  GpuAllocator allocator;
  {
    const Locked locked(gpu_library.lock);
    GpuBlock* best = nullptr;
    for (GpuBlock& block : device.blocks) {
      if (block.memory != nullptr && block.stream == here.stream && block.bytes >= bytes &&
          (best == nullptr || block.bytes < best->bytes))
        best = &block;
    }
    if (best != nullptr) {
      taken = *best;
      *best = GpuBlock();
      return ok;
    }
    allocator = gpu_library.allocator;
  }
  taken.bytes = round_up(bytes, 4096).value;
  taken.stream = here.stream;
  taken.from = allocator;
  if (allocator.allocate != nullptr) {
    taken.memory =
        static_cast<char*>(allocator.allocate(allocator.self, static_cast<size_t>(taken.bytes), gpu_alignment));
  } else {
    DeviceAddress address = 0;
    const DriverStatus status = calls.allocate(&address, static_cast<size_t>(taken.bytes));
    if (status == DriverStatus::Success) taken.memory = reinterpret_cast<char*>(address);
  }
  if (taken.memory != nullptr) return ok;
  return fail(no_memory, "E0643: the device has not enough memory: %lld bytes of workspace cannot be allocated",
              static_cast<long long>(bytes));
}

// Kept for the next call on its stream; what is smaller makes room for it.
inline void put_block(OnDevice& here, GpuBlock block) {
  if (block.memory == nullptr) return;
  {
    const Locked locked(gpu_library.lock);
    GpuBlock* place = nullptr;
    if (block.from.allocate == gpu_library.allocator.allocate && block.from.self == gpu_library.allocator.self) {
      for (GpuBlock& kept : here.device->blocks) {
        if (kept.memory == nullptr || (kept.bytes < block.bytes && place == nullptr)) place = &kept;
        if (kept.memory == nullptr) break;
      }
    }
    if (place != nullptr) {
      const GpuBlock out = *place;
      *place = block;
      block = out;
    }
  }
  give_back(block);
}

// Gives back what rests, in every context.
inline void drop_blocks() {
  for (GpuDevice* device = __atomic_load_n(&gpu_library.devices, __ATOMIC_ACQUIRE); device != nullptr;
       device = device->next) {
    if (gpu_library.calls.context_push(device->context) != DriverStatus::Success) continue;
    GpuBlock dropped[GpuDevice::kept_blocks];
    {
      const Locked locked(gpu_library.lock);
      for (i32 i = 0; i < GpuDevice::kept_blocks; ++i) {
        dropped[i] = device->blocks[i];
        device->blocks[i] = GpuBlock();
      }
    }
    for (const GpuBlock& block : dropped) give_back(block);
    ContextHandle popped = nullptr;
    (void)gpu_library.calls.context_pop(&popped);
  }
}

inline Status set_allocator(void* (*allocate)(void*, size_t, size_t), void (*release)(void*, void*, size_t, size_t),
                            void* self) {
  if ((allocate == nullptr) != (release == nullptr))
    return fail(bad_argument, "E0701: an allocator needs both of its functions, or neither for the default one");
  {
    const Locked locked(gpu_library.lock);
    gpu_library.allocator = {allocate, release, self};
  }
  drop_blocks();
  return ok;
}

// When the library is unloaded.
[[gnu::destructor]] inline void release_all() {
  if (process_ends != 0) return;
  GpuLibrary& all = gpu_library;
  const GpuCalls& calls = all.calls;
  if (all.ready != 0) drop_blocks();
  while (all.devices != nullptr) {
    GpuDevice* device = all.devices;
    all.devices = device->next;
    if (calls.context_push(device->context) == DriverStatus::Success) {
      for (i32 k = 0; k < gpu_facts.kernel_count; ++k) {
        for (const ModuleHandle module : device->loaded[k].modules) {
          if (module != nullptr) (void)calls.module_unload(module);
        }
      }
      if (device->faults != nullptr) (void)calls.release_host(device->faults);
      for (i32 p = 0; p < gpu_facts.program_count; ++p) {
        if (device->constants[p] != nullptr) (void)calls.release(reinterpret_cast<DeviceAddress>(device->constants[p]));
      }
      ContextHandle popped = nullptr;
      (void)calls.context_pop(&popped);
    }
    for (i32 k = 0; k < gpu_facts.kernel_count; ++k) free(device->loaded[k].functions);
    free(device->loaded);
    free(device->constants);
    free(device);
  }
  DeviceId id = 0;
  if (all.primary != nullptr && calls.device_get(&id, 0) == DriverStatus::Success) (void)calls.primary_release(id);
  all.primary = nullptr;
}

// ---- starting ----
inline bool is_ready() { return __atomic_load_n(&gpu_library.ready, __ATOMIC_ACQUIRE) != 0; }

// Once: loads the driver, then lets `load` map what the programs need. A failure leaves all as it was.
inline Status start_library(Status (*load)(const char* path), const char* path) {
  const Locked locked(gpu_library.starting);
  if (is_ready()) return ok;
  CODETTA_OK(gpu_facts.load_driver(gpu_library.calls));
  CODETTA_OK(load(path));
  static const NoticeOfEnd notice;
  __atomic_store_n(&gpu_library.ready, 1, __ATOMIC_RELEASE);
  return ok;
}

// Everything of the library in the context of this thread.
inline Status prepare_device() {
  OnDevice here;
  CODETTA_OK(here.enter(nullptr));
  const DevicesAlike kind{here.device, 1};
  if (gpu_facts.compile_all != nullptr) CODETTA_OK(gpu_facts.compile_all(&kind, 1, nullptr));
  for (i32 k = 0; k < gpu_facts.kernel_count; ++k) {
    GpuLoaded* loaded = nullptr;
    CODETTA_OK(load_kernel(*here.device, *gpu_facts.kernels[k], nullptr, &loaded));
  }
  return ok;
}

}  // namespace codetta::host
