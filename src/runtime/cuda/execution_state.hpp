// SPDX-License-Identifier: Apache-2.0
// What a CUDA Execution holds. Private to the files that make and run it. Everything is resolved in prepare, but for
// what stands behind a step that only a run knows: a size in device memory, or tensors that a function of the caller's
// allocates. That is a State of its own, made when a run gets there and kept while it would be the same again.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "runtime/cuda/execution.hpp"
#include "runtime/cuda/launch.hpp"
#include "runtime/cuda/step_launch.hpp"
#include "runtime/cuda/stream.hpp"
#include "runtime/cuda/user_launch.hpp"
#include "runtime/cuda/vendor_launch.hpp"
#include "runtime/forms.hpp"

namespace codetta::runtime::cuda {

struct Execution::State {
  struct Active {
    const package::Step* step = nullptr;
    int32_t launch = -1, vendor = -1, user = -1, on_elements = -1;
  };

  // The steps behind one that only a run knows, and for what they were resolved.
  struct Late {
    const package::Step* cause = nullptr;  // a DefineSymbol of a value, or a CallExtern of alloc-form
    size_t list = 0;                       // where it stands: 0 the main list, then child lists
    size_t first = 0;                      // of that list: the step behind it
    std::unique_ptr<State> rest;
    std::vector<int64_t> made_for;
    std::optional<OwnedEvent> ran;  // behind the work of `rest`
    DeviceBuffer workspace;         // of the one before: the next one may have it
    FaultWord fault;
  };
  // What functions of the caller's have allocated in this run, by result.
  using Results = std::vector<std::vector<CodettaTensor>>;
  // Of runs that are observed.
  struct Watch {
    Observer observer;
    std::chrono::steady_clock::time_point began;  // of the run
    [[nodiscard]] int64_t now() const {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - began).count();
    }
  };

  package::PackageRef package;
  DeviceRef device;
  std::vector<ModuleRef> modules;
  CublasLtHandleRef vendor;
  NvtxRef ranges;
  Bindings bindings;
  bool checked = true, contents = true;
  bool unaligned = false;  // it fails for what another package need not rely on
  FromOutside outside;
  std::map<const package::CallExtern*, ExternFunction> externs;
  Allocator* allocator = nullptr;
  // The list that lists[0] is the end of, and its first step: what stands before it is behind us.
  size_t root = 0, first = 0;
  std::map<size_t, std::unique_ptr<Late>> late;  // by list: of its end
  std::shared_ptr<Results> results;              // of all parts
  std::shared_ptr<Watch> watch;                  // of all parts; null where nobody observes
  Symbols symbols;
  std::vector<Launch> launches;
  std::vector<VendorLaunch> vendor_launches;
  std::vector<UserLaunch> user_launches;
  std::vector<StepLaunch> step_launches;
  mutable std::optional<Error> found;      // by what is gone; check_faults() tells it
  mutable bool wrote = false;              // in the last run
  FaultWord fault;                         // of all of them; none where none of them looks at contents
  std::vector<std::vector<Active>> lists;  // the list of `root`, then child lists
  std::vector<StaticView> views;
  struct Once {
    const package::Fill* step;
    int32_t on_elements;
  };
  std::vector<Once> once;
  std::vector<DeviceBuffer> constants;
  std::vector<std::optional<int64_t>> pool_offset;
  std::vector<int64_t> pool_bytes;
  std::vector<std::optional<DeviceAddress>> pool_address;      // of those that an earlier part has placed
  DeviceAddress placed_at = 0;                                 // the workspace
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> selected;  // by buffer: result and output that it is
  std::map<uint32_t, int64_t> own_offset;                      // live Allocate buffers
  OffsetSpace own;
  int64_t pools_end = 0;  // a multiple of workspace_alignment
  // Of all launches: each keeps counters of its own, which lie together behind the temporaries.
  int64_t counter_bytes = 0, scratch_bytes = 0;
  DeviceBuffer own_workspace;
  bool wants_graph = false;
  std::optional<OwnedGraph> graph;  // last: it goes before what it uses

  [[nodiscard]] int64_t temporary_bytes() const {
    return pools_end + (own.bytes() + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  }
  [[nodiscard]] int64_t bytes() const { return temporary_bytes() + counter_bytes + scratch_bytes; }
  Result<void> prepare();
  // Workspace and parameters, behind prepare().
  Result<void> settle();
  // All steps as one graph, anew; nothing where none is wanted.
  Result<void> capture();
  void bring_to_declared_rank();
  Result<void> check_places() const;
  // Where another package may take over, it is asked of the caller's tensors here what launches behind `late` would
  // refuse in a run: as if factors began where these tensors do. Errors: E0610, with `unaligned`.
  Result<void> check_late_places();
  Result<void> bind_constants();
  Result<void> place(DeviceAddress memory);
  // Errors: what kernels of this execution have found since it was asked last (E0618, E0619), in an earlier run or in
  // this one.
  Result<void> check_faults(FoundIn run = FoundIn::EarlierRun) const;

  Result<void> run_list(size_t list, StreamHandle stream) const;
  Result<void> run_active(const Active& active, StreamHandle stream) const;
  // Waits for a step that began at `begin`, and tells of it.
  Result<void> tell(const package::Step& step, int64_t begin, StreamHandle stream) const;
  Result<void> run_on_elements(int32_t which, StreamHandle stream) const;
  Result<void> run_step(const package::Step& step, StreamHandle stream) const;
  Result<void> fill(const package::Fill& step, StreamHandle stream) const;
  Result<void> call(const package::CallExtern& step, StreamHandle stream) const;
  // What a late part waits for, then the rest of its list.
  Result<void> run_late(Late& part, StreamHandle stream) const;
  Result<void> make_rest(Late& part, Symbols known) const;
  // Waits for the work of what a late part has made; what its kernels have found is kept for check_faults().
  Result<void> end_late(Late& part) const;
  // The end of this state's own list.
  [[nodiscard]] const Late* own_late() const {
    const auto at = late.find(0);
    return at == late.end() ? nullptr : at->second.get();
  }
  void release_results() const;
  static void release_results(std::vector<CodettaTensor>& outputs);
  // What a run of the list and of the lists that it may run has to wait for: the first. A number of the caller's has
  // decided which branches are not run.
  [[nodiscard]] const Late* late_in(size_t list) const;
  Result<bool> holds(uint32_t predicate, StreamHandle stream) const;

  class Preparing;
};

}  // namespace codetta::runtime::cuda
