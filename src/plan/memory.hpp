// SPDX-License-Identifier: Apache-2.0
// Memory planning: from buffers with lifetimes to a place for each. It knows nothing of graphs, kernels or packages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codetta/error.hpp"
#include "codetta/tensor.hpp"
#include "types/dim.hpp"

namespace codetta::plan {

inline constexpr uint32_t no_buffer = UINT32_MAX;

// Positions are the places of steps in one line that all scopes share: a branch or a loop body takes a consecutive part
// of it. A position is one step, which reads and writes at the same time: what ends there meets what begins there.
struct MemoryRequest {
  enum class Storage : uint8_t {
    Temporary,  // placed by the plan
    Output,     // memory of the caller, never reused
    Input,      // memory of the caller, never reused
    Donated,    // memory of the caller, free for others after the last use
  };
  struct Use {  // on another stream of the device
    uint32_t stream = 0;
    size_t last = 0;
  };

  uint32_t buffer = 0;          // any number, once
  types::Dim bytes;             // >= 0 for all symbols; 0 takes no place
  std::optional<int64_t> hint;  // of symbolic bytes; it ranks, and is never relied on
  size_t known_from = 0;        // the first position at which the bytes are known; those of one pool agree in it
  int64_t alignment = 64;       // a power of two
  uint32_t device = 0;
  uint32_t stream = 0;  // where `first` is; streams are numbered over all devices
  DType dtype = DType::f32;
  uint32_t scope = 0;          // index into MemoryProblem::scopes
  size_t first = 0, last = 0;  // positions on `stream`, both included
  std::vector<Use> elsewhere;
  Storage storage = Storage::Temporary;
  uint32_t view_of = no_buffer;  // shares that buffer's bytes, takes none of its own
  // Operands that this buffer may take over: the step at `first` reads them at the element that it writes and nowhere
  // else, and reads them through no other buffer. The caller has proven that; the planner proves the rest.
  std::vector<uint32_t> in_place_of;
};

// A part of the line that runs as a whole: not at all (the other branch), once, or again and again.
struct MemoryScope {
  enum class Kind : uint8_t { Block, Loop };
  uint32_t parent = 0;  // an earlier scope; scope 0 is its own parent and takes the whole line
  size_t begin = 0, end = 0;
  Kind kind = Kind::Block;
};

// What `from` did at positions <= record comes before what `to` does at positions >= wait; record < wait.
struct MemoryWait {
  uint32_t from = 0, to = 0;
  size_t record = 0, wait = 0;
};

// A buffer of an outer scope that a loop touches lives through all of the loop; a buffer of the loop itself only for a
// turn. The two branches of an If are disjoint parts of the line, so their buffers share memory.
struct MemoryProblem {
  std::vector<MemoryRequest> requests;
  std::vector<MemoryScope> scopes;  // empty: one block
  std::vector<MemoryWait> waits;
};

struct Placement {
  enum class Kind : uint8_t {
    Caller,   // memory that the caller gives
    Fresh,    // an allocation of its own
    Reuse,    // inside of the allocation of `of`, whose uses are over, `offset` bytes behind it
    InPlace,  // takes over the operand `of`
    View,     // bytes of `of`
    Pool,     // `offset` bytes behind the start of pool `pool`
  };
  Kind kind = Kind::Fresh;
  uint32_t of = no_buffer;
  uint32_t pool = 0;
  types::Dim offset;              // the largest of `terms` where there are any
  std::vector<types::Dim> terms;  // sums of sizes; filled where `offset` is symbolic
  int64_t hinted = 0;             // offset with the hints
};

// One allocation for a whole run.
struct MemoryPool {
  uint32_t device = 0;
  types::Dim bytes;
  int64_t hinted = 0;  // bytes with the hints
  int64_t alignment = 64;
};

// Bytes are rounded up to the alignment, and are those of the hints where sizes are symbolic. Memory of the caller is
// not counted, nor is what lies in it: a bound takes off what is donated and over by then.
struct MemoryReport {
  bool symbolic = false;
  int64_t lower_bound = 0;        // the largest sum of live bytes, added over devices: no plan needs less
  int64_t peak = 0;               // what the plan allocates at most
  int64_t unshared = 0;           // every buffer on its own
  std::vector<int64_t> live;      // by position
  std::vector<int64_t> occupied;  // by position: up to the end of the last live byte, or allocated
  size_t in_place = 0, reused = 0;
};

struct MemoryPlan {
  std::vector<Placement> placements;  // as the requests
  std::vector<MemoryPool> pools;
  MemoryReport report;
};

struct MemoryOptions {
  enum class Mode : uint8_t {
    Pools,  // a pool for each device, offsets by search
    Reuse,  // for hosts that allocate buffer by buffer: whole allocations change hands, with a guard on the peak
  };
  Mode mode = Mode::Pools;
  size_t candidates = 8;  // freed buffers looked at for each new one, the newest first
};

// The plan depends on what is asked, not on the order of the requests. Near-linear in time and memory.
// Errors: E0603 sizes that leave 64 bits, E0901 a malformed problem.
Result<MemoryPlan> plan_memory(const MemoryProblem& problem, const MemoryOptions& options = {});

// Names of buffers for the reports, by MemoryRequest::buffer.
using BufferNames = std::vector<std::string>;
std::string to_string(const MemoryProblem& problem, const MemoryPlan& plan, const BufferNames& names);
std::string to_json(const MemoryProblem& problem, const MemoryPlan& plan, const BufferNames& names);

}  // namespace codetta::plan
