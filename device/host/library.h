// SPDX-License-Identifier: Apache-2.0
// What an emitted library keeps while it is loaded: allocator, threads, workspaces at rest, weights. All of it goes
// when the library is unloaded.
#pragma once

#include <stdlib.h>

#include "device/host/default_floats.h"
#include "device/host/indexed.h"
#include "device/host/lock.h"
#include "device/host/support.h"

namespace codetta::host {

struct Allocator {
  void* (*allocate)(void* self, size_t bytes, size_t alignment) = nullptr;  // null: aligned_alloc
  void (*release)(void* self, void* memory, size_t bytes, size_t alignment) = nullptr;
  void* self = nullptr;

  void* get(i64 bytes) const {
    const auto size = static_cast<size_t>(bytes);
    return allocate != nullptr ? allocate(self, size, 64) : aligned_alloc(64, size);
  }
  void give_back(void* memory, i64 bytes) const {
    if (memory == nullptr) return;
    if (release != nullptr) return release(self, memory, static_cast<size_t>(bytes), 64);
    free(memory);
  }
};

struct Block {
  void* memory = nullptr;
  i64 bytes = 0;
  Allocator from;
};

struct Library {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
  int ready = 0;  // 1 after a successful init
  Allocator allocator;
  Threads callers_threads{};  // run == null: the library's own
  i32 wanted_threads = 0;     // of its own pool; 0: one per processor
  void* pool = nullptr;       // made when a product is first large enough
  static constexpr i32 kept_blocks = 16;
  Block blocks[kept_blocks];  // workspaces at rest

