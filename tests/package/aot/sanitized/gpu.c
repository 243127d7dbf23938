/* SPDX-License-Identifier: Apache-2.0
 * The host part of a library for a GPU, over a pretended driver, which launches nothing: calls, bad arguments, and memory
 * that is given back. */
#include <dlfcn.h>

#include "gpu.h"
#define LAST_ERROR gpu_get_last_error
#include "checks.h"

static int (*allocate)(void**, size_t);
static int (*give_back)(void*);
static int (*push)(void*);
static int (*pop)(void**);
static void* context;

static void* memory(size_t bytes) {
  void* made = NULL;
  if (allocate(&made, bytes) != 0) exit(3);
  return made;
}

static void* calls(void* unused) {
  if (push(context) != 0) exit(3);
  for (int64_t m = 0; m < 200; m = m * 3 + 1) {
    uint16_t *x = memory(m > 0 ? (size_t)m * 128 : 2), *w = memory(64 * 128);
    int64_t* i = memory(40);
    float *h = memory(m > 0 ? (size_t)m * 256 : 4), *y = memory(5 * 256);
    CHECK(m > 0 ? 0 : -2, gpu_gpu(x, w, i, (void*)h, (void*)y, m, 5, NULL));
    CHECK(0, gpu_gpu(x, w, NULL, (void*)h, NULL, m, 0, NULL));
    CHECK(-1, gpu_gpu(x, NULL, i, (void*)h, (void*)y, m, 5, NULL));
    CHECK(-1, gpu_gpu(x, w, i, (void*)h, (void*)y, -m - 1, 5, NULL));
    CHECK(-1, gpu_gpu(x, w, i, (void*)h, (void*)y, INT64_MAX, 5, NULL));
    if (m > 0) CHECK(-3, gpu_gpu(x, w, i, (void*)x, (void*)y, m, 5, NULL));
    CHECK(-1, gpu_gpu_tensors(NULL, 5, NULL, 0, NULL));
    CHECK(m > 0, gpu_gpu_workspace_size(m, 5) >= 0);
    CHECK(1, gpu_gpu_workspace_size(INT64_MAX, 5) < 0);
    gpu_gpu_check_contents(NULL);
    void* all[] = {x, w, i, h, y};
    for (int t = 0; t < 5; ++t) give_back(all[t]);
  }
  void* popped = NULL;
  pop(&popped);
  return unused;
}

int main(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*start)(unsigned) = NULL;
  int (*retain)(void**, int) = NULL;
  if (driver == NULL) return 2;
  *(void**)&start = dlsym(driver, "cuInit");
  *(void**)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
  *(void**)&allocate = dlsym(driver, "cuMemAlloc_v2");
  *(void**)&give_back = dlsym(driver, "cuMemFree_v2");
  *(void**)&push = dlsym(driver, "cuCtxPushCurrent_v2");
  *(void**)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
  if (start == NULL || retain == NULL || allocate == NULL || give_back == NULL || push == NULL || pop == NULL) return 2;
  if (start(0) != 0 || retain(&context, 0) != 0) return 2;
  for (int i = 0; i < 3; ++i) {
    in_two_threads(calls);
    gpu_release_memory();
  }
  return 0;
}
