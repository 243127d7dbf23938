// SPDX-License-Identifier: Apache-2.0
// Ranges that NVIDIA's profilers show on the timeline of the host: opt-in, one for each step, with its kernel's name.
#pragma once

#include <memory>
#include <string>

namespace codetta::runtime::cuda {

// Immutable, thread safe; ranges nest in each thread.
class Nvtx {
 public:
  // Attaches to the profiler whose library this is: `injection`, as NVTX_INJECTION64_PATH names it to version 3, or
  // libnvToolsExt.so.1 of version 2. Null where neither takes ranges: no profiler is listening.
  static std::shared_ptr<const Nvtx> attach(const std::string& injection);

  void push(const char* name) const { (void)push_(name); }
  void pop() const { (void)pop_(); }

 private:
  Nvtx() = default;
  int (*push_)(const char*) = nullptr;
  int (*pop_)() = nullptr;
};
using NvtxRef = std::shared_ptr<const Nvtx>;

// A range while it lives; none where there is nobody to tell.
class NvtxRange {
 public:
  NvtxRange(const Nvtx* nvtx, const std::string& name) : nvtx_(nvtx) {
    if (nvtx_ != nullptr) nvtx_->push(name.c_str());
  }
  ~NvtxRange() {
    if (nvtx_ != nullptr) nvtx_->pop();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const Nvtx* nvtx_;
};

}  // namespace codetta::runtime::cuda
