// SPDX-License-Identifier: Apache-2.0
// A module for each image and context, loaded when one of its kernels is first asked for there, and unloaded with the
// library. CODETTA_PRETENDED_CUDART: a status to give instead.
#include "pretended_cudart.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <utility>

namespace {

template <class F>
F driver(const char* name) {
  static void* const handle = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F>(::dlsym(handle, name));
}

struct Runtime {
  std::map<const void*, std::pair<const unsigned char*, const char*>> kernels;
  std::map<std::pair<void*, const unsigned char*>, void*> modules;
  ~Runtime() {
    for (const auto& [key, module] : modules) {
      void* popped = nullptr;
      driver<int (*)(void*)>("cuCtxPushCurrent_v2")(key.first);
      driver<int (*)(void*)>("cuModuleUnload")(module);
      driver<int (*)(void**)>("cuCtxPopCurrent_v2")(&popped);
    }
  }
};
Runtime& runtime() {
  static Runtime one;
  return one;
}

constexpr int no_context = 201, invalid_device_function = 98;

}  // namespace

PretendedKernel::PretendedKernel(const void* symbol, const unsigned char* image, const char* name) {
  runtime().kernels[symbol] = {image, name};
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  if (const char* status = std::getenv("CODETTA_PRETENDED_CUDART")) return static_cast<cudaError_t>(std::atoi(status));
  void* context = nullptr;
  driver<int (*)(void**)>("cuCtxGetCurrent")(&context);
  if (context == nullptr) return static_cast<cudaError_t>(no_context);
  const auto known = runtime().kernels.find(symbol);
  if (known == runtime().kernels.end()) return static_cast<cudaError_t>(invalid_device_function);
  const auto [image, name] = known->second;
  void*& module = runtime().modules[{context, image}];
  int status = 0;
  if (module == nullptr) status = driver<int (*)(void**, const void*)>("cuModuleLoadData")(&module, image);
  if (status == 0)
    status = driver<int (*)(cudaFunction_t*, void*, const char*)>("cuModuleGetFunction")(function, module, name);
  return static_cast<cudaError_t>(status);
}
