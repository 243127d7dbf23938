// SPDX-License-Identifier: Apache-2.0
// The state of the pretended driver (fake_driver.cpp), for tests to set and to read.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/abi.hpp"
#include "unit/runtime_cuda/fake_log.hpp"
#include "unit/runtime_cuda/fake_order.hpp"

namespace codetta::test {

struct FakeLaunch {
  runtime::cuda::LaunchConfig config{};
  std::vector<runtime::cuda::LaunchAttribute> attributes;
  std::string function;
  std::vector<std::byte> parameters;         // the first parameter's first `parameter_bytes` bytes
  std::vector<std::vector<std::byte>> each;  // all parameters, where `parameter_sizes` knows the function
};

struct FakeTensorMap {
  int dtype = 0;
  uint32_t rank = 0;
  const void* address = nullptr;
  std::vector<uint64_t> sizes, strides;
  std::vector<uint32_t> box;
  int swizzle = 0;
  std::vector<uint32_t> steps{};
  int interleave = 0, promotion = 0, fill = 0;
  bool im2col = false;
  std::vector<int> lower{}, upper{};
  uint32_t channels = 0, pixels = 0;
};

struct FakeDriver {
  // What it pretends.
  int version = 13000;
  int devices = 2;
  int major = 9, minor = 0;
  std::map<std::string, runtime::cuda::Status> fail;  // by symbol: what the call gives instead of working
  std::map<std::string, size_t> works_before{};       // by symbol: how many calls work before that
  std::map<std::string, size_t> fails_only{};         // by symbol: how many fail then, before calls work again
  size_t memory_limit = size_t{1} << 30;              // of one allocation
  // Of what a launch passes first that much is kept, of a kernel of steps no more than it takes. A launch that
  // passes less may not be made while this is set.
  size_t parameter_bytes = 0;
  std::map<std::string, std::vector<size_t>> parameter_sizes;  // by function: bytes of each parameter
  bool cooperative = true;
  int window_bytes = 134213632;  // of L2, for one launch
  bool managed = false;          // all memory, so that tensors may lie in that of the test
  bool has_tensor_maps = true;   // from 9.0 on
  int max_threads = 384;         // of a block, of every kernel
  bool computes = false;         // launches of "codetta_gemm" store the f32 product, for kernels without tensor maps
  bool moves = false;            // launches of "codetta_step_move" do what they are asked for
  // Whether work is looked at: that it is of the context of its thread, uses memory of its device alone but for copies
  // from place to place, and is ordered behind work of other streams on the same memory. What is wrong is told there.
  bool looks = false;
  std::vector<std::string> wrong{};
  bool can_reach = true;                           // devices each other's memory
  std::map<int, runtime::cuda::Status> fail_on{};  // by device: what launches there give
  std::map<int, size_t> memory_limit_of{};         // of one allocation, by device
  // What happened.
  FakeLog log;
  std::vector<std::string> calls;  // symbols, in order
  std::vector<FakeLaunch> launches;
  std::vector<FakeTensorMap> tensor_maps;
  std::map<uint64_t, size_t> allocations;     // address -> bytes
  std::map<uint64_t, int> owners;             // address -> device
  std::set<const void*> streams;              // alive
  std::set<const void*> capturing;            // streams under capture
  std::set<const void*> invalidated;          // those whose capture an unsafe call has spoiled
  std::map<const void*, const void*> forked;  // of these: that have become part of another one's capture
  std::vector<FakeLaunch> captured;           // of the stream that was captured last
  int graphs = 0, executables = 0;            // alive
  bool implicit_capture = false;              // a blocking stream of the context is captured
  std::map<std::string, int> dynamic_shared;  // by function
  int modules = 0, events = 0, retained = 0;  // alive
  std::set<std::pair<int, int>> peers;        // device, and whose memory it reaches
  FakeOrder order;
  int pinned = 0;                                        // pieces of host memory, alive
  std::map<std::thread::id, std::vector<void*>> stacks;  // of contexts, by thread
  int capture_mode = 0;

  void reset() { *this = FakeDriver(); }
  std::vector<void*>& contexts() { return stacks[std::this_thread::get_id()]; }  // of the calling thread
  [[nodiscard]] size_t count(const std::string& symbol) const {
    size_t n = 0;
    for (const std::string& call : calls) n += call == symbol ? 1 : 0;
    return n;
  }
};

// The state inside of the library at `path`, which is loaded with it.
inline FakeDriver& fake_driver(const char* path) {
  void* handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  using Get = FakeDriver* (*)();
  return *reinterpret_cast<Get>(::dlsym(handle, "codetta_fake_driver"))();
}

}  // namespace codetta::test
