// SPDX-License-Identifier: Apache-2.0
// A pretended libcuda.so.1: device memory is host memory, launches are written down, any call can be told to fail.
// Calls come from any number of threads, one after the other; what is told and written down is read where no call is
// made.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "device/gpu/abi.h"
#include "device/gpu/step_abi.h"
#include "unit/runtime_cuda/fake_driver.hpp"

using namespace codetta::runtime::cuda;
using codetta::test::FakeDriver;
using codetta::test::FakeLaunch;

namespace {

FakeDriver state;
std::recursive_mutex one_at_a_time;  // what a stream is to call may call back
// As drivers are at the end of a process: whoever calls one then is told.
bool torn_down = false;
struct TearDown {
  ~TearDown() { torn_down = true; }
} tear_down;

// One object per device context, stream, event, module and function; only their addresses matter.
struct Context {
  int device = 0;
};
Context contexts[8];
struct Stream {
  Context* owner = nullptr;
};
struct Event {
  Context* owner = nullptr;
  codetta::test::Seen seen;
  const void* origin = nullptr;  // of the capture that it was recorded in
};
struct Module {
  std::string image;
  Context* owner = nullptr;
};
struct Function {
  std::string name;
  Context* owner = nullptr;
  size_t parameter_bytes = 0;  // said by the image ("name:bytes"), else by the test
};

// What every kernel of steps takes; 0: it is none.
size_t step_parameter_bytes(const std::string& function) {
  if (function == "codetta_step_put") return sizeof(codetta::gpu::PutParams);
  if (function == "codetta_step_move") return sizeof(codetta::gpu::MoveParams);
  return function == "codetta_step_look" ? sizeof(codetta::gpu::LookParams) : 0;
}

Status enter(const char* symbol) {
  if (torn_down) {
    std::fprintf(stderr, "%s is called after the driver was torn down\n", symbol);
    std::abort();
  }
  state.calls.emplace_back(symbol);
  const auto wanted = state.fail.find(symbol);
  if (wanted == state.fail.end()) return Status::Success;
  const auto works = state.works_before.find(symbol);
  if (works != state.works_before.end() && works->second != 0) {
    --works->second;
    return Status::Success;
  }
  const auto only = state.fails_only.find(symbol);
  if (only == state.fails_only.end()) return wanted->second;
  if (only->second == 0) return Status::Success;
  --only->second;
  return wanted->second;
}

// Calls that may not be made while a stream is captured, unless the thread has relaxed that: they spoil the capture.
Status unsafe() {
  if (state.capturing.empty() || state.capture_mode == capture_mode_relaxed) return Status::Success;
  state.invalidated = state.capturing;
  return Status::CaptureUnsupported;
}
// The default stream waits for all blocking streams of its context, which a captured one would have to be among.
Status uses(StreamHandle stream) {
  if (stream != nullptr || !state.implicit_capture) return Status::Success;
  state.invalidated = state.capturing;
  return Status::CaptureImplicit;
}

void move_elements(const codetta::gpu::MoveParams& params);
void compute(const FakeLaunch& launch) {
  if (codetta::gpu::MoveParams move{};
      state.moves && launch.function == "codetta_step_move" && launch.parameters.size() >= sizeof move) {
    std::memcpy(&move, launch.parameters.data(), sizeof move);
    move_elements(move);
  }
  codetta::gpu::Params<0, 1, 1, 0> params{};
  if (!state.computes || launch.function != "codetta_gemm" || launch.parameters.size() < sizeof params) return;
  std::memcpy(&params, launch.parameters.data(), sizeof params);
  const codetta::gpu::Problem& p = params.problem;
  const auto* a = static_cast<const float*>(p.a);
  const auto* b = static_cast<const float*>(p.b);
  auto* d = static_cast<float*>(params.operand[0].data);
  for (long long i = 0; i < p.m; ++i) {
    for (long long j = 0; j < p.n; ++j) {
      float sum = 0;
      for (long long k = 0; k < p.k; ++k) sum += a[i * p.a_row + k * p.a_k] * b[k * p.b_k + j * p.b_col];
      d[i * params.operand[0].stride[1] + j * params.operand[0].stride[2]] = sum;
    }
  }
}

// What names the kernels of an image: of a real one all bytes, whose number its header says; a pretended one has them
// behind the four bytes of its magic number.
std::string image_text(const char* image) {
  if (image[4] != 2) return image + 4;  // ELFCLASS64
  uint64_t sections = 0;
  uint16_t size = 0, count = 0;
  std::memcpy(&sections, image + 40, sizeof sections);
  std::memcpy(&size, image + 58, sizeof size);
  std::memcpy(&count, image + 60, sizeof count);
  return {image, static_cast<size_t>(sections) + size_t{size} * count};
}

Context* current() { return state.contexts().empty() ? nullptr : static_cast<Context*>(state.contexts().back()); }

// ---- what is looked at (FakeDriver::looks)
void wrong(const std::string& what) {
  if (std::find(state.wrong.begin(), state.wrong.end(), what) == state.wrong.end()) state.wrong.push_back(what);
}
Context* owner_of(StreamHandle stream) {
  return stream == nullptr ? current() : reinterpret_cast<Stream*>(stream)->owner;
}
codetta::test::StreamKey key_of(StreamHandle stream) { return {owner_of(stream), stream}; }
std::string device_text(const Context* context) {
  return context == nullptr ? "no device" : "device " + std::to_string(context->device);
}
// Where an address lies, if that is memory of the driver's.
const std::pair<const uint64_t, size_t>* allocation_of(uint64_t address) {
  auto at = state.allocations.upper_bound(address);
  if (at == state.allocations.begin()) return nullptr;
  --at;
  return address < at->first + std::max<size_t>(at->second, 1) ? &*at : nullptr;
}
// Work that uses memory at these addresses; `places`: of how many devices that may be.
void look(const std::string& what, StreamHandle stream, const std::vector<uint64_t>& addresses, bool anywhere = false) {
  if (!state.looks) return;
  Context* const owner = owner_of(stream);
  if (owner != current())
    wrong(what + ": the stream is of " + device_text(owner) + ", and the thread is on " + device_text(current()));
  const uint64_t number = state.order.begin(key_of(stream));
  bool one_here = addresses.empty();
  std::set<uint64_t> pieces;
  for (const uint64_t address : addresses) {
    const auto* piece = allocation_of(address);
    if (piece == nullptr) continue;
    pieces.insert(piece->first);
    const int device = state.owners[piece->first];
    one_here = one_here || (owner != nullptr && device == owner->device);
    if (!anywhere && (owner == nullptr || device != owner->device))
      wrong(what + " on " + device_text(owner) + " uses memory of device " + std::to_string(device));
  }
  if (anywhere && !one_here) wrong(what + " between other devices than " + device_text(owner));
  for (const uint64_t piece : pieces) {
    if (std::string late = state.order.use(key_of(stream), number, piece, what); !late.empty()) wrong(late);
  }
}
// For FakeDriver::log.
const void* logged(StreamHandle stream) {
  return stream != nullptr ? static_cast<const void*>(stream) : static_cast<const void*>(current());
}
void note_work(const std::string& what, StreamHandle stream, const std::vector<uint64_t>& addresses = {}) {
  std::set<int> devices;
  if (current() != nullptr) devices.insert(current()->device);
  for (const uint64_t address : addresses) {
    if (const auto* piece = allocation_of(address); piece != nullptr) devices.insert(state.owners[piece->first]);
  }
  state.log.work(what, logged(stream), std::move(devices));
}
// All words that a launch passes: those that are addresses are looked at.
void look(const FakeLaunch& launch, const Function& function) {
  if (!state.looks) return;
  if (function.owner != current())
    wrong(launch.function + " is loaded on " + device_text(function.owner) + ", and launched on " +
          device_text(current()));
  std::vector<std::byte> bytes = launch.parameters;
  for (const std::vector<std::byte>& one : launch.each) {
    bytes.insert(bytes.end(), one.begin(), one.end());
    bytes.resize((bytes.size() + 7) / 8 * 8);
  }
  std::vector<uint64_t> words(bytes.size() / 8);
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), 8 * words.size());
  look(launch.function, launch.config.stream, words);
}

