// SPDX-License-Identifier: Apache-2.0
// What the pretended HIP runtime and its compiler (fake_hip.cpp) have beside the state of the pretended CUDA driver.
#pragma once

#include <dlfcn.h>

#include "unit/runtime_cuda/fake_driver.hpp"

namespace codetta::test {

struct FakeHip {
  int version = 60300000;  // 6.3
  int device = 0;          // the thread's (tests use one)
  // Of the call for peers that failed last, until it is asked for.
  runtime::cuda::Status last_error = runtime::cuda::Status::Success;
  std::string architecture = "gfx942:sramecc+:xnack-";
  // The pretended hiprtc, which is in the same library.
  int compiles = 0;
  std::string rejects_if;            // sources that contain it; "" none
  std::string scratch_if;            // kernels of such sources have a stack
  std::vector<std::string> flags;    // of the last compile
  std::vector<std::string> headers;  // names, of the last compile
  void reset() { *this = FakeHip(); }
};

// Loads it; the pretended CUDA driver is loaded before. From then on who asks for libamdhip64.so.6 gets it.
inline FakeHip& fake_hip(const char* path) {
  void* handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  using Get = FakeHip* (*)();
  return *reinterpret_cast<Get>(::dlsym(handle, "codetta_fake_hip"))();
}

}  // namespace codetta::test