  ~Library();
};
inline Library library;

// ---- threads ----
inline void run_on_own_threads(void*, i32 tasks, void (*task)(void*, i32), void* context) {
  void* pool = __atomic_load_n(&library.pool, __ATOMIC_ACQUIRE);
  if (pool == nullptr) {
    const Locked locked(library.lock);
    pool = library.pool;
    if (pool == nullptr) {
      pool = codetta_engine_threads_make(library.wanted_threads);
      __atomic_store_n(&library.pool, pool, __ATOMIC_RELEASE);
    }
  }
  if (pool != nullptr) return codetta_engine_threads_run(pool, tasks, task, context);
  for (i32 i = 0; i < tasks; ++i) task(context, i);
}

inline Threads current_threads() {
  const Locked locked(library.lock);
  if (library.callers_threads.run != nullptr) return library.callers_threads;
  static const i32 processors = codetta_engine_processors();
  return {library.wanted_threads > 0 ? library.wanted_threads : processors, run_on_own_threads, nullptr};
}

// run == null: `threads` threads of the library's own, 0 for one per processor. No call may be under way.
inline Status set_threads(i32 threads, void (*run)(void*, i32, void (*)(void*, i32), void*), void* self) {
  if (threads < 0 || threads > 4096 || (run != nullptr && threads < 1))
    return fail(bad_argument, "E0701: %d is no number of threads", threads);
  const Locked locked(library.lock);
  if (library.pool != nullptr) codetta_engine_threads_free(library.pool);
  library.pool = nullptr;
  library.callers_threads = {threads, run, self};
  library.wanted_threads = run == nullptr ? threads : 0;
  return ok;
}

// ---- memory ----
inline void drop_blocks() {
  Block dropped[Library::kept_blocks];
  {
    const Locked locked(library.lock);
    for (i32 i = 0; i < Library::kept_blocks; ++i) {
      dropped[i] = library.blocks[i];
      library.blocks[i] = Block();
    }
  }
  for (Block& block : dropped) block.from.give_back(block.memory, block.bytes);
}

inline Block take_block(i64 bytes) {
  Allocator allocator;
  {
    const Locked locked(library.lock);
    Block* best = nullptr;
    for (Block& block : library.blocks) {
      if (block.memory != nullptr && block.bytes >= bytes && (best == nullptr || block.bytes < best->bytes))
        best = &block;
    }
    if (best != nullptr) {
      const Block taken = *best;
      *best = Block();
      return taken;
    }
    allocator = library.allocator;
  }
  const i64 rounded = round_up(bytes, 4096).value;
  return {allocator.get(rounded), rounded, allocator};
}

// Kept for the next call; what is smaller makes room for it.
inline void put_block(Block block) {
  if (block.memory == nullptr) return;
  {
    const Locked locked(library.lock);
    Block* place = nullptr;
    if (block.from.allocate == library.allocator.allocate && block.from.self == library.allocator.self) {
      for (Block& kept : library.blocks) {
        if (kept.memory == nullptr || (kept.bytes < block.bytes && (place == nullptr || place->memory != nullptr)))
          place = &kept;
        if (kept.memory == nullptr) break;
      }
    }
    if (place != nullptr) {
      const Block out = *place;
      *place = block;
      block = out;
    }
  }
  block.from.give_back(block.memory, block.bytes);
}

inline Status set_allocator(void* (*allocate)(void*, size_t, size_t), void (*release)(void*, void*, size_t, size_t),
                            void* self) {
  if ((allocate == nullptr) != (release == nullptr))
    return fail(bad_argument, "E0701: an allocator needs both of its functions, or neither for the default one");
  {
    const Locked locked(library.lock);
    library.allocator = {allocate, release, self};
  }
  drop_blocks();
  return ok;
}

inline Library::~Library() {
  if (pool != nullptr) codetta_engine_threads_free(pool);
  for (Block& block : blocks) block.from.give_back(block.memory, block.bytes);
}

// ---- starting ----
inline bool is_ready() { return __atomic_load_n(&library.ready, __ATOMIC_ACQUIRE) != 0; }

// Once: looks at the processor, then lets `load` fetch what the programs need. A failure leaves all as it was.
inline Status start_library(i32 isa, const char* isa_name, Status (*load)(const char* path), const char* path) {
  const Locked locked(library.starting);
  if (is_ready()) return ok;
  if (!codetta_engine_runs(isa))
    return fail(wrong_machine, "E0403: this library is made for %s, which this processor or system does not offer",
                isa_name);
  CODETTA_OK(load(path));
  __atomic_store_n(&library.ready, 1, __ATOMIC_RELEASE);
  return ok;
}

// ---- calls ----
struct Program {
  Status (*steps)(Frame& frame);
  i32 view_count;
};

// Checks, measures, takes a workspace (the caller's, if there is one) and computes. `measured`: only says how large the
// workspace has to be.
inline Status run(const Program& program, View* views, const cpu::ScalarValue* scalars, void* workspace,
                  i64 workspace_bytes, i64* measured = nullptr) {
  const DefaultFloats floats;
  const Threads threads = current_threads();
  Frame frame;
  frame.views = views;
  frame.scalars = scalars;
  frame.threads = &threads;
  frame.sizes_only = measured != nullptr;
  if (const Status bad = program.steps(frame)) return bad;
  const i64 bytes = frame.bytes();
  if (measured != nullptr) {
    *measured = bytes;
    return ok;
  }
  if (workspace != nullptr && reinterpret_cast<u64>(workspace) % 64 != 0)
    return fail(bad_workspace, "E0605: the workspace is not aligned to 64 bytes");
  if (workspace != nullptr && workspace_bytes < bytes)
    return fail(bad_workspace, "E0611: the workspace is too small: %lld bytes are given, %lld are needed",
                static_cast<long long>(workspace_bytes), static_cast<long long>(bytes));
  Block own;
  if (workspace == nullptr && bytes != 0) {
    own = take_block(bytes);
    if (own.memory == nullptr)
      return fail(no_memory, "E0606: %lld bytes of workspace cannot be allocated", static_cast<long long>(bytes));
    workspace = own.memory;
  }
  frame.memory = static_cast<char*>(workspace);
  frame.running = true;
  const Status status = program.steps(frame);
  unaligned = false;  // what has run may have written
  put_block(own);
  return status;
}

// The steps behind a size that the call has computed: measured now, and run in memory of the library's own.
template <class Steps>
Status run_rest(const Frame& before, const Steps& steps) {
  Frame frame;
  frame.views = before.views;
  frame.scalars = before.scalars;
  frame.threads = before.threads;
  if (const Status bad = steps(frame)) return bad;
  const i64 bytes = frame.bytes();
  Block own;
  if (bytes != 0) {
    own = take_block(bytes);
    if (own.memory == nullptr)
      return fail(no_memory, "E0606: %lld bytes of workspace cannot be allocated", static_cast<long long>(bytes));
  }
  frame.memory = static_cast<char*>(own.memory);
  frame.running = true;
  const Status status = steps(frame);
  put_block(own);
  return status;
}

}  // namespace codetta::host
