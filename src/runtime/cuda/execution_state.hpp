// SPDX-License-Identifier: Apache-2.0
// What a CUDA Execution holds. Private to the files that make and run it. Everything is resolved in prepare: steps
// whose sizes only a run knows are refused.
#pragma once

#include <vector>

#include "runtime/cuda/execution.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/cuda/user_launch.hpp"
#include "runtime/cuda/vendor_launch.hpp"
#include "runtime/forms.hpp"

namespace codetta::runtime::cuda {

struct Execution::State {
  struct Active {
    const package::Step* step = nullptr;
    int32_t launch = -1, vendor = -1, user = -1;
  };

  package::PackageRef package;
  DeviceRef device;
  std::vector<ModuleRef> modules;
  CublasLtHandleRef vendor;
  NvtxRef ranges;
  Bindings bindings;
  bool checked = true;
  Symbols symbols;
  std::vector<Launch> launches;
  std::vector<VendorLaunch> vendor_launches;
  std::vector<UserLaunch> user_launches;
  std::vector<std::vector<Active>> lists;  // the main list, then child lists
  std::vector<StaticView> views;
  std::vector<const package::Fill*> once;
  std::vector<DeviceBuffer> constants;
  std::vector<std::optional<int64_t>> pool_offset;
  std::vector<int64_t> pool_bytes;
  std::map<uint32_t, int64_t> own_offset;  // live Allocate buffers
  OffsetSpace own;
  int64_t pools_end = 0;      // a multiple of workspace_alignment
  int64_t scratch_bytes = 0;  // of all launches: each keeps counters of its own
  DeviceBuffer own_workspace;

  [[nodiscard]] int64_t temporary_bytes() const {
    return pools_end + (own.bytes() + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  }
  [[nodiscard]] int64_t bytes() const { return temporary_bytes() + scratch_bytes; }
  Result<void> prepare();
  Result<void> check_places() const;
  Result<void> bind_constants();
  Result<void> place(DeviceAddress memory);

  Result<void> run_list(size_t list, StreamHandle stream) const;
  Result<void> run_step(const package::Step& step, StreamHandle stream) const;
  Result<void> fill(const package::Fill& step, StreamHandle stream) const;
  Result<bool> holds(uint32_t predicate, StreamHandle stream) const;

  class Preparing;
};

}  // namespace codetta::runtime::cuda
