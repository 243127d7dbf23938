// SPDX-License-Identifier: Apache-2.0
#include "fibers.hpp"

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "metal_stub/metal_hooks.h"

namespace codetta::metal_run {
namespace {

constexpr size_t stack_bytes = size_t{192} << 10;

// Threads that meet: all of them, or those of a SIMD group.
struct Meeting {
  int waiting = 0, generation = 0;
};

struct Group {
  std::vector<ucontext_t> contexts;
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<bool> ended;
  std::vector<int> order;
  ucontext_t scheduler{};
  const std::function<void(int)>* body = nullptr;
  int current = 0, left = 0;
  int64_t moves = 0;  // fibers that went on, not only looked
  bool gave_up = false;
  Meeting all;
  std::vector<Meeting> simd;
  std::vector<std::vector<char>> exchanged;  // by SIMD group
};
Group* group = nullptr;

void enter() {
  (*group->body)(group->current);
  group->ended[static_cast<size_t>(group->current)] = true;
  --group->left;
  ++group->moves;
  swapcontext(&group->contexts[static_cast<size_t>(group->current)], &group->scheduler);
}

void yield() { swapcontext(&group->contexts[static_cast<size_t>(group->current)], &group->scheduler); }

void meet(Meeting& meeting, int count) {
  const int generation = meeting.generation;
  ++group->moves;
  if (++meeting.waiting == count) {
    meeting.waiting = 0;
    ++meeting.generation;
    return;
  }
  while (meeting.generation == generation && !group->gave_up) yield();
}

}  // namespace

std::string run_threads(int threads, uint64_t seed, const std::function<void(int)>& body) {
  Group own;
  const auto count = static_cast<size_t>(threads);
  own.contexts.resize(count);
  own.ended.assign(count, false);
  own.simd.resize(count / 32);
  own.exchanged.resize(count / 32);
  own.body = &body;
  own.left = threads;
  group = &own;
  for (size_t i = 0; i < count; ++i) {
    own.stacks.push_back(std::make_unique<char[]>(stack_bytes));
    own.order.push_back(static_cast<int>(i));
    getcontext(&own.contexts[i]);
    own.contexts[i].uc_stack.ss_sp = own.stacks[i].get();
    own.contexts[i].uc_stack.ss_size = stack_bytes;
    own.contexts[i].uc_link = nullptr;
    makecontext(&own.contexts[i], enter, 0);
  }
  std::mt19937_64 random(seed);
  std::shuffle(own.order.begin(), own.order.end(), random);
  std::string failure;
  while (own.left > 0 && failure.empty()) {
    const int64_t before = own.moves;
    for (const int i : own.order) {
      if (own.ended[static_cast<size_t>(i)]) continue;
      own.current = i;
      swapcontext(&own.scheduler, &own.contexts[static_cast<size_t>(i)]);
    }
    if (own.moves == before) failure = std::to_string(own.left) + " threads wait for others that never come";
  }
  group = nullptr;
  return failure;
}

}  // namespace codetta::metal_run

namespace metal_hooks {

using codetta::metal_run::group;

unsigned thread_index_in_simdgroup() { return static_cast<unsigned>(group->current) % 32; }
void threadgroup_barrier() { codetta::metal_run::meet(group->all, static_cast<int>(group->contexts.size())); }
void simdgroup_barrier() { codetta::metal_run::meet(group->simd[static_cast<size_t>(group->current) / 32], 32); }
void simdgroup_gather(const void* own, unsigned bytes, void* all) {
  const auto at = static_cast<size_t>(group->current) / 32;
  std::vector<char>& memory = group->exchanged[at];
  if (memory.size() < size_t{32} * bytes) memory.resize(size_t{32} * bytes);
  std::memcpy(memory.data() + size_t{thread_index_in_simdgroup()} * bytes, own, bytes);
  simdgroup_barrier();
  std::memcpy(all, memory.data(), size_t{32} * bytes);
  simdgroup_barrier();
}

}  // namespace metal_hooks
