// SPDX-License-Identifier: Apache-2.0
// What a CUDA Execution holds. Private to the files that make and run it. Everything is resolved in prepare, but for
// what stands behind a step that only a run knows: a size in device memory, or tensors that a function of the caller's
// allocates. That is a State of its own, made when a run gets there and kept while it would be the same again.
//
// A package of several devices has a stream of its own on each but the first, whose stream is the caller's. Events
// order them: at the begin and the end of a run, and around copies from one to another, as package/device_copies.hpp
// says. Where there is one device there are none.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "package/device_copies.hpp"
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
    int32_t launch = -1, vendor = -1, user = -1, on_elements = -1, between = -1;
    uint32_t device = 0;  // of the package, whose stream it is enqueued on; branches and loops: 0
  };
  // One of the package's devices, for all parts.
  struct Place {
    DeviceRef device;
    std::vector<ModuleRef> modules;  // by kernel
    CublasLtHandleRef vendor;
    std::optional<OwnedStream> stream;  // none of the first: the caller's
    std::optional<OwnedEvent> event;    // what the others wait for; none where there is one device
  };
  // What lies in the memory of one of them.
  struct Memory {
    OffsetSpace own;
    int64_t pools_end = 0;  // a multiple of workspace_alignment
    // Of all launches: each keeps counters of its own, which lie together behind the temporaries. What they need while
    // they run lies behind those, at one place: they run one after the other. What copies between devices bring is read
    // beside others, and lies behind that.
    int64_t counter_bytes = 0, scratch_bytes = 0, piece_bytes = 0;
    DeviceBuffer workspace;       // none where it is the caller's
    DeviceAddress placed_at = 0;  // wherever it is
    FaultWord fault;              // of all launches; none where none of them looks at contents
    [[nodiscard]] int64_t temporary_bytes() const {
      return pools_end + (own.bytes() + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
    }
    [[nodiscard]] int64_t bytes() const { return temporary_bytes() + counter_bytes + scratch_bytes + piece_bytes; }
  };
  // A Copy from one device to another, in row-major pieces: what lies in others is gathered in front, and scattered
  // behind.
  struct Between {
    package::DeviceCopy order;
    int32_t gather = -1, scatter = -1;  // of step_launches
  };

  // The steps behind one that only a run knows, and for what they were resolved.
  struct Late {
    const package::Step* cause = nullptr;  // a DefineSymbol of a value, or a CallExtern of alloc-form
    size_t list = 0;                       // where it stands: 0 the main list, then child lists
    size_t first = 0;                      // of that list: the step behind it
    std::vector<uint32_t> scope;           // the devices around it, from the outermost
    std::unique_ptr<State> rest;
    std::vector<int64_t> made_for;
    std::vector<OwnedEvent> ran;  // behind the work of `rest`, by device
    // Of the one before, by device: the next one may have them.
    std::vector<DeviceBuffer> workspaces;
    std::vector<FaultWord> faults;
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
  std::shared_ptr<const std::vector<Place>> places;  // by device of the package
  NvtxRef ranges;
  Bindings bindings;
  bool checked = true, contents = true;
  bool unaligned = false;  // it fails for what another package need not rely on
  FromOutside outside;
  std::map<const package::CallExtern*, ExternFunction> externs;
  Allocator* allocator = nullptr;
  // The list that lists[0] is the end of, and its first step: what stands before it is behind us.
  size_t root = 0, first = 0;
  std::vector<uint32_t> scope{0};                // the devices around it
  std::map<size_t, std::unique_ptr<Late>> late;  // by list: of its end
  std::shared_ptr<Results> results;              // of all parts
  std::shared_ptr<Watch> watch;                  // of all parts; null where nobody observes
  Symbols symbols;
  std::vector<Launch> launches;
  std::vector<VendorLaunch> vendor_launches;
  std::vector<UserLaunch> user_launches;
  std::vector<StepLaunch> step_launches;
  std::vector<Between> between;
  mutable std::optional<Error> found;      // by what is gone; check_faults() tells it
  mutable bool wrote = false;              // in the last run
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
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> selected;  // by buffer: result and output that it is
  std::map<uint32_t, int64_t> own_offset;                      // live Allocate buffers
  std::vector<Memory> memory;                                  // by device of the package
  bool wants_graph = false;
  std::optional<OwnedGraph> graph;  // last: it goes before what it uses

  [[nodiscard]] const Device& device(uint32_t which = 0) const { return *(*places)[which].device; }
  [[nodiscard]] bool several() const { return places->size() > 1; }
  // What the steps of a device are enqueued on in a run on the caller's stream.
  [[nodiscard]] StreamHandle stream_of(uint32_t which, StreamHandle callers) const {
    return which == 0 ? callers : (*places)[which].stream->get();
  }
  // ", device = 1" where there are several, for messages.
  [[nodiscard]] std::string on_device(uint32_t which) const;
  // Places of a package of several devices. Captures of streams stay valid. Errors: E0642 too few, E0643 and its kin.
  static Result<std::vector<Place>> make_places(const package::Package& package, Place first,
                                                std::vector<GpuOptions::Further> further);
  Result<void> prepare();
  // Workspaces and parameters, behind prepare().
  Result<void> settle();
  // All steps as one graph, anew; nothing where none is wanted.
  Result<void> capture();
  void bring_to_declared_rank();
  Result<void> check_places() const;
  // Where another package may take over, it is asked here what launches behind `late` would refuse in a run
  // (package::look_ahead). Errors: E0610, with `unaligned`.
  Result<void> check_late_places();
  Result<void> bind_constants();
  // Where Memory::placed_at says.
  Result<void> place();
  // Errors: what kernels of this execution have found since it was asked last (E0618, E0619), in an earlier run or in
  // this one.
  Result<void> check_faults(FoundIn run = FoundIn::EarlierRun) const;

  // `stream` is the caller's in all of them. Of several devices run_list() makes each the thread's current one for its
  // steps.
  Result<void> run_all(StreamHandle stream) const;
  Result<void> run_list(size_t list, StreamHandle stream) const;
  Result<void> run_active(const Active& active, StreamHandle stream) const;
  // The other devices begin behind what the stream holds, and it goes on behind what they hold; nothing for one device.
  // `begun`: which of them do, from the first on; a stream that does not is no part of the caller's capture.
  Result<void> fork(StreamHandle stream, uint32_t& begun) const;
  Result<void> join(StreamHandle stream, uint32_t begun) const;
  // The stream of `later` goes on behind what that of `earlier` holds.
  Result<void> order(uint32_t earlier, uint32_t later, StreamHandle stream) const;
  Result<void> copy_between(const Between& copy, StreamHandle stream) const;
  // Waits for a step that began at `begin`, and tells of it.
  Result<void> tell(const package::Step& step, int64_t begin, uint32_t device, StreamHandle stream) const;
  // From here on `stream` is that of the step's device, which is current.
  Result<void> run_on_elements(int32_t which, StreamHandle stream) const;
  Result<void> run_step(const Active& active, StreamHandle stream) const;
  Result<void> fill(const package::Fill& step, StreamHandle stream) const;
  Result<void> call(const package::CallExtern& step, StreamHandle stream) const;
  // What a late part waits for, then the rest of its list; `stream` is the caller's.
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
  Result<bool> holds(uint32_t predicate, StreamHandle stream) const;  // the caller's

  class Preparing;
};

}  // namespace codetta::runtime::cuda
