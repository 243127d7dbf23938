// SPDX-License-Identifier: Apache-2.0
// The state of the pretended NVRTC (fake_nvrtc.cpp), for tests to set and to read.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace codetta::test {

struct FakeNvrtc {
  std::string spills_if;  // sources that hold this text get a kernel that spills
  int compiles = 0;       // what happened
  std::vector<std::string> sources;
  void reset() { *this = FakeNvrtc(); }
};

// The state inside of the library at `path`, which is loaded with it.
inline FakeNvrtc& fake_nvrtc(const char* path) {
  void* handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  using Get = FakeNvrtc* (*)();
  return *reinterpret_cast<Get>(::dlsym(handle, "codetta_fake_nvrtc"))();
}

}  // namespace codetta::test