void move_elements(const codetta::gpu::MoveParams& params) {
  const auto bytes = static_cast<size_t>(params.element_bytes);
  for (long long i = 0; i < params.count; ++i) {
    long long rest = i, to = 0, from = 0;
    for (int d = params.rank; d-- > 0;) {
      to += rest % params.size[d] * params.to_stride[d];
      from += rest % params.size[d] * params.from_stride[d];
      rest /= params.size[d];
    }
    const void* source = &params.bits;
    if (params.from != nullptr) source = static_cast<const char*>(params.from) + from * params.element_bytes;
    std::memcpy(static_cast<char*>(params.to) + to * params.element_bytes, source, bytes);
  }
}

int attribute_value(int attribute) {
  switch (attribute) {
    case device_max_threads_per_block:
      return 1024;
    case device_max_block_x:
    case device_max_block_y:
      return 1024;
    case device_max_block_z:
      return 64;
    case device_cooperative_launch:
      return state.cooperative ? 1 : 0;
    case device_max_window_bytes:
      return state.window_bytes;
    case device_max_grid_x:
      return 2147483647;
    case device_max_grid_y:
    case device_max_grid_z:
      return 65535;
    case device_shared_per_block:
      return 49152;
    case device_clock_khz:
      return 1980000;
    case device_multiprocessors:
      return 132;
    case device_memory_clock_khz:
      return 2619000;
    case device_memory_bus_bits:
      return 5120;
    case device_l2_bytes:
      return 52428800;
    case device_max_threads_per_multiprocessor:
      return 2048;
    case device_capability_major:
      return state.major;
    case device_capability_minor:
      return state.minor;
    case device_shared_per_multiprocessor:
      return 233472;
    case device_registers_per_multiprocessor:
      return 65536;
    case device_shared_per_block_optin:
      return 232448;
    case device_reserved_shared_per_block:
      return 1024;
    case device_cluster_launch:
      return state.major >= 9 ? 1 : 0;
    case device_tensor_maps:
      return state.major >= 9 && state.has_tensor_maps ? 1 : 0;
    default:
      return -1;
  }
}

}  // namespace

