// SPDX-License-Identifier: Apache-2.0
#include "fibers.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "emulator/fibers.hpp"
#include "metal_stub/metal_hooks.h"

namespace codetta::metal_run {
namespace {

// Threads that meet: all of them, or those of a SIMD group.
struct Meeting {
  int waiting = 0, generation = 0;
};

struct Group {
  std::vector<emulator::Context> contexts;
  std::vector<bool> ended;
  std::vector<int> order;
  emulator::Context scheduler;
  const std::function<void(int)>* body = nullptr;
  int current = 0, left = 0;
  int64_t moves = 0;  // fibers that went on, not only looked
  bool gave_up = false;
  Meeting all;
  std::vector<Meeting> simd;
  std::vector<std::vector<char>> exchanged;  // by SIMD group
};
Group* group = nullptr;
emulator::Stacks stacks;  // kept: groups follow each other by the thousand

void enter() {
  emulator::arrived(group->scheduler);
  (*group->body)(group->current);
  group->ended[static_cast<size_t>(group->current)] = true;
  --group->left;
  ++group->moves;
  emulator::change(group->contexts[static_cast<size_t>(group->current)], group->scheduler, true);
}

void yield() { emulator::change(group->contexts[static_cast<size_t>(group->current)], group->scheduler); }

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
  if (!stacks.reserve(count)) return "no memory for the stacks of a threadgroup";
  group = &own;
  for (size_t i = 0; i < count; ++i) {
    own.order.push_back(static_cast<int>(i));
    own.contexts[i] = stacks.start(i, enter);
  }
  std::mt19937_64 random(seed);
  std::shuffle(own.order.begin(), own.order.end(), random);
  std::string failure;
  while (own.left > 0 && failure.empty()) {
    const int64_t before = own.moves;
    for (const int i : own.order) {
      if (own.ended[static_cast<size_t>(i)]) continue;
      own.current = i;
      emulator::change(own.scheduler, own.contexts[static_cast<size_t>(i)]);
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
