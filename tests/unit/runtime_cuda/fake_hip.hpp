// SPDX-License-Identifier: Apache-2.0
// What the pretended HIP runtime (fake_hip.cpp) has beside the state of the pretended CUDA driver.
#pragma once

#include <dlfcn.h>

#include "unit/runtime_cuda/fake_driver.hpp"

namespace codetta::test {

struct FakeHip {
  int version = 60300000;  // 6.3
  int device = 0;          // the thread's (tests use one)
};

// Loads it; the pretended CUDA driver is loaded before. From then on who asks for libamdhip64.so.6 gets it.
inline FakeHip& fake_hip(const char* path) {
  void* handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  using Get = FakeHip* (*)();
  return *reinterpret_cast<Get>(::dlsym(handle, "codetta_fake_hip"))();
}

}  // namespace codetta::test
