// SPDX-License-Identifier: Apache-2.0
// What an Execution holds. Private to the files that make and run it.
//
// prepare resolves every step that it can: symbols that follow from what is bound are *static*, and so is all memory,
// every view and every launch that depends on nothing else. What depends on the contents of tensors, on results of
// externs, or on symbols that a child list defines is *late* and is resolved when its step runs. Steps that leave
// nothing to do are dropped, so that a program without late steps runs as a list of launches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/execution.hpp"
#include "runtime/forms.hpp"
#include "runtime/host_ops.hpp"
#include "runtime/launch.hpp"

namespace codetta::runtime {

struct Execution::State {
  // How a buffer got its memory.
  enum class Place : uint8_t { None, Bound, Static, Late, Extern };
  struct Home {
    Place place = Place::None;
    bool own = false;  // Static: of an Allocate, at own_offset in the space
    int64_t own_offset = 0;
  };
  struct Active {
    const package::Step* step = nullptr;
    int32_t launch = -1;  // a static one
    int32_t slot = -1;    // late launches and fills: what they keep between runs
    int32_t start = -1;   // among `starts`
  };
  struct LateLaunch {
    std::optional<Launch> launch;
    std::vector<const std::string*> symbols;  // what it is set for: symbols of the run, their values, forms of tensors
    std::vector<int64_t> values;
  };
  struct OnceFill {  // what was filled
    const void* data = nullptr;
    uint64_t growth = 0;
    int64_t elements = -1;
    bool operator==(const OnceFill&) const = default;
  };
  struct ExternResult {
    std::vector<CodettaTensor> outputs;
    std::string name;  // of the extern
  };

  package::PackageRef package;
  std::vector<KernelEntry> kernels;
  Bindings bindings;
  ExecutionOptions options;

  Symbols symbols;  // static ones, and those of a run while it lasts
  std::vector<Home> homes;
  std::vector<StaticView> static_views;
  std::vector<const package::Fill*> static_once;
  std::vector<std::vector<Active>> lists;  // the main list, then child lists
  std::vector<std::function<void()>> starts;
  std::vector<Launch> launches;
  std::vector<LateLaunch> late_launches;
  std::vector<OnceFill> once_fills;
  std::map<const package::CallExtern*, ExternFunction> externs;
  bool only_launches = false;
  bool wrote = false;                             // in the last run
  std::vector<std::pair<uint32_t, Dims>> filled;  // by the last run: of outputs whose sizes it computes

  std::vector<std::optional<int64_t>> pool_offset;  // static pools, in the workspace
  std::vector<int64_t> pool_bytes;                  // likewise
  OffsetSpace own;
  int64_t pools_end = 0;
  int64_t engine_bytes = 0;
  int64_t alignment = 64;  // largest of a pool or buffer
  Tensor own_workspace;
  std::byte* workspace = nullptr;  // aligned

  std::map<uint32_t, Tensor> blocks,
      pool_blocks;      // late memory by buffer, by pool: kept between runs, grown when needed
  uint64_t growth = 0;  // how often late memory has moved
  Tensor late_scratch;
  std::map<uint32_t, ExternResult> results;
  std::vector<const std::string*> defined;  // symbols of this run, in order, in the steps of the package
  // Kept between runs, so that a run that has been in such places before allocates nothing.
  std::vector<Symbols::node_type> spare_symbols;
  std::vector<int64_t> launch_values;

  [[nodiscard]] int64_t own_begin() const { return (pools_end + alignment - 1) / alignment * alignment; }
  [[nodiscard]] int64_t temporary_bytes() const {
    return own.bytes() == 0 ? pools_end : own_begin() + (own.bytes() + 63) / 64 * 64;
  }
  [[nodiscard]] int64_t bytes() const;

  Result<void> prepare();
  Result<void> bind_constants();
  Result<void> check_donated(const package::Reuse& step) const;  // E0610
  void place(std::byte* memory);
  Result<void> run_steps(ThreadPool& pool);
  void note_filled();
  void end_run();                                                    // symbols and results of externs are dropped
  [[nodiscard]] std::string where(const package::Step* step) const;  // "step 3 (copy)", "list 1, step 0 (fill)"
  void forget_symbols(size_t mark);

  class Preparing;
  class Running;
};

}  // namespace codetta::runtime
