// SPDX-License-Identifier: Apache-2.0
#include "runtime/hip/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "device/host/hip_peers.h"

namespace codetta::runtime::hip {

namespace {

using cuda::DeviceId;
using cuda::Status;

// hipDeviceProp_t as ROCm 6 and 7 have it (hipGetDevicePropertiesR0600): 1472 bytes, the architecture's name in 256 of
// them from byte 1160 on. The rest is asked for by attributes.
struct Properties {
  alignas(8) char before[1160];
  char architecture[256];
  char behind[1472 - 1160 - 256];
};
static_assert(sizeof(Properties) == 1472);

Status (*device_properties)(Properties* properties, int device);

Status device_architecture(char* name, size_t bytes, DeviceId device) {
  Properties properties{};
  const Status status = device_properties(&properties, device);
  properties.architecture[sizeof properties.architecture - 1] = '\0';
  std::strncpy(name, properties.architecture, bytes - 1);
  name[bytes - 1] = '\0';
  return status;
}

Error unusable(const std::string& headline, const std::string& reason) {
  return diag::error(diag::Code::hip_runtime, headline).reason(reason).help(std::string(cuda::help_hip_runtime));
}

struct Found {
  void* handle = nullptr;
  std::string name, tried;
};
// Those that are loaded already come first.
Found find(const std::string& library) {
  Found found;
  std::vector<std::string> names(std::begin(hip_runtime::libraries), std::end(hip_runtime::libraries));
  if (!library.empty()) names = {library};
  for (const int loaded : {RTLD_NOLOAD, 0}) {
    for (const std::string& name : names) {
      found.handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | loaded);
      found.name = name;
      if (found.handle != nullptr) return found;
      const char* said = ::dlerror();
      if (loaded == 0)
        found.tried +=
            fmt::format("{}{}", found.tried.empty() ? "" : "; ", said != nullptr ? said : name + " can not be loaded");
    }
  }
  found.name = names.front();
  return found;
}

// The functions that stand behind wrappers.
struct Wrapped {
  hip_runtime::Calls calls{};
  decltype(device_properties) properties = nullptr;
  hip_runtime::PeerCalls peers{};
};
Wrapped look_up_wrapped(void* handle, std::string& missing) {
  Wrapped wrapped;
  const auto look_up = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, symbol));
    if (function == nullptr && missing.empty()) missing = symbol;
  };
  hip_runtime::for_each_call(wrapped.calls, look_up);
  look_up(wrapped.properties, "hipGetDevicePropertiesR0600");
  hip_runtime::for_each_peer_call(wrapped.peers, look_up);
  return wrapped;
}
// Whether the process may use them; `use`: puts them where the wrappers find them, for good. Errors: E0654.
Result<void> only_one(const Wrapped& wrapped, const std::string& name, bool use) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (device_properties == nullptr) {
    if (!use) return {};
    hip_runtime::calls = wrapped.calls;
    device_properties = wrapped.properties;
    hip_runtime::peer_calls = wrapped.peers;
    return {};
  }
  if (device_properties == wrapped.properties) return {};
  return unusable("another HIP runtime is in use", "this process runs kernels over a HIP runtime that is not " + name);
}

}  // namespace

Result<cuda::DriverRef> load(const std::string& library) {
  const Found found = find(library);
  if (found.handle == nullptr)
    return unusable("no HIP runtime was found", "looked for " + found.name + ": " + found.tried);
  cuda::DriverTable table;
  std::string missing;
#define CODETTA_CU(member, symbol, hip, since, parameters)                               \
  if (hip[0] != '\0') {                                                                  \
    table.member = reinterpret_cast<decltype(table.member)>(::dlsym(found.handle, hip)); \
    if (table.member == nullptr && missing.empty()) missing = hip;                       \
  }
#include "runtime/cuda/functions.def"
#undef CODETTA_CU
  const Wrapped wrapped = look_up_wrapped(found.handle, missing);
  int version = 0;
  if (table.driver_get_version != nullptr) (void)table.driver_get_version(&version);
  if (!missing.empty() || (version != 0 && version < hip_runtime::oldest_version)) {
    const std::string why = missing.empty() ? "" : fmt::format("it lacks {}, and ", missing);
    return unusable("the HIP runtime is too old",
                    fmt::format("{}: {}it says that it is of {}; {} is needed", found.name, why,
                                version == 0 ? "no version" : cuda::version_text(version, cuda::Api::Hip),
                                cuda::version_text(hip_runtime::oldest_version, cuda::Api::Hip)));
  }
  CODETTA_CHECK_OK(only_one(wrapped, found.name, false));
  table.device_get_attribute = hip_runtime::device_attribute;
  table.pointer_get_attributes = hip_runtime::pointer_attributes;
  table.primary_retain = hip_runtime::primary_retain;
  table.primary_release = hip_runtime::primary_release;
  table.context_get_current = hip_runtime::context_current;
  table.context_push = hip_runtime::context_push;
  table.context_pop = hip_runtime::context_pop;
  table.stream_get_context = hip_runtime::stream_context;
  table.stream_is_capturing = hip_runtime::stream_capturing;
  table.function_set_attribute = hip_runtime::function_allow;
  table.launch_kernel = hip_runtime::launch;
  table.enable_peer = hip_runtime::enable_peer;
  table.device_architecture = device_architecture;
  CODETTA_TRY(cuda::DriverRef driver, cuda::Driver::from_table(table, found.name, cuda::Api::Hip));
  CODETTA_CHECK_OK(only_one(wrapped, found.name, true));  // one that can not be used is not the one in use
  return driver;
}

}  // namespace codetta::runtime::hip
