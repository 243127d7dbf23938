// SPDX-License-Identifier: Apache-2.0
// Work shared out among the threads of a pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "codetta/threads.hpp"
#include "device/host/default_floats.h"

namespace codetta::runtime::cpu {

// Epilogues may store past the caches, which no release orders with what follows.
inline void finish_stores() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

// f(unit, thread) for every unit below `units`; units are taken in order by whichever of at most `threads` threads is
// free, and each finishes its stores. Without a pool, or with one unit, the calling thread does all. Allocates nothing.
template <class F>
void for_units(ThreadPool* pool, int threads, int64_t units, F&& f) {
  if (pool == nullptr || units <= 1) {
    for (int64_t u = 0; u < units; ++u) f(u, 0);
    finish_stores();
    return;
  }
  struct Shared {
    std::remove_reference_t<F>* f;
    int64_t units;
    std::atomic<int64_t> next{0};
  } shared{&f, units};
  pool->run(
      static_cast<int>(std::min<int64_t>(threads, units)),
      [](void* context, int thread) {
        const codetta::host::DefaultFloats floats;  // the caller has them; this may be another thread
        auto& s = *static_cast<Shared*>(context);
        for (int64_t u = s.next.fetch_add(1, std::memory_order_relaxed); u < s.units;
             u = s.next.fetch_add(1, std::memory_order_relaxed)) {
          (*s.f)(u, thread);
        }
        finish_stores();
      },
      &shared);
}

}  // namespace codetta::runtime::cpu
