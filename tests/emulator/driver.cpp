// SPDX-License-Identifier: Apache-2.0
#include "emulator/driver.hpp"

#include <elf.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "emulator/faults.hpp"
#include "emulator/object.hpp"

namespace codetta::emulator {
namespace {

using namespace runtime::cuda;

Model& the_model() {
  static Model model;
  return model;
}
std::atomic<uint64_t>& the_seed() {
  static std::atomic<uint64_t> seed{1};
  return seed;
}
std::string& the_failure() {
  thread_local std::string text;
  return text;
}

struct LoadedFunction {
  Kernel kernel;
  std::atomic<uint64_t> launches{0};
};
struct LoadedModule {
  Object object;
  std::mutex mutex;
  std::map<std::string, LoadedFunction> functions;
};

ContextHandle the_context() { return reinterpret_cast<ContextHandle>(&the_model()); }
ContextHandle& current_context() {
  thread_local ContextHandle context = nullptr;
  return context;
}

// Calls that nothing here makes.
template <class F>
struct Unused;
template <class... P>
struct Unused<Status (*)(P...)> {
  static Status call(P...) { return Status::CaptureUnsupported; }
};
template <class... P>
struct Does {
  static Status nothing(P...) { return Status::Success; }
};

Status get_error_name(Status status, const char** text) {
  *text = status == Status::LaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR";
  return Status::Success;
}
Status get_error_string(Status status, const char** text) {
  *text = status == Status::LaunchFailed || status == Status::InvalidImage ? the_failure().c_str()
                                                                           : "refused by the emulator";
  return Status::Success;
}
Status device_get_attribute(int* value, int attribute, DeviceId) {
  const Model& model = the_model();
  constexpr int kib = 1024;
  switch (attribute) {
    case device_capability_major:
      *value = model.major;
      break;
    case device_capability_minor:
      *value = model.minor;
      break;
    case device_multiprocessors:
      *value = model.multiprocessors;
      break;
    case device_max_threads_per_block:
      *value = 1024;
      break;
    case device_max_threads_per_multiprocessor:
      *value = 2048;
      break;
    case device_max_grid_x:
      *value = model.grid_x;
      break;
    case device_max_grid_y:
    case device_max_grid_z:
      *value = 65535;
      break;
    case device_shared_per_block:
      *value = 48 * kib;
      break;
    case device_shared_per_block_optin:
      *value = (model.major == 8 && model.minor != 0 ? 99 : 163) * kib;
      break;
    case device_shared_per_multiprocessor:
      *value = (model.major == 8 && model.minor != 0 ? 100 : 164) * kib;
      break;
    case device_reserved_shared_per_block:
      *value = kib;
      break;
    case device_registers_per_multiprocessor:
      *value = 65536;
      break;
    case device_l2_bytes:
      *value = 4 * kib * kib;
      break;
    case device_cluster_launch:
    case device_tensor_maps:
      *value = 0;
      break;
    default:
      *value = 1000;  // clocks and widths
  }
  return Status::Success;
}

Status mem_alloc(DeviceAddress* address, size_t bytes) {
  static std::atomic<unsigned> count{0};
  void* const memory = allocate_guarded(bytes, count++ % 2 == 0);
  *address = reinterpret_cast<DeviceAddress>(memory);
  return memory == nullptr ? Status::OutOfMemory : Status::Success;
}
Status mem_free(DeviceAddress address) {
  auto* const memory = reinterpret_cast<void*>(address);
  if (!is_guarded(memory)) return Status::InvalidValue;
  free_guarded(memory);
  return Status::Success;
}
Status pointer_get_attributes(unsigned count, int* attributes, void** values, DeviceAddress) {
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == pointer_memory_type) *static_cast<unsigned*>(values[i]) = memory_type_device;
    if (attributes[i] == pointer_is_managed) *static_cast<unsigned char*>(values[i]) = 0;
    if (attributes[i] == pointer_device_ordinal) *static_cast<int*>(values[i]) = 0;
  }
  return Status::Success;
}

// The size of an ELF file whose section headers come last, as linkers write it.
size_t elf_bytes(const void* image) {
  const auto* const header = static_cast<const Elf64_Ehdr*>(image);
  return header->e_shoff + size_t{header->e_shentsize} * header->e_shnum;
}
Status module_load_data(ModuleHandle* module, const void* image) {
  auto loaded = Object::load({static_cast<const char*>(image), elf_bytes(image)});
  if (!loaded) {
    the_failure() = loaded.error().render();
    return Status::InvalidImage;
  }
  auto* const result = new LoadedModule;
  result->object = *std::move(loaded);
  *module = reinterpret_cast<ModuleHandle>(result);
  return Status::Success;
}
Status module_unload(ModuleHandle module) {
  delete reinterpret_cast<LoadedModule*>(module);
  return Status::Success;
}
Status module_get_function(FunctionHandle* function, ModuleHandle module, const char* name) {
  auto* const loaded = reinterpret_cast<LoadedModule*>(module);
  const std::lock_guard lock(loaded->mutex);
  LoadedFunction& result = loaded->functions[name];
  result.kernel = loaded->object.kernel(name);
  if (result.kernel.run == nullptr) return Status::NotFound;
  *function = reinterpret_cast<FunctionHandle>(&result);
  return Status::Success;
}
Status function_get_attribute(int* value, int attribute, FunctionHandle) {
  *value = attribute == function_max_threads ? 1024 : 0;
  return Status::Success;
}
Status max_active_blocks(int* blocks, FunctionHandle, int, size_t) {
  *blocks = 1;
  return Status::Success;
}
Status launch_kernel(const LaunchConfig* config, FunctionHandle function, void** parameters, void**) {
  Grid grid;
  grid.blocks = {config->grid_x, config->grid_y, config->grid_z};
  grid.threads = {config->block_x, config->block_y, config->block_z};
  grid.lanes = the_model().lanes;
  grid.dynamic_shared = config->dynamic_shared;
  // Another order each time, so that runs that must give the same bits don't go the same way.
  auto& loaded = *reinterpret_cast<LoadedFunction*>(function);
  grid.seed = the_seed() == 0 ? 0 : the_seed() + loaded.launches++;
  auto failure = launch(loaded.kernel, grid, parameters);
  the_failure() = failure ? *std::move(failure) : surroundings_text(nullptr);
  return the_failure().empty() ? Status::Success : Status::LaunchFailed;
}

