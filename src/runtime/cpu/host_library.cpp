// SPDX-License-Identifier: Apache-2.0
// The engine as a shared library, for host modules that are no C++: what they need of device/host/engine.h, exported.
// A pool runs one launch at a time.
#include "device/host/engine.h"

#define CODETTA_HOST_EXPORT extern "C" __attribute__((visibility("default")))

namespace codetta::host {
namespace {

void run_here(void*, i32 tasks, void (*task)(void*, i32), void* context) {
  for (i32 i = 0; i < tasks; ++i) task(context, i);
}

Threads threads_of(void* pool) {
  return {pool == nullptr ? 1 : codetta_engine_threads_size(pool),
          pool == nullptr ? run_here : codetta_engine_threads_run, pool};
}

}  // namespace

// As codetta_engine_threads_make; null: launches run on the calling thread.
CODETTA_HOST_EXPORT void* codetta_host_threads_make(i32 threads) { return codetta_engine_threads_make(threads); }

CODETTA_HOST_EXPORT i64 codetta_host_workspace(void* pool, const GemmConfig* config, const Gemm* gemm,
                                               const Epilogue* epilogue) {
  return codetta_engine_workspace(config, gemm, epilogue, pool == nullptr ? 1 : codetta_engine_threads_size(pool));
}

CODETTA_HOST_EXPORT void codetta_host_run(void* pool, const GemmConfig* config, const Gemm* gemm,
                                          const Epilogue* epilogue, void* workspace) {
  const Threads threads = threads_of(pool);
  codetta_engine_run(config, gemm, epilogue, &threads, workspace);
}

CODETTA_HOST_EXPORT i64 codetta_host_map_workspace(const MapConfig* config, const Gemm* space,
                                                   const Epilogue* epilogue) {
  return codetta_engine_map_workspace(config, space, epilogue);
}

CODETTA_HOST_EXPORT void codetta_host_map_run(void* pool, const MapConfig* config, const Gemm* space,
                                              const Epilogue* epilogue, void* workspace) {
  const Threads threads = threads_of(pool);
  codetta_engine_map_run(config, space, epilogue, &threads, workspace);
}

CODETTA_HOST_EXPORT bool codetta_host_overlap(const Extent* a, const Extent* b) { return codetta_engine_overlap(a, b); }

}  // namespace codetta::host