#define ENTER(symbol)                                               \
  const std::lock_guard<std::recursive_mutex> alone(one_at_a_time); \
  if (const Status status = enter(symbol); status != Status::Success) return status

extern "C" {

FakeDriver* codetta_fake_driver() { return &state; }

// For tests in other languages. How much of what a launch passes first is kept from now on.
void codetta_fake_keep(size_t bytes) { state.parameter_bytes = bytes; }
// A line for each launch since it was asked last: function, grid, block, bytes of shared memory, parameters as hex.
// False where `room` is too small.
bool codetta_fake_launches(char* text, size_t room) {
  const std::lock_guard<std::recursive_mutex> alone(one_at_a_time);
  std::string lines;
  for (const FakeLaunch& launch : state.launches) {
    const LaunchConfig& c = launch.config;
    lines += launch.function;
    for (const unsigned n : {c.grid_x, c.grid_y, c.grid_z, c.block_x, c.block_y, c.block_z, c.dynamic_shared})
      lines += " " + std::to_string(n);
    lines += " ";
    for (const std::byte one : launch.parameters) {
      for (const int shift : {4, 0}) lines += "0123456789abcdef"[static_cast<unsigned>(one) >> shift & 15];
    }
    lines += "\n";
  }
  state.launches.clear();
  if (lines.size() >= room) return false;
  std::memcpy(text, lines.c_str(), lines.size() + 1);
  return true;
}

Status cuInit(unsigned) {
  ENTER("cuInit");
  return state.devices == 0 ? Status::NoDevice : Status::Success;
}
// NVRTC asks a driver for tables of its own, of which it knows that they may be missing, but not the function.
Status cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  return Status::NotFound;
}
Status cuDriverGetVersion(int* version) {
  *version = state.version;
  return Status::Success;
}
Status cuGetErrorName(Status status, const char** text) {
  *text = status == Status::OutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
          : status == Status::IllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                             : "CUDA_ERROR_OTHER";
  return Status::Success;
}
Status cuGetErrorString(Status status, const char** text) {
  *text = status == Status::OutOfMemory ? "out of memory" : "another error";
  return Status::Success;
}
Status cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  *count = state.devices;
  return Status::Success;
}
Status cuDeviceGet(DeviceId* device, int ordinal) {
  ENTER("cuDeviceGet");
  if (ordinal < 0 || ordinal >= state.devices) return Status::InvalidDevice;
  *device = ordinal;
  return Status::Success;
}
Status cuDeviceGetName(char* name, int length, DeviceId device) {
  ENTER("cuDeviceGetName");
  std::strncpy(name, ("Pretended GPU " + std::to_string(device)).c_str(), static_cast<size_t>(length));
  return Status::Success;
}
Status cuDeviceGetUuid(Uuid* uuid, DeviceId device) {
  ENTER("cuDeviceGetUuid");
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<unsigned char>(16 * device + i);
  return Status::Success;
}
Status cuDeviceGetAttribute(int* value, int attribute, DeviceId) {
  ENTER("cuDeviceGetAttribute");
  *value = attribute_value(attribute);
  return *value < 0 ? Status::InvalidValue : Status::Success;
}
Status cuDeviceTotalMem_v2(size_t* bytes, DeviceId) {
  ENTER("cuDeviceTotalMem_v2");
  *bytes = size_t{80} << 30;
  return Status::Success;
}
Status cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceId device) {
  ENTER("cuDevicePrimaryCtxRetain");
  contexts[device].device = device;
  *context = reinterpret_cast<ContextHandle>(&contexts[device]);
  ++state.retained;
  return Status::Success;
}
Status cuDevicePrimaryCtxRelease_v2(DeviceId) {
  ENTER("cuDevicePrimaryCtxRelease_v2");
  --state.retained;
  return Status::Success;
}
Status cuCtxGetCurrent(ContextHandle* context) {
  ENTER("cuCtxGetCurrent");
  *context = reinterpret_cast<ContextHandle>(current());
  return Status::Success;
}
Status cuCtxPushCurrent_v2(ContextHandle context) {
  ENTER("cuCtxPushCurrent_v2");
  state.contexts().push_back(context);
  return Status::Success;
}
Status cuCtxPopCurrent_v2(ContextHandle* context) {
  ENTER("cuCtxPopCurrent_v2");
  if (state.contexts().empty()) return Status::InvalidContext;
  *context = static_cast<ContextHandle>(state.contexts().back());
  state.contexts().pop_back();
  return Status::Success;
}
Status cuCtxSynchronize() {
  ENTER("cuCtxSynchronize");
  if (const Status spoiled = unsafe(); spoiled != Status::Success) return spoiled;
  state.log.host_waits_for_all();
  return Status::Success;
}
Status cuCtxGetDevice(DeviceId* device) {
  ENTER("cuCtxGetDevice");
  if (current() == nullptr) return Status::InvalidContext;
  *device = current()->device;
  return Status::Success;
}
Status cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER("cuMemGetInfo_v2");
  *free = size_t{70} << 30;
  *total = size_t{80} << 30;
  return Status::Success;
}
Status cuMemAlloc_v2(DeviceAddress* address, size_t bytes) {
  ENTER("cuMemAlloc_v2");
  if (const Status spoiled = unsafe(); spoiled != Status::Success) return spoiled;
  if (current() == nullptr) return Status::InvalidContext;
  const auto limit = state.memory_limit_of.find(current()->device);
  if (bytes > (limit == state.memory_limit_of.end() ? state.memory_limit : limit->second)) return Status::OutOfMemory;
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xA5, bytes);
  *address = reinterpret_cast<uintptr_t>(memory);
  state.allocations[*address] = bytes;
  state.owners[*address] = current()->device;
  return Status::Success;
}
Status cuMemFree_v2(DeviceAddress address) {
  ENTER("cuMemFree_v2");
  if (const Status spoiled = unsafe(); spoiled != Status::Success) return spoiled;
  if (state.allocations.erase(address) == 0) return Status::InvalidValue;
  state.order.freed(address);
  std::free(reinterpret_cast<void*>(address));
  return Status::Success;
}
Status cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  if (const Status spoiled = unsafe(); spoiled != Status::Success) return spoiled;
  *memory = std::malloc(bytes);
  ++state.pinned;
  return Status::Success;
}
Status cuMemFreeHost(void* memory) {
  ENTER("cuMemFreeHost");
  if (const Status spoiled = unsafe(); spoiled != Status::Success) return spoiled;
  std::free(memory);
  --state.pinned;
  return Status::Success;
}
Status cuMemcpyHtoDAsync_v2(DeviceAddress to, const void* from, size_t bytes, StreamHandle stream) {
  ENTER("cuMemcpyHtoDAsync_v2");
  if (const Status spoiled = uses(stream); spoiled != Status::Success) return spoiled;
  look("a copy from the host", stream, {to});
  note_work("cuMemcpyHtoDAsync_v2", stream);
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return Status::Success;
}
Status cuMemcpyDtoHAsync_v2(void* to, DeviceAddress from, size_t bytes, StreamHandle stream) {
  ENTER("cuMemcpyDtoHAsync_v2");
  look("a copy to the host", stream, {from});
  note_work("cuMemcpyDtoHAsync_v2", stream);
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return Status::Success;
}
Status cuMemcpyDtoDAsync_v2(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream) {
  ENTER("cuMemcpyDtoDAsync_v2");
  look("a copy within a device", stream, {to, from});
  note_work("cuMemcpyDtoDAsync_v2", stream);
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return Status::Success;
}
// Between any two places that addresses tell.
Status cuMemcpyAsync(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream) {
  ENTER("cuMemcpyAsync");
  if (const Status spoiled = uses(stream); spoiled != Status::Success) return spoiled;
  look("a copy between devices", stream, {to, from}, true);
  note_work("cuMemcpyAsync", stream, {to, from});
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return Status::Success;
}
Status cuDeviceCanAccessPeer(int* can, DeviceId device, DeviceId peer) {
  ENTER("cuDeviceCanAccessPeer");
  *can = device != peer && state.can_reach ? 1 : 0;
  return Status::Success;
}
Status cuCtxEnablePeerAccess(ContextHandle peer, unsigned) {
  ENTER("cuCtxEnablePeerAccess");
  if (current() == nullptr || peer == nullptr) return Status::InvalidContext;
  const bool added = state.peers.emplace(current()->device, reinterpret_cast<Context*>(peer)->device).second;
  return added ? Status::Success : static_cast<Status>(704);  // it is enabled already
}
Status cuMemsetD8Async(DeviceAddress to, unsigned char value, size_t count, StreamHandle stream) {
  ENTER("cuMemsetD8Async");
  if (const Status spoiled = uses(stream); spoiled != Status::Success) return spoiled;
  look("filling", stream, {to});
  note_work("cuMemsetD8Async", stream);
  std::memset(reinterpret_cast<void*>(to), value, count);
  return Status::Success;
}
Status cuPointerGetAttributes(unsigned count, int* attributes, void** values, DeviceAddress address) {
  ENTER("cuPointerGetAttributes");
  unsigned type = state.managed ? memory_type_device : 0;
  int ordinal = -1;
  for (const auto& [base, bytes] : state.allocations) {
    if (address < base || address >= base + bytes) continue;
    type = memory_type_device;
    ordinal = state.owners[base];
  }
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == pointer_memory_type) std::memcpy(values[i], &type, sizeof type);
    if (attributes[i] == pointer_is_managed) std::memset(values[i], state.managed ? 1 : 0, 1);
    if (attributes[i] == pointer_device_ordinal) std::memcpy(values[i], &ordinal, sizeof ordinal);
  }
  return Status::Success;
}
Status cuStreamCreate(StreamHandle* stream, unsigned) {
  ENTER("cuStreamCreate");
  if (const Status spoiled = unsafe(); spoiled != Status::Success) return spoiled;
  auto* made = new Stream{current()};
  state.streams.insert(made);
  *stream = reinterpret_cast<StreamHandle>(made);
  return Status::Success;
}
Status cuStreamDestroy_v2(StreamHandle stream) {
  ENTER("cuStreamDestroy_v2");
  if (state.streams.erase(stream) == 0) return Status::InvalidHandle;
  state.order.forget(stream);
  delete reinterpret_cast<Stream*>(stream);
  return Status::Success;
}
Status cuStreamSynchronize(StreamHandle stream) {
  ENTER("cuStreamSynchronize");
  if (const Status spoiled = unsafe(); spoiled != Status::Success) return spoiled;
  if (state.looks) state.order.host_waits(key_of(stream));
  state.log.host_waits_for(logged(stream));
  return Status::Success;
}
Status cuStreamGetCtx(StreamHandle stream, ContextHandle* context) {
  ENTER("cuStreamGetCtx");
  if (state.streams.count(stream) == 0) return Status::InvalidHandle;
  *context = reinterpret_cast<ContextHandle>(reinterpret_cast<Stream*>(stream)->owner);
  return Status::Success;
}
Status cuStreamIsCapturing(StreamHandle stream, int* capture) {
  ENTER("cuStreamIsCapturing");
  if (stream == nullptr && state.implicit_capture) return Status::CaptureImplicit;
  *capture = state.capturing.count(stream) != 0 ? 1 : 0;
  return Status::Success;
}
Status cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, state.capture_mode);
  return Status::Success;
}
Status cuEventCreate(EventHandle* event, unsigned) {
  ENTER("cuEventCreate");
  *event = reinterpret_cast<EventHandle>(new Event{current(), {}, nullptr});
  ++state.events;
  return Status::Success;
}
Status cuEventDestroy_v2(EventHandle event) {
  ENTER("cuEventDestroy_v2");
  delete reinterpret_cast<Event*>(event);
  --state.events;
  return Status::Success;
}
Status cuEventRecord(EventHandle event, StreamHandle stream) {
  ENTER("cuEventRecord");
  auto& recorded = *reinterpret_cast<Event*>(event);
  if (state.looks && recorded.owner != owner_of(stream))
    wrong("an event of " + device_text(recorded.owner) + " is recorded on " + device_text(owner_of(stream)));
  if (recorded.owner != nullptr && owner_of(stream) != nullptr && recorded.owner != owner_of(stream))
    return Status::InvalidHandle;
  if (state.looks) recorded.seen = state.order.record(key_of(stream));
  state.log.record(event, logged(stream));
  recorded.origin = state.capturing.count(stream) == 0 ? nullptr
                    : state.forked.count(stream) == 0  ? stream
                                                       : state.forked[stream];
  return Status::Success;
}
// A stream that waits for work of a capture becomes part of it.
Status cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  ENTER("cuStreamWaitEvent");
  const auto& awaited = *reinterpret_cast<const Event*>(event);
  if (state.looks) state.order.wait(key_of(stream), awaited.seen);
  state.log.wait(logged(stream), event);
  if (state.capturing.count(stream) != 0) {
    const void* const origin = state.forked.count(stream) == 0 ? stream : state.forked[stream];
    if (awaited.origin == origin) return Status::Success;
    state.invalidated.insert(origin);
    return static_cast<Status>(905);  // isolation: work of a capture waits for that alone
  }
  if (awaited.origin == nullptr) return Status::Success;
  state.capturing.insert(stream);
  state.forked[stream] = awaited.origin;
  return Status::Success;
}
Status cuEventSynchronize(EventHandle event) {
  ENTER("cuEventSynchronize");
  if (state.looks) state.order.host_waits(reinterpret_cast<Event*>(event)->seen);
  state.log.host_waits_for_event(event);
  return Status::Success;
}
Status cuEventElapsedTime(float* milliseconds, EventHandle, EventHandle) {
  ENTER("cuEventElapsedTime");
  *milliseconds = 0.25F;
  return Status::Success;
}
Status cuModuleLoadData(ModuleHandle* module, const void* image) {
  ENTER("cuModuleLoadData");
  if (const Status spoiled = unsafe(); spoiled != Status::Success) return spoiled;
  *module = reinterpret_cast<ModuleHandle>(new Module{image_text(static_cast<const char*>(image)), current()});
  ++state.modules;
  return Status::Success;
}
Status cuModuleUnload(ModuleHandle module) {
  ENTER("cuModuleUnload");
  if (const Status spoiled = unsafe(); spoiled != Status::Success) return spoiled;
  delete reinterpret_cast<Module*>(module);
  --state.modules;
  return Status::Success;
}
// Functions are never freed.
Status cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  ENTER("cuModuleGetFunction");
  if (reinterpret_cast<Module*>(module)->image.find(name) == std::string::npos) return Status::NotFound;
  static std::map<std::pair<Context*, std::string>, Function> functions;
  const std::string& image = reinterpret_cast<Module*>(module)->image;
  const size_t said = image.find(std::string(name) + ":");
  const size_t bytes =
      said == std::string::npos ? 0 : std::strtoull(image.c_str() + said + std::strlen(name) + 1, nullptr, 10);
  Context* const owner = reinterpret_cast<Module*>(module)->owner;
  *function = reinterpret_cast<FunctionHandle>(&(functions[{owner, image + name}] = Function{name, owner, bytes}));
  return Status::Success;
}
Status cuFuncGetAttribute(int* value, int attribute, FunctionHandle) {
  ENTER("cuFuncGetAttribute");
  *value = attribute == function_registers       ? 168
           : attribute == function_static_shared ? 1024
           : attribute == function_max_threads   ? state.max_threads
                                                 : 0;
  return Status::Success;
}
Status cuFuncSetAttribute(FunctionHandle function, int attribute, int value) {
  ENTER("cuFuncSetAttribute");
  if (attribute == function_max_dynamic_shared) {
    state.dynamic_shared[reinterpret_cast<Function*>(function)->name] = value;
  }
  return Status::Success;
}
Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, FunctionHandle, int, size_t) {
  ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  *blocks = 1;
  return Status::Success;
}
Status cuOccupancyMaxActiveClusters(int* clusters, FunctionHandle, const LaunchConfig*) {
  ENTER("cuOccupancyMaxActiveClusters");
  *clusters = 66;
  return Status::Success;
}
Status cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void** parameters, void**) {
  ENTER("cuLaunchKernelEx");
  FakeLaunch launch;
  launch.config = *config;
  launch.attributes.assign(config->attributes, config->attributes + config->attribute_count);
  launch.function = reinterpret_cast<Function*>(function)->name;
  const size_t said = reinterpret_cast<Function*>(function)->parameter_bytes;
  if (const auto sizes = state.parameter_sizes.find(launch.function); sizes != state.parameter_sizes.end()) {
    for (size_t i = 0; i < sizes->second.size(); ++i) {
      const auto* bytes = static_cast<const std::byte*>(parameters[i]);
      launch.each.emplace_back(bytes, bytes + sizes->second[i]);
    }
  }
  const size_t step = std::min(step_parameter_bytes(launch.function), state.parameter_bytes);
  launch.parameters.resize(said != 0 ? said : step != 0 ? step : state.parameter_bytes);
  if (!launch.parameters.empty()) std::memcpy(launch.parameters.data(), parameters[0], launch.parameters.size());
  if (config->stream != nullptr && state.streams.count(config->stream) == 0) return Status::InvalidHandle;
  if (current() != nullptr) {
    if (const auto fails = state.fail_on.find(current()->device); fails != state.fail_on.end()) return fails->second;
  }
  look(launch, *reinterpret_cast<Function*>(function));
  note_work(launch.function, config->stream);
  if (state.capturing.count(config->stream) != 0) {
    state.captured.push_back(std::move(launch));
    return Status::Success;
  }
  compute(launch);
  state.launches.push_back(std::move(launch));
  return Status::Success;
}
Status cuStreamBeginCapture_v2(StreamHandle stream, int) {
  ENTER("cuStreamBeginCapture_v2");
  if (stream == nullptr || !state.capturing.insert(stream).second) return Status::CaptureUnsupported;
  state.captured.clear();
  return Status::Success;
}
Status cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  ENTER("cuStreamEndCapture");
  if (state.capturing.erase(stream) == 0) return Status::InvalidValue;
  *graph = nullptr;
  bool joined = true;  // by waiting for the last work of every stream that has become part of it
  for (auto at = state.forked.begin(); at != state.forked.end();) {
    const auto& [fork, origin] = *at;
    if (origin != stream) {
      ++at;
      continue;
    }
    const auto* handle = reinterpret_cast<const Stream*>(fork);
    joined = joined && (!state.looks || state.order.follows(key_of(stream), {handle->owner, fork}));
    state.capturing.erase(fork);
    state.invalidated.erase(fork);
    at = state.forked.erase(at);
  }
  if (state.invalidated.erase(stream) != 0) return Status::CaptureInvalidated;
  if (!joined) return static_cast<Status>(904);  // unjoined
  *graph = reinterpret_cast<GraphHandle>(new std::vector<FakeLaunch>(state.captured));
  ++state.graphs;
  return Status::Success;
}
Status cuGraphInstantiateWithFlags(GraphExecHandle* executable, GraphHandle graph, unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags");
  *executable = reinterpret_cast<GraphExecHandle>(
      new std::vector<FakeLaunch>(*reinterpret_cast<std::vector<FakeLaunch>*>(graph)));
  ++state.executables;
  return Status::Success;
}
Status cuGraphLaunch(GraphExecHandle executable, StreamHandle stream) {
  ENTER("cuGraphLaunch");
  note_work("cuGraphLaunch", stream);
  for (const FakeLaunch& launch : *reinterpret_cast<std::vector<FakeLaunch>*>(executable)) {
    compute(launch);
    state.launches.push_back(launch);
  }
  return Status::Success;
}
Status cuGraphExecDestroy(GraphExecHandle executable) {
  ENTER("cuGraphExecDestroy");
  delete reinterpret_cast<std::vector<FakeLaunch>*>(executable);
  --state.executables;
  return Status::Success;
}
Status cuGraphDestroy(GraphHandle graph) {
  ENTER("cuGraphDestroy");
  delete reinterpret_cast<std::vector<FakeLaunch>*>(graph);
  --state.graphs;
  return Status::Success;
}
#if !defined(CODETTA_FAKE_OLD_DRIVER)
Status cuTensorMapEncodeTiled(TensorMap* map, int dtype, uint32_t rank, void* address, const uint64_t* sizes,
                              const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                              int swizzle, int promotion, int fill) {
  ENTER("cuTensorMapEncodeTiled");
  if (current() == nullptr) return Status::InvalidContext;  // as the real one does
  std::memset(map, 0, sizeof *map);
  map->opaque[0] = reinterpret_cast<uintptr_t>(address);
  uint64_t all = 14695981039346656037ULL;  // of everything else that is asked for
  const auto mix = [&](uint64_t value) { all = (all ^ value) * 1099511628211ULL; };
  for (uint32_t i = 0; i < rank; ++i) mix(sizes[i]), mix(box[i]), mix(steps[i]), mix(i + 1 < rank ? strides[i] : 0);
  for (const int value : {dtype, interleave, swizzle, promotion, fill}) mix(static_cast<uint64_t>(value));
  map->opaque[1] = all;
  state.tensor_maps.push_back({dtype,
                               rank,
                               address,
                               {sizes, sizes + rank},
                               {strides, strides + rank - 1},
                               {box, box + rank},
                               swizzle,
                               {steps, steps + rank},
                               interleave,
                               promotion,
                               fill});
  return Status::Success;
}
Status cuTensorMapEncodeIm2col(TensorMap* map, int dtype, uint32_t rank, void* address, const uint64_t* sizes,
                               const uint64_t* strides, const int* lower, const int* upper, uint32_t channels,
                               uint32_t pixels, const uint32_t* steps, int interleave, int swizzle, int promotion,
                               int fill) {
  ENTER("cuTensorMapEncodeIm2col");
  if (current() == nullptr) return Status::InvalidContext;
  codetta::test::FakeTensorMap made{dtype,
                                    rank,
                                    address,
                                    {sizes, sizes + rank},
                                    {strides, strides + rank - 1},
                                    {},
                                    swizzle,
                                    {steps, steps + rank},
                                    interleave,
                                    promotion,
                                    fill,
                                    true,
                                    {lower, lower + rank - 2},
                                    {upper, upper + rank - 2},
                                    channels,
                                    pixels};
  std::memset(map, 0, sizeof *map);
  map->opaque[0] = reinterpret_cast<uintptr_t>(address);
  uint64_t all = 14695981039346656037ULL;
  const auto mix = [&](uint64_t value) { all = (all ^ value) * 1099511628211ULL; };
  for (uint32_t i = 0; i < rank; ++i) mix(sizes[i]), mix(steps[i]), mix(i + 1 < rank ? strides[i] : 0);
  for (uint32_t i = 0; i + 2 < rank; ++i) mix(static_cast<uint64_t>(lower[i])), mix(static_cast<uint64_t>(upper[i]));
  for (const int value : {dtype, interleave, swizzle, promotion, fill}) mix(static_cast<uint64_t>(value));
  mix(channels), mix(pixels);
  map->opaque[1] = all;
  state.tensor_maps.push_back(std::move(made));
  return Status::Success;
}
#endif

}  // extern "C"
