// SPDX-License-Identifier: Apache-2.0
// Requests as blocks: what must lie together (views, operands taken over) as one thing with one lifetime.
#pragma once

#include <vector>

#include "plan/memory.hpp"

namespace codetta::plan {

inline constexpr size_t never = SIZE_MAX;

// Which positions of one stream come after which of another, through any chain of waits. Waits inside of a branch or a
// loop are not relied on: they may not happen.
class StreamOrder {
 public:
  // `scope_at`: the innermost scope, by position.
  static Result<StreamOrder> make(const MemoryProblem& problem, const std::vector<uint32_t>& scope_at);
  // The first position of `to` that comes after position `at` of `from`; `never` where no wait orders them.
  [[nodiscard]] size_t release(uint32_t from, size_t at, uint32_t to) const;

 private:
  struct Clock {
    size_t from = 0;             // holds from this position on
    std::vector<size_t> before;  // by stream: its positions < this one are over
  };
  std::vector<std::vector<Clock>> clocks_;  // by stream, by ascending position
};

// Live over [first, last] as the host issues it; on other streams until `release`.
struct Block {
  std::vector<uint32_t> members;  // indices of requests; the first is the one that owns the bytes
  types::Dim bytes;               // as asked for
  int64_t hinted = 0;             // with the hints, rounded up
  uint32_t device = 0, stream = 0;
  size_t first = 0, last = 0;
  std::vector<MemoryRequest::Use> uses;  // by stream, the last one of each; more than one entry: several streams
  bool of_caller = false;                // in the caller's memory
};

struct Blocks {
  std::vector<Block> blocks;
  // By request; requests stand for others by their index.
  std::vector<uint32_t> block_of;
  std::vector<uint32_t> base;        // of a view: what owns the bytes; else the request itself
  std::vector<uint32_t> taken_over;  // the request whose place it takes, no_buffer: none
  std::vector<size_t> first, last;   // with all of a loop that is touched from outside
  std::vector<int64_t> hinted;       // rounded up to the alignment; 0 for views
  std::vector<uint32_t> sorted;      // all requests by buffer
  StreamOrder order;
  int64_t alignment = 64;  // the largest asked for
  size_t positions = 0;    // length of the line
};

// Errors: as plan_memory.
Result<Blocks> make_blocks(const MemoryProblem& problem);

// Whether `late` may lie where `early` lay.
bool comes_after(const Blocks& all, const Block& early, const Block& late);
inline bool in_conflict(const Blocks& all, const Block& a, const Block& b) {
  return !comes_after(all, a, b) && !comes_after(all, b, a);
}

// Says where request i lies if it is a view or takes over an operand; false where it has a place of its own.
bool place_in_others(const MemoryProblem& problem, const Blocks& all, uint32_t i, Placement& placement);

// The smallest multiple of `alignment` that is not below bytes; where bytes is symbolic, for every value.
types::Dim rounded_up(const types::Dim& bytes, int64_t alignment);

// a <= b for all symbols, as far as it can be told.
bool proven_at_most(const types::Dim& a, const types::Dim& b);

}  // namespace codetta::plan
