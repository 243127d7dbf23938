// SPDX-License-Identifier: Apache-2.0
// NVTX without its headers. Version 3 has no library of its own: whoever makes ranges loads the profiler's library and
// hands it tables in which it puts its functions. Values and layouts follow nvtxTypes.h, which keeps them stable.
#include "runtime/cuda/nvtx.hpp"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace codetta::runtime::cuda {
namespace {

constexpr uint32_t table_of_callbacks = 1, table_of_version = 3, module_core = 1;
constexpr size_t range_push = 9, range_pop = 11, core_functions = 16;
constexpr uint32_t nvtx_version = 3;

using Slot = void (*)();
// The profiler keeps the tables for the life of the process, and there is one profiler of it.
std::array<Slot, core_functions>& functions() {
  static std::array<Slot, core_functions> slots{};
  return slots;
}

int function_table(int module, Slot*** table, unsigned* size) {
  static std::array<Slot*, core_functions + 1> pointers{};
  if (module != static_cast<int>(module_core) || table == nullptr) return 0;
  for (size_t i = 1; i < core_functions; ++i) pointers[i] = &functions()[i];
  *table = pointers.data();
  if (size != nullptr) *size = core_functions;
  return 1;
}
void set_profiler_version(uint32_t) {}

struct Callbacks {
  size_t bytes;
  int (*function_table)(int module, Slot*** table, unsigned* size);
};
struct Version {
  size_t bytes;
  uint32_t version, reserved;
  void (*set_profiler_version)(uint32_t);
};

const void* export_table(uint32_t id) {
  static const Callbacks callbacks{sizeof(Callbacks), function_table};
  static const Version version{sizeof(Version), nvtx_version, 0, set_profiler_version};
  return id == table_of_callbacks ? static_cast<const void*>(&callbacks)
         : id == table_of_version ? static_cast<const void*>(&version)
                                  : nullptr;
}

}  // namespace

std::shared_ptr<const Nvtx> Nvtx::attach(const std::string& injection) {
  std::shared_ptr<Nvtx> made(new Nvtx);
  if (!injection.empty()) {
    void* const library = ::dlopen(injection.c_str(), RTLD_NOW | RTLD_LOCAL);
    using Initialize = int (*)(const void* (*)(uint32_t));
    const auto initialize =
        library != nullptr ? reinterpret_cast<Initialize>(::dlsym(library, "InitializeInjectionNvtx2")) : nullptr;
    if (initialize != nullptr && initialize(export_table) != 0) {
      made->push_ = reinterpret_cast<int (*)(const char*)>(functions()[range_push]);
      made->pop_ = reinterpret_cast<int (*)()>(functions()[range_pop]);
    }
  } else if (void* const library = ::dlopen("libnvToolsExt.so.1", RTLD_NOW | RTLD_LOCAL)) {
    made->push_ = reinterpret_cast<int (*)(const char*)>(::dlsym(library, "nvtxRangePushA"));
    made->pop_ = reinterpret_cast<int (*)()>(::dlsym(library, "nvtxRangePop"));
  }
  if (made->push_ == nullptr || made->pop_ == nullptr) return nullptr;
  return made;
}

}  // namespace codetta::runtime::cuda