DriverTable make_table() {
  DriverTable t;
#define CODETTA_CU(member, symbol, hip, since, parameters) t.member = Unused<Status(*) parameters>::call;
#include "runtime/cuda/functions.def"
#undef CODETTA_CU
  t.init = Does<unsigned>::nothing;
  t.driver_get_version = [](int* version) { return *version = 12080, Status::Success; };
  t.get_error_name = get_error_name;
  t.get_error_string = get_error_string;
  t.device_get_count = [](int* count) { return *count = 1, Status::Success; };
  t.device_get = [](DeviceId* device, int) { return *device = 0, Status::Success; };
  t.device_get_name = [](char* name, int length, DeviceId) {
    std::strncpy(name, "emulated device", static_cast<size_t>(length));
    return Status::Success;
  };
  t.device_get_uuid = [](Uuid* uuid, DeviceId) { return *uuid = {}, Status::Success; };
  t.device_get_attribute = device_get_attribute;
  t.device_total_mem = [](size_t* bytes, DeviceId) { return *bytes = size_t{1} << 32, Status::Success; };
  t.primary_retain = [](ContextHandle* context, DeviceId) { return *context = the_context(), Status::Success; };
  t.primary_release = Does<DeviceId>::nothing;
  t.context_get_current = [](ContextHandle* context) { return *context = current_context(), Status::Success; };
  t.context_push = [](ContextHandle context) { return current_context() = context, Status::Success; };
  t.context_pop = [](ContextHandle* context) {
    *context = std::exchange(current_context(), nullptr);
    return Status::Success;
  };
  t.context_synchronize = Does<>::nothing;
  t.mem_get_info = [](size_t* free_bytes, size_t* total) {
    *free_bytes = *total = size_t{1} << 32;
    return Status::Success;
  };
  t.mem_alloc = mem_alloc;
  t.mem_free = mem_free;
  t.mem_host_alloc = [](void** memory, size_t bytes, unsigned) {
    *memory = allocate_guarded(bytes, true, true);
    return *memory == nullptr ? Status::OutOfMemory : Status::Success;
  };
  t.mem_host_free = [](void* memory) { return free_guarded(memory), Status::Success; };
  t.copy_to_device = [](DeviceAddress to, const void* from, size_t bytes, StreamHandle) {
    return std::memcpy(reinterpret_cast<void*>(to), from, bytes), Status::Success;
  };
  t.copy_to_host = [](void* to, DeviceAddress from, size_t bytes, StreamHandle) {
    return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), Status::Success;
  };
  t.copy_on_device = [](DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle) {
    return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), Status::Success;
  };
  t.copy_between = t.copy_on_device;
  t.can_access_peer = [](int* can, DeviceId, DeviceId) { return *can = 0, Status::Success; };
  t.stream_wait_event = Does<StreamHandle, EventHandle, unsigned>::nothing;
  t.memset_8 = [](DeviceAddress to, unsigned char value, size_t count, StreamHandle) {
    return std::memset(reinterpret_cast<void*>(to), value, count), Status::Success;
  };
  t.pointer_get_attributes = pointer_get_attributes;
  t.stream_create = [](StreamHandle* stream, unsigned) {
    *stream = reinterpret_cast<StreamHandle>(&the_model());
    return Status::Success;
  };
  t.stream_destroy = Does<StreamHandle>::nothing;
  t.stream_synchronize = Does<StreamHandle>::nothing;
  t.stream_get_context = [](StreamHandle, ContextHandle* context) { return *context = the_context(), Status::Success; };
  t.stream_is_capturing = [](StreamHandle, int* status) { return *status = 0, Status::Success; };
  t.exchange_capture_mode = Does<int*>::nothing;
  t.event_create = [](EventHandle* event, unsigned) {
    *event = reinterpret_cast<EventHandle>(&the_model());
    return Status::Success;
  };
  t.event_destroy = Does<EventHandle>::nothing;
  t.event_record = Does<EventHandle, StreamHandle>::nothing;
  t.event_synchronize = Does<EventHandle>::nothing;
  t.event_elapsed_time = [](float* milliseconds, EventHandle, EventHandle) {
    return *milliseconds = 1, Status::Success;
  };
  t.module_load_data = module_load_data;
  t.module_unload = module_unload;
  t.module_get_function = module_get_function;
  t.function_get_attribute = function_get_attribute;
  t.function_set_attribute = Does<FunctionHandle, int, int>::nothing;
  t.max_active_blocks = max_active_blocks;
  t.launch_kernel = launch_kernel;
  return t;
}

}  // namespace

Result<DeviceRef> open_device(const Model& model) {
  the_model() = model;
  CODETTA_TRY(DriverRef driver, Driver::from_table(make_table(), "the emulator"));
  return Device::open(std::move(driver), 0);
}

void set_seed(uint64_t seed) { the_seed() = seed; }
const std::string& last_failure() { return the_failure(); }

}  // namespace codetta::emulator
