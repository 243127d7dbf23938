// SPDX-License-Identifier: Apache-2.0
// The state of the pretended cuBLASLt (fake_cublaslt.cpp), for tests to set and to read.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <vector>

namespace codetta::test {

struct FakeCublasLt {
  size_t version = 130000;
  int proposals = 3;       // how many it has for any product
  uint64_t workspace = 0;  // bytes that each of them needs
  int fail_multiply = 0;   // status of the product, if not 0
  int fail_create = 0;     // of cublasLtCreate
  // What happened.
  int handles = 0, descriptors = 0, layouts = 0, preferences = 0;  // alive
  int asked = 0, multiplied = 0;
  struct Question {
    int64_t items, rows, leading;  // of D
    bool operator==(const Question&) const = default;
  };
  std::vector<Question> questions;  // in their order
  uint64_t algorithm = 0;           // of the last product
  uint32_t epilogue = 0, reductions = 0;
  size_t workspace_given = 0;
  bool fast_accumulation = false;
  int compute = 0;
  void reset() { *this = FakeCublasLt(); }
};

// The state inside of the library at `path`, which is loaded with it.
inline FakeCublasLt& fake_cublaslt(const char* path) {
  void* handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  using Get = FakeCublasLt* (*)();
  return *reinterpret_cast<Get>(::dlsym(handle, "codetta_fake_cublaslt"))();
}

}  // namespace codetta::test
